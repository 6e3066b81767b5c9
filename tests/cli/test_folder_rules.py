"""The rules of drop folders, from the command to what becomes of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import QUICK, Program, ProgramInside
from tqstudio import paths
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A running supervisor whose worker is disabled."""
    home = tmp_path_factory.mktemp("up") / "home"
    shell = Program(home, **QUICK)
    assert shell("up", "--detach").code == 0
    shell("worker", "disable", "cpu-0")
    yield ProgramInside(home, **QUICK)
    assert shell("down").code == 0


@pytest.fixture
def drop(up: Program, tmp_path: Path) -> Iterator[Path]:
    """A directory to watch, which is forgotten after the test."""
    drop = tmp_path / "drop"
    drop.mkdir()
    yield drop
    up("folder", "remove", str(drop))


def queued(up: Program) -> set[str]:
    return {job["name"] for job in Client(up.home.socket).send(calls.jobs(limit=500))["jobs"]}


def arrive(folder: Path, name: str) -> None:
    """Put a finished file into a folder."""
    (folder / f"{name}.part").write_bytes(name.encode())
    (folder / f"{name}.part").rename(folder / name)


def test_the_whole_machine_is_refused(up: Program, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to("/")
    for path in ("/", str(tmp_path / "root")):
        refused = up("folder", "add", path, "-o", str(tmp_path / "out"), "--json")
        assert refused.json()["error"]["code"] == "REFUSED"
        assert refused.json()["error"]["message"] == "/ has all files of this machine"
    assert up("folder", "list", "--json").json()["folders"] == []


def test_hours_are_set_listed_and_taken_back(up: Program, drop: Path) -> None:
    added = up("folder", "add", str(drop), "--hours", "mon-fri 22:00-06:00; sat,sun", "--json")
    assert (added.code, added.json()["hours"]) == (0, "mon-fri 22:00-06:00; sat,sun")
    assert "jobs run in these hours: mon-fri 22:00-06:00; sat,sun" in up("folder", "list").out
    wrong = up("folder", "edit", str(drop), "--hours", "at night")
    assert wrong.code == 2
    assert "hours such as 22:00-06:00" in wrong.err
    assert up("folder", "edit", str(drop), "--hours", "", "--json").json()["hours"] == ""
    assert "these hours" not in up("folder", "list").out


def test_excluded_files_get_no_job_until_nothing_is_excluded(up: Program, drop: Path) -> None:
    (drop / "raw").mkdir()
    arrive(drop / "raw", "below.mp4")
    given = ("--exclude", "raw", "--exclude", "no*.mp4")
    added = up("folder", "add", str(drop), *given, "--json")
    assert (added.code, added.json()["exclude"]) == (0, ["raw", "no*.mp4"])
    arrive(drop, "no.mp4")
    arrive(drop, "yes.mp4")
    until(lambda: "yes.mp4" in queued(up), "the file beside it is queued")
    assert not {"no.mp4", "below.mp4"} & queued(up)
    listed = up("folder", "list")
    assert "without raw, no*.mp4" in listed.out
    assert listed.err == ""

    edited = up("folder", "edit", str(drop), "--exclude", "yes.mp4", "--json").json()
    assert edited["exclude"] == ["yes.mp4"]
    until(lambda: {"no.mp4", "below.mp4"} <= queued(up), "they are taken now")
    assert "yes.mp4" in queued(up), "its job stays"
    assert up("folder", "edit", str(drop), "--no-exclude", "--json").json()["exclude"] == []


@pytest.mark.parametrize("wrong", ["", "/", "!raw"])
def test_what_excludes_nothing_is_refused(up: Program, drop: Path, wrong: str) -> None:
    refused = up("folder", "add", str(drop), "--exclude", wrong, "--json")
    assert (refused.code, refused.last_line()["error"]["code"]) == (2, "BAD_REQUEST")
    assert refused.last_line()["error"]["hint"]
    assert not listed(up, drop)


@pytest.mark.parametrize(("name", "key"), [("exclude", "exclude"), ("pattern", "patterns")])
def test_contradictions_are_refused(up: Program, drop: Path, name: str, key: str) -> None:
    added = up("folder", "add", str(drop), f"--{name}", "x*", "--json")
    refused = up("folder", "edit", str(drop), f"--{name}", "y*", f"--no-{name}", "--json")
    assert (refused.code, refused.last_line()["error"]["code"]) == (2, "BAD_REQUEST")
    assert listed(up, drop)[0][key] == added.json()[key] == ["x*"]
    assert up("folder", "edit", str(drop), f"--no-{name}", "--json").json()[key] == []


def test_an_unusable_ignore_file_is_a_problem_of_the_folder(up: Program, drop: Path) -> None:
    (drop / ".tqignore").write_text("!\n")
    up("folder", "add", str(drop))
    until(lambda: listed(up, drop)[0]["problem"], "the problem is found")
    assert listed(up, drop)[0]["problem"]["code"] == "BAD_CONFIG"
    assert ".tqignore has no valid pattern in line 1" in up("folder", "list").err


def test_a_missing_folder_is_reported_where_one_looks(up: Program, drop: Path) -> None:
    up("folder", "add", str(drop))
    assert "folder" not in up("status").out
    drop.rmdir()
    until(lambda: listed(up, drop)[0]["problem"], "the problem is found")
    number = listed(up, drop)[0]["id"]
    [shown] = [line for line in up("status").out.splitlines() if line.startswith(f"folder {number}")]
    assert f"SOURCE_MISSING: the folder {drop} is missing" in shown
    assert f"folder.{number}.problem SOURCE_MISSING" in up("status", "--plain").out
    examined = up("doctor", "--json")
    [check] = [check for check in examined.json()["checks"] if check["name"] == f"folder {number}"]
    assert (examined.code, check["level"], str(drop) in check["detail"]) == (1, "fail", True)
    assert check["hint"]
    drop.mkdir()
    until(lambda: "folder" not in up("status").out, "it is back")


def listed(up: Program, folder: Path) -> list[Any]:
    folders = Client(up.home.socket).send(calls.folders())["folders"]
    return [each for each in folders if each["path_b64"] == paths.encode(folder)]


@pytest.fixture
def done(tmp_path: Path) -> Path:
    (tmp_path / "done").mkdir()
    return tmp_path / "done"


def test_the_rule_for_done_sources_is_set_shown_and_withdrawn(up: Program, drop: Path, done: Path) -> None:
    add = ("folder", "add", str(drop), "--json")
    added = up(*add, "--after-done", "move", "--done-dir", str(done)).json()
    assert (added["after_done"], added["done_dir"]) == ("move", str(done))
    assert paths.decode(added["done_dir_b64"]) == bytes(done)
    assert f"sources are moved to {done}" in up("folder", "list").out
    edit = ("folder", "edit", str(drop), "--json")
    up(*edit, "--output", str(drop.with_name("out")))
    assert listed(up, drop)[0]["done_dir"] == str(done), "another change keeps it"
    assert up(*edit, "--after-done", "delete").json()["done_dir"] is None
    assert "sources are deleted" in up("folder", "list").out
    assert up(*edit, "--after-done", "keep").json()["after_done"] == "keep"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("--after-done", "move"), "BAD_REQUEST"),
        (("--after-done", "burn"), "BAD_REQUEST"),
        (("--done-dir", "{root}/done"), "BAD_REQUEST"),
        (("--after-done", "delete", "--done-dir", "{root}/done"), "BAD_REQUEST"),
        (("--after-done", "move", "--done-dir", ""), "BAD_REQUEST"),
        (("--after-done", "move", "--done-dir", "{root}/none"), "SOURCE_MISSING"),
        (("--after-done", "move", "--done-dir", "{root}/drop"), "REFUSED"),
        (("--after-done", "move", "--done-dir", "{root}"), "REFUSED"),
        (("--after-done", "move", "--done-dir", "{root}/done", "--output", "{root}"), "REFUSED"),
        (("--after-done", "move", "--done-dir", "{root}/done", "--output", "{root}/drop/out"), "REFUSED"),
        (("--after-done", "delete", "--output", "{root}/drop/out"), "REFUSED"),
    ],
)
@pytest.mark.usefixtures("done")
def test_what_cannot_be_done_with_sources_is_refused(
    up: Program, drop: Path, given: tuple[str, ...], code: str
) -> None:
    given = tuple(each.format(root=drop.parent) for each in given)
    refused = up("folder", "add", str(drop), *given, "--json")
    assert (refused.code != 0, refused.last_line()["error"]["code"]) == (True, code)
    assert refused.last_line()["error"]["hint"]
    up("folder", "add", str(drop))
    before = listed(up, drop)
    assert up("folder", "edit", str(drop), *given, "--json").last_line()["error"]["code"] == code
    assert listed(up, drop) == before


def test_done_sources_are_no_part_of_any_drop_folder(up: Program, drop: Path, done: Path) -> None:
    inside = drop / "done"
    inside.mkdir()
    up("folder", "add", str(drop), "--after-done", "move", "--done-dir", str(inside))
    arrive(inside, "done already.mp4")
    arrive(drop, "not yet.mp4")
    until(lambda: "not yet.mp4" in queued(up), "the file beside it is queued")
    assert "done already.mp4" not in queued(up)
    refused = up("folder", "add", str(inside), "--json")
    assert refused.last_line()["error"]["code"] == "REFUSED"
    other = ("folder", "add", str(done), "--after-done", "move", "--done-dir", str(inside), "--json")
    assert up(*other).last_line()["error"]["code"] == "REFUSED"


def test_a_template_of_output_folders_is_a_rule(up: Program, drop: Path) -> None:
    template = ("--template", "{relative_dir}/{slug}")
    assert up("folder", "add", str(drop), *template, "--json").json()["template"] == template[1]
    assert f"ladders lie at {template[1]}" in up("folder", "list").out
    edit = ("folder", "edit", str(drop), "--json", "--template")
    assert up(*edit, "../{slug}").last_line()["error"]["code"] == "BAD_REQUEST"
    assert listed(up, drop)[0]["template"] == template[1]
    (drop / "Acme").mkdir()
    arrive(drop / "Acme", "Film.mp4")
    until(lambda: "Film.mp4" in queued(up), "the file is queued")
    [job] = [each for each in Client(up.home.socket).send(calls.jobs())["jobs"] if each["name"] == "Film.mp4"]
    assert Client(up.home.socket).send(calls.job(job["id"]))["video_view"]["slug"] == "acme/film"
    assert up(*edit, "{slug}").json()["template"] == "{slug}"


def test_sound_is_a_rule(up: Program, drop: Path) -> None:
    assert up("folder", "add", str(drop), "--json").json()["audio"] == "skip"
    edit = ("folder", "edit", str(drop), "--json", "--audio")
    assert up(*edit, "sometimes").code == 2
    assert up(*edit, "encode").json()["audio"] == "encode"
    assert "sound without video is encoded" in up("folder", "list").out


def test_duplicates_are_a_rule(up: Program, drop: Path) -> None:
    added = up("folder", "add", str(drop), "--duplicates", "skip", "--json")
    assert added.json()["duplicates"] == "skip"
    assert "duplicates are skipped" in up("folder", "list").out
    edit = ("folder", "edit", str(drop), "--json", "--duplicates")
    assert up(*edit, "often").code == 2
    assert up(*edit, "link").json()["duplicates"] == "link"
    assert "duplicates share the segments of the first" in up("folder", "list").out
    assert up(*edit, "encode").json()["duplicates"] == "encode"


def test_how_often_the_jobs_of_a_folder_may_fail_is_its_rule(up: Program, drop: Path, tmp_path: Path) -> None:
    limits = ("max_attempts", "max_crashes")
    added = up("folder", "add", str(drop), "--max-attempts", "7", "--json").json()
    assert [added[name] for name in limits] == [7, 3], "else that of the settings"
    edited = up("folder", "edit", str(drop), "--max-crashes", "9", "--json").json()
    assert [edited[name] for name in limits] == [7, 9]
    arrive(drop, "limited.mp4")
    until(lambda: "limited.mp4" in queued(up), "it is queued")
    assert [job_of(up, "limited.mp4")[name] for name in limits] == [7, 9]
    again = up("add", str(drop / "limited.mp4"), "-o", added["output_root"], "--max-attempts", "2")
    assert "now with 2 attempts allowed" in again.out
    assert [job_of(up, "limited.mp4")[name] for name in limits] == [2, 9]
    other = tmp_path / "unlimited.mp4"
    other.write_bytes(b"unlimited")
    assert up("add", str(other), "--max-crashes", "1").code == 0
    assert [job_of(up, "unlimited.mp4")[name] for name in limits] == [3, 1]


@pytest.mark.parametrize("command", [("folder", "add"), ("folder", "edit"), ("add",)])
@pytest.mark.parametrize("wrong", ["0", "101", "x"])
def test_limits_out_of_range_are_refused(
    up: Program, drop: Path, command: tuple[str, ...], wrong: str
) -> None:
    refused = up(*command, str(drop), "--max-attempts", wrong, "--json")
    assert (refused.code, refused.last_line()["error"]["code"]) == (2, "BAD_REQUEST")
    assert "--max-attempts" in refused.last_line()["error"]["message"]


def job_of(up: Program, name: str) -> Any:
    jobs = Client(up.home.socket).send(calls.jobs(name))["jobs"]
    return next(job for job in jobs if job["name"] == name)
