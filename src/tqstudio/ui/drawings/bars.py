"""Draws progress: a bar or a block per quality, and a bar of segments."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from tqstudio.words.symbols import Glyphs, state_of

if TYPE_CHECKING:
    from tqstudio.protocol.answers import DivisionView, RenditionView
    from tqstudio.ui.look.line import Line
    from tqstudio.ui.look.theme import Colours


def bar_text(progress: float, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """The filled and the empty part of a bar; only 100 % fills it, and any progress is visible."""
    steps = len(glyphs.bar)
    filled = int(max(0.0, min(progress, 100.0)) / 100 * width * steps)
    if progress < 100:
        filled = min(filled, width * steps - 1)
    if progress > 0:
        filled = max(filled, 1)
    whole, part = divmod(filled, steps)
    text = glyphs.bar[-1] * whole + (glyphs.bar[part - 1] if part else "")
    return text, glyphs.track * (width - len(text))


def add_bar(line: Line, progress: float, width: int, state: str, glyphs: Glyphs, palette: Colours) -> None:
    """Append a progress bar. Args: `state` is the display state of what progresses."""
    filled, rest = bar_text(progress, width, glyphs)
    line.add(filled, palette.states[state]).add(rest, palette.track)


def add_blocks(
    line: Line, renditions: list[RenditionView], width: int, glyphs: Glyphs, palette: Colours
) -> None:
    """Append one block per encoded quality; its height is the progress."""
    top = len(glyphs.heights) - 1
    used = 0
    for rendition in renditions:
        state = state_of(rendition["status"])
        if state == "skipped" or used == width:
            continue
        used += 1
        if state == "failed":
            line.add(glyphs.states["failed"], palette.states["failed"])
            continue
        progress = rendition["progress"]
        height = top if progress >= 100 else min(top - 1, int(progress / 100 * top))
        if height == 0:
            # An empty block would be invisible; the lowest one in grey means pending.
            line.add(glyphs.heights[1], palette.states["running"] if progress > 0 else palette.faint)
        else:
            line.add(glyphs.heights[height], palette.states[state])
    line.gap(width - used)


def add_segments(
    line: Line,
    rendition: RenditionView,
    width: int,
    glyphs: Glyphs,
    palette: Colours,
    *,
    resumed_from: int,
    state: str,
    division: DivisionView | None = None,
) -> None:
    """Append a bar of segments; a cell is one segment or a run of them.

    `█` done, `▒` kept from an earlier attempt, `▸` in progress, `·` missing, `✗` failed.

    Args:
        resumed_from: the first segment that the newest attempt had to encode.
        state: the quality's display state.
        division: if several workers encode the quality.
    """
    total = rendition["segments_total"] or 0
    if not total or width <= 0:
        return
    cells = width // total * total if total <= width else width
    done = rendition["segments_done"]
    missing, now = set(range(done, total)), {done}
    if division is not None:
        missing, now = _divided(division, total)
    kept = min(resumed_from, min(missing, default=total))
    text: list[tuple[str, str]] = []
    for cell in range(cells):
        # A cell covers several segments of a long video, a segment several cells of a short one.
        of_cell = range(cell * total // cells, max(cell * total, (cell + 1) * total - 1) // cells + 1)
        if of_cell[-1] < kept:
            text.append((glyphs.kept, "done"))
        elif missing.isdisjoint(of_cell):
            text.append((glyphs.full, "done"))
        elif state in ("running", "failed") and not now.isdisjoint(of_cell):
            text.append((glyphs.states[state], state))
        else:
            text.append((glyphs.states["pending"], "skipped"))
    for (sign, role), run in groupby(text):
        line.add(sign * len(list(run)), palette.states[role])
    line.gap(width - cells)


def _divided(division: DivisionView, total: int) -> tuple[set[int], set[int]]:
    """The missing segments of a quality that several workers encode, and those in progress."""
    # The last segment is never divided: it is the last one that the job's own worker makes.
    missing = {total - 1}.union(*(range(*each) for each in division["missing"]))
    at = [
        each["first"] + each["done"]
        for each in division["ranges"]
        if each["done"] < each["end"] - each["first"]
    ]
    for each in division["ranges"]:
        missing.difference_update(range(each["first"], each["first"] + each["done"]))
    return missing, {min(missing), *at}
