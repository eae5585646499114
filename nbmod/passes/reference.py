"""Evaluation of graphs by the plain definitions of their ops: NumPy, float64, one array per entry.

It shares nothing with the executor: no kernel, no plan, no memory.  By it
`passes.translation_validation` compares the result of a pass with the graph before.

An entry of a real type is float64, whatever its type is in the network, so that it has (almost) the
value of real arithmetic.  Ops whose definition is not known here, because only a compiled kernel or
a user's code computes them, are *uninterpreted functions*: their results are random numbers, the
same for the same arguments.  So are ops that refuse their arguments, such as a loss its labels.
Ops that draw random numbers draw the same at every evaluation of a node, which its name identifies.

Evaluations of one `Evaluator` remember results by op and arguments (value numbering).  A graph that
shares nodes with one that has been evaluated costs what is new in it.  With `join`, a result that
differs from one of before by rounding alone becomes that one.  So what follows is not computed
again, and a difference does not grow on its way through the network.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import log2
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from ..base import MXNetError
from ..context import cpu
from ..graph import Entry, Graph, Node
from ..ops.dispatch import REFERENCE, workspace
from ..ops.internal import CrossDeviceCopy
from ..ops.numpy_forms import has_numpy_form, prepare_numpy_form
from ..ops.numpy_forms.inserted_ops import DEFINITIONS, GRADIENT_DEFINITIONS
from ..ops.op import Backward, Call, Mode, Op, Spec
from ..ops.random import rng
from ..ops.subgraph import SubgraphRun
from .subgraph_parts import needed_nodes, part_specs

__all__ = ["Evaluator", "Value", "Values", "distance", "largest", "real"]

JOINED = 1e-10
"""Difference of results that are the same but for rounding, relative to the largest element."""
ORDINARY = 1e4
"""Largest magnitude that counts for rounding errors of other elements: a mask of -1e30 does not."""
BUCKETS = 1e6
"""Number of intervals of projections."""
OCTAVE = 1000
"""Number of intervals of magnitudes between a number and its double."""

Key = tuple[Hashable, ...]
Value: TypeAlias = Any  # type: ignore[explicit-any]
"""The array of an entry; None for what nothing reads.  Any: readers know that theirs is an array.
"""


class Values(NamedTuple):
    """The values of a graph."""

    arrays: list[Value]
    """By entry id; None for what nothing reads."""
    variables: dict[str, Value]
    """Values of variables, after ops have changed their states."""

    def of(self, graph: Graph, entry: Entry) -> Value:
        """The value of an entry of the graph."""
        return self.arrays[graph.eid(entry)]


class _Result(NamedTuple):
    """Results of a node."""

    outs: list[Value]
    changed: dict[int, Value]
    """Input -> its array after the node has changed it."""
    op: Op
    ins: list[Value]
    """With the op, what the key of the result holds the `id` of."""


class _Site(NamedTuple):
    """A node and what is known of its surroundings."""

    node: Node
    specs: Sequence[Spec]
    """Specs of the entries of its graph."""
    in_eids: Sequence[int]
    out_eids: Sequence[int]
    requests: list[bool]
    """Which outputs something reads."""

    @property
    def op(self) -> Op:
        return self.node.required_op

    @property
    def ins(self) -> list[Spec]:
        return [self.specs[eid] for eid in self.in_eids]

    @property
    def outs(self) -> list[Spec]:
        return [self.specs[eid] for eid in self.out_eids]


def real(spec: Spec) -> Spec:
    """`spec` with the type in which its values are evaluated."""
    return Spec(spec.shape, np.dtype(np.float64)) if spec.dtype.kind == "f" else spec


def largest(array: Value) -> float:
    """The largest magnitude of the finite elements."""
    if not array.size:
        return 0.0
    most = float(np.abs(array).max())
    if np.isfinite(most):
        return most
    return float(np.abs(np.where(np.isfinite(array), array, 0)).max(initial=0))


@dataclass
class Evaluator:
    """Evaluates graphs on the same values of variables, by name."""

    variables: dict[str, Value]
    """Values of variables, in the types of `real`."""
    is_train: bool
    unknown: dict[str, str] = field(default_factory=dict)
    """Ops without a definition, and why."""
    _results: dict[Key, _Result] = field(default_factory=dict)
    _functions: dict[Key, _Result] = field(default_factory=dict)
    _buckets: dict[Key, list[Value]] = field(default_factory=dict)
    _projections: dict[int, Value] = field(default_factory=dict)
    _last: dict[int, tuple[Graph, Values]] = field(default_factory=dict)
    """The graph that was evaluated last: what a pass makes is what the next one gets."""

    def __post_init__(self) -> None:
        for array in self.variables.values():
            array.flags.writeable = False
            self._register(array, self._bucket(array))

    def evaluate(self, graph: Graph, specs: Sequence[Spec], join: bool = False) -> Values:
        """The values of all entries of a graph; `specs` are those of its entries."""
        if id(graph) not in self._last:
            drawn = rng.get_state()
            try:
                with np.errstate(all="ignore"):
                    values = self._evaluated(graph, specs, join)
            finally:
                rng.set_state(drawn)
            self._last = {id(graph): (graph, values)}
        return self._last[id(graph)][1]

    def _evaluated(self, graph: Graph, specs: Sequence[Spec], join: bool) -> Values:
        arrays: list[Value] = [None] * graph.num_entries
        for node in graph.variables:
            arrays[graph.eid(Entry(node))] = self.variables[node.name]
        read = {eid for node in graph.nodes for eid in graph.input_eids(node)}
        read.update(graph.output_ids)
        variables = dict(self.variables)
        for node in graph.nodes:
            if node.op is None:
                continue
            in_eids, eids = graph.input_eids(node), graph.output_eids(node)
            ins = [variables[entry.node.name] if entry.node.op is None else arrays[eid]
                   for entry, eid in zip(node.inputs, in_eids, strict=True)]
            # As in the executor, the first output of a forward node is always computed.
            requests = [eid in read or (eid == eids.start and not isinstance(node.op, Backward))
                        for eid in eids]
            result = self._result(_Site(node, specs, in_eids, eids, requests), ins, join)
            arrays[eids.start:eids.stop] = result.outs
            for index, array in result.changed.items():
                variables[node.inputs[index].node.name] = array
        return Values(arrays, variables)

    def forget(self) -> None:
        """Keep the results of the graph that was evaluated last only."""
        (_, values), = self._last.values()
        alive = {id(array) for array in (*values.arrays, *values.variables.values(),
                                         *self.variables.values()) if array is not None}
        self._results = {key: result for key, result in self._results.items()
                         if all(id(array) in alive for array in (*result.ins, *result.outs)
                                if array is not None)}
        self._buckets = {key: alive_ones for key, arrays in self._buckets.items()
                         if (alive_ones := [array for array in arrays if id(array) in alive])}

    # -- value numbers ------------------------------------------------------------------------

    def _result(self, site: _Site, ins: list[Value], join: bool) -> _Result:
        function = (*_function(site.node), *map(id, ins))
        key = (*function, *site.requests, *(() if ins else [spec.shape for spec in site.outs]))
        if key not in self._results:
            result = self._computed(site, function, ins)
            self._results[key] = result._replace(
                outs=[self._joined(array, join) for array in result.outs],
                changed={i: self._joined(array, join) for i, array in result.changed.items()})
        return self._results[key]

    def _joined(self, array: Value, join: bool) -> Value:
        """An array that is known already and equals this one, with `join` but for rounding; or this
        one."""
        if array is None:
            return None
        array.flags.writeable = False
        bucket = self._bucket(array)
        known = self._closest(array, bucket)
        if known is not None and (join or _same_bits(known, array)):
            return known
        self._register(array, bucket)
        return array

    def _register(self, array: Value, bucket: tuple[int, int]) -> None:
        self._buckets.setdefault((array.shape, array.dtype, *bucket), []).append(array)

    def _closest(self, array: Value, bucket: tuple[int, int]) -> Value:
        best, least = None, np.inf
        for near in product(*((at, at - 1, at + 1) for at in bucket)):
            for other in self._buckets.get((array.shape, array.dtype, *near), ()):
                error = distance(array, other)
                if error < least and not (error and distance(array, other, JOINED)):
                    best, least = other, error
        return best

    def _bucket(self, array: Value) -> tuple[int, int]:
        """The intervals of two fingerprints: the normalized projection on a fixed random vector,
        and the logarithm of the largest magnitude, which tells multiples of a value apart."""
        size = array.size
        if not size:
            return 0, 0
        if size not in self._projections:
            drawn = np.random.default_rng(size).standard_normal(size)
            self._projections[size] = drawn / np.abs(drawn).sum()
        values, most = array.reshape(-1).astype(np.float64, copy=False), largest(array) or 1.0
        if not np.isfinite(values).all():
            values = np.nan_to_num(values, nan=0.5 * most, posinf=most, neginf=-most)
        return (int(float((values / most) @ self._projections[size]) * BUCKETS),
                int(log2(most) * OCTAVE))

    # -- one node --------------------------------------------------------------------------------

    def _computed(self, site: _Site, function: Key, ins: list[Value]) -> _Result:
        """The results of a node, with copies of inputs that it may change."""
        op = site.op
        has_states = bool(op.aux or (isinstance(op, Backward) and op.fwd.aux))
        arguments = [array.copy() for array in ins] if has_states else ins
        try:
            if op.random:
                rng.set_state((crc32(_root(site.node).name.encode()), 0))
            outs = self._apply(site, arguments, Mode(self.is_train))
        except (MXNetError, ValueError, TypeError, IndexError, ArithmeticError, AttributeError,
                KeyError, NotImplementedError) as error:
            self.unknown.setdefault(op.name, str(error))
            return self._uninterpreted(function, site, ins)
        changed = {i: array for i, (array, before) in enumerate(zip(arguments, ins, strict=True))
                   if array is not before and site.node.inputs[i].node.is_variable
                   and not _same_bits(array, before)}
        return _Result(outs, changed, op, ins)

    def _uninterpreted(self, function: Key, site: _Site, ins: list[Value]) -> _Result:
        """Random results, the same for the same arguments."""
        if function not in self._functions:
            generator = np.random.default_rng(len(self._functions))
            outs = [generator.integers(0, 2, shape).astype(dtype) if dtype.kind != "f"
                    else generator.standard_normal(shape) for shape, dtype in map(real, site.outs)]
            self._functions[function] = _Result(outs, {}, site.op, ins)
        return self._functions[function]

    def _apply(self, site: _Site, ins: Sequence[Value], mode: Mode) -> list[Value]:
        """The outputs of a node that are wanted."""
        op = site.op
        specs = [real(spec) if wants else None
                 for spec, wants in zip(site.outs, site.requests, strict=True)]
        if op.view or isinstance(op, CrossDeviceCopy):
            return [None if spec is None else ins[0].reshape(spec.shape).copy() for spec in specs]
        is_backward = isinstance(op, Backward)
        forward = op.fwd if isinstance(op, Backward) else op
        define = (GRADIENT_DEFINITIONS if is_backward else DEFINITIONS).get(forward.name)
        if define is not None:
            results = define(forward, ins, [spec and spec.shape for spec in specs],
                             Call(mode, specs=[*map(real, site.outs)]))
            return [None if spec is None else np.asarray(results[i], spec.dtype, order="C")
                    for i, spec in enumerate(specs)]
        # Rows of iterations that do not happen, and of the other branch, are not written.
        outs = [None if spec is None else np.zeros(spec.shape, spec.dtype) for spec in specs]
        call = Call(mode, (), [False] * len(outs), [*map(real, site.outs)], cpu(0), {})
        if op.runs_subgraphs:
            parts = op.subgraph_parts(site.ins, site.requests)
            call.subgraphs = [_Binder(self, part, mode) for part in parts]
            op.prepare(ins, outs, call)()
            return outs
        _require_numpy(site, forward)
        scratch_specs = workspace(op, [REFERENCE], [*map(real, site.ins)], [*map(real, site.outs)])
        call.scratch = [np.empty(spec.shape, spec.dtype) for spec in scratch_specs]
        prepare_numpy_form(op, ins, outs, call)()
        return outs


# -- loops and branches ----------------------------------------------------------------------------

@dataclass
class _Binder:
    """`ops.subgraph.Bind` of a part that is evaluated node by node."""

    reference: Evaluator
    part: SubgraphRun
    mode: Mode

    def __call__(self, shared: Mapping[Entry, Value]) -> _EvaluatedPart:
        return _EvaluatedPart(self, shared)


class _EvaluatedPart:
    """`ops.subgraph.Running` of a part."""

    def __init__(self, binder: _Binder, shared: Mapping[Entry, Value]):
        self.binder, self.shared, part = binder, shared, binder.part
        graph = part.body.graph
        self.specs = part_specs(part)
        self.nodes = needed_nodes(part.fetches, {*part.feeds, *part.shared} - {*part.fetches},
                                  graph.nodes)
        self.arrays = {entry: np.zeros(*real(self.specs[graph.eid(entry)]))
                       for entry in (*part.feeds, *part.fetches) if entry not in shared}

    def array(self, entry: Entry) -> Value:
        """The array of a feed or of a fetch."""
        return self.arrays.get(entry, self.shared.get(entry))

    def run(self) -> None:
        """Compute the wanted results from the given values."""
        part, graph = self.binder.part, self.binder.part.body.graph
        values: dict[Entry, Value] = {**self.shared, **self.arrays}
        for node in self.nodes:
            site = _Site(node, self.specs, graph.input_eids(node), graph.output_eids(node),
                         [True] * node.num_outputs)
            results = self.binder.reference._apply(
                site, [values[entry] for entry in node.inputs], self.binder.mode)
            values.update((Entry(node, i), array) for i, array in enumerate(results))
        for entry in part.fetches:
            target = self.array(entry)
            if target is not None:
                np.copyto(target, values[entry] + target if entry in part.accumulated
                          else values[entry])


# -- helpers ---------------------------------------------------------------------------------------


def _root(node: Node) -> Node:
    """The forward node on whose behalf a node is there."""
    while node.source is not None:
        node = node.source
    return node


def _function(node: Node) -> Key:
    """A key of the function that a node computes: its op, and for a random op its name."""
    op = node.required_op
    name = _root(node).name if op.random else ""
    if isinstance(op, Backward):
        return "backward", id(op.fwd), op.list_inputs(), op.list_outputs(), name
    return "forward", id(op), name


def _require_numpy(site: _Site, forward: Op) -> None:
    """NotImplementedError for an op that only a kernel, or code from elsewhere, computes.

    Ops from elsewhere whose formula passes read are known.
    """
    if not (has_numpy_form(forward, [], [], trains=True)
            or site.op.elements(site.ins, site.outs)):
        raise NotImplementedError("it has no NumPy form")


def _same_bits(array: Value, other: Value) -> bool:
    return array.shape == other.shape and array.tobytes() == other.tobytes()


def distance(array: Value, other: Value, tolerance: float = 0.0) -> float:
    """The largest difference above `tolerance`; infinity where only one of both is a number.

    The tolerance of an element is relative to its magnitude in `other`, or to the largest one, up
    to `ORDINARY`.
    """
    if array is other:
        return 0.0
    if array.dtype.kind != "f":
        return float(np.abs(array.astype(np.float64) - other.astype(np.float64)).max(initial=0))
    with np.errstate(all="ignore"):
        difference = np.abs(array - other)
        if not np.isfinite(difference).all():
            same = (array == other) | (np.isnan(array) & np.isnan(other))
            difference = np.where(same, 0, np.where(np.isnan(difference), np.inf, difference))
        if tolerance:
            magnitudes = np.abs(np.where(np.isfinite(other), other, 0))
            scale = np.maximum(magnitudes, min(float(magnitudes.max(initial=0)), ORDINARY))
            difference[difference <= tolerance * scale] = 0
    return float(difference.max(initial=0))
