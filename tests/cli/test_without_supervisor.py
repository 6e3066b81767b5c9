"""Exit codes, sentences and JSON of commands where no supervisor runs; none of them starts one."""

from __future__ import annotations

import json
import os
import re
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Program
from media.dolby_vision import ipt_source, without_vulkan
from tqstudio.cli.command_tree import COMMANDS
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.store.db.schema import migrate

Here = Callable[..., int]
READS = [
    ("status",),
    ("queue", "status"),
    ("job", "list"),
    ("job", "show", "1"),
    ("job", "log", "1"),
    ("job", "command", "1"),
    ("events",),
    ("events", "--follow"),
    ("worker", "list"),
    ("folder", "list"),
]


@pytest.fixture(autouse=True)
def _nothing_is_started(tmp_path: Path) -> object:
    yield
    assert not (tmp_path / "home" / "logs").exists()


def test_the_sheet_of_keys_names_what_is_wrong_in_the_file(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here("keys") == 0
    assert re.search(r"^p +pause +pause or resume the job$", capsys.readouterr().out, re.MULTILINE)
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "keys.toml").write_text('paus = "x"\npause = "f5"\n[commands]\nO = "mpv {master}"\n')
    assert here("keys", "--json") == 2
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert {"keys": ["f5"], "action": "pause", "help": "pause or resume the job"} in answer["keys"]
    assert {"keys": ["O"], "action": "", "help": "mpv {master}"} in answer["keys"]
    assert answer["problems"] == ["keys.toml: there is no action paus; tqstudio keys lists them"]
    assert "error: BAD_CONFIG: keys.toml: there is no action paus" in output.err


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_reads_say_that_none_runs_and_start_none(
    arguments: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments) == 3
    output = capsys.readouterr()
    assert output.out == ""
    first, hint = output.err.splitlines()
    assert first.startswith("error: NO_SUPERVISOR: ")
    assert hint.endswith("tqstudio up --detach")


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_json_errors_are_json(
    arguments: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments, "--json") == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "NO_SUPERVISOR"
    assert set(error) == {"code", "message", "hint"}


ACTS = [
    *(
        ("job", verb, "99")
        for verb in ("pause", "resume", "cancel", "retry", "restart", "delete", "undelete")
    ),
    ("job", "retranscode", "99"),
    ("job", "priority", "99", "5"),
    *(("worker", verb, "cpu-9") for verb in ("enable", "disable", "drain")),
    ("folder", "edit", "99", "--disable"),
    ("folder", "remove", "99"),
    ("folder", "remove", "/nowhere"),
]


@pytest.fixture(params=["no database", "a database"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A home without a database, and one with an empty one."""
    if request.param == "a database":
        (tmp_path / "home").mkdir()
        migrate(tmp_path / "home" / "tqstudio.db")


@pytest.mark.parametrize("arguments", ACTS, ids=" ".join)
@pytest.mark.usefixtures("stored")
def test_a_change_of_what_does_not_exist_starts_no_supervisor(
    arguments: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: NOT_FOUND: ")
    assert arguments[2] in output.err


@pytest.mark.parametrize("arguments", [("queue", "retry"), ("queue", "clear", "--yes")], ids=" ".join)
@pytest.mark.usefixtures("stored")
def test_a_queue_without_such_jobs_starts_no_supervisor(
    arguments: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments) == 0
    assert "nothing to" in capsys.readouterr().out


def test_down_has_nothing_to_stop(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("down") == 0
    assert "no supervisor is running" in capsys.readouterr().out
    assert here("down", "--json") == 0
    assert json.loads(capsys.readouterr().out)["stopped"] is False


def test_the_screen_needs_a_terminal(tqstudio: Program) -> None:
    answer = tqstudio()
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: BAD_REQUEST: the terminal UI needs a terminal")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("status", "--nonsense"),
        ("up", "--workers", "0"),
        ("up", "--workers", "many"),
        ("job", "show"),
        ("job", "show", "seven"),
        ("job", "priority", "7"),
        ("job", "priority", "seven", "+1"),
        ("process",),
        ("process", "-i", ".", "--order", "colour"),
        ("events", "--since", "yesterday"),
        ("events", "--json", "--csv"),
        ("folder", "edit", "1"),
        ("add",),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_one_sentence(
    arguments: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: BAD_REQUEST: ")
    assert len(lines) == 2
    assert len(lines[1]) > len("  → ")


@pytest.mark.parametrize("group", [name for name, verb in COMMANDS.items() if isinstance(verb, tuple)])
def test_a_group_alone_shows_its_verbs(group: str, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(group) == 2
    assert "Commands:" in capsys.readouterr().out


def _every_verb() -> list[tuple[str, ...]]:
    verbs: list[tuple[str, ...]] = [()]
    for name, verb in COMMANDS.items():
        verbs.append((name,))
        if isinstance(verb, tuple):
            verbs += [(name, inner) for inner in verb[1]]
    return verbs


@pytest.mark.parametrize("verb", _every_verb(), ids=" ".join)
def test_every_verb_has_help(verb: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(*verb, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage: tqstudio")
    # A sentence of what it does stands below the usage line.
    assert len(text.split("\n\n")[1].strip()) > 10
    assert not re.search(r" <\w", text), "every value has a name that says what it is"


def test_a_worker_is_run_for_another_machine_only(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("worker", "run") == 2
    assert "tqstudio --connect URL --token-file FILE worker run" in capsys.readouterr().err


def test_version(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    from tqstudio import __version__

    assert here("--version") == 0
    assert capsys.readouterr().out == f"tqstudio {__version__}\n"


@pytest.mark.parametrize(("verb", "option"), [("process", "-i"), ("add", "--")])
@pytest.mark.parametrize(
    ("name", "code"),
    [("missing.mp4", "SOURCE_MISSING"), ("empty-folder", "NO_MEDIA"), ("fifo.mp4", "UNSUPPORTED")],
)
def test_paths_without_a_video(
    verb: str,
    option: str,
    name: str,
    code: str,
    here: Here,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "empty-folder" / "notes.txt").write_text("no video")
    os.mkfifo(tmp_path / "fifo.mp4")
    path = tmp_path / name
    assert here(verb, option, path) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"error: {code}: ")
    assert str(path) in output


def test_one_missing_path_stops_all_before_anything_is_queued(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.mp4").write_bytes(b"x")
    assert here("process", "-i", tmp_path / "there.mp4", "-i", tmp_path / "missing.mp4") == 2
    assert "missing.mp4" in capsys.readouterr().err


def test_an_output_that_is_a_file(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    assert here("process", "-i", tmp_path / "clip.mp4", "-o", tmp_path / "clip.mp4") == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_setting_without_value(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    assert here("process", "-i", tmp_path / "clip.mp4", "--set", "video.crf") == 2
    assert "--set video.crf has no value" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["add", "process"])
@pytest.mark.parametrize(("pair", "lacks"), [("acme", "value"), ("=acme", "key")])
def test_metadata_that_is_no_pair(
    verb: str, pair: str, lacks: str, here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    assert here(verb, tmp_path / "clip.mp4", "--meta", pair) == 2
    output = capsys.readouterr().err
    assert f"BAD_REQUEST: --meta {pair} has no {lacks}" in output
    assert "--meta client=acme" in output


def test_hostile_names_are_printed_as_text(tqstudio: Program, tmp_path: Path) -> None:
    for name in (b"[red]x.mp4", b"caf\xe9.mp4", b"a\n\x1b[31m.mp4", b"-y.mp4", b"a b'c\"d.mp4"):
        answer = tqstudio("process", "-i", os.fsencode(tmp_path) + b"/" + name, PYTHONIOENCODING="ascii")
        assert answer.code == 2
        assert "\x1b" not in answer.err
        assert len(answer.err.splitlines()) == 2
    assert "[red]x.mp4" in tqstudio("add", "--", f"{tmp_path}/[red]x.mp4").err


def test_home_option_is_tqstudio_home(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--home", tmp_path / "elsewhere", "status") == 3
    assert str(tmp_path / "elsewhere") in capsys.readouterr().err


def test_doctor_works_alone(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("doctor", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    names = {check["name"] for check in answer["checks"]}
    assert names >= {"home", "settings", "ffmpeg", "encoders", "disk", "sqlite", "clock", "supervisor"}


def test_doctor_names_what_sets_anything(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def settings() -> str:
        assert here("doctor", "--json") == 0
        [check] = [
            each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "settings"
        ]
        return str(check["detail"])

    assert settings() == "all defaults"
    monkeypatch.setenv("TQSTUDIO_WORKERS", "1")
    assert settings() == "TQSTUDIO_WORKERS"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("workers = 2\n")
    assert settings() == f"{tmp_path}/home/config.toml, TQSTUDIO_WORKERS"


def test_doctor_looks_at_the_disk_of_the_copy_of_a_bucket(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQSTUDIO_OUTPUT", "s3://films/vod")
    assert here("doctor", "--json") == 0
    (disk,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "disk"]
    assert str(tmp_path / "home" / "buckets") in disk["detail"]


def test_doctor_names_what_is_wrong(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQSTUDIO_FFMPEG", "/nowhere/ffmpeg")
    assert here("doctor", "--json") == 1
    wrong = [check for check in json.loads(capsys.readouterr().out)["checks"] if not check["ok"]]
    assert [check["name"] for check in wrong] == ["ffmpeg"]
    assert wrong[0]["hint"]


def test_doctor_reads_every_profile(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "home" / "profiles"
    folder.mkdir(parents=True)
    (folder / "my own.toml").write_text('extends = "web"\n[video]\ncrf = 30\n')
    assert here("doctor", "--json") == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["profiles"]["detail"] == "apple, archive, fast, my own, web (default)"

    (folder / "bad.toml").write_text('extends = "web"\n[video]\ncrf = 99\n')
    (folder / "lost.toml").write_text('extends = "nothing"\n')
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.toml")).write_text("crf =\n")
    (tmp_path / "home" / "config.toml").write_text('profile = "gone"\n')
    assert here("doctor", "--json") == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    wrong = {name: check for name, check in checks.items() if not check["ok"]}
    assert set(wrong) == {"profiles", "profile bad", "profile lost", "profile caf\\xe9"}
    assert f"{folder}/bad.toml: video.crf: 99" in wrong["profile bad"]["detail"]
    assert "there is no profile nothing" in wrong["profile lost"]["detail"]
    assert "'gone' is not among them" in wrong["profiles"]["detail"]
    assert all(check["hint"] for check in wrong.values())
    assert here("doctor") == 1
    output = capsys.readouterr().out
    assert "FAIL  profile bad" in output
    assert "a whole number from 1 to 63" in output


def test_doctor_aligns_what_it_says(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "home" / "profiles"
    folder.mkdir(parents=True)
    (folder / "a long name.toml").write_text("crf =\n")
    assert here("doctor") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    column = len("FAIL  profile a long name  ")
    assert all(line[column - 1] == " " != line[column] for line in lines), lines


@pytest.mark.parametrize(
    ("key", "value", "needed"),
    [
        ("LEASE_S", "x", "a number"),
        ("WORKERS", "1.5", "a whole number"),
        ("LEASE_SCAN_S", "0", "greater than 0"),
        ("LOG_LEVEL", "loud", "debug, info or warning"),
    ],
)
def test_a_wrong_setting_is_reported_in_words(
    key: str,
    value: str,
    needed: str,
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"TQSTUDIO_{key}", value)
    assert here("doctor") == 1
    output = capsys.readouterr().out
    assert f'the setting {key.lower()} is invalid: it is "{value}" and must be {needed}\n' in output


@pytest.mark.parametrize("value", ["true", '["a"]', "{ a = 1 }", "1979-05-27", '"x"'])
def test_a_wrong_value_is_shown_as_the_file_has_it(
    value: str, here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not as Python writes it, in settings and profiles alike."""
    folder = tmp_path / "home" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(f"[video]\nsegment_s = {value}\n")
    assert here("profile", "check", "mine") == 2
    shown = capsys.readouterr().err
    (tmp_path / "home" / "config.toml").write_text(f"hours = {value}\n")
    assert here("plan", "film.mp4") == 2
    for line in (*shown.splitlines()[:1], *capsys.readouterr().err.splitlines()[:1]):
        found = line.partition("it is ")[2].partition(" and must")[0] or line.rpartition("segment_s: ")[2]
        assert found.strip('"') == value.replace("{ a = 1 }", '{"a": 1}').strip('"')


@pytest.mark.fault(
    "`lease_s` or `offline_s` is below twice `heartbeat_s`",
    "The start is refused with `BAD_CONFIG`",
    area="workers",
)
@pytest.mark.parametrize("key", ["LEASE_S", "OFFLINE_S"])
def test_a_start_that_gives_workers_no_time_for_two_beats_is_refused(
    key: str, here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQSTUDIO_HEARTBEAT_S", "10")
    monkeypatch.setenv(f"TQSTUDIO_{key}", "5")
    assert here("up") == 2
    output = capsys.readouterr().err
    assert f"the setting {key.lower()} is too short: 5 s with a heartbeat every 10 s" in output
    assert f"set {key.lower()} to at least twice heartbeat_s" in output


def test_profiles_are_listed(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("profile", "list", "--json") == 0
    profiles = {p["name"]: p for p in json.loads(capsys.readouterr().out)["profiles"]}
    assert profiles["fast"]["rungs"] == ["720p", "480p", "360p"]
    assert profiles["web"]["origin"] == "shipped"
    assert profiles["web"]["codec"] == "h264 medium crf 22"
    assert [name for name in profiles if profiles[name]["default"]] == ["web"]
    assert here("profile", "list") == 0
    assert "web (default)" in capsys.readouterr().out


def test_a_profile_is_created_checked_and_shown(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "home" / "profiles" / "mine.toml"
    assert here("profile", "new", "mine", "--from", "fast") == 0
    assert here("profile", "new", "mine") == 4
    assert here("profile", "new", "../mine") == 2
    assert here("profile", "new", "other", "--from", "nothing") == 2
    assert "shipped" not in capsys.readouterr().out
    assert here("profile", "new", "fast") == 0
    assert "fast.toml was created, in place of the shipped one; edit it" in capsys.readouterr().out
    (file.parent / "fast.toml").unlink()
    assert os.listdir(file.parent) == ["mine.toml"]
    capsys.readouterr()
    for name in ("mine", str(file)):
        assert here("profile", "check", name, "--json") == 0
        checked = {"name": "mine", "rungs": ["720p", "480p", "360p"]}
        assert json.loads(capsys.readouterr().out) == checked
    file.write_text(file.read_text().replace("# crf = 23 ", "crf = 30 "))
    capsys.readouterr()
    assert here("profile", "show", "mine") == 0
    copy = tmp_path / "copy.toml"
    copy.write_text(capsys.readouterr().out)
    assert "crf = 30\n" in copy.read_text()
    assert here("profile", "check", str(copy)) == 0
    copy.write_text('extends = "fast"\n[video]\ncrf = 99\n')
    assert here("profile", "check", str(copy)) == 2
    assert f"{copy}: video.crf: 99" in capsys.readouterr().err
    assert here("profile", "check", str(tmp_path / "missing.toml")) == 2


def test_a_plan_of_sound(here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "talk.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(32_000))
    assert here("plan", str(path), "--json") == 0
    made = [
        (each["name"], each["kind"], each["shape"])
        for each in json.loads(capsys.readouterr().out)["renditions"]
    ]
    assert made == [(f"{rate}k", "audio", "1 channel") for rate in (192, 128, 64)]
    assert here("plan", str(path)) == 0
    assert "talk.wav: sound, 00:01" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing.mp4", "SOURCE_MISSING"), ("words.mp4", "NO_MEDIA"), ("empty.mp4", "SOURCE_EMPTY")],
)
def test_a_plan_needs_a_video(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, code: str
) -> None:
    (tmp_path / "words.mp4").write_text("words")
    (tmp_path / "empty.mp4").touch()
    assert here("plan", str(tmp_path / name)) == 2
    assert capsys.readouterr().err.startswith(f"error: {code}: ")


def test_a_plan_of_what_needs_vulkan_refuses_it_as_the_job_would(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_vulkan(monkeypatch)
    source = ipt_source(locate(), tmp_path / "film.mp4", [(50.0, 50.0, 50.0)], 1, (320, 180))
    assert here("plan", str(source)) == 2
    assert "mesa-vulkan-drivers" in capsys.readouterr().err


def test_a_broken_profile_does_not_hide_the_others(
    here: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home" / "profiles").mkdir(parents=True)
    (tmp_path / "home" / "profiles" / "mine.toml").write_text("crf = 7\n")
    assert here("profile", "list") == 2
    output = capsys.readouterr()
    assert "web" in output.out
    assert re.search(r"^mine +broken, see below", output.out, re.MULTILINE)
    assert f"{tmp_path}/home/profiles/mine.toml: crf: no such key" in output.err
    assert output.err.startswith("error: BAD_CONFIG: ")


def test_a_reader_that_leaves_ends_the_command_quietly(tqstudio: Program) -> None:
    with tqstudio.spawn("--help") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) in (0, 1, 141)


def test_python_dash_m_is_the_command(tqstudio: Program) -> None:
    answer = tqstudio("--version")
    assert answer.code == 0
    assert answer.out.startswith("tqstudio ")


@pytest.mark.parametrize("verb", [("add",), ("folder", "add"), ("process", "-i"), ("verify",)], ids=" ".join)
def test_an_empty_path_is_not_the_working_directory(
    verb: tuple[str, ...], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*verb, "") == 2
    assert "BAD_REQUEST: an empty path was given" in capsys.readouterr().err


def test_a_working_directory_that_was_removed(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert here("add", "film.mp4") == 2
    assert "the current folder was removed, so there is no film.mp4" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)


def test_a_name_that_begins_with_a_dash(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("add", "-y.mp4") == 2
    assert "is written as ./-name" in capsys.readouterr().err
