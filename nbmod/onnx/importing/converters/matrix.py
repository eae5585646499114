"""Linear algebra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

import numpy as np

from ....ops.param import Shape
from ....ops.shape import size_of
from ..composition import add, expand, multiply
from ..imported_tensor import ImportedTensor
from ..node_import import NodeImport, imports


@imports("Gemm")
def gemm(node: NodeImport) -> ImportedTensor:
    """alpha A B + beta C: FullyConnected where B has a row for each output."""
    data, weight, bias = node.input(0), node.input(1), node.optional(2)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if node.attribute("transA", 0):
        data = node.transpose(data, (1, 0))
    if not node.attribute("transB", 0):
        weight = _rows(node, weight)
    outputs = node.static(weight)[0]
    if data.dtype.kind != "f":
        dot = node.emit("dot", data, node.transpose(weight, (1, 0)))
    elif alpha == beta == 1 and bias is not None and bias.shape == (outputs,):
        return node.emit("FullyConnected", data, weight, bias, num_hidden=outputs)
    else:
        dot = node.emit("FullyConnected", data, weight, num_hidden=outputs, no_bias=True)
    dot = _times(node, dot, alpha)
    return dot if bias is None else add(node, dot, _times(node, bias, beta))


def _rows(node: NodeImport, weight: ImportedTensor) -> ImportedTensor:
    """A transposed matrix, as a weight of FullyConnected; a constant keeps its name."""
    if weight.array is None:
        return node.transpose(weight, (1, 0))
    return ImportedTensor.constant(np.ascontiguousarray(weight.array.T), weight.name)


def _times(node: NodeImport, tensor: ImportedTensor, factor: float) -> ImportedTensor:
    if factor == 1:
        return tensor
    if tensor.array is not None:
        return ImportedTensor.constant(tensor.array * tensor.dtype.type(factor))
    return multiply(node, tensor, node.new_constant(factor, tensor.dtype))


@imports("MatMul")
def matmul(node: NodeImport) -> ImportedTensor:
    """The product of matrices, of numpy's rules."""
    return product(node, node.plain(node.input(0)), node.plain(node.input(1)))


def product(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """The product of tensors of any ranks."""
    ranks = node.rank(left), node.rank(right)
    if min(ranks) == 0:
        node.refuse("a factor is a scalar")
    if ranks[1] == 2 and right.array is not None and left.dtype.kind == "f" and ranks[0] > 1:
        weight = _rows(node, right)
        return node.emit("FullyConnected", left, weight, no_bias=True, flatten=False,
                         num_hidden=node.static(weight)[0])
    if ranks[1] <= 2 and ranks[0] >= 1 and left.dtype.kind == "f":
        dot = node.emit("dot", left, right)
        return dot.shaped(() if ranks == (1, 1) else dot.shape)
    return _batched(node, left, right)


def _batched(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """Products of matrices whose leading axes are broadcast, or open and then the same."""
    if _is_open(left) and left.shape and right.shape and left.shape[:-2] == right.shape[:-2]:
        return node.emit("batch_dot" if len(left.shape) == 3 else "_linalg_gemm2", left, right)
    a, b = node.static(left), node.static(right)
    rows, columns = (1, *a)[-2:], (*b, 1)[:2] if len(b) == 1 else b[-2:]
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    first = expand(node, node.reshape(left, (*a[:-2], *rows)), (*lead, *rows))
    second = expand(node, node.reshape(right, (*b[:-2], *columns)), (*lead, *columns))
    count = size_of(lead)
    matrices = node.emit("batch_dot", node.reshape(first, (count, *rows)),
                         node.reshape(second, (count, *columns)))
    shape = (*lead, *(rows[:1] if len(a) > 1 else ()), *(columns[1:] if len(b) > 1 else ()))
    return node.reshape(matrices, shape)


def _is_open(tensor: ImportedTensor) -> bool:
    return not tensor.is_static and tensor.shape is not None


@imports("Det")
def determinant(node: NodeImport) -> ImportedTensor:
    """Determinants of matrices."""
    determinants = node.emit("_linalg_det", node.data)
    return determinants if node.rank() > 2 else determinants.shaped(())


# -- Einstein sums --------------------------------------------------------------------------------


@imports("Einsum")
def einsum(node: NodeImport) -> ImportedTensor:
    """A sum of products, two operands at a time."""
    tensors = [node.plain(each) for each in node.inputs if each is not None]
    terms, output = _labels(node, str(node.attribute("equation", "")), tensors)
    operands = [_diagonal_free(node, tensor, term)
                for tensor, term in zip(tensors, terms, strict=True)]

    def joined(left: tuple[ImportedTensor, str], right: tuple[ImportedTensor, str]
               ) -> tuple[ImportedTensor, str]:
        position = waiting.pop(0)
        needed = set(output).union(*[term for _, term in operands[position:]])
        return _contract(node, left, right, needed)

    waiting = list(range(2, len(operands) + 1))
    total, term = reduce(joined, operands)
    total, term = _summed(node, total, term, set(output))
    if set(term) != set(output) or not output:
        return total if not output else node.refuse(f"labels {output} are not all in the inputs")
    return node.transpose(total, [term.index(label) for label in output])


def _labels(node: NodeImport, equation: str, tensors: Sequence[ImportedTensor]
            ) -> tuple[list[str], str]:
    """The labels of every operand and of the output; those of an ellipsis are digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms, wide = left.split(","), 0
    if len(terms) != len(tensors):
        node.refuse(f"equation {equation!r} has {len(terms)} operands, expected {len(tensors)}")
    full = []
    for term, tensor in zip(terms, tensors, strict=True):
        extra = node.rank(tensor) - len(term.replace("...", ""))
        wide = max(wide, extra if "..." in term else 0)
        full.append((term, extra))
    digits = "".join(chr(0x3b1 + i) for i in range(wide))
    labels = [term.replace("...", digits[wide - extra:]) for term, extra in full]
    if not arrow:
        counts = Counter("".join(terms).replace(".", ""))
        right = "..." * bool(wide) + "".join(sorted(k for k, n in counts.items() if n == 1))
    return labels, right.replace("...", digits)


def _diagonal_free(node: NodeImport, tensor: ImportedTensor, term: str
                   ) -> tuple[ImportedTensor, str]:
    """An operand without repeated labels: their diagonal."""
    while repeated := [label for label, count in Counter(term).items() if count > 1]:
        first, second = [i for i, each in enumerate(term) if each == repeated[0]][:2]
        tensor = node.emit("diag", tensor, axis1=first, axis2=second)
        term = "".join(each for i, each in enumerate(term) if i not in (first, second))
        term += repeated[0]
    return tensor, term


def _summed(node: NodeImport, tensor: ImportedTensor, term: str, needed: set[str]
            ) -> tuple[ImportedTensor, str]:
    """Without the labels that nothing needs."""
    axes = tuple(i for i, label in enumerate(term) if label not in needed)
    if not axes:
        return tensor, term
    total = node.emit("sum", tensor, axis=axes)
    rest = "".join(label for label in term if label in needed)
    return (total if rest else total.shaped(())), rest


def _contract(node: NodeImport, left: tuple[ImportedTensor, str], right: tuple[ImportedTensor, str],
              needed: set[str]) -> tuple[ImportedTensor, str]:
    """The product of two operands, summed over labels that nothing else needs."""
    a, first = _summed(node, *left, needed | set(right[1]))
    b, second = _summed(node, *right, needed | set(first))
    shared = [label for label in first if label in second]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in first if label not in second]
    columns = [label for label in second if label not in first]
    sizes = _sizes(node, [(a, first), (b, second)])

    def arranged(tensor: ImportedTensor, term: str, *groups: list[str]) -> ImportedTensor:
        order = [label for group in groups for label in group]
        widened = expand(node, tensor, tuple(sizes[label] for label in term))
        moved = node.transpose(widened, [term.index(label) for label in order])
        return node.reshape(moved, tuple(
            size_of(sizes[each] for each in group) for group in groups))

    matrices = node.emit("batch_dot", arranged(a, first, batch, rows, inner),
                         arranged(b, second, batch, inner, columns))
    term = "".join(batch + rows + columns)
    return node.reshape(matrices, tuple(sizes[label] for label in term)), term


def _sizes(node: NodeImport, operands: Sequence[tuple[ImportedTensor, str]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for tensor, term in operands:
        shape: Shape = node.static(tensor)
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    return sizes
