"""The base class of ops that run subgraphs (bodies); inference of shapes and types through them.

Every variable of a body (see `ops.subgraph`) refers to an input of the node, in one of three roles:

    data     row t of the input, in iteration t
    state    the input before the first iteration, then the result of the previous iteration
    free     the whole input, in every iteration

A trained op (see `passes.training`) has hidden outputs for the intermediate results of
forward that its gradients read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Graph, Node
from ..op import _TABLE, Op, common_type
from ..param import Shape
from ..shape import PartialShape, ShapeMismatch, is_known, size_of, unify
from ..subgraph import Body

__all__ = ["Control", "Facts", "SHAPES", "Through", "agree", "row_shape"]

Through = Callable[[Body, Mapping[Entry, Any]], Callable[[Entry], Any]]
"""Infers shapes or types of all entries of a body from those of some; returns a lookup."""


# -- shapes and types of arrays and of their rows ---------------------------------------------


class Facts(NamedTuple):
    """How facts of one kind (shape or type) of an array follow from those of its rows and back."""

    what: str
    row: Callable[[Any], Any]
    stack: Callable[[Any, int], Any]
    """The fact of an array from that of its rows and their count."""
    whole: Callable[[Any, int, Any], Any]
    """The fact of an input from that of its rows, their count, and what is known of it."""
    unify: Callable[[Any, Any], Any]


def row_shape(shape: Shape) -> Shape:
    """A row of a vector has one element, not none."""
    return shape[1:] or (1,)


def _stacked_shape(shape: PartialShape, count: int) -> PartialShape:
    return None if shape is None else (count, *shape)


def _whole_shape(row: PartialShape, count: int, shape: PartialShape) -> PartialShape:
    """Rows of shape (1,) are those of a vector or of a column."""
    if row == (1,) and (shape is None or len(shape) == 1):
        return None if shape is None else (count,)
    return _stacked_shape(row, count)


SHAPES = Facts("shape", lambda shape: None if shape is None else row_shape(shape),
               _stacked_shape, _whole_shape, unify)
TYPES = Facts("type", lambda dtype: dtype, lambda dtype, count: dtype,
              lambda dtype, count, whole: dtype, lambda a, b: common_type((a, b)))


def agree(facts: Facts, a: Any, b: Any, message: str) -> Any:
    """Both facts unified; an error `message.format(a, b)` if they contradict each other."""
    try:
        return facts.unify(a, b)
    except MXNetError:
        kind = ShapeMismatch if facts is SHAPES else MXNetError
        raise kind(message.format(a, b)) from None


# -- the base class ------------------------------------------------------------


class Control(Op):
    """Base class of foreach, while_loop and cond; `with_subgraphs` sets the `bodies`."""

    runs_subgraphs: ClassVar = True
    bodies: ClassVar[tuple[Body, ...]] = ()
    body_names: ClassVar[tuple[str, ...]] = ()
    """Names of the bodies in error messages."""
    learns: ClassVar[tuple[int, ...]] = (0,)
    """Indices of the bodies that have gradients."""
    counts: ClassVar[bool] = False
    """A trained op also saves the number of iterations, or the index of the branch taken."""
    is_trained: ClassVar[bool] = False

    num_args: int
    num_outputs: int

    # -- bodies -----------------------------------------------------------------------------

    def with_subgraphs(self, graphs: tuple[Graph, ...]) -> Control:
        """The op with these bodies; MXNetError where they do not fit its parameters."""
        if len(graphs) != len(self.body_names):
            raise MXNetError(f"{len(graphs)} subgraphs are given, expected {len(self.body_names)}: "
                             + ", ".join(self.body_names))
        op = self._with([Body.of(_computed(graph.outputs)) for graph in graphs])
        object.__setattr__(op, "subgraphs", graphs)
        op._check()
        return op

    def _with(self, bodies: Iterable[Body]) -> Control:
        op = copy(self)
        object.__setattr__(op, "bodies", tuple(bodies))
        return op

    def trained(self, train: Callable[[Body, set[int], set[int]], Body]) -> Control:
        """The op with trained bodies; `train` adds gradients to one (see `passes`)."""
        bodies = list(self.bodies)
        for i in self.learns:
            everything, states = set(range(len(bodies[i].variables))), set(self.states(i))
            bodies[i] = train(bodies[i], everything - states - set(self.data(i)), states)
        op = self._with(bodies)
        object.__setattr__(op, "is_trained", True)
        return op

    def sources(self, index: int) -> Sequence[int]:
        """For every variable of a body, the index of the node's input that it refers to."""
        raise NotImplementedError

    def states(self, index: int) -> Sequence[int]:
        """Positions of the variables that are states; the last outputs are their next values."""
        return ()

    def data(self, index: int) -> Sequence[int]:
        """Positions of the variables that are rows of inputs."""
        return ()

    def _check(self) -> None:
        count = self.num_args - len(self.bodies)
        for index, body in enumerate(self.bodies):
            name, sources = self.body_names[index], self.sources(index)
            if len(sources) != len(body.variables):
                raise MXNetError(f"the {name} has {len(body.variables)} variables, but "
                                 f"{len(sources)} are connected")
            for what, indices, limit in (("input", sources, count),
                                         ("variable", self.states(index), len(sources)),
                                         ("variable", self.data(index), len(sources))):
                if any(not 0 <= i < limit for i in indices):
                    raise MXNetError(f"the {name} is connected with {what}s {list(indices)}, but "
                                     f"there are {limit}")
            written = {*self.states(index), *self.data(index)} & {*body.states}
            if written:
                names = [body.variables[i].node.name for i in sorted(written)]
                raise MXNetError(f"an op of the {name} keeps {names} as its own state; give it a "
                                 "variable from outside of the loop")
            expected = self.num_outputs if index in self.learns else 1
            if body.num_outputs != expected:
                raise MXNetError(f"the {name} has {body.num_outputs} outputs, expected {expected}")

    def free(self, index: int) -> dict[Entry, int]:
        """The free variables of a body, and the inputs they refer to."""
        bound = {*self.states(index), *self.data(index)}
        return {entry: source for i, (entry, source) in enumerate(
            zip(self.bodies[index].variables, self.sources(index), strict=True)) if i not in bound}

    @property
    def saved(self) -> list[tuple[int, Entry]]:
        """(index of the body, entry) of all intermediate results that a trained op saves."""
        return [(i, entry) for i in self.learns for entry in self.bodies[i].saved]

    # -- the interface of ops ------------------------------------------------------------------

    def list_inputs(self) -> tuple[str, ...]:
        return tuple(f"arg{i}" for i in range(self.num_args - len(self.body_names)))

    def list_outputs(self) -> tuple[str, ...]:
        count = self.num_outputs
        visible = ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))
        if not self.is_trained:
            return visible
        saved = tuple(f"saved{i}" for i in range(len(self.saved)))
        return (*visible, *(("count",) if self.counts else ()), *saved)

    @property
    def num_visible(self) -> int:
        return self.num_outputs

    def list_needs(self) -> tuple[str, ...]:
        return ("ograds", "args", *self.list_outputs()[self.num_outputs:])

    @property
    def aux(self) -> tuple[str, ...]:  # type: ignore[override]
        """Inputs that are auxiliary states of a body, such as moving averages."""
        names = self.list_inputs()
        return tuple(names[i] for i in self.aux_indices())

    def aux_indices(self) -> tuple[int, ...]:
        return tuple(sorted({self.sources(index)[i] for index, body in enumerate(self.bodies)
                             for i in body.states}))

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether an op of a body draws random numbers."""
        return any(node.op.random for node in self._inner())

    @property
    def is_pure(self) -> bool:
        return all(node.op.is_pure for node in self._inner())

    def _inner(self) -> list[Any]:
        return [node for body in self.bodies for node in body.forward.nodes if not node.is_variable]

    def forward(self, ins, outs, call):
        raise MXNetError(f"{self.name} runs in bound symbols; with NDArrays call "
                         f"mx.nd.contrib.{self.name[1:]}")

    def infer_shape(self, ins: list, outs: list, through: Through | None = None
                    ) -> tuple[list, list]:
        return self._infer(SHAPES, ins, outs, _required(through, self))

    def infer_type(self, ins: list, outs: list, through: Through | None = None
                   ) -> tuple[list, list]:
        return self._infer(TYPES, ins, outs, _required(through, self))

    def _infer(self, facts: Facts, ins: list, outs: list, through: Through) -> tuple[list, list]:
        raise NotImplementedError

    def hidden(self, facts: Facts, lookups: Mapping[int, Callable[[Entry], Any]], rows: int
                ) -> list:
        """Facts of the hidden outputs, from those of the entries of bodies."""
        if not self.is_trained:
            return []
        count = [(1,) if facts is SHAPES else np.dtype(np.int64)] if self.counts else []
        return count + [facts.stack(lookups[i](entry), rows) for i, entry in self.saved]

    def decided(self, facts: Facts, index: int, ins: list, through: Through) -> list:
        """Facts of the inputs, after inference through a condition, which has one element."""
        body = self.bodies[index]
        lookup = through(body, {entry: ins[i] for entry, i in self.free(index).items()})
        shape = lookup(body.outputs[0])
        if facts is SHAPES and is_known(shape) and size_of(shape) != 1:
            raise ShapeMismatch(f"the {self.body_names[index]} has shape {shape}, expected one "
                                "number")
        ins = list(ins)
        for entry, i in self.free(index).items():
            ins[i] = lookup(entry)
        return ins

    def saved_in(self, tensors: Sequence[Any], index: int | None = None) -> list[Any]:
        """The `saved` entries of one body or all, among outputs or inputs of backward."""
        rows = tensors[len(tensors) - len(self.saved):] if self.is_trained else []
        return [row for row, (i, _) in zip(rows, self.saved, strict=True) if index in (None, i)]

    def count(self, tensors: Sequence[Any]) -> Any:
        """The saved number of iterations or index of the branch."""
        return tensors[len(tensors) - len(self.saved) - 1] if self.is_trained else None


def _required(through: Through | None, op: Op) -> Through:
    if through is None:
        raise MXNetError(f"{op.name} is part of symbols; with NDArrays call "
                         f"mx.nd.contrib.{op.name[1:]}")
    if not op.subgraphs:
        raise MXNetError("it holds no subgraphs; loops and branches are made by "
                         f"sym.contrib.{op.name[1:]}")
    return through


def _computed(entries: Sequence[Entry]) -> list[Entry]:
    """The outputs, with copies of variables: their arrays do not belong to the body."""
    copies: dict[Entry, Entry] = {}
    for entry in entries:
        if entry.node.is_variable and entry not in copies:
            copies[entry] = Entry(Node(_TABLE["_copy"](), f"{entry.node.name}_copy", [entry]))
    return [copies.get(entry, entry) for entry in entries]
