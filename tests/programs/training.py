"""Programs over schedulers, metrics, initializers and optimizers of either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither. Arguments
and results are numbers, text, containers and numpy arrays.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.programs.common import nd

GROUP_SIZE = "MXNET_OPTIMIZER_AGGREGATION_SIZE"


def rates(mx: Any, name: str, params: dict[str, Any], counts: list[int]) -> list[float]:
    """A scheduler's rate for each update count."""
    scheduler = getattr(mx.lr_scheduler, name)(**params)
    return [float(scheduler(count)) for count in counts]


def optimizer_rates(mx: Any, name: str, params: dict[str, Any], given: dict[str, Any]
                    ) -> list[float]:
    """The rates of two parameters in ten updates, one of them with a multiplier."""
    scheduler = getattr(mx.lr_scheduler, name)(**params)
    optimizer = mx.optimizer.SGD(lr_scheduler=scheduler, param_idx2name={1: "b"}, **given)
    optimizer.set_lr_mult({"b": 0.5})
    rates = []
    for _ in range(10):
        for index in (0, 1):
            optimizer._update_count(index)
            rates += [*optimizer._get_lrs([0, 1]), optimizer.learning_rate]
    return [float(rate) for rate in rates]


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


def metric_forms(mx: Any, name: str, params: dict[str, Any], label: np.ndarray,
                 pred: np.ndarray, forms: list[str]) -> list[Any]:
    """A metric's value and count after one update, for several ways to pass the arrays.

    "ValueError" or "error" where that is rejected.
    """
    given = {"label": nd(mx, label), "pred": nd(mx, pred)}
    found: list[Any] = []
    for form in forms:
        metric = mx.metric.create(name, **params)
        try:
            metric.update(*eval(form, {}, given))
            found.append([float(metric.get()[1]), float(metric.num_inst)])
        except Exception as error:
            found.append("ValueError" if isinstance(error, ValueError) else "error")
    return found


def _values(metric: Any) -> list[Any]:
    return [[(name, float(value)) for name, value in pairs]
            for pairs in (metric.get_name_value(), metric.get_global_name_value())]


def initialized(mx: Any, init: str, params: dict[str, Any], name: str, shape: tuple[int, ...],
                attr: str = "", plain: bool = False) -> np.ndarray | str:
    """An array of sevens after an initializer was called for `name`; "error" if it raised.

    `attr` is the variable's `__init__` attribute; `plain` passes the name as a plain string.
    """
    array = mx.nd.full(shape, 7)
    desc = mx.init.InitDesc(name, {"__init__": attr} if attr else {})
    try:
        getattr(mx.init, init)(**params)(name if plain else desc, array)
    except Exception:
        return "error"
    return array.asnumpy()


def filled(mx: Any, init: str, name: str, attrs: dict[str, Any], plain: bool,
           shape: tuple[int, ...] = (2, 3)) -> Any:
    """An array of sevens after a call of the initializer that `init`, code over `mx`, makes.

    "ValueError" or "error" where it raised.
    """
    array = mx.nd.full(shape, 7)
    stored = {"arg:a": mx.nd.ones((2, 3)), "aux:b": mx.nd.ones((2, 3)) * 2, "c": mx.nd.ones((3,))}
    try:
        made = eval(init, {"mx": mx, "init": mx.init, "np": np, "stored": stored})
        made(name if plain else mx.init.InitDesc(name, attrs), array)
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else "error"
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
            updater(index, gradient.copy(), weight)  # MXNet's AdaDelta scales it in place
        history.append(np.stack([weight.asnumpy() for weight in weights]))
    return {"weights": np.stack(history), "states": updater.get_states(),
            "whole": updater.get_states(dump_optimizer=True)}


def group_sizes(mx: Any, names: list[str], size: str | None) -> dict[str, int]:
    """The number of parameters that the updater passes to optimizers at a time."""
    before = os.environ.pop(GROUP_SIZE, None)
    try:
        if size is not None:
            os.environ[GROUP_SIZE] = size
        return {name: mx.optimizer.create(name).aggregate_num for name in names}
    finally:
        os.environ.pop(GROUP_SIZE, None)
        if before is not None:
            os.environ[GROUP_SIZE] = before


def module_steps(mx: Any, optimizer: str, params: dict[str, Any], contexts: int,
                 kvstore: str | None) -> dict[str, np.ndarray]:
    """The parameters of a small network after three steps of a module."""
    net = mx.sym.Variable("data")
    for index, size in enumerate((5, 4, 3)):
        net = mx.sym.FullyConnected(net, num_hidden=size, name=f"fc{index}")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="out")
    module = mx.mod.Module(net, label_names=["label"], context=[mx.cpu(i) for i in range(contexts)])
    module.bind([("data", (4, 6))], [("label", (4, 3))])
    rng = np.random.default_rng(0)
    shapes = zip(net.list_arguments(), net.infer_shape(data=(4, 6))[0], strict=True)
    given = {name: mx.nd.array(0.5 * rng.standard_normal(shape)) for name, shape in shapes}
    module.init_params(arg_params={name: given[name] for name in module._param_names})
    module.init_optimizer(kvstore, optimizer, tuple(params.items()))
    for _ in range(3):
        arrays = [mx.nd.array(rng.standard_normal(shape)) for shape in ((4, 6), (4, 3))]
        module.forward_backward(mx.io.DataBatch(arrays[:1], arrays[1:]))
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def multipliers(mx: Any, optimizer: str, by_symbol: bool, by_name: bool, by_param: bool
                ) -> list[list[float]]:
    """Rates and decays of parameters by index and by name, with multipliers of all sources.

    First as created, then after `set_lr_mult` and `set_wd_mult`.
    """
    weight = mx.sym.Variable("w_weight", lr_mult=3, wd_mult=0.5)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), weight=weight, num_hidden=3, name="fc")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="out", attr={"__lr_mult__": "5"})
    names = ["w_weight", "fc_bias", "out_weight", "out_bias", "x_gamma", "x_beta", "y"]
    given: dict[str, Any] = {"learning_rate": 0.1, "wd": 0.1, "sym": net if by_symbol else None}
    if by_name:
        given["param_idx2name"] = dict(enumerate(names))
    if by_param:
        given["param_dict"] = {0: SimpleNamespace(lr_mult=2, wd_mult=3)}
    found, indices = mx.optimizer.create(optimizer, **given), [*range(8), *names]
    rates = [found._get_lrs(indices), found._get_wds(indices)]
    found.set_lr_mult({"w_weight": 7.0, 3: 9.0})
    found.set_wd_mult({"x_beta": 2.0, "out_weight": 4.0, 1: 5.0})
    return [*rates, found._get_lrs(indices), found._get_wds(indices)]


def own_rates(mx: Any, optimizer: str, method: str) -> list[np.ndarray]:
    """Weights after two steps of a user's optimizer with rates (or decays) of its own making."""
    base = type(mx.optimizer.create(optimizer))
    many = method.endswith("s")
    own = {method: lambda self, index: [0.25] * len(index) if many else 0.5}
    updater = mx.optimizer.get_updater(type("Mine", (base,), own)(learning_rate=0.1, wd=0.1))
    weights = [mx.nd.array([1, -2, 3]) for _ in range(2)]
    for _ in range(2):
        for index, weight in enumerate(weights):
            updater(index, mx.nd.array([0.5, 0.25, -1]), weight)
    return [weight.asnumpy() for weight in weights]


def langevin_noise(mx: Any) -> np.ndarray:
    """The noise that SGLD adds to its half gradient step, as multiples of the root of the rate."""
    lr, wd = 0.04, 0.1
    updater = mx.optimizer.get_updater(mx.optimizer.create(
        "sgld", learning_rate=lr, wd=wd, rescale_grad=0.5, param_idx2name={0: "a_weight"}))
    mx.random.seed(7)
    before, grad = weight_and_gradients(1, (200, 200))
    weight = mx.nd.array(before)
    updater(0, mx.nd.array(grad), weight)
    expected = before - lr / 2 * (0.5 * grad + wd * before)
    return (weight.asnumpy() - expected) / np.sqrt(lr)


def contrib_updates(mx: Any) -> list[np.ndarray]:
    """The functions of `nd.contrib` over lists of weights and over single ones."""
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (4,)]
    weights, grads, means = ([mx.nd.array(rng.standard_normal(s)) for s in shapes]
                             for _ in range(3))
    squares = [mx.nd.array(rng.random(s)) for s in shapes]
    halves = [w.astype("float16") for w in weights]
    masters = [w.astype("float32") for w in halves]
    rough = [g.astype("float16") for g in grads]
    rates = {"lrs": [0.1, 0.2], "wds": [0.1, 0.0]}
    one, contrib = [weights[0], grads[0], means[0], squares[0]], mx.nd.contrib
    # With another scale than 1 MXNet would overwrite the gradient.
    contrib.adamw_update(*one, 1.0, 0.1, 0.7, wd=0.1, out=weights[0])
    contrib.adamw_update(*one, mx.nd.array([1.0]), lr=0.1, eta=0.7, beta1=0.8, out=weights[0])
    contrib.mp_adamw_update(halves[0], rough[0], means[0], squares[0], masters[0], 2.0, 0.1, 1.0,
                            out=halves[0])
    contrib.multi_adamw_update(weights, grads, means, squares, 0.5, etas=[1, 2], **rates,
                               out=weights)
    contrib.multi_mp_adamw_update(halves, rough, means, squares, masters, 0.5, etas=[1, 2],
                                  **rates, out=halves)
    contrib.multi_lamb_update(weights, grads, means, squares, [1, 4], **rates, out=weights,
                              epsilon=1e-3)
    contrib.multi_mp_lamb_update(halves, rough, means, squares, masters, [2, 5], **rates,
                                 out=halves)
    return [array.asnumpy() for part in (weights, means, squares, halves, masters)
            for array in part]


def read_states(mx: Any, content: bytes) -> dict[str, Any]:
    """The content of a `.states` file: arrays in order, and the optimizer."""
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
