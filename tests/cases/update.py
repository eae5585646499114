"""Update ops.  Their values are compared with MXNet's optimizers in tests/test_optimizer.py."""

from __future__ import annotations

from typing import Any

from tests.cases import Sample, positive

WHY = "MXNet cannot compose its update ops into a symbol"
RATES = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.3}


def update(op: str, states: dict[str, Any], **attrs: float) -> list[Sample]:
    """The op with all its parameters, and with `lr` alone."""
    inputs = {"weight": (3, 4), "grad": (3, 4), **states}
    whole = Sample(op, inputs, {**RATES, **attrs}, grad=(), oracle=False, why=WHY)
    return [whole, Sample(op, inputs, {"lr": 0.1}, grad=(), oracle=False, why=WHY)]


def mixed(op: str, *states: str, **attrs: float) -> Sample:
    """The op on a float16 weight with a float32 master and states."""
    single = {name: positive((3, 4), "float32") for name in (*states, "weight32")}
    return Sample(op, {"weight": (3, 4), "grad": (3, 4), **single}, {**RATES, **attrs}, grad=(),
                  dtypes=("float16", "float32"), oracle=False, why=WHY)


SQUARES = positive((3, 4))

SAMPLES = [
    *update("sgd_update", {}),
    *update("sgd_mom_update", {"mom": (3, 4)}, momentum=0.9),
    *update("nag_mom_update", {"mom": (3, 4)}, momentum=0.9),
    *update("adam_update", {"mean": (3, 4), "var": SQUARES}, beta1=0.8),
    *update("rmsprop_update", {"n": SQUARES}, gamma1=0.9, clip_weights=1.0),
    *update("rmspropalex_update", {"n": positive((3, 4)), "g": (3, 4), "delta": (3, 4)},
            gamma1=0.0, gamma2=0.9, epsilon=1.0),
    *update("_sparse_adagrad_update", {"history": SQUARES}),
    mixed("mp_sgd_update"),
    mixed("mp_sgd_mom_update", "mom", momentum=0.9),
    mixed("mp_nag_mom_update", "mom", momentum=0.9),
    Sample("sgd_update", {"weight": (3, 4), "grad": (4, 3)}, {"lr": 0.1}, error="do not agree"),
    Sample("sgd_update", {"weight": (3,), "grad": (3,)}, {}, error="required parameter lr"),
    Sample("sgd_update", {"weight": (3,), "grad": (3,)}, {"lr": 0.1}, dtypes=("int32",),
           error="float"),
]  # fmt: skip
