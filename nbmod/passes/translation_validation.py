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
one, before and after the pass.

*Limits.*  What no NumPy definition exists for is an unknown function, the same in both graphs.  A
difference below `CLOSE` of the largest element is rounding.  Elements that are NaN before the pass
are not compared.  Memory plans and kernels are no matter of graphs: for those see
`execution.sanitizer`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.op import Spec
from .infer import Inferred, infer_specs, specs_of
from .reference import Reference, Values, distance, largest, real
from .rewrite import Rewritten
from .training import with_gradients, with_trained_bodies

__all__ = ["Validation"]

CLOSE = 1e-7
"""Of the largest element of a result: far above rounding in float64, and below that of float32."""
CANCELLED = 1e-12
"""Of the largest element of any result: what rounding may leave where terms cancel."""
TRIALS = ("of both signs", "positive")
LARGE = 2 ** 27
"""Bytes of the entries of a network, in float64, from which its batch is reduced."""
BATCH = 2
"""The reduced batch: two samples, so that sums over the batch are sums."""


class _Difference(NamedTuple):
    """One result that differs."""

    what: str
    error: float
    expected: Any
    found: Any


class Validation:
    """Compares the graphs before and after each pass of one network.

    Parameters
    ----------
    symbol : Inferred
        The network, and shape and type of every entry.
    trained : sequence of str
        Arguments with gradients.

    Attributes
    ----------
    passes : list of str
        What has been compared, in order.
    seconds : float
        What it has taken.

    Examples
    --------
    >>> import nbmod as mx
    >>> from nbmod.execution.pipeline import validating
    >>> x = mx.sym.Variable("x")
    >>> with validating():
    ...     executor = (mx.sym.exp(x) + mx.sym.exp(x)).simple_bind(mx.cpu(), x=(2, 3))
    """

    def __init__(self, symbol: Inferred, trained: Sequence[str]):
        self.passes: list[str] = []
        self.seconds = 0.0
        self._symbol, self._trained = symbol, frozenset(trained)
        self._num_outputs = len(symbol.graph.outputs)
        self._joints: dict[int, tuple[Graph, Inferred]] = {}
        self._smaller = _with_smaller_batch(symbol)
        self._references = self._made_references()

    # -- what passes call ---------------------------------------------------------------------

    def rewritten(self, name: str, before: Rewritten, after: Rewritten) -> None:
        """Compare what a pass made of a graph without gradients; MXNetError if it differs."""
        if after.groups is not before.groups:
            _require_invariant(name, after.groups)
        if after.graph is not before.graph:
            self.graphs(name, *(self._with_gradients(each) for each in (before, after)))

    def graphs(self, name: str, before: Inferred, after: Inferred) -> None:
        """Compare two graphs of outputs and gradients; MXNetError if they differ."""
        if before.graph.outputs == after.graph.outputs:
            return
        start = perf_counter()
        try:
            if self._smaller is not None:
                try:
                    smaller = [self._reduced(each) for each in (before, after)]
                except MXNetError:      # shapes in the graph are those of the whole batch
                    self._smaller, self._references = None, {}
                    self._references = self._made_references()
                else:
                    before, after = smaller
            self._require_same(name, before, after)
            self.passes.append(name)
        finally:
            self.seconds += perf_counter() - start

    def report(self) -> None:
        """Print one line about what has been compared, and what it cost."""
        unknown = sorted({op for reference in self._references.values()
                          for op in reference.unknown})
        print(f"NBMOD_CHECK=3: {len(self.passes)} passes validated in {self.seconds:.2f} s"
              f"{': ' if self.passes else ''}{', '.join(self.passes)}"
              f"{f'; with {BATCH} samples of the batch' if self._smaller else ''}"
              f"{'; unknown functions: ' if unknown else ''}{', '.join(unknown)}",
              file=sys.stderr, flush=True)

    # -- graphs ---------------------------------------------------------------------------------

    def _with_gradients(self, rewritten: Rewritten) -> Inferred:
        """The graph with gradients of what is trained."""
        graph = rewritten.graph
        if id(graph) not in self._joints:
            specs: Any = specs_of(graph, rewritten.specs)
            joint = Inferred(graph, specs)
            wrt = [node for node in graph.variables if node.name in self._trained]
            wrt.sort(key=lambda node: node.name)    # passes may change the order of variables
            if wrt:
                joint = _differentiated(joint, wrt)
            self._joints[id(graph)] = graph, joint      # the graph lives on, so ids are unique
        return self._joints[id(graph)][1]

    def _reduced(self, network: Inferred) -> Inferred:
        """The network with fewer samples."""
        assert self._smaller is not None
        return Inferred(network.graph, _required(infer_specs(network.graph, self._smaller)))

    def _made_references(self) -> dict[tuple[str, bool], Reference]:
        """By trial, and whether ops work as in training."""
        specs = self._symbol.of(self._symbol.graph.variables) | self._heads()
        specs |= self._smaller or {}
        roles = dict(_roles(self._symbol.graph))
        modes = [True, False] if self._trained else [False]
        made = {}
        for trial in TRIALS:
            values = {name: _drawn(name, spec, roles.get(name, ""), trial)
                      for name, spec in specs.items()}
            made.update({(trial, mode): Reference(values, mode) for mode in modes})
        return made

    def _heads(self) -> dict[str, Spec]:
        graph = self._symbol.graph
        return {f"_head_grad_{i}": self._symbol.specs[eid]
                for i, eid in enumerate(graph.output_ids)}

    # -- comparison -------------------------------------------------------------------------------

    def _require_same(self, name: str, before: Inferred, after: Inferred) -> None:
        for (trial, is_train), reference in self._references.items():
            pair = [before, after]
            if self._trained and not is_train:      # the forward pass alone
                pair = [self._forward(each) for each in pair]
            expected, found = (reference.evaluate(*each, join=each is pair[1]) for each in pair)
            difference = next(self._differences(pair, expected, found), None)
            if difference is not None:
                mode = f"{'training' if is_train else 'inference'}, values {trial}"
                raise _error(name, mode, difference, pair, (expected, found), reference.unknown)

    def _forward(self, network: Inferred) -> Inferred:
        graph = network.graph.head(self._num_outputs)
        return Inferred(graph, network.specs[:graph.num_entries])

    def _differences(self, pair: Sequence[Inferred], expected: Values, found: Values
                     ) -> Iterator[_Difference]:
        """Outputs, gradients and states that differ."""
        scale = max((largest(array) for array in expected.arrays
                     if array is not None and array.dtype.kind == "f"), default=0.0)
        graph = pair[0].graph
        for i, (array, other, entry) in enumerate(zip(
                expected.outputs(graph), found.outputs(pair[1].graph), graph.outputs,
                strict=True)):
            what = f"output {entry.index} of {entry.node.describe()}"
            if i >= self._num_outputs:
                what = f"the gradient {entry.node.name}"
            yield from _difference(what, array, other, scale)
        for name, array in expected.variables.items():
            yield from _difference(f"the state {name}", array, found.variables[name], scale)


def _difference(what: str, expected: Any, found: Any, scale: float) -> Iterator[_Difference]:
    """The difference of a result, if there is one."""
    if expected is found:
        return
    if expected.shape != found.shape:
        yield _Difference(what, np.inf, expected, found)
        return
    if expected.dtype.kind == "f":
        found = np.where(np.isnan(expected), expected, found)
    error = distance(found, expected)
    if error > CLOSE * largest(expected) + CANCELLED * scale:
        yield _Difference(what, error, expected, found)


def _error(name: str, mode: str, difference: _Difference, pair: Sequence[Inferred],
           values: Sequence[Values], unknown: dict[str, str]) -> MXNetError:
    """The error that names a pass."""
    from .switches import PASSES

    what, error, expected, found = difference
    (before, after), made = [each.graph for each in pair], []
    known = {id(node) for node in before.nodes}
    names = {node.name for node in before.nodes}
    made = [node for node in after.nodes if id(node) not in known and node.name not in names]
    changed = [node.describe() for node in made[:5]]
    off = (f"NBMOD_DISABLE_PASSES={name} binds without this pass" if name in PASSES
           else "MXNET_BACKWARD_DO_MIRROR=0, without force_mirroring, binds without it"
           if name == "mirror" else "it has no switch")
    lacking = [f"{node.op_name} ({unknown[node.op_name]})" for node in made
               if node.op_name in unknown]
    return MXNetError(
        f"NBMOD_CHECK=3: pass {name} ({PASSES.get(name, 'a part of bind')}) changes what the "
        f"network computes ({mode}): {what} differs by {error:.3g}, its largest element is "
        f"{largest(expected):.3g}\n{_excerpt(expected, found)}\n"
        f"It shows first in {_first(pair, values)}"
        f"{'; new nodes: ' if changed else ''}{', '.join(changed)}"
        f"{'; not evaluated: ' if lacking else ''}{', '.join(lacking)}\n"
        f"{off}; please report this error with the network")


def _first(pair: Sequence[Inferred], values: Sequence[Values]) -> str:
    """The first entry after the pass that differs from the one of its name before it."""
    before, after = (each.graph for each in pair)
    named = {node.name: node for node in before.nodes if not node.is_variable}
    for node in after.nodes:
        other = named.get(node.name)
        if node.is_variable or other is None:
            continue
        for i in range(min(node.num_outputs, other.num_outputs)):
            array, old = (each.arrays[graph.eid(Entry(one, i))] for each, graph, one in (
                (values[1], after, node), (values[0], before, other)))
            if array is None or old is None or array.shape != old.shape:
                continue
            if any(_difference("", old, array, 0.0)):
                return f"output {i} of {node.describe()}"
    return "a result that the pass introduced"


def _excerpt(expected: Any, found: Any) -> str:
    """The elements around the largest difference, before and after."""
    if expected.shape != found.shape:
        return f"shape {expected.shape} before, {found.shape} after"
    with np.errstate(all="ignore"):
        error = np.abs(np.asarray(found, np.float64) - np.asarray(expected, np.float64)).reshape(-1)
    at = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
    position = tuple(int(i) for i in np.unravel_index(at, expected.shape))
    parts = slice(max(at - 2, 0), at + 3)
    return (f"at {position}: {expected.reshape(-1)[parts]} before, "
            f"{found.reshape(-1)[parts]} after")


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
    """MXNetError unless all shapes are known."""
    if any(spec.shape is None or 0 in spec.shape or spec.dtype is None for spec in specs):
        raise MXNetError("shapes do not follow from a smaller batch")
    return specs


def _with_smaller_batch(symbol: Inferred) -> dict[str, Spec] | None:
    """Specs of the variables, and head gradients, with fewer samples; None if there is no need or
    no way."""
    graph, specs = symbol
    if sum(spec.size for spec in specs) * 8 < LARGE:
        return None
    shape = specs[graph.output_ids[0]].shape if graph.outputs else ()
    known = symbol.of(graph.variables)
    batch = shape[0] if shape else 0
    chosen = [name for name, spec in known.items() if spec.shape[:1] == (batch,)]
    if batch <= BATCH or not chosen:
        return None
    # A parameter may be as long as the batch: after the first, shapes follow if they can.
    fixed = {name: spec for name, spec in known.items() if name not in chosen}
    fixed[chosen[0]] = replace_batch(known[chosen[0]])
    for given in (fixed, {name: replace_batch(spec) if name in chosen else spec
                          for name, spec in known.items()}):
        try:
            types = {name: spec for name, spec in known.items()}
            found = _required(infer_specs(graph, {
                name: given.get(name, Spec(None, types[name].dtype)) for name in known}))
        except MXNetError:
            continue
        smaller = Inferred(graph, found)
        heads = {f"_head_grad_{i}": found[eid] for i, eid in enumerate(graph.output_ids)}
        return {**smaller.of(graph.variables), **heads}
    return None


def replace_batch(spec: Spec) -> Spec:
    """`spec` with the reduced batch."""
    return Spec((BATCH, *spec.shape[1:]), spec.dtype)


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


def _drawn(name: str, spec: Spec, role: str, trial: str) -> Any:
    """Values of a variable in its role."""
    generator = np.random.default_rng(crc32(f"{name} {trial}".encode()))
    shape, dtype = real(spec)
    if dtype.kind == "b" or any(word in role for word in ("label", "index", "indices")):
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind != "f":
        ends = np.iinfo(dtype)
        low, high = (ends.min, ends.max) if dtype.itemsize == 1 else (0, 2)
        return generator.integers(low, high, shape, endpoint=dtype.itemsize == 1).astype(dtype)
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
