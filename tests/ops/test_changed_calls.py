"""Parameters and shapes that an operator does not take are MXNetErrors, in all operators."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nbmod as mx
from nbmod import nd, sym
from nbmod.base import MXNetError


def test_other_parameters_and_shapes():
    """The same calls in every run; `tests.ops.changed_calls` makes others."""
    done = subprocess.run([sys.executable, "-m", "tests.ops.changed_calls", "--trials", "1500"],
                          capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout or done.stderr[-2000:]


WRONG = {
    "Concat, other ranks": (lambda: nd.concat(nd.ones((2, 3)), nd.ones((2,))),
                            r"arg1 has shape \(2,\), expected 2 dimension"),
    "LRN, no window": (lambda: nd.LRN(nd.ones((1, 2, 3, 3)), nsize=-2**63), "nsize is"),
    "syrk of a vector": (lambda: nd.linalg.syrk(nd.ones(3)), r"A has shape \(3,\)"),
    "Crop without a place": (lambda: nd.Crop(nd.ones((1, 2, 5, 6)), num_args=1, h_w=(2, 2),
                                             offset=()), "expected two positions"),
    "zeros of an unknown type": (lambda: nd._internal._zeros_without_dtype(shape=(2,), dtype=-2),
                                 "dtype is -2"),
    "arange by NaN": (lambda: nd.arange(0, 3, float("nan")),
                      "no values from 0"),
    "resize by infinity": (lambda: nd.contrib.BilinearResize2D(
        nd.ones((1, 1, 2, 2)), scale_height=1e300, scale_width=1, mode="odd_scale"),
        "the scale 1e\\+300 gives no size"),
    "ROIAlign with too many points": (lambda: nd.contrib.ROIAlign(
        nd.ones((1, 1, 4, 4)), nd.array([[0, 0, 0, 3, 3]]), pooled_size=(2, 2), spatial_scale=1,
        sample_ratio=2**31 - 1), "sample_ratio is 2147483647, expected at most 1024"),
    "a bin with fewer than no points": (lambda: nd.contrib.DeformablePSROIPooling(
        nd.ones((2, 8, 6, 8)), nd.array([[0, 0, 0, 4, 4]]), spatial_scale=1, output_dim=2,
        group_size=2, pooled_size=2, no_trans=True, sample_per_part=-2**31), "expected at least 0"),
    "a window beyond 64 bits": (lambda: nd.Pooling(nd.ones((1, 1, 4)), kernel=(2,), pad=(2**62,),
                                                   stride=(2**62,)), "expected entries of at most"),
    "zeros of any shape": (lambda: sym.zeros(shape=()).simple_bind(mx.cpu()),
                           "the shape of its output does not follow"),
    "zeros of any type": (lambda: sym._internal._zeros_without_dtype(shape=(2,)).simple_bind(
        mx.cpu()), "the type of its output does not follow"),
    "too many numbers": (lambda: nd.arange(0, 1e300, 1e-30), "no values from 0"),
    "windows far beyond an image": (lambda: nd.Pooling_v1(
        nd.ones((2, 2, 6, 5)), kernel=(3, 2), stride=(2**31, 2**31), pad=(1, 1),
        pooling_convention="full"), "no memory on the CPU"),
    "a stride of 2^31": (lambda: sym.Deconvolution(
        sym.Variable("data"), kernel=(3,), stride=(2**31 - 1,), num_filter=3).simple_bind(
        mx.cpu(), data=(2**12, 4, 500)), "MiB|memory|elements"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_was_another_error_or_did_not_end(name):
    call, message = WRONG[name]
    with pytest.raises(MXNetError, match=message):
        call()


@pytest.mark.parametrize("value, below", [(1e30, 3), (float("inf"), 3), (-1e30, 0),
                                          (float("-inf"), 0), (float("nan"), 0)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_and_numbers_beyond_all_integers(dtype, value, below):
    """They are the nearest integer, and NaN is 0; casts in C do not define them."""
    data = nd.array([0, 1, 2], dtype=dtype)
    assert (data < value).sum().asscalar() == below
    assert nd.minimum(data, 1e30).asnumpy().tolist() == [0, 1, 2]
    assert nd.maximum(data, -1e30).asnumpy().tolist() == [0, 1, 2]


def test_labels_are_not_ignored_by_a_number_that_is_no_integer():
    data, label = nd.array([[1, 2, 3]]), nd.array([1])
    for ignored in (float("nan"), float("inf"), 1e30):
        data.attach_grad()
        with mx.autograd.record():
            out = nd.SoftmaxOutput(data, label, use_ignore=True, ignore_label=ignored)
        out.backward()
        assert data.grad.asnumpy().any()
