"""Finding unrolled recurrent cells in a graph.

A *step* is what a cell does once: two dense layers, one of the input and one of the previous
output, and the gates that combine them, as `nbmod.rnn`, Gluon and older scripts write them:

    rnn_tanh, rnn_relu    h = act(i2h + h2h)
    lstm    i, f, u, o = split(i2h + h2h);  c = sigmoid(f) c' + sigmoid(i) tanh(u);
            h = sigmoid(o) tanh(c)
    gru     i, j = split(i2h), split(h2h);  r, z = sigmoid(i0 + j0), sigmoid(i1 + j1);
            h = (1 - z) tanh(i2 + r j2) + z h'

Factors and terms may stand in either order, the gates of lstm in any, r and z of gru in either; a
layer need not have a bias.  A *chain* is a list of steps with the same weights, each of which reads
the output (and the cell state) of the one before it.  Nobody else may read what is between, which
is what lets another node do the work of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from ...graph import Entry, Graph, Node

__all__ = ["Chain", "Dense", "Step", "find_chains"]

SUMS = frozenset({"elemwise_add", "broadcast_add"})
DIFFERENCES = frozenset({"elemwise_sub", "broadcast_sub"})
PRODUCTS = frozenset({"elemwise_mul", "broadcast_mul"})
LEAST = 2
"""Steps of a chain."""


class Dense(NamedTuple):
    """A fully connected layer."""

    data: Entry
    weight: Entry
    bias: Entry | None
    rows: int


class Step(NamedTuple):
    """`h` from two dense layers; for gru the second one is h2h, otherwise only a chain tells.

    order   where the gates stand in what the layers give: i, f, u, o; or r, z, the candidate
    before  the state that is read besides: c' for lstm, h' for gru
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
    def weights(self) -> frozenset[tuple[Entry, Entry | None]]:
        return frozenset((layer.weight, layer.bias) for layer in self.layers)


class Chain(NamedTuple):
    """Steps one after another; `recurrent` is which of their layers is h2h, for each."""

    steps: list[Step]
    recurrent: list[int]

    @property
    def h2h(self) -> list[Dense]:
        return [step.layers[k] for step, k in zip(self.steps, self.recurrent, strict=True)]

    @property
    def i2h(self) -> list[Dense]:
        return [step.layers[1 - k] for step, k in zip(self.steps, self.recurrent, strict=True)]


# -- a step ---------------------------------------------------------------------------------------

def _pairs(entry: Entry, names: frozenset[str]) -> list[tuple[Entry, Entry]]:
    """Both orders of the operands of a sum or product; none if `entry` is something else."""
    if entry.node.op_name not in names:
        return []
    a, b = entry.node.inputs
    return [(a, b), (b, a)]


def _under(entry: Entry, function: str) -> Entry | None:
    """x where `entry` is function(x)."""
    op: Any = entry.node.op
    if op is None or (op.act_type if op.name == "Activation" else op.name) != function:
        return None
    return entry.node.inputs[0]


def _dense(entry: Entry) -> Dense | None:
    op: Any = entry.node.op
    if entry.node.op_name != "FullyConnected":
        return None
    data, weight, *bias = entry.node.inputs
    return Dense(data, weight, bias[0] if bias else None, op.num_hidden)


def _cut(entries: Sequence[Entry | None]) -> tuple[Entry | None, tuple[int, ...]]:
    """What was cut along axis 1 into `entries`, these and no others, and which piece each one is;
    None where they are something else."""
    if entries[0] is None or entries[0].node.op_name != "SliceChannel":
        return None, ()
    node, op = entries[0].node, cast(Any, entries[0].node.op)
    order = tuple(entry.index for entry in entries if entry and entry.node is node)
    whole = len(order) == len(entries) and sorted(order) == list(range(node.num_outputs))
    if not whole or op.axis not in (1, -1) or op.squeeze_axis:
        return None, ()
    return node.inputs[0], order


def _lstm(h: Entry) -> Iterator[tuple[Any, ...]]:
    for show, shown in _pairs(h, PRODUCTS):
        c = _under(shown, "tanh")
        for keep, write in _pairs(c, SUMS) if c else ():
            for f, before in _pairs(keep, PRODUCTS):
                for i, u in _pairs(write, PRODUCTS):
                    gates, order = _cut([_under(i, "sigmoid"), _under(f, "sigmoid"),
                                         _under(u, "tanh"), _under(show, "sigmoid")])
                    for i2h, h2h in _pairs(gates, SUMS)[:1] if gates else ():
                        yield "lstm", order, i2h, h2h, before, c


def _gru(h: Entry) -> Iterator[tuple[Any, ...]]:
    for new, old in _pairs(h, SUMS):
        for z, before in _pairs(old, PRODUCTS):
            for rest, candidate in _pairs(new, PRODUCTS):
                a = _under(candidate, "tanh") if _is_rest(rest, z) else None
                for i2, reset in _pairs(a, SUMS) if a else ():
                    for r, j2 in _pairs(reset, PRODUCTS):
                        yield from _gru_layers(r, z, i2, j2, before)


def _is_rest(entry: Entry, z: Entry) -> bool:
    """Whether `entry` is 1 - z."""
    op: Any = entry.node.op
    if entry.node.op_name == "_rminus_scalar":
        return op.scalar == 1 and entry.node.inputs == [z]
    if entry.node.op_name not in DIFFERENCES:
        return False
    ones, other = entry.node.inputs
    return other == z and ones.node.op_name == "ones_like" and ones.node.inputs == [z]


def _gru_layers(r: Entry, z: Entry, i2: Entry, j2: Entry, before: Entry
                ) -> Iterator[tuple[Any, ...]]:
    """The two dense layers behind the gates of gru."""
    sums = [_under(r, "sigmoid"), _under(z, "sigmoid")]
    for i0, j0 in _pairs(sums[0], SUMS) if sums[0] else ():
        for i1, j1 in _pairs(sums[1], SUMS) if sums[1] else ():
            (i2h, order), (h2h, other) = _cut([i0, i1, i2]), _cut([j0, j1, j2])
            if i2h and h2h and order == other and order[2] == 2:
                yield "gru", order, i2h, h2h, before, None


def _plain(h: Entry) -> Iterator[tuple[Any, ...]]:
    for function in ("tanh", "relu"):
        a = _under(h, function)
        for i2h, h2h in _pairs(a, SUMS)[:1] if a else ():
            yield f"rnn_{function}", (0,), i2h, h2h, None, None


def _step(h: Entry) -> Step | None:
    """The step that ends in `h`."""
    for match in (_lstm, _gru, _plain):
        for mode, order, i2h, h2h, before, state in match(h):
            first, second = _dense(i2h), _dense(h2h)
            if first and second and first.rows == second.rows:
                stop = {*first[:3], *second[:3], before}
                return Step(mode, order, (first, second), h, before, state, _between(h, stop))
    return None


def _between(h: Entry, stop: set[Entry | None]) -> list[Node]:
    """Nodes below `h`, as far as `stop`."""
    found, waiting = {h.node: None}, [h.node]
    while waiting:
        for entry in waiting.pop().inputs:
            if entry not in stop and entry.node not in found:
                found[entry.node] = None
                waiting.append(entry.node)
    return list(found)


# -- chains ---------------------------------------------------------------------------------------

def find_chains(graph: Graph) -> list[Chain]:
    """The longest chains of steps that nobody looks into."""
    dense = Counter(node.inputs[1] for node in graph.nodes if node.op_name == "FullyConnected")
    if max(dense.values(), default=0) < LEAST:
        return []
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    steps = {}
    for node in graph.nodes:
        step = _step(Entry(node)) if node.op is not None else None
        if step is not None and _is_closed(step, uses):
            steps[step.h] = step
    links = _links(steps, uses)
    chains = [_follow(step, links) for step in steps.values()
              if step.h not in {after.h for after, _ in links.values()}]
    return [chain for chain in chains if len(chain.steps) >= LEAST]


def _reads(step: Step) -> Counter[Entry]:
    """How often the nodes of a step read each entry."""
    return Counter(entry for node in step.inside for entry in node.inputs)


def _is_closed(step: Step, uses: Counter[Entry]) -> bool:
    """Whether only h and c are read outside."""
    reads, shown = _reads(step), (step.h, step.state)
    return all(uses[entry] == reads[entry] for node in step.inside
               for entry in (Entry(node, i) for i in range(node.num_outputs))
               if entry not in shown)


def _links(steps: dict[Entry, Step], uses: Counter[Entry]) -> dict[Entry, tuple[Step, int]]:
    """h of a step -> the step after it, and which of its layers reads h."""
    found: dict[Entry, tuple[Step, int]] = {}
    several = set()
    for step in steps.values():
        places = [k for k, layer in enumerate(step.layers) if _continues(step, k, steps, uses)]
        if len(places) == 1:
            h = step.layers[places[0]].data
            several |= {h} & found.keys()
            found[h] = step, places[0]
    return {h: link for h, link in found.items() if h not in several}


def _continues(step: Step, k: int, steps: dict[Entry, Step], uses: Counter[Entry]) -> bool:
    """Whether a step before this one made what layer k reads."""
    last = steps.get(step.layers[k].data)
    if last is None or last[:2] != step[:2] or last.weights != step.weights:
        return False
    if step.mode == "lstm":
        c = last.state
        assert c is not None
        return step.before == c and uses[c] == _reads(last)[c] + _reads(step)[c]
    return step.mode != "gru" or (k == 1 and step.before == last.h)


def _follow(first: Step, links: dict[Entry, tuple[Step, int]]) -> Chain:
    """The chain that begins with `first`, as long as h2h has one weight."""
    steps, recurrent = [first], [1]
    while steps[-1].h in links:
        step, k = links[steps[-1].h]
        key = step.layers[k][1:3]
        if len(steps) == 1:
            recurrent = [int(first.layers[1][1:3] == key)]
        if steps[-1].layers[recurrent[-1]][1:3] != key or len(step.weights) < 2:
            break
        steps.append(step)
        recurrent.append(k)
    return Chain(steps, recurrent)
