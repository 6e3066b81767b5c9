"""The sentences people read: events, jobs, gates, sources, added files, errors, a stopped supervisor.

Other tests compare codes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tqstudio.cli.commands.studio.up_down import remaining_summary
from tqstudio.engine.api.views import source_summary
from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
from tqstudio.errors import MEANINGS, ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import PAUSED_WITHOUT_REASON
from tqstudio.ui.screens.job.sections import broken_off_in
from tqstudio.ui.screens.job.source_facts import facts_text
from tqstudio.words.added import COMMANDS, sentence, summary
from tqstudio.words.format import source_size
from tqstudio.words.sentences import (
    EVENTS,
    attempt_words,
    autorestart_words,
    error_now,
    event_remark,
    event_sentence,
    failure_words,
    gate_words,
    makers_words,
    status_text,
    worker_words,
)
from tqstudio.words.symbols import UNICODE, quality_look
from ui.samples import error, event, job_detail, job_row, rendition, sample_jobs


@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        ("in_progress", {}, "attempt 1 of 3"),
        ("pending", {"attempts": 1}, "attempt 2 of 3"),
        ("in_progress", {"attempts": 3}, "attempt 3 of 3"),
        ("failed", {"attempts": 3}, "3 of 3 attempts failed"),
        ("done", {"attempts": 0}, ""),
        ("pending", {"crashes": 1}, "0 of 3 failed, 1 of 3 crashed"),
    ],
)
def test_attempts_have_one_wording(status: str, more: dict[str, Any], words: str) -> None:
    assert attempt_words(job_row(1, "a.mp4", status, **more)) == words


@pytest.mark.parametrize(
    ("ranges", "missing", "workers", "makers"),
    [
        ([], [(4, 19)], "cpu-0", "segments: cpu-0 from 4"),
        (
            [("cpu-1", 16, 19)],
            [(4, 19)],
            *("cpu-0 with cpu-1", "segments: cpu-0 from 4, cpu-1 16–18"),
        ),
        (
            [("gpu-0", 9, 12), ("cpu-1", 12, 13), ("box-2", 13, 19)],
            [],
            "cpu-0 with box-2, cpu-1 and gpu-0",
            "segments: gpu-0 9–11, cpu-1 12, box-2 13–18",
        ),
        ([], [], "cpu-0", ""),
    ],
)
def test_who_makes_what_of_a_divided_job(
    ranges: list[tuple[str, int, int]], missing: list[tuple[int, int]], workers: str, makers: str
) -> None:
    views = [{"worker": worker, "first": first, "end": end, "done": 0} for worker, first, end in ranges]
    division = {"renditions": ["720p"], "missing": missing, "ranges": views}
    row = job_row(1, "a.mp4", "in_progress", division=division)
    assert (worker_words(row), makers_words(row)) == (workers, makers)
    assert makers_words(row | {"status": "paused"}) == ""
    alone = row | {"division": None}
    assert (worker_words(alone), makers_words(alone)) == ("cpu-0", "")
    assert worker_words(job_row(1, "a.mp4")) == ""


def test_what_fails_for_good_does_not_say_that_nothing_failed() -> None:
    assert failure_words(job_row(1, "a.mp4", "failed", attempts=0)) == "failed, not retried"
    assert failure_words(job_row(1, "a.mp4", "failed", attempts=3)) == "3 of 3 failed"
    assert failure_words(job_row(1, "a.mp4", "pending", attempts=0)) == "no failure counted"


def test_a_cancelled_job_keeps_its_error() -> None:
    failure = error("SOURCE_TRUNCATED", "ends after 30 s", "copy it again")
    assert error_now(job_row(1, "a.mp4", "cancelled", error=failure)) == failure
    assert error_now(job_row(1, "a.mp4", "in_progress", error=failure)) is None, "it may succeed now"


@pytest.mark.parametrize(
    ("outcome", "timed", "step"),
    [
        # A worker that died had no time to say how long the step took that it died in.
        ("lost", ["probe", "extras"], "transcode"),
        ("lost", [], "probe"),
        ("failed", ["probe", "extras", "transcode"], "transcode"),
        ("paused", ["probe"], "probe"),
        ("done", ["probe"], None),
        ("running", ["probe"], None),
    ],
)
def test_the_step_in_which_an_attempt_broke_off(outcome: str, timed: list[str], step: str | None) -> None:
    attempt = job_detail(sample_jobs()[0])["attempts_log"][0]
    assert broken_off_in(attempt | {"outcome": outcome, "steps": dict.fromkeys(timed, 1.0)}) == step


def test_a_quality_stands_as_its_job_does() -> None:
    unfinished = rendition("720p", 3)
    assert quality_look(unfinished, "paused") == ("paused", "paused")
    assert quality_look(unfinished, "cancelled") == ("cancelled", "cancelled")
    assert quality_look(unfinished, "failed") == ("skipped", "not encoded")
    running = rendition("720p", 3, status="in_progress")
    assert quality_look(running, "in_progress") == ("running", "running")
    assert quality_look(running, "in_progress", stale=True)[0] == "stale"


def test_every_kind_of_event_has_a_sentence() -> None:
    assert EVENTS.keys() == set(EventKind)
    assert {state for state, _ in EVENTS.values()} <= UNICODE.states.keys()
    for kind in EventKind:
        text = event_sentence(event(1, kind, 7, 0, worker="cpu-0"))
        assert not set(text) & set("_{"), kind


def test_an_event_of_a_later_version_is_shown_as_it_came() -> None:
    assert event_sentence(event(1, "requeued:somehow_else", 7, 0)) == "requeued somehow else"


def test_a_remark_says_what_the_sentence_leaves_out() -> None:
    assert event_remark(event(1, "pause", 7, 0, actor="user")) == "by the user"
    assert event_remark(event(1, "create", 7, 0, detail="new")) == ""
    paused = event(1, "gate_closed", None, 0, actor="user", code="user", detail=PAUSED_WITHOUT_REASON)
    assert event_remark(paused) == "by the user"
    failed = event(1, "fail_final", 7, 0, code="NO_MEDIA", detail="notes.mp4 holds no video")
    assert event_remark(failed) == "NO_MEDIA: notes.mp4 holds no video"


def test_facts_are_a_table_with_units() -> None:
    text = facts_text(job_detail(sample_jobs()[0])["video_view"])
    fields = {line[:18].strip(): line[18:] for line in text.splitlines() if line.startswith(" ")}
    assert fields["size"].startswith("812 MB (812")
    assert fields["frame rate"] == "23.976 frames a second"
    assert fields["colour"] == "BT.709, limited range"
    assert fields["sample rate"] == "48 kHz"
    assert [line for line in text.splitlines() if line and line[0] != " "] == ["File", "Video", "Audio 1"]


@pytest.mark.parametrize(("width", "heading"), [(600, ["Cover"]), (0, [])])
def test_sound_alone_has_a_cover_but_no_video(width: int, heading: list[str]) -> None:
    view = job_detail(sample_jobs()[0])["video_view"]
    facts = view["facts"] or {}
    video = facts["video"] | {"still": True, "width": width}
    text = facts_text(view | {"facts": facts | {"video": video}})
    assert [line for line in text.splitlines() if line and line[0] != " "] == ["File", *heading, "Audio 1"]
    assert "frame rate" not in text
    summary = source_summary(1, {"video": video, "duration_s": 2.0}, None)
    assert (summary["fps"], source_size(summary)) == (None, "sound")


def test_facts_of_a_source_that_was_not_read() -> None:
    video = job_detail(sample_jobs()[0])["video_view"] | {"facts": None}
    assert "the file has not been analysed yet" in facts_text(video)


def test_no_state_lacks_a_sign() -> None:
    assert {"stale", "running", "paused", "done", "failed"} <= set(UNICODE.states)


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW_AND_30 = (NOW + timedelta(seconds=30)).isoformat()
GATE: dict[str, Any] = {
    "kind": "disk",
    "code": "DISK_LOW",
    "reason": "job 4 has no room",
    "since": "",
    "until": None,
}
GATE |= {"hint": "free some space", "until": None}
SIGNS = {"pause": "p", "pause_all": "P", "log": "l", "retry": "r"}


def test_a_shut_disk_gate_is_reported_with_its_code() -> None:
    assert gate_words(cast("Any", GATE)) == "DISK_LOW: job 4 has no room – free some space"


@pytest.mark.parametrize(
    ("word", "more", "gates", "expected"),
    [
        ("pending", {}, [], "waiting for a worker"),
        ("pending", {}, [GATE], "waiting: job 4 has no room"),
        (
            "pending",
            {},
            [GATE | {"kind": "user", "reason": "lunch"}],
            "the queue is paused (lunch) – P resumes",
        ),
        (
            "pending",
            {},
            [GATE | {"kind": "user", "reason": PAUSED_WITHOUT_REASON}],
            "the queue is paused – P",
        ),
        ("pending", {}, [GATE | {"kind": "workers", "code": None}], "waiting: job 4 has no room"),
        ("retry", {"retry_in_s": 40.0}, [], "will be retried automatically – press p twice to retry now"),
        (
            "running",
            {"idle_s": 300.0},
            [],
            "no progress for 5m – press p twice to requeue it; 3 finished segments",
        ),
        ("running", {"idle_s": None}, [], ""),
        (
            "done",
            {"actual_s": 62.0, "predicted_s": 50.0},
            [],
            "took 01:02; estimated 00:50",
        ),
        ("done", {"actual_s": 200.0}, [], "took 03:20"),
        ("pending", {"deleted_at": "2026-01-01T00:00:00Z"}, [], "deleted – r restores it"),
    ],
)
def test_a_job_says_why_it_waits(word: str, more: dict[str, Any], gates: list[Any], expected: str) -> None:
    row = job_row(1, "a.mp4", "pending", renditions=[rendition("720p", 3)]) | {"word": word} | more
    said = status_text(row, gates, SIGNS.__getitem__)
    assert expected in said
    assert bool(expected) == bool(said)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"state": "disabled", "limit": 0}, ""),
        ({"state": "enabled"}, "restarts automatically 60s after a failure, 2 times at most"),
        ({"state": "enabled", "next_at": NOW_AND_30}, "restarts automatically in 30s, restart 1 of 2"),
        ({"state": "in_progress", "restarts": 1}, "automatic restart 1 of 2"),
        ({"state": "failed", "restarts": 2}, "restarted automatically 2 of 2 times: no restart left"),
        ({"state": "denied"}, "not restarted automatically: retrying cannot fix this error"),
    ],
)
def test_autorestart_is_reported(rule: dict[str, Any], expected: str) -> None:
    unset = {"limit": 2, "delay_s": 60.0, "restarts": 0, "last_at": None, "next_at": None}
    assert autorestart_words(cast("Any", unset | rule), NOW) == expected


ADDED: dict[str, Any] = {
    "job": 7,
    "master": "/out/a/master.m3u8",
    "applied": {},
    "other_job": None,
    "error": None,
}


@pytest.mark.parametrize(
    ("result", "expected", "counted"),
    [
        ({"decision": "queued"}, "queued as job 7", "1 queued"),
        ({"decision": "cached"}, "its ladder is complete: /out/a/master.m3u8", "1 already complete"),
        ({"decision": "retried"}, "job 7 requeued", "1 requeued"),
        (
            {"decision": "failed"},
            "job 7 failed; retry it with: tqstudio job retry 7",
            "1 failed before",
        ),
        (
            {"decision": "changed", "reason": "ladder"},
            "its ladder is incomplete; queued as job 7 to encode what is missing",
            "1 queued for what is missing",
        ),
        (
            {"decision": "waiting", "status": "paused", "applied": {"priority": 3, "hold": True}},
            "is paused as job 7; resume it with: tqstudio job resume 7; held; now with priority 3",
            "1 paused; 1 held; 1 now with priority 3",
        ),
        (
            {"decision": "queued", "other_job": 4},
            "queued as job 7 (job 4 encodes the same file for another output)",
            "1 queued; 1 also encoded for another output",
        ),
    ],
)
def test_what_becomes_of_an_added_file(result: dict[str, Any], expected: str, counted: str) -> None:
    whole = cast("Any", ADDED | result)
    assert sentence(whole, COMMANDS) == expected
    assert summary([whole]) == counted


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_says_what_and_what_now(code: ErrorCode) -> None:
    meaning = MEANINGS[code]
    for text in (meaning.meaning, meaning.hint):
        assert text
        assert text[0].islower()
        assert not text.endswith(".")


@pytest.mark.parametrize(
    ("left", "begun", "paused", "expected"),
    [
        (0, 0, 0, "no job is left"),
        (0, 0, 1, "no job is left; 1 is paused"),
        (1, 0, 0, "1 job is left; continue with: tqstudio up"),
        (1, 1, 0, "1 job is left, started: finished parts are kept; continue with: tqstudio up"),
        (
            3,
            1,
            0,
            "3 jobs are left, 1 of them started: finished parts are kept; continue with: tqstudio up",
        ),
        (
            *(3, 2, 4),
            "3 jobs are left, 2 of them started: finished parts are kept; 4 are paused;"
            " continue with: tqstudio up",
        ),
    ],
)
def test_what_a_supervisor_leaves(
    left: int, begun: int, paused: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TQSTUDIO_HOME", raising=False)
    assert (
        remaining_summary(ShutdownSummary(left, begun, paused)) == f"the supervisor has stopped; {expected}"
    )
