"""Programs over SVRGModule for either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

FEATURES, HIDDEN = 4, 3


def module_class(mx: Any) -> Any:
    path = f"{mx.__name__}.contrib.svrg_optimization.svrg_module"
    return importlib.import_module(path).SVRGModule


def linear(mx: Any) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="loss")


def perceptron(mx: Any) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=HIDDEN, name="first")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="loss")


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    data = rng.random((count, FEATURES)).astype(np.float32)
    return data, data @ np.arange(1, FEATURES + 1, dtype=np.float32)


def iterator(mx: Any, count: int = 24, size: int = 6) -> Any:
    return mx.io.NDArrayIter(*samples(count), size, label_name="label")


def start(mx: Any, zero: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shapes = {"first_weight": (HIDDEN, FEATURES), "first_bias": (HIDDEN,),
              "fc_weight": (1, HIDDEN), "fc_bias": (1,)}
    if zero:
        shapes = {"fc_weight": (1, FEATURES), "fc_bias": (1,)}
    return {name: mx.nd.array(rng.standard_normal(shape) * (0 if zero else 0.5))
            for name, shape in shapes.items()}


def numbers(params: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: value.asnumpy() for name, value in params.items()}


def fitted(mx: Any, optimizer: str, params: dict[str, Any], update_freq: int, contexts: int = 1,
           kvstore: str | None = "local") -> dict[str, Any]:
    """Six epochs of `fit`.

    Several devices start from zeros: with a store MXNet sets all parameters to 0 at first.  Full
    gradients are zeroed before the next are computed: MXNet adds those to them.
    """
    net = perceptron(mx) if contexts == 1 else linear(mx)
    module = module_class(mx)(net, label_names=["label"], update_freq=update_freq,
                              context=[mx.cpu(k) for k in range(contexts)])
    calls: list[Any] = []

    def after_epoch(epoch: int, symbol: Any, args: dict[str, Any], auxs: dict[str, Any]) -> None:
        calls.append([epoch, sorted(args)])
        if (epoch + 1) % update_freq == 0:
            for full in module._param_dict:
                for array in full.values():
                    array[:] = 0

    module.fit(iterator(mx), eval_data=iterator(mx, 12), eval_metric="mse", num_epoch=6,
               optimizer=optimizer, optimizer_params=params, kvstore=kvstore,
               arg_params=start(mx, contexts > 1), aux_params={},
               batch_end_callback=lambda p: calls.append([p.epoch, p.nbatch,
                                                          p.eval_metric.get()[1]]),
               epoch_end_callback=after_epoch)
    return {"calls": calls, "params": numbers(module.get_params()[0]),
            "score": module.score(iterator(mx), "mse"), "freq": module.update_freq,
            "predicted": module.predict(iterator(mx)).asnumpy()}


def by_hand(mx: Any, contexts: int = 1) -> dict[str, Any]:
    """Full gradients, and the gradients of batches before and after they are corrected."""
    module = module_class(mx)(linear(mx), label_names=["label"], update_freq=1,
                              context=[mx.cpu(k) for k in range(contexts)])
    batches = iterator(mx)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(arg_params=start(mx, True), aux_params={})
    module.init_optimizer(kvstore=None, optimizer_params={"learning_rate": 0.1})
    module.update_full_grads(batches)
    found = [[numbers(full) for full in module._param_dict]]
    batches.reset()
    for batch in batches:
        module.forward_backward(batch)
        found.append(_gradients(module))
        module.update()
        found += [_gradients(module), _gradients(module._mod_aux)]
    return {"found": found, "snapshot": numbers(module._mod_aux.get_params()[0])}


def _gradients(module: Any) -> list[np.ndarray]:
    return [grad.asnumpy() for grads in module._exec_group.grad_arrays for grad in grads]
