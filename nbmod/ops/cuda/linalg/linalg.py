"""Factorisations, determinants and their gradients, on top of `factorize`, `jacobi` and `matmul`.

Singular or indefinite matrices, which are errors on the CPU, are detected by the host in every run.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....base import MXNetError
from ...dispatch import implements
from ...elementwise.program import Assign, Program
from ...linalg.linalg import (
    SMALLEST_GAP,
    Det,
    Gelqf,
    Inverse,
    Potrf,
    Potri,
    Slogdet,
    Syevd,
    Syrk,
    Trmm,
    Trsm,
    _Triangular,
)
from ...op import Call, Spec
from ..elementwise.formula_op import COPY, run_program
from ..lib.factorize import (
    BOTH,
    IDENTITY,
    LOWER,
    MIRRORED,
    TURNED_LOWER,
    TURNED_UPPER,
    UPPER,
    cholesky,
    inverse,
    inverse_scratch,
    lq,
    lq_scratch,
    solve,
    square,
)
from ..lib.fill import fill
from ..lib.jacobi import eigen, eigen_scratch
from ..lib.kernel_math import real_of
from ..lib.strided_copy import View
from ..runtime.device_memory import Array, Arrays, Outputs, or_scratch
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .dot import SCALED, matmul, stack_of, transpose

INT32 = np.dtype(np.int32)

# -- errors -------------------------------------------------------------------------------------

SINGULAR = "Singular matrix; expected {}"
INDEFINITE = "Matrix is not positive definite; expected a symmetric, positive definite matrix"


@cache
def _sound_kernel(positive: bool, real: type[np.floating]) -> CudaKernel:
    """sound[matrix]: 1 if its diagonal is positive, or has no zero."""
    none = real(0)

    @grid_stride
    def find_sound(i, a, sound, side):
        good = np.int32(1)
        for k in range(side):
            number = a[(i * side + k) * side + k]
            if not number > none if positive else number == none:
                good = np.int32(0)
        sound[i] = good
    return find_sound


def _checked(a: Array, side: int, sound: Array, message: str, positive: bool = False) -> list[Any]:
    """Steps that raise MXNetError for a matrix with a zero, or with `positive` an element that is
    not positive, on its diagonal."""
    def check() -> None:
        if not sound.device.to_numpy(sound).all():
            raise MXNetError(message)

    make = _sound_kernel(positive, real_of(a.dtype))
    return [*each(make, sound.size, a, sound, side), check]


# -- potrf, potri -------------------------------------------------------------------------------


def _sound_scratch(a: Spec) -> Spec:
    return Spec((prod(a.shape[:-2]),), INT32)


def _potrf(op: Potrf, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    a, y, (sound, *spare) = ins[0], outs[0], call.scratch
    if op.lower:
        factored = cholesky(a, y)
    else:
        lower, = spare
        factored = [*square(TURNED_LOWER, a, lower), *cholesky(lower, lower),
                    *square(TURNED_UPPER, lower, y)]
    return [*factored, *_checked(y, a.shape[-1], sound, INDEFINITE, positive=True)]


def _potrf_backward(op: Potrf, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, factor), (ga,), (inner, whole) = ins, outs, call.scratch
    stacks = (stack_of(factor), stack_of(g))
    left, right = ((transpose(stacks[0]), stacks[1]) if op.lower
                   else (stacks[0], transpose(stacks[1])))
    return [*matmul(left, right, stack_of(inner)),
            *square(MIRRORED, inner, whole),
            *solve(factor, whole, whole, 1, op.lower, op.lower),
            *solve(factor, whole, ga, 0.5, op.lower, not op.lower, rightside=True)]


implements(Potrf, "cuda", _potrf, _potrf_backward,
           lambda op, ins, outs: [_sound_scratch(ins[0]), *ins[:1] * (not op.lower)],
           lambda op, ins, outs: ins[:1] * 2)


def _potri(op: Potri, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    (a,), (y,), (sound, inverse) = ins, outs, call.scratch
    message = SINGULAR.format("no zero on its diagonal")
    return [*_checked(a, a.shape[-1], sound, message), *square(IDENTITY, a, inverse),
            *solve(a, inverse, inverse, 1, op.lower, not op.lower),
            *matmul(transpose(stack_of(inverse)), stack_of(inverse), stack_of(y))]


def _potri_backward(op: Potri, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, a, inverse), (ga,), (both, moved) = ins, outs, call.scratch
    return [*square(BOTH, g, both),
            *matmul(stack_of(both), stack_of(inverse), stack_of(moved)),
            *solve(a, moved, moved, 1, op.lower, not op.lower),
            *square(TURNED_LOWER if op.lower else UPPER, moved, ga, -1)]


implements(Potri, "cuda", _potri, _potri_backward,
           lambda op, ins, outs: [_sound_scratch(ins[0]), ins[0]],
           lambda op, ins, outs: ins[:1] * 2)

# -- trmm, trsm, syrk ---------------------------------------------------------------------------


def _triangle(op: _Triangular, x: Array, y: Array) -> list[Launch]:
    return square(LOWER if op.lower else UPPER, x, y)


def _of_triangle(op: _Triangular, g: Array, b: Array, whole: Array, ga: Array, alpha: float
                 ) -> list[Launch]:
    """The gradient of A, where that of T is alpha g b^T, or alpha b^T g with `rightside`."""
    left, right, target = stack_of(g), transpose(stack_of(b)), stack_of(whole)
    left, right = (right, left) if op.rightside else (left, right)
    return [*matmul(left, right, transpose(target) if op.transpose else target, alpha),
            *_triangle(op, whole, ga)]


def _factor(op: _Triangular, triangle: Array) -> View:
    stack = stack_of(triangle)
    return transpose(stack) if op.transpose else stack


def _times(op: Trmm, t: View, b: Array, y: Array) -> list[Launch]:
    left, right = (stack_of(b), t) if op.rightside else (t, stack_of(b))
    return matmul(left, right, stack_of(y), op.alpha)


def _trmm(op: Trmm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (a, b), (triangle,) = ins, call.scratch
    return _triangle(op, a, triangle) + _times(op, _factor(op, triangle), b, outs[0])


def _trmm_backward(op: Trmm, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    (g, a, b), (ga, gb), (triangle,) = ins, outs, call.scratch
    launches = []
    if gb is not None:
        launches += _triangle(op, a, triangle)
        launches += _times(op, transpose(_factor(op, triangle)), g, gb)
    if ga is not None:
        launches += _of_triangle(op, g, b, triangle, ga, op.alpha)
    return launches


implements(Trmm, "cuda", _trmm, _trmm_backward, lambda op, ins, outs: ins[:1],
           lambda op, ins, outs: ins[1:2])


def _trsm(op: Trsm, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    a, b = ins
    message = SINGULAR.format("a matrix without zeros on its diagonal")
    return [*_checked(a, a.shape[-1], call.scratch[0], message),
            *solve(a, b, outs[0], op.alpha, op.lower, op.transpose, op.rightside)]


def _trsm_backward(op: Trsm, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    (g, a, x), (ga, gb), (whole, moved) = ins, outs, call.scratch
    launches = solve(a, g, moved, 1, op.lower, not op.transpose, op.rightside)
    if ga is not None:
        launches += _of_triangle(op, moved, x, whole, ga, -1)
    if gb is not None:
        launches += run_program(SCALED, [moved], [gb], [op.alpha])
    return launches


implements(Trsm, "cuda", _trsm, _trsm_backward, lambda op, ins, outs: [_sound_scratch(ins[0])],
           lambda op, ins, outs: [ins[1], ins[2]])


def _syrk(op: Syrk, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    a, b = stack_of(ins[0]), transpose(stack_of(ins[0]))
    left, right = (b, a) if op.transpose else (a, b)
    return matmul(left, right, stack_of(outs[0]), op.alpha)


def _syrk_backward(op: Syrk, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, a = map(stack_of, ins)
    ga = stack_of(outs[0])
    pairs = [(a, head) if op.transpose else (head, a) for head in (g, transpose(g))]
    return [launch for add, (left, right) in enumerate(pairs)
            for launch in matmul(left, right, ga, op.alpha, bool(add))]


implements(Syrk, "cuda", _syrk, _syrk_backward)

# -- inverse, determinants ----------------------------------------------------------------------


def _inverse(op: Inverse, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    sound, *scratch = call.scratch
    return [*inverse(ins[0], outs[0], scratch),
            *_checked(scratch[2], 1, sound, SINGULAR.format("an invertible matrix"))]


def _inverse_backward(op: Inverse, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, inverse = map(stack_of, ins)
    moved = stack_of(call.scratch[0])
    return [*matmul(transpose(inverse), g, moved),
            *matmul(moved, transpose(inverse), stack_of(outs[0]), -1)]


implements(Inverse, "cuda", _inverse, _inverse_backward,
           lambda op, ins, outs: [_sound_scratch(ins[0]), *inverse_scratch(ins[0])],
           lambda op, ins, outs: ins[:1])

DETERMINANT = Program("determinant", (Assign("y", "sign * exp(size)"),), ("sign", "size"), ("y",))


def _determined(ins: Arrays, inverted: Array | None, outputs: dict[str, Any], call: Call
                ) -> list[Launch]:
    """Launches that write the requested outputs, by name, of a determinant."""
    spare, *scratch = call.scratch
    launches = inverse(ins[0], spare if inverted is None else inverted, scratch)
    programs = {"sign": (COPY, scratch[2:3]), "size": (COPY, scratch[3:]),
                "determinant": (DETERMINANT, scratch[2:])}
    for name, out in outputs.items():
        if out is not None:
            program, sources = programs[name]
            launches += run_program(program, sources, [out.reshape(-1)])
    return launches


def _det(op: Det, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    determinant, inverse, sign = outs
    return _determined(ins, inverse, {"determinant": determinant, "sign": sign}, call)


def _slogdet(op: Slogdet, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    sign, size, inverse, determinant = outs
    return _determined(ins, inverse, {"sign": sign, "size": size, "determinant": determinant},
                       call)


def _det_scratch(op: Det | Slogdet, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return [ins[0], *inverse_scratch(ins[0])]


@cache
def _through_inverse_kernel(real: type[np.floating]) -> CudaKernel:
    """Gradients of matrices, from that of a scalar function whose gradient is `by` times the
    transposed inverse."""
    @grid_stride
    def through_inverse(i, g, by, inverse, ga, side):
        row, column, matrix = i // side % side, i % side, i // (side * side)
        ga[i] = g[matrix] * by[matrix] * inverse[i + (column - row) * (side - 1)]
    return through_inverse


def _det_backward(op: Det, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, determinant, inverse = ins
    return each(_through_inverse_kernel(real_of(g.dtype)), outs[0].size, g, determinant, inverse,
                outs[0], outs[0].shape[-1])


def _slogdet_backward(op: Slogdet, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    _, g, inverse = ins
    ones = call.scratch[0]
    return fill(ones, 1) + each(_through_inverse_kernel(real_of(g.dtype)), outs[0].size, g, ones,
                                inverse, outs[0], outs[0].shape[-1])


implements(Det, "cuda", _det, _det_backward, _det_scratch)
implements(Slogdet, "cuda", _slogdet, _slogdet_backward, _det_scratch,
           lambda op, ins, outs: [ins[1]])

# -- gelqf --------------------------------------------------------------------------------------


def _gelqf(op: Gelqf, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    *scratch, spare_q, spare_l = call.scratch
    q, factor = or_scratch(outs, (spare_q, spare_l))
    return lq(ins[0], q, factor, scratch)


def _gelqf_backward(op: Gelqf, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gq, gl, q, factor), (inner, whole, moved) = ins, call.scratch
    return [*matmul(transpose(stack_of(factor)), stack_of(gl), stack_of(inner)),
            *matmul(stack_of(gq), transpose(stack_of(q)), stack_of(inner), -1, True),
            *square(MIRRORED, inner, whole), *run_program(COPY, [gq], [moved]),
            *matmul(stack_of(whole), stack_of(q), stack_of(moved), 1, True),
            *solve(factor, moved, outs[0], transpose=True)]


implements(Gelqf, "cuda", _gelqf, _gelqf_backward,
           lambda op, ins, outs: [*lq_scratch(ins[0]), *outs],
           lambda op, ins, outs: [ins[3], ins[3], ins[2]])

# -- syevd --------------------------------------------------------------------------------------


@cache
def _gaps_kernel(real: type[np.floating]) -> CudaKernel:
    """Symmetric matrices: x divided by the differences of eigenvalues, with g on the diagonal."""
    none, half, least = real(0), real(0.5), real(SMALLEST_GAP[np.dtype(real).itemsize])

    @device_function
    def kept(gap):
        return gap if abs(gap) >= least else -least if gap < none else least

    @grid_stride
    def over_gaps(i, x, g, values, y, side):
        line, row, column = i // (side * side) * side, i // side % side, i % side
        if row == column:
            y[i] = g[line + row]
        else:
            gap = values[line + row] - values[line + column]
            other = x[i + (column - row) * (side - 1)]
            y[i] = half * (x[i] / kept(gap) + other / kept(-gap))
    return over_gaps


def _syevd(op: Syevd, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (u, values), (spare, *scratch) = outs, call.scratch
    return eigen(ins[0], u, spare if values is None else values, scratch)


def _syevd_backward(op: Syevd, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gu, gw, u, w), (inner, whole) = ins, call.scratch
    turns = stack_of(u)
    return [*matmul(stack_of(gu), transpose(turns), stack_of(inner)),
            *each(_gaps_kernel(real_of(u.dtype)), u.size, inner, gw, w, whole, u.shape[-1]),
            *matmul(transpose(turns), stack_of(whole), stack_of(inner)),
            *matmul(stack_of(inner), turns, stack_of(outs[0]))]


implements(Syevd, "cuda", _syevd, _syevd_backward,
           lambda op, ins, outs: [outs[1], *eigen_scratch(ins[0])],
           lambda op, ins, outs: [ins[2]] * 2)
