"""FullyConnected: a GEMM for each direction; the gradient of the bias is a column sum."""

from __future__ import annotations

from math import prod

import numpy as np

from ...dispatch import implements
from ...nn.fully_connected import FullyConnected
from ...op import Call, Spec
from ..lib.block_reduce import column_sum_kernel, each_block
from ..lib.epilogue import Epilogue
from ..lib.gemm import choose_config, gemm, gemm_scratch
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch

__all__ = ["sizes_of"]


def sizes_of(op: FullyConnected, data: Array | Spec) -> tuple[int, int]:
    """(rows, inner size) of the data as a matrix."""
    inner = prod(data.shape[1:]) if op.flatten else data.shape[-1]
    return data.size // inner, inner


def forward(op: FullyConnected, ins: Arrays, y: Array, scratch: Arrays, addend: Array | None = None,
            relu: bool = False, upper: float = np.inf) -> list[Launch]:
    """Launches that write the output, with the epilogue of `Epilogue`."""
    data, weight, *bias = ins
    rows, inner = sizes_of(op, data)
    return gemm(data, weight, y, (rows, op.num_hidden, inner), (False, True),
                Epilogue(bias[0].reshape(-1) if bias else None, addend, relu, upper),
                scratch=scratch)


def _backward(op: FullyConnected, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    ograd, data, weight = ins
    rows, inner = sizes_of(op, data)
    hidden, launches = op.num_hidden, []
    gx, gw, gb = (*outs, None)[:3]
    add = (*call.add, False, False, False)
    if gx is not None:
        launches += gemm(ograd, weight, gx, (rows, inner, hidden), add=add[0],
                         scratch=call.scratch)
    if gw is not None:
        launches += gemm(ograd, data, gw, (hidden, inner, rows), (True, False), add=add[1],
                         scratch=call.scratch)
    if gb is not None:
        sums = column_sum_kernel(real_of(ograd.dtype))
        launches += each_block(sums, hidden, ograd, gb, rows, bool(add[2]))
    return launches


def scratch(op: FullyConnected, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for split-k."""
    rows, inner = sizes_of(op, ins[0])
    return _largest(ins[0], [(rows, op.num_hidden, inner)])


def _backward_scratch(op: FullyConnected, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    rows, inner = sizes_of(op, ins[1])
    return _largest(ins[0], [(rows, inner, op.num_hidden), (op.num_hidden, inner, rows)])


def _largest(factor: Spec, products: list[tuple[int, int, int]]) -> list[Spec]:
    """Scratch that suffices for any of some products, which run one after another."""
    real = real_of(factor.dtype)
    specs = [spec for sizes in products
             for spec in gemm_scratch(choose_config(factor.dtype, real, sizes), sizes)]
    return [max(specs, key=lambda spec: spec.size)] if specs else []


implements(FullyConnected, "cuda",
           lambda op, ins, outs, call: forward(op, ins, outs[0], call.scratch), _backward, scratch,
           _backward_scratch)
