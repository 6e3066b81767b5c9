"""Sends alerts: a process of its own, which reads a channel and then alerts from stdin.

Neither the libraries that it loads nor a server or resolver that hangs concern the supervisor, which kills it
after a timeout.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tqstudio.engine.host.parent_death import die_with_parent

NICE = 10
MAX_ERROR = 300
Send = Callable[[dict[str, Any]], None]
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All public addresses of IPv6; others may contain an IPv4 address, such as `::169.254.169.254`."""
_NOT_PUBLIC = [ipaddress.ip_network(block) for block in ("2002::/16", "192.0.0.0/24", "168.63.129.16/32")]
"""6to4, which contains an IPv4 address; and where Oracle's and Azure's clouds have metadata of a machine."""


class _NotSent(Exception):
    """Why an alert was not accepted."""


class _Refused(OSError):
    """An address that no alert may be sent to."""


def main() -> int:
    """Answer each alert with one line: its error, or null."""
    if not die_with_parent(os.environ):
        return 1
    os.nice(NICE)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Redirect stdout, so that output of libraries and commands goes to the log.
    os.dup2(2, 1)
    channel = json.loads(sys.stdin.readline())
    if not channel["private"]:
        _refuse_private_addresses()
    # A proxy would reach addresses that are refused here.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    send = _SENDERS[channel["type"]](channel)
    _write(answers, "ready")
    for line in sys.stdin:
        error = None
        try:
            send(json.loads(line))
        except Exception as failure:
            error = _reason(failure)
            for secret in filter(None, (channel.get("url"), channel.get("secret"))):
                error = error.replace(secret, "…")
        _write(answers, error and error[:MAX_ERROR])
    return 0


def _write(answers: Any, answer: str | None) -> None:
    answers.write(f"{json.dumps(answer)}\n")
    answers.flush()


def _reason(error: BaseException) -> str:
    if isinstance(error, _NotSent):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _Refused):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {error}"


# Addresses


def _refuse_private_addresses() -> None:
    """Refuse to connect to any but public addresses, whatever library asks.

    An audit hook sees the address that the kernel is about to get, so a name is resolved once, and no second
    answer of a resolver can replace the one that was checked.
    """

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg") and arguments[1] is not None:
            where = arguments[1][0] if isinstance(arguments[1], tuple) else arguments[1]
            if not _is_public(where):
                raise _Refused(f"{where} is no public address; alert_private = true allows it")

    sys.addaudithook(check)


def _is_public(where: object) -> bool:
    try:
        address = ipaddress.ip_address(str(where).partition("%")[0])
    except ValueError:
        return False  # a Unix socket
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    is_public = address.is_global and not address.is_multicast
    is_unicast = isinstance(address, ipaddress.IPv4Address) or address in _UNICAST
    return is_public and is_unicast and not any(address in block for block in _NOT_PUBLIC)


# Channels


def _webhook(channel: dict[str, Any]) -> Send:
    import certifi
    import httpx

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    client = httpx.Client(
        verify=context, trust_env=False, follow_redirects=False, timeout=channel["timeout_s"]
    )

    def send(alert: dict[str, Any]) -> None:
        body = json.dumps(alert["body"], separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert["key"]}
        if channel["secret"]:
            at = str(int(time.time()))
            signed = hmac.new(channel["secret"].encode(), f"{at}.".encode() + body, hashlib.sha256)
            headers["X-Tqstudio-Timestamp"] = at
            headers["X-Tqstudio-Signature"] = f"sha256={signed.hexdigest()}"
        # The body of the answer is not read: it may be endless.
        with client.stream("POST", channel["url"], content=body, headers=headers) as answer:
            if answer.is_redirect:
                raise _NotSent(f"it answered {answer.status_code}; redirects are not followed")
            if not answer.is_success:
                raise _NotSent(f"it answered {answer.status_code}")

    return send


def _apprise(channel: dict[str, Any]) -> Send:
    import apprise

    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    # Not passed on: it may contain the URL.
    logging.getLogger("apprise").addHandler(handler)
    logging.getLogger("apprise").propagate = False
    service = apprise.Apprise(asset=apprise.AppriseAsset(http_redirects=False, async_mode=False))
    is_known = service.add(channel["url"])

    def send(alert: dict[str, Any]) -> None:
        if not is_known:
            raise _NotSent("apprise knows no such service, or its URL is incomplete")
        said.clear()
        body = alert["body"]
        text = "\n".join(filter(None, (body["text"], body["hint"])))
        if not service.notify(title=f"tqstudio on {body['studio']}: {body['kind']}", body=text):
            raise _NotSent(said[-1] if said else "apprise could not send it")

    return send


def _command(channel: dict[str, Any]) -> Send:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "TQSTUDIO_HOME" or not name.startswith("TQSTUDIO_")
    }

    def send(alert: dict[str, Any]) -> None:
        facts = alert["body"]
        words = channel["commands"][facts["TQSTUDIO_STATUS"]]
        if not words:
            return  # it is not configured any more
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=kept | facts, process_group=0)
        try:
            status = process.wait(channel["timeout_s"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise _NotSent(f"it did not end within {channel['timeout_s']:g} s") from None
        if status:
            raise _NotSent(f"it ended with status {status}")

    return send


_SENDERS: dict[str, Callable[[dict[str, Any]], Send]] = {
    "webhook": _webhook,
    "apprise": _apprise,
    "command": _command,
}

if __name__ == "__main__":
    sys.exit(main())
