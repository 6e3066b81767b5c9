"""Reads from the settings where alerts are sent."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from tqstudio.config import Settings
from tqstudio.errors import ErrorCode, TqError

COMMAND = "command"
"""The channel of `on_done`, `on_failed` and `on_viewable`."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A receiver of alerts."""

    name: str
    """Names it in the database, which has no secrets, so an URL of apprise is there as its digest."""
    config: dict[str, Any]
    """What the sending process needs."""
    timeout_s: float


def of(settings: Settings) -> list[Channel]:
    """The configured channels.

    Raises:
        TqError: BAD_CONFIG, without the value, which may be secret.
    """
    found: list[Channel] = []
    shared: dict[str, Any] = {"private": settings.alert_private, "timeout_s": settings.alert_timeout_s}
    if settings.alert_webhook:
        _require_url(settings.alert_webhook)
        config: dict[str, Any] = {"type": "webhook", "url": settings.alert_webhook}
        config["secret"] = settings.alert_secret
        found.append(Channel("webhook", config | shared, settings.alert_timeout_s))
    urls = settings.alert_apprise.split()
    if urls and find_spec("apprise") is None:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            "the setting alert_apprise needs apprise, which is not installed",
            "install it with: pip install 'tqstudio[alerts]', uv tool install or pipx install --force",
        )
    for url in dict.fromkeys(urls):
        name = f"{url.partition(':')[0]}-{sha256(url.encode()).hexdigest()[:8]}"
        found.append(Channel(name, {"type": "apprise", "url": url} | shared, settings.alert_timeout_s))
    commands = {of: _words(settings, f"on_{of}") for of in ("done", "failed", "viewable")}
    if any(commands.values()):
        limit = settings.command_timeout_s
        config = {"type": COMMAND, "commands": commands, "private": True, "timeout_s": limit}
        found.append(Channel(COMMAND, config, limit))
    return found


def _require_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            "the setting alert_webhook is invalid",
            "write it as https://HOST/PATH",
        )


def _words(settings: Settings, key: str) -> list[str]:
    try:
        return shlex.split(getattr(settings, key))
    except ValueError as error:
        raise TqError(
            ErrorCode.BAD_CONFIG, f"the setting {key} is invalid: {error}", "quote it as for a shell"
        ) from None
