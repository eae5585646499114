"""Updates of some rows of a weight and its states: a multi-tensor apply whose tensors are rows.

Rows are where they are: addresses of each row of each array, not copies, are what the kernel gets
(see `multi_tensor_apply`), so results are bitwise those of an update of these rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..device import CPU
from ..jit import num_threads
from .multi_tensor_apply import PARALLEL_FROM
from .sgd_update import COMPILED_FROM, Update, distinct, kernel_for

__all__ = ["Rows", "is_of_rows", "update_rows"]


class Rows(NamedTuple):
    """The rows `at` of an array; all of its rows, in order, where `at` is None."""

    data: np.ndarray
    at: np.ndarray | None

    def copied(self) -> np.ndarray:
        """A copy of the rows; the array itself if these are all."""
        return self.data if self.at is None else self.data[self.at]

    def addresses(self) -> np.ndarray:
        """Where each row begins."""
        at = np.arange(len(self.data)) if self.at is None else self.at
        return CPU.span(self.data)[0] + self.data.strides[0] * at


def is_of_rows(op: Update, ins: Sequence[Rows]) -> bool:
    """Whether `update_rows` has a kernel: the formulas of the op are all that it does, on rows of
    one length, and they are worth compiling."""
    return (ins[1].data.size >= COMPILED_FROM and type(op).forward is Update.forward
            and not op.scalars and len({rows.data.shape[1:] for rows in ins}) == 1
            and all(rows.data.flags.c_contiguous for rows in ins))


def update_rows(op: Update, ins: Sequence[Rows]) -> None:
    """Update rows of a weight and its states in place, if `is_of_rows`.

    Parameters
    ----------
    op
        The update op.
    ins
        The rows of its inputs, as many of each: those of the weight first, then the gradient's.
    """
    grad = ins[1].data
    # The arrays of the formulas, found by those that represent them: the first row of each.
    first = [rows.data[:1] for rows in ins]
    rows_of = {id(row): rows for row, rows in zip(first, ins, strict=True)}
    program, tensors = op.program(), op.tensors(first, first[:1])
    given = [tensors[name] for name in program.inputs]
    outs = [tensors[name] for name in program.outputs]
    kernel, real = kernel_for(program, given, outs, grad.size >= PARALLEL_FROM, many=True)
    count, width = len(grad), grad[0].size
    addresses = np.stack([rows_of[id(array)].addresses() for array in distinct(given, outs)], 1)
    scalars = np.empty((count, len(program.scalars)), real)
    scalars[:] = op.scalar_values(program)
    chunks = np.zeros((count, 3), np.int64)
    chunks[:, 0], chunks[:, 2] = np.arange(count), width
    jobs = np.linspace(0, count, min(count, 4 * num_threads()) + 1).astype(np.int64)
    kernel(addresses, scalars, chunks, jobs)
