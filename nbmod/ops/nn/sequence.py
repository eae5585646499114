"""SequenceMask, SequenceLast, SequenceReverse: batches of sequences of different lengths.

Data is (T, N, ...), or (N, T, ...) with axis=1.  `sequence_length` (N,), read only with
`use_sequence_length`, gives the valid steps of each sequence, rounded down and clipped to [0, T].
Without it all T are valid.

Each operator gathers or scatters whole steps by indices derived from the lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import as_float32
from ..op import Op
from ..rules import common_type, copy_over, fill_zero
from ..shape import PartialShape, ShapeMismatch, require_rank, unify, unify_all

__all__ = ["SequenceMask", "SequenceLast", "SequenceReverse"]


def valid_steps(data: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
    """Valid steps of each sequence of a (T, N, ...) batch, int64 from 0 to T, from lengths of any
    type; None: all steps are valid."""
    time, batch = data.shape[:2]
    if lengths is None:
        return np.full(batch, time)
    with np.errstate(invalid="ignore"):  # NaN is length 0
        return np.clip(lengths.astype(np.int64), 0, time)


class Sequences(Op):
    """Base of the three ops: inference rules, and the view with time first."""

    inputs: ClassVar = ("data", "sequence_length")
    index_inputs: ClassVar = ("sequence_length",)
    use_sequence_length: bool
    axis: int
    axes: ClassVar[tuple[int, ...]] = (0, 1)

    def list_inputs(self):
        return self.inputs if self.use_sequence_length else self.inputs[:1]

    def list_needs(self):
        return ("ograd", "sequence_length") if self.use_sequence_length else ("ograd",)

    def infer_shape(self, ins, outs):
        if self.axis not in self.axes:
            raise ShapeMismatch(f"axis is {self.axis}, expected "
                                + " or ".join(map(str, self.axes)))
        data = self.find_data(ins[0], outs[0])
        if data is None:
            return ins, outs
        require_rank(data, 2, "(T, N, ...), at least two dimensions")
        axis = 1 - self.axis
        batch = unify_all([(data[axis],), *ins[1:]], "sequence_length and batch")
        assert batch is not None
        data = (*data[:axis], *batch, *data[axis + 1:])
        return [data, *(batch for _ in ins[1:])], [self.out_shape(data)]

    def find_data(self, data: PartialShape, out: PartialShape) -> PartialShape:
        """The shape of data, inferred from its own and from that of the output."""
        return unify(data, out, "data and output")

    def out_shape(self, data: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the output."""
        return data

    def infer_type(self, ins, outs):
        dtype = common_type([ins[0], *outs])
        return [dtype, *(other or dtype for other in ins[1:])], [dtype]

    def time_first(self, tensor: np.ndarray) -> Any:
        """A view of data or its gradient as (T, N, ...)."""
        return tensor.swapaxes(0, 1) if self.axis == 1 else tensor


@dataclass(frozen=True)
class SequenceMask(Sequences, name="SequenceMask"):
    """data (T, N, ...), with `value` for every step after a sequence's end.

    `axis` is time's, 0 or 1.  The gradient is that of the output, 0 for masked steps.
    """

    use_sequence_length: bool = False
    value: float = 0.0
    axis: int = 0

    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def _masked(self, ins: Sequence[np.ndarray], y: np.ndarray, value: float) -> None:
        copy_over(ins[0], y)
        if self.use_sequence_length:
            y = self.time_first(y)
            kind = np.int64 if y.dtype.kind in "iu" else y.dtype
            filler = np.array(as_float32(value)).astype(kind)
            y[np.arange(len(y))[:, None] >= valid_steps(y, ins[1])] = filler.astype(y.dtype)

    def forward(self, ins, outs, call):
        self._masked(ins, outs[0], self.value)

    def backward(self, ins, outs, call):
        fill_zero(outs[1:])
        if outs[0] is not None:
            self._masked(ins, outs[0], 0.0)


@dataclass(frozen=True)
class SequenceLast(Sequences, name="SequenceLast"):
    """The last step of every sequence: data (T, N, ...) -> (N, ...); 0 for a sequence of length 0.

    `axis` is time's, 0 or 1.  (MXNet reads before the data where a length is 0.)
    """

    use_sequence_length: bool = False
    axis: int = 0

    def find_data(self, data, out):
        return data

    def out_shape(self, data):
        return (data[1 - self.axis], *data[2:])

    def _last(self, data: np.ndarray, lengths: np.ndarray | None) -> tuple[Any, Any]:
        """(sequences that have a last step, index of that step)."""
        lengths = valid_steps(data, lengths)
        which = np.flatnonzero(lengths)
        return which, lengths[which] - 1

    def forward(self, ins, outs, call):
        data = self.time_first(ins[0])
        which, step = self._last(data, ins[1] if self.use_sequence_length else None)
        outs[0].fill(0)
        outs[0][which] = data[step, which]

    def backward(self, ins, outs, call):
        fill_zero(outs)
        if outs[0] is not None:
            gradient = self.time_first(outs[0])
            which, step = self._last(gradient, ins[1] if self.use_sequence_length else None)
            gradient[step, which] = ins[0][which]


@dataclass(frozen=True)
class SequenceReverse(Sequences, name="SequenceReverse"):
    """data (T, N, ...) with the steps of every sequence in reverse order, those after it in place.

    Time is axis 0, the only value `axis` may have.
    """

    use_sequence_length: bool = False
    axis: int = 0

    axes: ClassVar = (0,)

    def _reversed(self, ins: Sequence[np.ndarray], y: np.ndarray) -> None:
        if not self.use_sequence_length:
            np.copyto(y, ins[0][::-1])
            return
        steps, lengths = np.arange(len(y))[:, None], valid_steps(y, ins[1])
        source = np.where(steps < lengths, lengths - 1 - steps, steps)
        np.copyto(y, ins[0][source, np.arange(y.shape[1])])

    def forward(self, ins, outs, call):
        self._reversed(ins, outs[0])

    def backward(self, ins, outs, call):
        fill_zero(outs[1:])
        if outs[0] is not None:
            self._reversed(ins, outs[0])
