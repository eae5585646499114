"""Programs over key-value stores of either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.programs.common import nd


def run(mx: Any, kind: str, steps: list[Any]) -> list[Any]:
    """Results of a sequence of calls of a store of `kind`: a list of arrays, or "error".

    A step is the name of a method, its arguments, and a dict of keyword arguments if there are any
    (but the last). Arrays represent NDArrays, a list of arrays one NDArray per device, and
    ("out", shape, devices) what the call is to write to: one array if `devices` is 0, else a list,
    whose content is the result. Special steps are ("updater", factor), which sets an updater that
    adds sums times `factor`, ("calls",) for the keys it was called with, and ("optimizer", name,
    params).
    """
    store = mx.kv.create(kind)
    calls: list[Any] = []
    return [_step(mx, store, calls, *step) for step in steps]


def _step(mx: Any, store: Any, calls: list[Any], method: str, *args: Any) -> Any:
    if method == "calls":
        return list(calls)
    if method == "updater":
        return store._set_updater(_updater(calls, *args))
    if method == "optimizer":
        return store.set_optimizer(mx.optimizer.create(args[0], **args[1]))
    outs: list[Any] = []
    options = args[-1] if isinstance(args[-1], dict) else {}
    try:
        getattr(store, method)(
            *(_given(mx, value, outs) for value in args[:len(args) - bool(options)]),
            **{name: _given(mx, value, outs) for name, value in options.items()})
        mx.nd.waitall()
        return [out.asnumpy() for out in outs]
    except Exception:
        return "error"


def _updater(calls: list[Any], factor: float) -> Any:
    def update(key: Any, given: Any, stored: Any) -> None:
        calls.append(key.decode() if isinstance(key, bytes) else key)
        stored += given * factor

    return update


def _given(mx: Any, value: Any, outs: list[Any]) -> Any:
    """An argument of a step as passed to the store; arrays to write to are appended to `outs`."""
    if isinstance(value, np.ndarray):
        return nd(mx, value)
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], str) and (
            value[0] == "out"):
        _, shape, devices, *dtype = value
        made = [mx.nd.full(tuple(shape), -5, ctx=mx.cpu(i), dtype=dtype[0] if dtype else "float32")
                for i in range(devices or 1)]
        outs.extend(made)
        return made if devices else made[0]
    if isinstance(value, (tuple, list)):
        return [nd(mx, part).copyto(mx.cpu(i)) if isinstance(part, np.ndarray)
                else _given(mx, part, outs) for i, part in enumerate(value)]
    return value


def decisions(mx: Any, stores: list[Any], environment: str | None) -> list[Any]:
    """(class of the store, update on it), or the error, of `_create_kvstore` for each case.

    A store is a name or None; "own x" is an object of the kind x.  Each case has one and two
    devices, and parameters of the largest size for 'local', and larger.
    """
    for capable in (True, False):
        name = "Capable" if capable else "Incapable"
        if name.lower() not in mx.kv.KVStoreBase.kv_registry:
            mx.kv.KVStoreBase.register(type(name, (mx.kv.KVStoreBase,), {
                "is_capable": staticmethod(lambda capability, answer=capable: answer)}))
    before = os.environ.pop("MXNET_UPDATE_ON_KVSTORE", None)
    if environment is not None:
        os.environ["MXNET_UPDATE_ON_KVSTORE"] = environment
    try:
        return [_decision(mx, store, devices, rows) for store in stores for devices in (1, 2)
                for rows in (4096, 4097)]
    finally:
        os.environ.pop("MXNET_UPDATE_ON_KVSTORE", None)
        if before is not None:
            os.environ["MXNET_UPDATE_ON_KVSTORE"] = before


def _decision(mx: Any, store: Any, devices: int, rows: int) -> Any:
    size = rows * 4096
    params = {"small": SimpleNamespace(shape=(2,), size=2),
              "large": SimpleNamespace(shape=(rows, 4096), size=size)}
    if isinstance(store, str) and store.startswith("own "):
        store = mx.kv.create(store.removeprefix("own "))
    try:
        made, update = mx.model._create_kvstore(store, devices, params)
    except Exception as error:
        return type(error).__name__
    return type(made).__name__, update


def gradients(count: int, pushes: int, shape: tuple[int, ...], seed: int = 0) -> list[Any]:
    """Float32 values for `pushes` pushes from `count` devices, some at thresholds or far beyond."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((pushes, count, *shape)).astype(np.float32)
    flat = drawn.reshape(pushes, count, -1)
    flat[:, :, :4] = np.array([0.5, -0.5, 0.0, 7.25])[:flat.shape[2]]
    return [list(values) for values in drawn]


RECORDED = ("broadcast", "pushpull", "set_optimizer", "set_gradient_compression",
            "save_optimizer_states", "load_optimizer_states")


def recorded(mx: Any) -> list[Any]:
    """Calls by a module of a store of a user's class, which can have the optimizer."""
    calls: list[Any] = []

    def is_capable(capability: str) -> bool:
        calls.append(["is_capable", capability])
        return True

    members = {"type": "dist_sync_of_mine", "num_workers": 5,
               "is_capable": staticmethod(is_capable),
               **{name: _recorder(calls, name) for name in RECORDED}}
    store = type("Recording", (mx.kv.KVStoreBase,), members)()
    with tempfile.TemporaryDirectory() as folder:
        step_of_module(mx, store, folder, {"type": "2bit"})
    return calls


def _recorder(calls: list[Any], name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> None:
        calls.append([name, [_told(arg) for arg in args],
                      {key: _told(value) for key, value in options.items()}])

    return method


def _told(value: Any) -> Any:
    """An argument as text: shapes and devices of arrays, names of files."""
    if isinstance(value, (list, tuple)):
        return [_told(part) for part in value]
    if isinstance(value, str):
        return Path(value).name
    if hasattr(value, "context"):
        return [*value.shape, str(value.context)]
    return value.rescale_grad if hasattr(value, "rescale_grad") else value


def step_of_module(mx: Any, store: Any, folder: str, compression: Any = None) -> Any:
    """A module on two devices: one step, then its optimizer's states saved and loaded."""
    data = mx.sym.Variable("data")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)], compression_params=compression)
    module.bind([("data", (4, 2))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore=store, optimizer_params={"learning_rate": 1.0})
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 2))], [mx.nd.zeros((4,))]))
    module.update()
    module.save_optimizer_states(f"{folder}/x.states")
    module.load_optimizer_states(f"{folder}/x.states")
    return module


def trained(mx: Any, store: Any, contexts: int, options: dict[str, Any], environment: str = "1"
            ) -> dict[str, Any]:
    """Parameters, predictions and states of a small smooth network after 20 steps.

    `options` are the optimizer's name and parameters; `environment` is MXNET_UPDATE_ON_KVSTORE.
    """
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh", name="tanh")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="fc2"), name="softmax")
    shapes = {"fc1_weight": (5, 4), "fc1_bias": (5,), "fc2_weight": (3, 5), "fc2_bias": (3,)}
    rng = np.random.default_rng(4)
    start = {name: rng.standard_normal(shape).astype(np.float32) * np.float32(0.5)
             for name, shape in shapes.items()}
    batches = [(rng.standard_normal((7, 4)).astype(np.float32),
                rng.integers(0, 3, 7).astype(np.float32)) for _ in range(20)]
    options = dict(options)
    module = mx.mod.Module(net, context=[mx.cpu(i) for i in range(contexts)])
    return _stepped(mx, module, store, options.pop("name"), options, start, batches,
                    "softmax_label", environment)


def compressed(mx: Any, contexts: int, environment: str) -> dict[str, Any]:
    """The same for a linear regression on integers with gradients in two bits.

    All arithmetic is exact, so no rounding can cross a threshold.
    """
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="out")
    rng = np.random.default_rng(5)
    start = {"fc_weight": np.array([[0.5, -0.25, 1]], np.float32),
             "fc_bias": np.zeros(1, np.float32)}
    batches = [(rng.integers(-3, 4, (6, 3)).astype(np.float32),
                rng.integers(-4, 5, (6, 1)).astype(np.float32)) for _ in range(20)]
    module = mx.mod.Module(net, label_names=["label"],
                           context=[mx.cpu(i) for i in range(contexts)],
                           compression_params={"type": "2bit", "threshold": 0.5})
    options = {"learning_rate": 0.25, "rescale_grad": 0.125}
    return _stepped(mx, module, "device", "sgd", options, start, batches, "label", environment)


def _stepped(mx: Any, module: Any, store: Any, optimizer: str, options: dict[str, Any],
             start: dict[str, np.ndarray], batches: list[Any], label: str, environment: str
             ) -> dict[str, Any]:
    """A module's parameters, last outputs and keys of states after a step with every batch."""
    data, labels = batches[0]
    module.bind([("data", data.shape)], [(label, labels.shape)])
    module.init_params(arg_params={name: nd(mx, value) for name, value in start.items()},
                       aux_params={})
    os.environ["MXNET_UPDATE_ON_KVSTORE"] = environment
    try:
        module.init_optimizer(kvstore=store, optimizer=optimizer, optimizer_params=options)
    finally:
        del os.environ["MXNET_UPDATE_ON_KVSTORE"]
    for data, labels in batches:
        module.forward_backward(mx.io.DataBatch([nd(mx, data)], [nd(mx, labels)]))
        module.update()
    updater = module._kvstore._updater if module._update_on_kvstore else module._updater
    return {"params": {name: value.asnumpy() for name, value in module.get_params()[0].items()},
            "outputs": module.get_outputs()[0].asnumpy(), "on store": module._update_on_kvstore,
            "keys": sorted(map(str, updater.states))}
