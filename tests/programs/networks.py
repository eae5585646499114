"""Whole networks for either package: built, trained, saved and loaded by the same code.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs.common import nd

Arrays = dict[str, np.ndarray]


def perceptron(mx: Any) -> Any:
    """Three dense layers."""
    x = mx.sym.Variable("data")
    for number, hidden in enumerate((32, 16), 1):
        x = mx.sym.FullyConnected(x, num_hidden=hidden, name=f"fc{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc3")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def lenet(mx: Any) -> Any:
    """Convolution, tanh, pooling, twice; two dense layers."""
    x = mx.sym.Variable("data")
    for number, filters in enumerate((6, 12), 1):
        x = mx.sym.Convolution(x, kernel=(5, 5), num_filter=filters, name=f"conv{number}")
        x = mx.sym.Activation(x, act_type="tanh", name=f"tanh{number}")
        x = mx.sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{number}")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x, name="flatten"), num_hidden=32, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh", name="tanh3")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def resnet(mx: Any) -> Any:
    """A stem and three residual units, one of them with a projection.

    A name manager of its own makes automatic names count from 0 however often it is built.
    """
    with mx.name.NameManager():
        return _resnet(mx)


def _resnet(mx: Any) -> Any:
    def unit(x: Any, filters: int, kernel: int, name: str, **options: Any) -> Any:
        x = mx.sym.Convolution(x, num_filter=filters, kernel=(kernel, kernel),
                               pad=(kernel // 2, kernel // 2), no_bias=True, name=f"{name}_conv",
                               **options)
        return mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, momentum=0.9, name=f"{name}_bn")

    x = mx.sym.Activation(unit(mx.sym.Variable("data"), 8, 3, "stem"), act_type="relu")
    for number, (filters, stride) in enumerate(((8, 1), (16, 2), (16, 1)), 1):
        shortcut = x if stride == 1 else unit(x, filters, 1, f"unit{number}_shortcut",
                                              stride=(stride, stride))
        y = mx.sym.Activation(unit(x, filters, 3, f"unit{number}_a", stride=(stride, stride)),
                              act_type="relu")
        x = mx.sym.Activation(unit(y, filters, 3, f"unit{number}_b") + shortcut, act_type="relu")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


NETWORKS = {"perceptron": (perceptron, (16, 20)), "lenet": (lenet, (8, 1, 28, 28)),
            "resnet": (resnet, (4, 3, 8, 8))}
"""name -> (builder, shape of a batch)."""


def start(mx: Any, name: str, seed: int = 2) -> Arrays:
    """Initial parameters, `arg:` and `aux:` names, the same for both packages."""
    build, shape = NETWORKS[name]
    symbol = build(mx)
    arg_shapes, _, aux_shapes = symbol.infer_shape(data=shape)
    rng = np.random.default_rng(seed)
    params = {}
    for key, dims in zip(symbol.list_arguments(), arg_shapes, strict=True):
        if key not in ("data", "softmax_label"):
            scale = 1 / np.sqrt(max(np.prod(dims[1:]), 1)) if key.endswith("weight") else 0.1
            value = rng.standard_normal(dims) * scale + key.endswith("gamma")
            params[f"arg:{key}"] = value.astype(np.float32)
    for key, dims in zip(symbol.list_auxiliary_states(), aux_shapes, strict=True):
        params[f"aux:{key}"] = np.full(dims, float(key.endswith("var")), np.float32)
    return params


def batches(name: str, count: int, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """(data, label) pairs."""
    shape = NETWORKS[name][1]
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(shape).astype(np.float32),
             rng.integers(0, 10, shape[0]).astype(np.float32)) for _ in range(count)]


def module_of(mx: Any, symbol: Any, params: Arrays, shape: tuple[int, ...], training: bool) -> Any:
    """A bound Module with these parameters."""
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", tuple(shape))], [("softmax_label", (shape[0],))], for_training=training)
    split: dict[str, Any] = {"arg": {}, "aux": {}}
    for key, value in params.items():
        split[key[:3]][key[4:]] = nd(mx, value)
    module.set_params(split["arg"], split["aux"])
    return module


def train(mx: Any, name: str, params: Arrays, steps: int, optimizer: str,
          options: dict[str, float]) -> Arrays:
    """Parameters after `steps` batches."""
    build, shape = NETWORKS[name]
    module = module_of(mx, build(mx), params, shape, True)
    module.init_optimizer(optimizer=optimizer, optimizer_params=options)
    for data, label in batches(name, steps):
        module.forward_backward(mx.io.DataBatch([nd(mx, data)], [nd(mx, label)]))
        module.update()
        # MXNet's engine does not track that backward writes moving averages: wait for it.
        mx.nd.waitall()
    args, auxs = module.get_params()
    return ({f"arg:{key}": value.asnumpy() for key, value in args.items()}
            | {f"aux:{key}": value.asnumpy() for key, value in auxs.items()})


def fit(mx: Any, contexts: int, loads: list[float] | None, store: str | None, dtype: str,
        batch_size: int) -> Arrays:
    """The perceptron's parameters and predictions after two epochs of 23 samples on some CPUs."""
    params = {key[4:]: nd(mx, value.astype(dtype))
              for key, value in start(mx, "perceptron").items()}
    data, label = (np.concatenate(parts)[:23]
                   for parts in zip(*batches("perceptron", 2), strict=True))
    train = mx.io.NDArrayIter(mx.nd.array(data, dtype=dtype), mx.nd.array(label, dtype=dtype),
                              batch_size)
    module = mx.mod.Module(perceptron(mx), context=[mx.cpu(i) for i in range(contexts)],
                           work_load_list=loads)
    module.fit(train, num_epoch=2, arg_params=params, aux_params={}, kvstore=store,
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01})
    trained = {key: value.asnumpy() for key, value in module.get_params()[0].items()}
    return {**trained, "predictions": module.predict(train).asnumpy()}


def train_marked(mx: Any) -> list[Arrays]:
    """Parameters as initialized, and after six steps, of variables with their own multipliers."""
    sym, init = mx.sym, mx.init
    frozen = sym.Variable("frozen_weight", lr_mult=0, init=init.Constant(0.5))
    fast = sym.Variable("fast_weight", lr_mult=2.0, wd_mult=0.0, init=init.One())
    bias = sym.Variable("decayed_bias", init=init.Constant(0.25), wd_mult=3.0, shape=(4,))
    x = sym.FullyConnected(sym.Variable("data"), frozen, bias, num_hidden=4, name="fc1")
    x = sym.FullyConnected(x, fast, num_hidden=3, no_bias=True, name="fc2")
    x = sym.FullyConnected(x, num_hidden=3, lr_mult=0.1, name="slow")
    data, label = batches("perceptron", 1)[0]
    train = mx.io.NDArrayIter(data, label % 3, batch_size=8)
    module = mx.mod.Module(sym.SoftmaxOutput(x, name="softmax"), context=mx.cpu())
    module.bind(train.provide_data, train.provide_label)
    module.init_params(init.Constant(0.1))
    found = [{name: value.asnumpy() for name, value in module.get_params()[0].items()}]
    module.fit(train, num_epoch=3, optimizer_params={"learning_rate": 0.1, "wd": 0.1,
                                                     "momentum": 0.9})
    return [*found, {name: value.asnumpy() for name, value in module.get_params()[0].items()}]


def write_checkpoint(mx: Any, name: str, params: Arrays) -> dict[str, bytes]:
    """The two files of a checkpoint."""
    build, shape = NETWORKS[name]
    with tempfile.TemporaryDirectory() as folder:
        module_of(mx, build(mx), params, shape, False).save_checkpoint(f"{folder}/net", 3)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def run_checkpoint(mx: Any, files: dict[str, bytes], data: np.ndarray) -> np.ndarray:
    """Probabilities that a checkpoint predicts for a batch."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        module = mx.mod.Module.load(f"{folder}/net", 3, context=mx.cpu())
        module.bind([("data", data.shape)], [("softmax_label", data.shape[:1])],
                    for_training=False)
        module.forward(mx.io.DataBatch([nd(mx, data)], [mx.nd.zeros(data.shape[:1])]))
        return module.get_outputs()[0].asnumpy()


def outputs_with_labels(mx: Any, files: dict[str, bytes], prefix: str, epoch: int,
                        data: np.ndarray, labels: Arrays) -> Arrays:
    """Outputs of a checkpoint for training, by name, which is given its labels."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        module = mx.mod.Module.load(f"{folder}/{prefix}", epoch, context=mx.cpu(),
                                    label_names=[*labels])
        module.bind([("data", data.shape)], [(name, one.shape) for name, one in labels.items()],
                    for_training=False)
        module.forward(mx.io.DataBatch([nd(mx, data)], [nd(mx, one) for one in labels.values()]))
        return {name: output.asnumpy() for name, output in zip(
            module.symbol.list_outputs(), module.get_outputs(), strict=True)}
