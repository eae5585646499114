"""Batch tiling: a chain of ops is executed on a few images of the batch at a time.

Intermediate results are then a few images, which stay in cache, instead of a whole batch, which
costs memory and bandwidth.  Every op sees whole images, so results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..device import CPU
from ..op import Call, Op, Run, Spec
from ..shape import Shapes

__all__ = ["BatchTiles", "divisors_up_to"]


def divisors_up_to(number: int, most: int) -> list[int]:
    """The divisors of a number up to `most`."""
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


@dataclass(frozen=True)
class BatchTiles(Op):
    """The ops of `chain`, `images` at a time; each op's first input is the previous op's output.

    The first input of the node and all results are divided along the batch; the other inputs of
    all ops follow it and are read whole.  `images` divides the batch.
    """

    chain: tuple[Op, ...]
    images: int

    name: ClassVar = "_batch_tiles"

    def list_inputs(self) -> tuple[str, ...]:
        return ("data", *(f"{name}{number}" for number, op in enumerate(self.chain)
                          for name in op.list_inputs()[1:]))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        shape, rest = ins[0], iter(ins[1:])
        for op in self.chain:
            others = [next(rest) for _ in op.list_inputs()[1:]]
            shape = op.infer_shape([shape, *others], [None] * len(op.list_outputs()))[1][0]
        return ins, [shape]

    def _tiled(self, ins: Sequence[Spec]) -> Iterator[tuple[Op, list[Spec], Spec]]:
        """(op, inputs, output) of each op for one tile."""
        data, rest = self._tile(ins[0]), iter(ins[1:])
        for op in self.chain:
            inputs = [data, *(next(rest) for _ in op.list_inputs()[1:])]
            shape = op.infer_shape([spec.shape for spec in inputs], [None])[1][0]
            assert shape is not None
            data = Spec(shape, data.dtype)
            yield op, inputs, data

    def _tile(self, spec: Spec) -> Spec:
        return Spec((self.images, *spec.shape[1:]), spec.dtype)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        """For each op its workspace, then its intermediate result."""
        specs: list[Spec] = []
        for op, inputs, out in self._tiled(ins):
            specs += [*CPU.choose(op, inputs, [out]).workspace, *self._between(op, inputs, out)]
        return specs

    def _between(self, op: Op, inputs: Sequence[Spec], out: Spec) -> list[Spec]:
        """Buffer of an op's result, unless it is the last one or written in place."""
        return [] if op is self.chain[-1] or _in_place(op, inputs[0], out) else [out]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        specs = [Spec(array.shape, array.dtype) for array in ins]
        runs: list[Run] = []
        for first in range(0, len(ins[0]), self.images):
            data, scratch = ins[0][first:first + self.images], iter(call.scratch)
            rest = iter(ins[1:])
            for op, inputs, spec in self._tiled(specs):
                choice = CPU.choose(op, inputs, [spec])
                mine = [next(scratch) for _ in choice.workspace]
                between = self._between(op, inputs, spec)
                out = (next(scratch) if between else data) if op is not self.chain[-1] else (
                    outs[0][first:first + self.images])
                others = [next(rest) for _ in inputs[1:]]
                runs.append(choice.prepare([data, *others], [out],
                                           replace(call, scratch=mine, specs=[spec])))
                data = out

        def run() -> None:
            for each in runs:
                each()

        return run


def _in_place(op: Op, data: Spec, out: Spec) -> bool:
    return data == out and (op.list_inputs()[0], op.list_outputs()[0]) in op.inplace
