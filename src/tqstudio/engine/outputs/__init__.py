"""Publishes finished ladders: builds a complete generation, then replaces the master playlist atomically.

    OUT/<slug>/master.m3u8                  names the current generation
    OUT/<slug>/v<N>/<rung>/index.m3u8 …     never changed once published
    OUT/<slug>/.v<N>-building               a generation that is being built
    OUT/<slug>/.v<N>-trash                  one that is being removed

`publisher` updates files and database together; most other modules only handle files.
"""

from tqstudio.engine.outputs.dash import has as has_dash
from tqstudio.engine.outputs.generation import build, first_free, remove, rename_to_final, sweep
from tqstudio.engine.outputs.integrity import damaged, intact, intact_with_files, is_intact, torn
from tqstudio.engine.outputs.master import named, set_current
from tqstudio.engine.outputs.place import Place, own, unwritable
from tqstudio.engine.outputs.rollback import undo

__all__ = [
    "Place",
    "build",
    "damaged",
    "first_free",
    "has_dash",
    "intact",
    "intact_with_files",
    "is_intact",
    "named",
    "own",
    "remove",
    "rename_to_final",
    "set_current",
    "sweep",
    "torn",
    "undo",
    "unwritable",
]
