"""Discrete samples: categories (multinomial), permutations, distinct ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..op import Op
from ..param import Shape
from ..shape import ShapeMismatch, require_sizes, unify
from .rng import generator

__all__ = ["SampleMultinomial", "Shuffle", "SampleUniqueZipfian"]


@dataclass(frozen=True)
class SampleMultinomial(Op, name="_sample_multinomial", aliases=("sample_multinomial",)):
    """Categories drawn from rows of probabilities: data (..., K) gives (...) + shape.

    `get_prob` adds the log probabilities of the samples as a second output; through them, and
    only through them, the gradient grad / p reaches `data` (REINFORCE).  Rows are taken to sum to
    one, as in MXNet; what is missing falls to the last category.
    """

    shape: Shape = ()
    get_prob: bool = False
    dtype: Literal["float16", "float32", "float64", "int32", "uint8"] = "int32"
    random: ClassVar = True

    def list_outputs(self):
        return ("output0", "output1") if self.get_prob else ("output",)

    def list_needs(self):
        return ("ograds", "data", "output0") if self.get_prob else ()

    def infer_shape(self, ins, outs):
        data, = ins
        if data is None:
            return ins, outs
        if not data:
            raise ShapeMismatch("data is a scalar, expected probabilities along its last axis")
        require_sizes(self.shape, "shape")
        shape = (*data[:-1], *self.shape) or (1,)
        return ins, [shape] * len(outs)

    def infer_type(self, ins, outs):
        return ins, [np.dtype(self.dtype), ins[0]][:len(outs)]

    def forward(self, ins, outs, call):
        rows = ins[0].reshape(-1, ins[0].shape[-1])
        drawn = outs[0].reshape(len(rows), -1)
        uniform = generator().random(drawn.shape)
        picked = np.empty(drawn.shape, np.int64)
        for row, u, target in zip(np.cumsum(rows, 1, np.float64), uniform, picked, strict=True):
            target[:] = row.searchsorted(u, side="right")
        np.minimum(picked, rows.shape[1] - 1, out=picked)
        drawn[...] = picked
        if self.get_prob:
            chosen = np.take_along_axis(rows, picked, 1)
            outs[1][...] = np.log(chosen).reshape(outs[1].shape)

    def backward(self, ins, outs, call):
        _, grad, data, drawn = ins
        rows = data.reshape(-1, data.shape[-1])
        picked = drawn.reshape(len(rows), -1).astype(np.int64)
        share = grad.reshape(picked.shape) / np.take_along_axis(rows, picked, 1)
        total = outs[0].reshape(rows.shape)
        total[...] = 0
        np.add.at(total, (np.arange(len(rows))[:, None], picked), share)


@dataclass(frozen=True)
class Shuffle(Op, name="_shuffle", aliases=("shuffle",)):
    """The slices of `data` along its first axis, in random order."""

    shapes: ClassVar = "data and output have one shape"
    random: ClassVar = True

    def forward(self, ins, outs, call):
        order = generator().permutation(len(ins[0]))
        np.take(ins[0], order, axis=0, out=outs[0], mode="clip")


@dataclass(frozen=True)
class SampleUniqueZipfian(Op, name="_sample_unique_zipfian"):
    """Distinct ids below `range_max` per row of `shape` = (rows, ids), small ones more likely.

    id = floor(exp(u log(range_max + 1))) - 1 for u uniform in [0, 1), drawn until enough different
    ones have come up; the second output, (rows,), is how many draws that took.
    """

    range_max: int
    shape: Shape | None = None
    inputs: ClassVar = ()
    outputs: ClassVar = ("output0", "output1")
    random: ClassVar = True

    def infer_shape(self, ins, outs):
        require_sizes(self.shape, "shape")
        shape = unify(self.shape, outs[0], "shape and output")
        if shape is None:
            return [], outs
        if len(shape) != 2 or shape[1] > self.range_max:
            raise ShapeMismatch(f"shape is {shape}, expected (rows, ids) with at most "
                                f"{self.range_max} ids")
        return [], [shape, shape[:1]]

    def infer_type(self, ins, outs):
        return [], [np.dtype(np.int64)] * 2

    def forward(self, ins, outs, call):
        rng, (ids, counts) = generator(), outs
        for row in range(len(ids)):
            ids[row], counts[row] = self._distinct(rng, ids.shape[1])

    def _distinct(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, int]:
        drawn = np.empty(0, np.int64)
        while True:
            u = rng.random(4 * count) * np.log(self.range_max + 1)
            drawn = np.append(drawn, np.exp(u).astype(np.int64) - 1)
            drawn %= self.range_max
            first = np.sort(np.unique(drawn, return_index=True)[1])
            if len(first) >= count:
                return drawn[first[:count]], int(first[count - 1]) + 1
