"""The course of the cuts: a studio works, the power goes, what is left is looked at, it starts again."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from powercut import examination
from powercut.ledger import Ledger
from powercut.people import People
from powercut.volume import Volume
from tqstudio.drill import clips
from tqstudio.drill.clips import Clip
from tqstudio.drill.faults import FAIL_POINTS
from tqstudio.drill.sandbox import Sandbox, until
from tqstudio.errors import TqError
from tqstudio.protocol import calls

CLIPS = tuple(Clip(f"clip-{number}.mp4", Fraction(25), 60 + 25 * number, "640x360") for number in range(6))
OPTIONS = ("commit=300", "defaults", "commit=300,data=writeback")
"""With the first the kernel makes nothing durable by itself; the second is what people have; with the third a
file may have its size and not what was written to it."""

CARELESS = ("files", "database", "commits")
"""What a studio does not sync, to show that it is noticed: see `careless/sitecustomize.py`."""

_CLIENTS = 3
_WORKERS = 2
_CUTS_OF_A_HOME = 8
"""Then a new home begins on a new file system: its first start is a moment to lose power in too."""
_WHILE_IT_WORKS = (*FAIL_POINTS, "remove.renamed")
_WHILE_IT_SETTLES = (
    "settle.begun",
    "settle.pointed",
    "settle.set_aside",
    "settle.recording",
    "settle.undone",
)
_MAX_ANSWERS = 400
"""That people are given before a cut at a random moment: some seconds of work."""
_START_S = 2.5
_LONGEST_WAIT_S = 40.0
"""A fail point that is not reached by then makes it a cut at a random moment."""
_GLANCE_S = 0.01
_END_S = 300.0
_LAST_WORDS = 500
_CARELESS_CODE = Path(__file__).parent / "careless"


@dataclass(slots=True)
class Account:
    """What the cuts showed. `lost` should be empty."""

    cuts: int = 0
    homes: int = 0
    where: Counter[str] = field(default_factory=Counter)
    """Fail points at which the power went; "" is a random moment."""
    answers: int = 0
    """That were noted before the cuts: of requests, and of the event stream."""
    events: int = 0
    jobs: int = 0
    jobs_done: int = 0
    ladders: int = 0
    """Decoded to the last frame, by cut."""
    generations: int = 0
    stored_segments: int = 0
    forgotten: int = 0
    """Files that lost their name or a part of what was in them: of unfinished work, as is right."""
    lost: list[str] = field(default_factory=list)
    caught: list[str] = field(default_factory=list)
    """What a studio that does not sync had lost after the first cut that showed it."""
    seconds: float = 0.0


def run(
    account: Account,
    *,
    ffmpeg: str,
    cuts: int,
    seed: int,
    options: Sequence[str] = OPTIONS,
    careless: str | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Account:
    """Cut the power so many times.

    Args:
        account: is kept while it runs, and answered.
        seed: chooses moments and people's requests; the machine's own timing is not repeated.
        options: of mount, taken in turns.
        careless: one of `CARELESS`; ends when that is noticed.

    Raises:
        CannotCut: this machine or user cannot.
    """
    rng, began = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tqp-", ignore_cleanup_errors=True) as folder:
        sources: list[Path] = []
        while account.cuts < cuts:
            chosen = options[account.homes % len(options)]
            volume = Volume(Path(folder), chosen)
            try:
                sources = sources or [clips.make(clip, Path(folder) / "clips", ffmpeg) for clip in CLIPS]
                account.homes += 1
                say(f"home {account.homes}, mounted with {chosen}")
                home = _Home(volume, ffmpeg, sources, careless, account, say)
                home.live(rng, min(_CUTS_OF_A_HOME, cuts - account.cuts))
            finally:
                volume.release()
                account.seconds = time.monotonic() - began
            if account.caught:
                break
    return account


class _Home:
    """One studio on one file system, from its first start to the day when all its jobs are done."""

    def __init__(
        self,
        volume: Volume,
        ffmpeg: str,
        sources: Sequence[Path],
        careless: str | None,
        account: Account,
        say: Callable[[str], None],
    ) -> None:
        self._volume, self._ffmpeg, self._sources, self._careless = volume, ffmpeg, sources, careless
        self._account, self._say = account, say
        self._ledger = Ledger()
        self._cuts = 0
        self._was_publishing = False

    def live(self, rng: random.Random, cuts: int) -> None:
        for left in reversed(range(cuts)):
            found = [*self._work_until_cut(rng, last=left == 0), *self._look()]
            for line in found:
                self._say(f"       LOST: {line}")
            if self._careless:
                self._account.caught += found
                if found:
                    break
            else:
                self._account.lost += found
        # What is torn below a sound database is noticed and made again.
        if self._careless in (None, "files"):
            self._careless = None
            self._end_in_peace()

    def _sandbox(self) -> Sandbox:
        # A first start with care, so that there is something to lose.
        careless = self._careless if self._cuts else None
        environment = {"PYTHONPATH": str(_CARELESS_CODE), "POWERCUT_CARELESS": careless} if careless else None
        return Sandbox(
            self._volume.root,
            self._ffmpeg,
            _WORKERS,
            environment=environment,
        )

    def _work_until_cut(self, rng: random.Random, *, last: bool) -> list[str]:
        point = self._point(rng)
        before = self._ledger.answers
        moment = before + rng.randrange(_MAX_ANSWERS)
        # However the moments fall: a home has been given work before its last cut, and ends it afterwards.
        needs_work = last and not self._ledger.jobs
        # Also while it starts, recovers and settles. One that is careless has to have something to lose.
        early = point is None and not self._careless and not needs_work and rng.random() < 0.4
        box = self._sandbox()
        with _killed_at_the_end(box):
            box.start(point)
            people = People(
                box,
                self._ledger,
                self._sources,
                seed=rng.randrange(1 << 30),
                count=_CLIENTS,
                patient=point is not None,
            )
            try:
                died = _wait(
                    box,
                    rng.uniform(0, _START_S) if early else _LONGEST_WAIT_S,
                    enough=lambda: (
                        point is None
                        and self._ledger.answers > moment
                        and (bool(self._ledger.jobs) or not needs_work)
                    ),
                )
                last_words = _last_words(box) if died else ""
                there = self._volume.listing()
                self._ledger.close(self._volume.cut)
            finally:
                box.kill()
                people.leave()
        self._volume.recover()
        self._cuts += 1
        self._was_publishing = died and point in FAIL_POINTS
        self._record_cut(point if died else None, there, self._ledger.answers - before)
        if died and not (point and box.exit_code == -signal.SIGKILL):
            return [f"the supervisor ended by itself: {last_words}"]
        return []

    def _point(self, rng: random.Random) -> str | None:
        """Where the next supervisor is to die; None: at a random moment."""
        if self._was_publishing and rng.random() < 0.6:
            return rng.choice(_WHILE_IT_SETTLES)
        # Before the first segments are made none of these is reached.
        return rng.choice(_WHILE_IT_WORKS) if self._cuts and rng.random() < 0.5 else None

    def _record_cut(self, point: str | None, there: dict[str, int], answers: int) -> None:
        account, now = self._account, self._volume.listing()
        forgotten = sum(now.get(path, -1) < size for path, size in there.items())
        account.cuts += 1
        account.answers += answers
        account.forgotten += forgotten
        account.where[point or ""] += 1
        self._say(
            f"{account.cuts:5d}  power cut at {point or 'a random moment'}: {answers} answers noted,"
            f" {forgotten} of {len(there)} files forgotten"
        )

    def _look(self) -> Iterator[str]:
        """Look at everything with the eyes of a player, and of clients that were answered."""
        database, output = self._volume.root / "home" / "tqstudio.db", self._volume.root / "out"
        yield from self._look_at_files(output)
        try:
            with closing(examination.open_copy(database, self._volume.root.parent / "copy")) as db:
                yield from examination.damage(db)
                if examination.has_tables(db):
                    yield from self._ledger.compare(db, output)
                    self._ledger.reopen(db)
                elif self._ledger.jobs:
                    yield "the database is empty, or gone"
                else:
                    # The first start did not come that far.
                    self._ledger = Ledger()
        except sqlite3.DatabaseError as error:
            yield f"database: {error}"

    def _look_at_files(self, output: Path, *, ended: bool = False) -> Iterator[str]:
        account = self._account
        for _, wrong in examination.ladders(output, CLIPS, ended=ended):
            account.ladders += 1
            if wrong is not None:
                yield wrong
        for _, wrong in examination.generations(output):
            account.generations += 1
            if wrong is not None:
                yield wrong
        for count, wrong in examination.stored_segments(output):
            account.stored_segments += count
            if wrong is not None:
                yield wrong

    def _end_in_peace(self) -> None:
        """Every job comes to its end once the power stays, and nothing is left over."""
        box, account = self._sandbox(), self._account
        with _killed_at_the_end(box):
            box.start()
            if not box.until_up():
                account.lost.append(f"it does not start: {_last_words(box)}")
                return
            for job in self._ledger.jobs:
                for operation in ("resume", "retry"):
                    box.send(calls.act(operation, [job]))
            try:
                until(lambda: not _unfinished(box), "every job ends", _END_S, poll_s=0.3)
            except TqError as error:
                account.lost.append(f"{error.message}: {_unfinished(box)}")
            for job in self._ledger.jobs:
                view = box.job(job)
                account.jobs += 1
                account.jobs_done += view["status"] == "done"
                if view["status"] != "done":
                    account.lost.append(f"job {job} is {view['status']} in the end: {view['error']}")
            box.stop()
        account.events += len(self._ledger.events)
        # A ladder that was published without syncs stays as torn as it was.
        torn = {_subject(line) for line in account.caught}
        found = self._look_at_files(box.output, ended=True)
        account.lost += [line for line in found if _subject(line) not in torn]
        account.lost += _left_over(box.output)
        self._say(f"       all jobs of home {account.homes} are done")


def _subject(line: str) -> str:
    """What a line of the account is about: `ladder clip-1`."""
    return line.partition(":")[0]


def _last_words(box: Sandbox) -> str:
    """The last words of the supervisor."""
    return (box.root / "supervisor.out").read_text()[-_LAST_WORDS:]


def _unfinished(box: Sandbox) -> list[int]:
    page = box.send(calls.jobs("state:pending,running,paused", limit=50))
    return [job["id"] for job in page["jobs"]]


def _left_over(output: Path) -> Iterator[str]:
    left = [*output.glob(".tqstudio/*/scratch/*"), *output.glob(".tqstudio/*/trash/*")]
    left += [path for path in output.glob("[!.]*/.*") if path.name != ".owner"]
    for path in left:
        yield f"left over: {path.relative_to(output)}"


def _wait(box: Sandbox, within_s: float, enough: Callable[[], bool]) -> bool:
    """Wait for the moment of the cut; True when the supervisor has ended before, as a fail point has it."""
    deadline = time.monotonic() + within_s
    while not enough() and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            box.wait_ended(_GLANCE_S)
            return True
    return False


@contextlib.contextmanager
def _killed_at_the_end(box: Sandbox) -> Iterator[None]:
    """Whatever happens in here: nothing holds the file system afterwards."""
    try:
        yield
    finally:
        box.kill()
