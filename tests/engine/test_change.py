"""Changing jobs and forecasting what that costs, through the real API; the test plays workers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tqstudio.cli.commands.jobs.plan import _renditions
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import TqError
from tqstudio.protocol import calls

from .conftest import Desk
from .test_admission import FACTS as REAL_FACTS
from .test_api import report
from .test_completion import bench_of, complete
from .test_undo import MAKE, undo

_keys = itertools.count()
FACTS = REAL_FACTS.to_json()


def change(desk: Desk, *jobs: int, **more: Any) -> list[Any]:
    return desk.act("change", *jobs, **more)


def forecast(desk: Desk, *jobs: int, **more: Any) -> Any:
    return desk.live.send(calls.forecast(ids=list(jobs), **more))


def recorded(desk: Desk, job: int) -> Any:
    """The profile of a job as its worker gets it; the job runs then."""
    desk.act("resume", job)
    desk.act("priority", job, priority=1000)
    claimed = desk.worker().claim()
    assert claimed["job"] == job
    return claimed


def examined(desk: Desk, **more: Any) -> int:
    """A job that waits again after its source was examined."""
    worker, claimed = desk.running(**more)
    report(worker, claimed, 0.0, facts=FACTS, content_id=claimed["content_id"])
    desk.act("pause", claimed["job"])
    worker.send(f"jobs/{claimed['job']}/release", epoch=claimed["epoch"], reason="pause")
    assert desk.show(claimed["job"])["status"] == "paused"
    return int(claimed["job"])


def published(desk: Desk) -> int:
    """A done job whose ladder has the settings of its profile."""
    worker, job = desk.running(profile="web")
    report(worker, job, 1.0, facts=FACTS, content_id=job["content_id"])
    bench = bench_of(job)
    for name, key in expected_hashes(
        job["content_id"], Profile.from_json(job["profile"]), REAL_FACTS
    ).items():
        bench.rendition(name, key)
    assert complete(worker, job, bench)[1]["status"] == "done"
    return int(job["job"])


@pytest.mark.parametrize("status", ["pending", "paused", "held"])
def test_a_job_that_waits_gets_what_is_given(desk: Desk, status: str) -> None:
    job = MAKE[status](desk)
    given = {"profile": "fast", "overrides": {"crf": "31"}, "renditions": ["480p"], "priority": 9}
    [result] = change(desk, job, **given, hold=status == "pending")
    assert (result["ok"], result["new_job"]) == (True, None)
    row = desk.show(job)
    assert result["status"] == row["status"] == ("paused" if status == "pending" else "pending")
    assert (row["profile"], row["requested"], row["priority"]) == ("fast", ["480p"], 9)
    details = {event["trigger"]: event["detail"] for event in row["events"]}
    assert (details["profile_changed"], details["priority_changed"]) == ("profile fast, 480p", "priority 9")
    claimed = recorded(desk, job)
    assert (claimed["profile"]["name"], claimed["profile"]["crf"]) == ("fast", 31)
    assert claimed["requested"] == ["480p"]


def test_what_is_left_out_stays_as_it_is(desk: Desk) -> None:
    job = desk.job(profile="fast", hold=True, priority=4, overrides={"video.crf": "30"})
    change(desk, job, renditions=["480p"])
    before = desk.show(job)
    assert change(desk, job)[0]["ok"]
    assert desk.show(job) == before, "nothing was named"
    change(desk, job, overrides={"video.preset": "medium"}, renditions=[])
    claimed = recorded(desk, job)
    assert (claimed["profile"]["crf"], claimed["profile"]["preset"]) == (30, "medium")
    assert claimed["requested"] is None, "an empty list means all"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("in_progress", "is running; pause it first, then change it"),
        ("failed", "has failed; retry it first, then change it"),
        ("cancelled", "is cancelled; retry it first, then change it"),
        ("deleted", "is deleted; undelete it first"),
    ],
)
def test_a_job_that_does_not_wait_says_what_to_do(desk: Desk, status: str, reason: str) -> None:
    job = MAKE.get(status, Desk.job)(desk)
    for operation in {"cancelled": ["cancel"], "deleted": ["delete"]}.get(status, []):
        desk.act(operation, job)
    before = desk.state(job)
    [refused] = change(desk, job, profile="fast", hold=True)
    assert (refused["error"]["code"], refused["error"]["message"]) == ("REFUSED", f"job {job} {reason}")
    assert desk.state(job) == before
    view = forecast(desk, job)
    assert (view["refused"], view["reason"]) == (1, f"job {job} {reason}")


def test_a_done_job_is_encoded_again_on_hold(desk: Desk) -> None:
    job = published(desk)
    [result] = change(desk, job, hold=True, priority=3)
    new = desk.show(result["new_job"])
    assert (new["kind"], new["word"], new["priority"], new["requested"]) == ("retranscode", "held", 3, None)
    assert desk.show(job)["status"] == "done"
    [refused] = change(desk, job)
    assert f"job {result['new_job']} has the same video" in refused["error"]["message"]
    assert forecast(desk, job)["reason"] == refused["error"]["message"]


def test_another_crf_keeps_the_sound(desk: Desk) -> None:
    job = published(desk)
    view = forecast(desk, job, overrides={"crf": "30"})
    assert (view["reencoded"], view["segments_kept"], view["segments_reencoded"]) == (1, 3, 9)
    made = {each["name"]: each["becomes"] for each in view["qualities"] if each["possible"]}
    assert made == dict.fromkeys(("720p", "480p", "360p"), "encoded")
    assert forecast(desk, job)["segments_kept"] == 0, "without other settings all of it is made again"
    [result] = change(desk, job, overrides={"crf": "30"}, priority=1000)
    again = desk.worker().claim()
    assert (again["job"], again["kind"], again["profile"]["crf"]) == (result["new_job"], "changed", 30)
    assert "audio-en" in again["kept"]


def test_a_quality_that_the_ladder_lacks_stays_out_until_it_is_named(desk: Desk) -> None:
    worker, job = desk.running(profile="web")
    report(worker, job, 1.0, facts=FACTS, content_id=job["content_id"])
    bench = bench_of(job)
    for name in ("720p", "360p", "audio-en"):
        bench.rendition(name, f"one-{name}")
    complete(worker, job, bench)
    view = forecast(desk, job["job"])
    becomes = {each["name"]: (each["becomes"], each["possible"]) for each in view["qualities"]}
    assert becomes["480p"] == ("left_out", True)
    assert becomes["1080p"] == ("left_out", False)
    [result] = change(desk, job["job"], hold=True)
    assert desk.show(result["new_job"])["requested"] == ["720p", "360p"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"overrides": {"crf": "99"}},
            "cannot have these settings: video.crf cannot be 99; allowed: a whole",
        ),
        ({"overrides": {"colour": "1"}}, "cannot have these settings: a profile has no key colour"),
        ({"renditions": ["361p"]}, "has no quality 361p with the profile web; it can have 720p, 480p, 360p"),
        ({"renditions": ["480p", "1080p"]}, "has no quality 1080p with the profile web; it can have 720p"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(desk: Desk, given: Any, reason: str) -> None:
    job = examined(desk, profile="web")
    before = desk.state(job)
    [refused] = change(desk, job, **given)
    assert refused["error"]["message"].startswith(f"job {job} {reason}")
    assert desk.state(job) == before
    assert forecast(desk, job, **given)["reason"] == refused["error"]["message"]


@pytest.mark.parametrize("operation", ["pause", "priority"])
@pytest.mark.parametrize("given", [{"profile": "fast"}, {"overrides": {"crf": "20"}}, {"hold": True}])
def test_other_operations_take_no_settings(desk: Desk, operation: str, given: Any) -> None:
    with pytest.raises(TqError, match="leaves a job's settings as they are"):
        desk.act(operation, desk.job(), **given)


def test_several_jobs_get_what_each_can_have(desk: Desk) -> None:
    large, small = examined(desk, profile="web"), desk.job(hold=True, profile="fast")
    results = change(desk, large, small, renditions=["480p", "2160p"])
    assert [result["ok"] for result in results] == [True, True]
    assert [desk.show(job)["requested"] for job in (large, small)] == [["480p"], ["480p"]]
    results = change(desk, large, small, renditions=["2160p"])
    assert [result["ok"] for result in results] == [False, False]


def test_a_quality_that_another_profile_lacks_is_given_up(desk: Desk) -> None:
    job = desk.job(hold=True, profile="web", priority=0)
    change(desk, job, renditions=["360p", "1440p"])
    change(desk, job, profile="fast")
    assert desk.show(job)["requested"] == ["360p"]


def test_a_change_is_undone(desk: Desk) -> None:
    job, other = desk.job(profile="web", priority=3), desk.job(hold=True, profile="apple")
    done = published(desk)
    before = [desk.show(each) for each in (job, other)]
    given: dict[str, Any] = {"profile": "fast", "renditions": ["480p"], "priority": 8, "hold": True}
    assert all(result["ok"] for result in change(desk, job, other, done, **given))
    answer = undo(desk.live)
    assert (answer["operation"], answer["restored"], answer["not_restored"]) == ("change", 2, 0)
    names = ("profile", "requested", "priority", "status", "word")
    for then, each in zip(before, (job, other), strict=True):
        assert {name: desk.show(each)[name] for name in names} == {name: then[name] for name in names}
    change(desk, job, overrides={"crf": "33"})
    desk.act("priority", job, delta=1)
    undo(desk.live)
    undo(desk.live)
    assert recorded(desk, job)["profile"]["crf"] != 33, "one after the other"


def test_finished_segments_are_used_again_where_they_fit(desk: Desk) -> None:
    worker, claimed = desk.running(profile="web")
    keys = expected_hashes(claimed["content_id"], Profile.from_json(claimed["profile"]), REAL_FACTS)
    rows = [
        {"name": name, "status": "in_progress", "progress": 50.0, "kept": 50.0, "segments_done": done}
        | {"segments_total": 9, "settings_hash": keys[name]}
        for name, done in (("720p", 4), ("480p", 2))
    ]
    report(worker, claimed, 50.0, facts=FACTS, content_id=claimed["content_id"], renditions=rows)
    job = int(claimed["job"])
    desk.act("pause", job)
    worker.send(f"jobs/{job}/release", epoch=claimed["epoch"], reason="pause")

    def kept(**more: Any) -> tuple[int, int]:
        view = forecast(desk, job, **more)
        return view["segments_kept"], view["segments_reencoded"]

    assert kept() == (6, 0)
    assert kept(renditions=["720p"]) == (4, 2)
    assert kept(overrides={"crf": "30"}) == (0, 6)
    assert kept(overrides={"audio.bitrate_kbps": "96"}) == (6, 0), "the pictures stay as they are"
    change(desk, job, overrides={"audio.bitrate_kbps": "96"}, renditions=["720p"])
    assert [(row["name"], row["segments_done"]) for row in desk.show(job)["renditions"]] == [("720p", 4)]
    change(desk, job, overrides={"crf": "30"})
    assert desk.show(job)["renditions"] == []


@pytest.mark.parametrize("profile", ["web", "fast", "apple", "archive"])
def test_a_forecast_is_the_plan(desk: Desk, profile: str) -> None:
    job = examined(desk, profile="web")
    view = forecast(desk, job, profile=profile, overrides={"video.copy": "fitting"})
    chosen = profiles.override(profiles.load(profile), {"video.copy": "fitting"})
    made, skipped = _renditions(SourceFacts.from_json(FACTS), chosen, {})
    assert view["max_bytes"] == sum(each["max_bytes"] for each in made) > 0
    words = {False: "encoded", True: "copied"}
    assert {each["name"]: each["becomes"] for each in view["qualities"] if each["becomes"] != "left_out"} == {
        each["name"]: words[each["copied"]] for each in made if each["kind"] == "video"
    }
    assert [(each["name"], each["reason"]) for each in view["qualities"] if each["reason"]] == [
        (each["name"], each["reason"]) for each in skipped
    ]
    assert (view["jobs"], view["sampled"], view["changed"], view["unknown"]) == (1, 1, 1, 0)
    assert view["values"] == {
        "profile": profile,
        "crf": chosen.crf,
        "quality": chosen.quality,
        "copy": "fitting",
        "priority": 1000,
        "hold": True,
    }


def test_what_was_not_examined_is_not_in_the_sums(desk: Desk) -> None:
    known, unknown = examined(desk, profile="web"), desk.job(hold=True, profile="fast")
    view = forecast(desk, known, unknown, 4711)
    assert (view["jobs"], view["sampled"], view["changed"], view["unknown"]) == (3, 2, 2, 1)
    assert view["max_bytes"] == forecast(desk, known)["max_bytes"]
    assert (view["values"]["profile"], view["values"]["hold"]) == (None, True)
    change(desk, unknown, renditions=["480p"])
    view = forecast(desk, unknown)
    assert {each["name"]: each["becomes"] for each in view["qualities"]} == {
        "720p": "left_out",
        "480p": "unknown",
        "360p": "left_out",
    }


def test_many_jobs_are_estimated_by_a_sample(desk: Desk) -> None:
    known = examined(desk, profile="web")
    jobs = [known, *(desk.job(hold=True, batch="sampled") for _ in range(60))]
    view = forecast(desk, *jobs)
    assert (view["jobs"], view["sampled"], view["unknown"]) == (61, 50, 49)
    assert view["max_bytes"] == round(forecast(desk, known)["max_bytes"] * 61 / 50)
    asked = {"filter": "batch:sampled", "newest": max(jobs)}
    view = desk.live.send(calls.forecast(**asked, profile="fast"))
    assert (view["sampled"], view["changed"], view["values"]["profile"]) == (50, 50, "fast")
    assert view["jobs"] in (60, None)
    key = f"bulk change {next(_keys)}"
    answer = desk.live.send(
        calls.act_on_matching(
            "change", "batch:sampled", newest=max(jobs), key=key, profile="fast", hold=False
        )
    )
    assert (answer["done"], answer["after"]) == (60, None)
    rows = [desk.show(job) for job in (known, jobs[1], jobs[-1])]
    assert [(row["profile"], row["status"]) for row in rows] == [
        ("web", "paused"),
        ("fast", "pending"),
        ("fast", "pending"),
    ]
