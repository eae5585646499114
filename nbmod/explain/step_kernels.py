"""The kernels that steps call: their source, and their hot loops down to machine code."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..execution.first_answers import restored
from ..ops.build.assembly import module_text
from ..ops.jit import Kernel, dry_run
from ..passes.remarks import where_is
from .schema import CodeFacts, KernelFacts, StepCodeFacts
from .wording import shortened

if TYPE_CHECKING:
    from ..execution.steps import PlannedProgram

__all__ = ["StepKernel", "code_facts", "step_kernels"]


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

    def facts(self) -> KernelFacts:
        """All that is known of it; it is compiled for this."""
        from ..bench.machine_code import facts_of_assembly, hot_loop, hot_loop_before_assembly

        text = module_text(self.kernel.compile(), self.types)
        code = self.kernel.function.__code__
        return KernelFacts(self.name, where_is(code.co_filename, code.co_firstlineno),
                           self.source(),
                           _beginning(hot_loop_before_assembly(text.intermediate)),
                           _beginning(hot_loop(text.assembly)),
                           **asdict(facts_of_assembly(text.assembly)))


LONGEST = 160
"""Lines of a hot loop that facts have: more repeat the same, as unrolled micro-kernels do."""


def _beginning(lines: Sequence[str]) -> str:
    return "\n".join(shortened(lines, LONGEST))


def code_facts(program: PlannedProgram, steps: Collection[int], known: CodeFacts | None = None
               ) -> CodeFacts:
    """The kernels of steps, each compiled once more; `known` are those of others.

    Parameters
    ----------
    program : PlannedProgram
        On the CPU.
    steps : collection of int
        Steps that are not known yet.
    known : CodeFacts, optional
        Facts of other steps, which come first.
    """
    kernels, of_steps = ([*known.kernels], [*known.steps]) if known is not None else ([], [])
    numbers: dict[StepKernel, int] = {}
    for step, called in step_kernels(program).items():
        if step in steps:
            for each in called:
                if each not in numbers:
                    numbers[each] = len(kernels)
                    kernels.append(each.facts())
            of_steps.append(StepCodeFacts(step, [numbers[each] for each in called]))
    return CodeFacts(kernels, of_steps)


def step_kernels(program: PlannedProgram) -> dict[int, list[StepKernel]]:
    """The compiled functions that each step calls, in the order of first calls.

    Steps run with all kernels left out, in the whole process, so that nothing else should run.
    What they write all the same (states, gradients) is restored.  Kernels of GPUs are not told.
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
