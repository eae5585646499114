"""What tests do with schedulers, metrics, initializers and optimizers of either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither. Arguments
and results are numbers, text, containers and numpy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.either import nd


def rates(mx: Any, name: str, params: dict[str, Any], counts: list[int]) -> list[float]:
    """What a scheduler answers for each update count."""
    scheduler = getattr(mx.lr_scheduler, name)(**params)
    return [float(scheduler(count)) for count in counts]


def metric_values(mx: Any, name: Any, params: dict[str, Any], batches: list[Any]) -> list[Any]:
    """A metric's local and global values after each batch; `None` as batch resets the local part.

    A batch is (labels, predictions), lists of arrays.
    """
    metric = mx.metric.create(name, **params)
    values = [_values(metric)]
    for batch in batches:
        if batch is None:
            metric.reset_local()
        else:
            labels, preds = ([nd(mx, array) for array in arrays] for arrays in batch)
            metric.update(labels, preds)
        values.append(_values(metric))
    metric.reset()
    return [*values, _values(metric)]


def _values(metric: Any) -> list[Any]:
    return [[(name, float(value)) for name, value in pairs]
            for pairs in (metric.get_name_value(), metric.get_global_name_value())]


def initialized(mx: Any, init: str, params: dict[str, Any], name: str, shape: tuple[int, ...],
                attr: str = "", plain: bool = False) -> np.ndarray | str:
    """An array of sevens after an initializer was called for `name`; "error" if it refused.

    `attr` is the variable's `__init__` attribute; `plain` passes the name as a plain string.
    """
    array = mx.nd.full(shape, 7)
    desc = mx.init.InitDesc(name, {"__init__": attr} if attr else {})
    try:
        getattr(mx.init, init)(**params)(name if plain else desc, array)
    except Exception:
        return "error"
    return array.asnumpy()


def dumped(mx: Any, init: str, params: dict[str, Any]) -> str:
    """An initializer as JSON."""
    return getattr(mx.init, init)(**params).dumps()


def weight_and_gradients(steps: int, shape: tuple[int, ...] = (3, 5)) -> list[np.ndarray]:
    """A weight and `steps` gradients, the same in every process."""
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(steps + 1)]


def optimizer_steps(mx: Any, name: str, params: dict[str, Any], steps: int, dtype: str = "float32",
                    states: bytes | None = None, scheduler: Any = None) -> dict[str, Any]:
    """Two parameters stepped alternately: weights after every step, and the states as bytes.

    The first is called `a_weight`, the second `b_bias`, so only the first decays.
    `states` are set before; `scheduler` is (name, params).
    """
    params = dict(params, param_idx2name={0: "a_weight", 1: "b_bias"})
    if scheduler:
        params["lr_scheduler"] = getattr(mx.lr_scheduler, scheduler[0])(**scheduler[1])
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **params))
    if states is not None:
        updater.set_states(states)
    first, *drawn = weight_and_gradients(steps)
    gradients = [nd(mx, array).astype(dtype) for array in drawn]
    weights, history = [nd(mx, array).astype(dtype) for array in (first, first / 2)], []
    for gradient in gradients:
        for index, weight in enumerate(weights):
            updater(index, gradient, weight)
        history.append(np.stack([weight.asnumpy() for weight in weights]))
    return {"weights": np.stack(history), "states": updater.get_states(),
            "whole": updater.get_states(dump_optimizer=True)}


def read_states(mx: Any, content: bytes) -> dict[str, Any]:
    """What is found in the content of a `.states` file: arrays in order, and the optimizer."""
    updater = mx.optimizer.get_updater(mx.optimizer.create("test"))
    updater.set_states(content)
    arrays: list[np.ndarray] = []
    for index in sorted(updater.states):
        _collect(updater.states[index], arrays)
    fields = {name: value for name, value in vars(updater.optimizer).items()
              if isinstance(value, (int, float, bool, type(None)))}
    return {"arrays": arrays, "optimizer": type(updater.optimizer).__name__, "fields": fields}


def _collect(state: Any, arrays: list[np.ndarray]) -> None:
    if isinstance(state, (tuple, list)):
        for part in state:
            _collect(part, arrays)
    elif state is not None:
        arrays.append(state.asnumpy())
