"""Sums of the rows of a matrix: the gradient of a bias."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..jit import kernel, prange
from ..op import Run
from ..simd.raw_arrays import flat_memory

__all__ = ["prepare_bias_gradient"]

SERIAL = 1 << 16
"""Elements up to which NumPy, on one thread, is as fast."""
BLOCK = 1 << 10
"""Columns of a job: their sums stay in the L1 cache."""


@kernel(parallel=True)
def _sum_rows(matrix, pitch, rows, total, add):
    """total (+)= sum of the rows of a flat matrix, which begin `pitch` apart."""
    columns = total.size
    for block in prange((columns + BLOCK - 1) // BLOCK):
        first = np.int64(block) * BLOCK
        sums = total[first:min(columns, first + BLOCK)]
        if not add:
            for j in range(sums.size):
                sums[j] = 0
        for i in range(rows):
            row = matrix[i * pitch + first:i * pitch + first + sums.size]
            for j in range(sums.size):
                sums[j] += row[j]


def _add_by_numpy(matrix: np.ndarray, total: np.ndarray) -> None:
    total += np.add.reduce(matrix, axis=0)


def prepare_bias_gradient(matrix: np.ndarray, total: np.ndarray, add: bool = False) -> Run:
    """A function that computes total (+)= the sum of the rows of a matrix.

    Rows are added in order, whatever the number of threads.
    """
    contiguous = matrix.strides[1] == matrix.itemsize and total.strides[0] == total.itemsize
    if matrix.size <= SERIAL or not contiguous:
        return (partial(_add_by_numpy, matrix, total) if add
                else partial(np.add.reduce, matrix, axis=0, out=total))
    return partial(_sum_rows, flat_memory(matrix), matrix.strides[0] // matrix.itemsize,
                   len(matrix), total, add)
