"""C += A B' by dot products of rows: GEMM "NT" for few rows and for gradients of weights.

Sixteen dot products of four rows of A and four of B are formed at a time, in registers.
"""

from __future__ import annotations

from ..jit import inlined

__all__ = ["add_gemm_nt"]


@inlined(fastmath=True)
def _dot_4x4(a, m, b, k, count, out, at, step):
    """out[at + i step + j] += a[m + i] . b[k + j], i and j from 0 to 3."""
    a0, a1, a2, a3 = a[m], a[m + 1], a[m + 2], a[m + 3]
    b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = a.dtype.type(0)
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = a.dtype.type(0)
    for i in range(count):
        x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
        y0, y1, y2, y3 = b0[i], b1[i], b2[i], b3[i]
        s00, s01, s02, s03 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2, s03 + x0 * y3
        s10, s11, s12, s13 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2, s13 + x1 * y3
        s20, s21, s22, s23 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2, s23 + x2 * y3
        s30, s31, s32, s33 = s30 + x3 * y0, s31 + x3 * y1, s32 + x3 * y2, s33 + x3 * y3
    o0, o1, o2, o3 = out[at:], out[at + step:], out[at + 2 * step:], out[at + 3 * step:]
    o0[0], o0[1], o0[2], o0[3] = o0[0] + s00, o0[1] + s01, o0[2] + s02, o0[3] + s03
    o1[0], o1[1], o1[2], o1[3] = o1[0] + s10, o1[1] + s11, o1[2] + s12, o1[3] + s13
    o2[0], o2[1], o2[2], o2[3] = o2[0] + s20, o2[1] + s21, o2[2] + s22, o2[3] + s23
    o3[0], o3[1], o3[2], o3[3] = o3[0] + s30, o3[1] + s31, o3[2] + s32, o3[3] + s33


@inlined(fastmath=True)
def _dot_1x4(a, b, k, count, out, at):
    """out[at + j] += a . b[k + j], j from 0 to 3: a row of `_dot_4x4`."""
    b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
    s0 = s1 = s2 = s3 = a.dtype.type(0)
    for i in range(count):
        x = a[i]
        s0, s1, s2, s3 = s0 + x * b0[i], s1 + x * b1[i], s2 + x * b2[i], s3 + x * b3[i]
    o = out[at:]
    o[0], o[1], o[2], o[3] = o[0] + s0, o[1] + s1, o[2] + s2, o[3] + s3


@inlined(fastmath=True)
def _dot(a, b, count):
    total = a.dtype.type(0)
    for i in range(count):
        total += a[i] * b[i]
    return total


@inlined
def add_gemm_nt(a, rows, b, columns, count, out, at, step):
    """out[at + m step + k] += a[m] . b[k] for all m and k: C += A B'."""
    for m in range(0, rows - 3, 4):
        for k in range(0, columns - 3, 4):
            _dot_4x4(a, m, b, k, count, out, at + m * step + k, step)
    for m in range(rows // 4 * 4, rows):
        for k in range(0, columns - 3, 4):
            _dot_1x4(a[m], b, k, count, out, at + m * step + k)
    for m in range(rows):
        for k in range(columns // 4 * 4, columns):
            out[at + m * step + k] += _dot(a[m], b[k], count)
