"""Running the kernels of a graph node by node with separate arrays: no executor, no plan, no shared
memory.

A graph that a pass made must compute what the original computed, kernels included; for the meaning
of ops without kernels see `nbmod.passes.reference`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbmod.context import cpu
from nbmod.graph import Entry, Graph
from nbmod.ops.device import CPU
from nbmod.ops.internal import CrossDeviceCopy
from nbmod.ops.op import Call, Mode, Spec
from nbmod.passes.infer import specs_of


def evaluate(graph: Graph, values: Mapping[str, np.ndarray], specs: Sequence[Spec | None],
             is_train: bool = False) -> list[np.ndarray]:
    """The outputs of `graph`, whose variables have these values by name.

    `specs` are those of its entries, as far as known.
    """
    known: Any = specs_of(graph, list(specs))
    arrays: dict[Entry, np.ndarray] = {}
    states: dict[int, dict[str, Any]] = {}
    for node in graph.nodes:
        if node.op is None:
            arrays[Entry(node)] = values[node.name].copy()
            continue
        outs = [CPU.full(*known[eid], 0x4D) for eid in graph.output_eids(node)]
        call = Call(Mode(is_train), ctx=cpu(0), state=states.setdefault(
            id(node.source or node), {}))
        with np.errstate(all="ignore"):
            _run(node.op, [arrays[entry] for entry in node.inputs], outs, call)
        arrays.update((Entry(node, i), out) for i, out in enumerate(outs))
    return [arrays[entry] for entry in graph.outputs]


def _run(op: Any, ins: list[np.ndarray], outs: list[np.ndarray], call: Call) -> None:
    """One node; a layer with an epilogue, which may be for GPUs, as a layer and its epilogue."""
    if op.view or isinstance(op, CrossDeviceCopy):
        np.copyto(outs[0], ins[0].reshape(outs[0].shape))
    elif op.name in ("_fused_layer", "_fused_batch_norm"):
        inputs = dict(zip(op.list_inputs(), ins, strict=True))
        added = inputs.pop("add", 0)
        _run(getattr(op, "layer", None) or op.norm, list(inputs.values()), outs, call)
        outs[0] += added
        if op.relu:
            np.clip(outs[0], 0, op.most, out=outs[0])
    else:
        specs = [[Spec(array.shape, array.dtype) for array in arrays] for arrays in (ins, outs)]
        choice = CPU.choose(op, *specs)
        scratch = [CPU.full(*spec, 0x4D) for spec in choice.workspace]
        choice.prepare(ins, outs, replace(call, scratch=scratch, add=[False] * len(outs),
                                          specs=specs[1]))()
