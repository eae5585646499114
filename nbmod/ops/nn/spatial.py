"""Base of ops over images: layouts and workspace.

Kernels process channels-first tensors.  With a channels-last layout the op transposes its tensors
to channels-first copies in the workspace and computes on those.  (Real MXNet has no channels-last
convolution on the CPU.)

A subclass implements four methods, which only see channels-first tensors and never float16:

    workspaces, workspaces_backward  workspace for given inputs and outputs
    steps, steps_backward            a function without arguments that computes on given arrays
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..elementwise.float_op import FloatOp
from ..op import Call, Run, Spec

__all__ = ["SpatialOp"]

Workspace = Callable[[Sequence[Any], Sequence[Any]], list[Spec]]
Steps = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Run]


class SpatialOp(FloatOp):
    """Base of ops over images; see the module docstring."""

    @property
    def channels_last(self) -> bool:
        """Whether the op's tensors have their channels last."""
        return False

    def workspaces(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Spec]:
        return []

    def workspaces_backward(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Spec]:
        return []

    def steps(self, ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]) -> Run:
        raise NotImplementedError

    def steps_backward(self, ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]
                       ) -> Run:
        raise NotImplementedError

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._work(self.workspaces, ins, outs)

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._work(self.workspaces_backward, ins, outs)

    def compute(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled(ins, outs, call)()

    def compute_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled_backward(ins, outs, call)()

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return self._compiled(self.workspaces, self.steps, ins, outs, call)

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return self._compiled(self.workspaces_backward, self.steps_backward, ins, outs, call)

    def _work(self, workspace: Workspace, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if not self.channels_last:
            return workspace(ins, outs)
        first = [_first(spec) for spec in (*ins, *outs)]
        return workspace(first[:len(ins)], first[len(ins):]) + first

    def _compiled(self, workspace: Workspace, steps: Steps, ins: Sequence[Any], outs: Sequence[Any],
                  call: Call) -> Run:
        if not self.channels_last:
            return steps(ins, outs, call.scratch)
        first = [None if array is None else _first(array) for array in (*ins, *outs)]
        own = len(workspace(first[:len(ins)], first[len(ins):]))
        copies = call.scratch[own:own + len(first)]
        inside, outside = copies[:len(ins)], copies[len(ins):]
        wanted = [copy if out is not None else None
                  for copy, out in zip(outside, outs, strict=True)]
        run = steps(inside, wanted, call.scratch[:own])
        before = list(zip(inside, map(_moved, ins), strict=True))
        after = [(_moved(out), copy) for copy, out in zip(outside, outs, strict=True)
                 if out is not None]

        def copying() -> None:
            for target, source in before:
                np.copyto(target, source)
            run()
            for target, source in after:
                np.copyto(target, source)

        return copying


def _first(tensor: Any) -> Spec:
    """Spec of the tensor with channels moved to axis 1; vectors, such as a bias, are unchanged."""
    shape = tuple(tensor.shape)
    return Spec((shape[0], shape[-1], *shape[1:-1]) if len(shape) > 2 else shape, tensor.dtype)


def _moved(array: Any) -> Any:
    return np.moveaxis(array, -1, 1) if array.ndim > 2 else array
