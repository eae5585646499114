"""The interpreter: runs the nodes of a graph one by one.

Where no plan can be made before the values are there, an `Interpreter` runs a graph: it allocates
the outputs of a node when the node runs, and drops every value after its last use.  It serves the
gradients of `autograd` (`ndarray.tape_backward`), and networks with sparse arrays
(`execution.sparse_program`).  Of the graph it knows what a `GraphFacts` tells.

A node runs in the first way that applies:

    sparse      an op that has a form for sparse inputs computes with these
    region      a `DenseRegion` has an executor of its own
    idle        there is nothing to compute if no output has elements
    zeros       gradients of outputs without elements are zeros
    view        the input under another shape
    direct      a bound network writes gradients of its parameters, and returns those of its inputs
    otherwise   the implementation `key`, on dense arrays
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from ..base import ArgumentError, MXNetError, OutOfMemory
from ..context import Context
from ..core.interrupts import from_handler
from ..graph import Entry, Node
from ..ndarray import mutation
from ..ndarray.eager import execute
from ..ndarray.tape import direct_op
from ..ops import dispatch
from ..ops.device import CPU, Device, device_of
from ..ops.dispatch import NUMBA, REFERENCE, Choice
from ..ops.op import Backward, Call, Mode, Op, Spec
from ..ops.param import Shape
from ..ops.sparse.dense_region import DenseRegion, RegionExecutor
from ..ops.sparse.formats import as_dense, letters_of
from ..ops.sparse.forms import compute
from ..ops.sparse.row_gradients import row_gradients
from ..ops.sparse.storage_types import result

if TYPE_CHECKING:
    from ..ndarray.tape import Recorded

__all__ = ["Interpreter", "GraphFacts", "Value", "Watch", "located", "named", "to_context"]

Value: TypeAlias = Any  # type: ignore[explicit-any]
"""A dense array of a device, or a sparse array on the CPU."""
Watch = Callable[[Node, Sequence[Value], Sequence[Value | None], Context], None]
"""Is called with a node, its inputs, its outputs and its context, after it has run."""


class GraphFacts(Protocol):
    """Facts that an interpreter must know of a graph."""

    def context(self, node: Node) -> Context:
        """Where a node runs, and its outputs are."""

    def specs(self, node: Node, ins: Sequence[Value]) -> Sequence[Spec]:
        """Shape and type of every output."""

    def state(self, node: Node) -> dict[str, object]:
        """State that a node shares with its gradient."""

    def located(self, node: Node, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""


class Interpreter:
    """Nodes that run one by one.

    Parameters
    ----------
    facts : GraphFacts
        What is known of the graph.
    nodes : sequence of Node
        In order of execution.
    outputs : iterable of Entry
        Values to keep.
    key : str
        The implementation that runs:

            reference   NumPy, on the CPU
            numba       kernels that are prepared for these arrays
            eager       that of single calls, which prepare nothing
            sparse      the same where an op has no form for sparse inputs
    """

    def __init__(self, facts: GraphFacts, nodes: Sequence[Node], outputs: Iterable[Entry],
                 key: str):
        self._facts, self._nodes, self._key = facts, nodes, key
        self._uses = Counter(entry for node in nodes for entry in node.inputs)
        self._uses.update(outputs)
        self._choices: dict[int, Choice] = {}
        self._workspaces: dict[int, list[Spec]] = {}

    def run(self, values: dict[Entry, Value], is_train: bool, watch: Watch | None = None) -> None:
        """Run all nodes.

        `values` has what they read of others; in the end it has what is wanted.
        """
        uses, mode = self._uses.copy(), Mode(is_train)
        for node in self._nodes:
            try:
                ins, outs = self._run(node, values, mode)
            except Exception as error:
                located = self._facts.located(node, error)
                if located is error:
                    raise
                raise located from error
            if watch is not None:
                watch(node, ins, outs, self._facts.context(node))
            for index, value in enumerate(outs):
                if value is not None and Entry(node, index) in uses:
                    values[Entry(node, index)] = value
            for entry in node.inputs:
                uses[entry] -= 1
                if not uses[entry]:
                    values.pop(entry, None)

    def _run(self, node: Node, values: Mapping[Entry, Value], mode: Mode
             ) -> tuple[list[Value], Sequence[Value | None]]:
        """The inputs of a node on its device, and its outputs, None for those not computed."""
        op, ctx = node.required_op, self._facts.context(node)
        ins = [to_context(values[entry], self._facts.context(entry.node), ctx)
               for entry in node.inputs]
        requests = [Entry(node, index) in self._uses or op.like(node) is None
                    and index < node.num_visible for index in range(node.num_outputs)]
        if self._key == "sparse" and (results := _compute_sparse(op, ins, requests)) is not None:
            return ins, results
        if isinstance(op, DenseRegion):
            region = cast("RegionExecutor", self._facts.state(node)["executor"])
            return ins, region.forward(ins, mode.is_train)
        dense = [*map(as_dense, ins)]
        if direct := direct_op(op):
            return ins, direct.gradients(cast("Recorded", node.source), dense, mode.is_train)
        specs, device = self._facts.specs(node, dense), device_of(ctx)
        heads = [array.size for name, array in zip(op.list_inputs(), dense, strict=True)
                 if name.startswith("ograd")] if isinstance(op, Backward) else ()
        if heads and not any(heads):
            return ins, [device.full(*spec, 0) for spec in specs]
        if op.view:
            return ins, [dense[0].reshape(specs[0].shape)]
        outs = [device.empty(*spec) if want else None
                for spec, want in zip(specs, requests, strict=True)]
        if any(out is None or out.size for out in outs):
            call = Call(mode, (), (), specs, ctx, self._facts.state(node))
            self._execute(node, dense, outs, call, device)
        return ins, outs

    def _choice(self, node: Node, ins: Sequence[Value], call: Call, device: Device) -> Choice:
        """That of the first run."""
        if id(node) not in self._choices:
            op, specs = node.required_op, [Spec(array.shape, array.dtype) for array in ins]
            self._choices[id(node)] = (dispatch.choose(op, [REFERENCE], specs, call.specs) if
                                       self._key == REFERENCE else
                                       device.choose(op, specs, call.specs))
        return self._choices[id(node)]

    def _scratch(self, node: Node, ins: Sequence[Value], call: Call, device: Device) -> list[Spec]:
        """The workspace in the first run."""
        if id(node) not in self._workspaces:
            self._workspaces[id(node)] = device.workspace(
                node.required_op, [Spec(array.shape, array.dtype) for array in ins], call.specs)
        return self._workspaces[id(node)]

    def _execute(self, node: Node, ins: Sequence[Value], outs: Sequence[Value | None], call: Call,
                 device: Device) -> None:
        """Run the implementation of a node."""
        op = node.required_op
        try:
            if self._key in (NUMBA, REFERENCE):
                choice = self._choice(node, ins, call, device)
                call.scratch = [device.empty(*spec) for spec in choice.workspace]
                device.prepare(choice, ins, outs, call)()
            else:
                call.scratch = [device.empty(*spec)
                                for spec in self._scratch(node, ins, call, device)]
                device.run(op, ins, outs, call)
        except (ValueError, IndexError, ZeroDivisionError) as error:
            if all(array.size for array in ins):
                raise
            raise ArgumentError(f"{op.name}: {error}") from None
        if isinstance(op, Backward):
            if op.fwd.aux:      # BatchNorm updates its statistics
                mutation.written(*ins)
        elif op.aux:
            mutation.written(*[ins[index] for index in op.aux_indices()])


def located(node: Node, shapes: Iterable[Shape], error: Exception) -> Exception:
    """`error` of a node of a network, with its name and the shapes of its inputs."""
    if (isinstance(error, MXNetError) and str(error).startswith(node.name)) or from_handler(error):
        return error
    kind = OutOfMemory if isinstance(error, MemoryError) else MXNetError
    hint = ("; an output or gradient that nothing reads is None"
            if isinstance(error, (AttributeError, TypeError)) and "NoneType" in str(error) else "")
    return kind(f"{node.describe()}: {error}{hint} [input shapes: {', '.join(map(str, shapes))}]")


def named(about: str, error: Exception) -> Exception:
    """`error`, if it is the library's, or of memory, with what it is about."""
    if not isinstance(error, (MXNetError, MemoryError)) or str(error).startswith(about):
        return error
    kind = type(error) if isinstance(error, MXNetError) else OutOfMemory
    return kind(f"{about}: {error}")


def _compute_sparse(op: Op, ins: Sequence[Value], requests: Sequence[bool]
                    ) -> list[Value | None] | None:
    """The outputs of an op that has a form for such inputs; None: it takes dense arrays."""
    if isinstance(op, Backward):
        return row_gradients(op, ins, requests)
    letters = letters_of(ins)
    if not (letters.strip("d") or op.makes_sparse) or (letter := result(op, letters)) is None:
        return None
    with np.errstate(all="ignore"):     # infinity and NaN are results
        return [compute(op, ins, letter, _compute_dense)]


def _compute_dense(op: Op, ins: Sequence[Value]) -> Value:
    return execute(op, ins, CPU)[0]


def to_context(value: Value, ctx: Context, target: Context) -> Value:
    """`value`, which is on `ctx`, or a copy of it on `target`."""
    device, target_device = device_of(ctx), device_of(target)
    if device is target_device:
        return value
    copy = target_device.empty(value.shape, value.dtype)
    (target_device if target.is_gpu else device).copy(value, copy)
    return copy
