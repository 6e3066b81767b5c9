"""Puts a finished ladder in its place: a whole generation first, then one atomic change of the master.

    OUT/<slug>/master.m3u8                  names the generation that plays
    OUT/<slug>/v<N>/<rung>/index.m3u8 …     never changed once it is there
    OUT/<slug>/.v<N>-building               a generation that has no name yet
    OUT/<slug>/.v<N>-trash                  one that is being removed

Here are files alone; `publisher` leads them and the database through a publish together.
"""

from tqstudio.engine.outputs.generation import build, first_free, is_whole, name_it, remove, rows_of, sweep
from tqstudio.engine.outputs.integrity import intact, is_sound
from tqstudio.engine.outputs.master import named, point
from tqstudio.engine.outputs.place import Place, own, unwritable
from tqstudio.engine.outputs.rollback import undo

__all__ = [
    "Place",
    "build",
    "first_free",
    "intact",
    "is_sound",
    "is_whole",
    "name_it",
    "named",
    "own",
    "point",
    "remove",
    "rows_of",
    "sweep",
    "undo",
    "unwritable",
]
