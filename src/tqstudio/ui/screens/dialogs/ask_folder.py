"""Dialog that asks for a folder to watch, and shows what it holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from textual.app import ComposeResult
from textual.widgets import Input

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import absolute, encode, is_bucket, readable
from tqstudio.protocol import calls
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.dialogs.ask_path import AskPath, PathAnswer, pasted
from tqstudio.ui.screens.dialogs.folder_preview import FolderContent


class AskFolder(AskPath):
    """Asks for a folder to watch. One that does not exist is created at the second enter."""

    def __init__(self, context: Context, submit: Callable[[PathAnswer], Awaitable[None]]) -> None:
        super().__init__(context, "Watch a folder", "Videos dropped into it are transcoded.", submit)
        self._creates = ""
        """The path whose creation was offered."""

    def content(self) -> ComposeResult:
        yield FolderContent(self.context)

    def on_mount(self) -> None:
        self._show()

    def typed_more(self) -> None:
        super().typed_more()
        self._creates = ""
        self._show()

    def _show(self) -> None:
        self.name_output()
        if path := self._path():
            output = self._absolute("#output")
            rules = {"output_b64": encode(output)} if output else {}
            self.query_one(FolderContent).ask(path, calls.preview_folder(encode(path), **rules))

    def _absolute(self, field: str) -> str:
        """The typed path; nothing for what is none."""
        try:
            return absolute(pasted(self._typed(field)))
        except TqError:
            return ""

    def _path(self) -> str:
        path = self._absolute("#path")
        return "" if is_bucket(path) else path

    def proposal(self) -> str:
        path = self._path()
        return f"{path}-hls" if path.strip("/") else ""

    def name_output(self) -> None:
        proposed = self.proposal()
        text = f"tab takes {readable(proposed)}; empty: {self._default}" if proposed else self._default
        self.query_one("#output", Input).placeholder = text

    async def prepare(self, path: str) -> str:
        if is_bucket(path) or await asyncio.to_thread(os.path.lexists, path):
            return ""
        if self._creates != path:
            self._creates = path
            return f"{readable(path)} does not exist: enter creates it"
        try:
            await asyncio.to_thread(os.makedirs, path)
        except OSError as error:
            what = f"{readable(path)} cannot be created: {(error.strerror or str(error)).lower()}"
            raise TqError(ErrorCode.REFUSED, what, "choose another path") from None
        return ""
