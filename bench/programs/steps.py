"""Subjects: passes of a network, a step of an optimizer, an eager call of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["backward", "forward", "image_op", "optimizer", "step"]

Run = Callable[[], Any]
Shapes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, np.ndarray]


def forward(mx: Any, json: str, shapes: Shapes, values: Values | None = None, grad: Any = "write"
            ) -> Run:
    """The forward pass, for training where `grad` asks for any gradient.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    json : str
        The symbol.
    shapes : mapping
        Of the inputs.
    values : mapping, optional
        Of arguments; others are small and random.
    grad : str or dict
        Gradient request, as `simple_bind` takes it.
    """
    return _passes(mx, json, shapes, values, grad)[0]


def backward(mx: Any, json: str, shapes: Shapes, values: Values | None = None, grad: Any = "write"
             ) -> tuple[Run, Run]:
    """The backward pass, each after a forward pass that is not timed."""
    return _passes(mx, json, shapes, values, grad)


def step(mx: Any, json: str, shapes: Shapes, values: Values | None = None, grad: Any = "write"
         ) -> Run:
    """Both passes, or the forward pass where `grad` asks for no gradient."""
    ahead, back = _passes(mx, json, shapes, values, grad)

    def run() -> None:
        ahead()
        back()

    return run


def _passes(mx: Any, json: str, shapes: Shapes, values: Values | None, grad: Any
            ) -> tuple[Run, Run]:
    executor = mx.sym.load_json(json).simple_bind(
        mx.cpu(), grad_req=grad, **{name: tuple(shape) for name, shape in shapes.items()})
    rng = np.random.default_rng(0)
    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        if values and name in values:
            array[:] = values[name]
        else:
            array[:] = 1 if name.endswith(("_var", "_gamma")) else 0.05 * rng.standard_normal(
                array.shape)
    heads = [mx.nd.ones(output.shape) for output in executor.outputs]
    training = any(array is not None for array in executor.grad_arrays)

    def ahead() -> None:
        executor.forward(is_train=training)
        mx.nd.waitall()

    def back() -> None:
        if training:
            executor.backward(heads)
            mx.nd.waitall()

    return ahead, back


def optimizer(mx: Any, name: str, params: dict[str, Any], shapes: Shapes) -> Run:
    """A step of parameters of these shapes, all in one call of the updater."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(
        name, param_idx2name=dict(enumerate(shapes)), **params))
    weights, grads = ([mx.nd.random.uniform(0.5, 1, shape) for shape in shapes.values()]
                      for _ in range(2))

    def run() -> None:
        updater(list(range(len(weights))), grads, weights)
        mx.nd.waitall()

    return run


def image_op(mx: Any, op: str, attrs: dict[str, Any], image: np.ndarray) -> Run:
    """An eager call of an operator on images, such as `_image_crop` or `_cvimresize`."""
    data = mx.nd.array(image, dtype=image.dtype)
    call = (getattr(mx.nd.image, op.removeprefix("_image_")) if op.startswith("_image_")
            else getattr(mx.nd._internal, op))
    return lambda: call(data, **attrs).wait_to_read()
