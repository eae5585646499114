"""Networks of 8-bit integers: layers to build them from, and random ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

import nbmod as mx

Shape = tuple[int, ...]


class Network:
    """Layers of arrays or of symbols: `functions` is `mx.nd` or `mx.sym`, `values` makes arrays of
    the one or variables of the other.  A tensor is the list (integers, low bound, high bound)."""

    def __init__(self, functions, values):
        self.contrib, self.values = functions.contrib, values

    def data(self, *shape, dtype="uint8"):
        return self.tensor("data", shape, dtype)

    def tensor(self, name, shape, dtype="int8"):
        ends = [self.values(f"{name}_{end}", (1,), "float32") for end in ("low", "high")]
        return [self.values(name, shape, dtype), *ends]

    def layer(self, op, name, data, weight, filters, **params):
        tensors = {"data": data, "weight": self.tensor(f"{name}_weight", weight)}
        if not params.get("no_bias"):
            tensors["bias"] = self.tensor(f"{name}_bias", (filters,))
        given = {key: value[0] for key, value in tensors.items()}
        for i, end in enumerate(("min", "max"), 1):
            given |= {f"{end}_{key}": value[i] for key, value in tensors.items()}
        return getattr(self.contrib, f"quantized_{op}")(**given, name=name, **params)

    def conv(self, name, data, channels, filters, kernel=(3, 3), **params):
        weight = (filters, channels // params.get("num_group", 1), *kernel)
        return self.layer("conv", name, data, weight, filters, kernel=kernel, num_filter=filters,
                          **params)

    def dense(self, name, data, depth, hidden, **params):
        return self.layer("fully_connected", name, data, (hidden, depth), hidden,
                          num_hidden=hidden, **params)

    def bytes(self, name, sums, low=-3.0, high=2.0, **params):
        return self.contrib.requantize(*sums, min_calib_range=low, max_calib_range=high,
                                       name=f"{name}_bytes", **params)

    def relu(self, name, data):
        return self.contrib.quantized_act(*data, act_type="relu", name=f"{name}_relu")


class Value(NamedTuple):
    """A tensor of a network, as the list (integers, low, high), and its description."""

    tensor: list[Any]
    shape: Shape
    dtype: str


class RandomNetwork:
    """Layers in any order, in sequence or in parallel.

    `variables` are shape and type of every variable by name, `outputs` the network's outputs: all
    entries without consumers, and some with consumers, too.
    """

    def __init__(self, rng: Random):
        self.rng, self.variables = rng, dict[str, tuple[Shape, str]]()
        self.net = Network(mx.sym, self._variable)
        self.values: list[Value] = []
        self.read: set[int] = set()
        shape = rng.choice([(2, 3, 6, 7), (1, 16, 5, 5), (3, 8, 4, 1), (2, 20, 9), (4, 24)])
        self._enter(self.net.data(*shape, dtype=rng.choice(["uint8", "int8"])))
        for number in range(rng.randint(1, 12)):
            made = self._next()(self, f"n{number}")
            if made is not None:
                self._enter(made)
        ends = [value for i, value in enumerate(self.values) if i not in self.read]
        shown = [rng.choice(value.tensor) for value in rng.sample(self.values, rng.randint(0, 1))]
        self.outputs = [part for value in ends for part in value.tensor] + shown

    def _next(self) -> Callable[[RandomNetwork, str], Any]:
        """Often what follows in networks."""
        last, found = self.values[-1], self.rng.random()
        if last.dtype == "int32" and found < 0.6:
            return _requantize
        return _relu if last.dtype == "int8" and found < 0.2 else self.rng.choice(LAYERS)

    def _variable(self, name: str, shape: Shape, dtype: str) -> Any:
        self.variables[name] = shape, dtype
        return mx.sym.Variable(name, shape=shape, dtype=dtype)

    def _enter(self, tensor: Any) -> None:
        numbers = list(tensor)[0]
        dtype = np.dtype(numbers.infer_type()[1][0]).name
        self.values.append(Value(list(tensor), tuple(numbers.infer_shape()[1][0]), dtype))

    def pick(self, fits: Callable[[Value], Any]) -> Value | None:
        """A tensor that fits, most often one of the last."""
        found = [i for i, value in enumerate(self.values) if fits(value)]
        if not found:
            return None
        chosen = self.rng.choice(found[-1:] if self.rng.random() < 0.8 else found)
        self.read.add(chosen)
        return self.values[chosen]


def numbers(name: str, shape: Shape, dtype: str) -> np.ndarray:
    """The values of a variable: all possible bytes, bounds of ranges slightly below and above 0."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if dtype == "float32":
        return np.full(shape, rng.uniform(0.5, 1.5) * (-0.8 if "low" in name else 1), dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def _is_bytes(value: Value) -> bool:
    return value.dtype != "int32"


def _convolution(net: RandomNetwork, name: str) -> Any:
    rng, data = net.rng, net.pick(lambda value: _is_bytes(value) and len(value.shape) > 2)
    if data is None:
        return None
    image, channels = data.shape[2:], data.shape[1]
    kernel = tuple(rng.choice([k for k in (1, 2, 3, 5) if k <= size + 2]) for size in image)
    pad = tuple(k // 2 for k in kernel)
    group = rng.choice([g for g in (1, 1, 2, 4) if channels % g == 0])
    return net.net.conv(name, data.tensor, channels, rng.choice([1, 8, 16, 33]) * group, kernel,
                        pad=pad, stride=tuple(rng.choice([1, 1, 2]) for _ in image),
                        num_group=group, no_bias=rng.random() < 0.4)


def _dense(net: RandomNetwork, name: str) -> Any:
    data, flatten = net.pick(_is_bytes), net.rng.random() < 0.7
    if data is None:
        return None
    depth = int(np.prod(data.shape[1:] if flatten else data.shape[-1:]))
    return net.net.dense(name, data.tensor, depth, net.rng.choice([1, 16, 19, 40]),
                         flatten=flatten, no_bias=net.rng.random() < 0.4)


def _requantize(net: RandomNetwork, name: str) -> Any:
    rng, sums = net.rng, net.pick(lambda value: value.dtype == "int32")
    if sums is None:
        return None
    if rng.random() < 0.2:
        return net.net.contrib.requantize(*sums.tensor, name=name)
    return net.net.bytes(name, sums.tensor, low=rng.choice([-3.0, 0.0]), high=rng.choice([2, 25]),
                         out_type=rng.choice(["int8", "int8", "uint8", "auto"]))


def _relu(net: RandomNetwork, name: str) -> Any:
    data = net.pick(_is_bytes)
    return None if data is None else net.net.relu(name, data.tensor)


def _pooling(net: RandomNetwork, name: str) -> Any:
    data = net.pick(lambda value: _is_bytes(value) and len(value.shape) == 4
                    and min(value.shape[2:]) > 1)
    return None if data is None else net.net.contrib.quantized_pooling(
        *data.tensor, kernel=(2, 2), pool_type=net.rng.choice(["max", "avg"]), name=name)


def _flatten(net: RandomNetwork, name: str) -> Any:
    data = net.pick(_is_bytes)
    return None if data is None else net.net.contrib.quantized_flatten(*data.tensor, name=name)


def _pair(net: RandomNetwork, axis: int | None) -> list[Value] | None:
    """Two tensors of bytes of one shape, or of shapes that differ along `axis`."""
    first = net.pick(_is_bytes)
    second = net.pick(lambda value: _is_bytes(value) and first and _but(value, axis) == _but(
        first, axis))
    return None if first is None or second is None else [first, second]


def _but(value: Value, axis: int | None) -> list[int]:
    return [size for i, size in enumerate(value.shape) if i != axis]


def _add(net: RandomNetwork, name: str) -> Any:
    pair = _pair(net, None)
    if pair is None:
        return None
    ends = [end for value in pair for end in value.tensor[1:]]
    calibration = {"min_calib_range": -2.0, "max_calib_range": 2.0}
    calibration = calibration if net.rng.random() < 0.7 else {}
    return net.net.contrib.quantized_elemwise_add(*(value.tensor[0] for value in pair), *ends,
                                                  name=name, **calibration)


def _concat(net: RandomNetwork, name: str) -> Any:
    pair = _pair(net, 1)
    if pair is None:
        return None
    ends = [end for value in pair for end in value.tensor[1:]]
    return net.net.contrib.quantized_concat(*(value.tensor[0] for value in pair), *ends, dim=1,
                                            name=name)


LAYERS = (*[_convolution] * 4, _dense, _requantize, _relu, _pooling, _flatten, _add, _concat)
