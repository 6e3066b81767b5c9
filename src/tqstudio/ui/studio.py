"""What every view shares: the model, the way to the supervisor, and how things look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.home import Home
    from tqstudio.ui.feed import Feed
    from tqstudio.ui.model import Model
    from tqstudio.ui.symbols import Glyphs
    from tqstudio.ui.theme import Palette


@dataclass(slots=True)
class Studio:
    model: Model
    feed: Feed
    glyphs: Glyphs
    palette: Palette
    vivid: Palette
    """What `palette` is while the supervisor answers; what is true even then is drawn with it."""
    home: Home
