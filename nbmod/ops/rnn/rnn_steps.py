"""The steps of an RNN operator: functions without arguments over the arrays of an `RnnPlan`.

The forward pass of one layer is

    gates  = x i2h^T + biases       one product for all steps and samples
    y, ... = forward_layer(gates)   all steps

(`forward_projected` with a projection, `forward_few` for few steps and samples), and the backward
pass runs `backward_layer` or `backward_projected`, which replaces gates by the gradients of the
pre-activations, then computes every gradient by one product over all steps: of x, i2h, h2h, h2r.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...base import MXNetError
from ..jit import Kernel
from ..linalg.bias_gradient import prepare_bias_gradient
from ..linalg.gemm import gemm_workspace, prepare_gemm, prepare_pack_b
from ..linalg.gemm_small_m import prepare_gemm_small_m
from ..nn.dropout import LANE, Dropout
from ..op import Call
from .rnn_kernels import (
    backward_layer,
    backward_projected,
    forward_few,
    forward_layer,
    forward_projected,
)
from .rnn_plan import GateRows, LayerResults, RnnPlan, Weights

__all__ = ["Arrays", "backward_steps", "forward_steps", "set_lengths", "start_gates"]

Run = Callable[[], Any]


class Arrays(NamedTuple):
    """The inputs of the operator, or their gradients; None for missing or unwanted ones."""

    data: Any
    weights: Weights
    state: Any
    state_cell: Any = None
    lengths: Any = None


Clip = tuple[Any, Any, bool]


def set_lengths(values: np.ndarray | None, lengths: np.ndarray, steps: int) -> None:
    """Integer lengths from the operator's input; all steps without one."""
    if values is None:
        lengths.fill(steps)
        return
    wrong = values[~((values >= 0) & (values <= steps))]
    if wrong.size:
        raise MXNetError(f"sequence_length has the value {wrong[0]}, expected 0 to {steps}, the "
                         "number of steps of data")
    np.copyto(lengths, values, casting="unsafe")


def _pack_all(array: np.ndarray, matrices: Sequence[Any]) -> list[Run]:
    """Functions that pack one matrix for each direction."""
    return [prepare_pack_b(matrix, array[d]) for d, matrix in enumerate(matrices)]


def _product(a: np.ndarray, b: np.ndarray, c: np.ndarray, work: np.ndarray,
             bias: np.ndarray | None = None, add: bool = False) -> Run:
    """A function that computes c = a b, with a workspace shared by many products."""
    workers = gemm_workspace(len(a), a.shape[1], c.shape[1], c.dtype).shape[0]
    return prepare_gemm(a, b, c, work[:workers], bias=bias, add=add)


# ------------------------------------------------------------------------------------------ forward

def forward_steps(plan: RnnPlan, ins: Arrays, stores: list[LayerResults], state: tuple[Any, Any],
                  scratch: dict[str, Any], clip: Clip, drop: tuple[float, Call]) -> list[Run]:
    """Functions of the forward pass: outputs are in the last store and in `state`, (L, D, N,
    ...)."""
    h, c = state
    steps: list[Run] = [
        partial(set_lengths, ins.lengths, scratch["lengths"], plan.data[0]),
        partial(np.copyto, h, ins.state.reshape(h.shape))]
    if ins.state_cell is not None:
        steps.append(partial(np.copyto, c, ins.state_cell.reshape(c.shape)))
    x, directions = ins.data, range(plan.layout.directions)
    for layer, store in enumerate(stores):
        for d in directions:
            steps += _input_product(plan, layer, d, x, ins.weights, store.gates[d], scratch)
        steps += _layer_forward(plan, layer, ins.weights, store, (h[layer], c[layer]), scratch,
                                clip)
        if plan.dropout and layer < len(stores) - 1:
            steps.append(_dropout(store, *drop))
        x = store.x
    return steps


def _layer_forward(plan: RnnPlan, layer: int, weights: Weights, store: LayerResults,
                   state: tuple[Any, Any], scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions that run the kernel over all steps."""
    recurrent = plan.of_directions(weights, layer, "h2h_weight")
    steps: list[Run] = []
    if not plan.few:
        steps += _pack_all(scratch["recurrent"], [matrix.T for matrix in recurrent])
    plain = [matrix if plan.few else matrix[:0] for matrix in recurrent]
    factors: Any = scratch["recurrent"]
    run = forward_layer
    if plan.hidden_size:
        projection = plan.of_directions(weights, layer, "h2r_weight")
        steps += _pack_all(scratch["projection"], [matrix.T for matrix in projection])
        run, factors = forward_projected, (factors, scratch["projection"], plain[0], plain[-1])
    elif plan.few:
        run, factors = forward_few, (plain[0], plain[-1])
    results = store.gates, store.cells, store.hidden
    steps.append(partial(_for(scratch, run), plan.cell, factors, results, store.y, state,
                         scratch["lengths"], clip, scratch["shares"]))
    return steps


def _for(scratch: Mapping[str, Any], run: Kernel) -> Kernel:
    """The kernel of a layer, on as many threads as there are workspaces."""
    return run if len(scratch["shares"]) > 1 else run.alone


def _input_product(plan: RnnPlan, layer: int, d: int, x: np.ndarray, weights: Weights,
                   gates: np.ndarray, scratch: dict[str, Any]) -> list[Run]:
    """Functions that form gates = x i2h^T + biases for all steps of one direction."""
    weight, bias, other = (weights[layer, d, kind]
                           for kind in ("i2h_weight", "i2h_bias", "h2h_bias"))
    base, flat = scratch["base"], gates.reshape(plan.rows, plan.width)
    steps: list[Run] = [partial(start_gates, plan, bias, other, base)]
    x = x.reshape(plan.rows, -1)
    for part in plan.parts:
        rows, start, sums = weight[part.rows], base[part.columns], flat[:, part.columns]
        if plan.few:
            steps.append(prepare_gemm_small_m(x, rows, start, sums))
            continue
        steps.append(_product(x, rows.T, sums, scratch["work"], bias=start))
    if plan.width > plan.columns:
        steps.append(partial(np.copyto, flat[:, plan.columns:], base[plan.columns:]))
    return steps


def start_gates(plan: RnnPlan, bias: np.ndarray, other: np.ndarray, base: np.ndarray) -> None:
    """Initial values of the gates; the candidate of gru has two separate biases."""
    for part in plan.parts:
        base[part.columns] = bias[part.rows]
        if part.column or plan.width == plan.columns:
            base[part.columns] += other[part.rows]
        else:
            base[plan.columns:] = other[part.rows]


def _dropout(store: LayerResults, p: float, call: Call) -> Run:
    """x = y mask."""
    spare = np.empty(4 * LANE, store.y.dtype)
    return Dropout(p).prepare([store.y], [store.x, store.mask],
                               Call(call.mode, [store.mask, spare]))


# ----------------------------------------------------------------------------------------- backward

def backward_steps(plan: RnnPlan, ins: Arrays, stores: list[LayerResults], ograds: Sequence[Any],
                   grads: Arrays, scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions of the backward pass; `ograds` are those of the output, of h and of c, or None."""
    dh, dc, lengths = scratch["h"], scratch["c"], scratch["lengths"]
    steps: list[Run] = [partial(set_lengths, ins.lengths, lengths, plan.data[0])]
    steps += [partial(_start, array, ograd) for array, ograd in zip((dh, dc), ograds[1:],
                                                                    strict=True)]
    h0, c0 = (scratch[name] if array is None else array.reshape(scratch[name].shape)
              for name, array in (("h", ins.state), ("c", ins.state_cell)))
    gy = ograds[0].reshape(plan.y_shape)
    for layer in reversed(range(len(stores))):
        store = stores[layer]
        steps += _layer_backward(plan, layer, ins.weights, store, (gy, dh[layer], dc[layer]),
                                 (h0[layer], c0[layer]), scratch, clip)
        x, gx = (ins.data, grads.data) if layer == 0 else (stores[layer - 1].x,
                                                           scratch["gy"][layer % 2])
        steps += _parameter_gradients(plan, layer, x, store, grads.weights, scratch)
        if gx is not None:
            steps += _input_gradient(plan, layer, ins.weights, gx, scratch)
        if plan.dropout and layer:
            steps.append(partial(np.multiply, gx, stores[layer - 1].mask, out=gx))
        gy = gx
    for out, total in ((grads.state, dh), (grads.state_cell, dc)):
        if out is not None:
            steps.append(partial(np.copyto, out, total.reshape(out.shape)))
    return steps


def _start(array: np.ndarray, ograd: np.ndarray | None) -> None:
    """Gradients of the last states; zero where they are not outputs."""
    array[...] = 0 if ograd is None else ograd.reshape(array.shape)


def _layer_backward(plan: RnnPlan, layer: int, weights: Weights, store: LayerResults,
                    grads: tuple[Any, Any, Any], states: tuple[Any, Any],
                    scratch: dict[str, Any], clip: Clip) -> list[Run]:
    """Functions that run the kernel over all steps."""
    steps = _pack_all(scratch["recurrent"], plan.of_directions(weights, layer, "h2h_weight"))
    run, packed = backward_layer, scratch["recurrent"]
    if plan.hidden_size:
        steps += _pack_all(scratch["projection"],
                           plan.of_directions(weights, layer, "h2r_weight"))
        run, packed = backward_projected, (packed, scratch["projection"])
    buffers = (scratch["dgates"], scratch["before"], scratch["douts"], scratch["wide"][:, 0])
    results = store.gates, store.cells, store.y
    steps.append(partial(_for(scratch, run), plan.cell, packed, results, buffers, grads, states,
                         scratch["lengths"], clip, scratch["shares"]))
    return steps


def _parameter_gradients(plan: RnnPlan, layer: int, x: np.ndarray, store: LayerResults,
                         grads: Weights, scratch: dict[str, Any]) -> list[Run]:
    """Functions that compute the wanted gradients of a layer's weights and biases."""
    steps: list[Run] = []
    rows, recurrent = plan.rows, [GateRows(0, plan.width - plan.columns, plan.columns)]

    def weight(kind: str, d: int, sums: np.ndarray, parts: list[GateRows], b: np.ndarray) -> None:
        """sums^T b, over all steps."""
        gradient = grads.get((layer, d, kind))
        if gradient is not None:
            b = b.reshape(rows, -1)
            steps.extend(_product(sums[:, part.columns].T, b, gradient[part.rows], scratch["work"])
                         for part in parts)

    def bias(kind: str, d: int, sums: np.ndarray, parts: list[GateRows]) -> None:
        gradient = grads.get((layer, d, kind))
        if gradient is not None:
            steps.extend(prepare_bias_gradient(sums[:, part.columns], gradient[part.rows])
                         for part in parts)

    for d in range(plan.layout.directions):
        dgates = scratch["dgates"][d].reshape(rows, plan.width)
        weight("i2h_weight", d, dgates, plan.parts, x)
        bias("i2h_bias", d, dgates, plan.parts)
        weight("h2h_weight", d, dgates, recurrent, scratch["before"][d])
        bias("h2h_bias", d, dgates, recurrent)
        if plan.hidden_size:
            douts = scratch["douts"][d].reshape(rows, -1)
            weight("h2r_weight", d, douts, [GateRows(0, 0, douts.shape[1])], store.hidden[d])
    return steps


def _input_gradient(plan: RnnPlan, layer: int, weights: Weights, gx: np.ndarray,
                    scratch: dict[str, Any]) -> list[Run]:
    """Functions that form gx = dgates i2h, summed over directions."""
    steps: list[Run] = []
    for d in range(plan.layout.directions):
        weight = weights[layer, d, "i2h_weight"]
        dgates = scratch["dgates"][d].reshape(plan.rows, plan.width)
        for part in plan.parts:
            steps.append(_product(dgates[:, part.columns], weight[part.rows],
                                  gx.reshape(plan.rows, -1), scratch["work"], add=bool(steps)))
    return steps
