"""Matrix products are exact on integers, for any transposition, slicing, scaling and addition."""

from __future__ import annotations

import os
from functools import partial
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbmod.ops import jit
from nbmod.ops.blocked.layout import LANES
from nbmod.ops.linalg.bias_gradient import prepare_bias_gradient
from nbmod.ops.linalg.gemm import (
    add_gemm_share,
    gemm_workspace,
    max_gemm_workspace,
    packed_b_spec,
    prepare_gemm,
    prepare_pack_b,
)
from nbmod.ops.linalg.gemm_plan import (
    A_IN_PLACE,
    B_IN_PLACE,
    DOT_PRODUCTS,
    KC,
    GemmStrides,
    plan_gemm,
)
from nbmod.ops.linalg.gemm_small import (
    AXPY_COLUMNS,
    AXPY_ROWS,
    DOT,
    OUTER_COLUMNS,
    OUTER_ROWS,
    PACKED,
    choose_small_method,
)
from nbmod.ops.simd.gemm_microkernel import MR, NR_VECTORS, packed_mr
from tests.nested import run_pytest

SHAPES = [(1, 1, 1), (1, 300, 65), (6, 257, 64), (7, 3, 63), (97, 5, 130), (100, 600, 17),
          (13, 20, 100), (16, 16, 32), (2, 700, 95), (3, 33, 4), (300, 513, 270), (2000, 37, 1),
          (99, 700, 1)]  # fmt: skip
ORDERS = {"a b": "CC", "a b^T": "CF", "a^T b": "FC", "a^T b^T": "FF"}


def whole(rng: np.random.Generator, *shape: int, dtype: str = "float32", order: str = "C"
          ) -> np.ndarray:
    """Small integers, whose sums of products are exact; F: the last two axes transposed."""
    if order == "F":
        return np.swapaxes(whole(rng, *shape[:-2], shape[-1], shape[-2], dtype=dtype), -1, -2)
    return rng.integers(-4, 5, shape).astype(dtype)


def scratch(rows: int, depth: int, columns: int, dtype: str = "float32", stack: int = 1,
            order: str = "") -> np.ndarray:
    spec = gemm_workspace(rows, depth, columns, dtype, stack, order)
    return np.full(spec.shape, np.nan, spec.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_every_way_to_lie(m, k, n, order, dtype):
    """Also into columns of a wider matrix, and into a transposed one."""
    rng = np.random.default_rng(0)
    a, b = (whole(rng, *shape, dtype=dtype, order=way)
            for shape, way in zip(((m, k), (k, n)), ORDERS[order], strict=True))
    work, wide = scratch(m, k, n, dtype), np.full((m, n + 3), np.nan, dtype)
    prepare_gemm(a, b, wide[:, 2:-1], work)()
    np.testing.assert_array_equal(wide[:, 2:-1], a @ b)
    assert np.isnan(wide[:, [0, 1, -1]]).all()
    turned = np.full((n, m), np.nan, dtype)
    prepare_gemm(a, b, turned.T, work)()
    np.testing.assert_array_equal(turned.T, a @ b)
    prepare_gemm(a, b, wide[:, :n], scratch(m, k, n, dtype, order=ORDERS[order]))()
    np.testing.assert_array_equal(wide[:, :n], a @ b)


@pytest.mark.parametrize("order", ORDERS)
def test_no_denormals_are_found_where_rows_and_columns_end(order, monkeypatch):
    """Results do not show it, but tiles would compute with denormals there, slowly."""
    monkeypatch.setattr("nbmod.ops.linalg.gemm.choose_small_method", lambda *_: PACKED)
    rng, (m, k, n) = np.random.default_rng(0), (MR + 1, 64, NR_VECTORS * LANES + 3)
    a, b = (whole(rng, *shape, order=way)
            for shape, way in zip(((m, k), (k, n)), ORDERS[order], strict=True))
    work = np.full(gemm_workspace(m, k, n, "float32").shape, np.float32(1e-40))
    prepare_gemm(a, b, np.empty((m, n), "f"), work, alpha=7)()
    end = np.flatnonzero(work[0] == 7)[0]  # the packed elements are followed by alpha
    packed = (work[0, :end] != np.float32(1e-40)).reshape(-1, packed_mr(LANES))[:, :MR]
    assert end or order == "a b^T"  # dot products, which pack nothing
    assert (packed.all(1) == packed.any(1)).all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("alpha, biased, add, relu", [
    *pairs((1, 2), *[(False, True)] * 3)])
def test_what_is_done_on_the_way_out(alpha, biased, add, relu, packed):
    rng, (m, k, n) = np.random.default_rng(0), (21, KC + 9, 75)
    a, b, bias, c = (whole(rng, *shape) for shape in ((m, k), (k, n), (n,), (m, n)))
    right = b
    if packed:
        right = np.full(packed_b_spec(k, n, "float32").shape, np.nan, np.float32)
        prepare_pack_b(b[:30], right)()
        prepare_pack_b(b[30:], right, 30)()
    expected = alpha * (a @ b) + biased * bias + add * c
    prepare_gemm(a, right, c, scratch(m, k, n), alpha=alpha, bias=bias if biased else None, add=add,
            relu=relu, packed=packed)()
    np.testing.assert_array_equal(c, np.maximum(expected, 0) if relu else expected)


def _share(a, row, rows, packed, c, pitch, columns, share, work):
    add_gemm_share(a, 2, row, rows, packed, c, 3, pitch, columns, share, work)


@pytest.mark.parametrize("workers", [1, 2, 9])
@pytest.mark.parametrize("m, k, n", [(21, KC + 9, 175), (3, 5, 7)])
def test_shares_of_workers(m, k, n, workers):
    """More workers than panels, too; nothing but the columns is written."""
    rng = np.random.default_rng(0)
    a, b, c = whole(rng, m, k + 2), whole(rng, k, n), whole(rng, m, n + 4)
    right = np.full(packed_b_spec(k, n, "float32").shape, np.nan, np.float32)
    prepare_pack_b(b, right)()
    expected = c.copy()
    expected[:, 3:-1] += a[:, 2:] @ b
    for worker in range(workers):
        work = np.full(max_gemm_workspace(m, k, n, "float32"), np.nan, np.float32)
        SHARE(a.reshape(-1), k + 2, m, right, c.reshape(-1), n + 4, n, (worker, workers), work)
    np.testing.assert_array_equal(c, expected)


SHARE = jit.Kernel(_share)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stack, m, k, n", [((3,), 5, 7, 40), ((2, 5), 30, 33, 20),
                                            ((40,), 2, 3, 4), ((1,), 1, 1, 1)])
def test_stacks(stack, m, k, n, order):
    """The result's axes permuted, and one factor broadcast along an axis."""
    rng = np.random.default_rng(0)
    a, b = (whole(rng, *stack, *shape, order=way)
            for shape, way in zip(((m, k), (k, n)), ORDERS[order], strict=True))
    work = scratch(m, k, n, stack=int(np.prod(stack)))
    c = np.moveaxis(np.full((m, *stack, n), np.nan, np.float32), 0, -2)
    prepare_gemm(a, b, c, work)()
    np.testing.assert_array_equal(c, a @ b)
    same = np.broadcast_to(b[:1], b.shape)
    prepare_gemm(a, same, c, work)()
    np.testing.assert_array_equal(c, a @ same)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("m, k, n", [(3, 333, 1), (200, 3, 2), (2, 84, 49), (5, 30, 6), (1, 7, 99),
                                     (13, 93, 4), (9, 2, 17)])
def test_small_matrices_of_a_stack(m, k, n, order, add, dtype):
    """Each algorithm separately, into a transposed result as well."""
    rng, alpha = np.random.default_rng(0), 3
    a, b = (whole(rng, 5, *shape, dtype=dtype, order=way)
            for shape, way in zip(((m, k), (k, n)), ORDERS[order], strict=True))
    for turned in (False, True):
        start = whole(rng, 5, m, n, dtype=dtype, order="F" if turned else "C")
        for way in (AXPY_ROWS, AXPY_COLUMNS, DOT, OUTER_ROWS, OUTER_COLUMNS, None):
            c = start.copy(order="K")
            with pytest.MonkeyPatch.context() as patch:
                if way is not None:
                    patch.setattr("nbmod.ops.linalg.gemm.choose_small_method",
                                  partial(_if_possible, way))
                prepare_gemm(a, b, c, scratch(m, k, n, dtype, 5), alpha=alpha, add=add)()
            np.testing.assert_array_equal(c, alpha * (a @ b) + add * start)


def _if_possible(method, strides, plan):
    """`method`, if it can read these operands: vectors of outer products are contiguous."""
    possible = {OUTER_ROWS: strides.b_column == 1, OUTER_COLUMNS: strides.a_row == 1}
    return method if possible.get(method, True) else PACKED


def test_thin_matrices_are_not_packed():
    wide, tall = plan_gemm(4, 1933, 5, 37, 8, 1), plan_gemm(1933, 4, 5, 37, 8, 1)
    assert choose_small_method(GemmStrides(1933, 1, 5, 1, 5), wide) == OUTER_ROWS
    both = plan_gemm(13, 593, 4, 61, 8, 1)
    assert choose_small_method(GemmStrides(1, 13, 4, 1, 4), both) in (OUTER_ROWS, OUTER_COLUMNS)
    few = plan_gemm(10, 10_000, 10, 1, 8, 2)
    assert choose_small_method(GemmStrides(1, 10, 10, 1, 10), few) in (OUTER_ROWS, OUTER_COLUMNS)
    assert choose_small_method(GemmStrides(1, 1933, 5, 1, 5), tall) == AXPY_COLUMNS
    full = plan_gemm(32, 32, 32, 64, 8, 1)
    assert choose_small_method(GemmStrides(32, 1, 32, 1, 32), full) == PACKED


@pytest.mark.parametrize("order", ["CC", "FC", "CF"])
def test_a_column_is_the_row_of_a_transposed_product(order):
    """Micro-tiles of a column would use one of their NR columns."""
    rng = np.random.default_rng(0)
    a, b = whole(rng, 500, 300, order=order[0]), whole(rng, 300, 1, order=order[1])
    c = np.empty((500, 1), "f")
    run = prepare_gemm(a, b, c, scratch(500, 300, 1, order=order))
    config = next(arg for arg in run.args if isinstance(arg, tuple) and len(arg) == 10)
    assert config[:2] == (1, 500)
    run()
    np.testing.assert_array_equal(c, a @ b)
    biased = np.empty((500, 1), "f")
    prepare_gemm(a, b, biased, scratch(500, 300, 1, order=order), bias=np.ones(1, "f"))()
    np.testing.assert_array_equal(biased, a @ b + 1)


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("add", [False, True])
def test_nothing_to_sum(m, k, n, add):
    a, b, c = np.ones((m, k), "f"), np.ones((k, n), "f"), np.ones((m, n), "f")
    prepare_gemm(a, b, c, scratch(m, k, n), bias=np.full(n, 2, "f"), add=add)()
    np.testing.assert_array_equal(c, np.full((m, n), 2 + add))


@given(st.integers(1, 90), st.integers(1, 600), st.integers(1, 150),
       st.sampled_from(sorted(ORDERS.values())), st.booleans())
@settings(deadline=None, max_examples=60)
def test_any_sizes(m, k, n, order, add):
    rng = np.random.default_rng(m + k + n)
    a, b = whole(rng, m, k, order=order[0]), whole(rng, k, n, order=order[1])
    c = whole(rng, m, n)
    expected = a @ b + add * c
    prepare_gemm(a, b, c, scratch(m, k, n), add=add)()
    np.testing.assert_array_equal(c, expected)


def test_the_same_bits_on_any_number_of_threads():
    """And whichever rows are computed together."""
    rng, (m, k, n) = np.random.default_rng(0), (200, 700, 300)
    a, b = rng.standard_normal((m, k), "f"), rng.standard_normal((k, n), "f")
    results, before = [], jit.num_threads()
    try:
        for threads in {1, before}:
            jit.set_num_threads(threads)
            results.append(np.empty((m, n), "f"))
            prepare_gemm(a, b, results[-1], scratch(m, k, n))()
    finally:
        jit.set_num_threads(before)
    few = np.empty((5, n), "f")
    prepare_gemm(a[:5], b, few, scratch(5, k, n))()
    np.testing.assert_array_equal(results[0], results[-1])
    np.testing.assert_array_equal(results[0][:5], few)


@pytest.mark.parametrize("rows, columns", [(3, 5), (70, 1100), (1, 1 << 17)])
@pytest.mark.parametrize("add", [False, True])
def test_sums_of_rows(rows, columns, add):
    """Integers, so that sums are exact; also of some columns of a wider matrix."""
    wide = np.random.default_rng(0).integers(-9, 9, (rows, columns + 7)).astype("float32")
    for matrix in (wide[:, 3:-4], np.ascontiguousarray(wide[:, 3:-4])):
        total = np.ones(columns, "float32")
        prepare_bias_gradient(matrix, total, add)()
        np.testing.assert_array_equal(total, matrix.sum(0) + add)


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
@pytest.mark.parametrize("m, k, n", [*SHAPES, (5000, 10, 3), (3, 10, 5000)])
def test_plans_leave_nothing_out(m, k, n, workers):
    """Jobs begin at whole strips and panels, and all workers have one if there are enough."""
    plan = plan_gemm(m, k, n, 1, 16, workers)
    assert plan.nc % 32 == 0 and plan.mc > 0
    assert plan.jobs == -(-m // plan.mc) * -(-n // plan.nc)
    assert plan.jobs >= min(workers, 2) or m * n <= plan.mc * plan.nc


def test_the_larger_factor_is_divided():
    """On equal cost: workers of a dense layer share its weights, not its rows."""
    plan, turned = (plan_gemm(*sizes, 1, 16, 2, way) for sizes, way in (
        ((64, 784, 128), DOT_PRODUCTS), ((128, 64, 784), A_IN_PLACE | B_IN_PLACE)))
    assert plan.mc >= 64 and plan.nc == 64
    assert turned.mc == 64 and turned.nc >= 784


@pytest.mark.parametrize("order, sizes, most", [
    ("CF", (64, 784, 128), 100), ("FC", (128, 64, 784), 64 * (16 + 32)),
    ("CC", (64, 128, 784), 128 * (90 + 32))])
def test_products_of_small_networks_need_little_room(order, sizes, most):
    """A dense layer needs none but a tile; its gradients a strip and a panel, or their transposed
    operand; with a tile each, of up to 15 rows of 32 elements."""
    most += 15 * 32 + 16 * (order != "CF")
    assert gemm_workspace(*sizes, "float32", order=order).shape[1] <= most


def test_what_cannot_be_done_says_so():
    a, c = np.ones((30, 30), "f"), np.ones((30, 30), "f")
    with pytest.raises(ValueError, match="workspace"):
        prepare_gemm(a, a, c, np.empty((1, 10), "f"))
    a, c = np.ones((3, 3), "f"), np.ones((3, 3), "f")
    with pytest.raises(ValueError, match="transposed result"):
        prepare_gemm(a, a, c.T, scratch(3, 3, 3), bias=c[0])


@pytest.mark.parametrize("lanes", [width for width in (4, 8, 16) if width != LANES])
def test_other_widths(lanes, tmp_path):
    """The same tests with vectors of another width than the host's."""
    if "NBMOD_SIMD_LANES" not in os.environ:
        ran = run_pytest(tmp_path, "-x", __file__, "-k",
                         "way_to_lie and float32 or on_the_way or inside",
                         NBMOD_SIMD_LANES=str(lanes))
        assert ran.returncode == 0, ran.stdout[-3000:]
