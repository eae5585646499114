"""The command line: `nbmod demo`, `nbmod run script.py ...`, and tools; also `python -m nbmod`."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from .. import __version__
from ..base import MXNetError
from ..core.config import is_terminal
from . import (
    bench,
    convert,
    doctor,
    explain,
    im2rec,
    inspect,
    launch,
    predict,
    rec,
    rec2idx,
    run,
    warmup,
)
from .options import import_hint

__all__ = ["main"]

TOOLS = {"launch": launch, "bench": bench, "warmup": warmup, "doctor": doctor, "im2rec": im2rec,
         "rec2idx": rec2idx, "rec": rec, "convert": convert, "inspect": inspect,
         "explain": explain, "predict": predict}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_program(), description="MXNet 1.x's symbolic engine, Module API and Gluon, rebuilt.")
    parser.add_argument("--version", action="version", version=f"nbmod {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser(
        "demo", help="train LeNet on handwritten digits and leave an MXNet checkpoint")
    demo.add_argument("--out", type=pathlib.Path, default=pathlib.Path("nbmod-demo"),
                      help="folder for the checkpoint and the plot (default: %(default)s)")
    demo.add_argument("--epochs", type=_positive, default=12, help="default: %(default)s")
    run.arguments(commands.add_parser("run", help=run.HELP, description=run.HELP))
    for name, tool in TOOLS.items():
        tool.arguments(commands.add_parser(name, help=tool.HELP, description=tool.HELP))
    return parser


def _program() -> str:
    """The command as it was typed: the console script, or the module."""
    return "nbmod" if pathlib.Path(sys.argv[0]).stem == "nbmod" else "python -m nbmod"


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status.  Errors outside scripts are one line on stderr.

    A script's own errors are shown with their traceback.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["run"] and words[1:2] not in (["-h"], ["--help"]):
        try:
            run.run(words[1:])
        except run.NoProgram as error:
            return _complain(str(error), 2)
        return 0
    parser = _parser()
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        if options.command in TOOLS:
            status = TOOLS[options.command].run(options)
            sys.stdout.flush()
            return status
        from .demo import demo

        demo(options.out, options.epochs)
        return 0
    except KeyboardInterrupt:
        if is_terminal(sys.stderr):
            print(end="\r", file=sys.stderr)    # over the ^C that terminals show
        return _complain("interrupted", 130)
    except BrokenPipeError:  # the reader, such as `head`, has enough; the rest goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (MXNetError, OSError) as error:
        return _complain(f"{error}{import_hint(options, str(error))}", 1)


def _complain(text: str, status: int) -> int:
    print(f"nbmod: {text}", file=sys.stderr)
    return status
