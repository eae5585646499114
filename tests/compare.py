"""Comparison of arrays: type, shape, positions of NaN and infinities, and values."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

import nbmod as mx
from tests.oracle.client import OracleCrash


def assert_same(got: np.ndarray, want: np.ndarray, tolerance: float, what: str) -> None:
    """`got` is `want` up to `tolerance`, relative to each value and to the largest of them.

    The largest counts because a sum with cancellation keeps the error of its terms. Tolerance 0
    requires equality; integers are always compared exactly.
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


def assert_like(ours: Any, theirs: Any, tolerance: float = 1e-4, what: str = "answer") -> None:
    """`assert_same` for results of programs: any nesting of arrays, numbers, text, None."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), what
        for key in theirs:
            assert_like(ours[key], theirs[key], tolerance, f"{what}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), what
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_like(*pair, tolerance, f"{what}[{index}]")
    elif isinstance(theirs, np.ndarray):
        assert_same(ours, theirs, tolerance, what)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-7, err_msg=what)
    else:
        assert ours == theirs, what


def assert_sequences_agree(oracle: Any, programs: ModuleType, seeds: Iterable[int],
                           tolerance: float) -> None:
    """`assert_like` for each call of drawn sequences: `programs.run` here and in MXNet.

    Some sequences kill MXNet (of its iterators, about every second time): there is nothing to
    compare with then, which may happen to one in ten.
    """
    name, killed, seeds = programs.__name__.rpartition(".")[2], 0, [*seeds]
    for seed in seeds:
        try:
            theirs = oracle.call("mx_scripts.run", name, "run", seed)
        except OracleCrash:
            killed += 1
            continue
        ours = programs.run(mx, seed)
        for number, answers in enumerate(zip(ours, theirs, strict=False)):
            assert_like(*answers, tolerance, f"{name} {seed}, call {number}, {programs.draw(seed)}")
        assert len(ours) == len(theirs), f"{name} {seed} ends after another call"
    assert killed <= len(seeds) // 10, f"{name}: {killed} of {len(seeds)} sequences kill MXNet"
