"""Elementwise nodes that run as one: the op that `passes.fuse` puts in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..op import Call, Op
from ..param import Shape
from .formula_op import kernels
from .program import Program, run

__all__ = ["FusedElements"]


@dataclass(frozen=True)
class FusedElements(Op):
    """The outputs of `program` over the inputs, which may be smaller than they and broadcast; or
    one output that is a sum.

    It stands for forward and gradient nodes alike and is made when shapes are known, so it infers
    and differentiates nothing.  `inplace` are the inputs and outputs that are alike; the values of
    an output are written after all inputs have been read, so any of these may share memory.
    """

    name: ClassVar = "fused"
    accumulates: ClassVar = True

    program: Program
    scalars: tuple[Any, ...]
    labels: tuple[str, ...]
    """What the outputs are called where they come from."""
    seen_as: tuple[Shape, ...]
    """The shapes in which inputs and outputs are seen."""
    inplace: tuple[tuple[str, str], ...]  # type: ignore[misc]

    def list_inputs(self) -> tuple[str, ...]:
        return self.program.inputs

    def list_outputs(self) -> tuple[str, ...]:
        return self.program.outputs

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ins, outs = self.seen(ins, outs)
        run(self.program, ins, outs, self.scalars, call.add)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Callable[[], None]:
        ins, outs = self.seen(ins, outs)
        return kernels().prepare(self.program, ins, outs, self.scalars, call.add)

    def seen(self, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The arrays in the shapes that the program broadcasts."""
        seen = [array.reshape(shape) for array, shape
                in zip((*ins, *outs), self.seen_as, strict=True)]
        return seen[:len(ins)], seen[len(ins):]
