"""Layers with a fused epilogue: the kernel of the layer also adds, and applies ReLU or clip."""

from __future__ import annotations

from ...dispatch import implements
from ...nn.convolution import Convolution
from ...nn.fused_epilogue import FusedLayer
from ...op import Call, Spec
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch
from . import convolution, fully_connected


def _forward(op: FusedLayer, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    own, layer = ins[:len(ins) - op.add], op.layer
    epilogue = (ins[-1] if op.add else None, op.relu, op.most)
    if isinstance(layer, Convolution):
        return convolution.forward(layer, own, outs[0], *epilogue)
    return fully_connected.forward(layer, own, outs[0], call.scratch, *epilogue)


def _scratch(op: FusedLayer, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    if isinstance(op.layer, Convolution):
        return []
    return fully_connected.scratch(op.layer, ins, outs)


implements(FusedLayer, "cuda", _forward, scratch=_scratch)
