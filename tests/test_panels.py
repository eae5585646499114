"""Products in panels are exact on whole numbers, for any shape and any width of vectors."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from nbmod.ops import jit, panels

SHAPES = [(1, 1, 1), (1, 300, 65), (6, 257, 64), (7, 3, 63), (97, 5, 130), (100, 600, 17),
          (13, 20, 100), (12, 20, 200), (14, 9, 22)]  # fmt: skip


def whole(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Small whole numbers, whose sums of products are exact."""
    return rng.integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_product(m, k, n, dtype):
    rng = np.random.default_rng(0)
    a, b, base = whole(rng, m, k, dtype=dtype), whole(rng, k, n, dtype=dtype), whole(
        rng, n, dtype=dtype)
    packed = np.full(panels.panel_spec(k, n, dtype).shape, np.nan, dtype)
    work = np.full(panels.job_scratch(dtype).shape, np.nan, dtype)
    wide = np.full((m, n + 3), np.nan, dtype)
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            packed.fill(np.nan)
            panels.packing(right, packed)()
            panels.product(left, packed, wide[:, 2:-1], work, base)()
            np.testing.assert_array_equal(wide[:, 2:-1], a @ b + base)
    panels.product(a, packed, wide[:, 2:-1], work, add=True)()
    np.testing.assert_array_equal(wide[:, 2:-1], 2 * (a @ b) + base)
    assert np.isnan(wide[:, [0, 1, -1]]).all()


def test_packing_in_two_parts():
    rng = np.random.default_rng(0)
    a, b = whole(rng, 5, 9), whole(rng, 9, 7)
    packed = np.full(panels.panel_spec(9, 7, "float32").shape, np.nan, np.float32)
    work, c = np.empty(panels.job_scratch("float32").shape, np.float32), np.empty((5, 7), "f")
    panels.packing(b[4:], packed, 4)()
    panels.packing(b[:4], packed)()
    panels.product(a, packed, c, work)()
    np.testing.assert_array_equal(c, a @ b)


def test_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((200, 700), "f"), rng.standard_normal((700, 300), "f")
    packed = np.empty(panels.panel_spec(700, 300, "float32").shape, np.float32)
    panels.packing(b, packed)()
    results, before = [], jit.num_threads()
    try:
        for threads in {1, before}:
            jit.set_num_threads(threads)
            work, c = np.empty(panels.job_scratch("float32").shape, "f"), np.empty((200, 300), "f")
            panels.product(a, packed, c, work)()
            results.append(c)
    finally:
        jit.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[-1])


NARROW = """
import numpy as np
from nbmod.ops import panels
from nbmod.ops.simd import tile
tile._host = lambda: {host}
a, b = (np.random.default_rng(0).integers(-4, 5, s).astype("f") for s in ((17, 30), (30, 41)))
spec = panels.panel_spec(30, 41, "float32")
assert spec.shape[3] == {host}[0] // 4
packed, c = np.empty(spec.shape, "f"), np.empty((17, 41), "f")
panels.packing(b, packed)()
panels.product(a, packed, c, np.empty(panels.job_scratch("float32").shape, "f"))()
assert (c == a @ b).all()
"""


def test_a_host_with_other_registers(tmp_path):
    """AVX2's 16 registers hold three rows of sums, so tiles of six are two loops."""
    environment = {**os.environ, "NBMOD_CACHE_DIR": str(tmp_path)}
    program = NARROW.format(host=(32, 16))
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
