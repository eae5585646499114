"""Pooling beyond its samples: gradients of tied maxima, and files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.nn import pooling
from nbmod.ops.nn.pooling_kernels import axis_passes, backward_passes, terms
from nbmod.ops.nn.sliding_window import Window
from nbmod.ops.nn.window_planes import WindowPlanes

# A plane of ties, and how often each pixel is the first maximum of a 2 x 2 window (as in MXNet).
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


def windows(image, kernel, stride, pad, out):
    """For every position the slices of the image that its window reads, and how many pixels of the
    image and its padding it covers."""
    for place in np.ndindex(*out):
        first = [o * s - p for o, s, p in zip(place, stride, pad, strict=True)]
        covered = math.prod(min(f + k, size + p) - f for f, k, size, p in zip(
            first, kernel, image, pad, strict=True))
        yield place, tuple(slice(max(f, 0), max(f + k, 0)) for f, k in zip(
            first, kernel, strict=True)), covered


def pooled(x, g, pool_type, kernel, stride, pad):
    """The output and the gradient of the data in float64, window by window."""
    out, gradient = np.zeros(g.shape), np.zeros(x.shape)
    for place, seen, covered in windows(x.shape[2:], kernel, stride, pad, g.shape[2:]):
        for n, c in np.ndindex(*x.shape[:2]):
            pixels, share = x[n, c][seen], g[(n, c, *place)]
            if pool_type == "max":
                out[(n, c, *place)] = pixels.max()
                first = np.unravel_index(pixels.argmax(), pixels.shape)
                gradient[n, c][seen][first] += share
            else:
                size = covered if pool_type == "avg" else 1
                out[(n, c, *place)] = pixels.sum() / size
                gradient[n, c][seen] += share / size
    return out, gradient


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pool_type", ["max", "avg", "sum"])
@pytest.mark.parametrize("shape, kernel, stride, pad", [
    ((13, 5, 4), (3,), (2,), (1,)),
    ((5, 13, 5, 3), (2, 3), (1, 2), (1, 0)),
    ((7, 11, 7, 9), (3, 3), (2, 2), (1, 1)),
    ((2, 35, 3, 5, 4), (2, 3, 4), (1, 2, 3), (1, 1, 2)),
    ((1, 3, 31, 29), (17, 23), (1, 1), (8, 11)),
    ((2, 1, 40, 33), (19, 11), (3, 2), (4, 5)),
    ((1, 2, 13, 11, 12), (9, 8, 7), (2, 1, 3), (3, 2, 1)),
    ((1, 2, 9, 21), (1, 15), (2, 4), (0, 7)), ((3, 2, 40, 5), (1, 5), (1, 1), (0, 0)),
    ((2, 5, 6, 7, 30), (1, 1, 9), (1, 1, 4), (0, 0, 2)), ((1, 2, 9, 18), (4, 18), (1, 2), (0, 0)),
    ((3, 2, 20, 4, 5), (3, 1, 1), (2, 1, 1), (1, 0, 0)), ((2, 3, 4, 5), (1, 1), (1, 1), (0, 0)),
    ((1, 2, 43, 50), (43, 33), (2, 3), (21, 16)), ((2, 3, 400), (150,), (4,), (75,)),
    ((1, 2, 14, 60, 17), (9, 40, 1), (1, 1, 2), (2, 0, 0)),
    ((2, 3, 18, 20, 10), (18, 2, 7), (1, 2, 1), (0, 0, 2)),
])  # fmt: skip
def test_small_planes_and_large_windows(shape, kernel, stride, pad, pool_type, dtype):
    """Planes that are interleaved, and windows that are reduced separably, axis by axis."""
    random = np.random.default_rng(0)
    x = (random.integers(-8, 8, shape) / 4).astype(dtype)
    symbol = mx.sym.Pooling(mx.sym.Variable("x"), kernel=kernel, stride=stride, pad=pad,
                            pool_type=pool_type)
    data, given = mx.nd.array(x, dtype=dtype), mx.nd.full(shape, np.nan, dtype=dtype)
    executor = symbol.bind(mx.cpu(), {"x": data}, {"x": given})
    for _ in range(2):
        out, = executor.forward(is_train=True)
        g = random.integers(-8, 8, out.shape).astype(dtype)
        executor.backward(mx.nd.array(g, dtype=dtype))
        expected, gradient = pooled(x.astype(float), g.astype(float), pool_type, kernel, stride,
                                    pad)
        near = 1e-6 if dtype == np.float32 else 1e-14
        np.testing.assert_allclose(out.asnumpy(), expected, rtol=near, atol=near)
        np.testing.assert_allclose(given.asnumpy(), gradient, rtol=near,
                                   atol=near * max(1, abs(gradient).max()))


@pytest.mark.parametrize("image, kernel, stride, blocks", [
    ((83, 83), (83, 83), (2, 2), 2), ((150, 400), (1, 150), (1, 4), 1),
    ((56, 56), (3, 3), (2, 2), 0),
])  # fmt: skip
def test_maxima_of_large_windows_are_those_of_blocks(image, kernel, stride, blocks):
    """Each block of a phase is covered; far fewer terms than with every tap."""
    out = tuple((i - 1) // s + 1 for i, s in zip(image, stride, strict=True))
    planes = WindowPlanes(Window.over(image, out, kernel, stride, [k // 2 for k in kernel]))
    passes = axis_passes(planes, is_max=True)
    assert sum(each.of_blocks for each in passes) == blocks
    assert not blocks or 2 * terms(passes) < terms(axis_passes(planes))


def test_few_windows_of_many_taps_pass_their_gradient_along_one_axis_after_another():
    """At once, every pixel would have a term for each tap, as in forward every window has."""
    planes = WindowPlanes(Window.over((18, 20, 10), (1, 10, 8), (18, 2, 7), (1, 2, 1), (0, 0, 2)))
    assert len(axis_passes(planes)) == 1
    assert len(backward_passes(planes, at_once=False).offsets) == 18 + 2 + 7
    assert len(backward_passes(planes, at_once=True).offsets) == 18 * 2 * 7


@pytest.mark.parametrize("batch", [1, 80])
def test_infinite_pixels_concern_their_windows_only(batch):
    x = np.ones((batch, 1, 9, 9), np.float32)
    x[:, :, 4, 4], x[:, :, 0, 0] = np.inf, np.nan
    out = mx.nd.Pooling(mx.nd.array(x), kernel=(5, 5), pad=(2, 2), pool_type="sum").asnumpy()
    assert np.isinf(out[:, 0, 2:7, 2:7][:, 1:, 1:]).all()
    assert np.isfinite(out[:, 0, 7:]).all() and np.isfinite(out[:, 0, :, 7:]).all()
    assert np.isnan(out[:, 0, :3, :3]).all()


def test_the_gradient_of_windows_of_one_pixel_equals_that_of_larger_planes():
    """It is elementwise where planes have one pixel; also for pixels that are not above the lowest
    number."""
    x = np.array([[1, -np.inf, np.nan, np.finfo("f").min, np.inf, -3, 0]], "f").T
    gy = np.arange(1, 8, dtype="f")[:, None]
    found, expected = np.empty_like(x), np.empty((7, 2), "f")
    wide = np.concatenate([x, np.full_like(x, -np.inf)], 1)
    for run in (pooling._whole_back(pooling.MAX, gy, x, found),
                pooling._whole_back(pooling.MAX, gy, wide, expected)):
        run()
    np.testing.assert_array_equal(found[:, 0], expected[:, 0])
    np.testing.assert_array_equal(found[:, 0], [1, 0, 0, 0, 5, 6, 7])
