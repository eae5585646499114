"""Factorizations on GPUs: matrices with more elements than a block has threads, and invalid ones.

Checked against the definition of each factorization in float64: errors are a few roundings of
values below 30.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda.runtime import simulator
from nbmod.ops.cuda.runtime.simulator import SCHEDULES

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("schedule", SCHEDULES)]
SIDE = 9
TOLERANCE = 1e-12


@pytest.fixture(autouse=True)
def in_turns(monkeypatch, schedule):
    monkeypatch.setattr(simulator, "schedule", schedule)


def on_gpu(array: np.ndarray) -> mx.nd.NDArray:
    return mx.nd.array(array, ctx=mx.gpu(0), dtype="float64")


def matrices(columns: int = SIDE) -> np.ndarray:
    """Two matrices with unordered rows, so pivots are searched in all of them."""
    return np.random.default_rng(3).standard_normal((2, SIDE, columns))


def symmetric() -> np.ndarray:
    x = matrices()
    return x @ x.swapaxes(1, 2) + np.eye(SIDE)


def near(got: mx.nd.NDArray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.asnumpy(), want, rtol=TOLERANCE, atol=TOLERANCE)


def test_cholesky():
    x = symmetric()
    factor = mx.nd.linalg.potrf(on_gpu(x))
    near(factor, np.linalg.cholesky(x))
    near(mx.nd.linalg.potri(factor), np.linalg.inv(x))


def test_inverses_and_determinants():
    x = matrices()
    near(mx.nd.linalg.inverse(on_gpu(x)), np.linalg.inv(x))
    sign, size = mx.nd.linalg.slogdet(on_gpu(x))
    for got, want in zip((sign, size), np.linalg.slogdet(x), strict=True):
        near(got, want)
    near(mx.nd.linalg.det(on_gpu(x)), np.linalg.det(x))


def test_rows_and_what_they_are_made_of():
    x = matrices(SIDE + 2)
    q, factor = (part.asnumpy() for part in mx.nd.linalg.gelqf(on_gpu(x)))
    np.testing.assert_allclose(factor @ q, x, atol=TOLERANCE)
    np.testing.assert_allclose(q @ q.swapaxes(1, 2), [np.eye(SIDE)] * 2, atol=TOLERANCE)
    assert not np.triu(factor, 1).any()


@pytest.mark.parametrize("side", [SIDE, SIDE - 1])
def test_eigenvectors(side):
    """An index has no partner in some rounds where the side is odd."""
    x = symmetric()[:, :side, :side]
    u, values = (part.asnumpy() for part in mx.nd.linalg.syevd(on_gpu(x)))
    np.testing.assert_allclose(u.swapaxes(1, 2) @ (values[..., None] * u), x, atol=100 * TOLERANCE)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=100 * TOLERANCE)
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("op, data, message", [
    ("potrf", [[1, 2], [2, 1]], "not positive definite"),
    ("potri", [[0, 0], [2, 1]], "no zero on its diagonal"),
    ("inverse", [[1, 1], [1, 1]], "invertible"),
])
def test_what_has_no_factor_is_an_error_as_on_the_cpu(op, data, message):
    for context in (mx.cpu(), mx.gpu(0)):
        with pytest.raises(mx.MXNetError, match=message):
            getattr(mx.nd.linalg, op)(mx.nd.array(data, ctx=context)).wait_to_read()
    a, b = on_gpu(np.array(data)), on_gpu(np.ones((2, 1)))
    if op == "potri":
        with pytest.raises(mx.MXNetError, match="without zeros on its diagonal"):
            mx.nd.linalg.trsm(a, b).wait_to_read()
