"""Random sequences of calls of a Module, whose results must agree in nbmod and MXNet.

`draw` makes a sequence from a seed without either library: pairs of a method of `Session` and its
arguments, mostly in an order that makes sense.  `run` returns what each call gave, "error" where it
raised; both libraries go on after an error with the state that the failed call left.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.programs.calls import call, draw_names

Arguments = dict[str, Any]
Sequence = list[tuple[str, Arguments]]
Table = dict[str, tuple[float, Callable[[random.Random, int], Arguments]]]
"""Calls by name, as in `CALLS`."""
FEATURES = 5
RATES = {"sgd": (("learning_rate", 0.1), ("momentum", 0.9)),
         "adam": (("learning_rate", 0.1), ("epsilon", 0.01))}   # which no rounding reaches
NETS = ("classes", "normalized", "two outputs", "loss")
"""Names of networks: `network` makes them."""


def network(mx: Any, name: str) -> Any:
    """A small network; that with a loss of its own has no labels."""
    sym, data = mx.sym, mx.sym.Variable("data")
    x = sym.FullyConnected(data, num_hidden=4, name="fc1", no_bias=name == "normalized")
    if name == "normalized":
        x = sym.BatchNorm(x, name="bn", fix_gamma=False, momentum=0.5)
    x = sym.Activation(x, act_type="tanh", name="act")
    y = sym.FullyConnected(x, num_hidden=3, name="fc2")
    if name == "loss":
        return sym.MakeLoss(sym.sum(sym.square(y), axis=1), name="loss")
    if name == "normalized":
        return sym.LinearRegressionOutput(y, sym.Variable("label"), name="out")
    softmax = sym.SoftmaxOutput(y, sym.Variable("label"), name="out")
    return softmax if name == "classes" else sym.Group([softmax, sym.BlockGrad(x, name="hidden")])


def values(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


class Session:
    """One or two modules of a network, the second of which shares with the first.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    net : str
        Name of the network.
    options : dict
        Arguments of the modules.
    folder : str
        For files.
    """

    ends: tuple[str, ...] = ()
    """Calls after whose errors MXNet's state is arbitrary, even before `bind`."""

    def __init__(self, mx: Any, net: str, options: Arguments, folder: str):
        self.mx, self.net, self.folder = mx, net, folder
        self.labels = [] if net == "loss" else ["label"]
        self.options = {**options, "label_names": self.labels or None}
        if options.get("context"):
            self.options["context"] = [mx.cpu(i) for i in range(options["context"])]
        self.module = self.made()
        self.other = self.made()
        self.metric = mx.metric.create({"classes": "acc", "normalized": "mse"}.get(net, "loss"))
        self.optimizer = "sgd"
        """The last, so that `fit` does not go on with states of another."""
        self.computed = ""
        """What the buffers of outputs and gradients have: nothing, "outputs", or "gradients"."""
        self.stale = False
        """Whether auxiliary states were computed since parameters were last set or updated."""

    def made(self) -> Any:
        return self.mx.mod.Module(network(self.mx, self.net), **self.options)

    def shapes(self, size: int) -> tuple[Any, Any]:
        label = (size, 3) if self.net == "normalized" else (size,)
        return [("data", (size, FEATURES))], [("label", label)] if self.labels else None

    def arrays(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        label = values(size, 3, seed=seed + 1)
        if self.net != "normalized":
            label = np.floor(np.abs(label[:, 0]) * 2) % 3
        return values(size, FEATURES, seed=seed), label

    def batch(self, size: int, seed: int, labels: bool = True) -> Any:
        data, label = self.arrays(size, seed)
        array = self.mx.nd.array
        given = [array(label)] if labels and self.labels else None
        return self.mx.io.DataBatch([array(data)], given)

    def iterator(self, count: int, size: int, seed: int) -> Any:
        data, label = self.arrays(count, seed)
        return self.mx.io.NDArrayIter(data, label if self.labels else None, size,
                                      label_name="label")

    def parameters(self, which: str, seed: int) -> tuple[Any, Any]:
        """Values of all parameters, some of them, others, or none."""
        symbol = network(self.mx, self.net)
        shapes, _, aux = symbol.infer_shape(data=(2, FEATURES))
        args = dict(zip(symbol.list_arguments(), shapes, strict=True))
        args = {name: shape for name, shape in args.items() if name not in ("data", "label")}
        auxiliary = dict(zip(symbol.list_auxiliary_states(), aux, strict=True))
        if which == "none":
            return None, None
        if which == "some":
            args.pop("fc2_bias")
        if which == "others":
            args["fc9_weight"] = (2, 2)
        if which == "wrong shape":
            args["fc1_weight"] = (2, 2)
        array = self.mx.nd.array
        return ({name: array(values(*shape, seed=seed + at))
                 for at, (name, shape) in enumerate(sorted(args.items()))},
                {name: array(np.abs(values(*shape, seed=seed + 50 + at)))
                 for at, (name, shape) in enumerate(sorted(auxiliary.items()))})

    # -- calls ------------------------------------------------------------------------------

    def bind(self, size: int, shared: bool, **options: Any) -> Any:
        data, label = self.shapes(size)
        if self.binds_in_vain(options):
            return None
        self.computed = ""
        self.synchronize(self.module)
        if shared and len(self.options.get("context", ())) > 1:
            return None     # MXNet fails with several devices
        if shared:
            self.synchronize(self.other)
            options["shared_module"] = self.other
        self.module.bind(data, label, **options)
        return None

    def binds_in_vain(self, options: Arguments) -> bool:
        """Whether MXNet refuses to bind again, as the parameters were never initialized."""
        module = self.module
        return bool(options.get("force_rebind")) and module.binded and not module.params_initialized

    def synchronize(self, module: Any) -> None:
        """Call `get_params`: in MXNet a rebind loses updates after the last call."""
        if module.binded and module.params_initialized:
            module.get_params()

    def init_params(self, which: str, seed: int, **options: Any) -> Any:
        args, aux = self.parameters(which, seed)
        self.module.init_params(self.mx.init.Constant(0.25), args, aux, **options)
        return None

    def set_params(self, which: str, seed: int, **options: Any) -> Any:
        args, aux = self.parameters(which, seed)
        self.module.set_params(args or {}, aux or {}, **options)
        return None

    def get_params(self) -> Any:
        args, aux = self.module.get_params()
        if self.stale:
            aux = {}        # in MXNet, those before the last update
        return {name: array.asnumpy() for name, array in sorted({**args, **aux}.items())}

    def init_optimizer(self, optimizer: str, kvstore: str | None, **options: Any) -> Any:
        if len(self.options.get("context", ())) > 1:
            kvstore = None      # in MXNet, updates of a store lose what set_params sets
        self.optimizer = optimizer
        self.module.init_optimizer(kvstore, optimizer, RATES[optimizer], **options)
        return None

    def forward(self, size: int, seed: int, labels: bool, is_train: bool | None) -> Any:
        self.computed = ""
        bound = self.module.binded and self.module.data_shapes[0].shape[0]
        self.module.forward(self.batch(size, seed, labels or size != bound), is_train)
        self.stale = True
        training = self.module.for_training if is_train is None else is_train
        self.computed = "training outputs" if training else "outputs"
        return None

    def backward(self, seed: int | None) -> Any:
        if self.module.binded and self.computed != "training outputs":
            return None     # an error in nbmod; in MXNet, gradients of what there is
        grads = None
        if seed is not None:
            grads = [self.mx.nd.array(values(*shape, seed=seed + at))
                     for at, (_, shape) in enumerate(self.module.output_shapes)]
        self.module.backward(grads)
        self.computed = "gradients"
        return None

    def forward_backward(self, size: int, seed: int) -> Any:
        self.computed = ""
        self.module.forward_backward(self.batch(size, seed))
        self.stale = True
        self.computed = "gradients"
        return None

    def update(self) -> Any:
        if self.module.binded and self.module.for_training and self.computed != "gradients":
            return None     # any values
        self.module.update()
        self.computed, self.stale = "", False
        return None

    def get_outputs(self, merged: bool) -> Any:
        if self.module.binded and not self.computed:
            return None     # any values
        return self.module.get_outputs(merged)

    def get_input_grads(self) -> Any:
        if self.module.binded and self.computed != "gradients":
            return None     # any values
        return self.module.get_input_grads()

    def update_metric(self, size: int, seed: int) -> Any:
        if self.module.binded and not (self.computed and self.labels):
            return None     # of any values; MXNet fails without labels
        self.metric.reset()
        _, label = self.arrays(size, seed)
        self.module.update_metric(self.metric, [self.mx.nd.array(label)])
        return list(self.metric.get()[1:])

    def shapes_of_all(self) -> Any:
        module = self.module
        return [[[name, tuple(shape)] for name, shape in listed or []] for listed in (
            module.data_shapes, module.label_shapes, module.output_shapes)]

    def flags(self) -> Any:
        module = self.module
        if not module.binded:
            return False    # and the others are not those of a failed bind
        return [module.binded, module.params_initialized, module.optimizer_initialized,
                module.for_training, module.inputs_need_grad]

    def reshape(self, size: int) -> Any:
        data, label = self.shapes(size)
        self.computed = ""
        self.module.reshape(data, label)
        return None

    def predict(self, count: int, size: int, seed: int) -> Any:
        self.computed = ""
        return self.module.predict(self.iterator(count, size, seed))

    def score(self, count: int, size: int, seed: int) -> Any:
        self.computed = ""
        if not self.labels:
            return None     # MXNet fails with iterators without labels
        return [value for _, value in self.module.score(self.iterator(count, size, seed),
                                                        self.metric)]

    def fit(self, count: int, size: int, seed: int, **options: Any) -> Any:
        if not self.labels or self.binds_in_vain(options):
            return None
        self.synchronize(self.module)
        args, aux = self.parameters("all", seed)
        self.computed = ""
        self.module.fit(self.iterator(count, size, seed), eval_metric=self.metric, num_epoch=1,
                        arg_params=args, aux_params=aux, kvstore=None, optimizer=self.optimizer,
                        optimizer_params=RATES[self.optimizer], **options)
        return None

    def save_and_load(self, states: bool) -> Any:
        self.computed = ""
        prefix = os.path.join(self.folder, "a")
        self.module.save_checkpoint(prefix, 1, states)
        self.module = self.mx.mod.Module.load(prefix, 1, states, **self.options)
        return None

    def states(self) -> Any:
        path = os.path.join(self.folder, "states")
        self.module.save_optimizer_states(path)
        self.module.load_optimizer_states(path)
        return None

    def swap(self) -> Any:
        self.module, self.other, self.computed = self.other, self.module, ""
        return None

    def borrow_optimizer(self) -> Any:
        self.module.borrow_optimizer(self.other)
        return None

    def monitored(self, size: int, seed: int) -> Any:
        if self.module.binded and self.module.data_shapes[0].shape[0] != size:
            return None     # in MXNet, an executor of another size is not observed
        self.computed, self.stale = "", True
        monitor = self.mx.mon.Monitor(1, lambda array: array.abs().sum(), ".*weight|.*output", True)
        self.module.install_monitor(monitor)
        monitor.tic()
        self.module.forward(self.batch(size, seed), True)
        return [name for _, name, _ in monitor.toc()]


# -- sequences ------------------------------------------------------------------------------------

SIZES = (1, 2, 4, 6)


def draw(seed: int, table: Table | None = None) -> tuple[str, Arguments, Sequence]:
    """A network's name, options of its modules, and calls of a table, by default `CALLS`."""
    rng, table = random.Random(seed), table or CALLS
    net = rng.choice(NETS)
    options: Arguments = {}
    if rng.random() < 0.3:
        options["context"] = rng.choice((1, 2))
    if rng.random() < 0.2:
        options["fixed_param_names"] = rng.choice((["fc2_bias"], ["fc1_bias", "fc1_weight"]))
    size = rng.choice(SIZES[2:] if net == "normalized" else SIZES)  # small ones amplify rounding
    calls: Sequence = []
    if net == "normalized":
        options = {name: value for name, value in options.items() if name == "context"}
    if rng.random() < 0.85:
        calls += [("bind", bind_arguments(rng, size)), ("init_params", init_arguments(rng, "all"))]
    if rng.random() < 0.7:
        calls.append(("init_optimizer", optimizer_arguments(rng)))
    for name in draw_names(rng, table, rng.randrange(4, 14)):
        calls.append((name, table[name][1](rng, size)))
    calls += [("flags", {}), ("get_params", {})]
    return net, options, calls


def bind_arguments(rng: random.Random, size: int) -> Arguments:
    found: Arguments = {"size": near(rng, size), "shared": rng.random() < 0.15}
    if rng.random() < 0.3:
        found["for_training"] = rng.random() < 0.5
    if rng.random() < 0.3:
        found["inputs_need_grad"] = True
    if rng.random() < 0.3:
        found["force_rebind"] = True
    if rng.random() < 0.3:      # in MXNet, gradients of inputs are added to what memory has
        others = ("write", "null")
        found["grad_req"] = rng.choice(others if "inputs_need_grad" in found else (*others, "add"))
    return found


def init_arguments(rng: random.Random, which: str | None = None) -> Arguments:
    found: Arguments = {"which": which or rng.choice(("all", "some", "others", "none",
                                                      "wrong shape")),
                        "seed": rng.randrange(100)}
    for name, chance in (("allow_missing", 0.4), ("force_init", 0.5), ("allow_extra", 0.4)):
        if rng.random() < chance:
            found[name] = rng.random() < 0.7
    return found


def optimizer_arguments(rng: random.Random) -> Arguments:
    found: Arguments = {"optimizer": rng.choice(("sgd", "adam")),
                        "kvstore": rng.choice((None, "local"))}
    if rng.random() < 0.4:
        found["force_init"] = True
    return found


def near(rng: random.Random, size: int) -> int:
    """Mostly the usual size; at least 4 where that is, for `BatchNorm`."""
    return size if rng.random() < 0.75 else rng.choice(SIZES if size < 4 else SIZES[2:])


def a_batch(rng: random.Random, size: int) -> Arguments:
    return {"size": near(rng, size), "seed": rng.randrange(100)}


def an_epoch(rng: random.Random, size: int) -> Arguments:
    return {"count": rng.choice((4, 6, 9)), **a_batch(rng, size)}


CALLS = {
    "bind": (2, bind_arguments),
    "init_params": (1, lambda rng, size: init_arguments(rng)),
    "set_params": (1, lambda rng, size: init_arguments(rng)),
    "get_params": (1, lambda rng, size: {}),
    "init_optimizer": (1, lambda rng, size: optimizer_arguments(rng)),
    "forward": (4, lambda rng, size: {**a_batch(rng, size), "labels": rng.random() < 0.8,
                                      "is_train": rng.choice((None, True, True, False))}),
    "backward": (3, lambda rng, size: {"seed": rng.choice((None, None, 3))}),
    "forward_backward": (3, a_batch),
    "update": (4, lambda rng, size: {}),
    "get_outputs": (4, lambda rng, size: {"merged": rng.random() < 0.8}),
    "get_input_grads": (1, lambda rng, size: {}),
    "update_metric": (1, a_batch),
    "shapes_of_all": (1, lambda rng, size: {}),
    "flags": (1, lambda rng, size: {}),
    "reshape": (2, lambda rng, size: {"size": near(rng, size)}),
    "predict": (1, an_epoch),
    "score": (1, an_epoch),
    "fit": (1, lambda rng, size: {**an_epoch(rng, size), **(
        {"force_rebind": True} if rng.random() < 0.3 else {}), **(
        {"force_init": True} if rng.random() < 0.3 else {})}),
    "save_and_load": (1, lambda rng, size: {"states": rng.random() < 0.5}),
    "states": (1, lambda rng, size: {}),
    "swap": (1, lambda rng, size: {}),
    "borrow_optimizer": (0.5, lambda rng, size: {}),
    "monitored": (0.5, a_batch),
}
"""Weight, and a function of a generator and the usual batch that draws the arguments."""


ENDS = ("init_params", "set_params", "fit", "score", "predict", "forward",
        "forward_backward", "reshape", "bind")
"""An error of these may come when a part is done, in MXNet often another part than in nbmod."""


def run(mx: Any, seed: int, kind: type[Session] = Session, table: Table | None = None
        ) -> list[Any]:
    """What each call of the sequence gave."""
    net, options, calls = draw(seed, table)
    # MXNet's networks fused by oneDNN go on with parameters that set_params has replaced.
    with (patch.dict(os.environ, MXNET_SUBGRAPH_BACKEND="NONE"), mx.name.NameManager(),
          warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder):
        warnings.simplefilter("ignore")
        session = kind(mx, net, options, folder)
        results = []
        for name, arguments in calls:
            binded = session.module.binded
            results.append(call(session, name, arguments))
            failed = isinstance(results[-1], str) and results[-1] == "error"
            if failed and name in ENDS and (binded or name in session.ends):
                break
        return results
