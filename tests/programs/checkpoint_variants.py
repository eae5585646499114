"""Checkpoints that differ from what their graph needs, in either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.common import nd

Arrays = dict[str, np.ndarray]


def network(mx: Any, dtype: str = "float32") -> Any:
    """Convolution, BatchNorm and a dense layer with a loss, computed in `dtype`."""
    x = mx.sym.Variable("data")
    if dtype != "float32":
        x = mx.sym.Cast(x, dtype=dtype, name="narrow")
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="bn")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh", name="tanh"), num_hidden=3,
                              name="fc")
    if dtype != "float32":
        x = mx.sym.Cast(x, dtype="float32", name="widen")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def weights(dtype: str = "float32") -> Arrays:
    """Its parameters as a file names them."""
    rng = np.random.default_rng(0)
    made = {"arg:conv_weight": rng.standard_normal((4, 3, 3, 3)) / 5, "arg:conv_bias": np.zeros(4),
            "arg:fc_weight": rng.standard_normal((3, 16)) / 4, "arg:fc_bias": np.ones(3)}
    made = {name: value.astype(dtype) for name, value in made.items()}
    norm = {"arg:bn_gamma": np.full(4, 1.5), "arg:bn_beta": np.full(4, 0.2),
            "aux:bn_moving_mean": np.full(4, 0.1), "aux:bn_moving_var": np.full(4, 2.0)}
    return made | {name: value.astype("float32") for name, value in norm.items()}


DATA = np.random.default_rng(1).standard_normal((2, 3, 4, 4)).astype("float32")


def without(params: Arrays, *names: str) -> Arrays:
    """All but these."""
    return {name: value for name, value in params.items() if name not in names}


def bare(params: Arrays) -> Arrays:
    """Names without `arg:` and `aux:`."""
    return {name.split(":")[1]: value for name, value in params.items()}


FILES: dict[str, Callable[[], Arrays]] = {
    "as it should be": weights,
    "extra": lambda: weights() | {"arg:other_weight": np.ones(2, "float32"),
                                  "aux:other_mean": np.ones(2, "float32")},
    "missing argument": lambda: without(weights(), "arg:fc_bias"),
    "missing state": lambda: without(weights(), "aux:bn_moving_var"),
    "bare names": lambda: bare(weights()),
    "states as arguments": lambda: {name.replace("aux:", "arg:"): value
                                    for name, value in weights().items()},
    "arguments as states": lambda: {name.replace("arg:", "aux:"): value
                                    for name, value in weights().items()},
    "other prefix": lambda: {"net:" + name: value for name, value in weights().items()},
    "half": lambda: weights("float16"),
    "double": lambda: weights("float64"),
    "integers": lambda: weights() | {"arg:fc_bias": np.ones(3, "int32")},
    "other shape": lambda: weights() | {"arg:fc_bias": np.ones(4, "float32")},
    "other rank": lambda: weights() | {"arg:fc_weight": np.ones((3, 4, 2, 2), "float32")},
    "label among them": lambda: weights() | {"arg:softmax_label": np.ones(2, "float32")},
    "data among them": lambda: weights() | {"arg:data": DATA},
    "nothing": dict,
}  # fmt: skip


def load(mx: Any, params: Arrays, dtype: str = "float32") -> tuple[Any, dict, dict]:
    """Written with `nd.save` next to the graph and read by `load_checkpoint`."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "net")
        network(mx, dtype).save(prefix + "-symbol.json")
        mx.nd.save(prefix + "-0001.params", {name: nd(mx, a) for name, a in params.items()})
        return mx.model.load_checkpoint(prefix, 1)


def by_module(mx: Any, params: Arrays, dtype: str = "float32", **options: Any) -> np.ndarray:
    """The results of `Module.predict` without a label."""
    symbol, args, aux = load(mx, params, dtype)
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", DATA.shape)], for_training=False)
    module.set_params(args, aux, **options)
    return module.predict(mx.io.NDArrayIter(DATA, batch_size=2)).asnumpy()


def by_executor(mx: Any, params: Arrays, dtype: str = "float32", **options: Any) -> np.ndarray:
    """The results of an executor of `simple_bind` after `copy_params_from`."""
    symbol, args, aux = load(mx, params, dtype)
    executor = symbol.simple_bind(mx.cpu(), data=DATA.shape, grad_req="null")
    executor.copy_params_from(args, aux, **options)
    return executor.forward(is_train=False, data=mx.nd.array(DATA))[0].asnumpy()


def by_feedforward(mx: Any, params: Arrays) -> np.ndarray:
    """The results of the old `FeedForward`."""
    symbol, args, aux = load(mx, params)
    model = mx.model.FeedForward(symbol, mx.cpu(), arg_params=args, aux_params=aux,
                                 numpy_batch_size=2, allow_extra_params=True)
    return model.predict(DATA)


WAYS: dict[str, Callable[..., np.ndarray]] = {
    "module": by_module,
    "module, some missing": lambda mx, p: by_module(mx, p, allow_missing=True),
    "module, some extra": lambda mx, p: by_module(mx, p, allow_extra=True),
    "executor": by_executor,
    "executor, some extra": lambda mx, p: by_executor(mx, p, allow_extra_params=True),
    "feedforward": by_feedforward,
    "half module": lambda mx, p: by_module(mx, p, "float16"),
    "half executor": lambda mx, p: by_executor(mx, p, "float16"),
}


def outcomes(mx: Any, file: str) -> dict[str, Any]:
    """For each way, the predictions, or "refused"."""
    found = {}
    for way, run in WAYS.items():
        try:
            found[way] = run(mx, FILES[file]())
        except (mx.MXNetError, ValueError, RuntimeError, TypeError, AssertionError, KeyError):
            found[way] = "refused"
    return found
