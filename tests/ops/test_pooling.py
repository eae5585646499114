"""What samples cannot say of pooling: where the gradient goes when pixels tie, and files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nbmod as mx

# A plane of ties, and how often each pixel is the first maximum of a 2 x 2 window (as MXNet says).
TIES = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [-1, -1, 2, 0], [-1, -1, 2, 0]], np.float32)
FIRST = {
    ("Pooling", (2, 2), (0, 0)): [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]],
    ("Pooling", (1, 1), (1, 1)): [[4, 0, 4, 2], [2, 0, 0, 1], [2, 0, 4, 1], [2, 0, 2, 1]],
    ("Pooling_v1", (2, 2), (0, 0)): [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]],
}


@pytest.mark.parametrize("op, stride, pad", FIRST)
def test_ties(op, stride, pad):
    symbol = getattr(mx.sym, op)(mx.sym.Variable("x"), kernel=(2, 2), stride=stride, pad=pad)
    executor = symbol.simple_bind(mx.cpu(), x=(1, 1, 4, 4))
    executor.arg_dict["x"][:] = TIES[None, None]
    out, = executor.forward(is_train=True)
    executor.backward(mx.nd.ones(out.shape))
    assert executor.grad_dict["x"].asnumpy()[0, 0].tolist() == FIRST[op, stride, pad]


def test_ties_over_the_whole_image():
    symbol = mx.sym.Pooling(mx.sym.Variable("x"), global_pool=True)
    executor = symbol.simple_bind(mx.cpu(), x=(1, 1, 4, 4))
    executor.arg_dict["x"][:] = TIES[None, None]
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((1, 1, 1, 1)))
    assert np.flatnonzero(executor.grad_dict["x"].asnumpy()).tolist() == [10]


@pytest.mark.parametrize(
    "attrs, outputs",
    [
        ({"kernel": (2, 2)}, 2),
        ({"kernel": (2, 2), "global_pool": True}, 2),
        ({"global_pool": True}, 1),
        ({"kernel": (2, 2), "layout": "NHWC"}, 1),
        ({"kernel": (2, 2), "pool_type": "avg"}, 1),
    ],
)
def test_files_count_the_hidden_output(attrs, outputs):
    symbol = mx.sym.Pooling(mx.sym.Variable("x"), **attrs)
    assert json.loads(symbol.tojson())["node_row_ptr"] == [0, 1, 1 + outputs]
    assert len(symbol.list_outputs()) == 1
