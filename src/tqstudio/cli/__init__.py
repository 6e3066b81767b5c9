"""The command line. Every verb is a function in a module of its own noun, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""What shells answer for a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code.

    0 all well, 1 some job failed, 2 wrong usage, 3 no supervisor, 4 refused.
    """
    from tqstudio.cli import std_streams

    # Before anything is opened that could get the number of a closed one.
    std_streams.make_sound()
    from tqstudio import gc_tuning

    gc_tuning.look_seldom()
    from tqstudio.cli import printing

    given = list(sys.argv[1:] if arguments is None else arguments)
    printing.prepare(given)
    try:
        return _run(given)
    except BrokenPipeError:
        return printing.reader_left()


def _run(given: list[str]) -> int:
    import typer

    from tqstudio.cli import printing
    from tqstudio.cli.command_tree import usage_message, verbs
    from tqstudio.errors import TqError

    try:
        code = verbs().main(given, prog_name="tqstudio", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except TqError as error:
        return printing.report(error)
    except typer.TyperException as error:
        return printing.report(usage_message(error))
    except (KeyboardInterrupt, typer.Abort):
        printing.say("interrupted")
        return INTERRUPTED
    except PermissionError as error:
        if not isinstance(error.filename, str | bytes):
            raise
        from tqstudio.path_checks import refused

        return printing.report(refused(error.filename, error, "used"))
