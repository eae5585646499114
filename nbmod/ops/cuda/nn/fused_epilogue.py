"""Layers that end otherwise than with their sums: one launch writes what comes of all of it."""

from __future__ import annotations

from typing import Any

from ...nn.convolution import Convolution
from ...nn.fused_epilogue import FollowedLayer
from ...op import Spec
from ..runtime.launch import Launch, on_gpu
from . import convolution, fully_connected


def _forward(op: FollowedLayer, ins: Any, outs: Any, call: Any) -> list[Launch]:
    own, limits = ins[:len(ins) - op.add], {"relu": op.relu, "most": op.most}
    other, layer = ins[-1] if op.add else None, op.layer
    if isinstance(layer, Convolution):
        return convolution.forward(layer, own, outs[0], other, **limits)
    return fully_connected.forward(layer, own, outs[0], call.scratch, other, **limits)


def _scratch(op: FollowedLayer, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    if isinstance(op.layer, Convolution):
        return []
    return fully_connected.scratch(op.layer, ins, outs)


on_gpu(FollowedLayer, _forward, scratch=_scratch)
