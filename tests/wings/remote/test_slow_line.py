"""A worker at home: its line carries 1 Mbit/s, and what it sends is under way when the studio ends."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

import postgres
from e2e.conftest import LEASES, MakeFleet, MakeStudio
from e2e.ladder import check_ladder
from e2e.studio import Studio
from e2e.test_divided_job import free_port
from tqstudio.protocol import calls
from waiting import until
from wings.standby.test_standby import leads, stand_by, statuses

from .test_studio import Far

LARGE = """
extends = "web"
[video]
preset = "ultrafast"
crf = 1
segment_s = 2
gop_s = 1
rungs = [{ short_side = 180, maxrate_kbps = 8000 }]
"""
"""A segment of it takes longer to send than a studio that ends waits for."""
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class SlowLine:
    """Passes connections on to a studio; each direction carries 1 Mbit/s, over all connections.

    Args:
        port: of the studio; may be changed.
    """

    BYTES_PER_S = 1e6 / 8

    def __init__(self, port: int) -> None:
        self.port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.unsent = 0
        """Bytes of a file in the store that are still on their way to the studio."""
        self._carries = threading.Lock(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.port))
                except OSError:
                    near.close()
                    continue
                for one, other, is_up in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass, args=(one, other, is_up), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, is_up: bool) -> None:
        sends_file = False
        with contextlib.suppress(OSError):
            while data := one.recv(2048):
                if is_up and data.startswith(b"PUT ") and b"/store?" in data:
                    [length] = map(int, _LENGTH.findall(data))
                    self.unsent, sends_file = length, True
                with self._carries[is_up]:
                    time.sleep(len(data) / self.BYTES_PER_S)
                other.sendall(data)
                if sends_file:
                    self.unsent -= len(data)
                    sends_file = self.unsent > 0
        if sends_file:
            self.unsent = 0
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def until_sending(self, for_s: float = 4) -> None:
        """Wait until a part of a file is on its way for so long: it does not arrive while the studio ends."""
        until(lambda: self.unsent > for_s * self.BYTES_PER_S, "a segment is being sent")


def check_uncounted(job: Any, seconds: int) -> None:
    """The job is done by attempts of which none has failed, and its ladder is whole."""
    assert {each["outcome"] for each in job["attempts_log"]} <= {"done", "lost", "requeued"}
    assert (job["attempts"], job["crashes"]) == (0, 0)
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=25 * seconds, fps=Fraction(25), names=("180p",))


def _rich(ffmpeg: str, path: Path) -> Path:
    """A clip of so many bits that its segments may be as large as the profile says."""
    pictures = ("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4,noise=alls=60:allf=t")
    sound = ("-f", "lavfi", "-i", "sine=r=44100:d=4", "-ac", "2", "-c:a", "aac")
    encoder = ("-c:v", "libx264", "-preset", "ultrafast", "-crf", "1", "-pix_fmt", "yuv420p")
    subprocess.run(
        [ffmpeg, "-v", "error", "-nostdin", "-y", *pictures, *sound, *encoder, str(path)], check=True
    )
    return path


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is restarted while a worker on a slow line sends a segment",
    "The request is answered 503 and sent again; the attempt continues, and none is counted",
    area="workers",
)
def test_a_restart_costs_it_nothing(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path) -> None:
    studio = make_studio(listen=f"127.0.0.1:{free_port()}", lease_s=120, reconnect_s=120, max_attempts=3)
    studio.write_profile("tiny", LARGE)
    studio.up()
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    far = Far(studio, tmp_path / "far")
    line = SlowLine(int(far.url.rpartition(":")[2]))
    try:
        far.start(line.url)
        job = studio.add(_rich(ffmpeg, tmp_path / "film.mp4"))
        for for_s in (4, 0, 0):  # parts are smaller after one that was lost
            line.until_sending(for_s)
            studio.stop()
            studio.start()
        done = studio.done(job)
    finally:
        said = far.end(signal.SIGKILL)
        line.close()
    assert "Traceback" not in said
    assert len(done["attempts_log"]) == 1
    check_uncounted(done, 4)


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor that leads stands by again while a worker on a slow line sends a segment",
    "The worker sends it to the next one that leads; no attempt is counted",
    area="workers",
)
def test_a_leader_that_stands_by_again_costs_it_nothing(
    fleet: MakeFleet,
    on_postgresql: Callable[..., Studio],
    ffmpeg: str,
    tmp_path: Path,
    database: URL,
) -> None:
    to_database = postgres.Line()
    first = on_postgresql(
        to_database.url(database), name="first", standby="true", listen="127.0.0.1:0", **LEASES
    )
    (second,) = fleet("second")
    first.out = second.out
    for studio in (first, second):
        studio.write_profile("tiny", LARGE)
    first.up()
    stand_by(second)
    until(lambda: ("second", "idle") in statuses(first), "its worker is lent")
    for worker in first.status()["workers"]:
        first.client.send(calls.worker_action(worker["name"], "disable"))
    far = Far(first, tmp_path / "far")
    line = SlowLine(int(far.url.rpartition(":")[2]))
    try:
        far.start(line.url)
        job = first.add(_rich(ffmpeg, tmp_path / "film.mp4"))
        line.until_sending()
        to_database.cut()
        until(lambda: leads(second), "the second one leads")
        line.port = int(str(second.status()["supervisor"]["listen"]).rpartition(":")[2])
        to_database.mend()
        done = second.done(job)
    finally:
        said = far.end(signal.SIGKILL)
        line.close()
    assert "Traceback" not in said
    check_uncounted(done, 4)
