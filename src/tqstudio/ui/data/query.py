"""The query of the queue view: the filter line, and the sort order."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.lifecycle import JobKind, JobStatus
from tqstudio.paths import readable
from tqstudio.protocol.calls import is_warning

SORTS = ("order", "newest", "oldest")

WORDS = {status.value: status.value for status in JobStatus} | {
    "running": JobStatus.IN_PROGRESS.value,
    "waiting": JobStatus.PENDING.value,
    "retry": JobStatus.PENDING.value,
    "held": JobStatus.PAUSED.value,
}
"""The words accepted after `state:`, and the status each stands for."""


@dataclass(frozen=True, slots=True)
class Query:
    statuses: tuple[str, ...] = ()
    text: str = ""
    sort: str = "order"
    folder: int | None = None
    kind: str | None = None
    owner: str | None = None
    warning: str | None = None
    """How the code of a warning begins, or any."""

    @property
    def narrowed(self) -> bool:
        return bool(self.statuses or self.text) or self._needs_more

    @property
    def _needs_more(self) -> bool:
        return any(each is not None for each in (self.folder, self.kind, self.owner, self.warning))

    def shows(self, status: str, name: str) -> bool:
        """Whether a job with this status and name matches; False for one of folder, kind, owner or
        warning: it needs more data."""
        words = (readable(word).lower() for word in self.text.split())
        return (
            not self._needs_more
            and status in (self.statuses or (status,))
            and all(word in name.lower() for word in words)
        )

    def line(self) -> str:
        """The filter as it can be typed."""
        words = ["running" if status == "in_progress" else status for status in self.statuses]
        parts = [f"folder:{self.folder}"] if self.folder is not None else []
        parts += [f"kind:{self.kind}"] if self.kind is not None else []
        parts += [f"owner:{self.owner}"] if self.owner is not None else []
        parts += [f"warning:{self.warning}"] if self.warning is not None else []
        parts += [f"state:{','.join(words)}"] if words else []
        return " ".join([*parts, *([self.text] if self.text else [])])


class FilterError(ValueError):
    """An unknown word after `state:`, `kind:` or `warning:`, or no number after `folder:`."""


def parse(line: str, sort: str = "order") -> Query:
    """Parse a filter line: words, `state:failed,paused`, `folder:3` of `tqstudio folder list`, `kind:new`,
    `owner:NAME`, `warning:any` or the beginning of a code."""
    statuses: list[str] = []
    words: list[str] = []
    folder: int | None = None
    kind: str | None = None
    owner: str | None = None
    warning: str | None = None
    for word in line.split():
        if word.lower().startswith("kind:"):
            kind = word[5:].lower()
            if kind not in list(JobKind):
                raise FilterError(f"unknown kind {kind!r}; available: {', '.join(sorted(JobKind))}")
            continue
        if word.lower().startswith("owner:"):
            owner = word[6:] or None
            continue
        if word.lower().startswith("warning:"):
            warning = word[8:] or None
            if warning is not None and not is_warning(warning):
                raise FilterError(f"no warning begins with {warning!r}; warning:any finds all there are")
            continue
        if word.lower().startswith("folder:"):
            number = word[7:]
            if not number.isdecimal() or not 0 < len(number) < 10:
                raise FilterError(f"{number!r} is not a folder number; see: tqstudio folder list")
            folder = int(number)
            continue
        if not word.lower().startswith("state:"):
            words.append(word)
            continue
        for name in filter(None, word[6:].lower().split(",")):
            if name not in WORDS:
                raise FilterError(f"unknown state {name!r}; available: {', '.join(sorted(WORDS))}")
            if WORDS[name] not in statuses:
                statuses.append(WORDS[name])
    return Query(tuple(statuses), " ".join(words), sort, folder, kind, owner, warning)
