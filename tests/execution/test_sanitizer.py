"""NBMOD_CHECK=2: kernels that write outside of their outputs and workspaces are found."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.nn import pooling_interleaved
from nbmod.ops.op import Spec


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """One thread: of several, each but the last overruns into the workspace of the next."""
    monkeypatch.setattr(mx.core.config.CONFIG, "check", 2)
    threads = mx.get_num_threads()
    mx.set_num_threads(1)
    yield
    mx.set_num_threads(threads)


def trained(symbol, **shapes):
    """The gradients of a network that has run."""
    executor = symbol.simple_bind(mx.cpu(), **shapes)
    for array in executor.arg_arrays:
        array[:] = np.arange(array.size).reshape(array.shape) % 7
    out, = executor.forward(is_train=True)
    executor.backward(mx.nd.ones(out.shape))
    return executor.grad_arrays


def test_a_workspace_that_is_too_small_is_seen(monkeypatch):
    """Windows of more positions than pixels: an overrun by the maxima of one position."""
    symbol = mx.sym.Pooling(mx.sym.var("x"), kernel=(2,), stride=(1,), pad=(1,))
    gradient, = trained(symbol, x=(8, 8, 16))
    assert gradient.asnumpy().sum() == 8 * 8 * 17

    def too_small(window, dtype):
        elements = 2 * (window.pixels + window.positions) * pooling_interleaved.STEP
        return Spec((pooling_interleaved.num_threads(), elements), dtype)

    monkeypatch.setattr(pooling_interleaved, "workspace", too_small)
    with pytest.raises(mx.MXNetError, match="neither an output nor a workspace"):
        trained(symbol, x=(8, 8, 16))


def test_networks_within_their_memory_pass():
    data = mx.sym.var("data")
    x = mx.sym.Convolution(data, kernel=(3, 3), num_filter=8, pad=(1, 1))
    x = mx.sym.Activation(mx.sym.BatchNorm(x), act_type="relu")
    x = mx.sym.concat(x, mx.sym.Pooling(x, kernel=(3, 3), pad=(1, 1)), dim=1)
    x = mx.sym.FullyConnected(mx.sym.Dropout(x), num_hidden=4)
    for gradient in trained(mx.sym.sum(x, axis=1), data=(2, 3, 9, 7)):
        assert np.isfinite(gradient.asnumpy()).all()
