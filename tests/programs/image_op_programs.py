"""Programs over image functions that tests run in MXNet and in nbmod."""

from __future__ import annotations

from typing import Any

import numpy as np


def decoded(mx: Any, data: bytes) -> list[np.ndarray]:
    """The image in colour, in the other order of channels, and in grey."""
    buf = mx.nd.array(np.frombuffer(data, np.uint8), dtype="uint8")
    decode = mx.nd._internal._cvimdecode
    return [image.asnumpy() for image in (decode(buf), decode(buf, to_rgb=False),
                                          decode(buf, flag=0))]


def read(mx: Any, path: str) -> list[np.ndarray]:
    return [mx.nd._internal._cvimread(path).asnumpy(),
            mx.nd._internal._cvimread(filename=path, flag=0).asnumpy()]


def resized(mx: Any, image: np.ndarray, sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    """The image in all these sizes, (width, height), in all five modes."""
    given = mx.nd.array(image, dtype=image.dtype)
    return [mx.nd._internal._cvimresize(given, w=w, h=h, interp=interp).asnumpy()
            for w, h in sizes for interp in range(5)]


def hues(mx: Any, image: np.ndarray, turns: list[float]) -> list[np.ndarray]:
    given = mx.nd.array(image, dtype=image.dtype)
    return [mx.nd.image.random_hue(given, min_factor=turn, max_factor=turn).asnumpy()
            for turn in turns]


def as_in_training(mx: Any, image: np.ndarray, head: np.ndarray) -> list[np.ndarray]:
    """An image cropped, resized, converted to a network's input: output and gradient."""
    x = mx.sym.Variable("x")
    x = mx.sym.image.crop(x, x=1, y=0, width=4, height=4)
    x = mx.sym.image.normalize(mx.sym.transpose(x, axes=(2, 0, 1)), mean=(123, 117, 104),
                               std=(58, 57, 57.5))
    args, grads = {"x": mx.nd.array(image)}, {"x": mx.nd.zeros(image.shape)}
    executor = x.bind(mx.cpu(), args, args_grad=grads)
    out = executor.forward(is_train=True)[0].asnumpy()
    executor.backward(mx.nd.array(head))
    return [out, grads["x"].asnumpy()]
