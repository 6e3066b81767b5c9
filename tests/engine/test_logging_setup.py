"""The supervisor's log: no caller waits for it, and nothing of it is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.engine.host import logging_setup
from tqstudio.home import Home
from tqstudio.protocol import calls
from waiting import until

_SAYS = """
import sys
from pathlib import Path
import structlog
from tqstudio.engine.host import logging_setup as logs
from tqstudio.home import Home
writer = logs.configure(Home(Path(sys.argv[1])))
log = structlog.get_logger()
for number in range(50):
    log.info("a line", number=number)
print("said", flush=True)
writer.stop()
"""


def _program(home: Home) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SAYS, str(home.root)], stdout=subprocess.PIPE, text=True
    )


def test_every_line_is_written_at_the_end(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    with _program(home) as program:
        assert program.wait(timeout=60) == 0
    lines = home.supervisor_log.read_text().splitlines()
    assert [line.rpartition("number=")[2] for line in lines] == [str(number) for number in range(50)]
    assert "level=info" in lines[0]
    assert 'event="a line"' in lines[0]


def test_no_caller_waits_for_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    # To open it for writing takes until another process reads.
    os.mkfifo(home.supervisor_log)
    with _program(home) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "said\n"
        assert home.supervisor_log.read_text().count("a line") == 50
        assert program.wait(timeout=60) == 0


_NAMES = """
import logging
import os
import sys
from pathlib import Path
import structlog
from tqstudio.engine.host import logging_setup as logs
from tqstudio.home import Home
home = Path(sys.argv[1])
writer = logs.configure(Home(home))
log = structlog.get_logger()
logs.know("/srv/in", b"/srv/caf\\xe9")
log.info("known", path="/srv/in/a b.mp4", other="/srv/other", home=home)
try:
    os.scandir(b"/srv/caf\\xe9/x")
except OSError as error:
    log.exception("failed", error=str(error))
logging.getLogger("library").error("in %s/tmp", home)
writer.stop()
"""


def test_no_root_is_named(tmp_path: Path) -> None:
    """Whoever wrote the line: the studio or a library."""
    home = Home(tmp_path / "a home's")
    home.create()
    subprocess.run([sys.executable, "-P", "-c", _NAMES, str(home.root)], check=True)
    known, failed, *_, library = home.supervisor_log.read_text().splitlines()
    assert known.endswith('event=known path="a b.mp4" other=/srv/other home="."')
    assert "No such file or directory: b'x'" in failed
    assert not re.search(r"/srv/caf|a home", home.supervisor_log.read_text())
    assert library == "in tmp"


_DROPS_TREES = """
import sys
from pathlib import Path
from watchdog.events import FileSystemEventHandler
from watchdog.observers.inotify import InotifyObserver
from tqstudio.engine.host import logging_setup as logs
from tqstudio.home import Home
home = Path(sys.argv[1])
writer = logs.configure(Home(home))
observer = InotifyObserver()
observer.start()
observer.schedule(FileSystemEventHandler(), str(home), recursive=True)
for number in range(500):
    (home / f"{number}/a/b/c/d/e").mkdir(parents=True)
observer.stop()
observer.join()
writer.stop()
"""


def test_trees_that_are_dropped_at_once_print_no_warnings(tmp_path: Path) -> None:
    """watchdog prints a dozen: one for each directory that it finds by its event and by a walk."""
    home = Home(tmp_path)
    home.create()
    program = [sys.executable, "-P", "-c", _DROPS_TREES, str(home.root)]
    assert subprocess.run(program, check=True, stderr=subprocess.PIPE).stderr == b""


@pytest.mark.slow
def test_the_level_changes_while_it_runs(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor(TQSTUDIO_LOG_LEVEL="warning").start()

    def logged() -> str:
        log = supervisor.home.supervisor_log
        return log.read_text() if log.exists() else ""

    changed = supervisor("log-level", "debug", "--json")
    assert changed.json() == {"level": "debug", "before": "warning"}
    supervisor.send(calls.workers())
    until(lambda: "path=/v1/workers" in logged(), "requests are logged")
    assert "level=info" not in logged(), "lines below the first level were not"
    assert supervisor("log-level", "info").out == "the supervisor logs info (before: debug)\n"
    supervisor.send(calls.workers())
    assert supervisor.stop() == 0
    assert 'event="supervisor ended"' in logged()
    assert logged().count("path=/v1/workers") == 1, "the second request was not logged"


def test_an_unknown_level_is_refused(standing: LiveSupervisor) -> None:
    assert standing("log-level", "loud").code == 2
    assert standing("up", "--log-level", "loud").code == 2
    status, answer = standing.raw("PUT", "/v1/log-level", {"level": "loud"})
    assert (status, answer["error"]["code"]) == (400, "BAD_REQUEST")


def test_long_logs_of_workers_are_cut(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    long, short = (home.logs / f"worker-cpu-{index}.log" for index in range(2))
    # As the supervisor opens it for a worker, which keeps it open.
    with long.open("ab") as worker:
        worker.write(b"x" * (logging_setup.MAX_LOG_BYTES + 1))
        worker.flush()
        short.write_bytes(b"short")
        logging_setup.cut_long(home)
        worker.write(b"next line")
    assert long.read_bytes() == b"next line"
    assert long.with_name("worker-cpu-0.log.1").stat().st_size == logging_setup.MAX_LOG_BYTES + 1
    assert short.read_bytes() == b"short"
