"""The course of millions of jobs through a fleet with faults. Times are whole µs: one seed gives one course.

Each worker has one event at most, the end of its encode or of its publish; `_due` says which one is valid.
Nothing is scheduled for a worker that does not reach the leader: what became of its job is decided when it
does, from when its lease ran out by its own clock.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from random import Random

from .constants import US, Costs, Fleet, Rules
from .leader import Load
from .outcome import Outcome, Violation

_ENCODED, _PUBLISHED, _LINE_CUT, _LINE_BACK, _EXPIRED, _LEADER_FAULT, _TAKEN_OVER = range(7)
_FREE, _ENCODES, _PUBLISHES, _WAITS = range(4)
_LEADER_FAULTS = _STOPPED, _DIES, _IS_CUT_OFF = range(3)
"""In turn: stopped by a command, dead, and cut from the database."""
_TABLE = 1 << 14
"""Draws of each kind; a job always has the same length, by its number."""
_MIX = 40_503
_LONGEST_S = 12 * 3600.0
_PUBLISH_S = 0.2
"""Median of a publish: some hundred links and syncs."""
_SEEN = 0.7
"""Share of a publish after which players see the new ladder."""
_SLOW_DISK, _SLOW_OUTPUT = 5, 100
_RETRY_US = 3 * US
"""A worker without an answer asks again after so long at most."""
_REPAIR_US = 600 * US
"""After which a supervisor that died stands by again."""
_COMMIT_US = 10_000
_LATE_SHARE = 0.2
"""Of the workers that lost their job while they were not reached: they report its end, as after a suspend."""


class Course:
    """One course of a fleet.

    Args:
        load: of the leader while all workers encode.
    """

    def __init__(self, fleet: Fleet, costs: Costs, load: Load, rules: Rules) -> None:
        self._fleet, self._rules, self._random = fleet, rules, Random(fleet.seed)
        self._beat_us = round(costs.heartbeat_s * US)
        self._lease_us, self._leader_lease_us = round(fleet.lease_s * US), round(fleet.leader_lease_s * US)
        # Drawn from numbers of their own, so that wrong clocks change nothing else.
        clocks, n = Random(fleet.seed + 1), fleet.workers
        self._clock_us = [round(clocks.uniform(-fleet.skew_s, fleet.skew_s) * US) for _ in range(n)]
        self._lengths = self._table(lambda: length_s(self._random, fleet) / fleet.speed * load.slower * US)
        self._publishes = self._table(lambda: self._publish_s() * US)
        self._claims = self._table(lambda: self._random.choice(load.waits_us))
        self._events: list[tuple[int, int, int, int]] = []
        """When, what, of which worker, of which job."""
        self._state, self._job = [_FREE] * n, [-1] * n
        self._due, self._ends, self._began = [-1] * n, [0] * n, [0] * n
        self._is_up = [True] * n
        self._cut, self._until, self._lease = [0] * n, [0] * n, [0] * n
        """When a worker was reached last, until when it encodes without that, and when the leader looks."""
        self._lost: dict[int, int] = {}
        """Worker → the job that was taken from it while it was not reached."""
        self._idle: deque[int] = deque()
        self._ready: deque[int] = deque()
        """Jobs that were begun and wait again."""
        self._left: dict[int, int] = {}
        """What is missing of them, in µs of an encode."""
        self._next, self._is_calm = 0, False
        self._done, self._shown = bytearray(fleet.jobs), set[int]()
        """Jobs that have ended, and those whose ladder players see although they have not."""
        self._is_led, self._acts_until = True, 0
        self._away: list[int] = []
        """When each supervisor that died stands by again."""
        self.outcome = Outcome()

    def _table(self, draw: Callable[[], float]) -> list[int]:
        return [max(1, round(draw())) for _ in range(_TABLE)]

    def _publish_s(self) -> float:
        slow = _SLOW_OUTPUT if self._random.random() < self._fleet.slow_output_share else 1
        return self._random.lognormvariate(math.log(_PUBLISH_S), 0.5) * slow

    def run(self) -> Outcome:
        """Run until all jobs have ended and nothing more happens; faults end with the last new job.

        Raises:
            Violation: of an invariant.
        """
        for worker in range(self._fleet.workers):
            self._claim(worker, self._random.randrange(US))
            self._plan(0, worker, _LINE_CUT, self._fleet.line_fault_s)
        self._plan(0, 0, _LEADER_FAULT, self._fleet.leader_fault_s)
        rare = {
            _LINE_CUT: self._line_cut,
            _LINE_BACK: self._line_back,
            _EXPIRED: self._expired,
            _LEADER_FAULT: self._leader_fault,
            _TAKEN_OVER: self._taken_over,
        }
        events, due, ends, state = self._events, self._due, self._ends, self._state
        publishes, pop, replace, now = self._publishes, heapq.heappop, heapq.heapreplace, 0
        while events:
            now, what, worker, job = events[0]
            if what > _PUBLISHED:
                pop(events)
                rare[what](now, worker, job)
            elif due[worker] != now:
                pop(events)
            elif what == _ENCODED:
                at = now + publishes[job * _MIX + 7 & _TABLE - 1]
                self._began[worker], state[worker] = now, _PUBLISHES
                ends[worker] = due[worker] = at
                replace(events, (at, _PUBLISHED, worker, job))
            else:
                pop(events)
                self._end(worker, job, now)
                self._job[worker], state[worker] = -1, _FREE
                if self._is_up[worker]:
                    self._claim(worker, now)
        if lost := self._done.count(0):
            raise Violation("none_lost", f"{lost} jobs have not ended, the first is {self._done.index(0)}")
        return self.outcome

    # Jobs

    def _claim(self, worker: int, now: int) -> None:
        """Give a worker that reaches the leader a job, or let it wait for one."""
        out = self.outcome
        if self._ready:
            job = self._ready.popleft()
            takes = self._left.pop(job)
        elif self._next < self._fleet.jobs:
            job = self._next
            self._next += 1
            takes = self._lengths[job * _MIX & _TABLE - 1]
            out.encoded_us += takes
            if (job * 7919 + 13) % 10_007 < self._fleet.slow_disk_share * 10_007:
                takes *= _SLOW_DISK
        else:
            self._is_calm = True
            self._idle.append(worker)
            self._state[worker] = _WAITS
            return
        out.claims += 1
        at = now + self._claims[out.claims & _TABLE - 1] + takes
        self._job[worker], self._state[worker] = job, _ENCODES
        self._ends[worker] = self._due[worker] = at
        heapq.heappush(self._events, (at, _ENCODED, worker, job))

    def _offer(self, job: int, left_us: int, now: int) -> None:
        """Let a job wait again, for the first worker that waits."""
        self._left[job] = max(1, left_us)
        self._ready.append(job)
        while self._ready and self._idle:
            worker = self._idle.popleft()
            self._state[worker] = _FREE
            if self._is_up[worker]:
                self._claim(worker, now)

    def _end(self, worker: int, job: int, now: int) -> None:
        if self._done[job]:
            raise Violation("done_once", f"job {job} ends again at {_clock(now)}, by worker {worker}")
        if job in self._shown:
            raise Violation("published_once", f"job {job} at {_clock(now)}, by worker {worker}")
        self._done[job] = 1
        self.outcome.span_us = now

    def _requeue(self, worker: int, now: int) -> None:
        """Take a job from a worker; what had arrived of it is kept."""
        job, until = self._job[worker], self._until[worker]
        if until > now:
            late_s = (until - now) / US
            raise Violation(
                "one_owner", f"job {job} at {_clock(now)}, worker {worker} has {late_s:.0f} s more"
            )
        self.outcome.requeued += 1
        self.outcome.again_us += max(0, min(self._ends[worker], until) - self._cut[worker])
        self._job[worker], self._state[worker] = -1, _FREE
        self._offer(job, self._ends[worker] - self._cut[worker], now)

    # Lines

    def _plan(self, now: int, worker: int, what: int, every_s: float) -> None:
        if not self._is_calm and every_s:
            at = now + round(self._random.expovariate(1 / every_s) * US)
            heapq.heappush(self._events, (at, what, worker, 0))

    def _lose_touch(self, worker: int, now: int, asked: int) -> None:
        """Args: `asked`: when the worker sent the last heartbeat that was answered."""
        self._due[worker], self._cut[worker] = -1, now
        self._until[worker] = self._lease[worker] = asked + self._lease_us
        if not self._rules.keeps_leases_by_own_clock:
            # It compares the end of its lease by the leader's clock with its own.
            self._until[worker] -= self._clock_us[worker]

    def _is_in_touch(self, worker: int) -> bool:
        return self._due[worker] >= 0

    def _line_cut(self, now: int, worker: int, _: int) -> None:
        self._is_up[worker] = False
        seconds = self._random.lognormvariate(math.log(self._fleet.cut_s), 1.5)
        heapq.heappush(self._events, (now + round(seconds * US), _LINE_BACK, worker, 0))
        self.outcome.line_cuts += 1
        if self._is_led and self._state[worker] == _ENCODES and self._is_in_touch(worker):
            asked = now - self._random.randrange(self._beat_us)
            self._lose_touch(worker, now, asked)
            self._watch(worker, asked + self._lease_us)

    def _line_back(self, now: int, worker: int, _: int) -> None:
        self._is_up[worker] = True
        self._plan(now, worker, _LINE_CUT, self._fleet.line_fault_s)
        if self._is_led:
            self._reach(worker, now + self._random.randrange(_RETRY_US))

    def _watch(self, worker: int, lease_ends: int) -> None:
        """Have the leader take the job of a worker by its next scan, if it is not heard until then."""
        self._lease[worker] = lease_ends
        at = lease_ends + self._random.randrange(round(self._fleet.lease_scan_s * US))
        heapq.heappush(self._events, (at, _EXPIRED, worker, self._job[worker]))

    def _expired(self, now: int, worker: int, job: int) -> None:
        if not self._is_led or self._job[worker] != job or now < self._lease[worker]:
            return
        if self._state[worker] == _ENCODES and not self._is_in_touch(worker):
            self._requeue(worker, now)
            if self._is_up[worker]:
                self._claim(worker, now)
            else:
                self._lost[worker] = job

    def _reach(self, worker: int, now: int) -> None:
        """A worker gets an answer of the leader again."""
        state, until = self._state[worker], self._until[worker]
        if state == _ENCODES and not self._is_in_touch(worker):
            if now <= until:
                at = self._due[worker] = max(self._ends[worker], now)
                heapq.heappush(self._events, (at, _ENCODED, worker, self._job[worker]))
            else:
                # It has dropped the job: two heartbeats do not name it.
                self._watch(worker, now + 2 * self._beat_us)
        elif state == _FREE:
            self._report_late(worker, now)
            self._claim(worker, now)

    def _report_late(self, worker: int, now: int) -> None:
        job = self._lost.pop(worker, -1)
        if job >= 0 and self._random.random() < _LATE_SHARE:
            if self._rules.compares_epochs:
                self.outcome.refused += 1
            else:
                self._end(worker, job, now)

    # Leaders

    def _leader_fault(self, now: int, _worker: int, _job: int) -> None:
        self._plan(now, 0, _LEADER_FAULT, self._fleet.leader_fault_s)
        if not self._is_led:
            return
        self._is_led = False
        self.outcome.takeovers += 1
        kind = _LEADER_FAULTS[self.outcome.takeovers % len(_LEADER_FAULTS)]
        renewed = now - self._random.randrange(self._beat_us)
        # Its own clock counts from when it asked, that of the database from the commit.
        acts_until = renewed + self._leader_lease_us if kind == _IS_CUT_OFF else now
        expires = now if kind == _STOPPED else renewed + self._leader_lease_us + _COMMIT_US
        self._acts_until = acts_until
        for worker, state in enumerate(self._state):
            if state == _PUBLISHES:
                self._interrupt(worker, acts_until)
            elif state == _ENCODES and self._is_in_touch(worker):
                # One that is cut from the database still answers heartbeats, and stores nothing.
                self._lose_touch(worker, now, acts_until - self._random.randrange(self._beat_us))
        self._away = [each for each in self._away if each > now]
        others = max(1, self._fleet.supervisors - 1 - len(self._away))
        if kind != _STOPPED:
            self._away.append(now + _REPAIR_US)
        looked_s = min(self._random.random() for _ in range(others)) * self._fleet.poll_s
        begins = expires if self._rules.waits_for_lease else now
        at = begins + round((looked_s + self._fleet.start_s) * US)
        heapq.heappush(self._events, (at, _TAKEN_OVER, 0, 0))

    def _interrupt(self, worker: int, acts_until: int) -> None:
        """A publish ends unrecorded: players may see the ladder, although the job has not ended."""
        self._due[worker] = -1
        took = self._ends[worker] - self._began[worker]
        if self._began[worker] + took * _SEEN <= acts_until:
            self._shown.add(self._job[worker])

    def _taken_over(self, now: int, _worker: int, _job: int) -> None:
        if self._acts_until > now:
            more_s = (self._acts_until - now) / US
            raise Violation("one_leader", f"a second one at {_clock(now)}, the first has {more_s:.0f} s more")
        self._is_led = True
        for worker, state in enumerate(self._state):
            if state == _PUBLISHES:
                self._settle(worker, now)
        for worker, state in enumerate(self._state):
            at = now + self._random.randrange(_RETRY_US)
            if state == _ENCODES and not (self._is_up[worker] and at <= self._until[worker]):
                if self._is_up[worker]:
                    self.outcome.waits_us.append(at - self._until[worker])
                if self._rules.adopts:
                    # It has as long as a lease to be heard.
                    self._watch(worker, now + self._lease_us)
                else:
                    self._job[worker], self._state[worker] = -1, _FREE
            if self._is_up[worker]:
                self._reach(worker, at)

    def _settle(self, worker: int, now: int) -> None:
        """End or roll back the publish of a leader that is gone."""
        job, self._job[worker], self._state[worker] = self._job[worker], -1, _FREE
        if job in self._shown and self._rules.settles:
            self._shown.discard(job)
            self._end(worker, job, now)
        else:
            # All segments have arrived: the next worker has only to list them.
            self._offer(job, US, now)


def length_s(random: Random, fleet: Fleet) -> float:
    """Draw the length of a video in seconds."""
    return min(_LONGEST_S, random.lognormvariate(math.log(fleet.median_s), fleet.spread))


def mean_length_s(fleet: Fleet) -> float:
    """The mean of the lengths, as far as the longest allowed changes nothing."""
    return fleet.median_s * math.exp(fleet.spread**2 / 2)


def _clock(at: int) -> str:
    days, rest = divmod(at // US, 86_400)
    return f"day {days}, {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
