"""Defines the layout of TQSTUDIO_HOME, the folder of a supervisor.

Every command loads this module, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tqstudio.errors import ErrorCode, TqError
from tqstudio.path_checks import others_may_write
from tqstudio.paths import normal, readable

_BUCKET = re.compile(r"(s3|gs|az)://([a-z0-9][a-z0-9._-]+(?:/(?!\.)[^/\x00-\x1f\\]+)*)/?")
"""Scheme, and bucket with prefix. Names in the prefix begin with no dot: `..` would lead out of the home."""
MAX_SOCKET_PATH = 100
"""Bytes of a Unix socket path that are portable; the kernel's limit is 108 on Linux, 104 on macOS."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files of one supervisor. Its properties are paths; `create` makes it."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "tqstudio.db"

    @property
    def lock(self) -> Path:
        return self.root / "supervisor.lock"

    @property
    def backups(self) -> Path:
        """Copies of the database; created with the first one."""
        return self.root / "backups"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def profiles(self) -> Path:
        """Profiles of the user; a file here overrides a shipped profile of the same name."""
        return self.root / "profiles"

    @property
    def themes(self) -> Path:
        return self.root / "themes"

    @property
    def keys(self) -> Path:
        """Keys of the terminal UI that differ from the usual ones, and commands of the user."""
        return self.root / "keys.toml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def probe_log(self) -> Path:
        """Stderr of the background probe."""
        return self.logs / "probe.log"

    @property
    def alerts_log(self) -> Path:
        """Stderr of the processes that send alerts, and the output of commands such as `on_done`."""
        return self.logs / "alerts.log"

    @property
    def lent_workers_log(self) -> Path:
        """Stderr of the workers of a supervisor that stands by."""
        return self.logs / "lent-workers.log"

    @property
    def socket_note(self) -> Path:
        """Contains the path of the socket when it is not in the home."""
        return self.root / "supervisor.socket-path"

    @property
    def gpu_trials(self) -> Path:
        """Results of trial runs on GPUs."""
        return self.root / "gpu-trials.json"

    @property
    def clock(self) -> Path:
        """What the next supervisor has to know of the wall clock, see `Ages`."""
        return self.root / "clock.json"

    @property
    def output(self) -> Path:
        """The default output folder."""
        return self.root / "output"

    @property
    def buckets(self) -> Path:
        """Local copies of the ladders in object storage; may be a link to another disk."""
        return self.root / "buckets"

    @property
    def bucket_settings(self) -> Path:
        """Endpoints and access keys of buckets."""
        return self.root / "buckets.toml"

    def bucket_copy(self, url: str) -> Path:
        """The folder of the local copy of `s3://BUCKET/PREFIX`: `buckets/s3/BUCKET/PREFIX`.

        Raises:
            TqError: BAD_REQUEST if that is no address of a place in a bucket.
        """
        found = _BUCKET.fullmatch(url)
        if found is None:
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"{readable(url)} is no address of a bucket",
                "write it as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX;"
                " scheme and bucket have no capital letters",
            )
        return self.buckets.joinpath(found[1], *found[2].strip("/").split("/"))

    def bucket_url(self, output_root: bytes) -> str | None:
        """The address of which an output is the local copy; None for any other output."""
        begin = normal(os.fsencode(self.buckets)) + b"/"
        if not output_root.startswith(begin):
            return None
        return os.fsdecode(output_root.removeprefix(begin)).replace("/", "://", 1)

    @property
    def incoming(self) -> Path:
        """The default folder of uploaded files."""
        return self.root / "incoming"

    @property
    def unfinished_uploads(self) -> Path:
        """URLs of uploads to other studios that a command began and may resume."""
        return self.root / "uploads"

    @property
    def socket(self) -> Path:
        """The socket of the API: in the home, or in the runtime directory when that path is too long.

        Raises:
            TqError: PERMISSION when other users have access to the runtime directory.
        """
        preferred = self.root / "supervisor.sock"
        if len(os.fsencode(preferred)) <= MAX_SOCKET_PATH:
            return preferred
        digest = sha256(os.fsencode(self.root)).hexdigest()[:16]
        folder = _runtime_dir()
        _require_private(folder)
        return folder / f"tqstudio-{digest}.sock"

    def tmpdir(self, worker: str) -> Path:
        """The temporary directory of a worker."""
        # The prefix keeps any name, even `..`, inside the folder.
        return self.root / "tmp" / f"worker-{worker}"

    def job_logs(self, job: int) -> Path:
        """The log folder of a job's attempts."""
        return self.logs / "jobs" / str(job)

    @property
    def id_file(self) -> Path:
        """Contains a random id, by which a supervisor knows that it has led before."""
        return self.root / "home.id"

    @property
    def leader(self) -> Path:
        """How to reach the supervisor that leads, while this one stands by; like `connections.toml`."""
        return self.root / "leader.toml"

    def id(self) -> str:
        """Returns the id of this home on this host, and creates it the first time."""
        from socket import gethostname
        from uuid import uuid4

        try:
            known = self.id_file.read_text().strip()
        except FileNotFoundError:
            known = uuid4().hex
            self.id_file.write_text(f"{known}\n")
        # A copy of the home is another one, on this host too.
        return f"{known}-{self.root.stat().st_ino}@{gethostname()}"

    def create(self) -> None:
        """Creates the folders, accessible to their owner only; none in a home that is refused.

        Raises:
            TqError: PERMISSION when other users may change the home, or have access to the runtime directory.
            OSError: from the file system.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.require_owner()
        self.require_private()
        for folder in (self.logs, self.profiles, self.themes):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.make_socket_folder()
        if self.socket.parent != self.root:
            self.socket_note.write_text(f"{self.socket}\n")

    def make_socket_folder(self) -> None:
        """Creates the runtime directory if the socket is not in the home; never creates the home.

        Raises:
            TqError: PERMISSION when other users have access to it.
            OSError: from the file system.
        """
        if (folder := self.socket.parent) != self.root:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another user may have created it in the meantime.
            _require_private(folder)

    def require_owner(self) -> None:
        """Refuses a home of another user, because its settings name the program that is run as ffmpeg.

        Root may use any home, as in `docker exec`; a home of root may be used by anyone with write access.

        Raises:
            TqError: PERMISSION.
        """
        try:
            owner = self.root.stat().st_uid
        except OSError:
            return  # it does not exist yet, or reading it will report the error
        if os.geteuid() not in (0, owner) and owner != 0:
            raise TqError(
                ErrorCode.PERMISSION,
                f"the home {self.root} belongs to another user (uid {owner})",
                "choose a home of your own with --home or TQSTUDIO_HOME",
            )

    def require_private(self) -> None:
        """Checks that no other user may change the settings, profiles or database.

        Raises:
            TqError: PERMISSION.
        """
        for path in (self.root, self.config, self.profiles, self.database):
            try:
                found = path.stat()
            except OSError:
                continue  # it does not exist, or reading it later reports the error
            if not others_may_write(found):
                continue
            if found.st_uid not in (os.geteuid(), 0):
                raise TqError(
                    ErrorCode.PERMISSION,
                    f"{path} belongs to another user (uid {found.st_uid})",
                    "run the supervisor as that user, or choose a home of your own with --home or"
                    " TQSTUDIO_HOME",
                )
            raise TqError(
                ErrorCode.PERMISSION,
                f"other users may change {path} (mode {stat.S_IMODE(found.st_mode):04o})",
                f"remove that permission: chmod go-w {shlex.quote(str(path))}",
            )


def run_logs(log: Path) -> Path:
    """Returns the folder of ffmpeg's raw logs of an attempt; removed once they are merged into its log."""
    return log.with_name(f"{log.name}.runs")


def _runtime_dir() -> Path:
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and len(os.fsencode(given)) <= 60:
        return Path(given)
    return Path(tempfile.gettempdir()) / f"tqstudio-{os.getuid()}"


def _require_private(folder: Path) -> None:
    """Refuses a runtime directory in which another user may have placed a socket.

    Raises:
        TqError: PERMISSION.
    """
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        why = "is not a directory"
    elif found.st_uid != os.geteuid():
        why = f"belongs to another user (uid {found.st_uid})"
    elif stat.S_IMODE(found.st_mode) & 0o077:
        why = f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise TqError(
        ErrorCode.PERMISSION,
        f"the runtime directory {folder} {why}: a supervisor's socket there cannot be trusted",
        "choose a home with a shorter path, which can contain the socket, or set XDG_RUNTIME_DIR to a"
        " directory of your own with mode 0700",
    )


def current_home() -> Home:
    """Returns the home named by TQSTUDIO_HOME, else the user's data directory of the platform."""
    given = os.environ.get("TQSTUDIO_HOME")
    if given:
        return Home(Path(given).expanduser().absolute())
    # Imported only here: platformdirs costs a few milliseconds per command.
    from platformdirs import user_data_path

    return Home(user_data_path("tqstudio", appauthor=False))
