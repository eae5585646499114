"""Subjects: a network called on arrays, by `CachedOp` and by an executor.

The network is one of dense layers of four units, so that what is timed is the cost of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

BATCH, UNITS = 2, 4


def dense_layers(mx: Any, layers: int) -> Any:
    x = mx.sym.var("data")
    for index in range(layers):
        x = mx.sym.FullyConnected(x, num_hidden=UNITS, name=f"fc{index}")
    return x


def _parameters(mx: Any, symbol: Any) -> dict[str, Any]:
    shapes, _, _ = symbol.infer_shape(data=(BATCH, UNITS))
    arrays = {name: mx.nd.ones(shape) * 0.1
              for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
              if name != "data"}
    for array in arrays.values():
        array.attach_grad()
    return arrays


def executor(mx: Any, layers: int, trains: bool) -> Callable[[], object]:
    """The input is copied, the network runs, and its gradients too if it trains."""
    symbol = dense_layers(mx, layers)
    arrays = _parameters(mx, symbol)
    x, head = mx.nd.ones((BATCH, UNITS)), mx.nd.ones((BATCH, UNITS))
    bound = symbol.bind(mx.cpu(), {"data": x.copy(), **arrays},
                        {name: array.grad for name, array in arrays.items()} if trains else None,
                        "write" if trains else "null")

    def step() -> None:
        bound.forward(trains, data=x)
        if trains:
            bound.backward([head])
        bound.outputs[0].wait_to_read()

    return step


def cached_op(mx: Any, layers: int, trains: bool, loss: bool = False) -> Callable[[], object]:
    """The same by a `CachedOp`, whose outputs are new arrays; `loss` is computed eagerly."""
    symbol = dense_layers(mx, layers)
    arrays = _parameters(mx, symbol)
    x, head = mx.nd.ones((BATCH, UNITS)), mx.nd.ones((BATCH, UNITS))
    call = _network(mx, symbol, arrays)

    def step() -> None:
        if not trains:
            call(x).wait_to_read()
            return
        with mx.autograd.record():
            y = call(x)
            if loss:
                y = (y * y).sum()
        if loss:
            y.backward()
        else:
            y.backward(head)
        arrays["fc0_weight"].grad.wait_to_read()

    return step


def _network(mx: Any, symbol: Any, arrays: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A call of the network; MXNet's takes the parameters as further inputs."""
    if hasattr(mx.nd.CachedOp, "executor"):
        return mx.nd.CachedOp(symbol, (), ["data"], lambda ctx: arrays)
    net = mx.nd.CachedOp(symbol, (("static_alloc", True), ("static_shape", True)))
    names = symbol.list_inputs()
    return lambda x: net(*[arrays.get(name, x) for name in names])
