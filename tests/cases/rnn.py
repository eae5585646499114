"""RNN; random dropout, and features of MXNet with cuDNN only, are in tests/ops/test_rnn.py."""

from __future__ import annotations

from typing import Any

from tests.cases import Sample, array, uniform

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
CUDNN = {"oracle": False, "why": "MXNet does this on a GPU only; on the CPU it ignores it"}
UNTRAINED = {"oracle": False, "why": "MXNet's CPU cannot train it"}


def rnn(
    mode: str,
    data: tuple[int, int, int] = (4, 3, 5),
    size: int = 6,
    layers: int = 1,
    both: bool = False,
    lengths: tuple[float, ...] = (),
    attrs: dict[str, Any] | None = None,
    **options: Any,
) -> Sample:
    """A sample with inputs of matching shapes."""
    attrs = {"mode": mode, "state_size": size, "num_layers": layers, **(attrs or {})}
    ways, out = 1 + both, attrs.get("projection_size", size)
    rows, cells = GATES[mode] * size, layers * ways
    inputs = ways * (data[2] + (layers - 1) * ways * out)
    count = rows * (inputs + cells * (out + 2)) + cells * attrs.get("projection_size", 0) * size
    bound = min(0.5, 1.5 / max(out, 1) ** 0.5)  # with more, rounding errors grow from step to step
    tensors = {
        "data": data,
        "parameters": uniform(-bound, bound, (count,)),
        "state": (cells, data[1], out),
    }
    if mode == "lstm":
        tensors["state_cell"] = (cells, data[1], size)
    if both:
        attrs["bidirectional"] = True
    if lengths:
        attrs["use_sequence_length"] = True
        tensors["sequence_length"] = array(lengths, "int32")
    if mode == "rnn_relu" and "why" not in options:
        options |= {"tol": {"float64": 1e-5}, "why": "MXNet computes rnn_relu in float32"}
    return Sample("RNN", tensors, attrs, **options)


STATES = {"state_outputs": True}
PROJECTED = {"projection_size": 2, **STATES}
CLIPPED = {"lstm_state_clip_min": -0.4, "lstm_state_clip_max": 0.3, **STATES}
FLOAT32 = ("float32",)


SAMPLES = [
    *[rnn(mode, attrs=STATES) for mode in GATES],
    *[rnn(mode, layers=2, both=True, attrs=STATES) for mode in GATES],
    *[rnn(mode, layers=2, dtypes=FLOAT32) for mode in GATES],
    *[rnn(mode, layers=3, both=True, is_train=False, attrs=STATES) for mode in GATES],
    rnn("lstm", (1, 1, 1), 1, attrs=STATES, note="all one"),
    rnn("gru", (1, 1, 1), 1, attrs=STATES, note="all one"),
    rnn("lstm", (1, 7, 3), 5, both=True, attrs=STATES, note="one step"),
    rnn("gru", (9, 1, 3), 5, both=True, attrs=STATES, note="one sample"),
    rnn("lstm", (5, 13, 70), 33, layers=2, attrs=STATES, note="beyond a tile"),
    rnn("gru", (5, 13, 70), 33, layers=2, both=True, note="beyond a tile"),
    rnn("rnn_tanh", (25, 13, 3), 70, attrs=STATES, note="beyond a tile"),
    rnn("rnn_relu", (5, 13, 9), 18, attrs=STATES, note="beyond a tile"),
    rnn("gru", layers=2, attrs={"p": 0.0}),
    rnn("lstm", layers=2, attrs={"p": 0.5}, is_train=False, note="dropout in inference"),
    rnn("gru", layers=2, attrs={"p": 0.5}, random=True),
    rnn("lstm", layers=2, attrs={"p": 0.5}, both=True, random=True),
    rnn("lstm", attrs=PROJECTED, is_train=False),
    rnn("lstm", layers=2, both=True, attrs=PROJECTED, is_train=False),
    rnn("lstm", attrs={"projection_size": 9}, **UNTRAINED),
    rnn("lstm", layers=2, both=True, attrs=PROJECTED, **UNTRAINED),
    rnn("lstm", (5, 4, 3), lengths=(5, 1, 3, 0), attrs=STATES, **CUDNN),
    rnn("gru", (13, 4, 3), layers=2, both=True, lengths=(13, 1, 7, 0), attrs=STATES, **CUDNN),
    rnn("rnn_tanh", (5, 4, 3), both=True, lengths=(2, 2, 5, 4), **CUDNN),
    rnn("lstm", (17, 3, 5), layers=2, both=True, lengths=(17, 2, 9), attrs=PROJECTED, **CUDNN),
    rnn("lstm", layers=2, attrs=CLIPPED, **CUDNN),
    rnn("lstm", (5, 3, 3), both=True, lengths=(4, 2, 1), attrs={**CLIPPED, **PROJECTED}, **CUDNN),
    rnn("lstm", attrs={"state_size": 0}, error="state_size is 0, expected at least 1"),
    rnn("gru", attrs={"num_layers": 0}, error="num_layers is 0"),
    rnn("gru", attrs={"p": 1.5}, error="p is 1.5, expected a number from 0 to 1"),
    rnn("lstm", attrs={"projection_size": 0}, error="projection_size is 0"),
    rnn("gru", attrs={"projection_size": 2}, error="projection_size is 2, .*; mode is gru"),
    rnn("lstm", attrs={"lstm_state_clip_min": 0}, error="if and only if lstm_state_clip_max"),
    rnn("lstm", attrs={"mode": "gru_tanh"}, error="parameter mode is 'gru_tanh'"),
    rnn("lstm", lengths=(5, 1, 1), error="sequence_length has the value 5, expected 0 to 4"),
    rnn("lstm", lengths=(1, 1), error=r"sequence_length has shape \(2,\), expected \(3,\)"),
    rnn("lstm", dtypes=("int32",), error="data has type int32"),
    Sample("RNN", {"data": (4, 3), "parameters": (9,), "state": (1, 3, 2)},
           {"mode": "gru", "state_size": 2, "num_layers": 1}, error="steps, samples, elements"),
    Sample("RNN", {"data": (4, 3, 1), "parameters": (31,), "state": (1, 3, 2)},
           {"mode": "gru", "state_size": 2, "num_layers": 1}, error="parameters has shape"),
    Sample("RNN", {"data": (4, 3, 1), "parameters": (30,), "state": (1, 2, 2)},
           {"mode": "gru", "state_size": 2, "num_layers": 1}, error="state has shape"),
]  # fmt: skip
