"""Networks whose cheap nodes are recomputed in backward, for nbmod and MXNet; imports neither."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

SWITCH = "MXNET_BACKWARD_DO_MIRROR"


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """The environment as scripts set it, right before they bind."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = str(int(on))
    try:
        yield
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before


# -- recomputed nodes -------------------------------------------------------------------------


def _other(mx: Any) -> Any:
    return mx.sym.Variable("other")


OPS: dict[str, Callable[[Any, Any], Any]] = {
    "Activation": lambda mx, x: mx.sym.Activation(x, act_type="tanh", name="op"),
    "BatchNorm": lambda mx, x: mx.sym.BatchNorm(x, name="op"),
    "LeakyReLU": lambda mx, x: mx.sym.LeakyReLU(x, act_type="elu", name="op"),
    "Pooling": lambda mx, x: mx.sym.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="max",
                                            name="op"),
    "Dropout": lambda mx, x: mx.sym.Dropout(x, name="op"),
    "Concat": lambda mx, x: mx.sym.Concat(x, _other(mx), dim=1, name="op"),
    "elemwise_sub": lambda mx, x: mx.sym.elemwise_sub(x, _other(mx), name="op"),
    "broadcast_mul": lambda mx, x: mx.sym.broadcast_mul(x, _other(mx), name="op"),
    "Flatten": lambda mx, x: mx.sym.Flatten(x, name="op"),
    "transpose": lambda mx, x: mx.sym.transpose(x, name="op"),
    "softmax": lambda mx, x: mx.sym.softmax(x, name="op"),
    "LayerNorm": lambda mx, x: mx.sym.LayerNorm(x, name="op"),
    "Convolution": lambda mx, x: mx.sym.Convolution(x, kernel=(1, 1), num_filter=2, name="op"),
    "FullyConnected": lambda mx, x: mx.sym.FullyConnected(x, num_hidden=3, name="op"),
    "slice_axis": lambda mx, x: mx.sym.slice_axis(x, axis=1, begin=0, end=2, name="op"),
    "mean": lambda mx, x: mx.sym.mean(x, axis=1, keepdims=True, name="op"),
    "clip": lambda mx, x: mx.sym.clip(x, -1, 1, name="op"),
}  # fmt: skip


def between(mx: Any, op: str, forced: bool = False) -> Any:
    """Convolution -> op -> sin -> dense -> loss, where sin's gradient reads the op's output."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=4, name="before")
    with mx.AttrScope(**({"force_mirroring": "True"} if forced else {})):
        x = OPS[op](mx, x)
    x = mx.sym.FullyConnected(mx.sym.sin(x, name="after"), num_hidden=2, name="last")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def mirrored(executor: Any) -> list[str]:
    """The nodes that an executor recomputes, by its debug_str."""
    return sorted(set(re.findall(r"(\w+)_mirror\b", executor.debug_str())))


def choices(mx: Any) -> dict[str, list[Any]]:
    """For each op: what is mirrored by the switch, and what by attribute."""
    found: dict[str, list[Any]] = {op: [] for op in OPS}
    for op, answers in found.items():
        for forced in (False, True):
            network = between(mx, op, forced)
            shapes = {"data": (2, 3, 4, 4), "other": (2, 4, 4, 4)}
            with switched(not forced):
                executor = network.simple_bind(mx.cpu(), **{
                    name: shapes[name] for name in network.list_arguments() if name in shapes})
            answers.append(mirrored(executor))
    return found


def spelled(mx: Any, text: str) -> Any:
    """Mirrored nodes for this text of the attribute; "error" if it is rejected."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="before")
    x = mx.sym.sin(x, name="op", force_mirroring=text)
    x = mx.sym.FullyConnected(x, num_hidden=2, name="last")
    try:
        return mirrored(mx.sym.SoftmaxOutput(x, name="softmax").simple_bind(mx.cpu(), data=(2, 3)))
    except Exception:
        return "error"


# -- networks ---------------------------------------------------------------------------------


def chain(mx: Any) -> Any:
    """Dense layers with long chains between them."""
    x = mx.sym.Variable("data")
    for number in range(3):
        x = mx.sym.FullyConnected(x, num_hidden=16, name=f"fc{number}")
        x = mx.sym.exp(mx.sym.Activation(x, act_type="tanh", name=f"act{number}") * 0.3)
        x = mx.sym.sin(mx.sym.square(x + 0.5)) * mx.sym.sigmoid(x)
    return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="loss")


def residual(mx: Any) -> Any:
    """Two blocks of a residual network with pre-activation."""
    def unit(x: Any, name: str) -> Any:
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")
        x = mx.sym.Activation(x, act_type="softrelu", name=f"{name}_act")
        return mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True,
                                  name=f"{name}_conv")

    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=4,
                           no_bias=True, name="first")
    for number in range(2):
        x = x + unit(unit(x, f"a{number}"), f"b{number}")
    x = mx.sym.Pooling(mx.sym.BatchNorm(x, name="bn"), kernel=(2, 2), stride=(2, 2),
                       pool_type="avg", name="pool")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def dropping(mx: Any) -> Any:
    """Random values between cheap nodes."""
    x = mx.sym.Variable("data")
    for number in range(3):
        x = mx.sym.FullyConnected(x, num_hidden=16, name=f"fc{number}")
        x = mx.sym.Dropout(mx.sym.tanh(x), p=0.4, name=f"drop{number}")
        x = mx.sym.sin(mx.sym.square(mx.sym.exp(x * 0.3)))
    return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="loss")


SHAPES = {"chain": (8, 16), "residual": (4, 3, 8, 8), "dropping": (8, 16)}


def trained(mx: Any, network: str, mirror: bool, steps: int = 3, train: bool = True, **options: Any
            ) -> tuple[Any, dict[str, np.ndarray]]:
    """An executor after some steps of gradient descent, and all its arrays, by name."""
    mx.random.seed(3)
    with switched(mirror):
        executor = globals()[network](mx).simple_bind(mx.cpu(), data=SHAPES[network], **options)
    for seed, (name, array) in enumerate(sorted(executor.arg_dict.items())):
        scale = 1 if name in ("data", "label") else 0.3
        array[:] = np.random.default_rng(seed).standard_normal(array.shape) * scale
    if network == "residual":
        executor.arg_dict["softmax_label"][:] = [0, 1, 2, 0]
    for name, array in executor.aux_dict.items():
        array[:] = 1 if name.endswith("var") else 0.1
    for _ in range(steps):
        executor.forward(is_train=train)
        executor.backward()
        mx.nd.waitall()
        for name, array in executor.arg_dict.items():
            array[:] = array - 0.01 * executor.grad_dict[name]
    found = {**executor.arg_dict, **executor.aux_dict, **executor.output_dict}
    found.update({f"gradient of {name}": array for name, array in executor.grad_dict.items()})
    return executor, {name: array.asnumpy() for name, array in found.items()}


def numbers(mx: Any, network: str) -> dict[str, np.ndarray]:
    """The results of `trained` with the switch on."""
    return trained(mx, network, True)[1]
