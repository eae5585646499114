"""The cost of a step of an executor: multiplications and additions, and bytes moved.

Operations are counted where products of tensors are what takes the time: convolutions, dense
layers, products of matrices, recurrent layers.  There a product is an operation and its addition
another, as everybody counts them; biases and activations are left out.  The count is that of the
definition, whatever algorithm computes it.  All other ops are bound by memory: they count as 0, and
their bytes say what they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..ops.control_flow.control import Cond, WhileLoop
from ..ops.control_flow.control_base import Control, row_shape
from ..ops.op import Backward, Op, Spec
from ..passes.infer import infer_specs
from ..passes.memory.plan_step import NONE
from .pipeline import CompiledGraph

__all__ = ["StepCost", "cost_of", "costs_of", "products_of"]

Shapes = dict[str, tuple[int, ...]]
"""By the names of the forward op's inputs and outputs, which their gradients share."""

ProductOp: TypeAlias = Any  # type: ignore[explicit-any]
"""An op with the parameters that a count reads.  Any: these are dataclasses without a common base,
which are imported only in networks that need them."""


class StepCost(NamedTuple):
    """Multiplications plus additions of one step, and bytes of all that it reads and writes."""

    operations: int
    nbytes: int


def cost_of(op: Op, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> StepCost:
    """The cost of one run of `op`; an output that nothing reads is None.

    The gradient of a product by each of its factors costs as much as the product.  Ops of users are
    counted as `register_op` was told, their gradients by bytes only.
    """
    nbytes = sum(spec.nbytes for spec in (*ins, *outs) if spec is not None)
    fwd = op.fwd if isinstance(op, Backward) else op
    if op is fwd and any(op.cost):
        return StepCost(int(op.cost.operations(op, ins, outs)) if op.cost.operations else 0,
                        int(op.cost.nbytes(op, ins, outs)) if op.cost.nbytes else nbytes)
    if fwd.name not in _PRODUCTS:
        return StepCost(0, nbytes)
    named = zip((*op.list_inputs(), *op.list_outputs()), (*ins, *outs), strict=True)
    shapes = {_plain(name): spec.shape for name, spec in named if spec is not None}
    factors, count = _PRODUCTS[fwd.name]
    products = count(fwd, shapes)
    if op is not fwd:
        products *= sum(name in factors and spec is not None
                        for name, spec in zip(op.list_outputs(), outs, strict=True))
    return StepCost(2 * products, nbytes)


def costs_of(compiled: CompiledGraph) -> list[StepCost]:
    """The cost of every step of a compiled graph; a view costs nothing."""
    costs = []
    for index, (node, planned) in enumerate(zip(compiled.nodes, compiled.plan_steps, strict=True)):
        outs = [None if eid == NONE else spec for spec, eid
                in zip(compiled.output_specs(node), planned.outputs, strict=True)]
        costs.append(StepCost(0, 0) if index in compiled.plan.views
                     else cost_of(node.required_op, compiled.input_specs(node), outs))
    return costs


def products_of(op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> int:
    """The products, each added to a sum, of one run of `op`.

    A loop counts all of its iterations, `while_loop` as many as it may take; `cond` its larger
    branch.
    """
    if not isinstance(op, Control):
        return cost_of(op, ins, outs).operations // 2
    bodies = [_products_of_body(op, index, ins) for index in range(len(op.bodies))]
    if isinstance(op, Cond):
        condition, *branches = bodies
        return condition + max(branches)
    return sum(bodies) * (op.max_iterations if isinstance(op, WhileLoop) else ins[0].shape[0])


def _products_of_body(op: Control, index: int, ins: Sequence[Spec]) -> int:
    body, rows = op.bodies[index], op.data(index)
    known = {}
    for position, source in enumerate(op.sources(index)):
        spec = ins[source]
        known[body.variables[position]] = (
            Spec(row_shape(spec.shape), spec.dtype) if position in rows else spec)
    graph = body.forward
    specs = infer_specs(graph, known)
    return sum(products_of(node.op, [specs[eid] for eid in graph.input_eids(node)],
                           [specs[eid] for eid in graph.output_eids(node)])
               for node in graph.nodes if node.op is not None)


def _plain(name: str) -> str:
    """A head gradient has the shape of its output."""
    return "output" if name in ("ograd", "ograd0") else name


def _convolution(op: ProductOp, shapes: Shapes) -> int:
    """Each output element is a product with one filter."""
    return prod(shapes["output"]) * (prod(shapes["weight"]) // op.num_filter)


def _blocked_convolution(op: ProductOp, shapes: Shapes) -> int:
    """Products of a blocked convolution, without the channels that fill up a block."""
    kernels = op.kernels(Spec(shapes["data"], np.dtype(np.float32)))
    pixels = shapes["data"][0] * kernels.y.height * kernels.y.width
    taps = prod(op.slide.kernel) * op.channels // op.slide.groups
    return pixels * op.filters * taps


def _batch_tiles(op: ProductOp, shapes: Shapes) -> int:
    """A convolution, and what follows it."""
    return _blocked_convolution(op.chain[0], {**shapes, "weight": shapes["weight0"]})


def _chain(op: ProductOp, shapes: Shapes) -> int:
    """The products of all convolutions of the chain."""
    data = Spec(shapes["data"], np.dtype(np.float32))
    return sum(_blocked_convolution(link, {"data": kernels.x.shape(data.shape[0])})
               for link, kernels in zip(op.links, op.kernels(data), strict=True))


def _deconvolution(op: ProductOp, shapes: Shapes) -> int:
    """Each input element is spread by the filters of its channel, the first axis of weight."""
    return prod(shapes["data"]) * (prod(shapes["weight"]) // shapes["weight"][0])


def _dense(op: ProductOp, shapes: Shapes) -> int:
    return prod(shapes["output"]) * shapes["weight"][-1]


def _product(lhs: str, rhs: str, stacked: bool) -> Callable[[ProductOp, Shapes], int]:
    """(b, m, k) times (b, k, n) is (b, m, n), transposed or not: b m k n products, from sizes."""

    def count(op: ProductOp, shapes: Shapes) -> int:
        batch = prod(shapes[lhs][:-2]) if stacked else 1
        sizes = prod(prod(shapes[name]) // batch for name in (lhs, rhs, "output"))
        return batch * isqrt(sizes)

    return count


def _recurrent(op: ProductOp, shapes: Shapes) -> int:
    """Every weight is used once for each step of each sample; a gate has two biases."""
    gates = {"lstm": 4, "gru": 3}.get(op.mode, 1)
    biases = 2 * gates * op.state_size * op.num_layers * (2 if op.bidirectional else 1)
    steps, samples = shapes["data"][:2]
    return steps * samples * (prod(shapes["parameters"]) - biases)


_PRODUCTS: dict[str, tuple[tuple[str, ...], Callable[[ProductOp, Shapes], int]]] = {
    "Convolution": (("data", "weight"), _convolution),
    "_blocked_convolution": (("data", "weight"), _blocked_convolution),
    "_batch_tiles": (("data", "weight0"), _batch_tiles),
    "_blocked_chain": (("data",), _chain),
    "Convolution_v1": (("data", "weight"), _convolution),
    "Deconvolution": (("data", "weight"), _deconvolution),
    "FullyConnected": (("data", "weight"), _dense),
    "_fused_layer": (("data", "weight"),
                     lambda op, shapes: _PRODUCTS[op.layer.name][1](op.layer, shapes)),
    "dot": (("lhs", "rhs"), _product("lhs", "rhs", stacked=False)),
    "batch_dot": (("lhs", "rhs"), _product("lhs", "rhs", stacked=True)),
    "_linalg_gemm2": (("A", "B"), _product("A", "B", stacked=True)),
    "_linalg_gemm": (("A", "B"), _product("A", "B", stacked=True)),
    "RNN": (("data", "parameters"), _recurrent),
}
"""Op -> (the factors, how many products forward takes)."""
