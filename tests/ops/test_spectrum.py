"""Fourier transforms and count sketches, which MXNet has on GPUs only: small analytic results."""

from __future__ import annotations

import numpy as np

import nbmod as mx


def test_transform_and_back():
    data = np.array([[1.0, 2.0, 4.0]], np.float32)
    spectrum = mx.nd.contrib.fft(mx.nd.array(data))
    turn = np.exp(-2j * np.pi / 3)
    want = [sum(x * turn ** (j * k) for j, x in enumerate(data[0])) for k in range(3)]
    np.testing.assert_allclose(spectrum.asnumpy()[0, 0::2], np.real(want), atol=1e-5)
    np.testing.assert_allclose(spectrum.asnumpy()[0, 1::2], np.imag(want), atol=1e-5)
    np.testing.assert_allclose(mx.nd.contrib.ifft(spectrum).asnumpy(), 3 * data, rtol=1e-5)


def test_sketch_adds_up_what_falls_together():
    data, h, s = mx.nd.array([[1, 2, 4]]), mx.nd.array([[1, 0, 1]]), mx.nd.array([[1, -1, -1]])
    sketch = mx.nd.contrib.count_sketch(data, h, s, out_dim=3)
    np.testing.assert_array_equal(sketch.asnumpy(), [[-2, -3, 0]])
