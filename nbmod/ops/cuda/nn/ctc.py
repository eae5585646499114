"""CTCLoss: a block per sample, a thread per position of the extended label sequence (with blanks).

The forward-backward algorithm of Graves et al. (2006), step by step, in logarithms and in double
precision, as on the CPU.  The host reads the labels, to reject those that are no classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import implements
from ...nn.ctc import CTCLoss
from ...nn.softmax_kernels import AxisView
from ...op import Call, Spec
from ..elementwise.formula_op import TIMES, run_program
from ..lib.block_reduce import BLOCK_SIZE, each_block
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, cuda, kernel, maximum, real_of
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .softmax import softmax

exp, log = MATH["exp"], MATH["log"]

# A row of the table has the fields of `Labels` for a sample: its positions, whether a path may skip
# to each of them, and the numbers of labels and of steps.


@device_function
def _log_sum(a, b, c):
    """log(e**a + e**b + e**c) (log-sum-exp), also where all are -inf."""
    top = maximum(maximum(a, b), c)
    if top == -np.inf:
        return top
    return top + log(exp(a - top) + exp(b - top) + exp(c - top))


@device_function
def _sizes(table, n, width):
    """The offset of a sample's row, and its numbers of positions and of steps."""
    row = n * (2 * width + 2)
    return row, 2 * table[row + 2 * width] + 1, table[row + 2 * width + 1]


@cache
def _paths_kernel(real: type[np.floating]) -> CudaKernel:
    """alpha (N, T, S), the log forward probabilities of each sample, and its loss."""

    @kernel
    def ctc_paths(logs, table, alpha, likelihoods, loss, time, classes, width, samples):
        for n in range(cuda.blockIdx.x, samples, cuda.gridDim.x):
            row, size, steps = _sizes(table, n, width)
            for t in range(steps):
                for s in range(cuda.threadIdx.x, size, BLOCK_SIZE):
                    at = (n * time + t) * width + s
                    total = 0.0 if s < 2 else -np.inf
                    if t > 0:
                        total = _log_sum(
                            alpha[at - width], alpha[at - width - 1] if s > 0 else -np.inf,
                            alpha[at - width - 2] if table[row + width + s] > 0 else -np.inf)
                    alpha[at] = total + logs[(t * samples + n) * classes + table[row + s]]
                cuda.syncthreads()
            if cuda.threadIdx.x == 0:
                likelihood = -np.inf
                if steps > 0:
                    end = (n * time + steps - 1) * width + size - 1
                    likelihood = _log_sum(alpha[end], alpha[end - 1] if size > 1 else -np.inf,
                                          -np.inf)
                likelihoods[n] = likelihood
                loss[n] = real(-likelihood if likelihood > -np.inf else 0.0)
    return ctc_paths


@kernel
def _ctc_posteriors(logs, table, alpha, beta, likelihoods, time, classes, width, samples):
    """alpha becomes the posterior of each position; beta (N, 2, S), the log backward probabilities
    of two steps, is scratch, and includes the emission of its own step."""
    for n in range(cuda.blockIdx.x, samples, cuda.gridDim.x):
        row, size, steps = _sizes(table, n, width)
        likelihood = likelihoods[n]
        for back in range(steps if likelihood > -np.inf else np.int32(0)):
            t = steps - 1 - back
            now, after = (2 * n + t % 2) * width, (2 * n + (t + 1) % 2) * width
            for s in range(cuda.threadIdx.x, size, BLOCK_SIZE):
                later = 0.0 if s >= size - 2 else -np.inf
                if back > 0:
                    leaps = s + 2 < size and table[row + width + s + 2] > 0
                    later = _log_sum(
                        beta[after + s], beta[after + s + 1] if s + 1 < size else -np.inf,
                        beta[after + s + 2] if leaps else -np.inf)
                at = (n * time + t) * width + s
                alpha[at] = exp(alpha[at] + later - likelihood)
                beta[now + s] = later + logs[(t * samples + n) * classes + table[row + s]]
            cuda.syncthreads()


@cache
def _classes_kernel(real: type[np.floating]) -> CudaKernel:
    """The gradient of classes that are not labels: their probability, 0 if no path exists."""
    @grid_stride
    def ctc_classes(i, logs, table, likelihoods, gradient, classes, width, samples):
        n, t = i // classes % samples, i // (classes * samples)
        _, _, steps = _sizes(table, n, width)
        inside = t < steps and likelihoods[n] > -np.inf
        gradient[i] = exp(logs[i]) if inside else real(0)
    return ctc_classes


@cache
def _labels_kernel(real: type[np.floating]) -> CudaKernel:
    """The gradient of labels: the first position of each subtracts the posteriors of all its
    positions."""
    @grid_stride
    def ctc_labels(i, logs, table, shares, likelihoods, gradient, time, classes, width, samples):
        s, t, n = i % width, i // width % time, i // (width * time)
        row, size, steps = _sizes(table, n, width)
        if s < size and t < steps and likelihoods[n] > -np.inf:
            own, first, total = table[row + s], True, 0.0
            for other in range(size):
                if table[row + other] == own:
                    first = first and other >= s
                    total += shares[i - s + other]
            at = (t * samples + n) * classes + own
            if first:
                gradient[at] = real(exp(logs[at]) - total)
    return ctc_labels


def _forward(op: CTCLoss, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    (loss, gradient), (logs, table, alpha, beta, likelihoods) = outs, call.scratch
    (time, samples, classes), width, real = logs.shape, alpha.shape[-1], real_of(logs.dtype)

    def read_labels() -> None:
        values = [array.device.to_numpy(array) for array in ins[1:]]
        labels = op.labels([logs, *values])
        table.device.copy(np.column_stack(labels).astype(table.dtype), table)

    launches = [read_labels, *softmax(AxisView.along(logs.shape, -1), ins[0], logs,
                                         logarithm=True)]
    launches += each_block(_paths_kernel(real), samples, logs, table, alpha, likelihoods, loss,
                           time, classes, width)
    if gradient is not None:
        launches += each_block(_ctc_posteriors, samples, logs, table, alpha, beta, likelihoods,
                               time, classes, width)
        launches += each(_classes_kernel(real), logs.size, logs, table, likelihoods, gradient,
                         classes, width, samples)
        launches += each(_labels_kernel(real), alpha.size, logs, table, alpha, likelihoods,
                         gradient, time, classes, width, samples)
    return launches


def _scratch(op: CTCLoss, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    (time, samples, classes), width = ins[0].shape, 2 * ins[1].shape[1] + 1
    double = np.dtype(np.float64)
    return [Spec((time, samples, classes), np.dtype(real_of(ins[0].dtype))),
            Spec((samples, 2 * width + 2), np.dtype(np.int32)),
            Spec((samples, time, width), double), Spec((samples, 2, width), double),
            Spec((samples,), double)]


@first_gradient
def _backward(op: CTCLoss, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    heads, slope = ins
    return run_program(TIMES, [slope, heads.reshape(-1, 1)], outs[:1])


implements(CTCLoss, "cuda", _forward, _backward, _scratch)
