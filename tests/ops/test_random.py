"""Random ops: distributions, streams that can be resumed, Dropout's mask and gradient.

Seeds are fixed. A mean of n draws of standard deviation s is off by more than 5 s / sqrt(n) once in
two million times, and a variance of well-behaved distributions by more than a few percent hardly
more often; so a failure means a wrong distribution, not bad luck with a new seed.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.nn import dropout
from nbmod.ops.random import rng

COUNT = 100_000
SIGMAS = 5

# op, attrs, mean, variance
DISTRIBUTIONS = [
    ("uniform", {"low": 2, "high": 5}, 3.5, 0.75),
    ("normal", {"loc": -1, "scale": 3}, -1, 9),
    ("exponential", {"lam": 4}, 1 / 4, 1 / 16),
    ("gamma", {"alpha": 2, "beta": 3}, 6, 18),
    ("gamma", {"alpha": 0.5, "beta": 1}, 0.5, 0.5),
    ("poisson", {"lam": 4}, 4, 4),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25),
    ("negative_binomial", {"k": 3, "p": 1}, 0, 0),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0.3}, 2, 3.2),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0}, 2, 2),
]


def check(values: np.ndarray, mean: float, variance: float) -> None:
    deviation = (variance / values.size) ** 0.5
    assert abs(values.mean() - mean) <= SIGMAS * deviation + 1e-6
    assert abs(values.var() - variance) <= 0.05 * variance


@pytest.mark.parametrize("name, attrs, mean, variance", DISTRIBUTIONS)
def test_one_set_of_parameters(name, attrs, mean, variance):
    mx.random.seed(1)
    drawn = getattr(mx.nd, f"random_{name}")(shape=(COUNT,), **attrs)
    assert drawn.dtype == np.float32
    check(drawn.asnumpy().astype(np.float64), mean, variance)


@pytest.mark.parametrize("name, attrs, mean, variance", DISTRIBUTIONS)
def test_parameters_in_rows(name, attrs, mean, variance):
    """Each row has its distribution, and rows are independent of each other."""
    mx.random.seed(2)
    names = {"loc": "mu", "scale": "sigma"} if name == "normal" else {}
    rows = {names.get(key, key): mx.nd.array([value, value]) for key, value in attrs.items()}
    drawn = getattr(mx.nd, f"sample_{name}")(shape=(COUNT,), **rows).asnumpy().astype(np.float64)
    for row in drawn:
        check(row, mean, variance)
    if variance:
        assert abs(np.corrcoef(drawn)[0, 1]) <= SIGMAS / COUNT**0.5


def test_uniform_stays_inside_and_fills_it():
    mx.random.seed(3)
    drawn = mx.nd.random_uniform(low=-1, high=2, shape=(COUNT,)).asnumpy()
    assert -1 <= drawn.min() < -0.999 and 1.999 < drawn.max() <= 2


def test_integers_are_equally_likely():
    mx.random.seed(4)
    drawn = mx.nd.random_randint(low=-2, high=5, shape=(COUNT,)).asnumpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == list(range(-2, 5))
    expected = COUNT / 7
    # chi square of 6 degrees of freedom: beyond 35 once in 200,000
    assert ((counts - expected) ** 2 / expected).sum() < 35


def test_categories_come_with_their_probability():
    mx.random.seed(5)
    chances = np.array([[0.1, 0.2, 0.7, 0], [0.5, 0, 0.5, 0]], np.float32)
    drawn, logs = mx.nd.sample_multinomial(mx.nd.array(chances), shape=(COUNT,), get_prob=True)
    drawn, logs = drawn.asnumpy(), logs.asnumpy()
    for row, chance, log in zip(drawn, chances, logs, strict=True):
        found = np.bincount(row, minlength=4) / COUNT
        spread = np.sqrt(chance * (1 - chance) / COUNT)
        assert (np.abs(found - chance) <= SIGMAS * spread).all()
        np.testing.assert_allclose(log, np.log(chance[row]), rtol=1e-6)


def test_gradient_of_log_probabilities():
    chances = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0]], np.float32)
    heads = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    symbol = mx.sym.sample_multinomial(mx.sym.Variable("p"), shape=(3,), get_prob=True)
    args, grads = {"p": mx.nd.array(chances)}, {"p": mx.nd.zeros((2, 3))}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads)
    drawn = executor.forward(is_train=True)[0].asnumpy()
    executor.backward([mx.nd.zeros((2, 3)), mx.nd.array(heads)])
    expected = np.zeros((2, 3))
    for row in range(2):
        np.add.at(expected[row], drawn[row], heads[row] / chances[row][drawn[row]])
    np.testing.assert_allclose(grads["p"].asnumpy(), expected, rtol=1e-6)


def test_shuffle_keeps_every_row():
    mx.random.seed(6)
    data = np.arange(300).reshape(100, 3)
    drawn = mx.nd.shuffle(mx.nd.array(data)).asnumpy()
    assert (drawn != data).any()
    np.testing.assert_array_equal(drawn[drawn[:, 0].argsort()], data)


def test_zipfian_ids_are_distinct_and_small_ones_frequent():
    mx.random.seed(7)
    ids, tries = mx.nd._internal._sample_unique_zipfian(range_max=1000, shape=(200, 20))
    ids, tries = ids.asnumpy(), tries.asnumpy()
    assert all(len(set(row)) == 20 for row in ids) and 0 <= ids.min() <= ids.max() < 1000
    assert (tries >= 20).all()
    assert (ids == 0).any(axis=1).mean() > 0.7 > 0.2 > (ids == 900).any(axis=1).mean()


# -- streams --------------------------------------------------------------------------------


def draws() -> list[np.ndarray]:
    return [
        mx.nd.random_normal(shape=(3,)).asnumpy(),
        mx.nd.random_uniform(shape=(3,)).asnumpy(),
        mx.nd.sample_poisson(mx.nd.array([3.0, 5.0])).asnumpy(),
    ]


def test_a_seed_starts_over_and_draws_differ():
    mx.random.seed(8)
    first = draws()
    second = draws()
    mx.random.seed(8)
    for a, b, c in zip(first, draws(), second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.size < 3 or (a != c).any()
    mx.random.seed(9)
    assert (draws()[0] != first[0]).any()


def test_a_state_is_where_it_was_taken():
    mx.random.seed(10)
    draws()
    state = mx.random.get_state()
    expected = draws()
    mx.random.set_state(state)
    for a, b in zip(draws(), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_process_starts_with_the_same_numbers():
    code = "import nbmod as mx; print(mx.nd.random_uniform(shape=(2,)).asnumpy().tolist())"
    said = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           check=True).stdout for _ in range(2)}  # fmt: skip
    assert len(said) == 1


def test_philox_is_the_published_one():
    """Known-answer test of Random123 for counter and key of zeros."""
    assert [f"{word:08x}" for word in rng.words(rng.Stream(0, 0), 1)[:, 0]] == [
        "6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]  # fmt: skip
    blocks = rng.words(rng.Stream(2**64 - 1, 2**64 - 1), 1000)
    assert len(np.unique(blocks)) > 3990  # words repeat only by chance


# -- Dropout --------------------------------------------------------------------------------


def drop(shape: tuple[int, ...], is_train: bool = True, **attrs) -> tuple[np.ndarray, np.ndarray]:
    """(factors of the data, factors of the head gradients)."""
    symbol = mx.sym.Dropout(mx.sym.Variable("x"), **attrs)
    values = np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)
    args, grads = {"x": mx.nd.array(values)}, {"x": mx.nd.zeros(shape)}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads)
    output = executor.forward(is_train=is_train)[0].asnumpy()
    executor.backward(mx.nd.array(2 * values))
    return output / values, grads["x"].asnumpy() / (2 * values)


@pytest.mark.parametrize("shape", [(40, 50), (70, 80, 3), (1, 1024), (33, 128)])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_dropout_keeps_its_share(shape, p):
    mx.random.seed(11)
    mask, back = drop(shape, p=p)
    np.testing.assert_allclose(mask, back, rtol=1e-6)
    kept = mask > 0
    np.testing.assert_allclose(mask[kept], 1 / (1 - p), rtol=1e-6)
    assert abs(kept.mean() - (1 - p)) <= SIGMAS * (p * (1 - p) / mask.size) ** 0.5


def test_dropout_draws_anew_and_neighbours_are_independent():
    mx.random.seed(12)
    first, second = drop((200, 500))[0], drop((200, 500))[0]
    for other in (second, np.roll(first, 1), np.roll(first, 256), np.roll(first, 500)):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) <= SIGMAS / first.size**0.5


def test_dropout_shares_the_mask_along_axes():
    mask, back = drop((6, 7, 8), p=0.5, axes=(0, 2))
    np.testing.assert_allclose(mask, back, rtol=1e-6)
    assert (mask == mask[:1, :, :1]).all() and len(np.unique(mask)) == 2


def test_dropout_of_all_and_of_nothing():
    assert (drop((4, 5), p=1)[0] == 0).all()
    assert all((part == 1).all() for part in drop((4, 5), p=0))
    assert all((part == 1).all() for part in drop((70, 80), is_train=False))
    assert len(np.unique(drop((70, 80), is_train=False, mode="always")[0])) == 2


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_kernel_and_numpy_draw_the_same(size, dtype):
    stream, limit, scale = rng.Stream(13, 14), round(0.7 * 2**32), dtype(1.5)
    x = np.random.default_rng(0).standard_normal(size).astype(dtype)
    mask, y, expected = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    spare = np.empty(dropout.TILE, dtype)
    dropout._drop(x, mask, y, spare, np.uint32(limit), scale, np.uint64(14), np.uint64(13))
    dropout._mask(expected, limit, scale, stream)
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(y, x * mask)


def test_rrelu_draws_slopes_and_differentiates_by_them():
    mx.random.seed(15)
    symbol = mx.sym.LeakyReLU(mx.sym.Variable("x"), act_type="rrelu", lower_bound=0.1,
                              upper_bound=0.7)  # fmt: skip
    values = np.random.default_rng(0).standard_normal((100, 200)).astype(np.float32)
    args, grads = {"x": mx.nd.array(values)}, {"x": mx.nd.zeros(values.shape)}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads)
    output, slope = (y.asnumpy() for y in executor.forward(is_train=True))
    check(slope.astype(np.float64), 0.4, 0.6**2 / 12)
    assert 0.1 <= slope.min() and slope.max() <= 0.7
    np.testing.assert_allclose(output, np.where(values > 0, values, slope * values), rtol=1e-6)
    executor.backward([mx.nd.ones(values.shape), mx.nd.zeros(values.shape)])
    np.testing.assert_allclose(grads["x"].asnumpy(), np.where(values > 0, 1, slope), rtol=1e-6)
