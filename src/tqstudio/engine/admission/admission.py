"""Admits files from the API and from drop folders: looks at them, then decides in a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import structlog

from tqstudio.config import Settings
from tqstudio.engine import outputs
from tqstudio.engine.admission import other_names
from tqstudio.engine.admission.change_detection import (
    Certainty,
    SourceState,
    is_copy,
    is_current,
    look_at,
)
from tqstudio.engine.admission.decision import Outdated, decide
from tqstudio.engine.admission.offer import Offer, OfferedFile
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.intake.problems import NamedOtherwise
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.fingerprint import Digest, HashingStopped, NotHashed
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.engine.store.lists import records
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.paths import decode, display, is_bucket, normal
from tqstudio.protocol.answers import AddAnswer, AddResult

P = ParamSpec("P")
T = TypeVar("T")

_SHARING = 32
"""Decisions that share a commit; a claim may have to wait for them."""


class Admission(Part):
    """Admits files from the API and from drop folders.

    Args:
        on_left: called with the previous path of a waiting job's source that was renamed.
        on_settled: called after a file of a drop folder was offered, because no event says that.
        is_away: whether the source of a job is missing because its disk is.
        restore_deleted: brings back a deleted video whose source is added again.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        *,
        on_left: Callable[[bytes], None],
        on_settled: Callable[[], None],
        is_away: Callable[[int], Awaitable[bool]],
        restore_deleted: Callable[[int, str], Awaitable[None]],
    ) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._on_left, self._on_settled = on_left, on_settled
        self._is_away, self._restore_deleted = is_away, restore_deleted
        self._answering: dict[str, asyncio.Task[AddAnswer]] = {}
        self._ending = threading.Event()
        self._log = structlog.get_logger()

    async def stop(self) -> None:
        self._ending.set()

    def is_ending(self) -> bool:
        return self._ending.is_set()

    async def once(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        """Make an answer, or return the one made earlier, or being made, for the same idempotency key."""
        task = self._answering.get(key)
        if task is None:
            task = asyncio.create_task(self._answer(f"add:{key}", make))
            self._answering[key] = task
            task.add_done_callback(lambda _: self._answering.pop(key, None))
        # Shielded: a client that disconnects will ask again with its key.
        return await asyncio.shield(task)

    async def _answer(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        remembered = await self._db.read(supervisors.stored_answer, key)
        if remembered is not None:
            previous: AddAnswer = json.loads(remembered)
            return previous
        answer = await make()
        text = json.dumps(answer)
        await self._db.write(lambda db: supervisors.store_answer(db, key, text, now=now_us()))
        return answer

    def profile(self, name: str | None, overrides: Mapping[str, str] | None = None) -> Profile:
        """Load a profile by name, with some keys overridden.

        Raises:
            TqError: BAD_CONFIG for an unknown profile or key, or a wrong value.
        """
        profile = profiles.load(name or self._settings.profile, self._home.profiles)
        return profiles.override(profile, overrides) if overrides else profile

    def output_root(self, given: bytes | None) -> bytes:
        """The absolute path of an output folder, by default that of the settings or the home.

        Args:
            given: an absolute path, or the address of a bucket, whose local copy is then the folder.

        Raises:
            TqError: BAD_REQUEST for a relative path, or an address that is none.
        """
        chosen = self._settings.output if given is None else os.fsdecode(given)
        if is_bucket(chosen):
            root = normal(os.fsencode(self._home.bucket_copy(chosen)))
        elif given is None:
            folder = Path(chosen).expanduser() if chosen else self._home.output
            root = normal(os.fsencode(folder.absolute()))
        elif given.startswith(b"/"):
            root = normal(given)
        else:
            raise TqError(ErrorCode.BAD_REQUEST, "the output folder must be an absolute path")
        logging_setup.know(root)
        return root

    async def offer(self, path: bytes, offer: Offer) -> AddResult:
        """Decide on one file.

        Raises:
            TqError: why it is not admitted.
            NotHashed: as of `look_at`.
        """
        return await self._decide(await self._look(path, offer))

    async def offer_all(self, paths: Sequence[bytes], offer: Offer) -> list[AddResult | Exception]:
        """Decide on files in this order; up to `_SHARING` decisions share a commit.

        Returns:
            For each file the decision, or the error of `offer`, which concerns this file only.
        """
        answers: list[AddResult | Exception] = []
        looked: list[OfferedFile | Exception] = []
        sharing = 1 if offer.certainty is Certainty.WHOLE else _SHARING

        async def decide_all() -> None:
            answers.extend(await asyncio.gather(*(_error_or(self._decide, file) for file in looked)))
            looked.clear()

        # One after the other: a request must not occupy the threads that others need.
        for first in range(0, len(paths), sharing):
            group = paths[first : first + sharing]
            new = await self._new_ones(group, offer)
            for path in group:
                file: OfferedFile | Exception | None = new.pop(path, None)
                if file is None:
                    file = await _error_or(self._look, path, replace(offer, may_read=False))
                others = {other.found.inode for other in looked if isinstance(other, OfferedFile)}
                if isinstance(file, NotHashed) or (
                    isinstance(file, OfferedFile) and file.found.inode in others
                ):
                    # It takes long, or is another name of one of them.
                    await decide_all()
                    file = await _error_or(self._look, path, offer)
                looked.append(file)
            await decide_all()
        return answers

    async def offer_settled(
        self, folder: FolderRow, files: Mapping[bytes, Digest | None]
    ) -> list[Exception | None]:
        """Queue files that are complete in a drop folder, with the digests of those that were hashed.

        Returns:
            For each file why it is not queued, if it is not: NotHashed as of `look_at`; a TqError, also if
            its job has failed, which is not retried automatically; or a bug.

        Raises:
            TqError: BAD_CONFIG, which concerns them all.
        """
        offer = Offer(
            profile=self.profile(folder.profile),
            output_root=folder.output_root,
            template=folder.template,
            base=folder.path,
            priority=folder.priority,
            folder=folder.id,
            autorestart=folder.autorestart,
            max_attempts=folder.max_attempts or self._settings.max_attempts,
            max_crashes=folder.max_crashes or self._settings.max_crashes,
            retry_failed=False,
            digests={path: digest for path, digest in files.items() if digest is not None},
            may_read=False,
            skip_duplicates=folder.duplicates == "skip",
            actor="intake",
            owner="folder",
        )
        answers = await self.offer_all(list(files), offer)
        self._on_settled()
        return [await self._error_of(folder, *each) for each in zip(files, answers, strict=True)]

    async def _error_of(
        self, folder: FolderRow, path: bytes, answer: AddResult | Exception
    ) -> Exception | None:
        if isinstance(answer, Exception):
            if isinstance(answer, TqError):
                self._log.info("file refused", folder=folder.id, path=display(path), code=answer.code.value)
            return answer
        decision, job = answer["decision"], answer["job"]
        self._log.info("file settled", folder=folder.id, path=display(path), decision=decision, job=job)
        if (named := decode(answer["path_b64"])) != path:
            return NamedOtherwise(named)
        return await self._failed_before(job) if decision == "failed" and job is not None else None

    async def _failed_before(self, job: int) -> TqError:
        """The error for a file that was put into its folder again but is not retried automatically."""
        retry = f"retry it with: tqstudio job retry {job}"
        error = records.error_of(await self._db.read(records.one, job))
        if error is None:
            return TqError(ErrorCode.REFUSED, f"its job {job} was cancelled", retry)
        return TqError(
            error["code"], f"its job {job} failed: {error['message']}", f"{error['hint']}; {retry}"
        )

    async def known(self, folder: FolderRow) -> Mapping[bytes, tuple[int, int]]:
        """The size and modification time in ns of the files of a drop folder that were admitted, by path."""
        known = await self._db.read(videos.known_sources, folder.id)
        return {path: (size, mtime_ns) for path, (_, size, mtime_ns) in known.items()}

    async def _new_ones(self, paths: Sequence[bytes], offer: Offer) -> dict[bytes, OfferedFile]:
        """Look at files in a few steps for all together; return those that can be read and are new.

        For the others more has to be read, so each is looked at by itself.
        """
        unknown = await self._db.read(_unknown, paths, offer.output_root)
        found = await asyncio.to_thread(_readable, unknown, self._ending.is_set)
        return await self._db.read(_unrelated, found, offer)

    async def _look(self, path: bytes, offer: Offer) -> OfferedFile:
        """Read from disk and database what the decision on a file depends on."""
        if not path.startswith(b"/"):
            raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is not an absolute path")
        # One file is one video. `..` is kept: after a link it may lead elsewhere.
        path = re.sub(rb"//+", b"/", path)
        known = await self._db.read(videos.find, path, offer.output_root)
        stop, digest = self._ending.is_set, offer.digests.get(path)
        with _refusal_at_shutdown(path):
            found = await asyncio.to_thread(
                look_at, path, known, offer.certainty, digest=digest, may_read=offer.may_read, stop=stop
            )
        if known is not None and known.deleted_at is not None:
            if offer.folder is not None and not found.shows_change(known):
                raise TqError(
                    ErrorCode.REFUSED,
                    f"its video {known.id} was deleted",
                    f"bring it back with: tqstudio video undelete {known.id}",
                )
            await self._restore_deleted(known.id, offer.actor)
            known = await self._db.read(videos.get, known.id)
        left: videos.VideoRow | None = None
        if known is None and (named := await self._named_otherwise(path, found, offer)) is not None:
            if named.is_there:
                digests = {} if digest is None else {named.video.source: digest}
                return await self._look(named.video.source, replace(offer, digests=digests))
            left = named.video
            # It is judged as it will be once it follows its file.
            known, found = replace(left, source=path), replace(found, content_id=None)
        generation = await self._db.read(generations.current, known.id) if known else None
        current = (
            known is not None
            and generation is not None
            and not offer.force
            and await asyncio.to_thread(is_current, known, generation, found, offer.profile)
        )
        broken: frozenset[str] = frozenset()
        if known and generation and current and offer.certainty is Certainty.WHOLE:
            with _refusal_at_shutdown(path):
                broken = await asyncio.to_thread(outputs.damaged, place_of(known), generation, stop)
        whole = (
            current
            or known is None
            or generation is None
            or offer.force
            or found.shows_change(known)
            or await asyncio.to_thread(outputs.intact_with_files, place_of(known), generation)
        )
        if offer.skip_duplicates and known is None:
            await self._require_unpublished(path, found, offer)
        return OfferedFile(path, offer, found, current, whole, broken, left)

    async def _require_unpublished(self, path: bytes, found: SourceState, offer: Offer) -> None:
        """Check that no other source with this content has a complete ladder of this profile.

        Raises:
            TqError: DUPLICATE.
            NotHashed: as of `is_copy`.
        """
        for other in await self._db.read(videos.published_with_size, offer.output_root, found.size):
            generation = await self._db.read(generations.current, other.id)
            if generation is None or not is_copy(found, other, offer.digests.get(path)):
                continue
            if await asyncio.to_thread(is_current, other, generation, found, offer.profile):
                raise TqError(
                    ErrorCode.DUPLICATE,
                    f"it has the content of video {other.id} ({display(other.source)})",
                    f"remove it, or encode it too: tqstudio add -o {display(offer.output_root)} FILE",
                )

    async def _decide(self, file: OfferedFile | Exception) -> AddResult:
        if isinstance(file, Exception):
            raise file
        try:
            answer = await self._db.write(decide, file, self._settings)
        except Outdated:
            return await self._decide(await self._look(file.path, file.offer))
        if file.left is not None:
            self._on_left(file.left.source)
        return answer

    async def _named_otherwise(
        self, path: bytes, found: SourceState, offer: Offer
    ) -> other_names.OtherName | None:
        with _refusal_at_shutdown(path):
            return await other_names.find(
                self._db, path, found, offer, is_away=self._is_away, stop=self._ending.is_set
            )


def _unknown(db: Connection, paths: Sequence[bytes], output_root: bytes) -> list[bytes]:
    """The paths that are in the form in which videos are stored, and of no video."""
    plain = (path for path in paths if path.startswith(b"/") and b"//" not in path)
    return [path for path in plain if videos.find(db, path, output_root) is None]


def _readable(paths: Sequence[bytes], stop: Callable[[], bool]) -> dict[bytes, SourceState]:
    """The state of the files without a video, except those that cannot be read."""
    found = {}
    for path in paths:
        if stop():
            break
        # Whatever it is, it is raised when this file is looked at by itself.
        with contextlib.suppress(Exception):
            found[path] = look_at(path, None, Certainty.SETTLED)
    return found


def _unrelated(db: Connection, found: Mapping[bytes, SourceState], offer: Offer) -> dict[bytes, OfferedFile]:
    """The files that are neither another name nor perhaps a copy of the source of a video."""
    root = offer.output_root
    return {
        path: OfferedFile(path, offer, state)
        for path, state in found.items()
        if not videos.with_inode(db, root, inode=state.inode, size=state.size, mtime_ns=state.mtime_ns)
        and not videos.published_like(db, root, size=state.size, samples=state.content_id)
        and not (offer.skip_duplicates and videos.published_with_size(db, root, state.size))
    }


def new_batch() -> str:
    """Create an id for jobs that are added together."""
    return uuid.uuid4().hex[:12]


@contextlib.contextmanager
def _refusal_at_shutdown(path: bytes) -> Iterator[None]:
    try:
        yield
    except HashingStopped:
        raise TqError(
            ErrorCode.REFUSED,
            f"the supervisor shut down before it had read {display(path)}",
            "add the file again",
        ) from None


async def _error_or(step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T | Exception:
    """Take a step for one of many files; an error, even a bug, disturbs no other file and is returned."""
    try:
        return await step(*args, **kwargs)
    except Exception as error:
        return error
