"""The command line. Each command is a function in a module that is imported when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it (128 + SIGINT)."""


def run_and_exit() -> NoReturn:
    """Run the command of this process, then end the process with its exit code."""
    code = main()
    if "obstore" in sys.modules:
        # Its threads still release Python objects after the last answer: if the interpreter is being
        # finalized by then, Python 3.11 ends such a thread inside its Rust code, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 success, 1 some job failed, 2 wrong usage, 3 no supervisor, 4 refused, 5 unusable database.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - from a clone it is started without a check by pip
        sys.stderr.write(
            f"error: tqstudio needs Python 3.11 or newer, and this is {sys.version.split()[0]};"
            " run it with a newer one\n"
        )
        return 2
    from tqstudio.cli.terminal import std_streams

    # First of all, as any file opened before could get the descriptor of a closed standard stream.
    std_streams.repair_streams()
    from tqstudio import gc_tuning

    gc_tuning.raise_threshold()
    from tqstudio.cli.terminal import printing

    given = list(sys.argv[1:] if arguments is None else arguments)
    printing.prepare(given)
    try:
        return _run(given)
    except BrokenPipeError:
        return printing.broken_pipe()


def _run(given: list[str]) -> int:
    import typer

    from tqstudio.cli.command_tree import root_command
    from tqstudio.cli.terminal import printing
    from tqstudio.cli.terminal.wrong_usage import usage_message
    from tqstudio.errors import TqError

    try:
        code = root_command().main(given, prog_name="tqstudio", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except TqError as error:
        return printing.report(error)
    except typer.TyperException as error:
        return printing.report(usage_message(error))
    except (KeyboardInterrupt, typer.Abort):
        printing.err("interrupted")
        return INTERRUPTED
    except OSError as error:
        from tqstudio import path_checks

        if "temporary directory" in str(error.strerror):
            return printing.report(path_checks.no_temporary_folder())
        if error.errno not in path_checks.CODES or not isinstance(error.filename, str | bytes):
            raise
        return printing.report(path_checks.refused(error.filename, error, "used"))
