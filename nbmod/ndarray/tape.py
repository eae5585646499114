"""The tape of `autograd`: a graph that grows while operations run.

A tape is no list but the graph itself.  An array that was recorded carries its `Entry`; the node
of that is a `Recorded`, whose inputs are entries of other recorded nodes.  So what no array can
reach any more is gone without anybody's help, and the gradient pass of `passes.gradient`, which
knows nothing of arrays, differentiates a tape as it does a symbol.

Leaves are arrays with a gradient (`Marked`) and constants: whatever took part without being
recorded.  An operation is recorded when one of its inputs is.

Invariant: `values[i]` of a node is there if output i is read by the gradient of the node itself or
of a node recorded on top of it (`passes.gradient.reads`).  All else is only as alive as the user's
own arrays are.  `free` takes the inputs and values from nodes; an array
whose node was freed counts as one that never was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Node
from ..ops import OPS
from ..ops.device import device_of
from ..ops.op import Op, Spec
from ..ops.param import Shape
from ..passes.gradient import reads

__all__ = ["Marked", "Recorded", "entry_of", "free", "held", "keep", "live", "mark", "note_copy",
           "note_index", "note_shape", "outputs_read", "reached", "require_unrecorded"]


class Recorded(Node):
    """An op that has run on arrays (`op` None: an array that no recorded op computed).

    `specs` has an item for every output, None for those that were not computed; `state` is shared
    by its forward and backward, as `Call.state`; `freed` tells that a backward pass has taken its
    inputs and values.
    """

    __slots__ = ("ctx", "specs", "values", "state", "freed")

    def __init__(self, op: Op | None, inputs: Iterable[Entry], ctx: Context,
                 source: Node | None = None):
        super().__init__(op, "array" if op is None else op.name, inputs, source=source)
        self.ctx = ctx
        self.specs: list[Spec | None] = []
        self.values: list[Any] = []
        self.state: dict[str, Any] = {}
        self.freed = False


class Marked(Recorded):
    """An array that gradients are wanted for: `grad` is the NDArray they go to, as `request`
    ("write", "add" or "null") says."""

    __slots__ = ("grad", "request")

    def __init__(self, data: Any, ctx: Context, grad: Any, request: str):
        super().__init__(None, (), ctx)
        _hold(self, [data])
        self.grad, self.request = grad, request


def _hold(node: Recorded, arrays: Sequence[Any]) -> None:
    node.values = list(arrays)
    node.specs = [None if array is None else Spec(array.shape, array.dtype) for array in arrays]


def mark(array: Any, grad: Any, request: str) -> None:
    """Make `array` a leaf from here on, whatever computed it."""
    array._entry = Entry(Marked(array._data, array._ctx, grad, request))


def live(array: Any) -> Entry | None:
    """Where `array` stands on the tape; None if it does not, or no longer."""
    entry = array._entry
    return None if entry is None or entry.node.freed else entry


def entry_of(array: Any) -> Entry:
    """Where `array` stands on the tape, as a constant if nothing is known of it."""
    entry = live(array)
    if entry is None:
        node = Recorded(None, (), array._ctx)
        node.specs, node.values = [Spec(array._data.shape, array._data.dtype)], [None]
        entry = Entry(node)
    return entry


def held(array: Any) -> Entry:
    """The same, with the value of the array at hand."""
    node, index = entry_of(array)
    node.values[index] = array._data  # type: ignore[attr-defined]
    return Entry(node, index)


def reached(arrays: Iterable[Any]) -> bool:
    """Whether one of the arrays is on the tape."""
    return any([live(array) is not None for array in arrays])


def require_unrecorded(what: str, targets: Iterable[Any], inputs: Sequence[Any] = ()) -> None:
    """MXNetError if recording `what` would write to an array that is needed as it is."""
    for target in targets:
        if live(target) is not None:
            raise MXNetError(
                f"{what}: the array of shape {target.shape} to write to is part of a recorded "
                "computation, whose gradient would be wrong; write to a new array, call backward "
                "first, or do this under autograd.pause()")
        if any(target is array for array in inputs) and reached(inputs):
            raise MXNetError(
                f"{what}: operations in place (+=, out= an input) are not recorded; write "
                "y = y + x instead of y += x, or do this under autograd.pause()")


def keep(node: Recorded, ins: Sequence[Any], outs: Sequence[Any],
         specs: Sequence[Spec | None] = ()) -> None:
    """Enter what `node` computed, and hold what its gradient reads.

    `specs`, if given, tells more than the arrays do: of outputs that were not computed.
    """
    _hold(node, outs)
    node.specs, node.values = list(specs) or node.specs, [None] * len(outs)
    for kind, index in reads(node.required_op):
        if kind == "out":
            node.values[index] = outs[index]
        else:
            source, output = node.inputs[index]
            source.values[output] = ins[index]  # type: ignore[attr-defined]


def note(op: Op, entry: Entry, ctx: Context) -> Entry:
    """Enter `op` of `entry` without running it: its gradient must read no values."""
    spec = entry.node.specs[entry.index]  # type: ignore[attr-defined]
    node = Recorded(op, [entry], ctx)
    (shape,), (dtype,) = (getattr(op, f"infer_{what}")([fact], [None])[1]
                          for what, fact in (("shape", spec.shape), ("type", spec.dtype)))
    node.specs, node.values = [Spec(shape, dtype)], [None]
    return Entry(node)


def note_copy(entry: Entry, dtype: Any, ctx: Context) -> Entry:
    """Enter that an array was copied, to another type or device perhaps."""
    same = entry.node.specs[entry.index].dtype == dtype  # type: ignore[attr-defined]
    name, params = ("_copy", {}) if same else ("Cast", {"dtype": np.dtype(dtype).name})
    return note(OPS[name].from_attrs(params), entry, ctx)


def note_shape(entry: Entry, shape: Shape, ctx: Context) -> Entry:
    """Enter that an array was given another shape."""
    if entry.node.specs[entry.index].shape == shape:  # type: ignore[attr-defined]
        return entry
    return note(OPS["Reshape"].from_attrs({"shape": shape}), entry, ctx)


def note_index(array: Any, key: tuple, basic: bool, shape: Shape) -> Entry:
    """Enter that `array[key]`, of `shape`, was taken; `key` is one of `indexing.normalize`."""
    entry, ctx = entry_of(array), array._ctx
    if basic:
        parts = _slices(key, array.ndim)
        if any(part != slice(None) for part in parts):
            begin, end, step = zip(*((p.start, p.stop, p.step) for p in parts), strict=True)
            op = OPS["slice"].from_attrs({"begin": begin, "end": end, "step": step})
            entry = note(op, entry, ctx)
        return note_shape(entry, shape, ctx)
    where = np.arange(array.size).reshape(array.shape)[key].reshape(-1)
    indices = Recorded(None, (), ctx)
    _hold(indices, [device_of(ctx).from_numpy(where)])
    node = Recorded(OPS["take"](), [note_shape(entry, (array.size,), ctx), Entry(indices)], ctx)
    node.specs, node.values = [Spec(where.shape, array._data.dtype)], [None]
    return note_shape(Entry(node), shape, ctx)


def _slices(key: tuple, ndim: int) -> list[slice]:
    """The slices of a basic key, one for each dimension; an integer takes one element."""
    parts = [part for part in key if part is not None]
    at = parts.index(Ellipsis)
    parts[at:at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    return [part if isinstance(part, slice) else slice(part, part + 1 or None) for part in parts]


def outputs_read(op: Op) -> int:
    """So many outputs of `op` have to be computed for its gradient, hidden ones included."""
    return 1 + max((index for kind, index in reads(op) if kind == "out"), default=-1)


def free(nodes: Iterable[Node]) -> None:
    """Let go of computed nodes: their values, and what they were computed from."""
    for node in nodes:
        if isinstance(node, Recorded) and node.op is not None:
            node.inputs, node.values, node.state, node.freed = [], [], {}, True
