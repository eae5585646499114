"""Updates of some rows of a weight and its states, where they are.

A kernel gets the whole arrays and the indices of the rows, so nothing is copied.  Its formulas are
those of the kernels for whole weights, so results are bitwise those of an update of these rows
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..device import ALIGNMENT
from ..elementwise.formula_op import kernels
from ..jit import Kernel, has_compiler
from .sgd_update import COMPILED_FROM, FLOAT16, Update, spec_for

__all__ = ["Rows", "is_of_rows", "update_rows"]

PARALLEL_FROM = 1 << 18
"""Elements from which on all cores are used.  Before an update of rows the threads often sleep, and
waking them takes 0.2 to 0.3 ms, in which one core updates 150,000 elements."""
ROWS_AHEAD = 16
"""How many rows ahead rows of a cache line or more are prefetched: that takes 15 to 35 % of the
time off updates of rows that are far apart."""


class Rows(NamedTuple):
    """The rows `at` of an array; all of its rows, in order, where `at` is None."""

    data: np.ndarray
    at: np.ndarray | None

    def copied(self) -> np.ndarray:
        """A copy of the rows; the array itself if these are all."""
        return self.data if self.at is None else self.data[self.at]

    def matrix(self) -> np.ndarray:
        """The array as kernels get it."""
        data = self.data.view(np.uint16) if self.data.dtype == FLOAT16 else self.data
        return data.reshape(len(data), -1)


def is_of_rows(op: Update, ins: Sequence[Rows]) -> bool:
    """Whether `update_rows` has a kernel: the formulas of the op are all that it does, on rows of
    one length, and they are worth compiling."""
    return (ins[1].data.size >= COMPILED_FROM and type(op).update is Update.update
            and not op.scalars and len({rows.data.shape[1:] for rows in ins}) == 1
            and all(rows.data.flags.c_contiguous for rows in ins) and has_compiler())


def update_rows(op: Update, ins: Sequence[Rows]) -> None:
    """Update rows of a weight and its states in place, if `is_of_rows`.

    `ins` has the rows of the op's inputs, as many of each: the weight's first, then the
    gradient's.
    """
    program, parallel = op.program(), ins[1].data.size >= PARALLEL_FROM
    ahead = ROWS_AHEAD if ins[1].data[0].nbytes >= ALIGNMENT else 0
    key = (program.title, parallel, ahead,
           *[(rows.data.dtype.char, rows.at is None) for rows in ins])
    if key not in _kernels:
        _kernels[key] = _kernel_for(op, ins, parallel, ahead)
    kernel, real, order = _kernels[key]
    inputs = [ins[position] for position in order]
    kernel(*[one.matrix() for one in inputs], *[one.at for one in inputs if one.at is not None],
           *map(real, op.scalar_values(program)))


_kernels: dict[tuple, tuple[Kernel, Any, list[int]]] = {}
"""Kernels, the types they compute in, and the positions of their arrays among the inputs."""


def _kernel_for(op: Update, ins: Sequence[Rows], parallel: bool, ahead: int
                ) -> tuple[Kernel, Any, list[int]]:
    # The arrays of the formulas, found by those that represent them: the first row of each.
    first, program = [rows.data[:1] for rows in ins], op.program()
    tensors = op.tensors(first, first[:1])
    inputs, outs = ([tensors[name] for name in side] for side in (program.inputs, program.outputs))
    spec = spec_for(program, inputs, outs, parallel)
    places = {id(row): position for position, row in enumerate(first)}
    order = [places[id(tensors[array.name])] for array in spec.arrays]
    picked = [array.name for array, position in zip(spec.arrays, order, strict=True)
              if ins[position].at is not None]
    spec = replace(spec, picked=tuple(picked), ahead=ahead,
                   arrays=tuple(array._replace(mask=(True, True)) for array in spec.arrays))
    return kernels().kernel_of(spec), np.dtype(spec.real).type, order
