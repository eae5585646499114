"""SequenceMask, SequenceLast, SequenceReverse: each element reads the length of its sequence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...nn.sequence import SequenceLast, SequenceMask, SequenceReverse, Sequences
from ...op import Call
from ..lib.fill import first_gradient
from ..lib.kernel_math import maximum, minimum
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from ..tensor.indexing import whole_function


@cache
def _length_function(dtype: np.dtype | None) -> Callable:
    """length(lengths, sequence, time): the number of valid steps; all without lengths."""
    if dtype is None:
        return device_function(lambda lengths, sequence, time: time)
    whole = whole_function(dtype)

    @device_function
    def length(lengths, sequence, time):
        return np.int32(minimum(maximum(whole(lengths[sequence]), np.int64(0)), np.int64(time)))
    return length


@cache
def _move_kernel(dtype: np.dtype | None, swapped: bool, backwards: bool = False) -> CudaKernel:
    """Steps after the end are filled with a value; those before it are copied, reversed if
    `backwards`.

    Data is (time, batch, size), `swapped` (batch, time, size).
    """
    length = _length_function(dtype)

    @grid_stride
    def move_steps(i, x, lengths, y, filler, time, batch, size):
        outer, within = i // size // (time if swapped else batch), i // size % (
            time if swapped else batch)
        step, sequence = (within, outer) if swapped else (outer, within)
        stop = length(lengths, sequence, time)
        if backwards:
            source = stop - 1 - step if step < stop else step
            y[i] = x[i + (source - step) * batch * size]
        else:
            y[i] = x[i] if step < stop else filler
    return move_steps


@cache
def _last_kernel(dtype: np.dtype | None, swapped: bool) -> CudaKernel:
    """y (batch, size) = the last steps of x, 0 where there is none."""
    length = _length_function(dtype)

    @grid_stride
    def last_steps(i, x, lengths, y, zero, time, batch, size):
        sequence, rest = i // size, i % size
        step = length(lengths, sequence, time) - 1
        row = sequence * time + step if swapped else step * batch + sequence
        y[i] = x[row * size + rest] if step >= 0 else zero
    return last_steps


@cache
def _give_kernel(dtype: np.dtype | None, swapped: bool) -> CudaKernel:
    """gx = g (batch, size) at the last steps, 0 elsewhere."""
    length = _length_function(dtype)

    @grid_stride
    def give_last(i, g, lengths, gx, zero, time, batch, size):
        row, rest = i // size, i % size
        sequence = row // time if swapped else row % batch
        step = row % time if swapped else row // batch
        last = length(lengths, sequence, time) - 1
        gx[i] = g[sequence * size + rest] if step == last else zero
    return give_last


def _over_steps(make: Callable[..., CudaKernel], op: Sequences, ins: Arrays, y: Array, data: Array,
                value: float = 0.0) -> list[Launch]:
    """Launch a kernel for lengths of a type, None without lengths, over the steps of `data`."""
    kind, lengths = (ins[1].dtype, ins[1]) if op.use_sequence_length else (None, ins[0])
    with np.errstate(over="ignore"):
        filler = np.array(as_float32(value)).astype(
            np.int64 if y.dtype.kind in "iu" else y.dtype).astype(y.dtype)
    return each(make(kind, op.axis == 1), y.size, ins[0], lengths, y, filler.flat[0],
                data.shape[op.axis], data.shape[1 - op.axis], prod(data.shape[2:]))


@first_gradient
def _mask_backward(op: SequenceMask, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _over_steps(_move_kernel, op, ins, outs[0], outs[0])


@first_gradient
def _reverse(op: SequenceReverse, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _over_steps(partial(_move_kernel, backwards=True), op, ins, outs[0], outs[0])


@first_gradient
def _last_backward(op: SequenceLast, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _over_steps(_give_kernel, op, ins, outs[0], outs[0])


implements(SequenceMask, "cuda", lambda op, ins, outs, call: (
    _over_steps(_move_kernel, op, ins, outs[0], outs[0], op.value)), _mask_backward)
implements(SequenceLast, "cuda", lambda op, ins, outs, call: (
    _over_steps(_last_kernel, op, ins, outs[0], ins[0])), _last_backward)
implements(SequenceReverse, "cuda", _reverse, _reverse)
