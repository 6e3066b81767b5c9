"""Metrics before and after real work; the dashboard and the alert rules ask for nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scrapes import Scrape, scrape
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio

FILES = Path(__file__).parents[2] / "docs" / "monitoring"


def gained(before: Scrape, after: Scrape, name: str, **labels: str) -> float:
    return after.value(name, **labels) - before.value(name, **labels)


@pytest.mark.slow
def test_an_encode_a_failure_and_a_killed_worker_are_counted(
    make_studio: MakeStudio, clip: MakeClip, copy: Callable[..., Path], tmp_path: Path
) -> None:
    studio = make_studio().up()
    start = scrape(studio)

    studio.done(studio.add(copy(clip(), "a film.mp4")))
    encoded = scrape(studio)
    until(lambda: scrape(studio).value("jobs", status="done") == 1, "it is counted")
    # 90p, 120p and 180p are one class.
    assert gained(start, encoded, "encode_seconds_count", rendition="360p") == 3
    assert gained(start, encoded, "encode_speed_count", rendition="360p") == 3
    assert encoded.value("encode_speed_sum", rendition="360p") > 0
    for name in ("queue_wait_seconds", "publish_seconds"):
        assert gained(start, encoded, f"{name}_count") == 1
        assert encoded.value(f"{name}_bucket", le="+Inf") == 1
    assert encoded.value("publish_seconds_sum") > 0

    studio.done(studio.add(copy(clip(video=False), "a song.mp4")))
    assert gained(encoded, scrape(studio), "encode_seconds_count", rendition="sound") > 0
    assert scrape(studio).labels("encode_seconds_count", "rendition") == {"360p", "sound"}
    encoded = scrape(studio)

    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video at all")
    job = studio.wait(studio.add(broken), "failed")
    # Counts of the last moment may still be given.
    until(lambda: scrape(studio).value("jobs", status="failed") == 1, "it is counted")
    failed = scrape(studio)
    assert gained(encoded, failed, "failures_total", code=job["error"]["code"]) == 1
    assert gained(encoded, failed, "retries_exhausted_total") == 0, "no retry can help it"

    with studio.paced(2):
        running = studio.add(copy(clip(seconds=8), "longer.mp4"))
        studio.running(running)
        assert scrape(studio).value("concurrent_jobs") == 1
        until(lambda: scrape(studio).value("workers", status="busy") == 1, "its worker is busy")
        os.kill(studio.worker()["pid"], signal.SIGKILL)
        until(
            lambda: gained(failed, scrape(studio), "recovered_jobs_total", reason="worker_lost") == 1,
            "the loss is counted",
        )
    studio.done(running)
    last = scrape(studio)
    assert gained(failed, last, "failures_total", code="WORKER_LOST") == 1
    assert gained(failed, last, "retry_attempts_total", code="WORKER_LOST") == 1
    assert gained(failed, last, "publish_seconds_count") == 1
    assert last.value("concurrent_jobs") == 0
    for secret in ("film", "song", "longer", "broken", str(studio.root)):
        assert secret not in last.text


# The files in docs/monitoring.


@pytest.fixture(scope="module")
def names(one_for_all: Studio) -> set[str]:
    return scrape(one_for_all).names


def rules() -> Iterator[Any]:
    for group in yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]:
        yield from group["rules"]


def expressions() -> Iterator[str]:
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["definition"] for each in dashboard["templating"]["list"] if "definition" in each)
    yield from (rule["expr"] for rule in rules())


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:tqstudio|process)_\w+|\bup\b", expression))


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist(names: set[str]) -> None:
    asked = [metrics_in(expression) for expression in expressions()]
    assert len(asked) > 20
    assert all(asked), "each names a metric"
    assert set[str]().union(*asked) - names == {"up"}, "Prometheus' own"


def test_each_metric_is_on_the_dashboard(names: set[str]) -> None:
    shown = set[str]().union(*map(metrics_in, expressions()))
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names if name.startswith("tqstudio_")}
    assert families - {re.sub(r"_bucket$", "", name) for name in shown} == {"tqstudio_disk_total_bytes"}


def test_alerts_say_what_happened_and_what_to_do() -> None:
    found = list(rules())
    assert len(found) == 8
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts() -> None:
    subprocess.run(["promtool", "check", "rules", FILES / "alerts.yml"], check=True)
