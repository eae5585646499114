"""Products of matrices, dense layers, and attention."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("FullyConnected")
def _fully_connected(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if op.flatten or info.ndim == 2:
        x = node.x if info.ndim == 2 else node.emit("Flatten", node.x, axis=1)
        if info.ndim == 1:
            x = node.axes_op("Unsqueeze", node.x, [1])
        return node.emit("Gemm", x, node.inputs[1], bias, transB=1)
    product = node.emit("MatMul", node.x, node.transpose(node.inputs[1], 1, 0))
    return product if bias is None else node.emit("Add", product, bias)


def swapped(node: NodeExport, value: Value, ndim: int, swap: bool = True) -> Value:
    """`value` with its last two axes swapped."""
    if not swap:
        return value
    return node.transpose(value, *range(ndim - 2), ndim - 1, ndim - 2)


@converts("dot")
def _dot(node: NodeExport) -> Value:
    """The last axis of lhs with the first of rhs; transposed, all other axes move together."""
    op, (lhs, rhs) = node.op, node.ins
    a, b = node.inputs
    if op.transpose_a and lhs.ndim > 1:
        a = node.transpose(a, *range(1, lhs.ndim), 0)
    if op.transpose_b and rhs.ndim > 1:
        b = node.transpose(b, rhs.ndim - 1, *range(rhs.ndim - 1))
    if lhs.ndim == rhs.ndim == 2:
        return node.emit("MatMul", a, b)
    # Vectors as matrices: onnxruntime 1.32 errs where it fuses a transposition with a vector.
    inner = lhs.shape[0 if op.transpose_a else -1]
    product = node.emit("MatMul", node.reshape_to(a, -1, inner), node.reshape_to(b, inner, -1))
    return node.reshape(product, node.outs[0])


@converts("batch_dot")
def _batch_dot(node: NodeExport) -> Value:
    op = node.op
    a, b = (swapped(node, value, info.ndim, swap) for value, info, swap in zip(
        node.inputs, node.ins, (op.transpose_a, op.transpose_b), strict=True))
    return node.emit("MatMul", a, b)


def _scaled(node: NodeExport, value: Value, factor: float) -> Value:
    return value if factor == 1 else node.emit("Mul", value, node.scalar(factor))


@converts("_linalg_gemm", "_linalg_gemm2")
def _gemm(node: NodeExport) -> Value:
    op, ndim = node.op, node.ins[0].ndim
    order = list(range(ndim))
    order.insert(ndim - 2, order.pop(op.axis % ndim))
    matrices = node.inputs if order == sorted(order) else [
        node.transpose(value, *order) for value in node.inputs]
    a, b = (swapped(node, value, ndim, swap) for value, swap in zip(
        matrices, (op.transpose_a, op.transpose_b), strict=False))
    product = _scaled(node, node.emit("MatMul", a, b), op.alpha)
    if op.name == "_linalg_gemm":
        product = node.emit("Add", product, _scaled(node, matrices[2], op.beta))
    return product if order == sorted(order) else node.transpose(
        product, *np.argsort(order).tolist())


@converts("_linalg_syrk")
def _syrk(node: NodeExport) -> Value:
    op, ndim = node.op, node.ins[0].ndim
    flipped = swapped(node, node.x, ndim)
    pair = (flipped, node.x) if op.transpose else (node.x, flipped)
    return _scaled(node, node.emit("MatMul", *pair), op.alpha)


@converts("_linalg_trmm")
def _trmm(node: NodeExport) -> Value:
    """The product with the triangle; the other half of A is not read."""
    op, ndim = node.op, node.ins[0].ndim
    triangle = node.emit("Trilu", node.x, upper=int(not op.lower))
    triangle = swapped(node, triangle, ndim, op.transpose)
    pair = (node.inputs[1], triangle) if op.rightside else (triangle, node.inputs[1])
    return _scaled(node, node.emit("MatMul", *pair), op.alpha)


@converts("_linalg_det")
def _determinant(node: NodeExport) -> Value:
    determinants = node.emit("Det", node.x)
    return determinants if node.ins[0].ndim > 2 else node.reshape_to(determinants, 1)


@converts("_linalg_sumlogdiag", "_linalg_extractdiag")
def _diagonal(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    size, offset = info.shape[-1], getattr(op, "offset", 0)
    places = max(-offset, 0) * size + max(offset, 0) + np.arange(size - abs(offset)) * (size + 1)
    flat = node.reshape_to(node.x, *[0] * (info.ndim - 2), size * size)
    diagonal = node.emit("Gather", flat, places.astype(np.int64), axis=info.ndim - 2)
    if op.name == "_linalg_extractdiag":
        return diagonal
    total = node.reduce("ReduceSum", node.emit("Log", diagonal), [info.ndim - 2], keepdims=False)
    return total if info.ndim > 2 else node.reshape_to(total, 1)


@converts("_linalg_makediag", large_constants=True)
def _make_diagonal(node: NodeExport) -> Value:
    info, offset = node.ins[0], node.op.offset
    before, after = max(-offset, 0), max(offset, 0)
    size = info.shape[-1] + abs(offset)
    widths = [0] * (info.ndim - 1) + [before] + [0] * (info.ndim - 1) + [after]
    padded = node.axes_op("Unsqueeze", node.emit("Pad", node.x, widths), [info.ndim])
    return node.emit("Mul", padded, np.eye(size, k=offset, dtype=info.dtype))


@converts("khatri_rao")
def _khatri_rao(node: NodeExport) -> Value:
    """The product of columns: of all pairs of rows, then those of the next factor."""
    if len(node.inputs) == 1:
        return node.emit("Identity", node.x)
    columns = node.static(node.ins[0], [1])[1]
    total = node.x
    for value in node.inputs[1:]:
        pairs = node.emit("Mul", node.axes_op("Unsqueeze", total, [1]),
                          node.axes_op("Unsqueeze", value, [0]))
        total = node.reshape_to(pairs, -1, columns)
    return total


# ---------------------------------------------------------------------------------------- attention

def _heads(node: NodeExport, index: int, parts: int) -> list[Value]:
    """Projections (L, N, heads parts D) as `parts` tensors (N heads, L, D)."""
    info, heads = node.ins[index], node.op.heads
    size = info.shape[2] // heads // parts
    if 0 in info.dynamic and 1 in info.dynamic:
        node.refuse("both length and batch are dynamic")
    length, batch = (-1 if axis in info.dynamic else info.shape[axis] for axis in (0, 1))
    merged = -1 if batch == -1 else batch * heads
    x = node.inputs[index]
    x = node.reshape_to(x, length, merged, parts, size)
    projections = node.split(x, [1] * parts, 2)
    return [node.transpose(node.axes_op("Squeeze", part, [2]), 1, 0, 2) for part in projections]


def _scores(node: NodeExport, queries: Value, keys: Value, size: int) -> Value:
    root = node.emit("Div", queries, node.scalar(np.sqrt(size)))
    return node.emit("MatMul", root, node.transpose(keys, 0, 2, 1))


@converts("_contrib_interleaved_matmul_selfatt_qk")
def _self_attention_scores(node: NodeExport) -> Value:
    queries, keys, _ = _heads(node, 0, 3)
    return _scores(node, queries, keys, node.ins[0].shape[2] // node.op.heads // 3)


@converts("_contrib_interleaved_matmul_encdec_qk")
def _cross_attention_scores(node: NodeExport) -> Value:
    queries, = _heads(node, 0, 1)
    keys, _ = _heads(node, 1, 2)
    return _scores(node, queries, keys, node.ins[0].shape[2] // node.op.heads)


def _attended(node: NodeExport, values: Value) -> Value:
    """(N heads, L, D) of the products with the attention, as (L, N, heads D)."""
    product = node.emit("MatMul", node.inputs[1], values)
    return node.reshape(node.transpose(product, 1, 0, 2), node.outs[0])


@converts("_contrib_interleaved_matmul_selfatt_valatt")
def _self_attention_values(node: NodeExport) -> Value:
    return _attended(node, _heads(node, 0, 3)[2])


@converts("_contrib_interleaved_matmul_encdec_valatt")
def _cross_attention_values(node: NodeExport) -> Value:
    return _attended(node, _heads(node, 0, 2)[1])
