"""The arrays of every step of a running network under MXNet's names, for monitors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..context import Context
from ..graph import Node
from ..ndarray import NDArray
from ..ndarray.sparse_array import of_value
from ..ops.control_flow.control_base import Control
from ..ops.op import Backward
from .interpreter import Value
from .steps import BoundGraph

if TYPE_CHECKING:
    from .arena import DeviceArray

__all__ = ["StepMonitor", "MonitorCallback", "named_inputs", "named_outputs"]

MonitorCallback = Callable[[str, NDArray], None]

Shown = TypeVar("Shown")

_NAMED = frozenset("""
    _CrossDeviceCopy Dropout GridGenerator L2Normalization LRN MakeLoss Pad Pooling Pooling_v1
    SliceChannel SwapAxis all_finite col2im depth_to_space diag im2col log_softmax moments repeat
    reverse space_to_depth squeeze tile
    _contrib_MultiBoxPrior _contrib_fft _contrib_ifft
    _contrib_index_array _contrib_quadratic _contrib_quantize_asym _contrib_quantize_v2
    _image_normalize _image_to_tensor _ravel_multi_index _sg_mkldnn_conv
    _sg_mkldnn_fully_connected _split_v2 _unravel_index""".split())
"""Ops whose only input MXNet's monitor calls "data"; that of all others is "input0" to it."""


class StepMonitor:
    """Calls `callback` with the outputs of every step; with `monitor_all` with its inputs first."""

    def __init__(self, callback: MonitorCallback, monitor_all: bool):
        self.callback, self.monitor_all = callback, monitor_all

    def before(self, bound: BoundGraph, index: int) -> None:
        """Show the inputs."""
        if self.monitor_all:
            step = bound.steps[index]
            self.show(named_inputs(step.node, _arrays(
                bound, step.ins, bound.compiled.graph.input_eids(step.node))))

    def after(self, bound: BoundGraph, index: int, noted: None = None) -> None:
        """Show the outputs."""
        step = bound.steps[index]
        self.show(named_outputs(step.node, _arrays(
            bound, step.outs, bound.compiled.graph.output_eids(step.node))))

    def watch(self, node: Node, ins: Sequence[Value], outs: Sequence[Value | None], ctx: Context
              ) -> None:
        """Show the inputs and outputs of a node that an interpreter has run."""
        if self.monitor_all:
            self.show(named_inputs(node, [of_value(value, ctx) for value in ins]))
        arrays = [None if value is None else of_value(value, ctx) for value in outs]
        hidden = [None] * (node.num_outputs - len(outs))
        self.show(named_outputs(node, [*arrays, *hidden]))

    def show(self, named: Iterable[tuple[str, NDArray | None]]) -> None:
        """Call `callback` for arrays that were computed."""
        for name, array in named:
            if array is not None:
                self.callback(name, array)


def _arrays(bound: BoundGraph, arrays: Sequence[DeviceArray | None], eids: Sequence[int]
            ) -> list[NDArray | None]:
    return [None if array is None else NDArray(array, bound.compiled.devices[eid])
            for array, eid in zip(arrays, eids, strict=True)]


def named_inputs(node: Node, arrays: Sequence[Shown]) -> Iterator[tuple[str, Shown]]:
    """The inputs of a node, as monitors see them under MXNet's names: `<node>_<input>`, and before
    that a variable under its own name.  Gradients and most ops of one input number theirs."""
    op = node.required_op
    names = op.list_inputs()
    if isinstance(op, Backward) or (names == ("data",) == op.inputs and op.name not in _NAMED):
        names = tuple(f"input{i}" for i in range(len(arrays)))
    for entry, name, array in zip(node.inputs, names, arrays, strict=True):
        if entry.node.is_variable:
            yield entry.node.name, array
        yield f"{node.name}_{name}", array


def named_outputs(node: Node, arrays: Sequence[Shown]) -> Iterator[tuple[str, Shown]]:
    """The outputs of a node, hidden ones included, as monitors see them under MXNet's names.

    What a loop saves for its gradients is not shown.
    """
    op = node.required_op
    names: Sequence[str] = op.list_outputs()
    if isinstance(op, Control):
        names, arrays = names[:op.num_visible], arrays[:op.num_visible]
    if isinstance(op, Backward):
        names = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    for name, array in zip(names, arrays, strict=True):
        yield f"{node.name}_{name}", array
