"""One way to compare arrays: type, shape, where they are not finite, and values by size."""

from __future__ import annotations

import numpy as np


def assert_same(got: np.ndarray, want: np.ndarray, tolerance: float, what: str) -> None:
    """`got` is `want` up to `tolerance`, relative to each value and to the largest of them.

    The largest one counts because a sum that cancels keeps the error of its terms. Tolerance 0
    asks for equality; integers are always compared exactly.
    """
    assert got.dtype == want.dtype, f"{what}: type {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.size == 0:
        return
    if want.dtype.kind != "f" or tolerance == 0:
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=what)
