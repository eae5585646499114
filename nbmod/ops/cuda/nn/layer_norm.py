"""LayerNorm, GroupNorm and InstanceNorm: moments of rows, and sums along rows and across them."""

from __future__ import annotations

from collections.abc import Sequence

from ...dispatch import implements
from ...elementwise.float_op import accumulator, as_float32
from ...elementwise.program import Assign, Program
from ...nn.layer_norm import LayerNorm, _SampleNorm
from ...nn.softmax_kernels import AxisView
from ...op import Call, Spec
from ..elementwise.formula_op import COPY, run_program
from ..elementwise.group_stats import Groups, centered_terms, moments, paired_sums
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch, cache, device_function

APPLY = Program("layer_norm", (Assign("y", "(x - m) / s * w + b"),), ("x", "m", "s", "w", "b"),
                ("y",))
ALONG = Program("gamma_gradient", (Assign("y", "a / s"),), ("a", "s"), ("y",))


@cache
def _gradient(inside: bool) -> Program:
    """The gradient of data; with `inside`, its sums are of gradients times gamma."""
    value = "({} - t * n - (x - m) * (a * n / (s * s))) {}/ s".format(
        "g * w" if inside else "g", "" if inside else "* w ")
    return Program("layer_norm_back", (Assign("gx", value),), ("g", "x", "m", "s", "w", "t", "a"),
                   ("gx",), ("n",))


@device_function
def _scaled_terms(g, x, mean, gamma, w, group, term, at):
    """The terms of a row's sums: scaled gradients, and those times the distance from the mean."""
    scaled = g[at] * gamma[term]
    return scaled, scaled * (x[at] - mean[group])


# -- LayerNorm: gamma and beta vary along the row -------------------------------------------------


def _view(op: LayerNorm, data: Array | Spec) -> AxisView:
    return AxisView.along(data.shape, op.axis)


def _three(view: AxisView, tensors: list[Array], statistics: list[Array],
           parameters: list[Array]) -> list[Array]:
    """Arrays broadcast over (R, K, L): tensors, statistics (R, 1, L) and parameters (1, K, 1)."""
    rows, size, lanes = view.rows, view.size, view.lanes
    return [*(array.reshape(rows, size, lanes) for array in tensors),
            *(array.reshape(rows, 1, lanes) for array in statistics),
            *(array.reshape(1, size, 1) for array in parameters)]


@device_function
def _parameter_terms(g, x, mean, std, w, group, term, at):
    """The terms of the gradients of beta and gamma, sums over rows."""
    return g[at], g[at] * (x[at] - mean[term]) / std[term]


def _layer(op: LayerNorm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    data, gamma, beta = ins
    mean, std, *scratch = call.scratch
    view = _view(op, data)
    x, m, s, w, b = _three(view, [data], [mean, std], [gamma, beta])
    return (moments(data, Groups.along(view), mean, std, scratch, as_float32(op.eps))
            + _shown(outs, mean, std)
            + run_program(APPLY, [x, m, s, w, b], [outs[0].reshape(x.shape)]))


def _shown(outs: Sequence[Array | None], *statistics: Array) -> list[Launch]:
    """Launches that write mean and deviation, in the type of the data, to outputs that exist."""
    return [launch for statistic, out in zip(statistics, outs[1:], strict=True) if out is not None
            for launch in run_program(COPY, [statistic], [out])]


def _layer_backward(op: LayerNorm, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    ograd, data, gamma, mean, std = ins
    view, groups, launches = _view(op, data), Groups.along(_view(op, data)), []
    *scratch, totals, along, of_beta, of_gamma = call.scratch
    if outs[1] is not None or outs[2] is not None:
        launches += paired_sums(_parameter_terms, (ograd, data, mean, std), _columns(op, data),
                             (of_beta, of_gamma), scratch)
        for sums, out in ((of_gamma, outs[1]), (of_beta, outs[2])):
            launches += [] if out is None else run_program(COPY, [sums], [out])
    if outs[0] is None:
        return launches
    launches += paired_sums(_scaled_terms, (ograd, data, mean, gamma), groups, (totals, along),
                         scratch[2:])
    g, x, gx, m, s, t, a, w = _three(view, [ograd, data, outs[0]], [mean, std, totals, along],
                                     [gamma])
    return launches + run_program(_gradient(True), [g, x, m, s, w, t, a], [gx],
                                  [1 / view.size])


def _columns(op: LayerNorm, data: Array | Spec) -> Groups:
    """A group for every element of gamma."""
    return Groups.channels(data.shape, op.axis % len(data.shape))


def _forward_scratch(groups: Groups, outs: list[Spec]) -> list[Spec]:
    """Mean and deviation in the type of sums, statistics of chunks."""
    real = accumulator(outs[0].dtype)
    return [*(Spec(out.shape, real) for out in outs[1:]), *groups.scratch(real)]


def _layer_backward_scratch(op: LayerNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Sums of chunks of columns, and of rows; sums of rows, and of columns."""
    data, gamma, mean = ins[1:4]
    real = accumulator(data.dtype)
    sums = [Spec(spec.shape, real) for spec in (mean, mean, gamma, gamma)]
    rows = Groups.along(_view(op, data))
    return [*_columns(op, data).scratch(real), *rows.scratch(real), *sums]


# -- GroupNorm, InstanceNorm: gamma and beta vary from row to row ---------------------------------


def _rows(array: Array | Spec, statistics: Array | Spec) -> AxisView:
    """A view of a tensor with a row for every statistic (N, G)."""
    return AxisView(statistics.size, array.size // max(statistics.size, 1), 1)


def _sample(op: _SampleNorm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    data, gamma, beta = ins
    mean, std, *scratch = call.scratch
    x, y = (array.reshape(*mean.shape, -1) for array in (data, outs[0]))
    m, s = (array.reshape(*mean.shape, 1) for array in (mean, std))
    w, b = (array.reshape(1, -1, 1) for array in (gamma, beta))
    return (moments(data, Groups.along(_rows(data, mean)), mean, std, scratch, as_float32(op.eps))
            + _shown(outs, mean, std) + run_program(APPLY, [x, m, s, w, b], [y]))


def _sample_backward(op: _SampleNorm, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    ograd, data, gamma, mean, std = ins
    *scratch, totals, along = call.scratch
    view = _rows(data, mean)
    launches = paired_sums(centered_terms, (ograd, data, mean), Groups.along(view),
                        (totals, along), scratch)
    if outs[1] is not None:
        launches += run_program(ALONG, [along, std], [outs[1].reshape(1, -1)])
    if outs[2] is not None:
        launches += run_program(COPY, [totals], [outs[2].reshape(1, -1)])
    if outs[0] is None:
        return launches
    g, x, gx = (array.reshape(*mean.shape, -1) for array in (ograd, data, outs[0]))
    m, s, t, a = (array.reshape(*mean.shape, 1) for array in (mean, std, totals, along))
    return launches + run_program(_gradient(False), [g, x, m, s, gamma.reshape(1, -1, 1), t, a],
                                  [gx], [1 / view.size])


def _sample_backward_scratch(op: _SampleNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    data, mean = ins[1], ins[3]
    real = accumulator(data.dtype)
    return [*Groups.along(_rows(data, mean)).scratch(real), *[Spec(mean.shape, real)] * 2]


implements(LayerNorm, "cuda", _layer, _layer_backward,
           lambda op, ins, outs: _forward_scratch(Groups.along(_view(op, ins[0])), outs),
           _layer_backward_scratch)
implements(_SampleNorm, "cuda", _sample, _sample_backward,
           lambda op, ins, outs: _forward_scratch(Groups.along(_rows(ins[0], outs[1])), outs),
           _sample_backward_scratch)
