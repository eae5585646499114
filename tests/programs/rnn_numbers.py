"""Recurrent networks with concrete weights, run by either package; imports neither of them.

A case is a cell as an expression of `rnn_programs`, and the shape of one step's input.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tests.programs.rnn_programs import namespace

Arrays = dict[str, np.ndarray]

LENGTH, BATCH = 3, 2

CASES = {
    "rnn": ("R.RNNCell(4)", (3,)),
    "softsign": ("R.RNNCell(4, 'softsign')", (3,)),
    "lstm": ("R.LSTMCell(4)", (3,)),
    "gru": ("R.GRUCell(4)", (3,)),
    "shared": ("stack(R.GRUCell(3, 'a_', p), R.GRUCell(3, 'b_', p))", (3,)),
    "stack": ("stack(R.LSTMCell(4, 'a_'), R.DropoutCell(0), R.GRUCell(3, 'b_'))", (3,)),
    "bidirectional": ("R.BidirectionalCell(R.LSTMCell(4, 'l_'), R.GRUCell(3, 'r_'))", (3,)),
    "zoneout": ("R.ZoneoutCell(R.LSTMCell(4), 0, 0)", (3,)),
    "residual": ("R.ResidualCell(R.LSTMCell(4))", (4,)),
    "conv rnn": ("R.ConvRNNCell((1, 2, 6, 5), 3, activation='tanh')", (2, 6, 5)),
    "conv lstm": ("R.ConvLSTMCell((1, 2, 6, 5), 2, (5, 3), i2h_stride=(2, 1))", (2, 6, 5)),
    "conv gru": ("R.ConvGRUCell((1, 2, 6, 5), 2, h2h_dilate=(2, 1), activation='tanh')", (2, 6, 5)),
    "fused rnn": ("R.FusedRNNCell(4, 1, 'rnn_tanh', True, get_next_state=True)", (3,)),
    "fused lstm": ("R.FusedRNNCell(3, 2, bidirectional=True, get_next_state=True)", (4,)),
    "fused gru": ("R.FusedRNNCell(3, 2, 'gru')", (3,)),
    "residual fused": ("R.ResidualCell(R.FusedRNNCell(4, 2))", (4,)),
    "unfused lstm": ("R.FusedRNNCell(3, 2, bidirectional=True).unfuse()", (3,)),
    "unfused gru": ("R.FusedRNNCell(3, 2, 'gru').unfuse()", (3,)),
}


def cell(mx: Any, case: str) -> Any:
    """The cell of a case."""
    return eval(CASES[case][0], namespace(mx))


def unrolled(mx: Any, case: str) -> Arrays:
    """Outputs, final states and all gradients of a case, unrolled from states that are inputs."""
    made = cell(mx, case)
    with mx.name.NameManager(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = made.begin_state(init_sym=mx.sym.Variable) if hasattr(made, "base_cell") else (
            made.begin_state(func=mx.sym.Variable))
        outputs, states = made.unroll(LENGTH, mx.sym.Variable("data"), begin, "NTC", True)
    if states and isinstance(states[0], list):
        states = states[0] + states[1]
    net = mx.sym.Group([outputs, *states])
    shapes = {s.name: tuple(d or BATCH for d in info["shape"])
              for s, info in zip(begin, made.state_info, strict=True)}
    shapes["data"] = (BATCH, LENGTH, *CASES[case][1])
    return ran(mx, net, drawn(net, **shapes), **shapes)


def ran(mx: Any, net: Any, values: Arrays, **shapes: tuple[int, ...]) -> Arrays:
    """Outputs by number and name and gradients by `d name`, head gradients drawn."""
    executor = net.simple_bind(mx.cpu(), grad_req="write", **shapes)
    for name, array in values.items():
        executor.arg_dict[name][:] = array
    rng = np.random.default_rng(6)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(rng.standard_normal(o.shape)) for o in executor.outputs])
    found = {f"{i} {name}": array.asnumpy() for i, (name, array) in
             enumerate(zip(net.list_outputs(), executor.outputs, strict=True))}
    return {**found, **{f"d {name}": array.asnumpy()
                        for name, array in executor.grad_dict.items()}}


def drawn(net: Any, **shapes: tuple[int, ...]) -> Arrays:
    """Normal values for all arguments of a network."""
    rng = np.random.default_rng(5)
    found = dict(zip(net.list_arguments(), net.infer_shape(**shapes)[0], strict=True))
    return {name: (0.5 * rng.standard_normal(found[name])).astype(np.float32)
            for name in sorted(found)}


def weights(mx: Any, case: str) -> Any:
    """Arrays for the arguments of an unrolled case that are weights, with consecutive elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs, _ = cell(mx, case).unroll(LENGTH, mx.sym.Variable("data"), merge_outputs=True)
    shapes, _, _ = outputs.infer_shape(data=(BATCH, LENGTH, *CASES[case][1]))
    return {name: mx.nd.array(np.arange(np.prod(shape)).reshape(shape) + 1000 * i)
            for i, (name, shape) in enumerate(zip(outputs.list_arguments(), shapes, strict=True))
            if name != "data"}


def unpacked(mx: Any, case: str) -> dict[str, Arrays]:
    """Weights packed, unpacked, and packed again; another array remains unchanged."""
    packed = {**weights(mx, case), "other": mx.nd.ones((2,))}
    parts = cell(mx, case).unpack_weights(packed)
    again = cell(mx, case).pack_weights(parts)
    return {name: {key: array.asnumpy() for key, array in arrays.items()} for name, arrays in
            (("packed", packed), ("unpacked", parts), ("packed again", again))}
