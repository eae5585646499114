"""Mixed precision of symbols, arrays and blocks, the same in nbmod and MXNet; imports neither.

`started` and `traced_before` change their process: MXNet's has to be one of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


def symbols(mx: Any) -> dict[str, Callable[[], Any]]:
    """Networks by name; each is made when it is called."""
    s, x = mx.sym, mx.sym.Variable("data")

    def dense() -> Any:
        return s.FullyConnected(x, num_hidden=3)

    def norm() -> Any:
        return s.BatchNorm(s.Convolution(x, kernel=(3, 3), num_filter=3, name="c"))

    def in_scope() -> Any:
        with mx.AttrScope(ctx_group="one"), mx.name.Prefix("net_"):
            return s.softmax(dense())

    return {
        "named": lambda: s.FullyConnected(x, num_hidden=3, name="fc", attr={"lr_mult": "2"}),
        "single after low": lambda: s.softmax(dense()),
        "conditional": lambda: s.Activation(s.Activation(x, act_type="softrelu"),
                                            act_type="relu"),
        "by default": lambda: s.LeakyReLU(s.LeakyReLU(x), act_type="elu"),
        "auxiliary states": lambda: s.SoftmaxOutput(norm(), name="softmax"),
        "widest": lambda: s.elemwise_add(x, dense()),
        "operator": lambda: (x + dense()) * x > x,
        "with numbers": lambda: 2 / (x * 3) ** 2,
        "variadic": lambda: s.concat(s.Concat(x, dense(), dim=0), x, x),
        "method": lambda: x.exp().sum(),
        "namespaces": lambda: s.linalg.gemm2(x, s.contrib.div_sqrt_dim(x)),
        "one of several outputs": lambda: s.square(s.split(x, num_outputs=2)[1]),
        "cell": lambda: mx.rnn.LSTMCell(3).unroll(2, x)[0][1],
        "fused cell": lambda: mx.rnn.FusedRNNCell(3, prefix="f_").unroll(2, x, layout="TNC")[0],
        "scopes": in_scope,
        "embedding": lambda: s.FullyConnected(s.Embedding(x, input_dim=3, output_dim=2),
                                              num_hidden=2),
    }


def started(mx: Any) -> dict[str, str]:
    """The texts of all networks, after `amp.init`."""
    importlib.import_module(f"{mx.__name__}.contrib.amp").init()
    texts = {}
    for name, make in symbols(mx).items():
        with mx.name.NameManager():
            texts[name] = make().tojson(remove_amp_cast=False)
    return texts


def types(mx: Any) -> list[str]:
    """The types of what operators on arrays return, where a CPU of MXNet computes them."""
    single = mx.nd.ones((2, 2))
    low, double = single.astype("float16"), single.astype("float64")
    results = [low + low, low + single, mx.nd.concat(low, low), mx.nd.where(low, low, single),
               mx.nd.exp(single), mx.nd.exp(double), single * 2, low * 2, low ** 2.0,
               mx.nd.dot(single, single), mx.nd.relu(low)]
    return [result.dtype.__name__ for result in results]


# -- blocks ----------------------------------------------------------------------------------------


def image_block(mx: Any, *, hybrid: bool = True, called: bool = True) -> Any:
    """A small network for images, traced if it is hybridized and called."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=3), nn.BatchNorm(in_channels=4),
                nn.Activation("relu"), nn.Dense(3, in_units=64))
    net.initialize(mx.init.One())
    if hybrid:
        net.hybridize()
    if called:
        net(images(mx))
    return net


def images(mx: Any) -> Any:
    """A batch for `image_block`."""
    return mx.nd.arange(216).reshape((2, 3, 6, 6)) / 216


def prelu_block(mx: Any) -> Any:
    """A traced network whose slopes are read beside what convolutions return."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="p_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=3), nn.PReLU(), nn.Dense(3, in_units=64))
    net.initialize(mx.init.One())
    net.hybridize()
    net(images(mx))
    return net


def nested_block(mx: Any) -> Any:
    """A traced network of structured arguments and results."""
    class Nested(mx.gluon.HybridBlock):     # type: ignore[misc, name-defined]
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.a = mx.gluon.nn.Dense(2, in_units=3)
                self.b = mx.gluon.nn.Dense(2, in_units=3)

        def hybrid_forward(self, F: Any, x: Any, s: Any) -> Any:  # noqa: N803
            return self.a(x) + F.exp(s[0]), [self.b(s[1]), s[0]]

    net, x, h = Nested(prefix="t_"), mx.nd.ones((2, 3)), mx.nd.ones((2, 2))
    net.initialize(mx.init.One())
    net.hybridize()
    net(x, [h, x])
    return net


def symbol_block(mx: Any) -> Any:
    """A network given by a symbol."""
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    net = mx.gluon.SymbolBlock(dense, mx.sym.Variable("data"))
    net.initialize(mx.init.One())
    net(mx.nd.ones((1, 3)))
    return net


def converted(mx: Any) -> dict[str, Any]:
    """Symbols, parameters and devices of converted blocks; MXNet computes float16 on GPUs only."""
    amp, answers = importlib.import_module(f"{mx.__name__}.contrib.amp"), {}
    options: dict[str, dict[str, Any]] = {
        "": {}, "optional": {"cast_optional_params": True},
        "excluded": {"excluded_sym_names": ["net_conv0_fwd", "t_dense0_fwd"]},
        "lists": {"target_dtype_ops": ["FullyConnected"], "fp32_ops": ["Convolution"],
                  "conditional_fp32_ops": [("Activation", "act_type", ["relu"])]},
        "without lists": {"target_dtype_ops": ["Convolution"], "cast_optional_params": True},
        "devices": {"ctx": [mx.cpu(0), mx.cpu(1)]}}
    for make in (image_block, prelu_block, nested_block, symbol_block):
        for name, option in options.items():
            net = amp.convert_hybrid_block(make(mx), **{"ctx": mx.cpu(), **option})
            inputs, symbol = net._cached_graph
            answers[f"{make.__name__} {name}"] = (
                symbol.tojson(remove_amp_cast=False), [each.name for each in inputs],
                {key: (np.dtype(each.data().dtype).name, each.grad_req, str(each.list_ctx()))
                 for key, each in net.collect_params().items()})
    return answers


def traced_before(mx: Any) -> dict[str, Any]:
    """Numbers of casts in traces, and types of results, after `amp.init`."""
    traced, hybridized, again, cast, plain, small = (
        image_block(mx), image_block(mx, called=False), image_block(mx), image_block(mx),
        image_block(mx, hybrid=False), symbol_block(mx))
    importlib.import_module(f"{mx.__name__}.contrib.amp").init()
    again.hybridize()
    cast.cast("float32")
    plain.hybridize(clear=False)
    x = images(mx)
    calls = {"traced": (traced, x), "for another shape": (traced, mx.nd.ones((5, 3, 6, 6))),
             "a layer of it": (traced[3], mx.nd.ones((2, 64))), "hybridized": (hybridized, x),
             "hybridized again": (again, x), "cast": (cast, x), "not hybridized": (plain, x),
             "of a symbol": (small, mx.nd.ones((1, 3)))}
    return {name: [net(data).dtype.__name__, casts_of(net)] for name, (net, data) in calls.items()}


def casts_of(net: Any) -> int:
    """The number of casts in the trace of a block."""
    internals = net._cached_graph[1].get_internals()
    return sum("amp_" in name for name in internals.list_outputs())
