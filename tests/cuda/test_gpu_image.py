"""Image ops on GPUs that the sample table omits, because MXNet draws other random values."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("way", ["left_right", "top_bottom"])
def test_gradients_are_flipped_back_as_images_were(way):
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 2)).astype(np.float32)
    flips = set()
    for seed in range(6):
        found = []
        for context in (mx.cpu(), mx.gpu(0)):
            mx.random.seed(seed)
            x, head = (mx.nd.array(part, ctx=context) for part in data)
            x.attach_grad()
            with mx.autograd.record():
                y = getattr(mx.nd.image, f"random_flip_{way}")(x)
            y.backward(head)
            found.append((y.asnumpy(), x.grad.asnumpy()))
        for mine, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        flips.add(bool((found[0][0] != data[0]).any()))
    assert flips == {True, False}


@pytest.mark.parametrize("interp", range(5))
def test_bytes_are_those_of_the_cpu(interp):
    """To the last bit: the value that decides between two levels is rounded in the same way."""
    data = np.random.default_rng(1).integers(0, 256, (11, 9, 3), np.uint8)
    found = [mx.nd.image.resize(mx.nd.array(data, ctx=context, dtype="uint8"), (7, 14), False,
                                interp).asnumpy() for context in (mx.cpu(), mx.gpu(0))]
    np.testing.assert_array_equal(*found)
