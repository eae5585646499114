"""Shape and type inference, both ways.

Facts live in one list indexed by entry id: a partial shape (0 is an unknown dimension, None an
unknown rank), or a dtype (None is unknown).  Each op's rule sees what is known around it and
returns what follows; the pass merges the answer into the list.  Merging only ever adds knowledge,
so sweeping forward and backward over the nodes until nothing changes ends at a unique fixed point.
A node whose surroundings are fully known and have been checked once is not visited again, so a
graph that infers in one direction costs about one sweep.

Variables bring their own knowledge: what the caller knows, then their `__shape__` / `__dtype__`.

The rule of an op that runs subgraphs (`ops.subgraph`) gets one more argument, a function that
propagates facts in a subgraph.  It is this very pass, so a loop is inferred both ways, too.

Assumes: rules only add knowledge; checked in `_Inference._visit`, which names the node where facts
contradict each other.  That variables of one name have one shape; checked where arrays are bound
(`execution.bind.require_unique`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..base import DTYPE_FLAGS, MXNetError
from ..graph import Entry, Graph, Node
from ..ops.op import PartialType, Spec, apply_rule
from ..ops.param import Shape, _dimension, _sequence
from ..ops.shape import PartialShape, ShapeMismatch, infer_with_lengths, is_known, size_of, unify
from ..ops.subgraph import Body

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["SHAPES", "TYPES", "Inferred", "infer_shape", "infer_specs", "infer_type",
           "lacks_elements", "made_shapes", "require_known", "require_static", "specs_of",
           "unknown_variables"]

Visit = tuple[Node, tuple[int, ...], range, list[int] | None]


class Inferred(NamedTuple):
    """A graph, and what has been inferred of its entries."""

    graph: Graph
    specs: list[Spec]
    """Shape and type of every entry."""

    def of(self, variables: Iterable[Node]) -> dict[str, Spec]:
        """Specs of variables by name."""
        return {node.name: self.specs[self.graph.eid(Entry(node))] for node in variables}


MAX_ELEMENTS = 2 ** 62
"""Above this a tensor's size in bytes no longer fits 64 bits."""

Variable: TypeAlias = Any  # type: ignore[explicit-any]
"""An `Entry`, or the name of a variable.  Any: the keys of a `Mapping` are invariant."""
Fact: TypeAlias = Any  # type: ignore[explicit-any]
"""A shape or an element type, perhaps incomplete.  Any: `_Inference` spreads facts of either kind.
"""


def infer_shape(graph: Graph, known: Mapping[Variable, Shape],
                before: Sequence[PartialShape] = (), lengths: bool = False) -> list[PartialShape]:
    """Shape of every entry, as far as it follows from `known`, by entry or by name of a variable.

    `before` are facts of the first entries that are known already, None where one is not.  With
    `lengths` a 0 is the length of an array, in results, too, and -1 a dimension that is not known.
    Raises MXNetError naming the node where two facts contradict each other.
    """

    def infer(zero: int, shapes: Sequence[PartialShape]) -> list[PartialShape]:
        kind = SHAPES._replace(read=partial(_read_shape, zero)) if zero else SHAPES
        known_shapes = dict(zip(known, shapes, strict=False))
        facts = _seed(graph, known_shapes, shapes[len(known):], kind)
        if zero:
            _seed_created(graph, facts, zero)
        _Inference(graph, facts, kind).sweep()
        return facts

    shapes = [*known.values(), *before]
    facts = (infer_with_lengths(infer, shapes, lambda eid: _maker(graph, eid).describe())
             if lengths else infer(0, shapes))
    for eid, shape in enumerate(facts):
        if shape is not None and size_of(shape) > MAX_ELEMENTS:
            raise MXNetError(f"{_maker(graph, eid).describe()}: shape {shape} has more elements "
                             "than 64-bit indices can address")
    return facts


def _maker(graph: Graph, eid: int) -> Node:
    """The node that an entry is an output of."""
    return next(node for node in graph.nodes if eid in graph.output_eids(node))


def infer_type(graph: Graph, known: Mapping[Variable, DTypeLike],
               before: Sequence[PartialType] = (), default: DTypeLike | None = np.float32
               ) -> list[PartialType]:
    """Element type of every entry; a variable nothing is known of becomes `default` (None: stays).

    `before` are facts of the first entries that are known already, None where one is not.
    Raises MXNetError naming the node where two facts contradict each other.
    """
    facts = _seed(graph, known, before, TYPES)
    inference = _Inference(graph, facts, TYPES)
    inference.sweep()
    unknown = [] if default is None else unknown_variables(graph, facts, _is_not_none)
    for node in unknown:
        eid = graph.output_eids(node)[0]
        if facts[eid] is None:
            facts[eid] = np.dtype(default)
            if node is unknown[0]:  # from which most others follow
                inference.sweep()
            else:
                inference.spread(eid)
    return facts


def infer_specs(graph: Graph, known: Mapping[Variable, Spec], before: Sequence[Spec | None] = ()
                ) -> list[Spec]:
    """Shape and type of every entry, where all follow from those that are `known` and `before`."""
    shapes = _shapes_of_specs(graph, {key: spec.shape for key, spec in known.items()},
                              [spec and spec.shape for spec in before])
    types = infer_type(graph, {key: spec.dtype for key, spec in known.items()},
                                  [spec and spec.dtype for spec in before])
    # All are known now, but for those of graphs that are being rewritten (`specs_of`).
    return list(map(Spec, shapes, types))  # type: ignore[arg-type]


def _shapes_of_specs(graph: Graph, known: Mapping[Variable, Shape], before: Sequence[PartialShape]
                     ) -> list[PartialShape]:
    """Shapes that follow from those of arrays, where a 0 is a length."""
    if not any([0 in shape for shape in (*known.values(), *before) if shape]):
        return infer_shape(graph, known, before)
    return made_shapes(graph, infer_shape(graph, known, before, lengths=True))


def require_known(graph: Graph, specs: Sequence[Spec]) -> None:
    """MXNetError for an output whose shape or type follows from nothing, as a constant's may."""
    for node, eids in _visible(graph):
        for eid in eids:
            for what, fact in zip(("shape", "type"), specs[eid], strict=True):
                if fact is None:
                    raise MXNetError(f"{node.describe()}: the {what} of its output does not follow "
                                     "from its inputs and parameters")


def made_shapes(graph: Graph, shapes: Sequence[PartialShape]) -> list[PartialShape]:
    """Shapes of arrays, of those that `infer_shape` found with `lengths`.

    MXNetError if a dimension of an output that users see is not known.
    """
    for node, eids in _visible(graph):
        for eid in eids:
            if -1 in (shapes[eid] or ()):
                raise MXNetError(f"{node.describe()}: the shape of its output does not follow from "
                                 f"the inputs, only {shapes[eid]}; -1 is not known")
    return [shape and tuple([max(size, 0) for size in shape]) for shape in shapes]


def lacks_elements(graph: Graph, specs: Sequence[Spec]) -> bool:
    """Whether a variable, or an output that users see, has no elements."""
    return any([0 in spec.shape for spec in specs]) and any(
        [not specs[eid].size for _, eids in _visible(graph) for eid in eids])


def _visible(graph: Graph) -> Iterator[tuple[Node, range]]:
    """Nodes with their entries that users see."""
    for node in graph.nodes:
        yield node, graph.output_eids(node)[:1 if node.op is None else node.op.num_visible]


def specs_of(graph: Graph, specs: list[Spec | None]) -> list[Spec | None]:
    """`specs`, of the entries of a rewritten graph, with what follows for nodes that are new."""
    if None not in specs:
        return specs
    return [None if spec.shape is None or spec.dtype is None else spec
            for spec in infer_specs(graph, {}, specs)]


def require_static(graph: Graph) -> None:
    """MXNetError if the shape of something in `graph` depends on values: it cannot be bound."""
    for node in graph.nodes:
        if node.op is not None and node.op.shape_of_values is not None:
            raise MXNetError(
                f"{node.describe()}: the shape of its output depends on the values of "
                f"{', '.join(node.op.list_inputs())}, so no memory can be planned for it; call the "
                "operator eagerly (mx.nd), where autograd gives its gradient")


def unknown_variables(graph: Graph, facts: Sequence[Fact], known: Callable[[Fact], bool]
                      ) -> list[Node]:
    """Variables whose fact is still incomplete, in order."""
    return [node for node in graph.variables if not known(facts[graph.output_eids(node)[0]])]


def _is_not_none(fact: Fact) -> bool:
    return fact is not None


def _merge_type(old: PartialType, new: PartialType) -> PartialType:
    if old is not None and new is not None and old != new:
        raise MXNetError(f"element type is {old}, expected {new}; insert a Cast")
    return new if old is None else old


class FactKind(NamedTuple):
    """A kind of facts."""

    rule: str
    """The method of ops that knows how they spread."""
    attr: str
    """The attribute with which variables declare theirs, and what reads it."""
    read: Callable[[str], Fact]
    convert: Callable[[Fact], Fact]
    merge: Callable[[Fact, Fact], Fact]
    known: Callable[[Fact], bool]
    """Whether a fact is complete."""


def _read_shape(zero: int, text: str) -> PartialShape:
    """A declared shape; `zero` is what stands for a length of 0.

    If that is 0, lengths of 0 are not known, and nothing is known of shape ().
    """
    if text == "None":
        return None
    shape = tuple([max(size, 0) if size else zero for size in _sequence(text, _dimension)])
    return shape if shape or zero else None


SHAPES = FactKind("infer_shape", "__shape__", partial(_read_shape, 0), tuple,
                  lambda old, new: unify(old, new, "shapes"), is_known)
TYPES = FactKind("infer_type", "__dtype__",
                 lambda text: None if int(text) == -1 else DTYPE_FLAGS[int(text)], np.dtype,
                 _merge_type, _is_not_none)


def _seed(graph: Graph, known: Mapping[Variable, Fact], before: Sequence[Fact], kind: FactKind
          ) -> list[Fact]:
    facts = [*before, *[None] * (graph.num_entries - len(before))]
    for node in graph.variables:
        eid = graph.output_eids(node)[0]
        value = known.get(Entry(node), known.get(node.name))
        if facts[eid] is not None:
            continue
        fact = None if value is None else kind.convert(value)
        if kind.attr in node.attrs and not kind.known(fact):
            fact = _with_declared(node, fact, kind)
        facts[eid] = fact
    return facts


def _with_declared(node: Node, fact: Fact, kind: FactKind) -> Fact:
    """The fact that a variable declares, merged with that of the caller."""
    text = node.attrs[kind.attr]
    try:
        declared = kind.read(text)
    except (ValueError, KeyError, OverflowError):
        raise MXNetError(f"{node.describe()}: attribute {kind.attr} is {text[:80]!r}, "
                         "which cannot be read") from None
    try:
        return kind.merge(fact, declared)
    except MXNetError as error:
        raise type(error)(f"{node.describe()}: of what is given and attribute {kind.attr}, "
                          f"{error}") from None


def _seed_created(graph: Graph, facts: list[PartialShape], zero: int) -> None:
    """Add the shapes of arrays that nodes make of their parameters, where a 0 is a length."""
    for node in graph.nodes:
        if not node.inputs and 0 in (shape := getattr(node.op, "shape", ())):
            facts[graph.output_eids(node)[0]] = tuple([size or zero for size in shape])


class _Inference:
    """Propagates one kind of facts over a graph.

    `pending` are the nodes whose rules may add more, each with its entries: inputs, outputs, and
    those whose facts its outputs copy, if it has no rule of its own.
    """

    def __init__(self, graph: Graph, facts: list[Fact], kind: FactKind,
                 bodies: dict[tuple[Hashable, ...], Callable[[Entry], Fact]] | None = None):
        self.facts, self.kind = facts, kind
        self.bodies = {} if bodies is None else bodies
        done = list(map(kind.known, facts))
        self.pending = [
            (node, graph.input_eids(node), graph.output_eids(node), _like(graph, node))
            for node in graph.nodes if node.op is not None and not all([
                done[eid] for eid in (*graph.output_eids(node), *graph.input_eids(node))])]

    def sweep(self) -> None:
        """Apply the rules of the nodes forward and backward until nothing changes."""
        changed, pending = True, self.pending
        while changed and pending:
            changed = False
            remaining = []
            for visit in pending:
                if self._visit(*visit):
                    changed = True
                node, ins, outs, _ = visit
                if not all([self.kind.known(self.facts[eid]) for eid in (*ins, *outs)]):
                    remaining.append(visit)
            pending = remaining[::-1]
        self.pending = sorted(pending, key=lambda visit: visit[2].start)

    def spread(self, start: int) -> None:
        """Propagate the new fact of one entry, as far as it adds knowledge."""
        waiting = [start]
        while waiting:
            for visit in self._around.get(waiting.pop(), ()):
                waiting += self._visit(*visit)

    @cached_property
    def _around(self) -> dict[int, list[Visit]]:
        """Entry id -> the pending nodes whose rules may read its fact."""
        around: dict[int, list[Visit]] = {}
        for visit in self.pending:
            _, ins, outs, like = visit
            for eid in {*ins, *outs, *(like or ())}:
                around.setdefault(eid, []).append(visit)
        return around

    def _visit(self, node: Node, in_eids: Sequence[int], out_eids: range,
               like: Sequence[int] | None) -> list[int]:
        """Apply the rule of one node; the entries of which it adds knowledge."""
        facts, kind, eids = self.facts, self.kind, (*in_eids, *out_eids)
        ins = [facts[eid] for eid in in_eids]
        if like is not None:
            outs = [facts[eid] for eid in like]
        else:
            through = [self._spread_over] if node.required_op.runs_subgraphs else []
            try:
                ins, outs = apply_rule(node.required_op, kind.rule, ins,
                                       [facts[eid] for eid in out_eids], *through)
            except MXNetError as error:
                raise _located(error, node, [facts[eid] for eid in in_eids]) from error.__cause__
        changed = []
        for position, (eid, fact) in enumerate(zip(eids, (*ins, *outs), strict=True)):
            old = facts[eid]  # float64 == None is true for numpy, so None is asked for first
            if fact is None or fact is old or (old is not None and fact == old):
                continue
            try:
                merged = kind.merge(old, fact)
            except MXNetError:
                raise _conflict(node, position, old, fact, kind.rule) from None
            if old is None or merged != old:
                changed.append(eid)
                facts[eid] = merged
        return changed

    def _spread_over(self, body: Body, known: Mapping[Entry, Fact]) -> Callable[[Entry], Fact]:
        """Infer the facts of the entries of a body from these.

        Answers are remembered: bodies in bodies are asked the same many times.
        """
        key = (id(body), *known.items())
        if key not in self.bodies:
            graph = body.forward
            facts = _seed(graph, known, (), self.kind)
            for entry, fact in known.items():
                eid = graph.eid(entry)
                facts[eid] = self.kind.merge(facts[eid], fact)
            try:
                _Inference(graph, facts, self.kind, self.bodies).sweep()
            except MXNetError as error:
                raise type(error)(f"in its body: {error}") from error.__cause__
            self.bodies[key] = lambda entry: facts[graph.eid(entry)]
        return self.bodies[key]


def _like(graph: Graph, node: Node) -> list[int] | None:
    """Entries whose facts the outputs of a node copy; None for a node with rules of its own."""
    if node.source is not None and node.recomputes:
        return list(graph.output_eids(node.source))
    like = node.required_op.like(node)
    return None if like is None else [graph.eid(entry) for entry in like]


def _located(error: MXNetError, node: Node, in_facts: Sequence[Fact]) -> MXNetError:
    inputs = ", ".join(f"{name} {fact if fact is not None else '?'}" for name, fact
                       in zip(node.required_op.list_inputs(), in_facts, strict=False))
    return type(error)(f"{node.describe()}: {error} [inputs: {inputs}]")


def _conflict(node: Node, position: int, fact: Fact, expected: Fact, rule: str) -> MXNetError:
    """One argument or output of a node contradicts what the op's rule says."""
    op, what = node.required_op, "shape" if rule == "infer_shape" else "type"
    names = [*op.list_inputs(), *(f"output {name}" for name in op.list_outputs())]
    name = names[position]
    source = node.inputs[position].node.name if position < len(node.inputs) else node.name
    kind = ShapeMismatch if what == "shape" else MXNetError
    return kind(f"{node.describe()}: {name} has {what} {fact}, expected {expected} "
                f"(it comes from {source!r})")

