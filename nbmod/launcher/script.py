"""`python -m nbmod.launcher.script PID FILE script args`: the script of a rank.

It runs as under `nbmod run`.  The process ends with the worker that started it, whose
number is PID, and keeps its position in FILE.  MPI waits for all ranks when a rank ends, so after
an error the process ends without that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from . import position
from .bond import die_with
from .placement import placement_of

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Run a script."""
    worker, file, script, *rest = arguments
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)    # signals of `mpiexec` are for the worker
    die_with(int(worker))
    _close_input()
    position.adopt(file)
    from ..cli.run import run_script  # not before the process is bound to its worker

    try:
        run_script(script, rest)
    except SystemExit as ended:
        if ended.code is not None and ended.code != 0:
            _end_after(ended, ended.code if isinstance(ended.code, int) else 1)
        raise
    except BaseException as error:
        _end_after(error, 1)
        raise


def _end_after(error: BaseException, status: int) -> None:
    """End this process after an error, if MPI would make it wait for the other ranks."""
    if isinstance(error, SystemExit):
        how = f"exit status {status}"
        if not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    else:
        how = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    where = position.current()
    step = f" at {where}" if str(where) else ""
    position.last_words(f"{placement_of()} ended with {how}{step}")
    if "mpi4py.MPI" not in sys.modules:
        return
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _close_input() -> None:
    """Let the script find the end of its standard input, as `mpiexec` gives it to one rank only."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


if __name__ == "__main__":
    main(sys.argv[1:])
