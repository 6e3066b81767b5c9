"""What a report must not reveal is replaced in every form in which programs write it."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tqstudio import paths
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.monitoring.private_names import PrivateNames, without_hosts
from tqstudio.engine.store.library.names import VideoNames

ROOT = b"/srv/our films"
STEMS = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzäöüßéñЖ映画🎬 '\"\\&()[].-_!$#%"), min_size=6, max_size=20
).filter(
    lambda stem: len(stem.strip(" ._\\")) >= 6 and not stem.startswith((" ", ".")) and not stem.isalpha()
)
_logged = structlog.processors.LogfmtRenderer()


def _names(stem: str, below: bytes = b"") -> tuple[PrivateNames, bytes]:
    source = os.path.join(ROOT, below, stem.encode() + b".mkv")
    film = VideoNames(7, source, paths.display(os.path.basename(source)), stem, "the-slug")
    return PrivateNames(Path("/srv/home"), [film], [ROOT]), source


@given(stem=STEMS)
def test_a_name_is_replaced_however_it_is_quoted(stem: str) -> None:
    names, source = _names(stem)
    name = os.path.basename(source).decode()
    error = OSError(2, "No such file or directory", os.fsdecode(source))
    text = [
        f"job 1, attempt 1 (epoch 1): {paths.display(name.encode())}",
        str(error),
        repr(os.fsdecode(source)),
        shlex.join(["-i", f"file:{name}", "-i", os.fsdecode(source)]),
        _logged(None, "", {"event": "file settled", "path": name, "folder": 1}),
        _logged(None, "", {"event": "failed", "error": f"{name}: {error}"}),
        f"Opening '{stem}.de.srt'",
        "the-slug/v1/1080p/seg_00001.m4s",
    ]
    replaced = [names.replaced(each) for each in text]
    assert all("<film 7>" in each or each == "Opening '<file>.srt'" for each in replaced), replaced
    left = "\n".join(replaced).replace("<film 7>", "")
    assert stem not in left
    assert name not in left
    assert "the-slug" not in left


def test_folders_between_a_film_and_its_drop_folder_are_replaced_too() -> None:
    names, source = _names("episode 1", b"A Series/Season 1")
    for text in (os.fsdecode(source), "A Series/Season 1/episode 1.mkv", "skipped 'A Series/Season 1'"):
        assert "Series" not in names.replaced(text)
        assert "Season" not in names.replaced(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('event="file settled" path="Gone Film.mp4" job=3', 'event="file settled" path=<file> job=3'),
        ("'file:Gone Film.mp4': invalid data", "'file:<file>.mp4': invalid data"),
        ("left out: Gone Film.MKV, of no video", "<file>.MKV, of no video"),
        ("'/mnt/nas/Gone Film' is gone", "'<path>' is gone"),
        ("/mnt/nas/gone is gone", "<path> is gone"),
        ("/srv/our films is full, /srv/home too", "<folder 1> is full, <home> too"),
        (
            "[hls @ 0x1] Opening '360p/init.mp4' for writing",
            "[hls @ 0x1] Opening '360p/init.mp4' for writing",
        ),
        ("no group for /dev/dri/renderD128", "no group for /dev/dri/renderD128"),
    ],
)
def test_files_that_are_no_film_of_the_queue_are_replaced(text: str, shown: str) -> None:
    names, _ = _names("another film")
    assert names.replaced(text) == shown


SOURCES = ("/data/Kunde Schmidt/Geheim Film (2019).mkv", "/data/Über Müller.mkv", "/x/job.mp4", "/x/1.mp4")


def _of_sources(
    *sources: str, folders: tuple[bytes, ...] = (), known: tuple[bytes, ...] = ()
) -> PrivateNames:
    stems = [Path(source).stem for source in sources]
    films = [
        VideoNames(number, source.encode(), Path(source).name, stem, stem.lower().replace(" ", "-"))
        for number, (source, stem) in enumerate(zip(sources, stems, strict=True), 1)
    ]
    return PrivateNames(Path("/srv/home"), films, folders, known)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('path="Kunde Schmidt/Geheim Film (2019).mkv"', 'path="<folder>/<film 1>.mkv"'),
        ('path="Gone Folder/Geheim Film (2019).mkv"', "path=<file>"),
        ("GEHEIM FILM and geheim_film (2019)", "<film 1> and <film 1>"),
        (r"Geheim\ Film, Geheim%20Film.MKV", "<film 1>, <film 1>.MKV"),
        ("U\u0308ber Mu\u0308ller", "<film 2>"),
        ('level=info event="job started" job=1 attempt=1', 'level=info event="job started" job=1 attempt=1'),
        ("Job 1: 24/1 fps, version 0.1.0", "Job 1: 24/1 fps, version 0.1.0"),
        ("job.mp4, 1.mp4.part, y/job/v1", "<film 3>.mp4, <film 4>.mp4.part, y/<film 3>/v1"),
    ],
)
def test_names_are_replaced_in_other_spellings_and_common_words_are_not(text: str, shown: str) -> None:
    assert _of_sources(*SOURCES).replaced(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "cannot find Andere Secret (2019).mkv",
        'Secret "x".mkv',
        "Secret: part 2.mkv",
        "Secret 'x' film.mkv",
        'error="Secret (1).mkv and \\"Secret (2)\\".mkv"',
        "Input #0 from 'Kunde Secret/x.mkv':",
        "Secret/Geheim Film (2019).mkv",
        "Secret Geheim Film Two.mkv",
        "input file file:Secret (1).mkv.",
        "/run/media/secret/x",
        "/run/user/secret/x",
        "/library/Secret/x",
        "/usr/home/secret/x",
        "/dev/shm/secret",
        "(/mnt/My Secret/x)",
        '"/mnt/Kunde\'s Secret"',
        "at /mnt/a Secret, of",
    ],
)
def test_unknown_files_and_paths_are_hidden_as_a_whole(text: str) -> None:
    replaced = _of_sources(*SOURCES, known=(b"/mnt/a Secret",)).replaced(text)
    assert "secret" not in replaced.lower()
    assert "<file>" in replaced or "<path>" in replaced


def test_the_beginning_of_a_line_stays() -> None:
    begin = "2026-11-29 13:40:14.053 failed: SOURCE_MISSING: "
    assert _of_sources().replaced(f"{begin}Secret (2019).mkv is gone") == f"{begin}<file>.mkv is gone"
    assert _of_sources().replaced("failed after 12.264 s") == "failed after 12.264 s"


@pytest.mark.parametrize("tag", ["    encoder         : Lavf", "[v]       cpb properties: bitrate max/min"])
def test_what_is_no_tag_of_a_source_stays(tag: str) -> None:
    assert _of_sources().replaced(tag) == tag


def test_tags_of_a_source_are_replaced_in_what_ffmpeg_writes(tmp_path: Path) -> None:
    tags = {"title": "Secret Title", "artist": "A Person", "comment": "line one\nline two: more"}
    film = tmp_path / "film.mkv"
    words = [word for key, value in tags.items() for word in ("-metadata", f"{key}={value}")]
    made = ["-f", "lavfi", "-i", "testsrc2=d=1:s=64x64", *words, "-metadata:s:v", "title=Of the Stream"]
    subprocess.run([locate().path, "-v", "error", *made, film], check=True)
    ran = subprocess.run([locate().path, "-hide_banner", "-i", film], check=False, stderr=subprocess.PIPE)
    text = "\n".join(f"[video-360p] {line}" for line in ran.stderr.decode().splitlines())
    assert all(each in text for each in ("Secret", "Person", "line two", "Of the Stream"))
    names, _ = _names("another film")
    replaced = names.replaced(text)
    assert not any(each in replaced for each in ("Secret", "Person", "line", "Of the Stream"))
    assert "Lavf" in replaced
    assert "Stream #0:0: Video: h264" in replaced


def test_computer_user_and_networks_are_replaced() -> None:
    host, home = socket.gethostname(), str(Path.home())
    text = f"{host}: worker at 192.168.7.9:8090, {home}/x, s3://films/vod, https://u:p@example.org/x?y"
    replaced = without_hosts(text)
    assert replaced == "<host>: worker at <address>:8090, ~/x, s3://<address> https://<address>"
    assert without_hosts("http at 127.0.0.1:8090, version 0.1.0") == "http at 127.0.0.1:8090, version 0.1.0"
    text = "at 10:20:30 from fe80::1:2, [2001:db8:0:0:0:0:0:7]:8090 and [::1]:8090"
    assert without_hosts(text) == "at 10:20:30 from <address>, [<address>]:8090 and [::1]:8090"
    text = "alice@nas.example 00:1A:2b:3c:4d:5e ::ffff:192.168.1.9 fe80::1%eth0 host:10.1.2.3. Yes"
    assert without_hosts(text) == "<address> <address> <address> <address> host:<address>. Yes"
    text = 'connection to server at "db.x.example", user \\"kunde\\"; "a.b.example", "index.m3u8"'
    replaced = 'connection to server at "<address>", user \\"<address>\\"; "<address>", "index.m3u8"'
    assert without_hosts(text) == replaced
    assert (
        without_hosts("worker=kepler of tqstudio", {"kepler": "<worker 1>"})
        == "worker=<worker 1> of tqstudio"
    )
    assert getpass.getuser() == "root" or without_hosts(getpass.getuser()) == "<user>"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_without_a_name_has_reports_too() -> None:
    """As in a container, whose user is a number."""
    program = (
        "import os, pwd; from tqstudio.engine.monitoring.private_names import without_hosts;"
        "os.setuid(54321); print(without_hosts('from 10.1.2.3'))"
    )
    run = subprocess.run([sys.executable, "-c", program], env={}, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("from <address>\n", "")
