"""A layer with a fused epilogue, for inference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp
from ..op import Types, all_of
from ..shape import Shapes, unify

if TYPE_CHECKING:
    from .convolution import Convolution
    from .fully_connected import FullyConnected

__all__ = ["FusedLayer"]


@dataclass(frozen=True)
class FusedLayer(FloatOp):
    """`layer` (Convolution, FullyConnected) with an epilogue: `add` adds a tensor like its output,
    `relu` clips to [0, most].

    Made by `passes.optimize.fuse_epilogue`.  On CPUs only for dense layers and infinite `most`.  It
    has no gradient.
    """

    layer: Convolution | FullyConnected
    add: bool = False
    relu: bool = False
    most: float = np.inf

    name: ClassVar = "_fused_layer"
    inplace: ClassVar = (("add", "output"),)

    def list_inputs(self) -> tuple[str, ...]:
        return (*self.layer.list_inputs(), *["add"] * self.add)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        own = ins[:len(ins) - self.add]
        known = unify(ins[-1], outs[0], "what is added and output") if self.add else outs[0]
        own, outs = self.layer.infer_shape(own, [known])
        return [*own, *outs * self.add], outs

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        own, outs = self.layer.infer_type(ins[:len(ins) - self.add], outs)
        return [*own, *outs * self.add], outs

    def scratch(self, ins, outs):
        return self.layer.scratch(ins[:len(ins) - self.add], outs)

    def prepare(self, ins, outs, call):
        layer: Any = self.layer
        run = layer.with_epilogue(ins, outs, call, add=self.add, relu=self.relu)
        if not self.add or np.shares_memory(ins[-1], outs[0]):
            return run
        return all_of([partial(np.copyto, outs[0], ins[-1]), run])
