"""Without `redis_url` redis-py is not loaded; with it, it has to be installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import MakeSupervisor
from tqstudio.config import Settings, load_settings
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home


def at_start(folder: Path, code: str) -> str:
    """A PYTHONPATH with which each process of Python runs this first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return str(folder)


def test_redis_py_is_loaded_only_if_it_is_used(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    note = tmp_path / "loaded"
    code = (
        "import atexit, pathlib, sys\n"
        f"note = pathlib.Path({str(note)!r})\n"
        "if sys.argv[-1:] == ['up'] or 'up' in sys.orig_argv:\n"
        "    atexit.register(lambda: note.write_text(' '.join(sys.modules)))\n"
    )
    live = make_supervisor(PYTHONPATH=at_start(tmp_path / "site", code)).start()
    assert all(check["name"] != "redis" for check in live.raw("GET", "/v1/doctor")[1]["checks"])
    live.stop()
    loaded = note.read_text().split()
    assert "tqstudio.wings.redis.part" in loaded
    assert "redis" not in loaded


def test_a_url_without_redis_py_says_how_to_install_it(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    missing = at_start(tmp_path / "site", "import sys\nsys.modules['redis'] = None\n")
    live = make_supervisor(PYTHONPATH=missing, TQSTUDIO_REDIS_URL="redis://:s3cret@127.0.0.1:1/0")
    assert live.launch().wait() != 0
    printed = live.output.read_text()
    assert "BAD_CONFIG" in printed
    assert "pip install 'tqstudio[redis]'" in printed
    assert "s3cret" not in printed
    live.ended()


def test_a_wrong_url_is_refused_without_showing_it(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor(TQSTUDIO_REDIS_URL="redis://:s3cret@127.0.0.1:port/0")
    assert live.launch().wait() != 0
    printed = live.output.read_text()
    assert "the setting redis_url is invalid" in printed
    assert "s3cret" not in printed
    live.ended()


@pytest.mark.parametrize(
    ("key", "value"),
    [("redis_url", "http://:s3cret@host"), ("redis_prefix", "a b"), ("redis_roots", "/films,site")],
)
def test_wrong_settings_are_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(TqError) as refused:
        load_settings(Home(tmp_path), **{key: value})
    assert refused.value.code is ErrorCode.BAD_CONFIG
    assert key in refused.value.message
    assert "s3cret" not in str(refused.value)
    assert Settings.model_fields[key].description
