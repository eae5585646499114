"""Recurrent cells and layers of Gluon: texts, parameters, graphs, and values from equal weights.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.programs.gluon_layers import numbers, parameters

LENGTHS = [1, 3, 2]


def cells(rnn: Any) -> dict[str, Callable[[], Any]]:
    """Makers of cells, by name."""
    def row(kind: str) -> Any:
        cell = getattr(rnn, kind)()
        with cell.name_scope():
            for each in (rnn.LSTMCell(3), rnn.DropoutCell(0.3), rnn.GRUCell(2)):
                cell.add(each)
        return cell

    return {
        "rnn": lambda: rnn.RNNCell(3),
        "relu": lambda: rnn.RNNCell(3, activation="relu", input_size=4, prefix="a_"),
        "softrelu": lambda: rnn.RNNCell(3, "softrelu", i2h_bias_initializer="ones"),
        "lstm": lambda: rnn.LSTMCell(3),
        "soft lstm": lambda: rnn.LSTMCell(3, activation="softsign", recurrent_activation="relu",
                                          h2h_weight_initializer="ones"),
        "gru": lambda: rnn.GRUCell(3),
        "sequential": lambda: row("SequentialRNNCell"),
        "hybrid sequential": lambda: row("HybridSequentialRNNCell"),
        "dropout": lambda: rnn.DropoutCell(0.3, axes=(1,)),
        "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(3), 0.2, 0.3),
        "zoneout of states": lambda: rnn.ZoneoutCell(rnn.LSTMCell(3), zoneout_states=0.3),
        "residual": lambda: rnn.ResidualCell(rnn.LSTMCell(4)),
        "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(3, prefix="l_"),
                                                       rnn.GRUCell(3, prefix="r_")),
    }


def describe_cells(mx: Any) -> dict[str, Any]:
    """Of each cell: text, parameters, names in files, and the graphs of a step and of unrolling."""
    makers = cells(mx.gluon.rnn)
    return {name: _describe_cell(mx, make) for name, make in makers.items()}


def _describe_cell(mx: Any, make: Callable[[], Any]) -> dict[str, Any]:
    with mx.name.NameManager():
        cell = make()
        count = len(cell.state_info())
        found = {"text": repr(cell), "name": cell.name, "prefix": cell.prefix,
                 "parameters": parameters(cell), "states": cell.state_info(5),
                 "keys": [*cell._collect_params_with_prefix()]}
        states = [mx.sym.var(f"s{index}") for index in range(count)]
        if not isinstance(cell, mx.gluon.rnn.BidirectionalCell):
            found["step"] = _graph(mx, cell(mx.sym.var("x"), states))
    for merge, layout, lengths in ((None, "NTC", False), (False, "TNC", False),
                                   (True, "NTC", False), (True, "TNC", True),
                                   (False, "NTC", True), (None, "NTC", True)):
        with mx.name.NameManager():
            valid = {"valid_length": mx.sym.var("lengths")} if lengths else {}
            found[f"{merge} {layout} {lengths}"] = _unrolled(
                mx, make(), layout=layout, merge_outputs=merge, **valid)
    return found


def _unrolled(mx: Any, cell: Any, **kwargs: Any) -> Any:
    """The graph of two steps; None where MXNet fails (a residual cell with lengths, in steps)."""
    try:
        return _graph(mx, cell.unroll(2, mx.sym.var("x"), **kwargs))
    except mx.MXNetError:
        return None


def _graph(mx: Any, outputs: Any) -> Any:
    return json.loads(mx.sym.Group(_flat(outputs)).tojson())


def _flat(outputs: Any) -> list[Any]:
    """The arrays or symbols in nested lists."""
    if not isinstance(outputs, (list, tuple)):
        return [outputs]
    return [each for part in outputs for each in _flat(part)]


def cell_values(mx: Any, hybridized: bool = False) -> dict[str, Any]:
    """Of each cell without draws in training: outputs, states and gradients of unrolled steps."""
    found = {}
    for name, make in cells(mx.gluon.rnn).items():
        for lengths in (False, True):
            found[f"{name} {lengths}"] = _cell_values(mx, make, lengths, hybridized)
    return found


def _cell_values(mx: Any, make: Callable[[], Any], lengths: bool, hybridized: bool,
                 shape: tuple[int, ...] = (4,)) -> Any:
    cell = make()
    cell.initialize()
    if hybridized:
        cell.hybridize()
    inputs = mx.nd.array(numbers((3, 3, *shape), 1))
    valid = {"valid_length": mx.nd.array(LENGTHS)} if lengths else {}
    begin = [mx.nd.array(numbers(info["shape"], 2 + index))
             for index, info in enumerate(cell.state_info(3))]
    cell.unroll(3, inputs, begin, merge_outputs=True, **valid)
    _set(mx, cell)
    inputs.attach_grad()
    with mx.autograd.record(train_mode=False):
        outputs, states = cell.unroll(3, inputs, begin, merge_outputs=True, **valid)
        total = (outputs * mx.nd.array(numbers(outputs.shape, 7))).sum()
    total.backward(train_mode=False)
    return {"outputs": outputs.asnumpy(), "states": [each.asnumpy() for each in states],
            "inputs": inputs.grad.asnumpy(), "text": repr(cell), "gradients": _gradients(cell)}


def _set(mx: Any, block: Any) -> None:
    """Give all parameters values that depend on nothing but shapes and order."""
    for index, each in enumerate(block.collect_params().values()):
        each.set_data(mx.nd.array(numbers(each.shape, 20 + index)) / 2)


def _gradients(block: Any) -> list[Any]:
    return [each.grad().asnumpy() for each in block.collect_params().values()]


# -- layers -----------------------------------------------------------------------------------

LAYERS = (
    ("RNN", (3,), {}), ("RNN", (3, 2, "tanh"), {"layout": "NTC", "input_size": 4}),
    ("GRU", (3,), {"bidirectional": True}),
    ("LSTM", (3, 2, "NTC", 0.2, True), {"input_size": 4, "i2h_weight_initializer": "ones",
                                        "h2h_bias_initializer": "ones"}),
    ("LSTM", (3,), {"projection_size": 2, "prefix": "p_"}),
    ("LSTM", (3,), {"state_clip_min": -0.1, "state_clip_max": 0.1, "state_clip_nan": True}),
    ("GRU", (3, 3), {"dtype": "float64"}), ("RNN", (3, 2), {"dropout": 0.1}),
    ("LSTM", (3,), {"use_sequence_length": True, "bidirectional": True}),
)
"""(class, arguments, keywords); the last one takes the lengths of its sequences."""


def describe_layers(mx: Any) -> list[dict[str, Any]]:
    """Of each layer: text, parameters, names in files, states, and graphs of both calls."""
    found = []
    for name, args, kwargs in LAYERS:
        lengths = {"sequence_length": mx.sym.var("n")} if "use_sequence_length" in kwargs else {}
        with mx.name.NameManager():
            layer = getattr(mx.gluon.rnn, name)(*args, **kwargs)
            facts = {"text": repr(layer), "name": layer.name, "parameters": parameters(layer),
                     "keys": [*layer._collect_params_with_prefix()], "info": layer.state_info(5),
                     "outputs": _graph(mx, layer(mx.sym.var("x"), **lengths))}
        with mx.name.NameManager():
            layer = getattr(mx.gluon.rnn, name)(*args, **kwargs)
            states = [mx.sym.var(f"s{index}") for index in range(len(layer.state_info()))]
            outputs = layer(mx.sym.var("x"), states, **lengths)
            facts |= {"states": _graph(mx, outputs), "kinds": [type(each).__name__
                                                               for each in outputs]}
        found.append(facts)
    return found


def layer_values(mx: Any, hybridized: bool = False) -> list[dict[str, Any]]:
    """Of each layer: outputs, states and gradients, with and without states."""
    return [_layer_values(mx, *case, hybridized) for case in LAYERS
            if not {*case[2]} & GPU_ONLY]


GPU_ONLY = {"projection_size", "state_clip_min", "use_sequence_length"}
"""Settings with which MXNet does not train on a CPU, or which it ignores there."""


def _layer_values(mx: Any, name: str, args: Any, kwargs: Any, hybridized: bool) -> dict[str, Any]:
    layer = getattr(mx.gluon.rnn, name)(*args, **kwargs)
    layer.initialize()
    if hybridized:
        layer.hybridize()
    dtype = kwargs.get("dtype", "float32")
    inputs = mx.nd.array(numbers((3, 3, 4), 1), dtype=dtype)
    layer(inputs)
    _set(mx, layer)
    begin = [mx.nd.array(numbers(info["shape"], 2 + index), dtype=dtype)
             for index, info in enumerate(layer.state_info(3))]
    inputs.attach_grad()
    found = {"outputs": layer(inputs).asnumpy(), "text": repr(layer)}
    with mx.autograd.record(train_mode=False):
        outputs, states = layer(inputs, begin)
        total = (outputs * mx.nd.array(numbers(outputs.shape, 7), dtype=dtype)).sum()
    total.backward(train_mode=False)
    return {**found, "later": outputs.asnumpy(), "states": [each.asnumpy() for each in states],
            "inputs": inputs.grad.asnumpy(), "gradients": _gradients(layer)}


def unfused(mx: Any) -> list[Any]:
    """Texts, names and outputs of the cells that layers consist of."""
    found = []
    for name, args, kwargs in LAYERS[:4]:
        layer = getattr(mx.gluon.rnn, name)(*args, **{"prefix": "f_", "input_size": 4, **kwargs})
        layer.initialize()
        _set(mx, layer)
        cell = layer._unfuse()
        outputs, _ = cell.unroll(3, mx.nd.array(numbers((3, 3, 4), 1)), layout=layer._layout,
                                 merge_outputs=True)
        found.append((repr(cell), [*cell.collect_params()], outputs.asnumpy()))
    return found
