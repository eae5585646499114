"""`run`: run a program as Python does, with nbmod as `mxnet` in it and in what it starts.

Like Python, it takes a file, a folder or an archive with `__main__.py`, `-m module`, `-c code`, or
code from standard input.  The program becomes the module `__main__` and remains it, since
`multiprocessing`, `pickle` and functions that are called at exit look there.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import zipfile
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType, TracebackType

from ..base import MXNetError
from ..compat.mxnet_name import as_mxnet, explain_errors, restore_old_names
from ..core.config import CONFIG
from ..startup import set_up_children

__all__ = ["HELP", "NoProgram", "arguments", "run", "run_script"]

HELP = ("run an MXNet program unchanged: `import mxnet` is nbmod, in processes that it starts, "
        "too; gpu(i) is cpu(i) where there is no GPU")


class NoProgram(MXNetError):
    """The command line names no program that can be run."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the help; `run` reads them, as programs have options, too."""
    parser.usage = "%(prog)s [script.py | -m module | -c code | -] [arguments]"
    parser.add_argument("words", nargs="*", metavar="program", help="the program as Python takes "
                        "it, and its arguments; from standard input if there is none")


def run(words: Sequence[str]) -> None:
    """Run the program of a command line; NoProgram if there is none."""
    first, rest = (words[0], words[1:]) if words else ("", ())
    if first in ("-m", "-c"):
        if not rest:
            raise NoProgram(f"run: {first} needs {'a module' if first == '-m' else 'code'} after "
                            "it")
        (_run_module if first == "-m" else _run_code)(rest[0], rest[1:])
    elif first == "-" or not first and not sys.stdin.isatty():
        _enter([first, *rest], "")
        _execute(_compiled(sys.stdin.buffer.read(), "<stdin>"), __file__="<stdin>")
    elif not first or first.startswith("-"):
        raise NoProgram(f"run: {first or 'nothing'!r} stands where a program is expected: a "
                        "script, -m module, -c code, or - for standard input; options of the "
                        "program come after it")
    else:
        run_script(first, rest)


def run_script(script: str, args: Sequence[str]) -> None:
    """Run a file, or a folder or archive with `__main__.py`, as `__main__`; else NoProgram."""
    path = os.path.abspath(script)
    if os.path.isdir(script) or os.path.isfile(script) and zipfile.is_zipfile(script):
        _enter([script, *args], path)
        _execute_module(PathFinder.find_spec("__main__", [path]), f"{script!r} has no __main__.py")
        return
    if not os.path.isfile(script):
        hint = f"; a tool is started by -m {script}" if script.isidentifier() else ""
        raise NoProgram(f"run: there is no file {script!r}{hint}")
    _enter([script, *args], os.path.dirname(os.path.realpath(path)))
    with io.open_code(path) as file:
        code = _compiled(file.read(), path)
    _execute(code, __file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))


def _run_module(name: str, args: Sequence[str]) -> None:
    _enter(["-m", *args], os.getcwd())
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if not error.name or not name.startswith(f"{error.name}."):
            raise
        spec = None
    missing = f"there is no module {name!r}"
    if spec is not None and spec.submodule_search_locations is not None:
        spec, missing = find_spec(f"{name}.__main__"), f"the package {name!r} has no __main__.py"
    _execute_module(spec, missing)


def _run_code(code: str, args: Sequence[str]) -> None:
    _enter(["-c", *args], "")
    _execute(_compiled(code, "<string>"))


def _enter(argv: Sequence[str], folder: str) -> None:
    """Set up this process and those that it starts; a program's folder is the first of its path."""
    sys.argv = list(argv)
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = folder
    set_up_children()
    CONFIG.prefer_gpu_to_cpu()
    as_mxnet()
    restore_old_names()
    explain_errors()
    _hide_runner()
    sys.modules["__main__"] = ModuleType("__main__")


def _compiled(source: str | bytes, name: str) -> CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def _execute_module(spec: ModuleSpec | None, missing: str) -> None:
    """Run a module that has been found; otherwise NoProgram says what is missing."""
    code = getattr(spec.loader, "get_code", lambda name: None)(spec.name) if spec else None
    if spec is None or code is None:
        raise NoProgram(f"run: {missing}")
    if sys.argv[0] == "-m":
        sys.argv[0] = str(spec.origin)
    _execute(code, __file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader,
             __package__=spec.parent, __spec__=spec)


def _execute(code: CodeType, **names: object) -> None:
    """Run code in `__main__`."""
    program = vars(sys.modules["__main__"])
    program.update({"__loader__": BuiltinImporter, **names})
    exec(code, program)


def _hide_runner() -> None:
    """Let tracebacks begin in the program, as they do without this module."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException,
                   traceback: TracebackType | None) -> None:
        program, inner = vars(sys.modules["__main__"]), traceback
        while inner is not None and inner.tb_frame.f_globals is not program:
            inner = inner.tb_next
        if inner is not None or isinstance(error, SyntaxError):
            error, traceback = error.with_traceback(inner), inner
        show(kind, error, traceback)

    sys.excepthook = excepthook
