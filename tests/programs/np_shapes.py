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

BOUND = (
    "e + e", "e * 2", "S.concat(f, e, f, dim=0)", "S.concat(e, e, dim=1)", "S.stack(e, e)",
    "S.sum(e)", "S.sum(e, axis=0) + S.sum(f, axis=0)", "S.mean(e)", "S.tile(e, reps=(2, 3))",
    "S.one_hot(e, 4)", "S.repeat(e, repeats=2, axis=1)", "S.transpose(e)",
    "S.reshape(e, shape=(3, -1))", "S.reshape(e, shape=(-1,))", "S.expand_dims(e, 0)",
    "S.dot(e, S.transpose(f))", "S.relu(e)", "S.softmax(e)", "S.where(e, e, e)",
    "S.slice_axis(e, axis=1, begin=0, end=2)", "S.zeros_like(e)", "S.square(e).sum()",
    "S.BatchNorm(e, name='norm')", "S.Dropout(e)", "S.norm(e)",
    "S.SoftmaxOutput(e, name='softmax')", "S.MakeLoss(e)",
    "S.split(e, num_outputs=3, axis=1)[1]", "S.add_n(e, e)", "S.clip(e, 0, 1)", "S.topk(e)",
    "S.Cast(e, dtype='int32')",
    "S.zeros((0, 3)) + e", "S.zeros((0, 3))",
    "S.concat(S.sum(e, axis=0, keepdims=True), f, dim=0)", "S.argmax(e, axis=1)",
    "S.shape_array(e)", "S.L2Normalization(e)", "S.broadcast_like(e, e)",
    "S.broadcast_mul(e, S.sum(f, axis=0, keepdims=True))", "S.broadcast_add(e, f)",
    "S.concat(S.var('v', shape=(0, 3)), f, dim=0)",
    "S.Pooling(i, kernel=(2, 2))",
    "S.Pooling(i, global_pool=True, kernel=(1, 1))", "S.BatchNorm(i, name='norm')",
    "S.UpSampling(i, scale=2, sample_type='nearest')", "S.Flatten(i)",
    "S.contrib.ROIAlign(S.ones((1, 2, 4, 4)), S.reshape(i, shape=(-1, 5)), pooled_size=(2, 2), "
    "spatial_scale=1)",
)
"""Networks of `e` (0, 3) and `i` (0, 2, 5, 4), without elements, and `f` (2, 3), which MXNet always
survives."""
FORWARD = (
    "S.FullyConnected(S.relu(S.FullyConnected(e, num_hidden=4, name='a')), num_hidden=2, name='b')",
    "S.Convolution(i, kernel=(3, 3), num_filter=2, name='conv')",
    "S.Deconvolution(i, kernel=(2, 2), num_filter=3, name='conv')",
    "S.Embedding(e, input_dim=5, output_dim=2, name='words')", "S.LayerNorm(e, name='norm')",
    "S.take(f, S.reshape(e, shape=(-1,)))",
)
"""Those whose gradients MXNet's operators refuse to compute, which ends its process later."""


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


def bound_answers(mx: Any) -> dict[str, list[str]]:
    """Of each network: inferred shapes, outputs, and gradients with zero input, or the error."""
    return {text: bound(mx, text, text not in FORWARD) for text in BOUND + FORWARD}


def bound(mx: Any, text: str, is_trained: bool) -> list[str]:
    """The answers of one network, with gradients if `is_trained`."""
    given = {"e": (0, 3), "f": (2, 3), "i": (0, 2, 5, 4)}
    symbols = {name: mx.sym.var(name) for name in given}
    found: list[str] = []
    with mx.util.np_shape(True):
        net = eval(text, {"S": mx.sym, **symbols})
        shapes = {name: given[name] for name in net.list_arguments() if name in given}
        try:
            found.append(str(net.infer_shape(**shapes)))
            executor = net.simple_bind(mx.cpu(), grad_req="write" if is_trained else "null",
                                       **shapes)
            outputs = executor.forward(is_train=True)
            found.append(str([(y.dtype.__name__, y.shape, y.asnumpy().tolist()) for y in outputs]))
            if not is_trained:
                return found
            executor.backward([mx.nd.ones(y.shape, dtype=y.dtype) for y in outputs])
            found.append(str({name: (gradient.shape, gradient.asnumpy().tolist())
                              for name, gradient in sorted(executor.grad_dict.items())}))
        except (mx.MXNetError, RuntimeError):
            found.append("error")
    return found


def loaded(mx: Any) -> dict[str, str]:
    """The inferred shape of a weight, by what a file declares for it and how it is read."""
    found = {}
    for text, numpy in (("(128, 0)", False), ("(0, 0)", False), ("(128, 784)", False),
                        ("(128, -1)", True)):
        weight = mx.sym.var("weight", attr={"__shape__": text})
        layer = mx.sym.FullyConnected(mx.sym.var("x"), weight, num_hidden=128, no_bias=True)
        with mx.util.np_shape(numpy):
            file = layer.tojson()
        for reads in (False, True):
            with mx.util.np_shape(reads):
                try:
                    shapes = mx.sym.load_json(file).infer_shape(x=(10, 784))[0]
                except mx.MXNetError:
                    shapes = [None, None]
            found[f"{text} read as {reads}"] = str(shapes[1])
    return found
