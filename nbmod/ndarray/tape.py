"""The tape of `autograd`: a dynamic graph that grows while operations run (define-by-run).

The tape is not a list but the graph itself.  A recorded array refers to its `Entry`, whose node is
a `Recorded` with other recorded entries as inputs.  So nodes that no array depends on any more are
freed by reference counting, and the pass `passes.gradient` differentiates a tape as it does a
symbol.

Leaves are marked arrays (`Marked`), which have a gradient, and constants, the inputs that were not
recorded.  An operation is recorded if one of its inputs is.

The tape of `y = nd.exp(x); z = y * c`, where `x.attach_grad()` marks x and nothing marks c:

    array  `_entry`     node                       inputs          values
    x      (0, 0) ----> 0  Marked                  none            [x]
    y      (1, 0) ----> 1  Recorded exp            (0, 0)          [y]: exp's gradient reads y
    c      None         2  Recorded, a constant    none            [c]: that of the product reads c
    z      (3, 0) ----> 3  Recorded broadcast_mul  (1, 0), (2, 0)  [None]: nothing reads z

Here an entry is (node, output).  `z.backward()` takes the nodes that z depends on, 0 to 3, makes
gradient nodes of them in reverse, and runs these on the values:

    head, y, c -> _backward_broadcast_mul -> _backward_exp, with y -> `grad` of node 0

Invariant: `values[i]` of a node is set if the gradient of the node itself, or of a recorded
consumer, reads output i (`passes.gradient.reads`).  Other arrays are kept alive by the user only.
`free` clears the inputs and values of nodes; an array whose node was freed counts as not recorded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Node
from ..ops import OPS
from ..ops.device import device_of
from ..ops.op import Backward, Op, Spec
from ..ops.param import Shape
from ..passes.gradient import reads
from .array_indexing import Key
from .eager import Kind, OpPlan, named_op, op_instance, planned

__all__ = ["DirectGradientOp", "LeafGroup", "Marked", "OwnKind", "Recorded", "direct_op",
           "entry_of", "entry_with_value", "free", "fresh_gradient", "is_any_recorded",
           "live_entry", "planned_node", "record_copy", "record_index", "record_reshape",
           "require_unrecorded", "save_for_backward", "save_values", "saved_value", "saves",
           "set_fresh_gradient"]


class Recorded(Node):
    """An executed op; with `op` None, an array that no recorded op computed.

    `specs` has an item for every output, None for those that were not computed; `state` is shared
    by forward and backward, as `Call.state`; `freed` is set when a backward pass has cleared the
    inputs and values.  Nodes of one `kind` have gradients that are computed alike; None: this one's
    is not (`tape_programs`).
    """

    __slots__ = ("ctx", "specs", "values", "state", "freed", "kind")

    def __init__(self, op: Op | None, inputs: Iterable[Entry], ctx: Context,
                 source: Node | None = None):
        super().__init__(op, "array" if op is None else op.name, inputs, source=source)
        self.ctx = ctx
        self.specs: Sequence[Spec | None] = []
        self.values: list[Any] = []
        self.state: dict[str, Any] = {}
        self.freed = False
        self.kind: Kind | OwnKind | None = None


class OwnKind(NamedTuple):
    """The kind of nodes whose ops are objects of their own, with arrays of theirs."""

    op: type[Op]
    ins: Sequence[Spec]
    outs: Sequence[Spec]
    reads: Sequence[int] = ()
    """Outputs whose gradients are read."""


class Marked(Recorded):
    """A leaf with a gradient.

    `grad` is the NDArray that receives it, as `request` ("write", "add" or "null") says; `fresh`
    is set by each backward pass that has written it.
    """

    __slots__ = ("grad", "request", "fresh")

    def __init__(self, data: Any, ctx: Context, grad: Any, request: str):
        super().__init__(None, (), ctx)
        _set_outputs(self, [data])
        self.grad, self.request, self.fresh = grad, request, False


class LeafGroup(Recorded):
    """The leaves whose gradients one operation writes itself, as one input of that operation.

    `direct`, the `DirectGradients` of a backward pass, is set while that runs.
    """

    __slots__ = ("leaves", "direct")

    def __init__(self, leaves: Sequence[Marked], ctx: Context):
        super().__init__(None, (), ctx)
        self.specs, self.values = [Spec((1,), np.dtype(np.float32))], [None]
        self.leaves = leaves
        self.direct: Any = None


class DirectGradientOp(Op):
    """An operation whose last input is a `LeafGroup`."""

    @abstractmethod
    def gradients(self, node: Recorded, heads: Sequence[Any], is_train: bool) -> list[Any]:
        """Write the gradients of the group.

        Returns those of the inputs, in arrays that the node keeps, and anything for the group.
        """

    @abstractmethod
    def all_inputs(self, node: Recorded) -> Sequence[Entry]:
        """The inputs of a call: each leaf of the group, and those that no gradient reaches."""

    @abstractmethod
    def unfolded(self, node: Recorded) -> Sequence[Entry]:
        """Record the operations of which this one consists; returns entries of its outputs."""


def direct_op(op: Op) -> DirectGradientOp | None:
    """The operation whose gradient `op` is, if that writes gradients itself."""
    return op.fwd if isinstance(op, Backward) and isinstance(op.fwd, DirectGradientOp) else None


def fresh_gradient(array: Any) -> bool:
    """Whether `backward` has written the gradient of `array` since this was set to False."""
    node = None if array._entry is None else array._entry.node
    return isinstance(node, Marked) and node.fresh


def set_fresh_gradient(array: Any, fresh: bool) -> None:
    """Set what `fresh_gradient` answers."""
    node = None if array._entry is None else array._entry.node
    if not isinstance(node, Marked):
        raise MXNetError(f"_fresh_grad: the array of shape {array.shape} has no gradient; call "
                         "attach_grad() on it")
    node.fresh = bool(fresh)


def _set_outputs(node: Recorded, arrays: Sequence[Any]) -> None:
    node.values = list(arrays)
    node.specs = [None if array is None else Spec(array.shape, array.dtype) for array in arrays]


def live_entry(array: Any) -> Entry | None:
    """The entry of `array` on the tape; None if it was not recorded, or its node was freed."""
    entry = array._entry
    return None if entry is None or entry.node.freed else entry


def entry_of(array: Any) -> Entry:
    """The entry of `array` on the tape; a new constant if it was not recorded."""
    entry = live_entry(array)
    if entry is None:
        node = Recorded(None, (), array._ctx)
        node.specs, node.values = [Spec(array._data.shape, array._data.dtype)], [None]
        entry = Entry(node)
    return entry


def saved_value(node: Node, index: int) -> Any:
    """The value of an output of a recorded node."""
    value = node.values[index]  # type: ignore[attr-defined]
    if value is None:
        raise MXNetError(f"{node.name}: output {index}, which the gradient reads, was not saved")
    return value


def entry_with_value(array: Any) -> Entry:
    """`entry_of`, with the value saved in the node."""
    node, index = entry_of(array)
    node.values[index] = array._data  # type: ignore[attr-defined]
    return Entry(node, index)


def is_any_recorded(arrays: Iterable[Any]) -> bool:
    """Whether at least one of the arrays is recorded."""
    return any([live_entry(array) is not None for array in arrays])


def require_unrecorded(what: str, targets: Iterable[Any], inputs: Sequence[Any] = ()) -> None:
    """Raise MXNetError if recording `what` would overwrite a recorded array."""
    for target in targets:
        if live_entry(target) is not None:
            raise MXNetError(
                f"{what}: the array of shape {target.shape} to write to is part of a recorded "
                "computation, whose gradient would be wrong (Assigning to NDArrays that are "
                "already in a computational graph); write to a new array, call backward first, or "
                "do this under autograd.pause()")
        if any(target is array for array in inputs) and is_any_recorded(inputs):
            raise MXNetError(
                f"{what}: operations in place (+=, out= an input) are not recorded; write "
                "y = y + x instead of y += x, or do this under autograd.pause()")


def save_for_backward(node: Recorded, ins: Sequence[Any], outs: Sequence[Any],
         specs: Sequence[Spec | None] = ()) -> None:
    """Set the specs of the outputs of `node`, and save the values that its gradient reads.

    `specs`, if given, covers outputs that were not computed as well.
    """
    _set_outputs(node, outs)
    node.specs, node.values = list(specs) or node.specs, [None] * len(outs)
    save_values(node, ins, outs, _saves_of(node.required_op))


class Saves(NamedTuple):
    """The values that the gradient of an op reads."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    minimum: int
    """Number of outputs to compute, hidden ones included."""


def _saves_of(op: Op) -> Saves:
    ins, outs = (tuple([index for kind, index in reads(op) if kind == which])
                 for which in ("in", "out"))
    return Saves(ins, outs, 1 + max(outs, default=-1))


def saves(op: Op) -> Saves:
    """The values that the gradient of an op reads."""
    return _saves_of_form(op.name, op.form)


@lru_cache(maxsize=4096)
def _saves_of_form(name: str, form: Op) -> Saves:
    return _saves_of(form)


def save_values(node: Recorded, ins: Sequence[Any], outs: Sequence[Any], saved: Saves) -> None:
    """Save the values that the gradient of a node reads."""
    for index in saved.outs:
        node.values[index] = outs[index]
    for index in saved.ins:
        source, output = node.inputs[index]
        source.values[output] = ins[index]  # type: ignore[attr-defined]


def planned_node(op: Op, entries: Iterable[Entry], ctx: Context, plan: OpPlan) -> Recorded:
    """A node of an op that is executed as `plan` says, or not at all; it has no values yet."""
    node = Recorded(op, entries, ctx)
    node.specs, node.values = plan.specs, [None] * len(plan.specs)
    node.kind = plan.kind
    return node


def record(op: Op, entry: Entry, ctx: Context) -> Entry:
    """Record `op` applied to `entry` without executing it; its gradient must not read values."""
    spec = entry.node.specs[entry.index]  # type: ignore[attr-defined]
    if spec.size:
        return Entry(planned_node(op, [entry], ctx, planned(op, [spec], device_of(ctx))))
    node = Recorded(op, [entry], ctx)   # no plan: to plans, a 0 is the length of an array
    (shape,), (dtype,) = (getattr(op, f"infer_{what}")([fact], [None])[1]
                          for what, fact in (("shape", spec.shape), ("type", spec.dtype)))
    node.specs, node.values = [Spec(shape, dtype)], [None]
    return Entry(node)


def record_copy(entry: Entry, dtype: Any, ctx: Context) -> Entry:
    """Record a copy of an array, possibly to another type or device."""
    same = entry.node.specs[entry.index].dtype == dtype  # type: ignore[attr-defined]
    name, params = ("_copy", {}) if same else ("Cast", {"dtype": np.dtype(dtype).name})
    return record(op_instance(OPS[name], params), entry, ctx)


def record_assignment(array: Any, key: Key, value: Any) -> None:
    """Record the assignment of an array to the elements at `key`, or raise MXNetError."""
    require_unrecorded("x[...] = value", [array])
    if value is not None and (entry := live_entry(value)):
        whole = all(part is ... or type(part) is slice and part == slice(None) for part in key)
        if not whole or value.shape != array.shape:
            raise MXNetError(
                f"x[...] = value: a recorded value of shape {value.shape} is written to a part "
                f"of an array of shape {array.shape} (Inplace operations (+=, -=, x[:]=, etc) "
                "are not supported when recording with autograd); only x[:] = value of the "
                "same shape is recorded, join parts with concat or stack")
        array._entry = record_copy(entry, array._data.dtype, array._ctx)


def record_reshape(entry: Entry, shape: Shape, ctx: Context) -> Entry:
    """Record a reshape of an array."""
    if entry.node.specs[entry.index].shape == shape:  # type: ignore[attr-defined]
        return entry
    if shape == ():  # which means to Reshape that none is given
        return _record_take(record_reshape(entry, (1,), ctx), np.zeros((), np.int64), ctx)
    return record(op_instance(OPS["Reshape"], {"shape": shape}), entry, ctx)


def _record_take(entry: Entry, where: np.ndarray, ctx: Context) -> Entry:
    """Record the elements of a vector at given indices."""
    indices, device, op = Recorded(None, (), ctx), device_of(ctx), named_op("take")
    _set_outputs(indices, [device.from_numpy(where)])
    specs = [entry.node.specs[entry.index], *indices.specs]  # type: ignore[attr-defined]
    return Entry(planned_node(op, [entry, Entry(indices)], ctx, planned(op, specs, device)))


def record_index(array: Any, key: Key, basic: bool, shape: Shape) -> Entry:
    """Record `array[key]`, of `shape`; `key` is a result of `array_indexing.normalize`."""
    entry, ctx = entry_of(array), array._ctx
    if basic:
        parts = _slices(key, array.ndim)
        if any(part != slice(None) for part in parts):
            begin, end, step = zip(*((p.start, p.stop, p.step) for p in parts), strict=True)
            op = op_instance(OPS["slice"], {"begin": begin, "end": end, "step": step})
            entry = record(op, entry, ctx)
        return record_reshape(entry, shape, ctx)
    where = np.arange(array.size).reshape(array.shape)[key].reshape(-1)
    taken = _record_take(record_reshape(entry, (array.size,), ctx), where, ctx)
    return record_reshape(taken, shape, ctx)


def _slices(key: Key, ndim: int) -> list[slice]:
    """The slices of a basic key, one per dimension; an integer becomes a slice of length 1."""
    parts = [part for part in key if part is not None]
    at = parts.index(Ellipsis)
    parts[at:at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    return [part if isinstance(part, slice) else slice(part, part + 1 or None) for part in parts]


def free(nodes: Iterable[Node]) -> None:
    """Clear the inputs and values of computed nodes."""
    for node in nodes:
        if isinstance(node, Recorded) and node.op is not None:
            node.inputs, node.values, node.state, node.freed = [], [], {}, True
