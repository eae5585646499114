"""Matrix products are exact on whole numbers, by BLAS and by the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from nbmod.ops import product

SHAPES = [(1, 1, 1), (8, 10, 16), (1, 300, 65), (40, 65, 33), (7, 3, 4000), (130, 600, 17)]


def test_shapes_stand_on_both_sides_of_the_limit():
    assert {m * k * n > product.SMALL for m, k, n in SHAPES} == {True, False}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_products(m, k, n, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype)
    work = np.full(product.by_columns_scratch(m, k, n, dtype).shape, np.nan, dtype)
    for left in (a, np.asfortranarray(a)):
        c.fill(np.nan)
        product.by_columns(left, b, c, work)()
        np.testing.assert_array_equal(c, a @ b)
    c.fill(np.nan)
    work = np.full(product.by_rows_scratch(m, n, k, dtype).shape, np.nan, dtype)
    product.by_rows(a, np.ascontiguousarray(b.T), c, work)()
    np.testing.assert_array_equal(c, a @ b)
