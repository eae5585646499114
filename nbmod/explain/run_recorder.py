"""A run of a plan, with a summary of every tensor as its step leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..execution.first_answers import restored
from ..ndarray import NDArray
from ..passes.memory.plan_step import NONE
from .failures import failure_of_run
from .schema import BindFacts, RunFacts, ValueFacts

if TYPE_CHECKING:
    from ..base import Array
    from ..execution.steps import BoundGraph, PlannedProgram

__all__ = ["recorded_run"]

ROWS, COLUMNS = 8, 16
"""The most values of a tensor that are shown."""


class _Recorder:
    """A watcher of steps that keeps what they write."""

    def __init__(self, count: int):
        self.steps: list[list[ValueFacts]] = [[] for _ in range(count)]
        self.current: int | None = None

    def before(self, bound: BoundGraph, index: int) -> None:
        """A step is about to run."""
        self.current = index

    def after(self, bound: BoundGraph, index: int, noted: None = None) -> None:
        """Look at the outputs of a step."""
        self.steps[index] = [_values(bound, eid) for eid in bound.compiled.plan_steps[index].outputs
                             if eid != NONE]


def recorded_run(program: PlannedProgram, facts: BindFacts) -> tuple[BindFacts, Exception | None]:
    """Run a plan on the arrays that are bound, and look at every result.

    Gradients, states and random numbers are restored afterwards; the outputs are new.

    Parameters
    ----------
    program : PlannedProgram
        The plan with its arrays.
    facts : BindFacts
        Its facts.

    Returns
    -------
    facts : BindFacts
        With the values, as far as it ran.
    error : Exception or None
        The error that ended it, which the facts tell, too.
    """
    compiled, recorder = program.compiled, _Recorder(len(program.compiled.nodes))
    bound = program.bound or program.materialize()
    # Constants and head gradients get their values when the run begins.
    arrays = [_values(bound, eid) for node in compiled.graph.variables
              for eid in compiled.graph.output_eids(node) if node not in compiled.heads]
    facts = replace(facts, run=RunFacts(arrays, recorder.steps))
    try:
        _run(program, recorder)
    except Exception as error:
        failure = failure_of_run(program, facts, recorder.current, error)
        return replace(facts, failure=failure), error
    return facts, None


def _run(program: PlannedProgram, recorder: _Recorder) -> None:
    training = bool(program.compiled.heads)
    with restored(program.binding):
        program.forward(training, [recorder])
        if training:
            heads = [each.ones_like() for each in program.outputs]
            program.backward(heads, True, [recorder])


def _values(bound: BoundGraph, eid: int) -> ValueFacts:
    """The values of an entry now."""
    array = NDArray(bound.arrays[eid], bound.compiled.devices[eid]).asnumpy()
    with np.errstate(all="ignore"):
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
        figures = [finite.min(), finite.max(), finite.mean()] if finite.size else [None] * 3
    low, high, mean = map(_rounded, figures)
    return ValueFacts(eid, low, high, mean, values.size - finite.size, _sample(values))


def _sample(values: Array) -> Sequence[Sequence[float | None]]:
    """Some rows and columns of an array, evenly chosen."""
    if not values.size:
        return []
    image = values.reshape(-1, *values.shape[-2:])[0] if values.ndim > 1 else values.reshape(1, -1)
    rows, columns = (np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))
                     for size, most in zip(image.shape, (ROWS, COLUMNS), strict=True))
    return [[_rounded(value) for value in row] for row in image[np.ix_(rows, columns)].tolist()]


def _rounded(value: float | None) -> float | None:
    """To four digits; None where it is not finite."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.4g}")
