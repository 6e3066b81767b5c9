"""Defines and loads the settings: key, unit, default and allowed values of each.

Sources, later wins: the defaults here, `config.toml` in the home, `TQSTUDIO_<KEY>` in the environment, the
flags of a command.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from tqstudio import hours, path_checks, toml_files
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import LogLevel

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

GB = 1_000_000_000
STOP_MARGIN_S = 60.0
"""How long a shutdown may take after `drain_s`: a fragment is stored, the last reports are written."""
SECRETS = ("alert_webhook", "alert_secret", "alert_apprise", "database", "redis_url")
"""Settings that no other program may see."""
_KINDS = {"float": "a number", "int": "a whole number", "bool": "true or false", "string": "a text"}
"""Prefix of pydantic's error types, and the words for the type in messages."""


class Settings(BaseSettings):
    """All settings. Names ending in `_s` are seconds, in `_bytes` bytes."""

    model_config = SettingsConfigDict(
        env_prefix="TQSTUDIO_", extra="ignore", frozen=True, allow_inf_nan=False
    )

    heartbeat_s: float = Field(10, gt=0, description="interval of worker heartbeats, and of writing them")
    lease_s: float = Field(60, gt=0, description="time without a heartbeat after which a job's lease expires")
    lease_scan_s: float = Field(15, gt=0, description="interval of scans for expired leases, ±10 %")
    offline_s: float = Field(
        60,
        gt=0,
        description="time without a heartbeat until a worker is offline; a local one is replaced",
    )
    reconnect_s: float = Field(60, ge=0, description="time for remote workers to reconnect after a restart")
    stall_s: float = Field(120, gt=0, description="time without progress after which ffmpeg is killed")
    time_limit_factor: float = Field(
        20, gt=0, description="time without a new segment at 720p, as a multiple of the source's duration"
    )
    time_limit_min_s: float = Field(300, gt=0, description="lower bound of that limit, for any size")
    time_limit_max_s: float = Field(12 * 3600, gt=0, description="upper bound of that limit, for any size")
    max_duration_s: float = Field(48 * 3600, gt=0, description="longest source that is taken")
    long_poll_s: float = Field(20, gt=0, le=60, description="how long a claim request waits for a job")
    gpu_grace_s: float = Field(
        60, ge=0, description="how long a job waits for an idle GPU before a CPU takes it"
    )

    max_attempts: int = Field(3, ge=1, le=100, description="number of attempts until a job counts as failed")
    max_crashes: int = Field(
        3,
        ge=1,
        le=100,
        description="worker crashes in a row, without progress, until a job fails (REPEATED_CRASHES)",
    )
    backoff_s: float = Field(
        30, ge=0, description="delay of the second attempt; doubles with each further one"
    )
    backoff_max_s: float = Field(600, ge=0, description="upper bound of the backoff")

    keep_old_s: float = Field(3600, ge=0, description="how long a replaced ladder is kept for its players")
    reuse_segments: bool = Field(
        True, description="the next attempt reuses the finished segments of a failed one"
    )
    keep_failed_work_s: float = Field(
        7 * 86400, ge=0, description="how long unfinished work of failed and cancelled jobs is kept"
    )
    cleanup_partial: bool = Field(
        True,
        description="delete unfinished work after keep_failed_work_s, with its job, and when a disk is full",
    )
    event_retention_s: float = Field(30 * 86400, gt=0, description="how long events are kept")

    quarantine_after: int = Field(
        3,
        ge=0,
        le=100,
        description="different jobs failed in a row after which a worker must pass a test encode; 0: never",
    )

    hours: str = Field(
        "",
        examples=["mon-fri 22:00-06:00; sat,sun"],
        description="when jobs may run, by the local clock; empty: always",
    )
    max_load: float = Field(
        0, ge=0, description="load per processor above which no further job starts; 0: no limit"
    )
    min_memory_bytes: int = Field(
        256_000_000, ge=0, description="available memory below which no further job starts"
    )
    disk_reserve_bytes: int = Field(2 * GB, ge=0, description="free disk space that jobs leave unused")
    disk_factor: float = Field(
        1.5,
        gt=0,
        description="estimated size of a ladder, as a multiple of its source; its bit rates may allow less",
    )

    divide_jobs: bool = Field(
        True, description="idle workers encode segments of jobs that other workers have"
    )
    drain_s: float = Field(15, ge=0, description="how long running jobs may continue after SIGTERM")
    log_level: LogLevel = Field("info", description="least severe lines of logs/supervisor.log")
    workers: int = Field(0, ge=0, le=256, description="number of CPU workers; 0: by processors and memory")
    gpu: bool = Field(True, description="detect GPU encoders and start a worker for each device")
    gpu_decode: bool = Field(
        False, description="decode and scale on GPUs too, where nothing but the size changes"
    )
    ffmpeg: str = Field("", description="path of the ffmpeg to use; empty: the newest")
    require_confinement: bool = Field(
        False, description="run no ffmpeg on a source that is not confined: no script, no encode on a GPU"
    )
    ffmpeg_nice: int = Field(10, ge=0, le=19, description="niceness of ffmpeg")
    profile: str = Field("web", description="default profile of files and folders")
    output: str = Field("", description="default output folder; empty: the folder output in the home")

    database: str = Field(
        "",
        examples=["postgresql://tqstudio@db.example/tqstudio"],
        description="URL of a database of PostgreSQL; empty: the file tqstudio.db in the home",
    )
    standby: bool = Field(
        False, description="stand by while another supervisor leads the same database of PostgreSQL"
    )
    name: str = Field("", description="name among the supervisors of a database; empty: the host name")

    keep_bucket_copies: bool = Field(
        True, description="keep the segments of a ladder here when they are in its bucket"
    )
    allow_shared_output: bool = Field(
        False,
        description="use output folders that others may write to, and the umask as it is",
    )

    settle_s: float = Field(5, ge=0, description="how long a file must stay unchanged to count as complete")
    rescan_s: float = Field(60, gt=0, description="interval of rescans of drop folders")
    include_temporary_files: bool = Field(
        False,
        description="drop folders take the bins, previews and unfinished downloads of other programs too",
    )

    probe_timeout_s: float = Field(30, gt=0, description="time limit of the background probe for one file")
    probe_memory_bytes: int = Field(GB, gt=0, description="address space limit of the background probe")
    probe_idle_s: float = Field(30, ge=0, description="idle time after which the background probe exits")

    listen: str = Field(
        "", description="address of the TCP listener, such as 127.0.0.1:8750; empty: the socket alone"
    )
    tls_cert: str = Field("", description="path of its certificate chain in PEM")
    tls_key: str = Field("", description="path of the key of that certificate, in PEM without a password")
    insecure_listen: bool = Field(False, description="listen on other addresses than loopback without TLS")
    hosts: str = Field(
        "", description="names by which clients may address it, separated by commas, besides IP addresses"
    )

    incoming: str = Field("", description="folder of uploaded files; empty: the folder incoming in the home")
    upload_max_bytes: int = Field(
        1000 * GB, ge=0, description="size of the largest file that may be uploaded; 0: none may"
    )
    upload_expiry_s: float = Field(
        7 * 86400, gt=0, description="how long an upload may be idle before it is removed"
    )
    alert_webhook: str = Field("", description="URL that alerts are posted to as JSON")
    alert_secret: str = Field("", description="key of the HMAC signature of those requests; empty: none")
    alert_apprise: str = Field(
        "",
        description="services that alerts are sent to, as URLs of apprise, separated by spaces",
    )
    alert_kinds: str = Field("", description="kinds of alerts, separated by commas; empty: the defaults")
    alert_cooldown_s: float = Field(
        300, ge=0, description="time between two alerts of a kind and video; those between are counted"
    )
    alert_timeout_s: float = Field(10, gt=0, le=60, description="time limit of sending an alert")
    alert_private: bool = Field(False, description="send alerts to private and loopback addresses too")
    gate_alert_s: float = Field(
        900, gt=0, description="how long a disk or the load blocks the queue until there is an alert"
    )
    on_done: str = Field("", description="command that is run for each job that is done")
    on_failed: str = Field("", description="command that is run for each job that failed")
    on_viewable: str = Field("", description="command that is run for each video whose first quality plays")
    command_timeout_s: float = Field(600, gt=0, description="time limit of these commands")

    redis_url: str = Field(
        "",
        examples=["redis://redis.example:6379/0"],
        description="URL of a Redis server that gets messages for web sites, and holds jobs; empty: none",
    )
    redis_prefix: str = Field("tqstudio", description="beginning of the names of its channels and streams")
    redis_roots: str = Field(
        "",
        examples=["/srv/films,/srv/site"],
        description="folders below which files and outputs of jobs from there may be, separated by commas",
    )

    sse_keepalive_s: float = Field(30, gt=0, description="interval of keep-alives on an idle event stream")
    sse_reconnect_s: float = Field(3, gt=0, description="delay before clients of an event stream reconnect")

    @property
    def uses_gpus(self) -> bool:
        """Whether GPUs may be used: their drivers need what a confined ffmpeg does not get."""
        return self.gpu and not self.require_confinement

    @property
    def supervisor_lease_s(self) -> float:
        """Time after which another supervisor may lead: workers keep their jobs until it has begun to."""
        return max(self.lease_s / 2, 2 * self.heartbeat_s)

    @property
    def host_name(self) -> str:
        """The name of this supervisor among those of a database."""
        return self.name or socket.gethostname()

    @field_validator("name")
    @classmethod
    def _read_name(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", value):
            raise PydanticCustomError("name", "up to 48 letters, digits, dots and dashes")
        return value

    @field_validator("hours")
    @classmethod
    def _read_hours(cls, value: str) -> str:
        try:
            hours.parse(value)
        except ValueError as error:
            raise PydanticCustomError("hours", "{what}", {"what": str(error)}) from None
        return value

    @field_validator("database")
    @classmethod
    def _require_postgresql(cls, value: str) -> str:
        if value and not re.match("postgres(ql)?://.*/.", value):
            raise PydanticCustomError("database", "a URL such as postgresql://user@host/database")
        return value

    @field_validator("redis_url")
    @classmethod
    def _require_redis(cls, value: str) -> str:
        if value and not re.match("(rediss?|unix)://.", value):
            raise PydanticCustomError("redis", "a URL such as redis://host:6379/0")
        return value

    @field_validator("redis_prefix")
    @classmethod
    def _read_prefix(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", value):
            raise PydanticCustomError("prefix", "1 to 64 letters, digits, dots, colons and dashes")
        return value

    @field_validator("redis_roots")
    @classmethod
    def _require_absolute(cls, value: str) -> str:
        if not all(part.strip().startswith("/") for part in value.split(",") if part.strip()):
            raise PydanticCustomError("roots", "absolute paths, separated by commas")
        return value

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
        toml = {} if _toml_file is None else toml_files.read(_toml_file)
        return init_settings, env_settings, InitSettingsSource(settings_cls, toml)


_toml_file: Path | None = None
_REMOVED = ("run_on_battery", "yield_to")
"""Settings of earlier versions, which have no effect: a supervisor that finds one starts with a warning."""


def load_settings(home: Home, **flags: Any) -> Settings:
    """Loads the settings of a home.

    Args:
        flags: values from the command line; None means not given.

    Raises:
        TqError: BAD_CONFIG for a wrong value or unknown key, with what is allowed; PERMISSION for an
            unreadable file.
    """
    global _toml_file
    home.require_owner()
    _toml_file = home.config if path_checks.is_file(home.config) else None
    given = {key: value for key, value in flags.items() if value is not None}
    try:
        if _toml_file is not None:
            _refuse_unknown(_toml_file)
        settings = Settings(**given)
        _require_lease_margin(settings)
        return settings
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        variable = f"TQSTUDIO_{key.upper()}"
        where = f"{variable} in the environment"
        if variable not in map(str.upper, os.environ):
            where = f"{key} in {_place(home.config, key)}"
        found = "a secret that is not shown" if key in SECRETS else toml_files.written(first.get("input"))
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the setting {key} is invalid: it is {found} and must be {_needed(first)}",
            f"correct {where}",
        ) from None
    except (OSError, toml_files.UnusableToml) as error:
        if isinstance(error, OSError) and error.errno in path_checks.CODES:
            raise path_checks.refused(home.config, error) from None
        why = error.strerror if isinstance(error, OSError) else error
        raise TqError(
            ErrorCode.BAD_CONFIG, f"{home.config} cannot be read: {why}", f"correct {home.config}"
        ) from None
    finally:
        _toml_file = None


def _needed(error: ErrorDetails) -> str:
    kind = error["type"].partition("_")[0]
    return _KINDS.get(kind) or error["msg"].removeprefix("Input should be ").replace("'", "")


def _require_lease_margin(settings: Settings) -> None:
    """Checks that a worker keeps its job and its process when one heartbeat is late."""
    for key in ("lease_s", "offline_s"):
        allowed_s: float = getattr(settings, key)
        if allowed_s < 2 * settings.heartbeat_s:
            raise TqError(
                ErrorCode.BAD_CONFIG,
                f"the setting {key} is too short: {allowed_s:g} s with a heartbeat every"
                f" {settings.heartbeat_s:g} s",
                f"set {key} to at least twice heartbeat_s",
            )


def removed_settings(home: Home) -> list[str]:
    """Returns the settings of earlier versions that a home's file or the environment still has."""
    in_file = toml_files.read(home.config) if path_checks.is_file(home.config) else {}
    return [key for key in _REMOVED if key in in_file or f"TQSTUDIO_{key.upper()}" in os.environ]


def _refuse_unknown(path: Path) -> None:
    known = set(Settings.model_fields)
    unknown = sorted(set(toml_files.read(path)) - known - set(_REMOVED))
    if unknown:
        close = toml_files.near(unknown[0].lower(), known)
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"{_place(path, unknown[0])} has the unknown setting {unknown[0]}",
            close.strip() if close else f"the settings are: {', '.join(sorted(known))}",
        )


def _place(path: Path, key: str) -> str:
    """Names the file and, if found, the line that sets a key."""
    begin = re.compile(rf"\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    with suppress(OSError, UnicodeDecodeError):
        for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
            if begin.match(line):
                return f"{path}, line {number}"
    return str(path)
