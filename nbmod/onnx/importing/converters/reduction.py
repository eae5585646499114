"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....ops.shape import normalize_axes
from ..composition import add, numeric, subtract
from ..imported_tensor import ImportedTensor
from ..node_import import NodeImport, imports

Reduce = Callable[[NodeImport, ImportedTensor, tuple[int, ...]], ImportedTensor]


def _plain(op: str, before: str = "", after: str = "") -> Reduce:
    """A reduction with a function before and after it; reduced axes keep length 1."""

    def reduced(node: NodeImport, data: ImportedTensor, axes: tuple[int, ...]) -> ImportedTensor:
        operand = node.emit(before, data) if before else data
        result = node.emit(op, operand, axis=axes, keepdims=True)
        return node.emit(after, result) if after else result

    return reduced


def _log_sum_exp(node: NodeImport, data: ImportedTensor, axes: tuple[int, ...]) -> ImportedTensor:
    """log(sum(exp(x))), with the largest element taken out."""
    largest = node.emit("max", data, axis=axes, keepdims=True)
    total = node.emit("sum", node.emit("exp", subtract(node, data, largest)), axis=axes,
                      keepdims=True)
    return add(node, node.emit("log", total), largest)


REDUCTIONS: Mapping[str, Reduce] = {
    "ReduceSum": _plain("sum"), "ReduceMean": _plain("mean"), "ReduceMax": _plain("max"),
    "ReduceMin": _plain("min"), "ReduceProd": _plain("prod"), "ReduceL1": _plain("sum", "abs"),
    "ReduceL2": _plain("sum", "square", "sqrt"), "ReduceLogSum": _plain("sum", "", "log"),
    "ReduceSumSquare": _plain("sum", "square"), "ReduceLogSumExp": _log_sum_exp}


@imports(*REDUCTIONS)
def reduction(node: NodeImport) -> ImportedTensor:
    """A reduction over axes, all by default."""
    dtype, rank = node.data.dtype, node.rank()
    data = numeric(node, node.data)
    default = () if node.attribute("noop_with_empty_axes", 0) else range(rank)
    axes = normalize_axes(node.integer_list(1, "axes") or default, rank)
    if not axes:
        return _pointwise(node, data).typed(dtype)
    keep = bool(node.attribute("keepdims", 1))
    simple = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min",
              "ReduceProd": "prod"}.get(node.operator)
    if simple:
        result = node.emit(simple, data, axis=axes, keepdims=keep)
        return result.shaped(result.shape if keep or len(axes) < rank else ()).typed(dtype)
    result = REDUCTIONS[node.operator](node, data, axes)
    if keep:
        return result.typed(dtype)
    if len(axes) == rank:
        return node.reshape(result, ()).typed(dtype)
    return node.emit("squeeze", result, axis=axes).typed(dtype)


def _pointwise(node: NodeImport, data: ImportedTensor) -> ImportedTensor:
    """The reduction over no axes: its function of each element."""
    op = {"ReduceL1": "abs", "ReduceL2": "abs", "ReduceLogSum": "log", "ReduceSumSquare": "square"
          }.get(node.operator)
    return data if op is None else node.emit(op, data).shaped(data.shape)
