"""Pattern matching: find the cells of unrolled recurrent networks in a graph.

A *step* is one application of a cell: two dense layers, one of the input (i2h) and one of the
previous output (h2h), and the gates that combine them, as `nbmod.rnn`, Gluon and older scripts
write them:

    rnn_tanh, rnn_relu    h = act(i2h + h2h)
    lstm    i, f, u, o = split(i2h + h2h);  c = sigmoid(f) c' + sigmoid(i) tanh(u);
            h = sigmoid(o) tanh(c)
    gru     i, j = split(i2h), split(h2h);  r, z = sigmoid(i0 + j0), sigmoid(i1 + j1);
            h = (1 - z) tanh(i2 + r j2) + z h'

Factors and terms match in either order, the gates of lstm in any, r and z of gru in either; a
layer need not have a bias.  A *chain* is a list of steps that apply one cell (`CellKind`), each of
which reads the output (and the cell state) of the one before it.  Nothing else may read
intermediate results, so that one node can replace the chain (`reroll_rnn`).

Assumes: all steps, the first included, apply one cell in one way, and gru blends the state that h2h
reads (`CellStep.cells`, `_chains`); nothing reads a step's inside (`find_chains`) or an inner cell
state (`_gap`); no step of a chain depends on a later one (`reroll_rnn._chain_last`); shapes
and types are those of a layer (`reroll_rnn._state_spec`).

Patterns are matched backwards from h: every matcher is a generator of the ways in which an entry
can be a step, and the first one whose dense layers fit is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from ...graph import Entry, Graph, Node
from ..remarks import Obstacle, obstacle, refused
from .analysis import count_uses

if TYPE_CHECKING:
    from ...ops.nn.activation import Activation
    from ...ops.nn.fully_connected import FullyConnected
    from ...ops.tensor.slicing import SliceChannel

__all__ = ["CellChain", "CellKind", "CellStep", "Dense", "find_chains"]

SUMS = frozenset({"elemwise_add", "broadcast_add"})
DIFFERENCES = frozenset({"elemwise_sub", "broadcast_sub"})
PRODUCTS = frozenset({"elemwise_mul", "broadcast_mul"})
MIN_STEPS = 2
"""A shorter chain stays as it is."""


Weights = tuple[Entry, Entry | None]
"""Weight and bias of a dense layer."""


class Dense(NamedTuple):
    """The inputs of a FullyConnected node, and its number of hidden units."""

    data: Entry
    weight: Entry
    bias: Entry | None
    rows: int

    @property
    def weights(self) -> Weights:
        return self.weight, self.bias


class CellKind(NamedTuple):
    """Properties that all steps of a chain share; `mode` and `order` as in `CellStep`."""

    mode: str
    order: tuple[int, ...]
    i2h: Weights
    h2h: Weights


class CellStep(NamedTuple):
    """`h` from two dense layers.

    mode    as in the op RNN: rnn_tanh, rnn_relu, lstm, gru
    order   positions of the gates in the output of the layers: i, f, u, o; or r, z, candidate
    layers  for gru (i2h, h2h); otherwise they look alike, and only a chain tells which is which
    before  the other state that is read: c' for lstm, h' for gru
    state   c for lstm
    inside  all nodes of the step
    """

    mode: str
    order: tuple[int, ...]
    layers: tuple[Dense, Dense]
    h: Entry
    before: Entry | None
    state: Entry | None
    inside: list[Node]

    @property
    def mismatch(self) -> Obstacle | None:
        """The reason why the step applies no cell that a layer has."""
        first, second = self.layers
        if first.weights == second.weights:
            return obstacle("i2h and h2h have weights of their own", weight=first.weight)
        if self.mode == "gru" and self.before != second.data:
            return obstacle("gru blends the state that h2h reads", blends=self.before,
                            reads=second.data)
        return None

    @property
    def cells(self) -> dict[int, CellKind]:
        """The cell that the step applies if layer k is h2h, for every k that may be.

        None where `mismatch` says why.
        """
        first, second = self.layers
        if self.mismatch is not None:
            return {}
        cells = {1: CellKind(self.mode, self.order, first.weights, second.weights)}
        if self.mode != "gru":
            cells[0] = CellKind(self.mode, self.order, second.weights, first.weights)
        return cells


class CellChain(NamedTuple):
    """Consecutive steps that apply `cell`; `recurrent` is the index of the h2h layer of each."""

    cell: CellKind
    steps: list[CellStep]
    recurrent: list[int]

    @property
    def h2h(self) -> list[Dense]:
        return [step.layers[k] for step, k in zip(self.steps, self.recurrent, strict=True)]

    @property
    def i2h(self) -> list[Dense]:
        return [step.layers[1 - k] for step, k in zip(self.steps, self.recurrent, strict=True)]


# -- a step ---------------------------------------------------------------------------------------

Match = tuple[str, tuple[int, ...], Entry, Entry, Entry | None, Entry | None]
"""Mode, order, outputs of the two dense layers, before, state: see `CellStep`."""


def _operands(entry: Entry, names: frozenset[str]) -> list[tuple[Entry, Entry]]:
    """Both orders of the operands of a sum or product; [] if `entry` is something else."""
    if entry.node.op_name not in names:
        return []
    a, b = entry.node.inputs
    return [(a, b), (b, a)]


def _argument(entry: Entry, function: str) -> Entry | None:
    """x where `entry` is function(x), else None."""
    name = entry.node.op_name
    if name == "Activation":
        name = cast("Activation", entry.node.op).act_type
    return entry.node.inputs[0] if name == function else None


def _dense(entry: Entry) -> Dense | None:
    if entry.node.op_name != "FullyConnected":
        return None
    data, weight, *bias = entry.node.inputs
    return Dense(data, weight, bias[0] if bias else None,
                 cast("FullyConnected", entry.node.op).num_hidden)


def _split(entries: Sequence[Entry | None]) -> tuple[Entry | None, tuple[int, ...]]:
    """The tensor that SliceChannel splits along axis 1 into exactly `entries`, and the position of
    each among its outputs; None if they are something else."""
    if entries[0] is None or entries[0].node.op_name != "SliceChannel":
        return None, ()
    node, op = entries[0].node, cast("SliceChannel", entries[0].node.op)
    order = tuple(entry.index for entry in entries if entry and entry.node is node)
    whole = len(order) == len(entries) and sorted(order) == list(range(node.num_outputs))
    if not whole or op.axis not in (1, -1) or op.squeeze_axis:
        return None, ()
    return node.inputs[0], order


def _match_lstm(h: Entry) -> Iterator[Match]:
    # h = sigmoid(o) tanh(c)
    for show, shown in _operands(h, PRODUCTS):
        c = _argument(shown, "tanh")
        # c = sigmoid(f) c' + sigmoid(i) tanh(u)
        for keep, write in _operands(c, SUMS) if c else ():
            for f, before in _operands(keep, PRODUCTS):
                for i, u in _operands(write, PRODUCTS):
                    # i, f, u, o = split(i2h + h2h)
                    gates, order = _split([_argument(i, "sigmoid"), _argument(f, "sigmoid"),
                                           _argument(u, "tanh"), _argument(show, "sigmoid")])
                    for i2h, h2h in _operands(gates, SUMS)[:1] if gates else ():
                        yield "lstm", order, i2h, h2h, before, c


def _match_gru(h: Entry) -> Iterator[Match]:
    # h = (1 - z) tanh(a) + z h'
    for new, old in _operands(h, SUMS):
        for z, before in _operands(old, PRODUCTS):
            for rest, candidate in _operands(new, PRODUCTS):
                a = _argument(candidate, "tanh") if _is_one_minus(rest, z) else None
                # a = i2 + r j2
                for i2, reset in _operands(a, SUMS) if a else ():
                    for r, j2 in _operands(reset, PRODUCTS):
                        yield from _match_gru_gates(r, z, i2, j2, before)


def _is_one_minus(entry: Entry, z: Entry) -> bool:
    """Whether `entry` is 1 - z."""
    if entry.node.op_name == "_rminus_scalar":
        return getattr(entry.node.op, "scalar", None) == 1 and entry.node.inputs == [z]
    if entry.node.op_name not in DIFFERENCES:
        return False
    ones, other = entry.node.inputs
    if other != z or ones.node.op_name != "ones_like":
        return False
    # In inference `ones_like` reads a shape alone (`hoist_constants`); a plain `-` makes it z's.
    return ones.node.inputs == [z] or (entry.node.op_name == "elemwise_sub" and
                                       ones.node.inputs[0].node.op_name == "_unread")


def _match_gru_gates(r: Entry, z: Entry, i2: Entry, j2: Entry, before: Entry) -> Iterator[Match]:
    """r, z = sigmoid(i0 + j0), sigmoid(i1 + j1), where i, j = split(i2h), split(h2h)."""
    sums = [_argument(r, "sigmoid"), _argument(z, "sigmoid")]
    for i0, j0 in _operands(sums[0], SUMS) if sums[0] else ():
        for i1, j1 in _operands(sums[1], SUMS) if sums[1] else ():
            (i2h, order), (h2h, other) = _split([i0, i1, i2]), _split([j0, j1, j2])
            if i2h and h2h and order == other and order[2] == 2:
                yield "gru", order, i2h, h2h, before, None


def _match_plain(h: Entry) -> Iterator[Match]:
    """h = act(i2h + h2h)."""
    for function in ("tanh", "relu"):
        a = _argument(h, function)
        for i2h, h2h in _operands(a, SUMS)[:1] if a else ():
            yield f"rnn_{function}", (0,), i2h, h2h, None, None


def _step(h: Entry) -> CellStep | None:
    """The step whose output is `h`."""
    for match in (_match_lstm, _match_gru, _match_plain):
        for mode, order, i2h, h2h, before, state in match(h):
            first, second = _dense(i2h), _dense(h2h)
            if first and second and first.rows == second.rows:
                borders = {*first[:3], *second[:3], before}
                return CellStep(mode, order, (first, second), h, before, state, _inside(h, borders))
    return None


def _inside(h: Entry, borders: set[Entry | None]) -> list[Node]:
    """All nodes that `h` depends on, without those of `borders` and before."""
    nodes, stack = {h.node: None}, [h.node]
    while stack:
        for entry in stack.pop().inputs:
            if entry not in borders and entry.node not in nodes:
                nodes[entry.node] = None
                stack.append(entry.node)
    return list(nodes)


# -- chains ---------------------------------------------------------------------------------------

def find_chains(graph: Graph) -> list[CellChain]:
    """The longest chains of steps of which nothing else reads intermediate results."""
    # Without a weight that is shared by several layers there is no chain.
    shared = Counter(node.inputs[1] for node in graph.nodes if node.op_name == "FullyConnected")
    if max(shared.values(), default=0) < MIN_STEPS:
        return []
    uses = count_uses(graph)
    steps = _steps(graph, uses, shared)
    links = _links(steps, uses)
    # Chains begin with steps that continue no other one.
    continued = {after.h for after, _ in links.values()}
    return [chain for step in steps.values() if step.h not in continued
            for chain in _chains(step, links)]


def _steps(graph: Graph, uses: Counter[Entry], shared: Counter[Entry]) -> dict[Entry, CellStep]:
    """All steps, by their output, of which other nodes read nothing but h and c.

    `shared` counts the layers that have a weight."""
    steps = {}
    for node in graph.nodes:
        step = _step(Entry(node)) if node.op is not None else None
        if step is None:
            continue
        inside = _uses_inside(step)
        read = next((entry for part in step.inside
                     for entry in (Entry(part, i) for i in range(part.num_outputs))
                     if entry not in (step.h, step.state) and uses[entry] != inside[entry]), None)
        if read is None:
            steps[step.h] = step
        elif any(shared[layer.weight] >= MIN_STEPS for layer in step.layers):
            refused("reroll_rnn", node, obstacle("nothing else reads the inside of a step",
                                                 read=read))
    return steps


def _uses_inside(step: CellStep) -> Counter[Entry]:
    """How often the nodes of a step read each entry."""
    return Counter(entry for node in step.inside for entry in node.inputs)


def _links(steps: dict[Entry, CellStep], uses: Counter[Entry]) -> dict[Entry, tuple[CellStep, int]]:
    """h of a step -> the step after it, and which of its layers reads h."""
    links: dict[Entry, tuple[CellStep, int]] = {}
    ambiguous = set()
    reasons: dict[Entry, Obstacle | None] = {}
    for step in steps.values():
        gaps = {k: _gap(step, k, cell, steps[step.layers[k].data], uses)
                for k, cell in step.cells.items() if step.layers[k].data in steps}
        recurrent = [k for k, gap in gaps.items() if gap is None]
        reasons[step.h] = step.mismatch or next(iter(gaps.values()), None)
        if len(recurrent) == 1:
            h = step.layers[recurrent[0]].data
            if h in links:
                ambiguous.add(h)
                fork = obstacle("one step continues another", before=h.node)
                reasons[links[h][0].h] = reasons[step.h] = fork
            links[h] = step, recurrent[0]
    links = {h: link for h, link in links.items() if h not in ambiguous}
    linked = {*links, *(step.h for step, _ in links.values())}
    for h, reason in reasons.items():
        if reason is not None and h not in linked:
            refused("reroll_rnn", h.node, reason)
    return links


def _gap(step: CellStep, k: int, cell: CellKind, last: CellStep, uses: Counter[Entry]
         ) -> Obstacle | None:
    """The reason why `step` does not continue `last`: layer k alone reads its h, it can apply the
    same cell, and lstm its c, which no other node may read."""
    if step.layers[1 - k].data == last.h:
        return obstacle("one layer reads the step before", step=last.h.node)
    if cell not in last.cells.values():
        return obstacle("steps apply one cell", step=last.h.node)
    c = last.state
    if c is None:
        return None
    if step.before != c:
        return obstacle("a step goes on with the cell state before", state=c)
    if uses[c] != _uses_inside(last)[c] + _uses_inside(step)[c]:
        return obstacle("nothing else reads a cell state", state=c)
    return None


def _chains(first: CellStep, links: dict[Entry, tuple[CellStep, int]]) -> Iterator[CellChain]:
    """The steps from `first` on, divided where the cell changes, such as where i2h and h2h change
    sides."""
    while first.h in links:
        step, k = links[first.h]  # tells which layer of the first step is h2h
        cell = step.cells[k]
        chain = CellChain(cell, [first], [i for i, each in first.cells.items() if each == cell])
        while first.h in links:
            first, k = links[first.h]
            if first.cells[k] != cell:
                break
            chain.steps.append(first)
            chain.recurrent.append(k)
        yield chain
