"""The drop folders view: status, waiting files, and files left out with the reason."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.strip import Strip

from tqstudio import paths
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.look.line import fit_name, width_of
from tqstudio.ui.screens.frame.list_screen import Facts, ItemList, ListScreen
from tqstudio.words import format as fmt
from tqstudio.words.sentences import folder_rules

if TYPE_CHECKING:
    from tqstudio.protocol.answers import FolderView, SkippedFile
    from tqstudio.ui.screens.dialogs.ask_path import PathAnswer

REREAD_S = 3.0


class FolderList(ItemList["FolderView"]):
    @property
    def shown(self) -> list[FolderView]:
        folders = self.context.model.folders or []
        return [folder for folder in folders if self._owner.matches(folder["path"], folder["profile"])]

    def empty(self) -> str:
        key = self.context.sign("folder_add")
        unwatched = f"no drop folder yet – {key} adds one; videos dropped into it are transcoded"
        return self._owner.nothing("folder", unwatched, read=self.context.model.folders is not None)

    def key(self, at: int) -> Hashable:
        return self.shown[at]["id"]

    def head(self, width: int) -> Strip:
        return self._columns(width, "folder", "state", "profile", "watch", "waiting", "today")

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        glyphs = self.context.glyphs
        folder = self.shown[at]
        state = "failed" if folder["problem"] else "done" if folder["enabled"] else "cancelled"
        word = "problem" if folder["problem"] else "watched" if folder["enabled"] else "off"
        today = (
            f"{glyphs.states['done']}{folder['done_today']} {glyphs.states['failed']}{folder['failed_today']}"
        )
        return self._columns(
            width,
            paths.readable(folder["path"]),
            f"{glyphs.states[state]} {word}",
            folder["profile"],
            folder["watch"],
            _waiting(folder) or glyphs.states["skipped"],
            today,
            state=state,
            selected=selected,
            skipped=len(folder["skipped"]),
        )

    def _columns(
        self,
        width: int,
        path: str,
        word: str,
        *values: str,
        state: str = "",
        selected: bool = False,
        skipped: int = 0,
    ) -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        line = self.start_row(width, selected=selected)
        widths = (9, 8, 11, 11) if width >= 72 else (8, 0, 11, 9)
        longest = max((width_of(paths.readable(folder["path"])) for folder in self.shown), default=0)
        room = max(14, min(width - 2 - 12 - sum(widths) - len(widths) - 1, longest + 2))
        line.cell(fit_name(path, room, glyphs.ellipsis), room, None if state else palette.faint).gap()
        line.cell(word, 10, palette.states[state] if state else palette.faint).gap()
        *others, today = values
        for value, cells in zip(others, widths, strict=False):
            if cells:
                line.cell(value, cells, palette.dim if state else palette.faint).gap()
        line.add(today, palette.dim if state else palette.faint).gap()
        if skipped:
            count = f"{glyphs.states['warning']}{skipped}"
            words = f"{count} skipped"
            line.add(words if width_of(words) < line.room else count, palette.warning)
        return line.strip()


def _waiting(folder: FolderView) -> str:
    """Number of files that are not queued yet."""
    if folder["settling"]:
        return f"{folder['settling']} settling"
    return f"{folder['checking']} checking" if folder["checking"] else ""


class FoldersScreen(ListScreen["FolderView"]):
    VIEW: ClassVar[View] = "folders"
    BINDINGS = bindings_of("folders")
    LIST = FolderList
    PANE_LINES = 20
    """Few folders, of which many files may be skipped."""

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(REREAD_S, self._reread)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._reread()

    def _reread(self) -> None:
        if self.is_current:
            self.context.feed.read_folders_soon()

    def tab_text(self) -> tuple[str, str]:
        return self.filter_text, fmt.counted(self.list.count(), "folder")

    def details(self) -> tuple[str, Facts]:
        folder = self.selected()
        if folder is None:
            return "", []
        problem, left_out = folder["problem"], folder["skipped"]
        rules = ["with subfolders" if folder["recursive"] else "without subfolders"]
        rules += [f"only {', '.join(folder['patterns'])}"] if folder["patterns"] else []
        rules += folder_rules(folder)
        rules += [f"complete after {folder['settle_s']:g} s without change", f"priority {folder['priority']}"]
        again = folder["autorestart"]
        delay = fmt.short_duration(folder["autorestart_delay_s"])
        times = fmt.counted(again, "time")
        restarts = f"failed jobs restart automatically {times}, {delay} after the failure"
        rules.append(restarts if again else "no autorestart")
        return paths.readable(folder["path"]), [
            ("problem", in_one_line(problem["code"], problem["message"], problem["hint"]) if problem else ""),
            ("output", paths.readable(folder["output_root"])),
            ("rules", ", ".join(rules)),
            (
                "skipped",
                f"{fmt.counted(len(left_out), 'file')}, all with: tqstudio folder list" if left_out else "",
            ),
            *(("", f"{skipped['name']}: {_why(skipped)}") for skipped in left_out),
        ]

    async def do_open(self, _: str) -> None:
        folder = self.selected()
        if folder is None:
            self.toast("no folder is selected")
            return
        await self.shell.show_jobs(f"folder:{folder['id']}")

    def _is_elsewhere(self) -> bool:
        """Whether the folders are those of a studio on another machine, which refuses to change them."""
        if remote := self.context.model.remote:
            self.toast(f"drop folders are changed on the machine of {remote}")
        return bool(remote)

    def _chosen(self) -> FolderView | None:
        """The folder that a change is about; None if there is none, which is reported."""
        if self._is_elsewhere():
            return None
        folder = self.selected()
        if folder is None:
            self.toast("no folder is selected")
        return folder

    async def do_folder_add(self, _: str) -> None:
        if self._is_elsewhere():
            return
        from tqstudio.ui.screens.dialogs.ask_folder import AskFolder

        self.app.push_screen(AskFolder(self.context, self._add))

    async def _add(self, answer: PathAnswer) -> None:
        """Add a drop folder; raise TqError if the path is no folder, or the supervisor refuses it."""
        path = os.fsencode(answer.path)
        if not answer.is_folder:
            what = f"{paths.display(path)} is not a folder on this machine"
            raise TqError(ErrorCode.SOURCE_MISSING, what, "type the path of an existing folder")
        output = paths.encode(answer.output) if answer.output else None
        await self.context.feed.send(
            calls.add_folder(paths.encode(path), profile=answer.profile, output_b64=output)
        )
        self.toast(f"watching {paths.display(path)}")
        self.context.feed.read_folders_soon()

    async def do_folder_switch(self, _: str) -> None:
        folder = self._chosen()
        if folder is None:
            return
        await self.context.feed.send(calls.edit_folder(folder["id"], enabled=not folder["enabled"]))
        self.context.feed.read_folders_soon()

    async def do_folder_rules(self, _: str) -> None:
        folder = self._chosen()
        if folder is None:
            return
        number, shown = folder["id"], paths.readable(folder["path"])

        async def save(changes: dict[str, Any]) -> None:
            if changes:
                await self.context.feed.send(calls.edit_folder(number, **changes))
                self.context.feed.read_folders_soon()
            self.toast(
                f"rules of {shown} changed; {self.context.sign('undo')} undoes it"
                if changes
                else "no rule was changed"
            )

        from tqstudio.ui.screens.dialogs.folder_rules import EditFolder

        self.app.push_screen(EditFolder(self.context, folder, save))

    async def do_folder_remove(self, _: str) -> None:
        folder = self._chosen()
        if folder is None:
            return
        await self.context.feed.send(calls.remove_folder(folder["id"]))
        self.context.feed.read_folders_soon()
        stays = f"its jobs stay; {self.context.sign('undo')} undoes it"
        self.toast(f"{paths.readable(folder['path'])} is not watched any more; {stays}")


def _why(skipped: SkippedFile) -> str:
    return in_one_line(skipped["code"], skipped["reason"], skipped["hint"])
