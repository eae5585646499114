"""Gradient programs: backward passes that are planned once for all tapes of one structure.

A loop records the same operations in every step.  What the backward pass of such a tape runs
depends on its *structure* alone: ops, how they are connected, the shapes and types of arrays, and
by which leaves it is differentiated.  `gradient_program` looks the structure up; only if it is new
are the gradient nodes made (`passes.gradient`), and shapes, workspaces and the places of values
found out.  A program refers to nodes of the tape by their places in its order, and holds no array.
Numbers in ops, such as the factor of `x * t`, and positions of slices are no part of the structure
(`numbers` and `placement` of `ops.traits`): steps read them of the tape's nodes.

Tapes with sparse arrays, arrays without elements, or several devices have no program: an
`Interpreter` runs them (`tape_backward`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ..core.config import is_exact
from ..core.fork import fresh
from ..execution.interpreter import Value, named
from ..graph import Entry, Graph, Node
from ..ops.device import Device, device_of
from ..ops.jit import lacks_compiler
from ..ops.op import Backward, Call, Computation, Mode, Op, Spec
from ..ops.sparse.row_gradients import gradient_letters
from ..passes.gradient import gradient
from . import mutation
from .tape import DirectGradientOp, OwnKind, Recorded, direct_op, entry_with_value, saved_value
from .tape_facts import TapeFacts, source_of

__all__ = ["PROGRAMS", "GradientProgram", "gradient_program", "owns_memory"]

Compute = Callable[[list[Value], Recorded, Mode], Sequence[Value | None]]
"""From the inputs of a gradient node, its recorded node and the mode to its outputs."""
Allocators: TypeAlias = Sequence[Callable[[], Value | None]]
Places: TypeAlias = Mapping[int, int]
"""Positions of the nodes of a tape in its order, by their `id`."""


class GradientStep(NamedTuple):
    """A gradient node.  Values are numbered."""

    compute: Compute
    source: int
    """The place of the recorded node of which this computes the gradient."""
    ins: tuple[int, ...]
    outs: tuple[tuple[int, int], ...]
    """Position among the outputs, and number of the value, of those that are read."""
    dead: tuple[int, ...]
    """Values that nothing reads after this."""


class GradientProgram(NamedTuple):
    """The backward pass of all tapes of one structure."""

    steps: Sequence[GradientStep]
    num_values: int
    saved: Sequence[tuple[int, int, int]]
    """(value, place of the node, output) of what is read of the tape."""
    results: Sequence[tuple[int, bool]]
    """For each leaf the value that is its gradient, and whether that has memory of its own."""

    def run(self, nodes: Sequence[Recorded], heads: Sequence[Value], is_train: bool) -> list[Value]:
        """The gradients of the leaves of a tape, given those of its outputs."""
        values: list[Value] = [*heads, *[None] * (self.num_values - len(heads))]
        for number, place, index in self.saved:
            values[number] = saved_value(nodes[place], index)
        mode, place = Mode(is_train), 0
        try:
            with np.errstate(all="ignore"):     # infinity and NaN are results, not events
                for compute, place, ins, outs, dead in self.steps:
                    computed = compute([values[i] for i in ins], nodes[place], mode)
                    for index, number in outs:
                        values[number] = computed[index]
                    for number in dead:
                        values[number] = None
        except Exception as error:
            located = named(f"backward of {nodes[place].name}", error)
            if located is error:
                raise
            raise located from error
        return [values[number] for number, _ in self.results]


# -- the programs that are kept --------------------------------------------------------------------


class Programs:
    """Programs by structure, the latest ones.

    Parameters
    ----------
    most : int
        Number of steps of all programs together; 0: there are none, and tapes are interpreted.
    """

    def __init__(self, most: int):
        self.most = most
        self._steps = 0
        self._programs: dict[Hashable, GradientProgram | None] = {}
        self._lock = fresh(threading.Lock())

    def find(self, structure: Hashable, plan: Callable[[], GradientProgram | None]
             ) -> GradientProgram | None:
        """The program of a structure, by `plan` if there is none yet; None if it has none."""
        try:
            return self._programs[structure]
        except KeyError:
            program = plan()
        size = _size(program)
        with self._lock:
            if structure not in self._programs and size <= self.most:
                self._programs[structure] = program
                self._steps += size
            while self._steps > self.most:
                self._steps -= _size(self._programs.pop(next(iter(self._programs))))
        return program

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._programs, self._steps = {}, 0


def _size(program: GradientProgram | None) -> int:
    return 1 if program is None else 1 + len(program.steps)


PROGRAMS = Programs(1 << 14)
"""A step takes 2.4 kB."""


def gradient_program(graph: Graph, heads: Sequence[Any], wrt: Sequence[Recorded]
                     ) -> GradientProgram | None:
    """The backward pass of a tape for leaves `wrt`; None if an interpreter has to run it.

    `heads` are NDArrays, the gradients of the outputs.
    """
    if not PROGRAMS.most or any([head.is_sparse for head in heads]):
        return None
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    structure = _structure(graph, places, wrt)
    if structure is None:
        return None
    return PROGRAMS.find(structure, lambda: _Planner(graph, places, heads).plan(wrt))


def _structure(graph: Graph, places: Places, wrt: Sequence[Recorded]) -> Hashable | None:
    """All that a program depends on, as a key; None if a node has no program."""
    key: list[Hashable] = [is_exact(), lacks_compiler(), len(wrt)]
    key += [places[id(leaf)] for leaf in wrt]
    for node, index in graph.outputs:
        key += places[id(node)], index
        if node.op is None:     # the kinds of its readers, which tell the shape, may lack
            key.append(node.specs[index])   # type: ignore[attr-defined]
    nodes = cast("list[Recorded]", graph.nodes)
    for node in nodes:
        if node.op is None:
            key.append(device_of(node.ctx))
        elif node.kind is None:
            return None
        else:
            key.append(node.kind)
            for source, index in node.inputs:
                key += places[id(source)], index
    return tuple(key)


# -- planning --------------------------------------------------------------------------------------


class _Unplanned(Exception):
    """A tape has no program."""


class _Planner:
    """Makes the program of a tape."""

    def __init__(self, graph: Graph, places: Places, heads: Sequence[Any]):
        self._graph, self._places = graph, places
        self._heads = {entry_with_value(head.detach()): head for head in heads}
        self._facts = TapeFacts()
        self._specs: list[Spec] = []
        self._numbers: dict[Entry, int] = {}
        self._saved: list[tuple[int, int, int]] = []

    def plan(self, wrt: Sequence[Recorded]) -> GradientProgram | None:
        """The program; None if there can be none."""
        grads = gradient(self._graph, wrt, [*self._heads])
        nodes = [node for node in Graph(grads).nodes if not isinstance(node, Recorded)]
        uses = Counter(entry for node in nodes for entry in node.inputs) + Counter(grads)
        try:
            for entry, head in self._heads.items():
                self._number(entry, Spec(head.shape, head._data.dtype))
            parts = [self._part(node, uses) for node in nodes]
            results = [(self._read(entry), owns_memory(entry) and entry not in grads[:i])
                       for i, entry in enumerate(grads)]
            for entry, leaf in zip(grads, wrt, strict=True):
                _require(device_of(self._facts.context(entry.node)) is device_of(leaf.ctx))
        except _Unplanned:
            return None
        last = {number: place for place, part in enumerate(parts)
                for number in (*[number for _, number in part.outs], *part.ins)}
        for number, _ in results:
            last.pop(number, None)
        dead: list[list[int]] = [[] for _ in parts]
        for number, place in last.items():
            dead[place].append(number)
        steps = [part._replace(dead=tuple(each)) for part, each in zip(parts, dead, strict=True)]
        return GradientProgram(steps, len(self._specs), self._saved, results)

    def _number(self, entry: Entry, spec: Spec) -> int:
        """The number of a new value."""
        _require(spec.size > 0)
        self._numbers[entry] = len(self._specs)
        self._specs.append(spec)
        return self._numbers[entry]

    def _read(self, entry: Entry) -> int:
        """The number of a value that is computed, or read of the tape."""
        if entry in self._numbers:
            return self._numbers[entry]
        node = entry.node
        assert isinstance(node, Recorded)
        value = saved_value(node, entry.index)
        number = self._number(entry, Spec(value.shape, value.dtype))
        self._saved.append((number, self._places[id(node)], entry.index))
        return number

    def _part(self, node: Node, uses: Mapping[Entry, int]) -> GradientStep:
        """The step of a gradient node."""
        op, source = node.required_op, source_of(node)
        ins = [self._read(entry) for entry in node.inputs]
        in_specs = [self._specs[number] for number in ins]
        device = device_of(source.ctx)
        for entry in node.inputs:
            _require(device_of(self._facts.context(entry.node)) is device)
        direct, like = direct_op(op), op.like(node)
        requests = [Entry(node, index) in uses or like is None and index < node.num_visible
                  for index in range(node.num_outputs)]
        _require(op.shape_of_values is None and not op.makes_sparse)
        specs = self._facts.specs(node, in_specs)
        if isinstance(op, Backward):
            _require(direct is not None or gradient_letters(op, "d" * len(ins)) is None)
        outs = tuple([(index, self._number(entry, specs[index])) for index in range(len(requests))
                      if (entry := Entry(node, index)) in uses])
        return GradientStep(_compute(op, source, in_specs, specs, requests),
                            self._places[id(source)], tuple(ins), outs, ())


def _require(condition: bool) -> None:
    if not condition:
        raise _Unplanned


def owns_memory(entry: Entry) -> bool:
    """Whether a gradient node allocates the memory of an output."""
    op = entry.node.op
    return (op is not None and not isinstance(entry.node, Recorded) and not op.view
            and direct_op(op) is None)


def _compute(op: Op, source: Recorded, ins: Sequence[Spec], specs: Sequence[Spec],
             requests: Sequence[bool]) -> Compute:
    """A function that computes a gradient node, from its inputs in dense arrays of one device."""
    if direct_op(op):
        return _write_gradients
    device = device_of(source.ctx)
    outs = [spec if wants else None for spec, wants in zip(specs, requests, strict=True)]
    if isinstance(source.kind, OwnKind) and isinstance(op, Backward):
        return partial(_run_own, device, outs)
    if op.view:
        return lambda arrays, node, mode: [arrays[0].reshape(specs[0].shape)]
    aux: Iterable[int] = op.aux_indices()
    if isinstance(op, Backward) and op.fwd.aux:
        aux = range(len(ins))
    new = [_nothing if spec is None else device.allocator(spec) for spec in outs]
    work = [*map(device.allocator, device.workspace(op, ins, specs))]
    run = _run(op, source, device.computation(op, ins, outs), (new, work), specs)
    return partial(_run_and_tell, run, aux) if aux else run


def _run(op: Op, source: Recorded, compute: Computation, allocators: tuple[Allocators, Allocators],
         specs: Sequence[Spec]) -> Compute:
    """A function that allocates the outputs and workspaces of an op, and computes the outputs.

    The gradient of a recorded op is that of the op at hand, whose numbers may be others.
    """
    gradient = op if isinstance(op, Backward) and op.fwd is source.op else None
    new, work = allocators

    def run(arrays: list[Value], node: Recorded, mode: Mode) -> Sequence[Value | None]:
        results = [allocate() for allocate in new]
        compute(op if gradient is None else gradient.of(node.required_op), arrays, results,
                Call(mode, [allocate() for allocate in work], (), specs, node.ctx, node.state))
        return results

    return run


def _nothing() -> None:
    """The array of an output that nothing reads."""


def _run_and_tell(run: Compute, aux: Iterable[int], arrays: list[Value], node: Recorded, mode: Mode
                  ) -> Sequence[Value | None]:
    """Run an op that writes to inputs, such as the statistics of BatchNorm."""
    results = run(arrays, node, mode)
    mutation.written(*[arrays[index] for index in aux])
    return results


def _run_own(device: Device, outs: Sequence[Spec | None], arrays: list[Value], node: Recorded,
             mode: Mode) -> Sequence[Value | None]:
    """Run the gradient of an op that belongs to its node alone."""
    results = [None if spec is None else device.empty(*spec) for spec in outs]
    node.required_op.backward(arrays, results, Call(mode, ctx=node.ctx, state=node.state))
    return results


def _write_gradients(arrays: list[Value], node: Recorded, mode: Mode) -> Sequence[Value | None]:
    """Let a bound network write the gradients of its parameters."""
    op = node.op
    assert isinstance(op, DirectGradientOp)
    return op.gradients(node, arrays, mode.is_train)
