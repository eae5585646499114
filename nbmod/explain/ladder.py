"""NBMOD_DEBUG: a ladder of texts about every plan that is bound, each with those before it.

    1  a line: the network, steps and bytes, as the executor's repr
    2  the table of steps, as `Executor.debug_str`
    3  what each pass changed, and what it left and why, as `Explanation.why` tells of a node
    4  the kernels of the steps: the functions in Python, written or generated
    5  their hot loops, as LLVM has them and as machine code
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core.config import CONFIG
from ..execution.debug import described
from .explanation import Explanation
from .overview import pass_changes
from .schema import BindFacts
from .step_kernels import StepKernel, step_kernels
from .wording import described_loop, described_remark, step_title

if TYPE_CHECKING:
    from ..execution.steps import PlannedProgram

__all__ = ["print_plan"]


def print_plan(program: PlannedProgram) -> None:
    """Print what NBMOD_DEBUG and NBMOD_PRINT_PASSES ask for about a plan."""
    if CONFIG.debug:
        print("\n".join(_ladder(program, CONFIG.debug)))
    if CONFIG.print_passes:
        print(f"{Explanation.of(program).passes()}\n", file=sys.stderr, flush=True)


def _ladder(program: PlannedProgram, level: int) -> Iterator[str]:
    """Texts about a plan up to a level."""
    yield "bind " + " ".join(described(program.binding, program.outputs, program.compiled).split())
    if level >= 2:
        yield program.debug_str(None)
    if level >= 3:
        facts = Explanation.of(program).facts
        yield from _passes(facts)
        if level >= 4:
            yield from _kernels(facts, program, level >= 5)


def _passes(facts: BindFacts) -> Iterator[str]:
    """Passes in the order in which they ran: what each did and refused."""
    changes = {each.name: each for each in facts.passes}
    for name in dict.fromkeys([*changes, *(each.pass_name for each in facts.remarks)]):
        told = f": {pass_changes(facts, changes[name])}" if name in changes else ""
        yield f"pass {name}{told}"
        yield from (f"  {each.name}: {described_remark(each)}" for each in facts.remarks
                    if each.pass_name == name)


def _kernels(facts: BindFacts, program: PlannedProgram, shows_assembly: bool) -> Iterator[str]:
    """The kernels of each step; one that several steps call the first time only."""
    first: dict[StepKernel, int] = {}
    for index, kernels in step_kernels(program).items():
        for each in kernels:
            title = f"{step_title(facts.plan, index)}: kernel {each.name}"
            if (seen := first.setdefault(each, index)) != index:
                yield f"{title}, as in step {seen}"
                continue
            yield f"{title} at {each.where}\n{each.source()}"
            if shows_assembly:
                yield "\n".join(described_loop(each.facts()))
