"""The cost of compiling kernels: CPU seconds of each, by stages, and bytes of machine code.

numba announces when a function's compilation, a pass of the compiler and a call of LLVM begin and
end.  They are nested: typing a kernel compiles its helpers, and lowering calls LLVM.  The time
between two announcements belongs to the innermost stage that is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from .progress import CompilerEvent

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher
    from numba.core.types import Type

__all__ = ["KernelCost", "measured"]

STAGES = ("frontend", "lowering", "LLVM")


class KernelCost(NamedTuple):
    """The cost of a kernel: CPU seconds in each stage, and bytes of machine code."""

    name: str
    frontend: float
    lowering: float
    llvm: float
    nbytes: int

    @property
    def seconds(self) -> float:
        """All stages."""
        return self.frontend + self.lowering + self.llvm


@contextmanager
def measured() -> Iterator[list[KernelCost]]:
    """A block whose compilations of kernels are listed, each with those of its helpers."""
    from numba.core import event

    costs: list[KernelCost] = []
    listener = _Listener(costs)
    event.Listener.register(_Listener)
    with ExitStack() as block:
        for kind in ("compile", "run_pass", "llvm_lock"):
            block.enter_context(event.install_listener(f"numba:{kind}", listener))
        yield costs


class _Listener:
    """Adds up times between events."""

    def __init__(self, costs: list[KernelCost]) -> None:
        self.costs = costs
        self.open: list[str] = []
        """The stages that have begun, of compilations that have."""
        self.depth, self.since = 0, 0.0
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def notify(self, event: CompilerEvent) -> None:
        """Handle an event; numba's lock lets one thread compile."""
        compiles = event.kind == "numba:compile"
        if not self.depth and not (compiles and event.is_start):
            return
        now = time.process_time()
        if self.open:
            self.seconds[self.open[-1]] += now - self.since
        self.since = now
        if event.is_start:
            self.open.append(_stage(event))
        else:
            self.open.pop()
        self.depth += compiles * (1 if event.is_start else -1)
        if not self.depth:
            frontend, lowering, llvm = (self.seconds[stage] for stage in STAGES)
            compiled, types = event.data["dispatcher"], event.data["args"]
            self.costs.append(KernelCost(_name(compiled.py_func), frontend, lowering, llvm,
                                         _code_bytes(compiled, types)))
            self.seconds = dict.fromkeys(STAGES, 0.0)


def _stage(event: CompilerEvent) -> str:
    if event.kind == "numba:llvm_lock":
        return "LLVM"
    if event.kind == "numba:run_pass" and "lowering" in event.data["name"].partition(" ")[0]:
        return "lowering"
    return "frontend"


def _name(function: Callable) -> str:
    """Module and name, without the package; generated modules end with a digest."""
    module = function.__module__.removeprefix("nbmod.ops.")
    return f"{module}.{function.__name__}"


def _code_bytes(dispatcher: Dispatcher, types: Sequence[Type]) -> int:
    """Bytes of a kernel's machine code; 0 if its compilation failed."""
    from llvmlite.binding import ObjectFileRef

    result = dispatcher.overloads.get(tuple(types))
    if result is None:
        return 0
    code = ObjectFileRef.from_data(result.library._get_compiled_object())
    return sum(section.size() for section in code.sections() if section.is_text())
