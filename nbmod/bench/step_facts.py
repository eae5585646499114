"""Times of the steps of an executor as facts of its plan."""

from __future__ import annotations

import math

from ..core.config import numpy_first
from ..execution.cost_model import costs_of
from ..execution.pipeline import CompiledGraph
from ..executor import Executor
from ..explain.schema import MeasuredFacts, StepTimeFacts
from ..ops.jit import num_threads, require_compiler
from .roofs import measured_roofs, share_of_roof
from .side_by_side import ArmTime, arm_times
from .step_rounds import step_rounds

__all__ = ["step_facts"]


def step_facts(executor: Executor, rounds: int = 10) -> MeasuredFacts:
    """Measure the steps of an executor: of inference, or of training where it has gradients.

    It runs on the arrays that are bound: outputs, gradients and moving averages change.

    Parameters
    ----------
    executor : Executor
        The network with its arrays.
    rounds : int
        Rounds of two runs.

    Returns
    -------
    MeasuredFacts
        For `Executor.explain`.

    Examples
    --------
    >>> from nbmod import bench
    >>> executor = mx.sym.exp(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(64, 64))
    >>> explanation = executor.explain(measured=bench.step_facts(executor, rounds=2))
    >>> explanation.facts.measured.steps[0].seconds < 1
    True
    """
    require_compiler("step_facts")
    with numpy_first(False):
        times = arm_times(step_rounds(executor, bool(executor.compiled.gradients), rounds))
    roofs = measured_roofs()
    compiled, costs = executor.compiled, costs_of(executor.compiled)
    steps = []
    for index, timed in _numbered(compiled, times):
        dtype = next((spec.dtype.name for spec in compiled.input_specs(compiled.nodes[index])),
                     "float32")
        share = share_of_roof(timed.seconds, *costs[index], dtype, roofs=roofs)
        steps.append(StepTimeFacts(
            index, timed.seconds, timed.noise if math.isfinite(timed.noise) else None,
            *((None, "") if share is None else (share.value, share.roof))))
    return MeasuredFacts(num_threads(), 2 * rounds, steps, roofs.operations, roofs.nbytes)


def _numbered(compiled: CompiledGraph, times: list[ArmTime]) -> list[tuple[int, ArmTime]]:
    """The times with the numbers of their steps; a run leaves steps out, and keeps their order."""
    names, numbered, index = [node.name for node in compiled.nodes], [], -1
    for each in times:
        index = names.index(each.name, index + 1)
        numbered.append((index, each))
    return numbered
