"""Symbols and arrays made after `amp.init`, the same in nbmod and MXNet; imports neither of them.

`started` changes its process: MXNet's has to be one of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


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
