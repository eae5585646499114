"""MXNet and nbmod: the same calls for both."""

from __future__ import annotations

from typing import Any

from .network import Built, Network

__all__ = ["bind"]


def bind(mx: Any, network: Network) -> Built:
    """`network` bound by the package `mx`."""
    requests = {name: "write" if network.training and name in network.wanted else "null"
                for name in network.args}
    executor = mx.sym.load_json(network.graph).simple_bind(
        mx.cpu(), grad_req=requests, **network.args)
    for name, value in network.values().items():
        (executor.arg_dict if name in network.args else executor.aux_dict)[name][:] = value
    heads = None if network.has_loss else [mx.nd.ones(out.shape) for out in executor.outputs]

    def step() -> None:
        executor.forward(is_train=network.training)
        if network.training:
            executor.backward() if heads is None else executor.backward(heads)
        mx.nd.waitall()

    return Built(step, lambda: executor.outputs[0].asnumpy())
