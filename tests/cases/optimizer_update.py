"""Update ops, one weight or many, and other ops of training loops.

MXNet cannot compose most of them into a symbol, so they are compared as eager calls that write the
new weight over the old one, as optimizers do.
"""

from __future__ import annotations

from typing import Any

from tests.cases import FLOATS, Input, Sample, array, normal, positive

SHAPE = (3, 4)
VALUES = [[0.5, -1.25, 2.0, 0.75], [1.5, -0.125, -2.0, 0.25], [-0.75, 1.0, 3.0, -0.5]]
WEIGHT, MASTER = array(VALUES), array(VALUES, "float32")
"""The same in every type: MXNet's `mp_` ops read now the one, now the other."""
RATES = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.3}
DENSE = "MXNet has this op for row-sparse gradients only"


def update(op: str, states: dict[str, Any], lone: dict[str, Any] | None = None,
           tol: Any = (), why: str = "", **attrs: Any) -> list[Sample]:
    """The op with all its parameters (but those that are None), and with the required alone."""
    inputs = {"weight": SHAPE, "grad": SHAPE, **states}
    required = lone or {"lr": 0.1}
    whole = {key: value for key, value in {**RATES, **required, **attrs}.items()
             if value is not None}
    return [Sample(op, inputs, params, grad=(), out=("weight",), note=note, tol=dict(tol), why=why)
            for note, params in (("all", whole), ("few", required))]


def mixed(op: str, *states: str, **attrs: Any) -> Sample:
    """The op on a float16 weight with a float32 master and states."""
    return Sample(op, {"weight": WEIGHT, "grad": SHAPE, **single(*states), "weight32": MASTER},
                  {**RATES, **attrs}, grad=(), dtypes=("float16", "float32"), out=("weight",))


def single(*names: str, shape: tuple[int, ...] = SHAPE) -> dict[str, Input]:
    """Positive float32 states."""
    return {name: positive(shape, "float32") for name in names}


def several(op: str, states: int, tail: tuple[Any, ...] = (), mx_dtypes: Any = None, why: str = "",
            tol: Any = (), **attrs: Any) -> Sample:
    """An op over two weights of different shapes, each with `states` states."""
    inputs: list[Any] = []
    for shape in (SHAPE, (2, 3, 2)):
        inputs += [normal(shape), normal(shape), *[positive(shape)] * states]
    return Sample(op, (*inputs, *tail), attrs, grad=(), out=("x0", f"x{2 + states}"),
                  mx_dtypes=mx_dtypes, why=why, tol=dict(tol))


def masters(op: str, states: int, tail: tuple[Any, ...] = (), **attrs: Any) -> Sample:
    """The same with a float32 master for every weight besides the states."""
    weight = (WEIGHT, SHAPE, *[positive(SHAPE, "float32")] * states, MASTER)
    return Sample(op, (*weight, *weight, *tail), attrs, grad=(), out=("x0", f"x{3 + states}"),
                  dtypes=("float16", "float32"), mx_dtypes=("float16",),
                  why="MXNet leaves the master of a float32 weight as it was")


SQUARES = positive(SHAPE)
BOTH = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0), "num_weights": 2}
CUT = {"rescale_grad": 0.5, "clip_gradient": 0.3}
SCALE = array([0.5], "float32")
LOADED = (array([0.1, 0.2], "float32"), array([0.01, 0.0], "float32"))
MOMENTS = {"mean": SHAPE, "var": SQUARES}
LAMB = {"learning_rates": (0.1, 0.2), "wds": (0.01, 0.0), "step_count": (1, 7), "num_tensors": 2}
PHASE1 = {"wd": 0.01, "t": 3}
TYPES = "MXNet wants rescale_grad in the weights' type"
POWERS = {"tol": {"float64": 1e-6}, "why": "MXNet's powers of beta are float32"}


def adamw(op: str, scale: float, master: bool = False, **attrs: float) -> Sample:
    """AdamW with gradients scaled by a tensor of one element."""
    states = {**single("mean", "var"), "weight32": MASTER} if master else MOMENTS
    return Sample(op, {"weight": WEIGHT, "grad": SHAPE, **states,
                       "rescale_grad": array([scale], "float32")},
                  {"lr": 0.1, "eta": 0.7, "wd": 0.1, "beta1": 0.8, **attrs}, grad=(),
                  out=("weight",), note=str(scale),
                  dtypes=("float16", "float32") if master else FLOATS)


def phase2(note: str, r1: float, r2: float, **attrs: float) -> list[Sample]:
    """The second phase of LAMB for given norms."""
    lengths = {"r1": array([r1]), "r2": array([r2])}
    return [Sample("lamb_update_phase2", {"weight": SHAPE, "g": SHAPE, **lengths},
                   {"lr": 0.1, **attrs}, grad=(), out=("weight",), note=note),
            Sample("mp_lamb_update_phase2",
                   {"weight": SHAPE, "g": normal(SHAPE, "float32"),
                    "r1": array([r1], "float32"), "r2": array([r2], "float32"),
                    **single("weight32")},
                   {"lr": 0.1, **attrs}, grad=(), note=note, dtypes=("float16", "float32"),
                   oracle=False, why="MXNet leaves the master as it was")]


SAMPLES = [
    *update("sgd_update", {}),
    *update("sgd_mom_update", {"mom": SHAPE}, momentum=0.9),
    *update("nag_mom_update", {"mom": SHAPE}, momentum=0.9),
    *update("signsgd_update", {}),
    Sample("signsgd_update", {"weight": (5,), "grad": array([0.0, -2.0, 3.0, -0.0, 1e-3])},
           {"lr": 0.1, "rescale_grad": -1.0, "clip_gradient": 0.0}, grad=(), out=("weight",)),
    *update("signum_update", {"mom": SHAPE}, momentum=0.9, wd_lh=0.3),
    *update("adam_update", MOMENTS, beta1=0.8),
    *update("ftml_update", {"d": SHAPE, "v": SQUARES, "z": SHAPE}, {"lr": 0.1, "t": 3},
            clip_grad=0.3, clip_gradient=None, **POWERS),
    *update("ftrl_update", {"z": SHAPE, "n": SQUARES}, lamda1=0.5, beta=0.3),
    *update("rmsprop_update", {"n": SQUARES}, gamma1=0.9, clip_weights=1.0),
    *update("rmspropalex_update", {"n": positive(SHAPE), "g": SHAPE, "delta": SHAPE},
            {"lr": 0.1, "epsilon": 3.0}, gamma1=0.0, gamma2=0.9),
    *update("lamb_update_phase1", MOMENTS, PHASE1, lr=None, beta1=0.8, **POWERS),
    *update("lamb_update_phase1", MOMENTS, {**PHASE1, "bias_correction": False}, lr=None, **POWERS),
    *phase2("plain", 2.0, 3.0),
    *phase2("bounds", 2.0, 3.0, lower_bound=2.5, upper_bound=2.6),
    *phase2("below", 0.0, 3.0, lower_bound=6.0),
    *phase2("above", 5.0, 1.0, upper_bound=2.0),
    *phase2("zero", 0.0, 3.0), *phase2("zero bound", 2.0, 3.0, upper_bound=0.0),
    *phase2("no step", 5.0, 0.0, lower_bound=6.0),
    # MXNet leaves the scaled and clipped gradient in `grad`, so it is omitted here.
    *[adamw("_adamw_update", scale) for scale in (1.0, 0.0, float("nan"), float("inf"))],
    *[adamw("_mp_adamw_update", scale, True, clip_gradient=0.3) for scale in (0.5, 0.0)],
    mixed("mp_sgd_update"),
    mixed("mp_sgd_mom_update", "mom", momentum=0.9),
    mixed("mp_nag_mom_update", "mom", momentum=0.9),
    Sample("mp_lamb_update_phase1",
           {"weight": SHAPE, "grad": SHAPE, **single("mean", "var", "weight32")},
           {**PHASE1, **CUT}, grad=(), dtypes=("float16",), out=()),
    *[Sample(op, {"weight": SHAPE, "grad": SHAPE, "history": history}, {"lr": 0.1, **CUT},
             grad=(), oracle=False, why=DENSE)
      for op, history in (("_sparse_adagrad_update", SQUARES),
                          ("_contrib_group_adagrad_update", positive((3, 1))))],
    several("multi_sgd_update", 0, **BOTH, **CUT),
    several("multi_sgd_mom_update", 1, **BOTH, **CUT, momentum=0.9),
    masters("multi_mp_sgd_update", 0, **BOTH, **CUT),
    masters("multi_mp_sgd_mom_update", 1, **BOTH, **CUT, momentum=0.9),
    several("preloaded_multi_sgd_update", 0, LOADED, num_weights=2, **CUT),
    several("preloaded_multi_sgd_mom_update", 1, LOADED, num_weights=2, **CUT, momentum=0.9),
    masters("preloaded_multi_mp_sgd_update", 0, LOADED, num_weights=2, **CUT),
    masters("preloaded_multi_mp_sgd_mom_update", 1, LOADED, num_weights=2, momentum=0.9),
    several("_multi_adamw_update", 2, (SCALE,), ("float32",), TYPES, **BOTH, etas=(1.0, 0.5),
            clip_gradient=0.3),
    masters("_multi_mp_adamw_update", 2, (SCALE,), **BOTH, etas=(1.0, 0.5)),
    several("_multi_lamb_update", 2, **LAMB, **CUT, lower_bound=0.1, upper_bound=3.0, **POWERS),
    several("_multi_lamb_update", 2, **LAMB, bias_correction=False, **POWERS),
    masters("_multi_mp_lamb_update", 2, **LAMB, **CUT),
    Sample("multi_sum_sq", (normal(SHAPE), normal((7,))), {"num_arrays": 2}, grad=(), out=(),
           tol={"float64": 1e-6}, why="MXNet adds up in float32"),
    Sample("multi_lars", {"lrs": array([1.0, 2.0, 3.0]), "weights_sum_sq": array([4.0, 0.0, 1.0]),
                          "grads_sum_sq": array([9.0, 1.0, 0.0]), "wds": array([0.1, 0.1, 0.2])},
           {"eta": 0.5, "eps": 0.01, "rescale_grad": 2.0}, grad=(), out=(),
           mx_dtypes=("float32",), why="MXNet has float32 only"),
    *[Sample("all_finite", {"data": array([1.0, value])}, {}, grad=(), out=(), note=str(value))
      for value in (-2.0, float("inf"), float("nan"))],
    *[Sample("multi_all_finite", (array([1.0, 2.0]), array([[value]])), {"num_arrays": 2},
             grad=(), out=(), note=str(value), dtypes=("float32",))
      for value in (3.0, float("-inf"))],
    Sample("reset_arrays", (normal(SHAPE), normal((7,))), {"num_arrays": 2}, grad=(), out=(),
           writes=("x0", "x1")),
    Sample("sgd_update", {"weight": (3, 4), "grad": (4, 3)}, {"lr": 0.1}, error="do not agree"),
    Sample("sgd_update", {"weight": (3,), "grad": (3,)}, {}, error="required parameter lr"),
    Sample("sgd_update", {"weight": (3,), "grad": (3,)}, {"lr": 0.1}, dtypes=("int32",),
           error="float"),
    Sample("multi_sgd_update", ((3,), (3,)), {"lrs": (0.1, 0.2), "wds": (0.0,)},
           error="lrs has 2 values, expected num_weights = 1"),
    Sample("lamb_update_phase2", {"weight": (3,), "g": (3,), "r1": (3,), "r2": (1,)}, {"lr": 0.1},
           error="r1 has shape .*expected one element"),
    Sample("_contrib_group_adagrad_update", {"weight": (3,), "grad": (3,), "history": (3,)},
           {"lr": 0.1}, error="expected a matrix"),
]  # fmt: skip
