"""When kernels reduce in place of NumPy, and that they find the same."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.ops.elementwise import reduction_programs
from nbmod.ops.elementwise.reduction_programs import fold

JOINS = {"add": np.add, "maximum": np.maximum, "multiply": np.multiply}


@pytest.mark.parametrize("shape, kept, compiled", [
    ((64, 26, 2), (64, 1, 2), True),        # 1664 inner loops of 2 elements
    ((1000, 2), (1, 2), True),
    ((64, 26, 1, 2), (64, 1, 1, 2), True),
    ((64, 26, 2), (64, 1, 1), False),       # 64 of 52
    ((64, 26), (64, 1), False),
    ((26, 128), (1, 128), False),
    ((16, 4, 2), (16, 1, 2), False),        # 64 of 2
    ((64, 64), (64, 1), True),              # large
    ((1, 1), (1, 1), False),
    ((0, 2), (1, 2), False),
])  # fmt: skip
def test_small_sums_are_compiled_where_numpy_has_many_inner_loops(shape, kept, compiled):
    run = fold(np.zeros(shape, np.float32), np.zeros(kept, np.float32))
    assert (run is not None) == compiled


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=4),
       st.sampled_from(sorted(JOINS)), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_kernels_reduce_as_numpy_does(axes, join, seed):
    shape = tuple(size for size, _ in axes)
    kept = tuple(1 if reduced else size for size, reduced in axes)
    x = np.random.default_rng(seed).uniform(0.99, 1.01, shape).astype(np.float32)
    out = np.empty(kept, np.float32)
    with patch.object(reduction_programs, "LOOPS", 0):      # kernels for any size
        run = fold(x, out, "x", join)
    assert run is not None
    run()
    which = tuple(i for i, (_, reduced) in enumerate(axes) if reduced)
    want = JOINS[join].reduce(x.astype(np.float64), axis=which, keepdims=True)
    # Up to 20,736 roundings of 6e-8 in products; sums are pairwise or in float64.
    np.testing.assert_allclose(out, want, rtol=2e-3 if join == "multiply" else 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64"])
@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max", "min"])
def test_a_single_term_is_its_reduction(op, dtype):
    """But a sum is never -0."""
    x = mx.nd.array([[-127, 3, 127]] if dtype[0] == "i" else [[np.nan, np.inf, 0.1]], dtype=dtype)
    net = getattr(mx.sym, op)(mx.sym.Variable("x"), axis=0)
    for found in (getattr(mx.nd, op)(x, axis=0), net.bind(mx.cpu(), [x]).forward()[0]):
        assert found.shape == (3,)
        assert found.asnumpy().tobytes() == x.asnumpy().tobytes()
    if op in ("sum", "mean"):
        zero = getattr(mx.nd, op)(mx.nd.array([[-0.0]]).astype(dtype), axis=0).asnumpy()
        assert not zero and not np.signbit(zero)
