"""A worker on another machine decides the CRF for a quality, and its studio keeps it for the next one."""

from __future__ import annotations

import signal

import pytest

from tqstudio.protocol import calls
from waiting import until
from wings.remote.test_studio import Far, Studio, far, studio

from .conftest import PROFILE, MakeFilm, decided, used_crfs

# fmt: off
__all__ = ["far", "studio"]
# fmt: on


@pytest.mark.slow
def test_its_decision_is_used_by_a_local_one(studio: Studio, far: Far, film: MakeFilm) -> None:
    studio.write_profile("tiny", PROFILE)
    far.start()
    with studio.paced(20):
        job = studio.add(film())
        [found] = until(lambda: decided(studio), "it has decided")
        far.end(signal.SIGKILL)
        studio.client.send(calls.worker_action("cpu-0", "enable"))
    done = studio.done(job)
    assert [each["worker"] for each in done["attempts_log"]] == [far.name, "cpu-0"]
    assert decided(studio) == [found]
    assert used_crfs(done) == {str(found["crf"])}
