"""Translation validation: every pass that changed a graph is checked on that very graph.

    NBMOD_CHECK=3 python script.py

A proof that a pass is right for all graphs is out of reach; that it was right for this one is not
(Pnueli, Siegel and Singerman, "Translation validation", TACAS 1998; Necula, "Translation validation
for an optimizing compiler", PLDI 2000).  After a pass, the graph that it got and the graph that it
made are evaluated by the plain definitions of their ops (`passes.reference`), on the same values of
all variables: outputs, gradients, and the states that ops update.  The first pass whose result
differs is named, with the first node in whose result the difference shows.

*Values.*  Random numbers with ties, repetitions and zeros: multiples of 1/64 of small magnitude, so
that sums and products are exact at first, and a tie is one in any order of summation.  They are of
both signs in the first trial, and positive in the second, since functions such as the logarithm are
NaN for negative ones.  Weights are scaled by a power of two near 1 / sqrt(fan-in).  A variable that
an op reads as a label, an index, a length, a variance or a bound gets values that are one.

*Size.*  The batch of a large network is reduced, if shapes can be inferred again with a smaller
one, before and after the pass, and there is one trial.

*Limits.*  What no NumPy definition exists for is an unknown function, the same in both graphs.  A
difference below `CLOSE` of the largest element is rounding.  Elements that are NaN before the pass
are not compared.  Memory plans and kernels are no matter of graphs: for those see
`execution.sanitizer`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from time import perf_counter
from typing import NamedTuple
from zlib import crc32

import numpy as np

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.op import Spec
from .infer import Inferred, infer_shape, infer_specs, infer_type
from .reference import ORDINARY, Evaluator, Value, Values, distance, largest, real
from .remarks import withheld
from .switches import PASSES, PassChange
from .training import with_gradients, with_trained_bodies

__all__ = ["Validation"]

CLOSE = 1e-7
"""Tolerance, relative to the largest element of a result: far above rounding in float64, and below
that of float32."""
CANCELLED = 1e-12
"""Tolerance where terms cancel, relative to the largest element of any result."""
SWITCHES = {"mirror": "MXNET_BACKWARD_DO_MIRROR=0, without force_mirroring, binds without it",
            "place": "without group2ctx a network is bound without it"}
"""The way to bind without a part of bind that is no pass."""
TRIALS = ("of both signs", "positive")
LARGE = 2 ** 27
"""Bytes of the entries of a network, in float64, from which its batch is reduced."""
BATCH = 2
"""The reduced batch: two samples, so that sums over the batch are sums."""


class _Difference(NamedTuple):
    """One result that differs."""

    what: str
    after: list[Entry]
    """The result after the pass: an entry, or for a state the entries of its readers."""
    error: float
    expected: Value
    found: Value


class Validation:
    """Compares the graphs before and after each pass of one network; `trained` are the arguments
    with gradients.

    Examples
    --------
    >>> from nbmod.execution.pipeline import validating
    >>> x = mx.sym.Variable("x")
    >>> with validating():
    ...     executor = (mx.sym.exp(x) + mx.sym.exp(x)).simple_bind(mx.cpu(), x=(2, 3))
    """

    def __init__(self, symbol: Inferred, trained: Sequence[str]):
        self.passes: list[str] = []
        """Names of the passes that have been compared, in order."""
        self.seconds = 0.0
        self._symbol, self._trained = symbol, frozenset(trained)
        self._num_outputs = len(symbol.graph.outputs)
        self._joints: dict[int, tuple[Graph, Inferred]] = {}
        self._forwards: dict[int, tuple[Graph, Inferred]] = {}
        self._is_large = sum(spec.size for spec in symbol.specs) * 8 >= LARGE
        self._smaller = _with_smaller_batch(symbol) if self._is_large else None

    # -- what a pass changed ------------------------------------------------------------------

    @withheld()
    def compare(self, change: PassChange) -> None:
        """Compare the graphs before and after a pass; MXNetError if they differ."""
        name, before, after = change[:3]
        if change.hoisted is not None:
            _require_invariant(name, change.hoisted)
            if after.graph is not before.graph:
                before, after = map(self._with_gradients, (before, after))
        first, second = before.graph.outputs, after.graph.outputs
        if first == second or len(first) < len(second):     # gradients are compared with nothing
            return
        start = perf_counter()
        try:
            self._require_same(name, *self._sized(before, after, change.facts))
            self.passes.append(name)
        finally:
            self.seconds += perf_counter() - start

    def report(self) -> None:
        """Print one line about what has been compared, and what it cost."""
        unknown = sorted({op for evaluator in self._evaluators.values()
                          for op in evaluator.unknown})
        names = ", ".join(entry.node.name for entry in self._symbol.graph.outputs[:3])
        print(f"NBMOD_CHECK=3: {names}: {len(self.passes)} passes validated in "
              f"{self.seconds:.2f} s{': ' if self.passes else ''}{', '.join(self.passes)}"
              f"{f'; with {BATCH} samples of the batch' if self._smaller else ''}"
              f"{'; unknown functions: ' if unknown else ''}{', '.join(unknown)}",
              file=sys.stderr, flush=True)

    # -- graphs ---------------------------------------------------------------------------------

    def _with_gradients(self, joint: Inferred) -> Inferred:
        """The network with gradients of what is trained."""
        graph = joint.graph
        if id(graph) not in self._joints:
            wrt = [node for node in graph.variables if node.name in self._trained]
            wrt.sort(key=lambda node: node.name)    # passes may change the order of variables
            if wrt:
                joint = _differentiated(joint, wrt)
            self._joints[id(graph)] = graph, joint      # the graph lives on, so ids are unique
        return self._joints[id(graph)][1]

    def _sized(self, before: Inferred, after: Inferred,
               facts: Callable[[list[Spec]], list[Spec]] | None) -> tuple[Inferred, Inferred]:
        """The networks with fewer samples, if their batch is reduced."""
        smaller = self._smaller
        if smaller is None:
            return before, after
        try:
            first = _required(infer_specs(before.graph, smaller))
            second = facts(first) if facts else _required(infer_specs(after.graph, smaller))
        except (MXNetError, KeyError):      # shapes in the graph are those of the whole batch
            self._smaller = None
            self.__dict__.pop("_evaluators", None)
            return before, after
        return Inferred(before.graph, first), Inferred(after.graph, second)

    @cached_property
    def _evaluators(self) -> dict[tuple[str, bool], Evaluator]:
        """By trial, and whether ops work as in training."""
        specs = self._symbol.of(self._symbol.graph.variables) | self._heads()
        specs |= self._smaller or {}
        roles = dict(_roles(self._symbol.graph))
        trials = TRIALS[:1] if self._is_large else TRIALS
        evaluators = {(trial, bool(self._trained)): Evaluator(
            {name: _drawn(name, spec, roles.get(name, ""), trial)
             for name, spec in specs.items()}, bool(self._trained)) for trial in trials}
        if self._trained:       # the forward pass also runs as in inference
            evaluators[TRIALS[0], False] = Evaluator(
                dict(evaluators[TRIALS[0], True].variables), False)
        return evaluators

    def _heads(self) -> dict[str, Spec]:
        graph = self._symbol.graph
        return {f"_head_grad_{i}": self._symbol.specs[eid]
                for i, eid in enumerate(graph.output_ids)}

    # -- comparison -------------------------------------------------------------------------------

    def _require_same(self, name: str, before: Inferred, after: Inferred) -> None:
        for (trial, is_train), evaluator in self._evaluators.items():
            pair = [before, after]
            if self._trained and not is_train:      # the forward pass alone
                pair = [self._forward(each) for each in pair]
            expected, actual = (evaluator.evaluate(*each, join=each is pair[1]) for each in pair)
            difference = next(self._differences(pair, expected, actual), None)
            if difference is not None:
                mode = f"{'training' if is_train else 'inference'}, values {trial}"
                raise _failure(name, mode, difference, pair, (expected, actual), evaluator.unknown)
            if self._is_large:
                evaluator.forget()

    def _forward(self, network: Inferred) -> Inferred:
        """The network without gradients."""
        if id(network.graph) not in self._forwards:
            graph = network.graph.head(self._num_outputs)
            forward = Inferred(graph, network.specs[:graph.num_entries])
            self._forwards[id(network.graph)] = network.graph, forward
        return self._forwards[id(network.graph)][1]

    def _differences(self, pair: Sequence[Inferred], expected: Values, actual: Values
                     ) -> Iterator[_Difference]:
        """Outputs, gradients and states that differ."""
        scale = cache(lambda: min(ORDINARY, max((
            largest(array) for array in expected.arrays
            if array is not None and array.dtype.kind == "f"), default=0.0)))
        before, after = (network.graph for network in pair)
        for i, (entry, other) in enumerate(zip(before.outputs, after.outputs, strict=True)):
            array, new = expected.of(before, entry), actual.of(after, other)
            if (error := _error(array, new, scale)) is not None:
                what = (f"output {entry.index} of {entry.node.describe()}"
                        if i < self._num_outputs else f"the gradient {entry.node.name}")
                yield _Difference(what, [other], error, array, new)
        for name, array in expected.variables.items():
            new = actual.variables[name]
            if (error := _error(array, new, scale)) is not None:
                readers = [Entry(reader) for reader in after.nodes
                           if any(source.node.name == name for source in reader.inputs)]
                yield _Difference(f"the state {name}", readers, error, array, new)


def _error(expected: Value, actual: Value, scale: Callable[[], float]) -> float | None:
    """The largest difference of a result; None if there is none but rounding."""
    if expected is actual:
        return None
    if expected.shape != actual.shape:
        return np.inf
    if expected.dtype.kind == "f":
        actual = np.where(np.isnan(expected), expected, actual)
    error = distance(actual, expected, CLOSE)
    return error if error and error > CANCELLED * scale() else None


def _failure(name: str, mode: str, difference: _Difference, pair: Sequence[Inferred],
             values: Sequence[Values], unknown: dict[str, str]) -> MXNetError:
    """The error that names a pass."""
    what, _, error, expected, actual = difference
    nodes = _culprits(difference, pair, values)
    lacking = [f"{node.op_name} ({unknown[node.op_name]})" for node in nodes
               if node.op_name in unknown]
    listed = "; ".join(
        f"{node.describe()} of {', '.join(entry.node.name for entry in node.inputs) or 'nothing'}"
        for node in nodes[:8])
    switch = (f"NBMOD_DISABLE_PASSES={name} binds without this pass" if name in PASSES
              else SWITCHES.get(name, "it has no switch"))
    return MXNetError(
        f"NBMOD_CHECK=3: pass {name} ({PASSES.get(name, 'a part of bind')}) changes what the "
        f"network computes ({mode}): {what} differs by {error:.3g}, its largest element is "
        f"{largest(expected):.3g}\n{_excerpt(expected, actual)}\n"
        f"The difference arises in {listed}{'; ...' if len(nodes) > 8 else ''}"
        f"{'; not evaluated: ' if lacking else ''}{', '.join(lacking)}\n"
        f"{switch}; please report this error with the network")


def _culprits(difference: _Difference, pair: Sequence[Inferred], values: Sequence[Values]
              ) -> list[Node]:
    """The nodes after the pass between values that occur before it and the first that differs.

    That is the first entry that differs from the one of its name before the pass, or else the
    result itself.
    """
    (before, after), (old, new) = [network.graph for network in pair], values
    known = {id(array) for array in (*old.arrays, *old.variables.values())}
    on_way = _reached(difference.after, after, new, known)
    named = {(node.name, node.num_outputs): node for node in before.nodes if not node.is_variable}
    for node in on_way:
        if (other := named.get((node.name, node.num_outputs))) is None:
            continue
        for i in range(node.num_outputs):
            array, expected = new.of(after, Entry(node, i)), old.of(before, Entry(other, i))
            if (array is not None and expected is not None and array.shape == expected.shape
                    and _error(expected, array, float) is not None):
                return _reached([Entry(node, i)], after, new, known)
    return on_way


def _reached(entries: Sequence[Entry], graph: Graph, values: Values, known: set[int]) -> list[Node]:
    """The nodes that `entries` depend on through values that are not `known`, in order."""
    waiting, ids = list(entries), {id(entry.node) for entry in entries}
    while waiting:
        for entry in waiting.pop().node.inputs:
            if id(values.of(graph, entry)) not in known and id(entry.node) not in ids:
                ids.add(id(entry.node))
                waiting.append(entry)
    return [node for node in graph.nodes if id(node) in ids]


def _excerpt(expected: Value, actual: Value) -> str:
    """The elements around the largest difference, before and after."""
    if expected.shape != actual.shape:
        return f"shape {expected.shape} before, {actual.shape} after"
    with np.errstate(all="ignore"):
        error = np.abs(np.asarray(actual, np.float64) - np.asarray(expected, np.float64)).ravel()
    at = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
    position = tuple(int(i) for i in np.unravel_index(at, expected.shape))
    parts = slice(max(at - 2, 0), at + 3)
    return (f"at {position}: {expected.reshape(-1)[parts]} before, "
            f"{actual.reshape(-1)[parts]} after")


def _require_invariant(name: str, groups: Sequence[Sequence[Node]]) -> None:
    """MXNetError if a hoisted node depends on what changes from batch to batch."""
    for group in groups:
        inside = {id(node) for node in group}
        for node in group:
            op = node.required_op
            outside = [entry.node for entry in node.inputs if id(entry.node) not in inside]
            if (any(not source.is_variable for source in outside) or not op.is_pure
                    or (outside and not op.derived)):
                raise MXNetError(
                    f"NBMOD_CHECK=3: pass {name} takes {node.describe()} out of the loop over "
                    f"batches, but it reads {[source.name for source in outside]} or has effects; "
                    f"NBMOD_DISABLE_PASSES={name} binds without this pass; please report this "
                    "error with the network")


# -- networks --------------------------------------------------------------------------------------


def _differentiated(network: Inferred, wrt: Sequence[Node]) -> Inferred:
    """The network and its gradients."""
    graph = network.graph
    joint, heads = with_gradients(with_trained_bodies(graph), wrt)
    before: list[Spec | None] = []
    for node in joint.nodes:
        eids = graph.find(node)
        before += network.specs[eids.start:eids.stop] if eids else [None] * node.num_outputs
    known = {head.name: network.specs[eid]
             for head, eid in zip(heads, graph.output_ids, strict=True)}
    return Inferred(joint, infer_specs(joint, known, before))


def _required(specs: list[Spec]) -> list[Spec]:
    """MXNetError unless all shapes and types are known."""
    if any(spec.shape is None or 0 in spec.shape or spec.dtype is None for spec in specs):
        raise MXNetError("shapes do not follow from a smaller batch")
    return specs


def _with_smaller_batch(symbol: Inferred) -> dict[str, Spec] | None:
    """Specs of the variables, and head gradients, with fewer samples; None if there is no way."""
    graph, specs = symbol
    known = symbol.of(graph.variables)
    batch = (*specs[graph.output_ids[0]].shape, 0)[0]
    chosen = [name for name, spec in known.items() if spec.shape[:1] == (batch,)]
    if batch <= BATCH or not chosen:
        return None
    fewer = {name: (BATCH, *known[name].shape[1:]) for name in chosen}
    # A parameter may be as long as the batch: after the first, shapes follow if they can.
    for overrides in ({chosen[0]: fewer[chosen[0]]}, fewer):
        shapes = {name: spec.shape for name, spec in known.items() if name not in fewer} | overrides
        try:
            new_specs = _required([*map(Spec, infer_shape(graph, shapes), infer_type(  # type: ignore[arg-type]
                graph, {name: spec.dtype for name, spec in known.items()}))])
        except MXNetError:
            continue
        heads = {f"_head_grad_{i}": new_specs[eid] for i, eid in enumerate(graph.output_ids)}
        return Inferred(graph, new_specs).of(graph.variables) | heads
    return None


# -- values ----------------------------------------------------------------------------------------


def _roles(graph: Graph) -> Iterator[tuple[str, str]]:
    """(variable, the name that an op gives to what it reads of it), through views of it."""
    source: dict[int, Node] = {id(node): node for node in graph.variables}
    for node in graph.nodes:
        if node.op is None:
            continue
        names = node.op.list_inputs()
        if node.op.view and id(node.inputs[0].node) in source:
            source[id(node)] = source[id(node.inputs[0].node)]
            continue
        for name, entry in zip(names, node.inputs, strict=False):
            if id(entry.node) in source and name != "data":
                yield source[id(entry.node)].name, name


def _drawn(name: str, spec: Spec, role: str, trial: str) -> Value:
    """Values of a variable in its role."""
    generator = np.random.default_rng(crc32(f"{name} {trial}".encode()))
    shape, dtype = real(spec)
    if dtype.kind == "b" or any(word in role for word in ("label", "index", "indices")):
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind != "f":
        low, high = {"int8": (-128, 128), "uint8": (0, 256)}.get(dtype.name, (0, 2))
        return generator.integers(low, high, shape).astype(dtype)
    if "length" in role:
        return np.ones(shape)
    values = generator.integers(-128, 129, shape) / 64
    repeated = generator.integers(0, 4, shape) == 0
    values = np.where(repeated, np.round(values), values)
    is_bound = role.startswith(("min", "max"))
    if trial == "positive" or "var" in role or is_bound:
        values = np.abs(values) + 1 / 64
    if role.startswith("min"):
        values = -values
    if "weight" in role or role == "parameters":
        inputs = spec.size / spec.shape[0] if len(spec.shape) > 1 else 16
        values = values * 2.0 ** -round(np.log2(max(inputs, 1)) / 2)
    return np.asarray(values, np.float64)
