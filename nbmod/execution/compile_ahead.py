"""Parallel compilation: helper processes compile the kernels of a bound network.

numba compiles one function at a time in a process.  When the first kernel that is not in the cache
is about to be compiled, as many helper processes as there are other cores bind the network that was
bound last, from its symbol and shapes, and make a dry run: its steps run, but kernels are only
recorded.  Each helper compiles the recorded kernels from a position of its own backwards, while
this process compiles them from the first on.  A process that needs a kernel which another one is
compiling waits for it (`ops.jit`).

This process depends on none of them: a helper that fails only leaves it more to compile.  Helpers
end when they are done, or when this process ends, which closes their standard input.

A network of one or two kinds of ops is not worth a process, nor are kinds that have been compiled
for another network.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..config import CONFIG
from ..ops.build.progress import expect
from ..ops.jit import (
    call_before_compiling,
    compile_ahead,
    dry_run,
    keeps_code,
    kernel_file,
    num_threads,
)

if TYPE_CHECKING:
    from ..executor import Executor
    from ..ops.jit import Kernel

    class Network(TypedDict):
        """What a helper must know of a network."""

        path: list[str]
        symbol: str
        exact: bool
        shapes: dict[str, tuple[int, ...]]
        types: dict[str, str]
        requests: dict[str, str]

    class Request(Network):
        """The same with the first kernel to compile, as a fraction of all."""

        begin: float

__all__ = ["announce", "main"]

MIN_NEW_KINDS = 5
"""Of ops: each means a kernel or two, half a second to six each, where a process takes about two
seconds to start."""
MAX_HELPERS = 7
"""No network has kernels for more."""

CHILD = """
import json, sys
request = json.loads(sys.stdin.readline())
sys.path[:] = request.pop("path")
from nbmod.execution.compile_ahead import main
main(request)
"""

Kind = tuple[str, ...]

_latest: weakref.ref[Executor] | None = None
_known: set[Kind] = set()
_helpers: list[subprocess.Popen[str]] = []
_starting = threading.Lock()


def announce(executor: Executor) -> None:
    """Note that `executor` has been bound: helpers compile its kernels, if any are missing."""
    global _latest
    _latest = weakref.ref(executor)
    call_before_compiling(_start_helpers)


def _start_helpers() -> None:
    """Once for each network, where that is worthwhile and possible."""
    global _latest
    with _starting:
        executor = None if _latest is None else _latest()
        _latest = None
        if executor is None or any(helper.poll() is None for helper in _helpers):
            return
        kinds = _kinds(executor) - _known
        _known.update(kinds)
        count = min(num_threads() - 1, MAX_HELPERS, CONFIG.compilers - 1)
        # A helper must be able to bind the same network, and to store what it compiles.
        on_cpu = [ctx.device_type for ctx in executor.compiled.spaces] == ["cpu"]
        if (len(kinds) >= MIN_NEW_KINDS and count > 0 and on_cpu and keeps_code()
                and sys.executable and not getattr(sys, "frozen", False)):
            with contextlib.suppress(Exception):  # without helpers it takes longer
                _start(executor, count)


def _kinds(executor: Executor) -> set[Kind]:
    """Ops and types of a network: roughly, each has kernels of its own."""
    compiled = executor.compiled
    nodes = [*compiled.nodes, *(node for group in compiled.constants for node in group)]
    wrapped = [[node.op, *filter(None, [getattr(node.op, "op", None)])] for node in nodes]
    return {(*(type(op).__name__ for op in ops), str(compiled.specs[0].dtype)) for ops in wrapped}


def _start(executor: Executor, count: int) -> None:
    """Start `count` processes."""
    if not _helpers:
        atexit.register(_end, os.getpid())
    _end(os.getpid())
    request = _request(executor)
    # Where kernels are kept, and the width of their vectors; only this process measures.
    env = os.environ | {"NBMOD_CACHE_DIR": str(CONFIG.cache_dir), "NBMOD_COMPILERS": "1",
                        "NBMOD_SIMD_LANES": str(CONFIG.simd_lanes), "NBMOD_TUNE": "0",
                        "NBMOD_WINOGRAD": str(int(CONFIG.winograd))}
    for number in range(count):
        helper = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if number else subprocess.PIPE,
            stderr=None if CONFIG.debug else subprocess.DEVNULL, text=True, env=env,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0))
        _helpers.append(helper)
        assert helper.stdin is not None
        helper.stdin.write(json.dumps(request | {"begin": (number + 2) / (count + 1)}) + "\n")
        helper.stdin.flush()
        if number == 0:
            threading.Thread(target=_expect_files, args=(helper,), daemon=True).start()


def _expect_files(helper: subprocess.Popen[str]) -> None:
    """Read which files a helper finds that the network needs."""
    assert helper.stdout is not None
    with contextlib.suppress(ValueError, OSError), helper.stdout as answer:     # or it has ended
        expect(map(Path, json.loads(answer.readline() or "[]")))


def _request(executor: Executor) -> Network:
    """What a helper must know of a network."""
    arrays, given = executor.arg_dict, executor._given
    return {"path": sys.path, "symbol": given.symbol.tojson(), "exact": bool(given.exact),
            "shapes": {name: array.shape for name, array in arrays.items()},
            "types": {name: np.dtype(array.dtype).name for name, array in arrays.items()},
            "requests": dict(given.requests)}


def _end(pid: int) -> None:
    """End the helpers, if this process started them: a forked one has the same list."""
    if os.getpid() != pid:
        return
    for helper in _helpers:
        helper.kill()
        helper.wait()
        if helper.stdin is not None:
            with contextlib.suppress(OSError):
                helper.stdin.close()
    _helpers.clear()


# -- the helper process -------------------------------------------------------------------------


def main(request: Request) -> None:
    """Compile what the network of `request` needs."""
    def end_with_parent() -> None:
        sys.stdin.read()  # returns when the parent has ended
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    jobs = list(_recorded(_bound(request)))
    print(json.dumps([str(kernel_file(*job)) for job in jobs]), flush=True)
    first = int(request["begin"] * len(jobs))
    for job in jobs[:first][::-1] + jobs[first:][::-1]:
        compile_ahead(*job)


def _bound(request: Request) -> Executor:
    from .. import symbol
    from ..config import exact
    from ..context import cpu

    shapes = {name: tuple(dims) for name, dims in request["shapes"].items()}
    with exact() if request["exact"] else contextlib.nullcontext():
        return symbol.load_json(request["symbol"]).simple_bind(
            cpu(), request["requests"], request["types"], **shapes)  # type: ignore[arg-type]  # no name is a parameter's


def _recorded(executor: Executor) -> Iterable[tuple[Kernel, tuple[object, ...]]]:
    """Kernels and argument types; a step that fails on arbitrary values is skipped."""
    for mode in executor._modes:
        mode.is_train = bool(executor.compiled.heads)
    with dry_run() as found:
        for work in [*(values.refresh for values in executor.constants),
                     *(step.run for step in executor.steps)]:
            if work is not None:
                with contextlib.suppress(Exception):
                    work()
    return found
