"""The micro-kernel of matrix products: a few rows times one panel of columns, in registers.

    c[r, v, lane] = sum over k of a[at + r row + k step] b[bt + (k VECTORS + v) lanes + lane]

A panel is VECTORS vectors wide and as deep as the product; its numbers lie in the order in which
they are read.  Each sum is formed in the order of k, whatever the number of rows, so how a product
is cut into tiles does not change a bit of it.

numba keeps no array in registers, so this is LLVM IR, which an intrinsic emits.  The width of a
vector is the host's; LLVM splits vectors that are too wide, so the code is right on any CPU.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..jit import Inlined

__all__ = ["VECTORS", "Tile", "lanes", "tile1", "tile2", "tile4", "tile6",
           "tile6x1", "tile6x2", "tile6x3"]

VECTORS = 4
"""Vectors in the width of a panel: with six rows, 24 of 32 registers hold sums."""


@cache
def _host() -> tuple[int, int]:
    """Bytes and number of the host's vector registers."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 32
    if features.get("avx"):
        return 32, 16
    return 16, 32 if "neon" in features else 16


def lanes(dtype: Any) -> int:
    """Numbers of `dtype` in a vector."""
    return _host()[0] // np.dtype(dtype).itemsize


class Tile(Inlined):
    """The product of `rows` rows; called as tile(a, at, row, step, b, bt, depth, c, ct).

    Arrays are contiguous and of one float type; `at`, `bt`, `ct` are offsets in elements.  `depth`
    is at least 1.  The first `vectors` vectors of the rows of c (rows, VECTORS, lanes) are
    overwritten: a panel that is mostly filling needs no more of them.
    """

    def __init__(self, rows: int, vectors: int = VECTORS):
        super().__init__(self._plain)
        self.rows, self.vectors = rows, vectors

    def _plain(self, *args: Any) -> None:
        raise TypeError("a tile is called by kernels only")

    def compile(self) -> Any:
        from numba.extending import intrinsic

        if self._compiled is None:
            self._compiled = intrinsic(_typer(self.rows, self.vectors))
        return self._compiled


def _typer(rows: int, vectors: int) -> Any:
    """The function that tells numba the types and the code of a tile."""

    def tile(typingctx, a, at, row, step, b, bt, depth, c, ct):
        from numba import types

        index = types.intp
        signature = types.void(a, index, index, index, b, index, index, c, index)
        return signature, lambda context, builder, sig, args: _emit(
            context, builder, sig, args, (rows, vectors))

    return tile


def _emit(context: Any, builder: Any, signature: Any, args: Any, size: tuple[int, int]) -> Any:
    """The code of a tile: as many rows at a time as the registers hold."""
    from llvmlite import ir

    a, at, row, step, b, bt, depth, c, ct = args
    rows, vectors = size
    array = {i: context.make_array(signature.args[i])(context, builder, args[i]).data
             for i in (0, 4, 7)}
    scalar = context.get_value_type(signature.args[0].dtype)
    width = lanes(np.dtype(signature.args[0].dtype.name))
    together = max(1, (_host()[1] - VECTORS) // VECTORS)
    source, panel, target = (builder.gep(array[i], [offset])
                             for i, offset in ((0, at), (4, bt), (7, ct)))
    for first in range(0, rows, together):
        count = min(together, rows - first)
        starts = [builder.gep(source, [builder.mul(row, _index(first + r))]) for r in range(count)]
        sums = _loop(builder, starts, step, panel, depth, ir.VectorType(scalar, width), vectors)
        for number, value in enumerate(sums):
            vector = (first + number // vectors) * VECTORS + number % vectors
            place = builder.gep(target, [_index(vector * width)])
            builder.store(value, builder.bitcast(place, value.type.as_pointer()),
                          align=_size(scalar))
    return context.get_dummy_value()


def _loop(builder: Any, starts: list[Any], step: Any, panel: Any, depth: Any, vector: Any,
          vectors: int) -> list[Any]:
    """The loop over k; `vectors` sums for each of the rows that begin at `starts`."""
    from llvmlite import ir
    from numba.core import cgutils

    scalar, width = vector.element, vector.count
    name = f"llvm.fmuladd.v{width}f{8 * _size(scalar)}"
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), name)
    before = builder.block
    loop, done = (builder.function.append_basic_block(name) for name in ("depth", "summed"))
    builder.branch(loop)
    builder.position_at_end(loop)
    k, along = builder.phi(depth.type), builder.phi(depth.type)
    sums = [builder.phi(vector) for _ in range(len(starts) * vectors)]
    for phi, zero in [(k, _index(0)), (along, _index(0)),
                      *((total, ir.Constant(vector, None)) for total in sums)]:
        phi.add_incoming(zero, before)
    row = builder.gep(panel, [builder.mul(k, _index(VECTORS * width))])
    columns = [builder.load(builder.bitcast(builder.gep(row, [_index(v * width)]),
                                            vector.as_pointer()), align=_size(scalar))
               for v in range(vectors)]
    totals = []
    for r, start in enumerate(starts):
        factor = _splat(builder, builder.load(builder.gep(start, [along])), vector)
        totals += [builder.call(fma, [factor, columns[v], sums[r * vectors + v]])
                   for v in range(vectors)]
    following = builder.add(k, _index(1))
    for phi, value in [(k, following), (along, builder.add(along, step)),
                       *zip(sums, totals, strict=True)]:
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
    builder.position_at_end(done)
    return totals


def _index(value: int) -> Any:
    from llvmlite import ir

    return ir.Constant(ir.IntType(64), value)


def _size(scalar: Any) -> int:
    """Bytes of a float type of LLVM."""
    return {"float": 4, "double": 8}[str(scalar)]


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """A vector of equal numbers."""
    from llvmlite import ir

    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, empty, zeros)


tile1, tile2, tile4, tile6 = (Tile(rows) for rows in (1, 2, 4, 6))
tile6x1, tile6x2, tile6x3 = (Tile(6, vectors) for vectors in (1, 2, 3))
