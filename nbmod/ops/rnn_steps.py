"""What an RNN op does, in order: functions without arguments over the arrays of an `RnnPlan`.

Forward of one layer is

    gates  = x i2h^T + biases       one product for all steps and samples
    y, ... = forward_layer(gates)   all steps

and backward runs `backward_layer`, which turns gates into the gradients of the sums behind them,
then forms every gradient by one product over all steps: of x, i2h, h2h, h2r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from .dropout import LANE, Dropout
from .few_rows import few_rows
from .op import Call
from .panels import packing, product
from .rnn_cells import MODES
from .rnn_kernels import backward_layer, forward_layer
from .rnn_plan import RnnPlan, Store

__all__ = ["Arrays", "backward_steps", "forward_steps"]

Run = Callable[[], Any]


class Arrays(NamedTuple):
    """The inputs of the op, or their gradients; None where it has none, or none is wanted."""

    data: Any
    parameters: Any
    state: Any
    state_cell: Any = None
    lengths: Any = None


Clip = tuple[Any, Any, bool]


def _set_lengths(given: Any, lengths: Any, steps: int) -> None:
    """Whole numbers of steps from the op's input; all of them where it has none."""
    if given is None:
        lengths.fill(steps)
        return
    wrong = given[~((given >= 0) & (given <= steps))]
    if wrong.size:
        raise MXNetError(f"sequence_length has the value {wrong[0]}, expected 0 to {steps}, the "
                         "number of steps of data")
    np.copyto(lengths, given, casting="unsafe")


def _pack_all(array: Any, matrices: Sequence[Any]) -> list[Run]:
    """Functions that pack one matrix for each direction."""
    return [packing(matrix, array[d]) for d, matrix in enumerate(matrices)]


def _carve(vector: Any, plan: RnnPlan, depth: int, columns: int) -> Any:
    """Panels of a matrix (depth, columns) in a scratch vector that serves one after another."""
    spec = plan.packed(depth, columns)
    return vector[:spec.size].reshape(spec.shape)[0]


# ------------------------------------------------------------------------------------------ forward

def forward_steps(plan: RnnPlan, ins: Arrays, stores: list[Store], state: tuple[Any, Any],
                  scratch: dict[str, Any], clip: Clip, drop: tuple[float, Call]) -> list[Run]:
    """Functions that do forward: outputs are in the last store and in `state`, (L, D, N, ...)."""
    h, c = state
    steps: list[Run] = [
        partial(_set_lengths, ins.lengths, scratch["lengths"], plan.data[0]),
        partial(np.copyto, h, ins.state.reshape(h.shape))]
    if ins.state_cell is not None:
        steps.append(partial(np.copyto, c, ins.state_cell.reshape(c.shape)))
    x, directions = ins.data, range(plan.layout.directions)
    for layer, store in enumerate(stores):
        for d in directions:
            steps += _input_product(plan, layer, d, x, ins.parameters, store.gates[d], scratch)
        steps += _layer_forward(plan, layer, ins.parameters, store, (h[layer], c[layer]), scratch,
                                clip)
        if plan.dropout and layer < len(stores) - 1:
            steps.append(_dropout(store, *drop))
        x = store.x
    return steps


def _layer_forward(plan: RnnPlan, layer: int, parameters: Any, store: Store,
                   state: tuple[Any, Any], scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions that run the kernel over all steps."""
    get, directions = partial(plan.matrix, parameters, layer), range(plan.layout.directions)
    places = [plan.matrices[layer, d, "h2h_weight"].offset for d in directions if plan.few]
    steps: list[Run] = []
    if not plan.few:
        steps += _pack_all(scratch["recurrent"], [get(d, "h2h_weight").T for d in directions])
    if plan.hidden_size:
        steps += _pack_all(scratch["projection"], [get(d, "h2r_weight").T for d in directions])
    panels = (scratch["recurrent"], scratch["projection"], parameters, np.array(places, np.int64))
    steps.append(partial(
        forward_layer, MODES.index(plan.layout.mode), panels,
        (store.gates, store.cells, store.hidden), store.y, state, scratch["lengths"], clip,
        scratch["tiles"]))
    return steps


def _input_product(plan: RnnPlan, layer: int, d: int, x: Any, parameters: Any, gates: Any,
                   scratch: dict[str, Any]) -> list[Run]:
    """Functions that form gates = x i2h^T + biases for all steps of one direction."""
    weight, bias, other = (plan.matrix(parameters, layer, d, kind)
                           for kind in ("i2h_weight", "i2h_bias", "h2h_bias"))
    base, flat = scratch["base"], gates.reshape(plan.rows, plan.width)
    steps: list[Run] = [partial(_biases, plan, bias, other, base)]
    x = x.reshape(plan.rows, -1)
    for part in plan.parts:
        columns = slice(part.column, part.column + part.size)
        rows = weight[part.row:part.row + part.size]
        if plan.few:
            steps.append(few_rows(x, rows, base[columns], flat[:, columns]))
            continue
        panels = _carve(scratch["inputs"], plan, plan.inputs(layer), part.size)
        steps += [packing(rows.T, panels),
                  product(x, panels, flat[:, columns], scratch["work"], base[columns])]
    if plan.width > plan.columns:
        steps.append(partial(np.copyto, flat[:, plan.columns:], base[plan.columns:]))
    return steps


def _biases(plan: RnnPlan, bias: Any, other: Any, base: Any) -> None:
    """What the gates begin with; the candidate of gru has its two biases apart."""
    for part in plan.parts:
        columns, rows = base[part.column:part.column + part.size], slice(part.row,
                                                                       part.row + part.size)
        columns[:] = bias[rows]
        if part.column or plan.width == plan.columns:
            columns += other[rows]
        else:
            base[plan.columns:] = other[rows]


def _dropout(store: Store, p: float, call: Call) -> Run:
    """x = y mask."""
    spare = np.empty(4 * LANE, store.y.dtype)
    return Dropout(p).compiled([store.y], [store.x, store.mask],
                               Call(call.mode, [store.mask, spare]))


# ----------------------------------------------------------------------------------------- backward

def backward_steps(plan: RnnPlan, ins: Arrays, stores: list[Store], ograds: Sequence[Any],
                   grads: Arrays, scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions that do backward; `ograds` are those of the output, of h and of c, or None."""
    dh, dc, lengths = scratch["h"], scratch["c"], scratch["lengths"]
    steps: list[Run] = [partial(_set_lengths, ins.lengths, lengths, plan.data[0])]
    steps += [partial(_start, array, given) for array, given in zip((dh, dc), ograds[1:],
                                                                    strict=True)]
    h0, c0 = (scratch[name] if array is None else array.reshape(scratch[name].shape)
              for name, array in (("h", ins.state), ("c", ins.state_cell)))
    gy = ograds[0].reshape(plan.y_shape)
    for layer in reversed(range(len(stores))):
        store = stores[layer]
        steps += _layer_backward(plan, layer, ins.parameters, store, (gy, dh[layer], dc[layer]),
                                 (h0[layer], c0[layer]), scratch, clip)
        x, gx = (ins.data, grads.data) if layer == 0 else (stores[layer - 1].x,
                                                           scratch["gy"][layer % 2])
        if grads.parameters is not None:
            steps += _parameter_gradients(plan, layer, x, store, grads.parameters, scratch)
        if gx is not None:
            steps += _input_gradient(plan, layer, ins.parameters, gx, scratch)
        if plan.dropout and layer:
            steps.append(partial(np.multiply, gx, stores[layer - 1].mask, out=gx))
        gy = gx
    for out, total in ((grads.state, dh), (grads.state_cell, dc)):
        if out is not None:
            steps.append(partial(np.copyto, out, total.reshape(out.shape)))
    return steps


def _start(array: Any, given: Any) -> None:
    """Gradients of the last states; zero where the op does not show them."""
    array[...] = 0 if given is None else given.reshape(array.shape)


def _layer_backward(plan: RnnPlan, layer: int, parameters: Any, store: Store,
                    grads: tuple[Any, Any, Any], states: tuple[Any, Any],
                    scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions that run the kernel over all steps."""
    get, directions = partial(plan.matrix, parameters, layer), range(plan.layout.directions)
    steps = _pack_all(scratch["recurrent"], [get(d, "h2h_weight") for d in directions])
    if plan.hidden_size:
        steps += _pack_all(scratch["projection"], [get(d, "h2r_weight") for d in directions])
    made = (scratch["dgates"], scratch["before"], scratch["douts"], scratch["wide"][:, 0])
    steps.append(partial(
        backward_layer, MODES.index(plan.layout.mode),
        (scratch["recurrent"], scratch["projection"]), (store.gates, store.cells, store.y), made,
        grads, states, scratch["lengths"], clip, scratch["tiles"]))
    return steps


def _parameter_gradients(plan: RnnPlan, layer: int, x: Any, store: Store, vector: Any,
                         scratch: dict[str, Any]) -> list[Run]:
    """Functions that form the gradients of a layer's weights and biases."""
    steps: list[Run] = []
    work, rows, begin = scratch["work"], plan.rows, plan.width - plan.columns

    def transposed_product(a: Any, b: Any, c: Any) -> None:
        """c = a^T b, over all steps; b is packed once for several a."""
        steps.append(product(a.T, _carve(scratch["factor"], plan, rows, b.shape[1]), c, work))

    def pack(b: Any) -> None:
        steps.append(packing(b, _carve(scratch["factor"], plan, rows, b.shape[1])))

    for d in range(plan.layout.directions):
        get = partial(plan.matrix, vector, layer, d)
        dgates = scratch["dgates"][d].reshape(rows, plan.width)
        x = x.reshape(rows, -1)
        pack(x)
        for part in plan.parts:
            columns, place = (slice(start, start + part.size) for start in (part.column, part.row))
            transposed_product(dgates[:, columns], x, get("i2h_weight")[place])
            steps.append(partial(np.add.reduce, dgates[:, columns], axis=0,
                                 out=get("i2h_bias")[place]))
        before = scratch["before"][d].reshape(rows, -1)
        pack(before)
        transposed_product(dgates[:, begin:], before, get("h2h_weight"))
        steps.append(partial(np.add.reduce, dgates[:, begin:], axis=0, out=get("h2h_bias")))
        if plan.hidden_size:
            hidden = store.hidden[d].reshape(rows, -1)
            pack(hidden)
            transposed_product(scratch["douts"][d].reshape(rows, -1), hidden, get("h2r_weight"))
    return steps


def _input_gradient(plan: RnnPlan, layer: int, parameters: Any, gx: Any, scratch: dict[str, Any]
                    ) -> list[Run]:
    """Functions that form gx = dgates i2h, summed over directions."""
    steps: list[Run] = []
    panels = _carve(scratch["factor"], plan, plan.columns, plan.inputs(layer))
    for d in range(plan.layout.directions):
        weight = plan.matrix(parameters, layer, d, "i2h_weight")
        dgates = scratch["dgates"][d].reshape(plan.rows, plan.width)[:, :plan.columns]
        steps += [packing(weight[part.row:part.row + part.size], panels, part.column)
                  for part in plan.parts]
        steps.append(product(dgates, panels, gx.reshape(plan.rows, -1), scratch["work"],
                             add=d > 0))
    return steps
