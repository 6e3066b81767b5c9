"""Replaces what a report must not reveal: names of films and folders, the host, the user, addresses."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote

from tqstudio.engine.host import log_redaction
from tqstudio.engine.store.library.names import VideoNames
from tqstudio.ladder_files import INIT_NAME
from tqstudio.source_files import AUDIO_EXTENSIONS, VIDEO_EXTENSIONS

_SUBTITLES = "ass|idx|srt|ssa|sub|sup"
_EXTENSIONS = "|".join(sorted(os.fsdecode(each[1:]) for each in VIDEO_EXTENSIONS | AUDIO_EXTENSIONS))
# Of `0.264 s` no file is the name.
_FILE = re.compile(rf"\.(?!(?<=\d\.)26[45])(?:{_EXTENSIONS}|{_SUBTITLES})(?!\w)", re.IGNORECASE)
_OWN_FILES = (INIT_NAME, "key-frames.mp4")
_SHOWN = r"<(?:film|folder|home|file|path)(?: \d+)?>"
_BEFORE_A_NAME = re.compile(
    r"""<(?:folder \d+|home)>/|(?:^|\s)\w+="?(?=.)|(?<!\w)(?:'(?:file:)?(?=[^']+$)|"(?:file:)?(?=[^"]+$))"""
    r"""|^(?:[\d-]{10} [\d:.]+ )?(?:\[[^\]]*\] )*(?:(?:ok|warn|fail) +)?(?:failed: )?(?:[A-Z_]{5,}: )?"""
)
"""A file's name is taken to begin after the last of these in its line: too early rather than too late."""
_KNOWN = re.compile(r"(?<!/)(?:<folder(?: \d+)?>/)*<film \d+>(?:\.\w{2,3})?$")
_LOGGED_PATH = re.compile(rf'\b((?:path|source|title|url)=)("(?:[^"\\]|\\.)*"|(?:{_SHOWN}|[^\s"])+)')
_HIDDEN = re.compile(rf'"?(?:{_SHOWN}|/|\.\w{{1,5}}\b)+"?')
_METADATA = re.compile(
    r"^((?:\[[\w.-]+\] )? {4,})(?! )(?!(?:encoder|duration|major_brand|minor_version|compatible_brands"
    r"|cpb properties) *: )[^\n:]*: [^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
"""Tags of the source in the output of ffmpeg."""
_PATH = re.compile(
    r"(?<![\w.~+/>-])/(?!(?:usr(?!/home)|proc|sys|dev(?!/shm)|etc|run(?!/(?:media|user))|s?bin|lib|lib64)/)"
    r"""(?:(?<="/)(?:[^"\\\n]|\\.)*|(?<='/)[^'\n]*"""
    # Names of folders may have spaces.
    rf"""|(?:(?:{_SHOWN}|(?! /)[^/\n"'<>:])+/(?=\S))*(?:{_SHOWN}|[^\s"'<>:])+(?<![),;]))"""
)
_URL = re.compile(r"\b(?!file:)([a-z][a-z0-9+]+://)[^\s\"']+")
_ADDRESS = re.compile(
    r"(?<![\w.])(?:(?:(?<!:)[0-9a-f:]{0,39}::[0-9a-f:]{0,39})?(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)"
    # Eight groups, or fewer with two colons: a time has three. A network card has six, of two digits.
    r"|(?<!:)(?!::1\b)(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|[0-9a-f:]{0,39}::[0-9a-f:]{1,39}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2})"
    r"(?:%[\w-]+)?(?![\w:]))"
    r"|(?<![\w.+-])[\w.+-]+@[\w.-]*\w",
    re.IGNORECASE,
)
_SERVER = re.compile(
    r"""\b((?:server at|host(?: name)?|user|role|database) \\?["'])[^"'\\\n]+"""
    r"""|(?<=")[a-z0-9-]+(?:\.[a-z0-9-]+)+\.[a-z]{2,}(?=\\?")""",
    re.IGNORECASE,
)
"""Servers and accounts in messages of PostgreSQL, and quoted names of hosts."""
_SYSTEM = frozenset(b"bin data dev etc home lib media mnt opt proc root run srv sys tmp usr var".split())
"""Folders whose names say nothing."""
_SPACE = r"(?:\\{0,8}[ _]|%20)"


class PrivateNames:
    """The names of films and folders that a report must not contain.

    Args:
        films: those that the report may mention.
        folders: drop folders and outputs.
        paths: other paths that it may mention.
    """

    def __init__(
        self, home: Path, films: Iterable[VideoNames], folders: Iterable[bytes], paths: Iterable[bytes] = ()
    ) -> None:
        roots, films = sorted(folders), list(films)
        above = [*roots, *(os.path.dirname(film.source) for film in films)]
        named = {name: "<folder>" for path in above for name in path.split(b"/") if name not in _SYSTEM}
        named |= {
            name: f"<film {film.id}>{_extension(name)}" for film in films for name in _names(film, roots)
        }
        named |= dict.fromkeys(paths, "<path>")
        named |= {folder: f"<folder {number}>" for number, folder in enumerate(roots, 1)}
        self._shown: dict[str, tuple[str, str]] = {}
        for form, shown in _by_form(named | {os.fsencode(home): "<home>"}).items():
            plain = _plain(form := normalize("NFC", form))
            # Of a title and its slug the title says that it is a name.
            if plain.strip(" /") and (plain not in self._shown or not form.islower()):
                self._shown[plain] = form, shown

    def replaced(self, text: str) -> str:
        """Replace the names, tags of sources, other paths, and what looks like the name of a source."""
        text = self._without_names(normalize("NFC", log_redaction.of_program().relative(text)))
        text = _METADATA.sub(r"\1<tag>", text)
        text = _LOGGED_PATH.sub(lambda it: it[0] if _HIDDEN.fullmatch(it[2]) else f"{it[1]}<file>", text)
        return "\n".join(map(_without_files, _PATH.sub("<path>", text).split("\n")))

    def _without_names(self, text: str) -> str:
        """Replace names in any case and with any spaces, the longest first."""
        plain = _plain(text)
        found = sorted((name for name in self._shown if name in plain), key=len, reverse=True)
        if not found:
            return text
        space = re.compile(_SPACE)
        forms = (_SPACE.join(map(re.escape, space.split(self._shown[name][0]))) for name in found)
        any_of = rf"(?<![^\W_])(?:{'|'.join(forms)})(?![^\W_])"
        return re.sub(any_of, self._of_match, text, flags=re.IGNORECASE)

    def _of_match(self, found: re.Match[str]) -> str:
        form, shown = self._shown.get(_plain(found[0]), (found[0], "<film>"))
        is_word = found[0].isalpha() and (found[0].islower() or form.islower())
        if (len(found[0]) <= 3 or found[0].isdigit() or is_word) and not _is_in_path(found):
            return found[0]
        return shown


def without_hosts(text: str, known: Mapping[str, str] | None = None) -> str:
    """Replace the names of this computer and its user, addresses of networks, and where URLs lead.

    Args:
        known: other names, and what to show instead.
    """
    text = _SERVER.sub(lambda found: f"{found[1] or ''}<address>", _URL.sub(r"\1<address>", text))
    text = _ADDRESS.sub("<address>", text)
    names = {os.fsencode(name): shown for name, shown in (known or {}).items()}
    names |= {os.fsencode(socket.gethostname()): "<host>", os.fsencode(os.path.expanduser("~")): "~"}
    # In a container the user may have no name.
    with contextlib.suppress(KeyError, OSError):
        if (user := getpass.getuser()) != "root":
            names[os.fsencode(user)] = "<user>"
    # A service has the name of the program, which is no secret.
    names.pop(b"tqstudio", None)
    return _replaced(text, _by_form(names))


def _extension(name: bytes) -> str:
    found = _FILE.search(os.fsdecode(os.path.splitext(name)[1]))
    return found[0] if found else ""


def _names(film: VideoNames, roots: list[bytes]) -> Iterator[bytes]:
    """Everything that a film is called, with the path below its drop folder."""
    name = os.path.basename(film.source)
    stem = os.path.splitext(name)[0]
    # People write a title without its year.
    yield from (film.source, name, stem, re.sub(rb" *\(.*", b"", stem))
    yield from (os.fsencode(text) for text in (film.name, film.title, film.slug) if text)
    yield from (film.source[len(root) + 1 :] for root in roots if film.source.startswith(root + b"/"))


def _by_form(names: dict[bytes, str]) -> dict[str, str]:
    found = (
        (form, shown) for name, shown in names.items() for form in (*log_redaction.forms(name), quote(name))
    )
    return {form: shown for form, shown in found if form}


def _plain(text: str) -> str:
    return re.sub(_SPACE, " ", text).casefold()


def _is_in_path(found: re.Match[str]) -> bool:
    """Whether a slash or an extension follows, or a slash is before; fractions have slashes, too."""
    text, begin, end = found.string, *found.span()
    after = text[end : end + 1] == "/" and not found[0].isdigit()
    before = text[begin - 1 : begin] == "/" and not text[begin - 2 : begin - 1].isdigit()
    return after or before or _FILE.match(text, end) is not None


def _replaced(text: str, shown: dict[str, str]) -> str:
    """Replace names, the longest first, except as a part of a longer word."""
    found = sorted((form for form in shown if form in text), key=len, reverse=True)
    if not found:
        return text
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, found))})(?!\w)", lambda each: shown[each[0]], text)


def _without_files(line: str) -> str:
    """Replace names of files that no film explains: their source is gone, or was never queued."""
    parts, done = [], 0
    for found in _FILE.finditer(line):
        before = line[done : found.start()]
        begin = max(it.end() for it in _BEFORE_A_NAME.finditer(before))
        name = before[begin:].lstrip(" ,")
        is_ours = name.rpartition("/")[2] + found[0] in _OWN_FILES
        shown = name if is_ours or not name or _KNOWN.search(name) else "<file>"
        parts += [before[: len(before) - len(name)], shown, found[0]]
        done = found.end()
    return "".join([*parts, line[done:]])
