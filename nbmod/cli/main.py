"""The command line: `nbmod demo`, `nbmod run script.py ...`, and tools; also `python -m nbmod`."""

from __future__ import annotations

import argparse
import os
import pathlib
import runpy
import sys
from collections.abc import Sequence

from .. import __version__
from ..base import MXNetError
from ..config import CONFIG
from . import bench, convert, doctor, im2rec, inspect, launch, rec, rec2idx, warmup

__all__ = ["main"]

TOOLS = {"launch": launch, "bench": bench, "warmup": warmup, "doctor": doctor, "im2rec": im2rec,
         "rec2idx": rec2idx, "rec": rec, "convert": convert, "inspect": inspect}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_program(), description="MXNet 1.x's symbolic engine and Module API, rebuilt.")
    parser.add_argument("--version", action="version", version=f"nbmod {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo", help="train LeNet on handwritten digits and leave an MXNet checkpoint")
    demo.add_argument("--out", type=pathlib.Path, default=pathlib.Path("nbmod-demo"),
                      help="folder for the checkpoint and the plot (default: %(default)s)")
    demo.add_argument("--epochs", type=_positive, default=12, help="default: %(default)s")
    run = commands.add_parser(
        "run", help="run an MXNet script unchanged: `import mxnet` is nbmod, gpu(i) is cpu(i) "
        "where there is no GPU")
    run.add_argument("script", help="the Python file")
    run.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
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


def run_script(script: str, args: Sequence[str]) -> None:
    """Run `script` as `__main__`, with nbmod as `mxnet` and removed names restored."""
    from ..compat import as_mxnet, numpy_cure, restore_old_names

    CONFIG.gpu_to_cpu = True
    as_mxnet()
    restore_old_names()
    sys.argv = [script, *args]
    sys.path.insert(0, str(pathlib.Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        cure = numpy_cure(error)
        if cure and hasattr(error, "add_note"):
            error.add_note(f"nbmod: {cure}")
        elif cure:  # Python 3.10
            print(f"nbmod: {cure}", file=sys.stderr)
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status.  Errors outside scripts are one line on stderr.

    A script's own errors are shown with their traceback.
    """
    options = _parser().parse_args(argv)
    if options.command == "run":
        if not pathlib.Path(options.script).is_file():
            return _complain(f"run: there is no file {options.script!r}", 2)
        run_script(options.script, options.args)
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
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the progress bar's line is unfinished
        return _complain("interrupted", 130)
    except BrokenPipeError:  # the reader, such as `head`, has enough; the rest goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (MXNetError, OSError) as error:
        return _complain(str(error), 1)


def _complain(text: str, status: int) -> int:
    print(f"nbmod: {text}", file=sys.stderr)
    return status
