"""HawkesLL, the log likelihood of a marked self-exciting process: a thread per sequence of events.

Events are processed in order, in double precision, by the CPU's functions of two consecutive events
of a kind.  Inputs are copied into one buffer of doubles, results out of another; offsets of tensors
in them are constants of the kernels.  The host first checks the marks, which index memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...contrib import hawkes
from ...contrib.hawkes import HawkesLL
from ...dispatch import implements
from ...op import Call, Spec
from ...shape import size_of
from ..elementwise.formula_op import COPY, run_program
from ..lib.fill import fill_zero
from ..lib.kernel_math import MATH, SCALAR_NUMPY, maximum, minimum, scalar_function
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

Shape = tuple[int, ...]
double = np.float64
exp = MATH["exp"]
pass_event, pass_back = (scalar_function(function, {"np": SCALAR_NUMPY})
                         for function in (hawkes._event, hawkes._event_backward))


def _input_shapes(count: int, kinds: int, steps: int) -> list[Shape]:
    """Shapes of lda, alpha, beta, state, lags, max_time, and of the output gradients."""
    each_kind = (count, kinds)
    return [each_kind, (kinds,), (kinds,), each_kind, (count, steps), (count,), (count,), each_kind]


def _result_shapes(count: int, kinds: int, steps: int) -> list[Shape]:
    """Shapes of S and the time of the last event, of every kind; of S and the gap before every
    event; and of the gradients of lda, alpha, beta, state, lags, max_time."""
    each_kind, each_event = (count, kinds), (count, steps)
    return [each_kind, each_kind, each_event, each_event, *[each_kind] * 4, each_event, (count,)]


def _starts(shapes: Sequence[Shape]) -> tuple[int, ...]:
    """Offsets of consecutive tensors of these shapes, and their total size."""
    return tuple(accumulate(map(size_of, shapes), initial=0))


@device_function
def _events(length, steps):
    """The number of valid events; 0 for NaN."""
    return np.int32(minimum(maximum(length, 0), steps)) if length == length else np.int32(0)


@cache
def _walk_function(count: int, kinds: int, steps: int, tracing: bool) -> Callable:
    """walk(inputs, marks, lengths, results, n): the log likelihood of history n.

    It stores S and the time of the last event of every kind and, if `tracing`, S before every event
    and the time since the last one of its kind.
    """
    lda, alpha, beta, state, lags, until = _starts(_input_shapes(count, kinds, steps))[:6]
    excited, last, before, gaps = _starts(_result_shapes(count, kinds, steps))[:4]

    @device_function
    def walk(inputs, marks, lengths, results, n):
        for at in range(n * kinds, (n + 1) * kinds):
            results[excited + at], results[last + at] = inputs[state + at], double(0)
        time, total = double(0), double(0)
        for i in range(n * steps, n * steps + _events(lengths[n], steps)):
            mark = np.int32(marks[i])
            at = n * kinds + mark
            time += inputs[lags + i]
            s, gap = results[excited + at], time - results[last + at]
            decay, log, integral = pass_event(inputs[lda + at], inputs[alpha + mark],
                                              inputs[beta + mark], s, gap)
            total += log - integral
            results[excited + at], results[last + at] = 1 + s * decay, time
            if tracing:
                results[before + i], results[gaps + i] = s, gap
        for k in range(kinds):
            at = n * kinds + k
            total -= pass_event(inputs[lda + at], inputs[alpha + k], inputs[beta + k],
                                results[excited + at], inputs[until + n] - results[last + at])[2]
        return total
    return walk


@cache
def _forward_kernel(count: int, kinds: int, steps: int) -> CudaKernel:
    """Likelihoods are stored in slot of the gradients of max_time, states in those of state."""
    walk = _walk_function(count, kinds, steps, False)
    beta, until = (_starts(_input_shapes(count, kinds, steps))[i] for i in (2, 5))
    excited, last, left, y = (_starts(_result_shapes(count, kinds, steps))[i] for i in (0, 1, 7, 9))

    @grid_stride
    def likelihood(n, inputs, marks, lengths, results):
        results[y + n] = walk(inputs, marks, lengths, results, n)
        for k in range(kinds):
            at = n * kinds + k
            gap = inputs[until + n] - results[last + at]
            results[left + at] = results[excited + at] * exp(-inputs[beta + k] * gap)
    return likelihood


@cache
def _backward_kernel(count: int, kinds: int, steps: int) -> CudaKernel:
    walk = _walk_function(count, kinds, steps, True)
    lda, alpha, beta, _, _, until, g, gleft, _ = _starts(_input_shapes(count, kinds, steps))
    excited, last, before, gaps, glda, galpha, gbeta, gstate, glags, guntil, _ = _starts(
        _result_shapes(count, kinds, steps))

    @grid_stride
    def likelihood_back(n, inputs, marks, lengths, results):
        walk(inputs, marks, lengths, results, n)
        grad, end = inputs[g + n], double(0)
        for k in range(kinds):
            at = n * kinds + k
            (results[glda + at], results[galpha + at], results[gbeta + at], results[gstate + at],
             by_gap) = pass_back(
                inputs[lda + at], inputs[alpha + k], inputs[beta + k], results[excited + at],
                inputs[until + n] - results[last + at], grad, 0, inputs[gleft + at])
            results[last + at] = -by_gap
            end += by_gap
        results[guntil + n] = end
        later, stop = double(0), n * steps + _events(lengths[n], steps)
        for i in range(stop, (n + 1) * steps):
            results[glags + i] = double(0)
        for i in range(stop - 1, n * steps - 1, -1):
            mark = np.int32(marks[i])
            slot = n * kinds + mark
            by_lda, by_alpha, by_beta, by_state, by_gap = pass_back(
                inputs[lda + slot], inputs[alpha + mark], inputs[beta + mark], results[before + i],
                results[gaps + i], grad, 1, results[gstate + slot])
            results[glda + slot] += by_lda
            results[galpha + slot] += by_alpha
            results[gbeta + slot] += by_beta
            results[gstate + slot] = by_state
            later += results[last + slot] + by_gap
            results[last + slot] = -by_gap
            results[glags + i] = later
    return likelihood_back


def _sizes(lda: Array | Spec, lags: Array | Spec) -> tuple[int, int, int]:
    return lda.shape[0], lda.shape[1], lags.shape[1]


def _copies(shapes: Sequence[Shape], stretch: Array, arrays: Sequence[Array | None], into: bool
            ) -> list[Launch]:
    """Launches that copy arrays that are not None into their parts of a buffer, or out of them;
    smaller arrays receive sums."""
    launches = []
    for start, shape, array in zip(_starts(shapes), shapes, arrays, strict=False):
        if array is not None:
            slot = stretch.part(start, shape)
            pair = [slot, array if into or array.size == slot.size else array.reshape(1, -1)]
            launches += run_program(COPY, [pair[into]], [pair[not into]])
    return launches


def _run(make: Callable, op: HawkesLL, ins: Sequence[Any], heads: Sequence[Any], scratch: Arrays
         ) -> list[Any]:
    lda, alpha, beta, state, lags, marks, lengths, until = ins
    sizes, (inputs, results) = _sizes(lda, lags), scratch

    def check() -> None:
        op._events(marks.device.to_numpy(marks), lengths.device.to_numpy(lengths), sizes[1])

    return [check, *_copies(_input_shapes(*sizes), inputs,
                            (lda, alpha, beta, state, lags, until, *heads), True),
            *each(make(*sizes), sizes[0], inputs, marks, lengths, results)]


def _forward(op: HawkesLL, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    shapes, (y, left) = _result_shapes(*_sizes(ins[0], ins[4])), outs
    return [*_run(_forward_kernel, op, ins, (), call.scratch),
            *_copies(shapes, call.scratch[1], [*[None] * 7, left, None, y], False)]


def _backward(op: HawkesLL, ins: Arrays, outs: Outputs, call: Call) -> list[Any]:
    shapes = _result_shapes(*_sizes(ins[2], ins[6]))
    return [*_run(_backward_kernel, op, ins[2:], ins[:2], call.scratch),
            *_copies(shapes, call.scratch[1], [*[None] * 4, *outs[:5], outs[7]], False),
            *fill_zero(outs[5:7])]


def _stretches(lda: Spec, lags: Spec) -> list[Spec]:
    sizes = _sizes(lda, lags)
    return [Spec((_starts(shapes)[-1],), np.dtype(double))
            for shapes in (_input_shapes(*sizes), _result_shapes(*sizes))]


implements(HawkesLL, "cuda", _forward, _backward, lambda op, ins, outs: _stretches(ins[0], ins[4]),
           lambda op, ins, outs: _stretches(ins[2], ins[6]))
