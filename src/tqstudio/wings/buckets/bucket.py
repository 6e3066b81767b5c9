"""Reads, writes and removes objects in a bucket of Amazon S3, Google Cloud Storage or Azure.

`buckets.toml` in the home has a table for each place: `["s3://films"]` with the keys of obstore, such as
`endpoint`, `region`, `access_key_id` and `secret_access_key`. What it lacks is taken from the environment.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterable, Awaitable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import quote

from blake3 import blake3

from tqstudio import toml_files
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.paths import readable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

_TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mpd": "application/dash+xml",
    ".mp4": "video/mp4",
    ".m4s": "video/mp4",
    ".m4a": "audio/mp4",
    ".vtt": "text/vtt",
    ".jpg": "image/jpeg",
    ".json": "application/json",
}
_FOR_A_DAY = "public, max-age=86400"
"""Not for longer: another video of that name may get the address later."""
_TIMEOUTS = {"connect_timeout": "10s", "timeout": "3600s"}
"""Time limits for one try of a request."""
_PATIENCE_S = 40.0
"""How long a small request may take with its retries: a server may accept connections and never answer."""
_SLOWEST_BPS = 25_000
"""Bytes a second of each file that is sent: a connection of 1 Mbit/s carries four of them at a time."""
_PART_BYTES, _PARTS_AT_ONCE = 8 * 1024**2, 4
"""Of files that are larger than segments."""
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}
"""Within a request; longer trouble is a failure, after which the delivery is tried again later."""
_MAX_REMOVED = 1000
"""In one request, as S3 allows."""
_REMOVAL_S = 0.2
"""Time in seconds allowed per removed object, where removing each is a request of its own."""
_ANSWER = re.compile(r"<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "([^"]*)"')
"""Why a connection failed, in what obstore says for its developers."""
_METADATA_SERVICE = "//169.254.169.254/"
"""From which obstore asks for keys if it has none: on machines of Amazon it answers."""


class Bucket:
    """A place in a bucket, below which objects are named."""

    def __init__(self, home: Home, url: str) -> None:
        """Connect nothing yet.

        Raises:
            TqError: BAD_CONFIG or PERMISSION, `buckets.toml` cannot be used.
        """
        self._settings_file = home.bucket_settings
        self._see = f"check the service and its endpoint in {home.bucket_settings}; uploads are tried again"
        self.url = url
        self._store = self._open()

    async def put(self, name: str, content: bytes, *, is_final: bool) -> None:
        """Write an object.

        Args:
            is_final: it never changes, so that caches may keep it.

        Raises:
            TqError: PERMISSION, NOT_FOUND (no such bucket) or UPSTREAM.
        """
        import obstore

        about = _about(name, is_final=is_final)
        request = obstore.put_async(self._store, name, content, attributes=about, use_multipart=False)
        await self._ask(request, _PATIENCE_S + len(content) / _SLOWEST_BPS)

    async def put_file(self, name: str, file: BinaryIO, size: int) -> None:
        """Write an object that never changes, in parts: it may be larger than memory.

        Raises:
            TqError: as of `put`.
        """
        import obstore

        about = _about(name, is_final=True)
        request = obstore.put_async(
            self._store,
            name,
            file,
            attributes=about,
            # 10 000 parts are allowed.
            chunk_size=max(_PART_BYTES, size // 9_000),
            max_concurrency=_PARTS_AT_ONCE,
        )
        await self._ask(request, _PATIENCE_S + size / _SLOWEST_BPS)

    async def get(self, name: str) -> bytes | None:
        """Read an object; None if there is none.

        Raises:
            TqError: as of `put`.
        """
        import obstore

        with _absent():
            found = await self._ask(obstore.get_async(self._store, name))
            patience_s = _PATIENCE_S + found.meta["size"] / _SLOWEST_BPS
            return bytes(await self._ask(found.bytes_async(), patience_s))
        return None

    async def digest(self, name: str) -> str | None:
        """Read an object and hash it: 64 hex digits; None if there is none.

        Raises:
            TqError: as of `put`.
        """
        import obstore

        with _absent():
            found = await self._ask(obstore.get_async(self._store, name))
            patience_s = _PATIENCE_S + found.meta["size"] / _SLOWEST_BPS
            return await self._ask(_hashed(found.stream()), patience_s)
        return None

    async def examine(self, name: str) -> tuple[int, str | None]:
        """The size of an object, and its version (ETag) if it has one.

        Raises:
            TqError: as of `put`; NOT_FOUND, too, if there is no such object.
        """
        import obstore

        found = await self._ask(obstore.head_async(self._store, name))
        return found["size"], found["e_tag"]

    async def size(self, name: str) -> int | None:
        """The size of an object; None if there is none.

        Raises:
            TqError: as of `put`.
        """
        with _absent():
            return (await self.examine(name))[0]
        return None

    async def read(self, name: str, start: int, end: int, version: str | None) -> bytes:
        """Read the bytes from `start` to before `end` of a version of an object.

        Raises:
            TqError: as of `examine`; SOURCE_CHANGED.
        """
        import obstore

        found = await self._ask(obstore.get_async(self._store, name, options={"range": (start, end)}))
        content = bytes(await self._ask(found.bytes_async(), _PATIENCE_S + (end - start) / _SLOWEST_BPS))
        # Not by If-Match, which some servers ignore.
        if found.meta["e_tag"] != version or len(content) != end - start:
            raise TqError(
                ErrorCode.SOURCE_CHANGED,
                f"{self.url}/{name} was replaced while it was fetched",
                "add it again once it is complete",
            )
        return content

    async def remove(self, names: Sequence[str]) -> None:
        """Remove objects, of which some may be gone.

        Raises:
            TqError: as of `put`.
        """
        import obstore

        for start in range(0, len(names), _MAX_REMOVED):
            portion = names[start : start + _MAX_REMOVED]
            patience_s = _PATIENCE_S + len(portion) * _REMOVAL_S
            try:
                await self._ask(obstore.delete_async(self._store, portion), patience_s)
            except TqError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                # Where each is a request of its own, as at Google, the first one that is gone ends them.
                for name in portion:
                    with _absent():
                        await self._ask(obstore.delete_async(self._store, [name]))

    async def check(self) -> None:
        """Write, read and remove a small object.

        Raises:
            TqError: why that fails.
        """
        # Others may check it at the same time.
        name = f".tqstudio-check-{uuid.uuid4().hex[:12]}"
        content = b"written by tqstudio to check its access; may be removed\n"
        await self.put(name, content, is_final=False)
        found = await self.get(name)
        await self.remove([name])
        if found != content:
            raise TqError(ErrorCode.UPSTREAM, f"{self.url} does not return what was written there")

    def _open(self) -> ObjectStore:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        config = self._config()
        endpoint = str(config.get("endpoint", "https://"))
        if not endpoint.startswith(("http://", "https://")):
            raise self._unusable(f"the endpoint of {self.url} does not begin with https:// or http://")
        client: Any = {**_TIMEOUTS, "allow_http": endpoint.startswith("http://")}
        scheme, _, place = self.url.partition("://")
        try:
            # Quoted: `#` would end the address, and `%41` is another name.
            url = f"{scheme}://{quote(place)}"
            return from_url(url, config=config, client_options=client, retry_config=_RETRIES)
        except (BaseError, TypeError, ValueError) as error:
            why = _first_line(error)
            for value in config.values():
                # It may be a secret by a wrong key.
                why = why.replace(str(value), "***")
            raise self._unusable(f"the settings of {self.url} are invalid: {why}") from None

    def _config(self) -> Any:
        """What `buckets.toml` says of this place; the longest address that it is below counts.

        Raises:
            TqError: BAD_CONFIG, PERMISSION.
        """
        path = self._settings_file
        try:
            if path.stat().st_mode & 0o077:
                raise TqError(
                    ErrorCode.PERMISSION,
                    f"other users may read {path}, which has access keys",
                    f"make it private: chmod 600 {path}",
                )
            tables = toml_files.read(path)
        except FileNotFoundError:
            return {}
        except (OSError, toml_files.UnusableToml) as error:
            raise self._unusable(f"{path} cannot be read: {error}") from None
        places = [place for place in tables if f"{self.url}/".startswith(f"{place.rstrip('/')}/")]
        found = tables[max(places, key=len)] if places else {}
        if not isinstance(found, dict) or not all(isinstance(each, str | bool) for each in found.values()):
            raise self._unusable(f"in {path}, {max(places, key=len)} is no table of texts")
        return found

    def _unusable(self, message: str) -> TqError:
        return TqError(ErrorCode.BAD_CONFIG, readable(message), f"correct {self._settings_file}")

    async def _ask(self, request: Awaitable[T], patience_s: float | None = None) -> T:
        """Await a request for at most `patience_s`; the default is for requests of a few bytes.

        Raises:
            TqError: UPSTREAM, PERMISSION or NOT_FOUND, made from the error of the request.
        """
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        patience_s = patience_s or _PATIENCE_S
        try:
            async with asyncio.timeout(patience_s):
                return await request
        except TimeoutError:
            late = f"{self.url} gives no answer within {patience_s:.0f} s"
            raise TqError(ErrorCode.UPSTREAM, late, self._see) from None
        except (BaseError, OSError) as error:
            keys = f"correct its keys in {self._settings_file}"
            text = str(error)
            if _METADATA_SERVICE in text:
                raise TqError(
                    ErrorCode.PERMISSION, f"no access keys are known for {self.url}", keys
                ) from None
            answer = _ANSWER.search(text)
            why = readable(unescape(": ".join(answer.groups())) if answer else _first_line(error))
            if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                raise TqError(ErrorCode.PERMISSION, f"{self.url} refuses access: {why}", keys) from None
            if isinstance(error, FileNotFoundError):
                hint = "create the bucket, or correct the address"
                raise TqError(ErrorCode.NOT_FOUND, f"{self.url} was not found: {why}", hint) from None
            if answer is None and (cause := _CAUSE.search(text)):
                why = f"{why}: {readable(cause[1])}"
            raise TqError(ErrorCode.UPSTREAM, f"{self.url} does not work: {why}", self._see) from None


def _about(name: str, *, is_final: bool) -> Any:
    kind = _TYPES.get(PurePosixPath(name).suffix, "text/plain")
    return {"Content-Type": kind, "Cache-Control": _FOR_A_DAY if is_final else "no-cache"}


async def _hashed(stream: AsyncIterable[Any]) -> str:
    hasher = blake3()
    async for part in stream:
        hasher.update(part)
    return hasher.hexdigest()


@contextmanager
def _absent() -> Iterator[None]:
    """Let an object be absent."""
    try:
        yield
    except TqError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise


def _first_line(error: Exception) -> str:
    """What an error of obstore says, without its context."""
    return str(error).partition("\n")[0].rpartition(" - ")[2].strip()
