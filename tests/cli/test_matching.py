"""Commands on all jobs that a filter finds: little is sent, it is counted, and one sentence ends it."""

from __future__ import annotations

import io
import os
import signal
from typing import Any

import pytest

from tqstudio.cli.commands.jobs import change
from tqstudio.cli.session.supervisor_session import SupervisorSession
from tqstudio.errors import ErrorCode, TqError

LINE = "state:pending film"


class Slices:
    """A supervisor with so many jobs, in slices of 500; every tenth one is done."""

    def __init__(
        self, jobs: int, *, fails_after: int | None = None, interrupted_at: int | None = None
    ) -> None:
        self.jobs, self.fails_after, self.interrupted_at = jobs, fails_after, interrupted_at
        self.bodies: list[Any] = []

    def send(self, call: Any, **_: Any) -> Any:
        assert call.path == "/v1/jobs/bulk"
        if len(self.bodies) == self.fails_after:
            raise TqError(ErrorCode.SUPERVISOR_NOT_RESPONDING, "it does not answer")
        self.bodies.append(call.body)
        if len(self.bodies) == self.interrupted_at:
            os.kill(os.getpid(), signal.SIGINT)
        count = min(500, self.jobs - call.body["after"])
        return {
            "after": call.body["after"] + 500 if count == 500 else None,
            "done": count - count // 10,
            "skipped": {"done": count // 10} if count >= 10 else {},
            "reason": f"job {call.body['after'] + 10} is done",
            "removed_segments": 0,
        }


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def cancel(client: Slices, **more: Any) -> Any:
    session = SupervisorSession(client)  # type: ignore[arg-type]
    return change.act(session, "cancel", change.Matching(LINE, 9_000, client.jobs), **more)


def test_all_slices_have_one_key_and_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", screen := Screen())
    client = Slices(1_200)
    counts = cancel(client)
    assert counts == {
        "done": 1_080,
        "skipped": {"done": 120},
        "reason": "job 10 is done",
        "removed_segments": 0,
        "stopped": False,
    }
    assert [body["after"] for body in client.bodies] == [0, 500, 1_000]
    assert len({body["idempotency_key"] for body in client.bodies}) == 1
    assert {(body["filter"], body["newest"], body["operation"]) for body in client.bodies} == {
        (LINE, 9_000, "cancel")
    }
    shown = [line.removesuffix("\x1b[K") for line in screen.getvalue().split("\r")]
    assert shown == ["", *(f"cancelling {so_far} of 1 200" for so_far in ("0", "500", "1 000")), ""]
    assert change.report(counts, "cancel", as_json=False) == 4
    assert capsys.readouterr().out == "1 080 cancelled, 120 skipped: done\n"
    assert screen.getvalue().endswith("error: REFUSED: job 10 is done\n")


def test_nothing_is_counted_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    counts = cancel(Slices(9))
    assert change.report(counts, "cancel", as_json=False) == 0
    assert capsys.readouterr().out == "9 cancelled\n"


def test_control_c_stops_after_the_slice(capsys: pytest.CaptureFixture[str]) -> None:
    client = Slices(2_000, interrupted_at=2)
    assert change.report(cancel(client), "cancel", as_json=False) == 130
    assert len(client.bodies) == 2
    assert capsys.readouterr().out == "900 cancelled, 100 skipped: done; stopped\n"


def test_control_c_in_the_last_slice_stops_nothing() -> None:
    counts = cancel(Slices(700, interrupted_at=2))
    assert not counts["stopped"]


def test_what_was_done_before_an_error_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TqError):
        cancel(Slices(2_000, fails_after=1))
    assert capsys.readouterr().err == "450 cancelled, 50 skipped: done; stopped\n"
    with pytest.raises(TqError):
        cancel(Slices(2_000, fails_after=0))
    assert capsys.readouterr().err == ""
