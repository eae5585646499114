"""Dense layers by `intgemm_*`, against sums by NumPy: MXNet's packages have none to ask."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError

contrib = mx.nd.contrib
RNG = np.random.default_rng(17)
DATA = RNG.uniform(-3, 2, (5, 24)).astype(np.float32)
WEIGHT = RNG.uniform(-0.5, 0.25, (7, 24)).astype(np.float32)
BIAS = RNG.uniform(-1, 1, 7).astype(np.float32)


def steps(values, end):
    return np.clip(np.rint(values * np.float32(127 / end)), -127, 127)


def test_a_dense_layer_is_quantized_as_the_recipe_of_mxnet_says():
    data, weight = mx.nd.array(DATA), mx.nd.array(WEIGHT)
    ends = [contrib.intgemm_maxabsolute(array) for array in (data, weight)]
    assert [end.asscalar() for end in ends] == [abs(DATA).max(), abs(WEIGHT).max()]
    prepared = contrib.intgemm_prepare_weight(weight, ends[1])
    assert prepared.dtype == np.int8
    by_floats = contrib.intgemm_fully_connected(data, prepared, ends[1] / 127, mx.nd.array(BIAS),
                                                num_hidden=7)
    integers = contrib.intgemm_prepare_data(data, ends[0])
    by_integers = contrib.intgemm_fully_connected(
        integers, prepared, ends[0] / 127 * ends[1] / 127, mx.nd.array(BIAS), num_hidden=7)
    sums = steps(DATA, abs(DATA).max()) @ steps(WEIGHT, abs(WEIGHT).max()).T
    expected = sums * (abs(DATA).max() / 127 * abs(WEIGHT).max() / 127) + BIAS
    # Roundings of a few float32 products.
    np.testing.assert_allclose(by_floats.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_integers.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    # 24 products, each off by half a step of either factor at most.
    np.testing.assert_allclose(expected, DATA @ WEIGHT.T + BIAS, atol=24 * 0.5 * 3.5 / 127)


def test_sums_are_exact_integers():
    data, weight = mx.nd.array([[127] * 300], dtype="int8"), mx.nd.array([[-127] * 300],
                                                                         dtype="int8")
    bias = mx.nd.array([5], dtype="int32")
    sums = contrib.intgemm_fully_connected(data, weight, bias=bias, num_hidden=1,
                                           out_type="int32")
    assert sums.dtype == np.int32 and sums.asscalar() == 5 - 300 * 127 * 127
    counted = contrib.intgemm_fully_connected(data, weight, bias, num_hidden=1, out_type="int32")
    assert counted.asscalar() == sums.asscalar()


def test_data_saturates_and_never_becomes_minus_128():
    quantized = contrib.intgemm_prepare_data(mx.nd.array([-9, -1, 0, 1, 9]), mx.nd.array([1]))
    assert quantized.asnumpy().tolist() == [-127, -127, 0, 127, 127]
    zeros = contrib.intgemm_prepare_data(mx.nd.zeros(3), mx.nd.zeros(1))
    assert zeros.asnumpy().tolist() == [0, 0, 0]


def test_weights_may_be_quantized_before_and_taken_by_rows():
    weight, end = mx.nd.array(WEIGHT), mx.nd.array([0.5])
    direct = contrib.intgemm_prepare_weight(weight, end)
    stored = contrib.intgemm_prepare_data(weight, end)
    indirect = contrib.intgemm_prepare_weight(stored, already_quantized=True)
    np.testing.assert_array_equal(direct.asnumpy(), indirect.asnumpy())
    rows = contrib.intgemm_take_weight(direct, mx.nd.array([6, 0, 6], dtype="int32"))
    np.testing.assert_array_equal(rows.asnumpy(), direct.asnumpy()[[6, 0, 6]])
    with pytest.raises(MXNetError, match=r"indices contain 7, expected values in \[0, 7\)"):
        contrib.intgemm_take_weight(direct, mx.nd.array([1, 7], dtype="int32"))


def test_bound_graphs_and_eager_calls_compute_the_same_bits():
    x, w, scaling = (mx.sym.var(name) for name in ("x", "w", "scaling"))
    net = mx.sym.contrib.intgemm_fully_connected(x, w, scaling, no_bias=True, num_hidden=7)
    assert net.infer_shape(x=(5, 24))[0] == [(5, 24), (7, 24), (1,)]
    prepared = contrib.intgemm_prepare_weight(mx.nd.array(WEIGHT), mx.nd.array([0.5]))
    args = {"x": mx.nd.array(DATA), "w": prepared, "scaling": mx.nd.array([0.5 / 127])}
    bound = net.bind(mx.cpu(), args).forward()[0]
    eager = contrib.intgemm_fully_connected(*args.values(), no_bias=True, num_hidden=7)
    np.testing.assert_array_equal(bound.asnumpy(), eager.asnumpy())
