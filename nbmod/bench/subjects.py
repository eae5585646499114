"""Subjects that can be timed: plain functions and numba's, nbmod's operators, symbols and modules.

Each becomes an `Arm` (see `rounds`): a function and several sets of inputs.

*Warm* arms call the function with one set of inputs in all of a block, after an untimed call: what
fits a cache is in it.  *Cold* arms take another set for every call, and have so many that they fill
the last level cache twice: every call reads memory.

Sets differ in their values, so that a function which keeps the result of its last call cannot win:
arrays of floating-point numbers are rotated by some elements from one set to the next, which
preserves their distribution.  Where that breaks an input (sorted keys, a matrix that has to stay
symmetric), `vary=False` keeps the values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import ArgumentError
from ..ops.simd.host import cache_bytes
from .foreign.foreign_worker import seconds_of

__all__ = ["CallableArm", "InputSets", "arrays_of", "copied", "last_level_cache"]

SETS = 4
"""Sets of inputs of a warm arm, taken in turn by the rounds."""
MOST_SETS = 4096
"""More would take longer to make than to time; small arrays then stay in a large cache."""
LAST_LEVEL = 32 * 2 ** 20
"""Bytes of a last level cache whose size the system does not tell."""

Inputs = tuple[Any, ...]


class InputSets:
    """Sets of inputs, which all functions of a comparison share.

    Equal functions on arrays at other addresses take other times: lines of the cache and pages are
    crossed elsewhere.  Arrays that a function writes to get their values back before each block, or
    a repeated update would overflow, and the others would read what it wrote.

    Parameters
    ----------
    args : tuple
        Arrays (NumPy's or nbmod's) are copied for every set, everything else is shared.
    cold : bool
        Whether there are so many that they fill the last level cache twice.
    vary : bool
        Whether values of floating-point arrays differ between sets.
    """

    def __init__(self, args: Inputs = (), cold: bool = False, vary: bool = True) -> None:
        self.cold = cold
        count = _cold_sets(args) if cold else SETS if arrays_of(args) else 1
        self.sets = [copied(args, number if vary else 0) for number in range(count)]
        self._values: list[dict[int, Any]] = [{} for _ in self.sets]

    def note_written(self, before: Inputs) -> None:
        """Find out which arrays of the first set are no longer as `before`, and restore them."""
        for number, (old, new) in enumerate(zip(
                arrays_of(before), arrays_of(self.sets[0]), strict=True)):
            if not _is_equal(old, new):
                new[...] = old
                for each, values in zip(self.sets, self._values, strict=True):
                    array = arrays_of(each)[number]
                    values.setdefault(number, array.copy())

    def restore(self, number: int) -> None:
        """Give the arrays of a set that functions write to their first values again."""
        if self._values[number]:
            arrays = arrays_of(self.sets[number])
            for position, values in self._values[number].items():
                arrays[position][...] = values


class CallableArm:
    """A function with sets of inputs.

    Parameters
    ----------
    name : str
        Shown in tables.
    function : callable
        Called with the inputs of a set; it must have finished its work when it returns.
    inputs : InputSets
        Those of all arms that it is compared with.
    before : callable, optional
        Called with the same inputs before every call of the function; its time does not count.
    clock : callable
        Seconds of the wall clock, or `time.process_time`.
    """

    def __init__(self, name: str, function: Callable[..., object], inputs: InputSets,
                 before: Callable[..., object] | None = None,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self.name = name
        self.function = function
        self.inputs = inputs
        self.before = before
        self.clock = clock

    def first_call(self) -> float:
        """Seconds of the first call, which also tells what the function writes to."""
        values = copied(self.inputs.sets[0])
        taken = seconds_of(self.function, self.inputs.sets[:1], before=self.before)
        self.inputs.note_written(values)
        return taken

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one of `calls` calls in a row."""
        sets = self.inputs.sets
        if self.inputs.cold:
            start = turn * calls
            inputs = [sets[(start + number) % len(sets)] for number in range(calls)]
        else:
            inputs = [sets[turn % len(sets)]] * calls
            self.inputs.restore(turn % len(sets))
            seconds_of(self.function, inputs[:1], before=self.before)
        return seconds_of(self.function, inputs, self.clock, self.before)


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits."""
    a, b = (each.asnumpy() if hasattr(each, "asnumpy") else each for each in (a, b))
    return bool(a.tobytes() == b.tobytes())


def copied(args: Inputs, turns: int = 0) -> Inputs:
    """The inputs with arrays of their own, whose floating-point values are rotated."""
    return tuple(_copied(value, turns) for value in args)


def _copied(value: Any, turns: int) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_copied(each, turns) for each in value)
    if not hasattr(value, "asnumpy"):
        return _rotated(value, turns) if isinstance(value, np.ndarray) else value
    copy = value.copy()
    if turns:
        copy[:] = _rotated(value.asnumpy(), turns)
    return copy


def _rotated(array: np.ndarray, turns: int) -> np.ndarray:
    """A copy in the layout of the array; flat elements move by a third of them and `turns`."""
    copy = array.copy(order="K")
    if turns and array.dtype.kind == "f" and array.size > 1:
        copy[...] = np.roll(array, turns * (array.size // 3 + 1))
    return copy


def arrays_of(args: Inputs) -> list[Any]:
    """All arrays among the inputs, NumPy's and nbmod's."""
    flat = [each for value in args
            for each in (arrays_of(tuple(value)) if isinstance(value, (tuple, list)) else [value])]
    return [each for each in flat if isinstance(each, np.ndarray) or hasattr(each, "asnumpy")]


def _cold_sets(args: Inputs) -> int:
    """So many sets that they take up twice the last level cache."""
    nbytes = sum(array.nbytes if isinstance(array, np.ndarray)
                 else array.size * np.dtype(array.dtype).itemsize for array in arrays_of(args))
    if not nbytes:
        raise ArgumentError("cold=True needs arrays among the arguments, whose buffers it rotates")
    return min(MOST_SETS, max(2, -(-2 * last_level_cache() // nbytes)))


def last_level_cache() -> int:
    """Bytes of the largest cache, as Linux tells it; elsewhere a usual size."""
    return max(cache_bytes().values(), default=LAST_LEVEL)
