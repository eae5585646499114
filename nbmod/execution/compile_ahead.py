"""Parallel compilation: helper processes compile the kernels of a bound network.

numba compiles one function at a time in a process.  When the first kernel that is not in the cache
is about to be compiled, as many helper processes as there are other cores bind the network that was
bound last, from its symbol and shapes, and make a dry run: its steps run, but kernels are only
recorded.  Each helper compiles the recorded kernels from a position of its own backwards, while
this process compiles them from the first on.  A process that needs a kernel which another one is
compiling waits for it (`ops.jit`).

This process depends on none of them: a helper that fails only leaves it more to compile.  Helpers
end when they are done, or when this process ends, which closes their standard input.  Those that
compile all kernels of a network store one more before that, so that programs that end sooner than
a kernel is compiled come nearer to a full cache with every run; but not where this process ends by
an exception, such as that of Ctrl-C, or is killed.

A network of one or two kinds of ops is not worth a process, nor are kinds that have been compiled
for another network.

Where installed kernels (`ops.build.shipped`) are of a lower CPU level than the host's, one more
helper, of the lowest priority, compiles those of the network for the host, if this process still
runs after a while.  They are used from the next process on: within a process a kernel never
changes.

In a block of `without_compiling` this process compiles nothing: there the first missing kernel
starts helpers for all of them and raises `KernelsMissing` (see `first_answers`).
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..core.config import CONFIG
from ..core.fork import fresh, in_child
from ..ops.build.progress import expect, locate_by
from ..ops.build.shipped import is_below_host
from ..ops.build.store import call_after_loading_shipped
from ..ops.jit import (
    call_before_compiling,
    compile_ahead,
    dry_run,
    keeps_code,
    kernel_file,
    num_threads,
    switch_here,
    switch_pool,
)
from ..ops.simd.denormals import FLUSH
from .steps import PlannedProgram, run_steps, run_watched

if TYPE_CHECKING:
    from types import FrameType

    from ..graph import Node
    from ..ops.jit import Kernel

    class Network(TypedDict):
        """A network as helpers receive it."""

        path: list[str]
        symbol: str
        exact: bool
        shapes: dict[str, tuple[int, ...]]
        types: dict[str, str]
        requests: dict[str, str]

    class Request(Network):
        """A network with the first kernel to compile, as a fraction of all, and whether to compile
        only while no other process runs."""

        begin: float
        idle: bool

__all__ = ["Compilation", "KernelsMissing", "announce", "main", "recorded",
           "without_compiling"]

MIN_NEW_KINDS = 5
"""The fewest kinds of ops for which helpers start: a process takes about 2 s to start, and each
kind needs a kernel or two of 0.5 to 6 s."""
MAX_HELPERS = 7
"""No network has kernels for more."""
IMPROVE_DELAY = 30
"""Seconds after which a process is taken for a long one."""

CHILD = """
import json, sys
request = json.loads(sys.stdin.readline())
sys.path[:] = request.pop("path")
from nbmod.execution.compile_ahead import main
main(request)
"""

STORE_ONE_MORE = "store one more\n"
"""The line that a helper reads at the regular end of this process."""

_LAYOUTS = "_into_blocks", "_from_blocks"
"""Ops that passes insert between layers."""
_LOOPS = run_steps.__code__, run_watched.__code__

Kind = tuple[str, ...]


@dataclass
class Compilation:
    """Helper processes that compile the kernels of one network."""

    of: weakref.ref[PlannedProgram] | None = None
    helpers: list[subprocess.Popen[str]] = field(default_factory=list)
    stores_one_more: bool = False
    """Whether each helper stores one more kernel after this process has ended."""
    files: list[Path] | None = None
    """Files of all kernels that the network needs; None until a helper has listed them."""

    @property
    def missing(self) -> int | None:
        """The number of kernels that are not stored yet; None if it is not known."""
        return None if self.files is None else sum(not path.exists() for path in self.files)

    @property
    def is_over(self) -> bool:
        """Whether all kernels are there, or no helper is left that could compile them."""
        return self.missing == 0 or all(helper.poll() is not None for helper in self.helpers)

    def is_of(self, program: PlannedProgram) -> bool:
        """Whether these helpers were started for `program`."""
        return self.of is not None and self.of() is program


class KernelsMissing(BaseException):
    """A forward pass needs kernels that `compilation` makes.  Not an Exception: nothing on the way
    to `first_answers` handles it."""

    def __init__(self, compilation: Compilation):
        super().__init__()
        self.compilation = compilation


_latest: weakref.ref[PlannedProgram] | None = None
_known: set[Kind] = set()
_current = Compilation()
_improving = Compilation()
"""For the host, of kernels that were loaded for a lower CPU level."""
_of_parents: list[Compilation] = []
_starting = fresh(threading.Lock())


class _ThreadProgram(threading.local):
    """The program of a `without_compiling` block in this thread."""

    program: PlannedProgram | None = None


_thread = _ThreadProgram()


def announce(program: PlannedProgram) -> None:
    """Note that `program` has been bound: helpers compile its kernels, if any are missing."""
    global _latest
    _latest = weakref.ref(program)
    call_before_compiling(_start_helpers)
    locate_by(_running_layer)
    if is_below_host():
        call_after_loading_shipped(partial(_improve_later, _latest))


def _running_layer() -> tuple[str, int] | None:
    """Name of the layer that this thread runs, and how many kinds of layers follow it for the first
    time; None outside of networks."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code not in _LOOPS:
        frame = frame.f_back
    if frame is None:
        return None
    compiled, index = frame.f_locals["bound"].compiled, frame.f_locals["index"]
    kinds = [_kind(node) for node in compiled.nodes]
    node = compiled.nodes[index].source or compiled.nodes[index]
    while node.op_name in _LAYOUTS:
        node = node.inputs[0].node
    return compiled.origin(node).name, len({*kinds} - {*kinds[:index + 1]})


def _improve_later(network: weakref.ref[PlannedProgram]) -> None:
    """After IMPROVE_DELAY, compile for the host what has been loaded for a lower level."""
    call_after_loading_shipped(None)    # once for each network
    timer = threading.Timer(IMPROVE_DELAY, _improve, [network])
    timer.daemon = True
    timer.start()


def _improve(network: weakref.ref[PlannedProgram]) -> None:
    global _improving
    program = network()
    if program is not None and _improving.is_over and _has_helpers(program):
        with contextlib.suppress(Exception):
            _end(_improving)
            request: Request = {**_request(program), "begin": 0, "idle": True}
            _improving = Compilation(network, [_launch(request, shipped=False)])


@contextmanager
def without_compiling(program: PlannedProgram) -> Iterator[None]:
    """A block in which this thread runs `program` and compiles nothing, if helpers can do so: then
    the first kernel that is not in the cache raises KernelsMissing."""
    _thread.program = program
    try:
        yield
    finally:
        _thread.program = None


def _start_helpers() -> None:
    """Once for each network, where that is worthwhile and possible."""
    global _latest
    with _starting:
        waiting = _thread.program
        program = waiting or (None if _latest is None else _latest())
        _latest = None
        if program is not None and all(helper.poll() is not None for helper in _current.helpers):
            _start_if_possible(program, waiting is not None)
        if waiting is not None and not _current.is_over:
            raise KernelsMissing(_current)


def _start_if_possible(program: PlannedProgram, waits: bool) -> None:
    """Start helpers for `program`; if it `waits`, this process leaves all kernels to them."""
    kinds = _kinds(program) - _known
    _known.update(kinds)
    count = min(num_threads() - (not waits), MAX_HELPERS, CONFIG.compilers - 1)
    if (waits or len(kinds) >= MIN_NEW_KINDS) and count > 0 and _has_helpers(program):
        with contextlib.suppress(Exception):  # without helpers it takes longer
            _start(program, count, waits)


def _has_helpers(program: PlannedProgram) -> bool:
    """Whether another process could bind the same network, and store what it compiles."""
    on_cpu = [ctx.device_type for ctx in program.compiled.spaces] == ["cpu"]
    return (on_cpu and CONFIG.compilers > 1 and keeps_code() and bool(sys.executable)
            and not getattr(sys, "frozen", False))


def _kinds(program: PlannedProgram) -> set[Kind]:
    """Ops and types of a network: roughly, each has kernels of its own."""
    compiled = program.compiled
    nodes = [*compiled.nodes, *(node for group in compiled.constants for node in group)]
    return {(*_kind(node), str(compiled.specs[0].dtype)) for node in nodes}


def _kind(node: Node) -> Kind:
    """The op of a node, with the one whose gradient it is."""
    ops = [node.op, *filter(None, [getattr(node.op, "op", None)])]
    return (*(type(op).__name__ for op in ops),)


def _start(program: PlannedProgram, count: int, all_kernels: bool) -> None:
    """Start `count` processes, which compile all kernels or those that this process does not."""
    global _current
    _end(_current)
    _current = Compilation(weakref.ref(program), stores_one_more=all_kernels)
    network = _request(program)
    for number in range(count):
        begin = (number + 1) / count if all_kernels else (number + 2) / (count + 1)
        _current.helpers.append(_launch({**network, "begin": begin, "idle": False}))
    threading.Thread(target=_expect_files, args=(_current,), daemon=True).start()


def _launch(request: Request, shipped: bool = True) -> subprocess.Popen[str]:
    """Start a process, with installed kernels or without."""
    _end_at_exit()
    # Where kernels are kept, and the width of their vectors; only this process measures.
    env = os.environ | {"NBMOD_CACHE_DIR": str(CONFIG.cache_dir), "NBMOD_COMPILERS": "1",
                        "NBMOD_PROGRESS": "0",
                        "NBMOD_SIMD_LANES": str(CONFIG.simd_lanes), "NBMOD_TUNE": "0",
                        "NBMOD_CPU_LEVEL": CONFIG.cpu_level,
                        "NBMOD_SHIPPED": str(int(shipped and CONFIG.shipped)),
                        "NBMOD_WINOGRAD": str(int(CONFIG.winograd))}
    helper = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=None if CONFIG.debug else subprocess.DEVNULL, text=True, env=env,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0)
        | (getattr(subprocess, "IDLE_PRIORITY_CLASS", 0) if request["idle"] else 0))
    assert helper.stdin is not None
    helper.stdin.write(json.dumps(request) + "\n")
    helper.stdin.flush()
    return helper


def _expect_files(compilation: Compilation) -> None:
    """Read which files the first helper finds that the network needs."""
    answer = compilation.helpers[0].stdout
    assert answer is not None
    with contextlib.suppress(ValueError, OSError), answer:     # or it has ended
        compilation.files = [*map(Path, json.loads(answer.readline()))]
        expect(compilation.files, len(compilation.helpers) + 1)


def _request(program: PlannedProgram) -> Network:
    """The network of a program, for helpers."""
    binding = program.binding
    return {"path": sys.path, "symbol": binding.symbol.tojson(), "exact": bool(binding.exact),
            "shapes": {name: array.shape for name, array in binding.args.items()},
            "types": {name: np.dtype(array.dtype).name for name, array in binding.args.items()},
            "requests": dict(binding.requests)}


@in_child
def _forget_helpers() -> None:
    """They are the parent's, and end when it closes their standard input, so this process must not
    keep that open.  A thread of the parent may have been reading their output."""
    global _current, _improving
    for compilation in (_current, _improving):
        for helper in compilation.helpers:
            if helper.stdin is not None:
                helper.stdin.close()
        _of_parents.append(compilation)
    _current, _improving = Compilation(), Compilation()


@cache
def _end_at_exit() -> None:
    atexit.register(_end_all, os.getpid())


def _end_all(pid: int) -> None:
    """End all processes, if this one started them: a forked one has the same lists."""
    if os.getpid() == pid:
        if _current.stores_one_more and getattr(sys, "last_type", None) is None:
            _dismiss(_current)
        else:
            _end(_current)
        _end(_improving)


def _dismiss(compilation: Compilation) -> None:
    """Let each helper store one more kernel."""
    for helper in compilation.helpers:
        assert helper.stdin is not None
        with contextlib.suppress(OSError), helper.stdin:     # or it has ended
            helper.stdin.write(STORE_ONE_MORE)


def _end(compilation: Compilation) -> None:
    for helper in compilation.helpers:
        helper.kill()
        helper.wait()
        for pipe in (helper.stdin, helper.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    compilation.helpers.clear()


# -- the helper process -------------------------------------------------------------------------


def main(request: Request) -> None:
    """Compile what the network of `request` needs."""
    dismissed = threading.Event()

    def end_with_parent() -> None:
        if sys.stdin.readline() != STORE_ONE_MORE:  # it returns when the parent has ended
            os._exit(0)
        dismissed.set()

    threading.Thread(target=end_with_parent, daemon=True).start()
    if request["idle"] and hasattr(os, "nice"):
        os.nice(19)
    jobs = list(recorded(_bound(request)))
    with contextlib.suppress(OSError):      # it has been dismissed, and nobody reads
        print(json.dumps([str(kernel_file(*job)) for job in jobs]), flush=True)
    first = int(request["begin"] * len(jobs))
    for job in jobs[:first][::-1] + jobs[first:][::-1]:
        is_stored = kernel_file(*job).exists()
        compile_ahead(*job)
        if dismissed.is_set() and not is_stored:
            break


def _bound(request: Request) -> PlannedProgram:
    from .. import symbol
    from ..context import cpu
    from ..core.config import exact

    shapes = {name: tuple(dims) for name, dims in request["shapes"].items()}
    with exact() if request["exact"] else contextlib.nullcontext():
        return symbol.load_json(request["symbol"]).simple_bind(
            cpu(), request["requests"], request["types"], **shapes  # type: ignore[arg-type]  # no name is a parameter's
        ).planned


def recorded(program: PlannedProgram) -> dict[tuple[Kernel, tuple[object, ...]], None]:
    """Kernels and argument types; a step that fails on arbitrary values is skipped."""
    for mode in program.modes:
        mode.is_train = bool(program.compiled.heads)
    with dry_run() as kernels:
        for switch in (switch_here, switch_pool):       # around all steps
            switch(np.empty(1, np.int64), FLUSH)
        for work in [*(values.refresh for values in program.constants),
                     *(step.run for step in (program.bound or program.materialize()).steps)]:
            if work is not None:
                with contextlib.suppress(Exception):
                    work()
    return kernels
