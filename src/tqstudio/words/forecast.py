"""Says what a change of jobs costs, for commands and the terminal UI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tqstudio import units
from tqstudio.words.format import counted, number, with_range
from tqstudio.words.sentences import by_reason

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ForecastView


_BECOMES = {
    "encoded": "encoded",
    "copied": "copied",
    "kept": "kept",
    "unknown": "if the source is large enough",
}


def effect_words(view: ForecastView) -> str:
    """What happens to the jobs: `12 jobs: 3 encoded again, 9 changed`; and of how many that is known."""
    jobs = "many jobs" if view["jobs"] is None else counted(view["jobs"], "job")
    words = {"encoded again": view["reencoded"], "changed": view["changed"], "refused": view["refused"]}
    parts = [f"{number(count)} {word}" for word, count in words.items() if count]
    of = f"estimated from {view['sampled']} of " if is_sample(view) else ""
    return f"{of}{jobs}: {', '.join(parts)}" if parts else jobs


def is_sample(view: ForecastView) -> bool:
    """Whether only some of the jobs were looked at."""
    return view["jobs"] != view["sampled"]


def cost_lines(view: ForecastView) -> list[str]:
    """What it costs: qualities, space, time, and the finished segments that are kept."""
    if not view["reencoded"] + view["changed"]:
        return [f"nothing changes: {view['reason']}"]
    return [*_qualities(view), *_sums(view)]


def _qualities(view: ForecastView) -> Iterator[str]:
    of = {"unknown": view["unknown"]}
    examined = view["reencoded"] + view["changed"] - view["unknown"]
    names = {
        id(each): each["name"]
        if each["jobs"] >= of.get(each["becomes"], examined)
        else f"{each['name']} in {each['jobs']}"
        for each in view["qualities"]
    }
    for becomes, words in _BECOMES.items():
        if found := [names[id(each)] for each in view["qualities"] if each["becomes"] == becomes]:
            yield f"{words}: {', '.join(found)}"
    left_out = [each for each in view["qualities"] if each["becomes"] == "left_out"]
    for words in by_reason((names[id(each)], each["reason"]) for each in left_out):
        yield f"left out, {words}"


def _sums(view: ForecastView) -> Iterator[str]:
    if view["unknown"] < view["reencoded"] + view["changed"]:
        took = "unknown until a similar job is done"
        if view["eta"] is not None:
            took = f"about {with_range(view['eta'])} on one worker"
        yield f"space: at most {units.size(view['max_bytes'])}; time: {took}"
    if view["segments_kept"] or view["segments_reencoded"]:
        again = f", {number(view['segments_reencoded'])} made again" if view["segments_reencoded"] else ""
        yield f"finished segments: {number(view['segments_kept'])} kept{again}"
    if view["unknown"]:
        yield f"not examined yet, and not in the sums: {counted(view['unknown'], 'job')}"
    if view["refused"]:
        yield f"{counted(view['refused'], 'job')} refused: {view['reason']}"
