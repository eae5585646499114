"""Dense layers: three matrix products, and the sums of columns."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ..fully_connected import FullyConnected
from .blocks import each_block, sum_kernel
from .gemm import matrix_product
from .kernel_math import real_of
from .launch import Launch, device_function, on_gpu


@cache
def _column_sums(real: Any) -> Any:
    @device_function
    def load(x, column, row, columns):
        return real(x[row * columns + column])

    return sum_kernel(load, real)


def _sizes(op: FullyConnected, data: Any) -> tuple[int, int]:
    """(rows, inner size) of the data as a matrix."""
    inner = prod(data.shape[1:]) if op.flatten else data.shape[-1]
    return data.size // inner, inner


def _forward(op: FullyConnected, ins: Any, outs: Any, call: Any) -> list[Launch]:
    data, weight, *bias = ins
    rows, inner = _sizes(op, data)
    return [matrix_product(data, weight, outs[0], (rows, op.num_hidden, inner), (False, True),
                           bias[0] if bias else None)]


def _backward(op: FullyConnected, ins: Any, outs: Any, call: Any) -> list[Launch]:
    ograd, data, weight = ins
    rows, inner = _sizes(op, data)
    hidden, launches = op.num_hidden, []
    gx, gw, gb = (*outs, None)[:3]
    add = (*call.add, False, False, False)
    if gx is not None:
        launches.append(matrix_product(ograd, weight, gx, (rows, inner, hidden), add=add[0]))
    if gw is not None:
        launches.append(matrix_product(ograd, data, gw, (hidden, inner, rows), (True, False),
                                       add=add[1]))
    if gb is not None:
        sums = _column_sums(real_of(ograd.dtype))
        launches += each_block(sums, hidden, ograd, gb, rows, bool(add[2]))
    return launches


on_gpu(FullyConnected, _forward, _backward)
