"""Every setting: key, unit, default and check, in one table.

Read in this order, later wins: the defaults here, `config.toml` in the home, `TQSTUDIO_<KEY>` in the
environment, what a command's flags say.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from tqstudio import path_checks, toml_files
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

GB = 1_000_000_000
_KINDS = {"float": "a number", "int": "a whole number", "bool": "true or false", "string": "a text"}
"""How an error of a type begins, and what people call the type."""
_BOUNDS = {"gt": ">", "ge": "≥", "le": "≤"}


class Settings(BaseSettings):
    """The thresholds of the engine. Names ending in `_s` are seconds, in `_bytes` bytes."""

    model_config = SettingsConfigDict(
        env_prefix="TQSTUDIO_", extra="ignore", frozen=True, allow_inf_nan=False
    )

    heartbeat_s: float = Field(10, gt=0, description="between two heartbeats of a worker, and their flush")
    lease_s: float = Field(60, gt=0, description="how long a claim holds without a heartbeat")
    scan_s: float = Field(15, gt=0, description="between two scans for expired leases, ±10 %")
    offline_s: float = Field(
        60,
        gt=0,
        description="without a heartbeat after which a worker is offline, and replaced if it is local",
    )
    grace_s: float = Field(60, ge=0, description="how long remote workers have to find a new supervisor")
    stall_s: float = Field(120, gt=0, description="without progress after which ffmpeg is killed")
    time_limit_factor: float = Field(
        20, gt=0, description="length of a source × this is the time an attempt at 720p may take"
    )
    time_limit_min_s: float = Field(300, gt=0, description="lower bound of that time, for every size")
    time_limit_max_s: float = Field(12 * 3600, gt=0, description="upper bound of that time, for every size")
    long_poll_s: float = Field(20, gt=0, le=60, description="how long a claim waits for a job")
    gpu_grace_s: float = Field(60, ge=0, description="how long a job waits for an idle GPU before any CPU")

    max_attempts: int = Field(3, ge=1, le=100, description="failures after which a job has failed")
    max_crashes: int = Field(
        3, ge=1, le=100, description="workers lost in a row, nothing finished between, that make POISON"
    )
    backoff_s: float = Field(30, ge=0, description="before the second attempt; doubles with each further one")
    backoff_max_s: float = Field(600, ge=0, description="upper bound of the backoff")

    keep_old_s: float = Field(3600, ge=0, description="how long a replaced generation stays for its players")
    keep_completed: bool = Field(
        True, description="what a failed attempt finished is not made again by the next one"
    )
    keep_failed_work_s: float = Field(
        7 * 86400, ge=0, description="how long unfinished work of failed and cancelled jobs is kept"
    )
    cleanup_partial: bool = Field(
        True,
        description="remove such work after that time, when its job is deleted and when the disk is full",
    )
    event_retention_s: float = Field(30 * 86400, gt=0, description="how long events are kept")

    quarantine_after: int = Field(
        3,
        ge=0,
        le=100,
        description="different jobs failed in a row after which a worker has to pass a test encode; 0: never",
    )

    max_load: float = Field(
        0, ge=0, description="load per processor above which no further job begins; 0 is any"
    )
    min_memory_bytes: int = Field(
        256_000_000, ge=0, description="available memory below which no further job begins"
    )
    disk_reserve_bytes: int = Field(2 * GB, ge=0, description="free space that is never used")
    disk_factor: float = Field(
        1.5, gt=0, description="estimated size of a ladder as a multiple of its source"
    )

    drain_s: float = Field(15, ge=0, description="how long SIGTERM lets running jobs go on")
    workers: int = Field(0, ge=0, le=256, description="CPU workers; 0 chooses by processors and memory")
    gpu: bool = Field(True, description="look for GPU encoders and start a worker for each device")
    ffmpeg: str = Field("", description="path of the ffmpeg to use; empty chooses the newest")
    ffmpeg_nice: int = Field(10, ge=0, le=19, description="niceness of ffmpeg, so that commands stay quick")
    profile: str = Field("web", description="profile of files and folders that name none")
    output: str = Field("", description="where ladders go by default; empty means the home's own folder")

    allow_shared_output: bool = Field(
        False, description="write to outputs that other users may write to as well"
    )

    settle_s: float = Field(5, ge=0, description="how long a file must stay unchanged to count as complete")
    rescan_s: float = Field(30, gt=0, description="between two looks through the drop folders")

    probe_s: float = Field(30, gt=0, description="how long the background probe may look at one file")
    probe_memory_bytes: int = Field(GB, gt=0, description="address space that the background probe may use")
    probe_idle_s: float = Field(30, ge=0, description="how long the background probe stays without work")

    sse_keepalive_s: float = Field(30, gt=0, description="between two comments on an idle event stream")
    sse_reconnect_s: float = Field(3, gt=0, description="what an event stream tells clients to wait")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        toml = TomlConfigSettingsSource(settings_cls, toml_file=_toml_file)
        return init_settings, env_settings, toml


_toml_file: Path | None = None


def load_settings(home: Home, **flags: Any) -> Settings:
    """The settings of this home.

    Args:
        flags: values from the command line; None means not given.

    Raises:
        TqError: BAD_CONFIG, naming the key and what is allowed, for a wrong or unknown value; PERMISSION for
            a file that may not be read.
    """
    global _toml_file
    home.require_owner()
    _toml_file = home.config if path_checks.is_file(home.config) else None
    given = {key: value for key, value in flags.items() if value is not None}
    try:
        if _toml_file is not None:
            _refuse_unknown(_toml_file)
        settings = Settings(**given)
        _require_beats_in_time(settings)
        return settings
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        variable = f"TQSTUDIO_{key.upper()}"
        where = f"{variable} in the environment"
        if variable not in map(str.upper, os.environ):
            where = f"{key} in {_place(home.config, key)}"
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the setting {key} is wrong: it is {first.get('input')!r} and has to be {_needed(first)}",
            f"correct {where}",
        ) from None
    except PermissionError as error:
        raise path_checks.refused(home.config, error) from None
    except (OSError, toml_files.Unusable) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TqError(
            ErrorCode.BAD_CONFIG, f"{home.config} cannot be read: {why}", f"correct {home.config}"
        ) from None
    finally:
        _toml_file = None


def _needed(error: ErrorDetails) -> str:
    kind = error["type"].partition("_")[0]
    return _KINDS.get(kind) or error["msg"].removeprefix("Input should be ")


def _require_beats_in_time(settings: Settings) -> None:
    """A healthy worker, one beat of which is late, has to keep its job and its life."""
    for key in ("lease_s", "offline_s"):
        allowed_s: float = getattr(settings, key)
        if allowed_s < 2 * settings.heartbeat_s:
            raise TqError(
                ErrorCode.BAD_CONFIG,
                f"the setting {key} is too short: {allowed_s:g} s with a heartbeat every"
                f" {settings.heartbeat_s:g} s",
                f"make {key} at least twice heartbeat_s",
            )


def _refuse_unknown(path: Path) -> None:
    known = set(Settings.model_fields)
    unknown = sorted(set(toml_files.read(path)) - known)
    if unknown:
        close = get_close_matches(unknown[0].lower(), known, n=1)
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"{_place(path, unknown[0])} has the unknown setting {unknown[0]}",
            f"did you mean {close[0]}?" if close else f"the settings are: {', '.join(sorted(known))}",
        )


def _place(path: Path, key: str) -> str:
    """The file and, where it can be told, the line that sets a key."""
    begin = re.compile(rf"\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    with suppress(OSError, UnicodeDecodeError):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if begin.match(line):
                return f"{path}, line {number}"
    return str(path)


def table() -> str:
    """The settings as a Markdown table, for `docs/settings.md`."""
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in Settings.model_fields.items():
        default = field.default if field.default != "" else "–"
        if isinstance(default, bool):
            default = str(default).lower()
        rows.append(f"| `{key}` | {default} | {_allowed(field)} | {field.description} |")
    return "\n".join(rows)


def _allowed(field: FieldInfo) -> str:
    """What the checks of a setting let through: `> 0`, `> 0 … 60`, `1 … 100, whole`."""
    if field.annotation is bool:
        return "true, false"
    if field.annotation is str:
        return "text"
    bounds = {
        name: getattr(check, name) for check in field.metadata for name in _BOUNDS if hasattr(check, name)
    }
    said = " … ".join(f"{_BOUNDS[name]} {value}" for name, value in bounds.items())
    if "le" in bounds:
        said = said.replace("≥ ", "").replace("≤ ", "")
    return f"{said}, whole" if field.annotation is int else said


if __name__ == "__main__":
    print(table())
