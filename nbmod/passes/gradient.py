"""Reverse-mode differentiation: a forward graph in, gradient entries out.

Walk the nodes from the outputs back.  A node whose outputs have gradients contributes to the
gradients of its inputs, either through one generic `Backward` node, whose inputs are what the op
declares in `needs`, or through whatever nodes the op's own `gradient` builds.  Contributions that
meet at one entry are summed by `_grad_add` nodes in the order in which they arrive.

A `Backward` node is differentiated in one of three ways.  Its op may decompose it into other nodes,
through which the gradient then flows as through any.  A forward that is affine, or a product of two
inputs, needs no decomposition: such a `Backward` is a product of the same kind, whose gradients are
forward and `Backward` nodes again.

Loss layers read no head gradient, so they start a gradient of their own wherever they are, even
under an op that passes none on (as in MXNet: BlockGrad over SoftmaxOutput still trains).

Assumes: nothing of entries being different: inputs of a node, outputs, head gradients and `wrt` may
coincide, and outputs may be variables; checked in `_flow`, which adds up by entry, and `_through`,
which gives what flows to an entry to one position.  That a decomposition reads only what its
`Backward` reads; checked in `_require_known`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..base import MXNetError
from ..graph import Entry, Graph, Node, topological_order
from ..ops import OPS
from ..ops.internal import ZeroGradient
from ..ops.op import Backward, Op, resolve_needs

__all__ = ["gradient", "reads"]


def gradient(graph: Graph, wrt: Sequence[Node], heads: Sequence[Entry]) -> list[Entry]:
    """Gradient entry of every variable in `wrt`, given the gradients `heads` of the outputs.

    A variable the outputs do not depend on, or only through ops without gradient, gets a
    `ZeroGradient` node.  The entries may coincide, or be head gradients themselves.
    """
    grads = _flow(graph.nodes, [Entry(variable) for variable in wrt], graph.outputs, heads)
    return [grad or _zero(variable, 0) for variable, grad in zip(wrt, grads, strict=True)]


def _flow(nodes: Sequence[Node], wrt: Sequence[Entry], outputs: Sequence[Entry],
          heads: Sequence[Entry]) -> list[Entry | None]:
    """Gradients of the entries `wrt`, from `outputs` back through `nodes` in topological order."""
    ends = set(wrt)
    dependents: set[int] = set()
    for node in nodes:  # those from which an entry of `wrt` can be reached
        if any(entry in ends or id(entry.node) in dependents for entry in node.inputs):
            dependents.add(id(node))
    contributions: dict[Entry, list[Entry]] = {}
    for output, head in zip(outputs, heads, strict=True):
        contributions.setdefault(output, []).append(head)
    for node in reversed(nodes):
        if node.op is None or id(node) not in dependents:
            continue
        ograds = [_total(contributions, Entry(node, i)) for i in range(node.num_visible)]
        for entry, grad in zip(node.inputs, _input_gradients(node, ograds), strict=False):
            if grad is not None and (entry in ends or id(entry.node) in dependents):
                contributions.setdefault(entry, []).append(grad)
    return [_total(contributions, entry) for entry in wrt]


def _total(contributions: dict[Entry, list[Entry]], entry: Entry) -> Entry | None:
    """The sum of what arrived at `entry`, None if nothing did."""
    parts = contributions.get(entry)
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = Entry(Node(OPS["_grad_add"](), f"{entry.node.name}_grad_add", [total, part],
                           source=entry.node))
    parts[:] = [total]
    return total


def _zero(node: Node, index: int) -> Entry:
    return Entry(Node(ZeroGradient(index), f"{node.name}_zero_grad", source=node))


def _input_gradients(node: Node, ograds: list[Entry | None]) -> Sequence[Entry | None]:
    """The contribution of `node` to the gradient of each of its inputs, or None."""
    op = node.required_op
    reads = op.head_gradients()
    if not any(grad is not None for grad in ograds) and (reads or not op.list_needs()):
        return ()
    grads = _second(node, ograds) if isinstance(op, Backward) else op.gradient(node, ograds)
    if grads is not None:
        # All nodes between its `ograds` and `grads` are there on behalf of `node`.
        contributions = [entry for entry in grads if entry is not None]
        known = [node, *(entry.node for entry in (*ograds, *node.inputs) if entry is not None)]
        for new in topological_order(contributions, known):
            new.source = new.source or node
        return grads
    if not op.list_needs():
        return ()
    filled = [grad if grad is not None or i not in reads else _zero(node, i)
              for i, grad in enumerate(ograds)]
    return _backward_node(node, op, filled)


def reads(op: Op) -> tuple[tuple[str, int], ...]:
    """Inputs and outputs that the gradient of `op` reads: ("in" or "out", index) each."""
    if isinstance(op, Backward):
        return tuple(("in", index) for index in range(len(op.list_inputs())))
    if type(op).gradient is Op.gradient:
        return tuple((kind, index) for _, kind, index in resolve_needs(op) if kind != "ograd")
    return _reads_of_gradient(op)


@lru_cache(maxsize=4096)
def _reads_of_gradient(op: Op) -> tuple[tuple[str, int], ...]:
    """`reads` of an op with a `gradient` of its own, which is built and searched."""
    node = Node(op, op.name, [Entry(Node(None, name)) for name in op.list_inputs()])
    heads: list[Entry | None] = [Entry(Node(None, "head")) for _ in range(op.num_visible)]
    grads = [entry for entry in _input_gradients(node, heads) if entry is not None]
    users = [user for user in topological_order(grads) if user is not node]
    reads = [*grads, *(entry for user in users for entry in user.inputs)]
    ins = [("in", index) for index, entry in enumerate(node.inputs) if entry in reads]
    outs = [("out", index) for index in range(node.num_outputs) if Entry(node, index) in reads]
    return (*ins, *outs)


def _backward_node(node: Node, op: Op, ograds: list[Entry | None]) -> list[Entry | None]:
    names, inputs = [], []
    for name, kind, index in resolve_needs(op):
        entry = (ograds[index] if kind == "ograd" else
                 node.inputs[index] if kind == "in" else Entry(node, index))
        assert entry is not None
        names.append(name)
        inputs.append(entry)
    backward = Node(Backward(op, len(node.inputs), names), f"{node.name}_backward", inputs,
                    source=node)
    aux = op.aux_indices()
    return [None if i in aux else Entry(backward, i) for i in range(len(node.inputs))]


# -- gradients of gradients -----------------------------------------------------------------

Gradients = list[Entry | None]


def _second(node: Node, ograds: Gradients) -> Gradients:
    """Gradients of the inputs of a `Backward` node."""
    assert isinstance(node.op, Backward)
    fwd = node.op.fwd
    decomposed = fwd.decompose_backward(node)
    if decomposed is not None:
        return _through(node, decomposed, ograds)
    read = {name for name in node.op.list_inputs() if not name.startswith("ograd")}
    if not fwd.is_opaque:
        if fwd.bilinear and read <= set(fwd.bilinear):
            return _of_product(node, ograds)
        if read <= set(fwd.index_inputs):
            return _of_affine(node, ograds)
    raise MXNetError(f"{fwd.name} has no second derivative: its gradient cannot be differentiated")


def _through(node: Node, decomposed: Gradients, ograds: Gradients) -> Gradients:
    """Gradients of the inputs of `node` through the nodes into which it is decomposed."""
    pairs = [(output, grad) for output, grad in zip(decomposed, ograds, strict=True)
             if output is not None and grad is not None]
    outputs = [output for output, _ in pairs]
    between = topological_order(outputs, [entry.node for entry in node.inputs])
    for new in between:
        new.source = new.source or node
    each = [*dict.fromkeys(node.inputs)]
    _require_known(node, {*each}, between, outputs)
    grads = dict(zip(each, _flow(between, each, outputs, [grad for _, grad in pairs]), strict=True))
    # What flows to an entry is the sum over all positions at which it is read: given once.
    return [grads.pop(entry, None) for entry in node.inputs]


def _require_known(node: Node, known: set[Entry], between: Sequence[Node],
                   outputs: Sequence[Entry]) -> None:
    """MXNetError if a decomposition reads what `node` does not: that would get no gradient."""
    inside = {id(new) for new in between if new.op is not None}
    for entry in (*outputs, *(entry for new in between for entry in new.inputs)):
        if entry not in known and id(entry.node) not in inside:
            raise MXNetError(f"{node.describe()}: what its backward is decomposed into reads "
                             f"{entry.node.describe()}, which it does not read itself; expected "
                             "what `needs` names")


def _of_affine(node: Node, ograds: Gradients) -> Gradients:
    """g -> A'g is linear, and so is its gradient A v = forward(v) - forward(0)."""
    fwd, needs = _needs(node)
    indices = {index: entry for kind, index, entry in needs if kind == "in"}
    at_v, at_0 = (_forward(node, [indices.get(i, v) for i, v in enumerate(vector)])
                  for vector in (ograds, [None] * len(ograds)))
    return [Entry(Node(OPS["elemwise_sub"](), f"{node.name}_linear",
                       [Entry(at_v, index), Entry(at_0, index)])) if kind == "ograd" else None
            for kind, index, _ in needs]


def _of_product(node: Node, ograds: Gradients) -> Gradients:
    """For forward f(a, b) the gradients of a and b along (u, v) are those of f(u, b) + f(a, v)."""
    fwd, needs = _needs(node)
    first, second = (fwd.list_inputs().index(name) for name in fwd.bilinear)
    values = {index: entry for kind, index, entry in needs if kind == "in"}
    u, v, other = ograds[first], ograds[second], [*ograds]
    other[first], other[second] = u, values[second]
    parts = [Entry(_forward(node, other))]
    if v is not None:
        swapped: Gradients = [None] * len(ograds)
        swapped[first], swapped[second] = values[first], v
        parts.append(Entry(_forward(node, swapped)))
    along = {first: v and _backward_along(node, {second: v}, first),
             second: u and _backward_along(node, {first: u}, second)}
    total = parts[0] if len(parts) == 1 else Entry(
        Node(OPS["_grad_add"](), f"{node.name}_grad_add", parts))
    return [total if kind == "ograd" else along[index] for kind, index, _ in needs]


def _needs(node: Node) -> tuple[Op, list[tuple[str, int, Entry]]]:
    """The op whose gradient a `Backward` node is, and (kind, index, entry) of all that it reads."""
    assert isinstance(node.op, Backward)
    fwd = node.op.fwd
    return fwd, [(kind, index, entry) for (_, kind, index), entry
                 in zip(resolve_needs(fwd), node.inputs, strict=True)]


def _forward(node: Node, vector: Sequence[Entry | None]) -> Node:
    """The forward op of a `Backward` node, over arrays like what that computes (None: zeros)."""
    fwd, _ = _needs(node)
    return Node(fwd, f"{node.name}_forward",
                [_zero(node, i) if entry is None else entry for i, entry in enumerate(vector)])


def _backward_along(node: Node, changed: Mapping[int, Entry], position: int) -> Entry:
    """Gradient `position` of a `Backward` node that reads other inputs in place of its own."""
    fwd, needs = _needs(node)
    inputs = [changed.get(index, entry) if kind == "in" else entry for kind, index, entry in needs]
    assert isinstance(node.op, Backward)
    shapes = Node(fwd, node.name, [Entry(node, i) for i in range(node.num_outputs)], source=node)
    op = Backward(fwd, node.num_outputs, node.op.list_inputs())
    return Entry(Node(op, f"{node.name}_backward", inputs, source=shapes), position)
