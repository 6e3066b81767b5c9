"""What every view shares: the model, the way to the supervisor, and how things look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.home import Home
    from tqstudio.ui.data.model import Model
    from tqstudio.ui.data.sync import Feed
    from tqstudio.ui.look.theme import Palette
    from tqstudio.ui.text.symbols import Glyphs


@dataclass(slots=True)
class Studio:
    model: Model
    feed: Feed
    glyphs: Glyphs
    palette: Palette
    vivid: Palette
    """What `palette` is while the supervisor answers; what is true even then is drawn with it."""
    home: Home
