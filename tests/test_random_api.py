"""`mx.random` and `mx.nd.random`: shapes, types and errors as in MXNet, one seed for everything."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests.programs.array_answers import answers, names

P = "nd.array([[0.1, 0.9], [0.5, 0.5]])"
V = "nd.array([1., 2])"
DRAWS = [
    "nd.random.uniform()", "nd.random.uniform(shape=3)", "nd.random.uniform(0, 1, (2, 3))",
    "nd.random.uniform(0, 1, (2, 3), 'float64')", "nd.random.uniform(shape=(2,), dtype='float16')",
    "nd.random.uniform(shape=(2,), ctx=mx.cpu(1))", "nd.random.uniform(out=o)",
    "nd.random.uniform(0, 1, [2, 3])", "nd.random.uniform(0, 1, np.int64(3))",
    "nd.random.uniform(np.float32(0), np.float64(1), (2,))",
    "nd.random.normal(0, 1, (2,), np.float32)", f"nd.random.uniform({V}, {V} + 1)",
    f"nd.random.uniform({V}, {V} + 1, shape=3)",
    f"nd.random.uniform(low={V}, high={V}, shape=(2, 2))", "nd.random.normal(0, 1, (2,))",
    f"nd.random.normal({V}, {V})", "nd.random.randn(2, 3)",
    "nd.random.randn(2, 3, loc=5, scale=1)", "nd.random.randn(2, dtype='float64', ctx=mx.cpu(1))",
    "nd.random.randint(0, 10)", "nd.random.randint(0, 10, (3,))",
    "nd.random.randint(0, 10, 3, dtype='int64')", "nd.random.exponential(2, (3,))",
    f"nd.random.exponential({V})", "nd.random.gamma(2, 3, (2,))", f"nd.random.gamma({V}, {V})",
    "nd.random.poisson(3, (2,))", f"nd.random.poisson({V}, shape=2)",
    "nd.random.negative_binomial(3, 0.5, (2,))", f"nd.random.multinomial({P})",
    "nd.random.generalized_negative_binomial(3, 0.5, (2,))",
    f"nd.random.multinomial({P}, shape=3)", f"nd.random.multinomial({P}, shape=(2, 3))",
    f"nd.random.multinomial({P}[0])", f"nd.random.multinomial({P}[0], 4)",
    f"nd.random.multinomial({P}, dtype='float32')",
    f"nd.random.multinomial({P}, get_prob=True)[1]", f"nd.random.shuffle({V})",
    "nd.random.shuffle(o)", "nd.random.uniform_like(o)", "nd.random.normal_like(o, loc=3)",
    "nd.random.exponential_like(o)", "nd.random.poisson_like(o)", "nd.random.gamma_like(o)",
    "nd.uniform(shape=2)", "nd.uniform(0, 1, (2,))", "nd.random_uniform(0, 1, (2,))",
    f"nd.sample_uniform({V}, {V} + 1)", f"nd.sample_multinomial({P})", f"nd.shuffle({V})",
    "mx.random.uniform(0, 1, (2,))", "mx.random.normal(0, 1, (2, 3), out=o)",
    "mx.random.randint(0, 5, (2,))", "mx.random.randn(2)", f"mx.random.multinomial({P})",
    "mx.rnd.uniform(0, 1, (2,))", "nd.random.uniform(0, 1, 2, out=nd.zeros(2, dtype='float64'))",
    "nd.normal(0, 1, (2,), ctx='cpu(1)')",
    *(f"nd.contrib.rand_zipfian(nd.array([3, 0]), 5, 8)[{i}]" for i in range(3)),
]  # fmt: skip
ERRORS = [
    f"nd.random.uniform({V}, 2)", f"nd.random.uniform(0, {V})", "nd.random.uniform('a', 1)",
    "nd.random.uniform(2, 1)", "nd.random.uniform(shape=(2,), dtype='int32')",
    "nd.random.uniform(shape=(2, 2), out=o)", "nd.random.normal(0, -1, 2)", "nd.random.randn()",
    "nd.random.randn(2, foo=1)", "nd.random.randint(0, 10, 3, dtype='float32')",
    "nd.random.randint(5, 5, (3,))", f"nd.random.randint({V}, {V})",
    "nd.random.exponential(-1, (2,))", "nd.random.poisson(3, (2,), dtype='int32')",
    "nd.random.normal(0, 1, 2, foo=1)", "nd.random.gamma(-1, 1, 2)",
    "nd.random.normal_like(o, scale=0)", "nd.random.poisson(-1, 2)",
]  # fmt: skip


def test_shapes_types_and_devices_are_mxnets(oracle):
    texts = [f"x = {draw}; [x.shape, x.dtype.__name__, str(x.context)]" for draw in DRAWS]
    real = oracle.call("mx_arrays.answers", texts)
    for text, mine, theirs in zip(texts, answers(mx, texts), real, strict=True):
        assert mine == theirs, text


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    with pytest.raises(mx.MXNetError):
        eval(text, names(mx))


@pytest.mark.parametrize("draw", DRAWS)
def test_the_seed_decides(draw):
    def drawn() -> np.ndarray:
        return eval(draw, names(mx)).asnumpy()

    mx.random.seed(5)
    first, second = drawn(), drawn()
    mx.random.seed(5)
    np.testing.assert_array_equal(first, drawn())
    np.testing.assert_array_equal(second, drawn())


def test_draws_and_seeds_differ():
    mx.random.seed(1)
    first = mx.nd.random.uniform(shape=20).asnumpy()
    assert (first != mx.nd.random.uniform(shape=20).asnumpy()).any()
    mx.random.seed(2)
    assert (first != mx.nd.random.uniform(shape=20).asnumpy()).any()


def test_the_state_can_be_kept_and_restored():
    mx.random.seed(3)
    mx.nd.random.normal(shape=5)
    state = mx.random.get_state()
    expected = mx.nd.random.normal(shape=5).asnumpy()
    mx.random.set_state(state)
    np.testing.assert_array_equal(mx.nd.random.normal(shape=5).asnumpy(), expected)


@pytest.mark.parametrize("seed", [3, -1, 2**40, np.int32(4)])
def test_any_integer_is_a_seed(seed):
    mx.random.seed(seed)
    mx.random.seed(seed, ctx=mx.cpu(1))


@pytest.mark.parametrize("seed", ["a", 1.5, None])
def test_nothing_else_is(seed):
    with pytest.raises(ValueError, match="seed_state"):
        mx.random.seed(seed)


def test_the_scale_of_exponential_is_its_mean():
    """The op's parameter is the rate; 4 standard errors of 1e5 draws."""
    mx.random.seed(0)
    mean = mx.nd.random.exponential(4, (100_000,)).asnumpy().mean()
    assert abs(mean - 4) < 4 * 4 / np.sqrt(100_000)


def test_shuffle_keeps_rows_together():
    rows = mx.nd.array(np.arange(20).reshape(10, 2))
    mixed = mx.random.shuffle(rows).asnumpy()
    np.testing.assert_array_equal(mixed[mixed[:, 0].argsort()], rows.asnumpy())


def test_rand_zipfian_draws_as_often_as_it_says(oracle):
    classes, count = np.arange(8), 40000
    expression = "mx.nd.contrib.rand_zipfian(mx.nd.array(c), 40000, 8)[1]"
    theirs = oracle.call("mx_scripts.evaluate", expression, {"c": classes})[0]
    mx.random.seed(1)
    symbols = mx.sym.contrib.rand_zipfian(mx.sym.Variable("c"), count, 8)
    bound = mx.sym.Group(symbols).bind(mx.cpu(), {"c": mx.nd.array(classes)})
    arrays = mx.nd.contrib.rand_zipfian(mx.nd.array(classes), count, 8)
    for drawn, of_true, of_drawn in (arrays, bound.forward()):
        np.testing.assert_allclose(of_true.asnumpy(), theirs, rtol=1e-6)
        assert np.array_equal(of_drawn.asnumpy(), of_true.asnumpy()[drawn.asnumpy()])
        found = np.bincount(drawn.asnumpy(), minlength=8)
        spread = np.sqrt(theirs)  # at least the standard deviation of a count
        assert np.all(np.abs(found - theirs) < 5 * spread)
