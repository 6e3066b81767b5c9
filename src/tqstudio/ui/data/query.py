"""What the queue shows: the filter line as people type it, and the sort."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.lifecycle import JobStatus
from tqstudio.paths import readable

SORTS = ("order", "newest", "oldest")

WORDS = {status.value: status.value for status in JobStatus} | {
    "running": JobStatus.IN_PROGRESS.value,
    "waiting": JobStatus.PENDING.value,
    "retry": JobStatus.PENDING.value,
    "held": JobStatus.PAUSED.value,
}
"""What may stand after `state:`, and the status it means."""


@dataclass(frozen=True, slots=True)
class Query:
    statuses: tuple[str, ...] = ()
    text: str = ""
    sort: str = "order"
    folder: int | None = None

    @property
    def narrowed(self) -> bool:
        return bool(self.statuses or self.text) or self.folder is not None

    def shows(self, status: str, name: str) -> bool:
        """Whether it finds a job with this status and name, as the supervisor would; false
        within a folder, which neither tells."""
        words = (readable(word).lower() for word in self.text.split())
        return (
            self.folder is None
            and status in (self.statuses or (status,))
            and all(word in name.lower() for word in words)
        )

    def line(self) -> str:
        """The filter as it can be typed."""
        words = ["running" if status == "in_progress" else status for status in self.statuses]
        parts = [f"folder:{self.folder}"] if self.folder is not None else []
        parts += [f"state:{','.join(words)}"] if words else []
        return " ".join([*parts, *([self.text] if self.text else [])])


class FilterError(ValueError):
    """A word after `state:` that names no state, or one after `folder:` that is no number."""


def parse(line: str, sort: str = "order") -> Query:
    """The query of a filter line: words, `state:failed,paused`, and `folder:3` of `tqstudio folder list`.

    Raises:
        FilterError: an unknown state, or a folder that is no number.
    """
    statuses: list[str] = []
    words: list[str] = []
    folder: int | None = None
    for word in line.split():
        if word.lower().startswith("folder:"):
            number = word[7:]
            if not number.isdecimal() or not 0 < len(number) < 10:
                raise FilterError(f"{number!r} is no number of a folder; tqstudio folder list has them")
            folder = int(number)
            continue
        if not word.lower().startswith("state:"):
            words.append(word)
            continue
        for name in filter(None, word[6:].lower().split(",")):
            if name not in WORDS:
                raise FilterError(f"no state is called {name!r}; there are {', '.join(sorted(WORDS))}")
            if WORDS[name] not in statuses:
                statuses.append(WORDS[name])
    return Query(tuple(statuses), " ".join(words), sort, folder)
