"""Times of the steps of an executor, beside what they cost, and as facts of its plan."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, NamedTuple

from ..core.config import numpy_first
from ..execution.cost_model import StepCost, costs_of
from ..executor import Executor
from ..explain.schema import MeasuredFacts, StepTimeFacts
from ..ops.jit import num_threads, require_compiler
from .roofs import Roofs, Share, measured_roofs, share_of_roof
from .side_by_side import arm_times
from .step_rounds import step_rounds

__all__ = ["StepTime", "step_facts", "step_times"]


class StepTime(NamedTuple):
    """The time and cost of a step, or of all of them."""

    name: str
    op: str
    seconds: float
    cost: StepCost
    noise: float | None = None
    """0.01 where two runs may differ by 1%; infinite where there were too few to know it."""
    dtype: str = "float32"
    is_winograd: bool = False

    @property
    def known_noise(self) -> float | None:
        """The noise, where it is known."""
        return None if self.noise is None or math.isinf(self.noise) else self.noise

    def share(self, roofs: Roofs) -> Share | None:
        """The share of the roof that limits it."""
        return share_of_roof(self.seconds, *self.cost, self.dtype, roofs=roofs)

    def as_json(self, roofs: Roofs) -> dict[str, Any]:
        """The step, for a file."""
        share = self.share(roofs)
        return {"name": self.name, "op": self.op, "seconds": self.seconds,
                **({} if self.known_noise is None else {"noise": self.known_noise}),
                "operations": self.cost.operations, "nbytes": self.cost.nbytes,
                "share": None if share is None else asdict(share)}


def step_times(executor: Executor, training: bool, repeats: int) -> list[StepTime]:
    """The steps that a run of an executor takes, the first ones, with their times and costs."""
    compiled = executor.compiled
    times = arm_times(step_rounds(executor, training, repeats))
    return [StepTime(node.name, node.op_name, timed.seconds, cost, timed.noise,
                     next((spec.dtype.name for spec in compiled.input_specs(node)), "float32"),
                     bool(getattr(node.op, "winograd_tile", 0)))
            for node, timed, cost in zip(compiled.nodes, times, costs_of(compiled), strict=False)]


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
        times = step_times(executor, bool(executor.compiled.gradients), rounds)
    roofs = measured_roofs()
    shares = [each.share(roofs) for each in times]
    steps = [StepTimeFacts(index, each.seconds, each.known_noise,
                           *((None, "") if share is None else (share.value, share.roof)))
             for index, (each, share) in enumerate(zip(times, shares, strict=True))]
    return MeasuredFacts(num_threads(), 2 * rounds, steps, roofs.operations, roofs.nbytes)
