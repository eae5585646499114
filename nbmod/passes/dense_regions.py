"""Contraction of the dense parts of a network with sparse arrays.

What is stored of a sparse array differs from batch to batch, so its nodes run one by one.  All
others are as in any network: planned and fused, if they are together.  A node is *dense* if its
inputs and outputs, and all gradients on its behalf, are.  The *level* of a node is the largest
number of times that a path to it goes from a sparse node to a dense one; the dense nodes of a level
are a region:

    csr -> dot -> add -> relu -> [retain] -> fc      level of add and relu 1, of fc 2
    sparse sparse dense  dense   sparse      dense

What a region reads is of lower levels, or sparse nodes of them, so the contracted graph has no
cycle, and has as few regions as a path has changes from sparse to dense.  A node without inputs,
such as the zeros of a first state, whose shape may follow from its readers alone, is of the level
of the first reader; it is in no region if all readers of this level are sparse.

Assumes: no node is on another device; checked in
`execution.sparse_program._require_supported`.  Names of nodes may coincide: `_unlike` gives every
input of a region one of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, count

from ..graph import Entry, Graph, Node
from ..ops.internal import ZeroGradient
from ..ops.op import Spec
from ..ops.sparse.dense_region import DenseRegion
from .gradient import gradient
from .infer import Inferred, infer_specs
from .infer_storage import Letters

__all__ = ["dense_nodes", "dense_regions", "expanded"]

SMALLEST = 2
"""Nodes of a region: one that is alone runs by itself, unless it is a loop or a branch."""


def dense_nodes(graph: Graph, gradients: Graph, letters: Letters) -> set[int]:
    """The nodes that read, compute and pass on gradients as dense arrays alone, by `id`."""
    own = {id(node) for node in graph.nodes}
    dense = {id(node) for node in graph.nodes if node.op is not None}
    for node in [*graph.nodes, *gradients.nodes]:
        if node.op is None:
            continue
        entries = [*node.inputs, *(Entry(node, index) for index in range(node.num_outputs))]
        if node.op.makes_sparse or any(letters[entry] != "d" for entry in entries):
            while id(node) not in own and node.source is not None:
                node = node.source
            dense.discard(id(node))
    return dense


def dense_regions(network: Inferred, dense: Collection[int], trained: Collection[str]) -> Graph:
    """The graph of a network with a `DenseRegion` for the dense nodes of each level.

    Gradients of the variables in `trained` are asked for.  The graph stays as it is where random
    numbers would be drawn in another order.
    """
    graph = network.graph
    levels = _levels(graph, dense)
    dense = {*dense} - _apart(graph, dense, levels)
    order = sorted((node for node in graph.nodes if node.op is not None),
                   key=lambda node: (levels[id(node)], id(node) not in dense))
    new: dict[Entry, Entry] = {Entry(node): Entry(node) for node in graph.variables}
    for level in range(max(levels.values(), default=0) + 1):
        members = [node for node in order if levels[id(node)] == level]
        region = [node for node in members if id(node) in dense]
        if len(region) >= SMALLEST or any(node.required_op.runs_subgraphs for node in region):
            op, inputs, outputs = _region(network, region, trained)
            region_node = Node(op, f"dense{level}", [new[entry] for entry in inputs])
            new.update({entry: Entry(region_node, index) for index, entry in enumerate(outputs)})
            members = members[len(region):]
        _copy(members, new)
    contracted = Graph([new[entry] for entry in graph.outputs])
    # A loop can only run in a region.
    keeps = _draws(contracted) == _draws(graph) or any(node.runs_subgraphs for node in graph.nodes)
    return contracted if keeps else graph


def _draws(graph: Graph) -> list[tuple[str, int]]:
    """The nodes that draw random numbers, and `id`s of their ops, in the order in which they run.
    """
    run = chain.from_iterable(node.op.body.nodes if isinstance(node.op, DenseRegion) else [node]
                              for node in graph.nodes)
    return [(node.name, id(node.op)) for node in run if node.op is not None and node.op.may_draw]


def expanded(graph: Graph) -> Graph:
    """`graph` with the nodes of its regions instead of these: that which `dense_regions` got."""
    new: dict[Entry, Entry] = {Entry(node): Entry(node) for node in graph.variables}
    for node in graph.nodes:
        if node.op is None:
            continue
        if isinstance(op := node.op, DenseRegion):
            inputs = dict(zip(op.names, [new[entry] for entry in node.inputs], strict=True))
            inner = {Entry(leaf): inputs.get(leaf.name, Entry(leaf)) for leaf in op.body.variables}
            _copy(op.body.nodes, inner)
            new.update({Entry(node, i): inner[entry] for i, entry in enumerate(op.body.outputs)})
        else:
            _copy([node], new)
    return Graph([new[entry] for entry in graph.outputs])


def _copy(nodes: Sequence[Node], new: dict[Entry, Entry]) -> None:
    """Clone nodes that read the entries of `new`, and enter their outputs there."""
    for node in nodes:
        if node.op is not None:
            clone = node.clone([new[entry] for entry in node.inputs], node.source)
            new.update({Entry(node, index): Entry(clone, index)
                        for index in range(node.num_outputs)})


def _levels(graph: Graph, dense: Collection[int]) -> dict[int, int]:
    levels: dict[int, int] = {}
    for node in graph.nodes:
        levels[id(node)] = max((
            levels[id(source)] + (id(node) in dense and id(source) not in dense
                                  and not source.is_variable)
            for source, _ in node.inputs), default=0)
    first: dict[int, int] = {}
    for source, reader in _begins(graph):
        first[id(source)] = min(levels[id(reader)], first.get(id(source), levels[id(reader)]))
    return {**levels, **first}


def _begins(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Nodes without inputs, each with every node that reads it."""
    return ((source, node) for node in graph.nodes for source, _ in node.inputs
            if source.op is not None and not source.inputs)


def _apart(graph: Graph, dense: Collection[int], levels: Mapping[int, int]) -> set[int]:
    """The nodes without inputs that no dense node of their level reads, by `id`."""
    begins = {id(node) for node in graph.nodes if node.op is not None and not node.inputs}
    return begins - {id(source) for source, reader in _begins(graph) if id(reader) in dense
                     and levels[id(reader)] == levels[id(source)]}


def _region(network: Inferred, nodes: Sequence[Node], trained: Collection[str]
            ) -> tuple[DenseRegion, list[Entry], list[Entry]]:
    """An op that computes `nodes`, the entries that it reads, and those that are its outputs."""
    inside = {id(node) for node in nodes}
    outputs = _read_outside(network.graph, inside)
    leaves, body = _body(nodes, inside, outputs, {node.name for node in network.graph.variables})
    known = {Entry(leaf): _spec(network, entry) for entry, leaf in leaves.items()}
    known.update({output: _spec(network, entry)
                  for output, entry in zip(body.outputs, outputs, strict=True)})
    # Arguments without a gradient and states are read where they are.
    inputs = {entry: leaf for entry, leaf in leaves.items()
              if not entry.node.is_variable or entry.node.name in trained}
    heads = [Node(None, "head") for _ in outputs]
    grads = gradient(body, [*inputs.values()], [*map(Entry, heads)])
    read = {id(node) for node in Graph(grads).variables}
    op = DenseRegion(body, infer_specs(body, known), [leaf.name for leaf in inputs.values()],
                     [not isinstance(entry.node.op, ZeroGradient) for entry in grads],
                     [index for index, head in enumerate(heads) if id(head) in read],
                     any(map(_starts, nodes)))
    return op, [*inputs], outputs


def _spec(network: Inferred, entry: Entry) -> Spec:
    return network.specs[network.graph.eid(entry)]


def _read_outside(graph: Graph, inside: Collection[int]) -> list[Entry]:
    """Entries of the nodes `inside` that others read, or that are outputs."""
    read = [entry for node in graph.nodes if id(node) not in inside for entry in node.inputs]
    return [*dict.fromkeys(entry for entry in (*read, *graph.outputs) if id(entry.node) in inside)]


def _body(nodes: Sequence[Node], inside: Collection[int], outputs: Sequence[Entry],
          taken: set[str]) -> tuple[Mapping[Entry, Node], Graph]:
    """A graph of `nodes`, and its variables by the entries that these stand for.

    Names of nodes may be equal, and like those of variables, which are `taken`; variables have a
    name each.
    """
    leaves: dict[Entry, Node] = {}
    copies: dict[int, Node] = {}

    def current(entry: Entry) -> Entry:
        if id(entry.node) in inside:
            return Entry(copies[id(entry.node)], entry.index)
        if entry not in leaves:
            leaves[entry] = entry.node if entry.node.is_variable else Node(
                None, _unlike(taken, f"{entry.node.name}:{entry.index}"))
        return Entry(leaves[entry])

    for node in nodes:
        copies[id(node)] = node.clone([*map(current, node.inputs)], None)
    return leaves, Graph([*map(current, outputs)])


def _unlike(taken: set[str], name: str) -> str:
    """`name`, or one with a number that is not taken; it is from now on."""
    names = chain([name], (f"{name}:{number}" for number in count(1)))
    new_name = next(each for each in names if each not in taken)
    taken.add(new_name)
    return new_name


def _starts(node: Node) -> bool:
    """Whether a node is a loss layer, which starts a gradient without one of its output."""
    op = node.required_op
    return bool(op.list_needs()) and not op.head_gradients()
