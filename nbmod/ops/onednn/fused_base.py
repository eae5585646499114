"""Base of the fused operators: a layer with a fused epilogue.

MXNet's oneDNN backend replaces a layer and its neighbours by one node, which holds their subgraph:

    layer -> BatchNorm -> activation -> + another tensor -> activation

`FusedChain` parses such a subgraph; everything but the layer is optional.  BatchNorm by its moving
statistics is a factor and an offset per channel, so it is folded into weight and bias (`folded`).
The epilogue is one pass over the accumulators (`Finish`), quantised or floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Graph, Node
from ..elementwise.arithmetic import Clip
from ..elementwise.float16 import FLOAT16
from ..elementwise.float_op import FloatOp
from ..jit import kernel, prange
from ..nn.activation import Activation, LeakyReLU
from ..nn.batch_norm import BatchNorm
from ..op import Call, Op, Run, Types
from ..quantization.integer_sums import row_products
from ..quantization.ranges import BYTES, FLOAT, INT8, INT32, UINT8, expect_type, limits, merge_types
from ..shape import Shapes, unify

__all__ = ["FusedChain", "Finish", "FusedOp", "IDENTITY", "KERNELS", "ChainPasses", "folded"]

MAX_INT32 = np.float32(2 ** 31 - 128)
"""The largest float32 that is an int32."""


# -------------------------------------------------------------------------------------------- chain

@dataclass(frozen=True)
class FusedChain:
    """The ops of a fused operator, and the roles of its subgraph's variables in order."""

    layer: Op
    norm: BatchNorm | None
    before: Op | None
    adds: bool
    after: Op | None
    roles: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, kind: type[Op]) -> FusedChain:
        """The chain of a subgraph; MXNetError if it does not start with a layer of this kind."""
        nodes = [node for node in graph.nodes if not node.is_variable]
        layer, rest = nodes[0], nodes[1:]
        if not isinstance(layer.op, kind):
            raise MXNetError(f"its graph starts with {layer.describe()}, expected a {kind.name}")
        roles = {id(entry.node): name for entry, name
                 in zip(layer.inputs, layer.op.list_inputs(), strict=True)}
        norm: Any = None
        acts: list[Op | None] = [None, None]
        adds, before = False, layer
        for node in rest:
            op, others = node.op, _others(node, before)
            if op is None or others is None:
                raise MXNetError(f"its graph is no chain: {node.describe()} does not read "
                                 f"{before.describe()}")
            if isinstance(op, BatchNorm) and not (norm or adds or acts[0]):
                norm = op
                roles.update((id(entry.node), name) for entry, name
                             in zip(others, op.list_inputs()[1:], strict=True))
            elif op.name == "elemwise_add" and not adds:
                adds = True
                roles.setdefault(id(others[0].node), "sum")
            elif not others and acts[adds] is None:
                acts[adds] = op
            else:
                raise MXNetError(f"its graph has {node.describe()} where none is expected")
            before = node
        named = [roles.get(id(node), node.name) for node in graph.variables]
        return cls(layer.op, norm, acts[0], adds, acts[1], tuple(named))


def _others(node: Node, before: Node) -> list[Entry] | None:
    """The inputs of a node other than the result of the chain; None if it does not read that."""
    others = [entry for entry in node.inputs if entry.node is not before]
    one = len(others) == len(node.inputs) - 1 and all(e.node.is_variable for e in others)
    return others if one else None


# --------------------------------------------------------------------------------- weights and bias

def folded(norm: BatchNorm | None, bias: np.ndarray | None, tensors: Sequence[Any], filters: int
           ) -> tuple[Any, Any]:
    """Factor and offset per filter that replace bias (or None) and BatchNorm.

    `tensors` are gamma, beta, moving mean and moving variance.
    """
    if norm is None:
        return np.ones(filters, FLOAT), np.zeros(filters, FLOAT) if bias is None else bias
    gamma, beta, mean, variance = tensors
    gamma = np.ones_like(gamma) if norm.fix_gamma else gamma
    factor = (gamma / np.sqrt(variance.astype(np.float64) + norm.eps)).astype(gamma.dtype)
    offset = beta - factor * mean
    return factor, offset if bias is None else offset + factor * bias


class ChainPasses(NamedTuple):
    """The passes over memory of fused operators."""

    quantize_rows: Callable[..., None]
    row_products: Callable[..., None]
    finish: Callable[..., None]
    activate: Callable[[Op | None, Any], Run]
    """A function that applies an activation in place."""


@kernel(parallel=True)
def quantize_rows(w, factor, levels, scale, out):
    """out (F, K) = w factor scale, rounded; scale brings each row's largest element to `levels`."""
    for f in prange(w.shape[0]):
        row, target, by = w[f], out[f], factor[f]
        largest = np.float32(0)
        for k in range(row.size):
            largest = max(largest, abs(np.float32(row[k] * by)))
        scale[f] = levels / largest if largest > 0 else np.float32(1)
        for k in range(row.size):
            value = np.rint(np.float32(row[k] * by) * scale[f])
            target[k] = min(value, np.float32(127))


# ------------------------------------------------------------------------------------------- finish

IDENTITY, ONE = (1.0, np.inf), np.float32(1)


@kernel(parallel=True)
def _finish(sums, offset, scale, other, scalars, out):
    """The epilogue of `Finish` in one pass; `scalars` are those of `_epilogue_scalars`."""
    filters = out.shape[1]
    slope0, top0, share, slope1, top1, low, high, rounds = scalars
    weight, whole = np.float64(share), rounds != 0
    for plane in prange(out.shape[0] * filters):
        n, f = np.int64(plane) // filters, np.int64(plane) % filters
        source, target, add, factor = sums[n, f], out[n, f], offset[f], scale[f]
        for i in range(target.size):
            value = (np.float32(source[i]) + add) * factor
            value = min(value, top0) if value > 0 else value * slope0
            if weight != 0:
                value = np.float32(value + np.float64(other[n, f, i]) * weight)  # rounded once
            value = min(value, top1) if value > 0 else value * slope1
            if whole:
                value = np.rint(value)
            value = value if value > low else low
            target[i] = value if value < high else high


@dataclass(frozen=True)
class Finish:
    """The epilogue of a chain, from accumulators to the output.

        y = after(before((sums + offset) scale) + weight other)

    offset and scale are per channel, `other` is another tensor.  An activation is piecewise linear
    with an upper limit, `(slope, top)`, or any operator, which then is a separate pass.  As in
    MXNet such an operator reads quantised values without dequantising them, unless `real`.
    """

    before: Op | None
    after: Op | None
    real: bool = False

    @property
    def simple(self) -> bool:
        """Whether one pass is sufficient."""
        return all(piecewise_linear(act, ONE) is not None for act in (self.before, self.after))

    def prepare(self, sums: np.ndarray, other: np.ndarray | None, out: np.ndarray, work: np.ndarray,
                passes: ChainPasses) -> Callable[..., None]:
        """A function of (offset, scale, weight, unit), where `unit` is the quantised value of 1 in
        the output.  Tensors are (N, F, P); `other` is None or of any type; `work`, float32 and of
        the output's shape, is needed unless the finish is `simple`."""
        beside = np.zeros((1, 1, 1), UINT8) if other is None else other
        nothing, ones = np.zeros(out.shape[1], FLOAT), np.ones(out.shape[1], FLOAT)
        split = piecewise_linear(self.before, ONE) is None
        activate_before = passes.activate(self.before, work) if split else None
        activate_after = (passes.activate(self.after, work)
                          if piecewise_linear(self.after, ONE) is None else None)
        target = out if activate_after is None else work

        def run(offset: np.ndarray, scale: np.ndarray, weight: float, unit: np.float32) -> None:
            source, before = sums, piecewise_linear(self.before, unit) or IDENTITY
            if activate_before is not None:
                step = unit if self.real else ONE
                scalars = _epilogue_scalars(IDENTITY, 0, IDENTITY, work)
                passes.finish(sums, offset, scale / step, beside, scalars, work)
                activate_before()
                source, offset, scale = work, nothing, ones * step
            after = piecewise_linear(self.after, unit) or IDENTITY
            scalars = _epilogue_scalars(before, weight, after, target, other)
            passes.finish(source, offset, scale, beside, scalars, target)
            if activate_after is not None:
                activate_after()
                scalars = _epilogue_scalars(IDENTITY, 0, IDENTITY, out, other)
                passes.finish(work, nothing, ones, beside, scalars, out)

        return run


def _applied(act: Op | None, y: np.ndarray) -> Run:
    """A function that applies an activation in place."""
    assert act is not None
    return act.prepare([y], [y, *[None] * (len(act.list_outputs()) - 1)], Call())


KERNELS = ChainPasses(quantize_rows, row_products, _finish, _applied)


def _epilogue_scalars(before: tuple[float, float], weight: float, after: tuple[float, float],
                      out: np.ndarray, other: np.ndarray | None = None) -> Any:
    """Scalar arguments of `_finish`."""
    if out.dtype.kind == "f":
        low, high = -np.float32(np.inf), np.float32(np.inf)
    elif out.dtype == INT32:
        low, high = -MAX_INT32, MAX_INT32
    else:
        low, high = limits(out.dtype)
        if other is not None:  # MXNet adds in place of `other`, so the limits of its type apply
            low, high = max(low, limits(other.dtype)[0]), min(high, limits(other.dtype)[1])
    return np.array([*before, weight, *after, low, high, out.dtype.kind != "f"], FLOAT)


def piecewise_linear(act: Op | None, unit: np.float32) -> tuple[float, float] | None:
    """A piecewise linear activation as slope below 0 and upper limit; None for any other."""
    if act is None:
        return IDENTITY
    if isinstance(act, Activation) and act.act_type == "relu":
        return 0.0, np.inf
    if isinstance(act, LeakyReLU) and act.act_type == "leaky":
        return act.slope, np.inf
    if isinstance(act, Clip) and act.a_min == 0:
        return 0.0, float(np.float32(act.a_max) * unit)
    return None


# ----------------------------------------------------------------------------------------------- op

class FusedOp(FloatOp):
    """Base of fused operators: names, shapes and types of a chain's tensors.

    Inputs are those of the layer, of BatchNorm, the tensor added, and with `quantized` the bounds
    of the ranges listed by `ranges`.  Outputs are that of the chain and, if it is an integer, the
    bounds of its range.
    """

    kind: ClassVar[type[Op]]
    quantized: bool
    min_calib_range: float | None
    max_calib_range: float | None

    def with_subgraphs(self, graphs: tuple[Graph, ...]) -> Op:
        op = replace(self, subgraphs=graphs)  # type: ignore[type-var]
        op.list_inputs()
        return op

    @cached_property
    def chain(self) -> FusedChain:
        """The chain that the operator computes."""
        if len(self.subgraphs) != 1:
            raise MXNetError(f"{self.name} holds {len(self.subgraphs)} graphs, expected one; such "
                             "nodes are made by a back end, not by hand")
        return FusedChain.of(self.subgraphs[0], self.kind)

    @property
    def calibrated(self) -> bool:
        return self.min_calib_range is not None and self.max_calib_range is not None

    @property
    def ranges(self) -> tuple[str, ...]:
        """Names of the inputs that are bounds of ranges."""
        raise NotImplementedError

    @property
    def out_type(self) -> np.dtype:
        """The type of the output of a quantised chain."""
        raise NotImplementedError

    @property
    def aux(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.chain.norm is None else ("moving_mean", "moving_var")

    @property
    def is_pure(self) -> bool:
        return True

    def list_inputs(self) -> tuple[str, ...]:
        return (*self.chain.roles, *self.ranges)

    def list_outputs(self) -> tuple[str, ...]:
        return self.outputs if self.quantized and self.out_type != FLOAT else self.outputs[:1]

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        raise MXNetError(f"{node.describe()} is for inference and has no gradient; bind with "
                         "grad_req='null'")

    def pick(self, values: Sequence[Any]) -> dict[str, Any]:
        """Values of the inputs by name."""
        return dict(zip(self.list_inputs(), values, strict=False))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        chain, shapes = self.chain, self.pick(ins)
        names = chain.layer.list_inputs()
        in_shapes, (out,) = chain.layer.infer_shape([shapes[name] for name in names], [outs[0]])
        if chain.adds:
            out = unify(out, shapes.get("sum"), "computed output and the tensor added")
            shapes["sum"] = out
        shapes.update(zip(names, in_shapes, strict=True))
        if chain.norm is not None:
            names = chain.norm.list_inputs()[1:]
            in_shapes, _ = chain.norm.infer_shape([out, *[shapes[name] for name in names]],
                                                  [out, None, None])
            shapes.update(zip(names, in_shapes[1:], strict=True))
        shapes.update((name, (1,)) for name in self.ranges)
        return [shapes[name] for name in self.list_inputs()], [out, *[(1,)] * (len(outs) - 1)]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        if self.quantized:
            return self.integer_types(ins, outs)
        chain, types = self.chain, self.pick(ins)
        names = [*chain.layer.list_inputs(), *["sum"] * chain.adds]
        expect_type("data", types["data"], [FLOAT, FLOAT16])
        in_types, (out, *_) = super().infer_type([types[name] for name in names], outs[:1])
        types.update(zip(names, in_types, strict=True))
        if chain.norm is not None:
            names = list(chain.norm.list_inputs()[1:])
            in_types, _ = chain.norm.infer_type([out, *[types[name] for name in names]],
                                                [out, None, None])
            types.update(zip(names, in_types[1:], strict=True))
        return [types[name] for name in self.list_inputs()], [out]

    def integer_types(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        """Types where data and the tensor added are 8-bit; weights have `weight_type`."""
        types = self.pick(ins)
        for name, dtype in types.items():
            if name in ("data", "sum"):
                expect_type(name, dtype, BYTES)
            else:
                types[name] = merge_types(name, dtype, self.weight_type(name))
        out = merge_types("output", outs[0], self.out_type)
        return list(types.values()), [out, *[FLOAT] * (len(outs) - 1)]

    def weight_type(self, name: str) -> np.dtype:
        """The type of an input other than data and the tensor added."""
        return FLOAT

    def positive(self) -> bool:
        """Whether the chain ends in an activation with non-negative results."""
        chain = self.chain
        last = chain.after if chain.adds else chain.before
        return last is not None and (piecewise_linear(last, ONE) or IDENTITY)[0] == 0

    def eight_bits(self) -> np.dtype:
        """The 8-bit type of the output."""
        return UINT8 if self.positive() else INT8
