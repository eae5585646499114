"""Activation and LeakyReLU."""

from __future__ import annotations

import math
from typing import Any

from tests.cases import Sample, array, nonzero, normal

BIG = (40, 110)  # large enough for kernels instead of NumPy
EXTREME = array([-100, -20, -1, -0.1, 0, 0.1, 1, 20, 100])
ROUNDED = {"tol": {"float64": 1e-6}, "why": "MXNet computes the lower side in float32"}
KINKS = {"data": nonzero((3, 4))}


def prelu(data, gamma, **options) -> Sample:
    options = options if "error" in options else ROUNDED | {"free": ("gamma",)} | options
    return Sample("LeakyReLU", {"data": data, "gamma": gamma}, {"act_type": "prelu"}, **options)


def leaky(act_type: str, attrs: dict | None = None, data=KINKS["data"], **options) -> Sample:
    return Sample("LeakyReLU", {"data": data}, {"act_type": act_type, **(attrs or {})}, **options)


AT_NAN: dict[str, Any] = {"grad": ("data",), "dtypes": ("float32", "float16"), "note": "at nan",
                          "mx_dtypes": ("float16",),
                          "why": "oneDNN has rules of its own in float32"}  # fmt: skip
ACTIVATIONS = ("relu", "sigmoid", "softrelu", "softsign", "tanh")

SAMPLES = [
    *[Sample("Activation", KINKS, {"act_type": kind}) for kind in ACTIVATIONS],
    *[Sample("Activation", {"data": nonzero(BIG)}, {"act_type": kind}) for kind in ACTIVATIONS],
    *[Sample("Activation", {"data": EXTREME}, {"act_type": kind}) for kind in ACTIVATIONS],
    Sample("Activation", {"data": nonzero((2, 1, 3, 2, 2))}, {"act_type": "relu"}, is_train=False),
    *[Sample("Activation", {"data": array([math.nan, -1, 2])}, {"act_type": kind}, **AT_NAN)
      for kind in ACTIVATIONS],
    *[leaky(kind, data=array([math.nan, -1, 2]), **AT_NAN)
      for kind in ("leaky", "elu", "selu", "gelu")],
    Sample("Activation", KINKS, {"act_type": "swish"}, error="parameter act_type"),
    Sample("Activation", KINKS, error="parameter act_type is not given"),
    Sample("Activation", KINKS, {"act_type": "relu"}, dtypes=("int32",), error="type int32"),
    Sample("LeakyReLU", KINKS, **ROUNDED),
    *[leaky(kind, **ROUNDED) for kind in ("leaky", "elu", "gelu")],
    *[leaky(kind, data=nonzero(BIG), **ROUNDED) for kind in ("leaky", "elu", "gelu")],
    *[leaky(kind, data=EXTREME, **ROUNDED) for kind in ("leaky", "elu", "gelu")],
    # MXNet's gradient of selu, and so ours, is not its derivative
    *[leaky("selu", data=data, dtypes=("float32", "float16"))
      for data in (nonzero((3, 4)), nonzero(BIG), EXTREME)],
    leaky("leaky", {"slope": 0.1}, **ROUNDED),
    leaky("leaky", {"slope": 0}),
    leaky("leaky", {"slope": -0.5}, mx_dtypes=("float32",),
          why="MXNet takes the sign of y for that of x in the other types"),
    leaky("elu", {"slope": 0.7}, **ROUNDED),
    prelu(nonzero((2, 3, 4)), normal((3,))),
    prelu(nonzero((4, 3)), normal((3,))),
    prelu(nonzero((2, 3, 4, 5)), normal((1,))),
    prelu(nonzero((4, 3)), normal((1,))),
    prelu(nonzero((2, 3, 2, 2, 2)), normal((3,)), is_train=False),
    prelu(nonzero((4, 20, 8, 9)), normal((20,))),
    prelu(nonzero((2, 3, 4)), normal((4,)), error="gamma has shape \\(4,\\), expected \\(3,\\)"),
    prelu(nonzero((3, 4)), normal((3, 4))),
    prelu(nonzero((3, 4, 4, 5)), normal((3, 4))),
    prelu(nonzero((3, 4, 5)), normal((3, 1))),
    prelu(nonzero((2, 20, 8, 9)), normal((1, 20))),
    prelu(nonzero((3, 4)), normal((3,))),
    prelu(nonzero((3, 4, 5)), normal((3, 4, 5)), error="gamma has shape \\(3, 4, 5\\)"),
    leaky("rrelu", is_train=False, outputs=(0,), **ROUNDED),
    leaky("rrelu", random=True, oracle=False, why="MXNet 1.9.1 crashes"),
    leaky("rrelu", data=nonzero(BIG), random=True, oracle=False, why="MXNet 1.9.1 crashes"),
    leaky("swish", error="parameter act_type"),
    leaky("leaky", dtypes=("int32",), error="type int32"),
]  # fmt: skip
