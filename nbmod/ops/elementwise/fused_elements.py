"""The op of fused elementwise nodes, which `passes.optimize.fuse_elementwise` inserts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..op import Call, Op, Run
from ..param import Shape
from .formula_op import kernels
from .program import Program, run

__all__ = ["FusedElements"]


@dataclass(frozen=True)
class FusedElements(Op):
    """The outputs of `program` over the inputs, which may broadcast; or one output that is a sum.

    It is inserted after inference and differentiation, so it has no rules for these.  `inplace` are
    pairs of input and output of the same shape and type, which may share memory: an element is
    written after all inputs have been read.
    """

    name: ClassVar = "fused"
    accumulates: ClassVar = True

    program: Program
    scalars: tuple[float, ...]
    labels: tuple[str, ...]
    """Names of the original outputs."""
    operand_shapes: tuple[Shape, ...]
    """The shapes in which the program gets inputs and outputs."""
    inplace: tuple[tuple[str, str], ...]  # type: ignore[misc]

    def list_inputs(self) -> tuple[str, ...]:
        return self.program.inputs

    def list_outputs(self) -> tuple[str, ...]:
        return self.program.outputs

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ins, outs = self.reshaped(ins, outs)
        run(self.program, ins, outs, self.scalars, call.add)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        ins, outs = self.reshaped(ins, outs)
        return kernels().prepare(self.program, ins, outs, self.scalars, call.add)

    def reshaped(self, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The arrays, reshaped for the program."""
        arrays = [array.reshape(shape) for array, shape
                  in zip((*ins, *outs), self.operand_shapes, strict=True)]
        return arrays[:len(ins)], arrays[len(ins):]
