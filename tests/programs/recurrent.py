"""Programs over recurrent layers that run in MXNet and in nbmod."""

from __future__ import annotations

from typing import Any

import numpy as np


def unpacked(mx: Any, mode: str, hidden: int, layers: int, both: bool, size: int
             ) -> dict[str, np.ndarray]:
    """A fused cell's weights, unpacked from the vector 0, 1, 2, ...."""
    cell = mx.rnn.FusedRNNCell(hidden, layers, mode, bidirectional=both, prefix="")
    pieces = cell.unpack_weights({"parameters": mx.nd.arange(size)})
    return {name: array.asnumpy() for name, array in pieces.items()}


def initialized(mx: Any, hidden: int, layers: int, mode: str, both: bool, by_attribute: bool
                ) -> list[Any]:
    """The JSON of a FusedRNN, and a vector that it fills with ones."""
    init = mx.init.FusedRNN(None if by_attribute else mx.init.Constant(3.0), hidden, layers, mode,
                            both, 2.5)
    shape = mx.sym.RNN(mx.sym.Variable("x"), state_size=hidden, num_layers=layers, mode=mode,
                       bidirectional=both, name="rnn").infer_shape(x=(2, 3, 5))[0][1]
    array = mx.nd.zeros(shape)
    if by_attribute:
        attrs = {"__init__": init.dumps()}
        mx.init.Constant(3.0)(mx.init.InitDesc("rnn_parameters", attrs), array)
    else:
        init(mx.init.InitDesc("rnn_weight"), array)
    return [init.dumps(), array.asnumpy()]


def pieces_seen(mx: Any) -> list[tuple]:
    """Names and shapes with which FusedRNN calls its initializer for the pieces."""
    seen = []

    class Recorder(mx.init.Initializer):
        def __call__(self, desc, arr):
            seen.append((str(desc), dict(desc.attrs), type(desc.global_init).__name__, arr.shape))

    mx.init.FusedRNN(Recorder(), 4, 2, "lstm", True)._init_weight(
        mx.init.InitDesc("x", {"a": "b"}, mx.init.One()), mx.nd.zeros((736,)))
    return seen


def trained(mx: Any, json: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Output and gradients of a graph on token ids, with parameters drawn by their names.

    Dropout is off: its `p` is 0 in the graph.
    """
    symbol = mx.sym.load_json(json)
    requests = {name: "null" if name in shapes else "write" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    for name, array in sorted(executor.arg_dict.items()):
        rng = np.random.default_rng(len(name))
        array[:] = (rng.integers(0, 9, array.shape) if name in shapes
                    else 0.1 * rng.standard_normal(array.shape))
    output = executor.forward(is_train=True)[0]
    executor.backward()
    grads = {name: array.asnumpy() for name, array in executor.grad_dict.items()
             if array is not None}
    return {"output": output.asnumpy(), **grads}


def gluon_unrolled(mx: Any, cell: str, steps: int, hidden: int) -> str:
    """The JSON of a loss of the outputs of a cell of Gluon, which only MXNet has."""
    made = getattr(mx.gluon.rnn, cell)(hidden, prefix="cell_")
    states = made.begin_state(func=mx.sym.Variable)
    outputs, _ = made.unroll(steps, mx.sym.Variable("data"), states, "NTC", merge_outputs=True)
    return mx.sym.MakeLoss(outputs * outputs).tojson()
