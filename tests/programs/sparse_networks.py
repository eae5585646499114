"""Networks with sparse arguments; `mx` is nbmod in the tests and MXNet in the oracle's worker."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]], np.float32)


def network(mx: Any, name: str) -> Any:
    """A network that reads csr `data` or integers, with row_sparse weights."""
    sym = mx.sym
    data, weight = sym.Variable("data", stype="csr"), sym.Variable("w", stype="row_sparse",
                                                                   shape=(3, 2))
    if name == "linear":
        return sym.broadcast_add(sym.dot(data, weight), sym.Variable("b", shape=(2,)))
    if name == "dense weight":
        return sym.dot(data, sym.Variable("w", shape=(3, 2)))
    if name == "used twice":
        return sym.dot(data, weight) + sym.dot(sym.square(data), weight)
    if name == "sparse outputs":
        return sym.Group([sym.dot(data, sym.Variable("u", shape=(3, 2)), transpose_a=True),
                          sym.abs(data), sym.BlockGrad(weight * 2)])
    if name == "factorization machine":
        first = sym.Variable("w1", stype="row_sparse", shape=(3, 1))
        pairs = sym.sum(sym.square(sym.dot(data, weight)), axis=1, keepdims=True)
        squares = sym.dot(sym.square(data), sym._internal._square_sum(weight, axis=1,
                                                                      keepdims=True))
        return sym.LinearRegressionOutput(sym.dot(data, first) + 0.5 * (pairs - squares),
                                          sym.Variable("label"))
    found = sym.Embedding(sym.Variable("ids"), weight, input_dim=3, output_dim=2,
                          sparse_grad=True)
    if name == "embedding":
        return sym.make_loss(sym.sum(sym.square(found)))
    return sym.FullyConnected(sym.Flatten(found), num_hidden=2, name="fc")  # "deep"


NETWORKS = ["linear", "dense weight", "used twice", "sparse outputs", "factorization machine",
            "embedding", "deep"]
SHAPES = {"data": (3, 3), "ids": (4,), "label": (3, 1)}


def bound(mx: Any, name: str) -> Any:
    """The network, bound and filled."""
    net = network(mx, name)
    arguments = net.list_arguments()
    requests = {each: "null" if each in SHAPES else "write" for each in arguments}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **{
        each: shape for each, shape in SHAPES.items() if each in arguments})
    for each, array in executor.arg_dict.items():
        values = {"data": X, "ids": np.array([0, 2, 2, 0])}.get(
            each, np.arange(np.prod(array.shape)).reshape(array.shape) + 1)
        mx.nd.array(values).tostype(array.stype).copyto(array)
    return executor


def results(mx: Any, name: str) -> dict[str, Any]:
    """Storage types of all arrays; elements of outputs and gradients, in training."""
    executor = bound(mx, name)
    outputs = executor.forward(is_train=True)
    loss = name in ("factorization machine", "embedding")
    executor.backward(None if loss else [mx.nd.ones(output.shape) for output in outputs])
    arrays = {each: grad for each, grad in executor.grad_dict.items() if grad is not None}
    arrays.update({f"output {place}": output for place, output in enumerate(outputs)})
    return {"arguments": {each: array.stype for each, array in executor.arg_dict.items()},
            "arrays": {each: (array.stype, array.asnumpy()) for each, array in arrays.items()}}
