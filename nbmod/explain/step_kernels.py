"""The kernels that steps call: their source, and the machine code of their hot loops."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..execution.first_answers import restored
from ..ops.build.assembly import assembly
from ..ops.jit import Kernel, dry_run

if TYPE_CHECKING:
    from ..execution.steps import PlannedProgram

__all__ = ["StepKernel", "step_kernels"]


class StepKernel(NamedTuple):
    """A kernel, and the types of its arguments in a step."""

    kernel: Kernel
    types: tuple[object, ...]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.kernel.__name__

    @property
    def where(self) -> str:
        """File and line."""
        code = self.kernel.function.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    def source(self) -> str:
        """The function in Python, as it was written or generated."""
        try:
            return inspect.getsource(self.kernel.function)
        except OSError:
            return f"# no source of {self.name}\n"

    def assembly(self) -> str:
        """The machine code of its module, which is compiled for this."""
        return assembly(self.kernel.compile(), self.types)


def step_kernels(program: PlannedProgram) -> dict[int, list[StepKernel]]:
    """The compiled functions that each step calls, in the order of first calls.

    Steps run with all kernels left out, in the whole process, so that nothing else should run.
    What they write all the same (states, gradients) is restored.

    Parameters
    ----------
    program : PlannedProgram
        On the CPU; kernels of GPUs are not told.
    """
    for mode in program.modes:
        mode.is_train = bool(program.compiled.heads)
    steps = (program.bound or program.materialize()).steps
    with restored(program.binding):
        return {index: list(_called(step.run)) for index, step in enumerate(steps) if step.run}


def _called(run: object) -> Iterator[StepKernel]:
    """The kernels of a step, which may fail on results that were not computed."""
    assert callable(run)
    with dry_run() as kernels, contextlib.suppress(Exception), np.errstate(all="ignore"):
        run()
    yield from (StepKernel(kernel, types) for kernel, types in kernels)
