"""Words the questions that job actions ask before work is lost or many jobs change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.ui.data.target import Target
from tqstudio.words.format import counted

if TYPE_CHECKING:
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

_VERBS = {
    Operation.PRIORITY: ("Change the priority of", "Change the priority"),
    Operation.UNDELETE: ("Restore", "Restore"),
}
"""First words of a confirmation, and its answer, where these are not the operation's name."""
STAYS = "Ladders and sources stay."


def has_work(target: Target) -> bool:
    return target.status is JobStatus.IN_PROGRESS or target.segments_done > 0


def many_question(operation: Operation, named: str, undo: str, *, known: bool = True) -> Confirm:
    """Asks about many jobs.

    Args:
        undo: the key that undoes it.
        known: whether their finished segments are known, so that none is lost.
    """
    name = operation.value.capitalize()
    verb, go = _VERBS.get(operation, (name, name))
    sentence = "No finished segment is lost."
    if operation is Operation.DELETE:
        sentence = f"They leave the list; {undo} restores them. {STAYS}"
        if not known:
            sentence += " Unfinished work of failed and cancelled ones is lost."
    elif operation is Operation.UNDELETE:
        sentence = "They return to the list. Work that was removed with them does not."
    elif operation is Operation.RESTART and not known:
        sentence = "Their finished segments are lost: everything is encoded again."
    return _confirm(f"{verb} {named}?", [sentence], keep="Change nothing", go=go)


def delete_question(targets: Sequence[Target], named: str, segments: int, undo: str) -> Confirm:
    it, its = ("it", "its") if len(targets) == 1 else ("them", "their")
    return _confirm(
        f"Delete {named}?",
        [
            f"Lost: {counted(segments, 'finished segment')}. A later retry starts from the beginning.",
            f"{undo} restores {it} to the list, without {its} segments. {STAYS}",
        ],
        keep=f"Keep {it}",
        go="Delete the job" if len(targets) == 1 else f"Delete {counted(len(targets), 'job')}",
    )


def video_question(name: str, undo: str) -> Confirm:
    return _confirm(
        f"Delete the video {name}?",
        [
            "Its ladder, its jobs and their unfinished work are removed; the source stays.",
            f"{undo} brings it back while its files are kept.",
        ],
        keep="Keep it",
        go="Delete the video",
    )


def loss_question(operation: Operation, targets: Sequence[Target], named: str, pause: str) -> Confirm:
    """Asks whether to cancel or restart, naming what is lost and what is kept."""
    running = sum(target.status is JobStatus.IN_PROGRESS for target in targets)
    segments = sum(target.segments_done for target in targets)
    each = "of each quality " if len(targets) == 1 else "of each quality of every running job "
    lost = f"Lost: what is in flight {each}(a second or two of video)." if running else "Nothing is lost now."
    if operation is Operation.RESTART:
        lost = (
            f"Lost: {counted(segments, 'finished segment')}, and the segments in progress."
            if segments
            else lost
        )
        return _confirm(
            f"Restart {named}?",
            [lost, f"Everything is encoded again. To requeue a stuck job instead, press {pause} twice."],
            keep="Keep it as it is",
            go="Restart",
        )
    verb = "stays" if segments == 1 else "stay"
    stays = f"{counted(segments, 'finished segment')} {verb} for a later retry."
    if not segments:
        stays = "No segment is finished yet: a later retry starts at or near the beginning."
    return _confirm(
        f"Cancel {named}?",
        [lost, stays],
        keep="Keep it running" if running else "Keep it",
        go="Cancel the job" if len(targets) == 1 else f"Cancel {counted(len(targets), 'job')}",
    )


def _confirm(question: str, sentences: list[str], *, keep: str, go: str) -> Confirm:
    # Imported when it is opened, as in `actions`.
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

    return Confirm(question, sentences, keep=keep, go=go)
