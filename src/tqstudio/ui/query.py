"""What the queue shows: the filter line as people type it, and the sort."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.lifecycle import JobStatus
from tqstudio.sources import readable

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

    @property
    def narrowed(self) -> bool:
        return bool(self.statuses or self.text)

    def shows(self, status: str, name: str) -> bool:
        """Whether it finds a job with this status and name, as the supervisor would."""
        words = (readable(word).lower() for word in self.text.split())
        return status in (self.statuses or (status,)) and all(word in name.lower() for word in words)

    def line(self) -> str:
        """The filter as it can be typed."""
        words = ["running" if status == "in_progress" else status for status in self.statuses]
        state = [f"state:{','.join(words)}"] if words else []
        return " ".join([*state, *([self.text] if self.text else [])])


class FilterError(ValueError):
    """A word after `state:` that names no state."""


def parse(line: str, sort: str = "order") -> Query:
    """The query of a filter line: words, and `state:failed,paused`.

    Raises:
        FilterError: an unknown state.
    """
    statuses: list[str] = []
    words: list[str] = []
    for word in line.split():
        if not word.lower().startswith("state:"):
            words.append(word)
            continue
        for name in filter(None, word[6:].lower().split(",")):
            if name not in WORDS:
                raise FilterError(f"no state is called {name!r}; there are {', '.join(sorted(WORDS))}")
            if WORDS[name] not in statuses:
                statuses.append(WORDS[name])
    return Query(tuple(statuses), " ".join(words), sort)
