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
EMPTY = (
    "e + e", "e * 2", "mx.nd.concat(e, f, dim=0)", "mx.nd.concat(f, e, f, dim=0)",
    "mx.nd.concat(e, e, dim=1)", "mx.nd.stack(e, e)", "e.sum()", "e.sum(axis=0)",
    "e.mean()", "e.max()", "e.argmax(axis=0)",
    "mx.nd.tile(e, (2, 3))", "mx.nd.one_hot(e, 4)",
    "mx.nd.repeat(e, 2, axis=1)", "e.T", "e.reshape((3, 0))", "e.reshape((-1,))",
    "e.expand_dims(0)", "mx.nd.dot(e, f.T)", "mx.nd.relu(e)", "mx.nd.softmax(e)", "e == e",
    "e.astype('int32')",
    "e.slice_axis(axis=1, begin=0, end=2)", "mx.nd.where(e, e, e)", "mx.nd.zeros_like(e)",
    "mx.nd.contrib.boolean_mask(f, mx.nd.zeros(2))",
    "mx.nd.broadcast_add(e, f)", "mx.nd.gather_nd(f, mx.nd.zeros((2, 0)))",
    "mx.nd.batch_dot(mx.nd.zeros((0, 2, 3)), mx.nd.zeros((0, 3, 4)))",
    "mx.nd.LayerNorm(e, mx.nd.ones(3), mx.nd.ones(3))", "mx.nd.contrib.index_array(e)",
    "mx.nd.split(mx.nd.zeros((0, 4)), num_outputs=2, axis=1)[1]", "mx.nd.shape_array(e)",
    "mx.nd.swapaxes(e, 0, 1)", "mx.nd.add_n(e, e)", "mx.nd.clip(e, 0, 1)", "e[:, 1]",
)
"""Arrays made of `e` (0, 3), without elements, and `f` (2, 3), where MXNet does not fail later."""


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


def empty_answers(mx: Any) -> dict[str, Any]:
    """Each array that is computed from arrays without elements, and the gradient of `f`."""
    found: dict[str, Any] = {}
    with mx.util.np_shape(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in EMPTY:
            e, f = mx.nd.zeros((0, 3)), mx.nd.ones((2, 3))
            for array in (e, f):
                array.attach_grad()
            try:
                with mx.autograd.record():
                    y = eval(text, {"mx": mx, "e": e, "f": f})
                found[text] = f"{y.dtype.__name__} {y.shape} {y.asnumpy().tolist()}"
                if " f" in text:
                    y.backward()
                    found[text] += f" {f.grad.asnumpy().tolist()}"
            except mx.MXNetError:
                found[text] = "error"
    return found
