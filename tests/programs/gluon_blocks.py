"""Blocks of Gluon, defined on both sides alike: names, values, files and errors to compare."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

ERRORS = (AssertionError, AttributeError, KeyError, NotImplementedError, TypeError, ValueError,
          RuntimeError)
"""What scripts catch, the first that fits."""


def layers(mx: Any) -> dict[str, Any]:
    """Classes of blocks without others inside."""

    class Affine(mx.gluon.HybridBlock):
        """A dense layer with a child that has a prefix of its own."""

        def __init__(self, units: int, inputs: int = 0, activation: Any = None, **kwargs: Any):
            super().__init__(**kwargs)
            self._units = units
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(units, inputs), dtype="float32",
                                              allow_deferred_init=True)
                self.bias = self.params.get("bias", shape=(units,), init="zeros",
                                            allow_deferred_init=True)
                self.act = None if activation is None else activation(prefix="act_")

        def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any) -> Any:
            out = F.FullyConnected(x, weight, bias, num_hidden=self._units, name="fwd")
            return out if self.act is None else self.act(out)

    class Rectifier(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.Activation(x, act_type="relu", name="fwd")

    class Normalized(mx.gluon.HybridBlock):
        """Batch normalization, with parameters that are not trained."""

        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                for name, init, trained in (("gamma", "ones", True), ("beta", "zeros", True),
                                            ("running_mean", "zeros", False),
                                            ("running_var", "ones", False)):
                    setattr(self, name, self.params.get(
                        name, shape=(0,), init=init, allow_deferred_init=True,
                        differentiable=trained))

        def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                           running_var: Any) -> Any:
            return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd",
                               fix_gamma=False)

    return {name: each for name, each in locals().items() if isinstance(each, type)}


def networks(mx: Any) -> dict[str, Any]:
    """Classes of blocks."""
    classes = layers(mx)
    Affine = classes["Affine"]  # noqa: N806 - a class

    class Net(mx.gluon.HybridBlock):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.first = Affine(3, activation=classes["Rectifier"])
                self.norm = classes["Normalized"]()
                self.scale = self.params.get("scale", shape=(3,), init="ones")
                self.shift = self.params.get_constant("shift", np.arange(3.0, dtype=np.float32))
                self.last = Affine(2, prefix="last_")

        def hybrid_forward(self, F: Any, x: Any, scale: Any, shift: Any) -> Any:
            x = self.norm(self.first(x))
            x = F.broadcast_add(F.broadcast_mul(x, scale), F.expand_dims(shift, axis=0))
            return self.last(F.tanh(x) * 2 + x)

    class Several(mx.gluon.HybridBlock):
        """Nested arguments and results, and one that may be missing."""

        def hybrid_forward(self, F: Any, x: Any, pair: Any, more: Any = None) -> Any:
            rest = x + 1 if more is None else x * more
            return [F.concat(*pair, dim=1), (rest,)], x

    class Outer(mx.gluon.Block):
        """No hybrid block, with two of these inside."""

        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = Net()
                self.head = Affine(2)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x)) if x.max().asscalar() > 0 else x

    return {**classes, "Net": Net, "Several": Several, "Outer": Outer}


def data() -> np.ndarray:
    return np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def fill(net: Any, mx: Any) -> None:
    """Equal values on both sides, by the order of the parameters."""
    for number, each in enumerate(net.collect_params().values()):
        if type(each) is mx.gluon.Parameter and each.grad_req != "null":
            size = int(np.prod(each.shape))
            values = np.cos(np.arange(size) + number).reshape(each.shape) + 1
            each.set_data(mx.nd.array(values.astype(np.float32)))


def made(mx: Any, name: str = "Net", **kwargs: Any) -> Any:
    """A network with values, of the prefix `net_`."""
    with mx.name.NameManager():
        net = networks(mx)[name](prefix="net_", **kwargs)
    net.initialize()
    net(mx.nd.array(data()))
    fill(net, mx)
    return net


# -- names ----------------------------------------------------------------------------------------


def names(mx: Any) -> dict[str, Any]:
    """Prefixes, names of parameters and nodes, and paths."""
    found: dict[str, Any] = {}
    classes = networks(mx)
    Affine, Net = classes["Affine"], classes["Net"]  # noqa: N806 - classes
    with mx.name.NameManager():
        blocks = [Affine(2), Affine(3), Net(), Net(prefix="p_"), Affine(1, prefix=""),
                  mx.gluon.Block(prefix="plain")]
        found["prefixes"] = [(each.prefix, each.name, each.params.prefix) for each in blocks]
        with blocks[2].name_scope():
            found["late"] = [Affine(1).prefix, Affine(1, prefix="own_").prefix]
            with mx.name.Prefix("P_"):
                found["prefix inside"] = Affine(1).prefix
        with blocks[4].name_scope():
            found["empty"] = [Affine(1).prefix, mx.sym.relu(mx.sym.var("x")).name]
        shared = Affine(2, params=blocks[0].params)
        found["shared"] = [shared.prefix, shared.params.prefix, [*shared.collect_params()],
                           shared.weight is blocks[0].weight]
        parent = mx.gluon.HybridBlock(prefix="q_", params=blocks[3].collect_params())
        with parent.name_scope():
            child = classes["Rectifier"]()
        found["child of shared"] = [child.prefix, child.params.prefix,
                                    [*(child.params._shared or ())]]
    with mx.name.Prefix("P_"):
        found["manager"] = [Affine(1).prefix, Affine(1, prefix="q_").prefix]
    net = made(mx)
    for block in (net, made(mx, "Outer")):
        found[f"parameters of {type(block).__name__}"] = [*block.collect_params()]
        found[f"paths of {type(block).__name__}"] = [*block._collect_params_with_prefix()]
        found[f"text of {type(block).__name__}"] = repr(block)
    found["weights"] = [*net.collect_params(".*weight|.*gamma")]
    found["own"] = repr(net.params)
    found["children"] = [*net._children], [*net.first._reg_params]
    found["graph"] = plain_graph(net(mx.sym.var("data")).tojson())
    found["graph of a layer"] = plain_graph(net.first(mx.sym.var("x")).tojson())
    return found


def plain_graph(text: str) -> Any:
    """JSON of a graph, without initializers of constants, which MXNet names by addresses, and
    without versions of states, which MXNet counts up with every trace."""
    graph = json.loads(text)
    for node in graph["nodes"]:
        node["inputs"] = [entry[:2] for entry in node["inputs"]]
        if "onstant" in node.get("attrs", {}).get("__init__", ""):
            del node["attrs"]["__init__"]
    return graph


def structures(mx: Any) -> list[Any]:
    """Formats of arguments and results, and names of inputs."""
    found = []
    x = mx.nd.array(data())
    for args in ([x, [x, x]], [x, (x, [x][0]), None], [x, [x, x], x]):
        with mx.name.NameManager():
            net = networks(mx)["Several"]()
        net.hybridize()
        out = net(*args)
        inputs, symbol = net._cached_graph
        found.append([net._in_format, net._out_format, [each.name for each in inputs],
                      symbol.list_outputs()[1:], shapes(out)])
    return found


def shapes(value: Any) -> Any:
    return [shapes(each) for each in value] if isinstance(value, (list, tuple)) else value.shape


# -- parameters -----------------------------------------------------------------------------------


def parameters(mx: Any) -> dict[str, Any]:
    """Facts of parameters before and after changes."""
    found: dict[str, Any] = {}
    Parameter = mx.gluon.Parameter  # noqa: N806 - a class
    each = Parameter("w", shape=(2, 3), lr_mult=2.0, init=mx.init.One(), dtype="float64")
    found["text"] = [repr(each), repr(Parameter("v", shape=3)), repr(mx.gluon.ParameterDict()),
                     repr(mx.gluon.Constant("c", [[1.0, 2.0]]))]
    found["variable"] = each.var().attr_dict()
    each.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    found["devices"] = [str(ctx) for ctx in each.list_ctx()]
    each.reset_ctx([mx.cpu(3), mx.cpu_pinned(1)])
    found["positions"] = each._ctx_map, Parameter("v")._ctx_map
    each.reset_ctx([mx.cpu(0), mx.cpu(1)])
    each.data(mx.cpu(1))[:] = 3
    each.reset_ctx(mx.cpu(2))
    found["mean"] = each.data().asnumpy(), str(each.data().context)
    each.grad()[:] = 7
    each.grad_req = "null"
    each.grad_req = "add"
    found["new gradient"] = each.grad().asnumpy()
    each.cast("float32")
    found["cast"] = str(np.dtype(each.dtype)), each.grad().asnumpy().dtype.name, repr(each)
    fixed = Parameter("f", shape=(1,), differentiable=False)
    fixed.grad_req = "write"
    found["not differentiable"] = fixed.grad_req
    waiting = Parameter("d", shape=(0, 3), allow_deferred_init=True)
    waiting.initialize()
    waiting.set_data(mx.nd.ones((2, 3)))
    waiting._finish_deferred_init()
    found["kept until then"] = waiting.data().asnumpy()
    store = mx.gluon.ParameterDict("net_")
    first = store.get("w", shape=(0, 3))
    second = store.get("w", shape=(2, 0))
    found["joined"] = [first is second, first.shape, [*store], repr(store)]
    other = mx.gluon.ParameterDict("net_", shared=store)
    found["found"] = [other.get("w") is first, [*other], repr(other)]
    found["constants"] = same_values(mx)
    found["replaced"] = [replaced(mx, hybrid, whole) for hybrid in (False, True)
                         for whole in (False, True)]
    return found


def replaced(mx: Any, hybrid: bool, whole: bool) -> list[Any]:
    """Outputs and gradients of a block whose array a program replaces, also by a wider one."""
    block = mx.gluon.nn.PReLU(alpha_initializer="ones", in_channels=1)
    block.initialize()
    if hybrid:
        block.hybridize(inline_limit=0)
    x = mx.nd.array([[-1.0, -2.0]])
    results = [block(x).asnumpy()]
    for values in ([2.0], [3.0, 4.0], [5.0, 6.0]):
        alpha = mx.nd.array(values)
        alpha.attach_grad()
        if whole:
            block.alpha._data = [alpha]
        else:
            block.alpha._data[0] = alpha
        with mx.autograd.record():
            out = block(x)
        out.backward()
        results += [out.asnumpy(), alpha.grad.asnumpy()]
    return results


def same_values(mx: Any) -> list[bool]:
    """Whether constants of one name are one."""
    store = mx.gluon.ParameterDict()
    value = np.arange(3.0, dtype=np.float32)
    return [store.get_constant("c", value) is store.get_constant("c", value),
            store.get_constant("c") is store["c"]]


# -- errors ---------------------------------------------------------------------------------------


def errors(mx: Any, folder: str) -> list[tuple[str, str, str]]:
    """The kind of each error, and how its text begins."""
    found = []
    for name, call, length in [*parameter_errors(mx), *block_errors(mx),
                               *file_errors(mx, folder)]:
        try:
            call()
        except ERRORS as error:
            kind = next(each.__name__ for each in ERRORS if isinstance(error, each))
            text = str(error).strip("'\"").replace("\n", " ")
            found.append((name, kind, text[:length]))
        else:
            found.append((name, "", ""))
    return found


def parameter_errors(mx: Any) -> list[tuple[str, Callable[[], object], int]]:
    Parameter, store = mx.gluon.Parameter, mx.gluon.ParameterDict("n_")  # noqa: N806
    whole, waiting = Parameter("w", shape=(2, 3)), Parameter("d", shape=(0,),
                                                             allow_deferred_init=True)
    waiting.initialize()
    fixed = Parameter("f", shape=(2,), grad_req="null")
    fixed.initialize()
    rows = Parameter("r", shape=(2, 3), stype="row_sparse")
    rows.initialize()
    store.get("w", shape=(2, 3))
    other = mx.gluon.ParameterDict("n_")
    other.get("w")
    ready = mx.gluon.ParameterDict("n_")
    ready.get("w", shape=(2,)).initialize()
    ids = mx.nd.array([0])
    return [
        ("request", lambda: Parameter("w", grad_req="x"), 60),
        ("storage", lambda: Parameter("w", stype="x"), 30),
        ("no shape", lambda: Parameter("w").initialize(), 60),
        ("no values", lambda: whole.data(), 38),
        ("no gradient yet", lambda: whole.grad(), 38),
        ("no devices", lambda: whole.list_ctx(), 38),
        ("to devices", lambda: whole.reset_ctx(mx.cpu()), 60),
        ("waiting", lambda: waiting.data(), 77),
        ("unknown shape", lambda: waiting._finish_deferred_init(), 55),
        ("other shape", lambda: fixed.set_data(mx.nd.ones(3)), 57),
        ("other device", lambda: fixed.data(mx.cpu(1)), 80),
        ("no gradient", lambda: fixed.grad(), 70),
        ("no gradients", lambda: fixed.list_grad(), 70),
        ("rows", lambda: rows.data(), 70),
        ("rows of all", lambda: rows.list_data(), 70),
        ("no trainer", lambda: rows.row_sparse_data(ids), 70),
        ("dense rows", lambda: fixed.row_sparse_data(ids), 60),
        ("vector", lambda: Parameter("v", shape=(3,)).initialize(mx.init.Xavier()), 0),
        ("other attribute", lambda: store.get("w", lr_mult=2.0), 110),
        ("contradiction", lambda: store.get("w", shape=(3, 3)), 100),
        ("no constant", lambda: store.get_constant("c"), 40),
        ("not constant", lambda: store.get_constant("w", mx.nd.ones(2)), 50),
        ("not there", lambda: store["x"], 1),
        ("two of a name", lambda: store.update(other), 80),
        ("prefix", lambda: ready.save("f", strip_prefix="x_"), 50),
    ]


def block_errors(mx: Any) -> list[tuple[str, Callable[[], object], int]]:
    classes, x = networks(mx), mx.nd.array(data())
    Net, Affine, Several = (classes[name]  # noqa: N806
                            for name in ("Net", "Affine", "Several"))
    net, plain, traced = made(mx), mx.gluon.HybridBlock(), Several()
    traced.hybridize()
    traced(x, [x, x])
    active = made(mx)
    active.hybridize()
    active(x)

    def of_values(function: Callable[[Any], Any]) -> Callable[[], object]:
        block = type("Block", (mx.gluon.HybridBlock,), {
            "hybrid_forward": lambda self, F, x: function(x)})()
        block.hybridize()
        return lambda: block(x)

    def listed() -> Any:
        class Listed(mx.gluon.HybridBlock):
            def __init__(self) -> None:
                super().__init__()
                self.items = [Affine(2, 4)]

            def hybrid_forward(self, F: Any, x: Any) -> Any:
                return self.items[0](x)

        block = Listed()
        block.hybridize()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return block(x)

    return [
        ("no forward", lambda: mx.gluon.Block()(x), 0),
        ("no hybrid_forward", lambda: plain(x), 0),
        ("uninitialized", lambda: Affine(2, 4, prefix="layer_")(x), 30),
        ("uninitialized net", lambda: Net(prefix="net_")(x), 20),
        ("neither", lambda: net(3), 70),
        ("mixed", lambda: traced(x, [x, mx.sym.var("a")]), 70),
        ("structure", lambda: traced(x, [x, x], x), 75),
        ("nested structure", lambda: traced(x, [x, [x]]), 75),
        ("number", lambda: traced(x, 3), 100),
        ("two devices", lambda: traced(x, [x, x.as_in_context(mx.cpu(1))]), 60),
        ("other device", lambda: active(x.as_in_context(mx.cpu(1))), 0),
        ("no trace", lambda: made(mx, "Affine", units=2, inputs=4).export("f"), 0),
        ("child for number", lambda: setattr(net, "first", 3), 40),
        ("parameter for number", lambda: setattr(net, "scale", 3), 40),
        ("two parameters", lambda: setattr(net, "scale", mx.gluon.Parameter("s")), 30),
        ("plain child", lambda: net.register_child(mx.gluon.Block()), 50),
        ("plain attribute", lambda: setattr(net, "new", mx.gluon.Block()), 50),
        ("shape of symbol", of_values(lambda x: x.reshape(x.shape)), 37),
        ("asnumpy", of_values(lambda x: x.asnumpy()), 30),
        ("asscalar", of_values(lambda x: x.asscalar()), 30),
        ("truth", of_values(lambda x: x if x else x), 17),
        ("number returned", of_values(lambda x: 5), 80),
        ("dict returned", of_values(lambda x: {"a": x}), 80),
        ("list of blocks", listed, 30),
        ("summary", lambda: active.summary(x), 45),
        ("deferred", lambda: of_failed_shape(mx)(x), 70),
    ]


def of_failed_shape(mx: Any) -> Any:
    """A block whose deferred shape does not follow."""
    class Scaled(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.scale = self.params.get("scale", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
            return x.reshape(x.shape) * scale

    block = Scaled()
    block.initialize()
    return block


def summary(mx: Any) -> list[str]:
    """Lines of summaries."""
    x = mx.nd.array(data())
    with contextlib.redirect_stdout(io.StringIO()) as text:
        made(mx).summary(x)
        networks(mx)["Several"](prefix="s_").summary(x, [x, x])
        made(mx, "Outer").summary(x)
    return text.getvalue().splitlines()


# -- files ----------------------------------------------------------------------------------------


def write_files(mx: Any, folder: str) -> dict[str, Any]:
    """Write all kinds of files of a network; its output."""
    net, x = made(mx), mx.nd.array(data())
    net.hybridize()
    output = net(x)
    path = os.path.join(folder, "net")
    net.save_parameters(f"{path}.paths")
    net.collect_params().save(f"{path}.names")
    net.collect_params().save(f"{path}.stripped", strip_prefix="net_")
    net.export(path, 7)
    net.save(path)
    twice = shared(mx, "twice_")
    twice.initialize()
    twice.save_parameters(f"{path}.twice")
    twice.save_parameters(f"{path}.once", deduplicate=True)
    with open(f"{path}-symbol.json", encoding="utf-8") as file:
        graph = file.read()
    return {"output": output.asnumpy(), "graph": plain_graph(graph),
            "keys": {kind: sorted(mx.nd.load(f"{path}{kind}")) for kind in (
                ".paths", ".names", ".stripped", "-0007.params", "-model.params", ".twice",
                ".once")}}


def shared(mx: Any, prefix: str) -> Any:
    """Two layers with one weight."""
    Affine = networks(mx)["Affine"]  # noqa: N806 - a class

    class Twice(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix=prefix)
            with self.name_scope():
                self.one = Affine(4, 4)
                self.two = Affine(4, 4, params=self.one.params)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.two(self.one(x))

    return Twice()


def read_files(mx: Any, folder: str) -> dict[str, Any]:
    """Outputs of networks with the files of `write_files`, and errors of those that do not fit."""
    path, x, found = os.path.join(folder, "net"), mx.nd.array(data()), {}

    def attempt(name: str, load: Callable[[Any], object], prefix: str = "net_") -> None:
        with mx.name.NameManager():
            net = networks(mx)["Net"](prefix=prefix)
        try:
            load(net)
            found[name] = net(x).asnumpy()
        except AssertionError as error:
            found[name] = "AssertionError", str(error)[:40]

    for kind in (".paths", ".stripped"):
        attempt(f"load_parameters {kind}", lambda net, kind=kind: net.load_parameters(path + kind))
    attempt("another prefix", lambda net: net.load_parameters(path + ".paths"), "other_")
    for kind in (".names", "-0007.params", ".stripped", ".paths"):
        attempt(f"load {kind}", lambda net, kind=kind: net.collect_params().load(path + kind))
    attempt("restored", lambda net: net.collect_params().load(path + ".stripped",
                                                              restore_prefix="net_"))
    attempt("model", lambda net: net.load(path), "renamed_")
    block = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0007.params")
    found["imports"] = block(x).asnumpy()
    found["paths of imports"] = [*block._collect_params_with_prefix()]
    found["text"] = repr(block)
    for kind in (".twice", ".once"):
        twice = shared(mx, "t_")
        twice.load_parameters(path + kind)
        found[kind] = twice.one.weight.data().asnumpy().shape
    module = mx.mod.Module.load(path, 7, label_names=None)
    module.bind([("data", x.shape)], for_training=False)
    found["module"] = module.predict(mx.io.NDArrayIter(x, batch_size=5)).asnumpy()
    return found


def file_errors(mx: Any, folder: str) -> list[tuple[str, Callable[[], object], int]]:
    """Files that do not fit a network."""
    path = os.path.join(folder, "wrong")

    def load(arrays: dict[str, Any], by_name: bool = False, **kwargs: Any) -> Callable[[], object]:
        def call() -> object:
            net = networks(mx)["Affine"](2, 4, prefix="net_")
            outer = mx.gluon.Block(prefix="")
            outer.layer = net
            mx.nd.save(path, arrays)
            if by_name:
                return outer.collect_params().load(path, **kwargs)
            return outer.load_parameters(path, **kwargs)

        return call

    weight, bias = mx.nd.ones((2, 4)), mx.nd.ones(2)
    whole = {"layer.weight": weight, "layer.bias": bias}
    names = {"net_weight": weight, "net_bias": bias}
    ready = networks(mx)["Affine"](2, 4, prefix="net_")
    ready.initialize()
    ready.save_parameters(path + "0")
    return [
        ("missing", load({"layer.weight": weight}), 46),
        ("missing is allowed", load({"layer.weight": weight}, allow_missing=True), 0),
        ("extra", load({**whole, "a.b": bias}), 30),
        ("extra is allowed", load({**whole, "a.b": bias}, ignore_extra=True), 0),
        ("missing name", load({"net_weight": weight}, True), 40),
        ("extra name", load({**names, "b": bias}, True), 25),
        ("shape", load({**whole, "layer.bias": mx.nd.ones(3)}), 90),
        ("type", load({**whole, "layer.bias": bias.astype("float16")}), 66),
        ("type is cast", load({**whole, "layer.bias": bias.astype("float16")}, cast_dtype=True), 0),
        ("source", load(whole, cast_dtype=True, dtype_source="x"), 0),
        ("prefix", load(names, True, restore_prefix="x_"), 60),
        ("devices", lambda: ready.load_parameters(path + "0", ctx=mx.cpu(1)), 85),
        ("no file", load_absent(mx, folder), 0),
    ]


def load_absent(mx: Any, folder: str) -> Callable[[], object]:
    net = networks(mx)["Affine"](2, 4)
    return lambda: net.load_parameters(os.path.join(folder, "absent"))


def renamed_children(mx: Any, prefix: str) -> list[Any]:
    """Names of children, and the result, of a network read from files of one of other names."""
    class Counted(mx.gluon.Block):  # type: ignore[misc, name-defined]  # a class of either library
        """Children are named by numbers that begin where they ended for the last network."""

        number = 0

        def __init__(self, depth: int):
            super().__init__()
            for _ in range(2):
                Counted.number += 1
                block = Counted(depth - 1) if depth else mx.gluon.nn.Dense(2, in_units=2)
                self.register_child(block, f"child{Counted.number}")

        def forward(self, x: Any) -> Any:
            for block in self._children.values():
                x = block(x)
            return x

    x = mx.nd.array([[1, 2]])
    found: list[Any] = []
    for hybrid in (False, True):
        net, other = Counted(1), Counted(1)
        net.initialize(mx.init.One())
        net.hybridize(hybrid)
        before = net(x)
        net.save(prefix)
        other.load(prefix)
        assert [*net._children] == [*other._children]
        found += [before.asnumpy(), other(x).asnumpy(),
                  sorted(other._collect_params_with_prefix())]
    return found


def order_of_values(mx: Any, hybrid: bool) -> dict[str, float]:
    """Which parameter is filled first, which second, ... when a call tells the shapes."""
    counts = itertools.count()

    class Count(mx.init.Initializer):  # type: ignore[misc]
        def _init_weight(self, name: Any, arr: Any) -> None:
            arr[:] = next(counts)

    class Branches(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name in "cab":
                setattr(self, name, mx.gluon.nn.Dense(2, use_bias=False))
            self.own = self.params.get("own", shape=(3, 0), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, own: Any) -> Any:
            return F.FullyConnected(self.b(self.a(x)) + self.c(x), own, num_hidden=3, no_bias=True)

    block = Branches()
    block.initialize(Count())
    if hybrid:
        block.hybridize()
    block(mx.nd.ones((1, 3)))
    return {name: each.data().asnumpy().max().item()
            for name, each in block._collect_params_with_prefix().items()}
