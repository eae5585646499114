"""Shapes under both meanings of 0, -1 and (), as expressions for any implementation."""

from __future__ import annotations

import warnings
from typing import Any

CREATED = ("mx.nd.ones(()).shape", "mx.nd.zeros(()).asnumpy().tolist()",
           "mx.nd.zeros((-1, 2)).shape", "mx.nd.full((), 3).shape",
           "mx.nd.empty((2, 3)).shape", "mx.nd.array(3).shape",
           "mx.nd.ones((2,))[0].shape", "mx.nd.ones((2, 3))[0].shape",
           "mx.nd.ones((2, 3))[1, 2].shape", "mx.nd.ones((2, 3)).sum().shape",
           "mx.nd.random.uniform(shape=(2,)).shape", "mx.nd.random.uniform(shape=()).shape")
"""Arrays."""
INFERRED = ("fc.infer_shape(x=(-1, 3))", "fc.infer_shape_partial(x=(-1, 3))",
            "fc.infer_shape_partial()", "fc.infer_shape()", "add.infer_shape(x=(2, -1), y=(-1, 3))",
            "add.infer_shape_partial(x=(2, -1))", "add.infer_shape_partial(x=())",
            "add.infer_shape(x=(), y=())", "add.infer_shape(x=())",
            "mx.sym.sum(x).infer_shape(x=(2, -1))", "mx.sym.sum(x).infer_shape(x=())",
            "(mx.sym.var('v', shape=(-1, 2)) + 1).infer_shape_partial()",
            "(mx.sym.var('v', shape=(-1, 2)) + y).infer_shape_partial(y=(3, 2))",
            "(mx.sym.random.normal(shape=()) + x).infer_shape(x=(2, 3))",
            "mx.sym.random.normal(shape=()).infer_shape()", "mx.sym.var('v').tojson()")
"""Symbols."""


def answers(mx: Any) -> dict[str, Any]:
    """What each expression is under each meaning, or that it is an error."""
    x, y = mx.sym.var("x"), mx.sym.var("y")
    names = {"mx": mx, "x": x, "y": y, "add": x + y,
             "fc": mx.sym.FullyConnected(x, num_hidden=4, name="fc")}
    found: dict[str, Any] = {}
    for active in (False, True):
        with mx.util.np_shape(active), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for text in CREATED + INFERRED:
                try:
                    found[f"{text} {active}"] = str(eval(text, dict(names)))
                except mx.MXNetError:
                    found[f"{text} {active}"] = "error"
    return found
