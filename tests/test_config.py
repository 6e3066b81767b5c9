"""Settings: where they come from, and what is reported when one is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tqstudio import paths, toml_files
from tqstudio.config import Settings, load_settings
from tqstudio.engine.monitoring.settings import views
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import MAX_SOCKET_PATH, Home, current_home
from tqstudio.protocol import launch


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in [name for name in os.environ if name.upper().startswith("TQSTUDIO_")]:
        monkeypatch.delenv(name)
    return Home(tmp_path)


def refusal(home: Home, **flags: object) -> TqError:
    with pytest.raises(TqError) as caught:
        load_settings(home, **flags)
    assert caught.value.code is ErrorCode.BAD_CONFIG
    return caught.value


def test_defaults(home: Home) -> None:
    settings = load_settings(home)
    expected = {
        "heartbeat_s": 10,
        "lease_s": 60,
        "lease_scan_s": 15,
        "offline_s": 60,
        "stall_s": 120,
        "long_poll_s": 20,
        "gpu_grace_s": 60,
        "max_attempts": 3,
        "max_crashes": 3,
        "backoff_s": 30,
        "backoff_max_s": 600,
        "keep_old_s": 3600,
        "event_retention_s": 30 * 86400,
        "disk_reserve_bytes": 2_000_000_000,
        "disk_factor": 1.5,
        "drain_s": 15,
        "settle_s": 5,
        "rescan_s": 60,
        "sse_keepalive_s": 30,
        "sse_reconnect_s": 3,
        "profile": "web",
    }
    assert {key: getattr(settings, key) for key in expected} == expected


def test_every_setting_is_explained() -> None:
    assert not [key for key, field in Settings.model_fields.items() if not field.description]


def test_flags_win_over_environment_over_file_over_defaults(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config.write_text('workers = 2\nlease_s = 20\nheartbeat_s = 4.5\nprofile = "fast"\n')
    monkeypatch.setenv("TQSTUDIO_WORKERS", "3")
    monkeypatch.setenv("TQSTUDIO_LEASE_S", "30")
    settings = load_settings(home, workers=4, lease_s=None)
    assert (settings.workers, settings.lease_s, settings.heartbeat_s) == (4, 30, 4.5)
    assert (settings.profile, settings.lease_scan_s) == ("fast", 15)


def test_one_home_does_not_see_the_file_of_another(home: Home, tmp_path: Path) -> None:
    home.config.write_text("workers = 2\n")
    assert load_settings(home).workers == 2
    assert load_settings(Home(tmp_path / "other")).workers == 0


def test_variables_that_are_no_settings_are_left_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQSTUDIO_WORKER_TOKEN", "secret")
    assert load_settings(home) == Settings()


def test_an_unknown_key_is_named(home: Home) -> None:
    home.config.write_text("workers = 2\nlese_s = 5\n")
    error = refusal(home)
    assert "lese_s" in error.message
    assert "lease_s" in error.hint


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('workers = "many"', "workers"),
        ("lease_s = 0", "lease_s"),
        ("lease_s = inf", "lease_s"),
        ("backoff_s = nan", "backoff_s"),
        ("max_attempts = 0", "max_attempts"),
        ("ffmpeg_nice = 20", "ffmpeg_nice"),
        ("long_poll_s = 61", "long_poll_s"),
        ("gpu = 7", "gpu"),
        ("[workers]\nn = 1", "workers"),
    ],
)
def test_a_wrong_value_in_the_file_is_named(home: Home, line: str, key: str) -> None:
    home.config.write_text(f"{line}\n")
    error = refusal(home)
    assert f"setting {key} " in error.message
    assert key in error.hint
    assert str(home.config) in error.hint


@pytest.mark.parametrize("key", ["lease_s", "offline_s"])
def test_a_worker_has_time_for_two_beats(home: Home, key: str) -> None:
    error = refusal(home, heartbeat_s=10, **{"lease_s": 60, "offline_s": 60, key: 19.5})
    assert error.message == f"the setting {key} is too short: 19.5 s with a heartbeat every 10 s"
    assert error.hint == f"set {key} to at least twice heartbeat_s"
    assert load_settings(home, heartbeat_s=10, lease_s=20, offline_s=20).offline_s == 20


def test_a_wrong_value_in_the_environment_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQSTUDIO_STALL_S", "soon")
    error = refusal(home)
    assert "stall_s" in error.message
    assert '"soon"' in error.message
    assert "TQSTUDIO_STALL_S" in error.hint


def test_a_wrong_flag_is_named(home: Home) -> None:
    assert "workers" in refusal(home, workers=-1).message


@pytest.mark.parametrize(
    "content", [b"workers = ", b"[", b"profile = '\xff'", b"workers = " + b"[\n" * 10_000]
)
def test_a_broken_file_is_named(home: Home, content: bytes) -> None:
    home.config.write_bytes(content)
    assert str(home.config) in refusal(home).message


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().workers = 3  # type: ignore[misc]


def test_a_long_home_has_its_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    near, far = Home(Path("/srv/studio")), Home(Path("/srv") / ("studio" * 20))
    assert near.socket == near.root / "supervisor.sock"
    assert far.root not in far.socket.parents
    assert len(os.fsencode(far.socket)) <= MAX_SOCKET_PATH
    assert far.socket != Home(Path("/srv") / ("studii" * 20)).socket


def test_a_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "home")
    home.create()
    home.create()
    assert {oct(path.stat().st_mode & 0o777) for path in (home.root, home.logs, home.profiles)} == {"0o700"}


def test_a_bucket_has_a_copy_in_the_home(home: Home) -> None:
    for url in ("s3://films", "gs://films/vod", "az://films/a/b #1 100%", "s3://films/ü/x/"):
        copy = paths.normal(os.fsencode(home.bucket_copy(url)))
        assert home.bucket_url(copy) == url.rstrip("/")
        assert Home(home.root / ".." / home.root.name).bucket_url(copy) == url.rstrip("/")
    for url in ("s3://", "S3://films", "s3://Films", "https://films", "s3://films/../x", "s3://films//x"):
        with pytest.raises(TqError) as caught:
            home.bucket_copy(url)
        assert caught.value.code is ErrorCode.BAD_REQUEST
    assert home.bucket_url(os.fsencode(home.output)) is None


@pytest.mark.parametrize("address", ["s3://films/vod", "S3://films", "https://films.example/vod"])
def test_an_output_in_a_bucket_is_no_path(address: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor in the background gets paths of its settings absolute."""
    assert paths.absolute(address) == address
    monkeypatch.setenv("TQSTUDIO_OUTPUT", address)
    monkeypatch.setenv("TQSTUDIO_FFMPEG", "./ffmpeg")
    environment = launch._environment(home)
    assert environment["TQSTUDIO_OUTPUT"] == address
    assert environment["TQSTUDIO_FFMPEG"] == os.path.abspath("ffmpeg")


def test_the_home_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path))
    assert current_home().root == tmp_path
    monkeypatch.delenv("TQSTUDIO_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert current_home().root.name == "tqstudio"


def test_a_byte_order_mark_is_read_over(home: Home) -> None:
    home.config.write_bytes(b"\xef\xbb\xbfworkers = 3\n")
    assert load_settings(home).workers == 3
    home.config.write_bytes(b"\xef\xbb\xbfworker = 3\r\n")
    with pytest.raises(TqError) as refused:
        load_settings(home)
    assert f"{home.config}, line 1 has the unknown setting worker" in refused.value.message
    theme = home.root / "profile.toml"
    theme.write_bytes(b'\xef\xbb\xbfname = "caf\xc3\xa9"\r\n')
    assert toml_files.read(theme) == {"name": "café"}


def test_settings_are_shown_as_they_are_written_and_secrets_not_at_all() -> None:
    shown = {each["name"]: each for each in views(Settings(alert_secret="hush", lease_s=90, hours="sat"))}
    assert list(shown) == list(Settings.model_fields)
    assert shown["alert_secret"]["value"] == "not shown"
    assert shown["redis_url"]["value"] == '""', "that it is empty is no secret"
    lease = shown["lease_s"]
    assert (lease["value"], lease["default"], lease["allowed"]) == ("90", "60", "> 0")
    assert (shown["hours"]["value"], shown["gpu"]["value"]) == ('"sat"', "true")
    assert "hush" not in str(shown)
