"""`nd.contrib.foreach`, `while_loop` and `cond`: control flow as Python loops over NDArrays.

Arguments and results are those of the functions in `sym.contrib`, so that one body works with both.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base import ArgumentError, MXNetError, _as_list
from ..core.pytree import LoopFunction, Nested, Structure, flatten, outputs_and_states, unflatten
from .functions import function
from .ndarray import NDArray

__all__ = ["foreach", "while_loop", "cond"]


def foreach(body: Callable[[Nested, Nested], Nested], data: Nested, init_states: Nested
            ) -> tuple[Nested, Nested]:
    """Call a function for every row of arrays, passing states from one call to the next.

    Parameters
    ----------
    body : callable
        `body(row, states)` returns (outputs, next states).
    data : NDArray or nested list of NDArray
        Arrays whose rows, along the first axis, are passed; all have the same number.
    init_states : NDArray or nested list of NDArray
        States of the first call.

    Returns
    -------
    NDArray or nested list of NDArray
        Outputs, stacked along a new first axis.
    NDArray or nested list of NDArray
        States after the last call.

    Raises
    ------
    ArgumentError
        If the arrays have different numbers of rows.

    Examples
    --------
    >>> def add(row, total):
    ...     total = total + row
    ...     return total, total
    >>> sums, last = mx.nd.contrib.foreach(add, mx.nd.arange(4), mx.nd.zeros(1))
    >>> sums.reshape(-1).asnumpy().tolist(), last.asnumpy().tolist()
    ([0.0, 1.0, 3.0, 6.0], [6.0])
    """
    arrays, structure = flatten(data, NDArray, "foreach: data")
    flatten(init_states, NDArray, "foreach: init_states")
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ArgumentError(f"foreach: data have {sorted(lengths)} rows, expected one number of "
                            "rows, the same for all")
    states, collected = init_states, _Outputs("foreach: outputs of the body")
    for t in range(*lengths):
        rows = unflatten([array[t] for array in arrays], structure)
        outputs, states = outputs_and_states("foreach", body(rows, states))
        collected.append(outputs)
    return collected.stacked(), states


def while_loop(cond: LoopFunction, func: LoopFunction, loop_vars: Nested,
               max_iterations: int | None = None) -> tuple[Nested, Nested]:
    """Call a function repeatedly while a condition holds.

    Parameters
    ----------
    cond : callable
        `cond(*loop_vars)` returns one number; the loop ends when it is 0.
    func : callable
        `func(*loop_vars)` returns (outputs, next loop_vars).
    loop_vars : NDArray or nested list of NDArray
        Arguments of the first call.
    max_iterations : int
        Largest number of calls; required.

    Returns
    -------
    NDArray or nested list of NDArray
        Outputs, stacked along a new first axis of `max_iterations` rows; rows after the last call
        are 0.  Without any call it is an empty list.
    NDArray or nested list of NDArray
        Last loop_vars: a list if `loop_vars` is one.

    Raises
    ------
    ArgumentError
        If `max_iterations` is not given, there are no `loop_vars`, or their number changes.

    Examples
    --------
    >>> outputs, (last,) = mx.nd.contrib.while_loop(
    ...     lambda x: x < 3, lambda x: (x * 10, [x + 1]), [mx.nd.array([1])], max_iterations=4)
    >>> outputs.reshape(-1).asnumpy().tolist(), last.asnumpy().tolist()
    ([10.0, 20.0, 0.0, 0.0], [3.0])
    """
    if max_iterations is None:
        raise ArgumentError("while_loop: max_iterations should be specified")
    flat, _ = flatten(loop_vars, NDArray, "while_loop: loop_vars")
    if not flat:
        raise ArgumentError("while_loop: loop_vars should contain at least one element")
    collected, states = _Outputs("while_loop: outputs of func"), _as_list(loop_vars)
    while collected.count < max_iterations and _truth(cond(*states)):
        outputs, following = outputs_and_states("while_loop", func(*states))
        collected.append([] if outputs is None else outputs)
        if len(_as_list(following)) != len(states):
            raise ArgumentError(f"while_loop: {len(states)} loop_vars before iteration "
                                f"{collected.count - 1} and {len(_as_list(following))} after it")
        states = _as_list(following)
    last = states[0] if isinstance(loop_vars, NDArray) else states
    return collected.stacked(int(max_iterations)), last


def cond(pred: object, then_func: Callable[[], Nested], else_func: Callable[[], Nested]) -> Nested:
    """Call one of two functions.

    Parameters
    ----------
    pred : NDArray or float
        Condition, one number.
    then_func, else_func : callable
        Functions without arguments: the first is called if `pred` is not 0, the second if it is.

    Examples
    --------
    >>> x = mx.nd.array([2])
    >>> mx.nd.contrib.cond(x > 1, lambda: x + 1, lambda: x - 1).asnumpy().tolist()
    [3.0]
    """
    return then_func() if _truth(pred) else else_func()


class _Outputs:
    """Outputs of the iterations, one after another."""

    def __init__(self, what: str):
        self.what, self.count = what, 0
        self.structure: Structure = []
        self.columns: list[list[NDArray]] = []

    def append(self, outputs: Nested) -> None:
        arrays, structure = flatten(outputs, NDArray, self.what)
        if not self.count:
            self.structure, self.columns = structure, [[] for _ in arrays]
        elif structure != self.structure:
            raise ArgumentError(f"{self.what}: iteration {self.count} returns another structure "
                                "than the ones before")
        for column, array in zip(self.columns, arrays, strict=True):
            column.append(array)
        self.count += 1

    def stacked(self, rows: int = 0) -> Nested:
        """The outputs, stacked along a new first axis and padded with zeros to `rows` rows."""
        stacks = []
        for arrays in self.columns:
            for t, array in enumerate(arrays):
                if array.shape != arrays[0].shape:
                    raise MXNetError(f"{self.what}: shape {array.shape} in iteration {t}, but "
                                     f"{arrays[0].shape} in the first one")
            missing = [function("zeros_like")(arrays[0])] * (rows - len(arrays))
            stacks.append(function("stack")(*arrays, *missing, axis=0))
        return unflatten(stacks, self.structure)


def _truth(value: object) -> bool:
    value = value() if callable(value) else value
    return bool(value.asscalar()) if isinstance(value, NDArray) else bool(value)
