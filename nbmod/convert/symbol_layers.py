"""The layers of a symbol that have parameters, in the order in which PyTorch constructs them.

That is an order of computation in which, where branches meet, the one with the most layers comes
first: the layers of a residual block before those of its shortcut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..graph import Graph, Node
from ..ops.shape import PartialShape
from ..passes.infer import infer_shape
from ..symbol import Symbol

__all__ = ["SymbolLayer", "fits", "interchangeable", "layers_of"]

_KINDS = {"Convolution": "product", "Deconvolution": "product", "FullyConnected": "product",
          "Embedding": "product", "BatchNorm": "norm", "BatchNorm_v1": "norm",
          "_contrib_SyncBatchNorm": "norm", "LayerNorm": "affine", "InstanceNorm": "affine",
          "GroupNorm": "affine", "LeakyReLU": "scale"}
_ROLES = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias",
          "moving_mean": "running_mean", "moving_var": "running_var"}
"""Inputs of operators, and how PyTorch calls them."""


@dataclass(frozen=True)
class SymbolLayer:
    """A node with parameters: their names and shapes by the names that PyTorch has for them."""

    name: str
    kind: str
    names: dict[str, str]
    shapes: dict[str, PartialShape]
    fix_gamma: bool

    @property
    def shape(self) -> PartialShape:
        return self.shapes.get("weight")

    def __str__(self) -> str:
        shapes = ", ".join(f"{self.names[role]} {shape or 'of unknown shape'}"
                           for role, shape in self.shapes.items())
        return f"{self.name!r} ({shapes})"


def fits(shape: PartialShape, weight: tuple[int, ...]) -> bool:
    """Whether a weight of shape `weight` can be one of `shape`, with 0 for what is not known.

    Dense layers and convolutions of 1x1 are the same.
    """
    if shape is None:
        return True
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    while len(weight) > 2 and weight[-1] == 1:
        weight = weight[:-1]
    return len(shape) == len(weight) and all(
        known in (0, dim) for known, dim in zip(shape, weight, strict=True))


def layers_of(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]
              ) -> tuple[list[SymbolLayer], list[Node]]:
    """The layers, and their nodes; `shapes` are those of inputs, as far as known."""
    graph = Graph(symbol.entries)
    entry_shapes = infer_shape(graph, dict(shapes))
    by_name = {node.name: entry_shapes[graph.output_eids(node)[0]] for node in graph.variables}
    layers, nodes, seen = [], [], set[str]()
    for node in _in_order(graph):
        names = {role: name for role, name in _parameters(node).items() if name not in seen}
        if names:
            seen.update(names.values())
            layers.append(SymbolLayer(
                node.name, _KINDS[node.op_name], names,
                {role: by_name[name] for role, name in names.items()},
                bool(getattr(node.op, "fix_gamma", False))))
            nodes.append(node)
    return layers, nodes


def _parameters(node: Node) -> dict[str, str]:
    """Names of the variables that a layer reads as parameters, by PyTorch's names of them."""
    if node.op is None or node.op_name not in _KINDS:
        return {}
    return {_ROLES[role]: entry.node.name
            for role, entry in zip(node.op.list_inputs(), node.inputs, strict=True)
            if role in _ROLES and entry.node.is_variable}


def _in_order(graph: Graph) -> Iterator[Node]:
    """Nodes in an order of computation, those of the branch with the most layers first."""
    depths: dict[int, int] = {}
    for node in graph.nodes:
        before = max((depths[id(entry.node)] for entry in node.inputs), default=0)
        depths[id(node)] = before + bool(_parameters(node))
    done: set[int] = set()
    waiting = [entry.node for entry in reversed(graph.outputs)]
    while waiting:
        node = waiting[-1]
        left = [] if id(node) in done else [entry.node for entry in node.inputs
                                            if id(entry.node) not in done]
        if left:
            waiting.append(max(left, key=lambda one: depths[id(one)]))    # the first of several
            continue
        waiting.pop()
        if id(node) not in done:
            done.add(id(node))
            yield node


def interchangeable(symbol: Symbol, layers: Sequence[SymbolLayer], nodes: Sequence[Node]
                    ) -> list[tuple[int, int, bool]]:
    """Positions of layers in branches that meet, which neither order nor shapes tell apart.

    In each pair the second is in the branch with fewer layers; the flag says whether that is the
    shortcut of a sum, which names can tell.
    """
    position = {id(node): i for i, node in enumerate(nodes)}
    before: dict[int, int] = {}    # the layers that a node depends on, as bits
    pairs: dict[tuple[int, int], bool] = {}
    for node in Graph(symbol.entries).nodes:
        branches = [before[id(entry.node)] for entry in node.inputs
                    if not entry.node.is_variable]
        own = 1 << position[id(node)] if id(node) in position else 0
        before[id(node)] = own
        for branch in branches:
            before[id(node)] |= branch
        branches.sort(key=lambda bits: -bits.bit_count())
        for longer, shorter in combinations(branches, 2):
            for second in _bits(shorter & ~longer):
                for first in _bits(longer & ~shorter):
                    if (layers[first].kind == layers[second].kind
                            and layers[first].shape == layers[second].shape):
                        pairs.setdefault((first, second), "add" in node.op_name.lower()
                                         or "plus" in node.op_name.lower())
    return [(first, second, is_sum) for (first, second), is_sum in pairs.items()]


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
