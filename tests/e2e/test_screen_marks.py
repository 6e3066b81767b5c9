"""Marks on a real terminal: what a key does to jobs that are off the screen, gone, or many."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Program
from tqstudio.protocol import calls
from waiting import until

from .conftest import Held, MakeClip
from .studio import Studio, done_to
from .terminal import Terminal


@pytest.mark.more
def test_qualities_of_marks_that_a_filter_hides_are_chosen(
    studio: Studio, clip: MakeClip, copy: Callable[..., Path], terminal: Terminal
) -> None:
    large = studio.add(copy(clip(seconds=2, size="320x180"), "large.mp4"))
    small = studio.add(copy(clip(seconds=2, size="160x90"), "small.mp4"))
    for job in (large, small):
        studio.done(job)
    terminal.shows("large.mp4", "small.mp4")
    until(lambda: len(re.findall(r"\d ✓ done", terminal.text())) == 2, "both are shown as done")
    terminal.press("a")
    terminal.shows("2 marked")
    terminal.press("/nothing\r")
    terminal.shows("no job matches", "2 marked, 2 hidden")
    terminal.press("e")
    terminal.shows("Encode 2 jobs (2 hidden by the filter) again", "180p", "120p", "90p")
    assert done_to(studio, [large, small]) == []
    # None of them, then the largest one, which only one of the videos can have.
    terminal.press("a\t \r")
    terminal.shows("1 of 2 refused", f"{small} has no quality 180p")
    newest = lambda: studio.client.send(calls.jobs(sort="-number"))["jobs"]  # noqa: E731
    made = until(lambda: [row for row in newest() if row["id"] not in (large, small)], "a new job")
    assert [(row["name"], studio.job(row["id"])["requested"]) for row in made] == [("large.mp4", ["180p"])]
    studio.done(made[0]["id"])


@pytest.mark.slow
def test_marks_die_with_their_jobs(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(3)
    terminal.shows("3 jobs", "clip-002.mp4")
    terminal.press("a")
    terminal.shows("3 marked")
    studio.do("delete", jobs[2])
    terminal.shows("2 jobs", "2 marked")
    # Deleted from here, and without a pause before the next key, which is for the job under the cursor.
    terminal.press("u D+")
    terminal.shows("1 job")
    done = until(lambda: done_to(studio, [jobs[1]]), "the last job was raised")
    assert done == [(jobs[1], "priority_changed")]
    assert [trigger for _, trigger in done_to(studio, [jobs[0], jobs[2]])] == ["deleted", "deleted"]
    assert "marked" not in terminal.text()


@pytest.mark.slow
def test_a_hidden_mark_is_known_to_hold_work(
    studio: Studio, copy: Callable[..., Path], clip: MakeClip, terminal: Terminal
) -> None:
    """Marked while nothing of it was made; it begins while a filter hides it."""
    with studio.paced(1):
        (result,) = studio.offer(copy(clip(seconds=30, size="320x180"), "long.mp4"), hold=True)
        job = result["job"]
        terminal.shows("1 job", "long.mp4")
        terminal.press(" ")
        terminal.shows("1 marked")
        terminal.press("/")
        terminal.shows("words in the name")
        terminal.press("state:done\r")
        terminal.shows("no job matches", "1 marked, 1 hidden")
        studio.do("resume", job)
        studio.running(job, segments=2)
        until(lambda: "finished segments, and" in _asked_to_restart(job, terminal), "the segments are known")
        assert studio.job(job)["status"] == "in_progress"
        assert "restart_requested" not in [trigger for _, trigger in done_to(studio, [job])]


def _asked_to_restart(job: int, terminal: Terminal) -> str:
    """What the screen asks before it restarts a job that the filter hides; the answer is no."""
    question = f"Restart job {job}, long.mp4 (hidden by the filter)?"
    terminal.press("R")
    shown = terminal.shows(question, "Keep it")
    terminal.press("\r")
    terminal.lacks(question)
    return shown


@pytest.mark.slow
def test_a_key_on_many_jobs_asks(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(21)
    terminal.shows("21 jobs", "clip-0")
    for key, question in (
        ("p", "Resume 21 jobs?"),
        ("x", "Cancel 21 jobs?"),
        ("+", "Change the priority of 21 jobs?"),
        ("D", "Delete 21 jobs?"),
    ):
        terminal.press(f"a{key}")
        terminal.shows(question, "Change nothing")
        terminal.press("\r")
        terminal.lacks(question)
        # The answer typed ahead of the question, which is asked once more to see that it was.
        terminal.press(f"{key}\r{key}n?")
        terminal.shows("What can be done here")
        terminal.press("?")
        terminal.lacks("What can be done here")
    terminal.press("=7\r")
    terminal.shows("Change the priority of 21 jobs?")
    assert done_to(studio, jobs) == []
    terminal.press("y")
    until(lambda: len(done_to(studio, jobs)) == 21, "all are changed")


@pytest.mark.more
def test_a_key_on_some_jobs_does_not_ask(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(21)
    terminal.shows("21 jobs", "clip-0")
    terminal.press(" " * 20 + "+")
    until(lambda: len(done_to(studio, jobs)) == 20, "the marked ones are changed")
    terminal.press("aDy")
    terminal.lacks("clip-000.mp4")
    terminal.shows("z restores them")
    terminal.press("z")
    terminal.shows("21 jobs", "clip-0")


@pytest.mark.slow
def test_a_command_and_the_bin_act_on_more_jobs_than_a_slice(
    studio: Studio, held: Held, terminal: Terminal
) -> None:
    """What a command deletes by filter, a key in the bin brings back by filter."""
    jobs = held(600, "many")
    terminal.shows("600 jobs")
    answer = Program(studio.home.root)("job", "delete", "--filter", "many", "--json")
    assert (answer.code, answer.json()["done"]) == (0, 600), answer.err
    terminal.shows("the queue is empty")
    terminal.press("/state:deleted many\r")
    terminal.shows("many-000.mp4", "600 jobs", "r restore", "deleted – r restores it")
    terminal.press("ar")
    terminal.shows("Restore all 600 jobs that match state:deleted many?")
    terminal.press("y")
    terminal.shows("600 restored")
    terminal.press("\x1b")
    terminal.shows("600 jobs")
    # If the bin was drawn between the two slices, the cursor is on the first job of the second one.
    terminal.press("g")
    terminal.shows("600 jobs", "many-000.mp4")
    assert {studio.job(job)["deleted_at"] for job in (jobs[0], jobs[-1])} == {None}
    assert "cancelled" not in {studio.job(job)["status"] for job in (jobs[0], jobs[-1])}
