"""MXNet and nbmod: the same calls for both."""

from __future__ import annotations

from typing import Any

from .network import SGD, Built, Network

__all__ = ["bind"]


def bind(mx: Any, network: Network) -> Built:
    """`network` bound by the package `mx`: by a module where there is something to update."""
    return _module(mx, network) if network.updates else _executor(mx, network)


def _module(mx: Any, network: Network) -> Built:
    place = getattr(mx, network.device)()
    values = {name: mx.nd.array(value, ctx=place) for name, value in network.values().items()}
    given = [name for name in network.args if name not in network.wanted]
    states = [name for name in given if "state" in name]
    labels = [name for name in given if name.endswith("_label")]
    inputs = [name for name in given if name not in (*states, *labels)]
    module = mx.mod.Module(mx.sym.load_json(network.graph), inputs, labels, context=place,
                           state_names=states)
    module.bind(*([(name, network.args[name]) for name in names] for names in (inputs, labels)))
    module.init_params(arg_params={name: values[name] for name in network.wanted},
                       aux_params={name: values[name] for name in network.aux})
    module.init_optimizer(kvstore=None, optimizer="sgd", optimizer_params=SGD)
    if states:
        module.set_states(value=0)
    batch = mx.io.DataBatch(*([values[name] for name in names] for names in (inputs, labels)))

    def step() -> None:
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()

    return Built(step, lambda: module.get_outputs()[0].asnumpy())


def _executor(mx: Any, network: Network) -> Built:
    requests = {name: "write" if network.training and name in network.wanted else "null"
                for name in network.args}
    place = getattr(mx, network.device)()
    executor = mx.sym.load_json(network.graph).simple_bind(
        place, grad_req=requests, **network.args)
    for name, value in network.values().items():
        (executor.arg_dict if name in network.args else executor.aux_dict)[name][:] = value
    heads = None if network.has_loss else [mx.nd.ones(out.shape, ctx=place)
                                           for out in executor.outputs]

    def step() -> None:
        executor.forward(is_train=network.training)
        if network.training:
            executor.backward() if heads is None else executor.backward(heads)
        mx.nd.waitall()

    return Built(step, lambda: executor.outputs[0].asnumpy())
