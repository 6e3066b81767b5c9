"""What carries a worker's requests to the supervisor and the answers back: late, twice, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tqstudio.engine.api import worker_api
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import requests

if TYPE_CHECKING:
    from .life import Life
    from .process import Process
    from .world import World


@dataclass
class _Exchange:
    """One request under way."""

    given_up: bool = False
    """Its sender has hung up, and the supervisor can know."""


class Network:
    """Every request has a fate, drawn from the world's one source of chance."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def send(
        self, sender: Process, verb: str, body: dict[str, Any], *, job: int = 0, timeout_s: float
    ) -> Any:
        """The supervisor's answer.

        Raises:
            TqError: as it refused; NO_SUPERVISOR when there was no answer in time, whatever became of it.
        """
        world, rng = self._world, self._world.rng
        life = world.life
        if life is None or not life.running:
            await asyncio.sleep(0.01)
            raise _no_answer()
        trouble = world.trouble
        exchange = _Exchange()
        lost, answer_lost = rng.random() < 0.02 * trouble, rng.random() < 0.04 * trouble
        late_s = rng.uniform(1, 120) if rng.random() < 0.03 * trouble else 0.0
        arrivals = 1 + (rng.random() < 0.03 * trouble)
        if sender.partitioned or lost:
            await asyncio.sleep(timeout_s)
            raise _no_answer()
        answers = [
            life.run(self._arrive(life, sender, verb, body, job, exchange, late_s + self._latency_s(n)))
            for n in range(arrivals)
        ]
        try:
            done, _ = await asyncio.wait(answers[:1], timeout=timeout_s)
        except asyncio.CancelledError:
            exchange.given_up = True
            raise
        exchange.given_up = not done and rng.random() < 0.5
        if not done or answer_lost or sender.partitioned or life.dead:
            if done:
                await asyncio.sleep(rng.random() * timeout_s)
            raise _no_answer()
        await asyncio.sleep(self._latency_s(0))
        return answers[0].result().unwrap()

    def _latency_s(self, repeat: int) -> float:
        return self._world.rng.random() * (0.003 if repeat == 0 else 20.0)

    async def _arrive(
        self,
        life: Life,
        sender: Process,
        verb: str,
        body: dict[str, Any],
        job: int,
        exchange: _Exchange,
        after_s: float,
    ) -> Answer:
        await asyncio.sleep(after_s)
        await life.in_motion()
        if not life.running:
            return Answer(error=_no_answer())
        self._world.arrived(sender, verb, body, job)
        arrived_us = self._world.audit.boot_us
        try:
            answer = await self._serve(life, sender, verb, body, job, exchange)
        finally:
            if verb == "claim":
                self._world.audit.claim_ended(sender.instance)
        if not life.dead:
            self._world.answered(sender, verb, body, job, answer, arrived_us)
        return answer

    async def _serve(
        self, life: Life, sender: Process, verb: str, body: dict[str, Any], job: int, exchange: _Exchange
    ) -> Answer:
        """Call the endpoint of the worker API as its router does."""

        async def disconnected() -> bool:
            return life.dead or exchange.given_up

        try:
            who = life.services.worker_tokens.of(sender.token)
            if who is None:
                raise TqError(ErrorCode.UNAUTHORIZED, "this token is not valid")
            message = _MESSAGES[verb].model_validate(body)
            given = {"job": job} if job else {"disconnected": disconnected} if verb == "claim" else {}
            return Answer(await getattr(worker_api, verb)(life.services, who, body=message, **given))
        except TqError as error:
            return Answer(error=error)
        except Exception as error:
            self._world.mistake(f"{verb} was answered with {error!r}", error=error)
            return Answer(error=_no_answer())


_MESSAGES: dict[str, type[requests.WorkerMessage]] = {
    "register": requests.RegisterRequest,
    "claim": requests.ClaimRequest,
    "tested": requests.TestedRequest,
    "heartbeat": requests.HeartbeatRequest,
    "progress": requests.ProgressRequest,
    "complete": requests.CompleteRequest,
    "fail": requests.FailRequest,
    "release": requests.ReleaseRequest,
}


@dataclass
class Answer:
    """What came back."""

    body: Any = None
    error: TqError | None = None

    def unwrap(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.body


def _no_answer() -> TqError:
    return TqError(ErrorCode.NO_SUPERVISOR, "no supervisor answers")
