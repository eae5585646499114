"""Adaptive update rules, with a learning rate for each coordinate; see `optimizer.sgd_update`.

In docstrings x is the rescaled and clipped gradient, mean and var are exponential moving averages
of x and x^2.  Rules that MXNet computes in Python, in several array operations, are classes without
a name in the op table, which optimizers use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...base import MXNetError
from ..elementwise import program as programs
from ..elementwise.formula_op import kernels
from ..elementwise.program import Program
from ..shape import ShapeMismatch, unify_all
from .sgd_update import CLIPPED, DECAY_BEFORE, ExactUpdate, RunProgram, Update, make_program

__all__ = ["BiasCorrected", "moments"]


def moments(grad: str) -> dict[str, str]:
    """First and second moments: moving averages of the gradient and of its square."""
    return {"next_mean": f"beta1 * mean + rest_beta1 * {grad}",
            "next_var": f"beta2 * var + rest_beta2 * {grad} * {grad}"}


@dataclass(frozen=True)
class AdamUpdate(Update, name="adam_update", aliases=("_sparse_adam_update",)):
    """x = clipped(rescale_grad g + wd w);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  w = w - lr mean / (sqrt(var) + epsilon).

    Kingma and Ba (2015) without bias correction, which the optimizer puts into lr.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    lazy_update: bool = True

    aux: ClassVar[tuple[str, ...]] = ("mean", "var")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_BEFORE, **moments("d"),
        "next_weight": "weight - lr * next_mean / (sqrt(next_var) + epsilon)"}


@dataclass(frozen=True)
class AdamWUpdate(Update, name="_adamw_update"):
    """x = clipped(rescale_grad g);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  w = w - eta (lr mean / (sqrt(var) + epsilon) + wd w).

    Loshchilov and Hutter (2019): weight decay apart from the gradient.  `rescale_grad` is a tensor
    of one element; where that is zero, infinite or NaN (a loss scale gone wrong) nothing changes.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    wd: float = 0.0
    eta: float = field(kw_only=True)
    clip_gradient: float = -1.0

    shapes: ClassVar = "all tensors have one shape, but rescale_grad has one element"
    aux: ClassVar[tuple[str, ...]] = ("mean", "var")
    scalars: ClassVar[tuple[str, ...]] = ("rescale_grad",)
    singles: ClassVar[tuple[str, ...]] = ("rescale_grad",)
    steps: ClassVar[dict[str, str]] = {
        # 0 times infinity is NaN, so `use` is 0 where nothing may change.
        "use": "where(rescale_grad * 0 == 0, rescale_grad, 0)",
        **CLIPPED, "x": "grad * use",
        **{target: f"where(use == 0, {target.removeprefix('next_')}, {formula})"
           for target, formula in (
               *moments("c").items(),
               ("next_weight", "weight - eta * (lr * next_mean / (sqrt(next_var) + epsilon)"
                               " + wd * weight)"))}}


class MPAdamWUpdate(AdamWUpdate, name="_mp_adamw_update", master=True):
    """`_adamw_update` of the master weight32; the new weight is its rounded copy."""


class BiasCorrected(Update):
    """A rule with bias correction (Kingma and Ba, 2015) at step t, counted from 1.

    A moving average divided by 1 - beta^t is unbiased; beta is rounded as in the kernels.
    """

    beta1: float
    beta2: float
    t: int

    @property
    def correction1(self) -> float:
        """The divisor of the first moment."""
        return 1 - self.rounded(self.beta1) ** self.t

    @property
    def correction2(self) -> float:
        """The divisor of the second moment."""
        return 1 - self.rounded(self.beta2) ** self.t


@dataclass(frozen=True)
class FTMLUpdate(BiasCorrected, name="ftml_update"):
    """x = clipped(rescale_grad g + wd w);  v = beta2 v + (1 - beta2) x^2;
    d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon);
    z = beta1 z + (1 - beta1) x - (d' - beta1 d) w;  w = -z / d';  d = d'.

    Follow the moving leader, Zheng and Kwok (2017).
    """

    lr: float
    beta1: float = 0.6
    beta2: float = 0.999
    epsilon: float = 1e-8
    t: int = field(kw_only=True)
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_grad: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("d", "v", "z")
    steps: ClassVar[dict[str, str]] = {
        "y": "grad * scale + wd * weight",
        "x": "where(y > clip, clip, where(y < -clip, -clip, y))",
        "next_v": "beta2 * v + rest_beta2 * x * x",
        "next_d": "inverse_rate * (sqrt(next_v / correction2) + epsilon)",
        "next_z": "beta1 * z + rest_beta1 * x - (next_d - beta1 * d) * weight",
        "next_weight": "-next_z / next_d"}

    @property
    def clip_gradient(self) -> float:
        """`clip_grad` under the name it has in other rules."""
        return self.clip_grad

    @property
    def inverse_rate(self) -> float:
        """(1 - beta1^t) / lr."""
        if not self.lr:
            raise MXNetError("ftml_update: lr is 0, by which the rule divides; expected another "
                             "rate (a schedule that begins with 0 makes all weights NaN)")
        return self.correction1 / self.lr


@dataclass(frozen=True)
class FtrlUpdate(Update, name="ftrl_update", aliases=("_sparse_ftrl_update",)):
    """x = clipped(rescale_grad g);  z = z + x - (sqrt(n + x^2) - sqrt(n)) w / lr;  n = n + x^2;
    w = (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| > lamda1, else 0.

    Follow the regularized leader, McMahan et al. (2013).
    """

    lr: float
    lamda1: float = 0.01
    beta: float = 1.0
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("z", "n")
    steps: ClassVar[dict[str, str]] = {
        **CLIPPED, "next_n": "n + c * c",
        "next_z": "z + c - (sqrt(next_n) - sqrt(n)) * weight / lr",
        "rest": "where(next_z > lamda1, lamda1 - next_z, "
                "where(next_z < -lamda1, -lamda1 - next_z, 0))",
        "next_weight": "rest / ((beta + sqrt(next_n)) / lr + wd)"}


BOUNDED = {"next_weight": "where(y > bound, bound, where(y < -bound, -bound, y))"}
"""The new weight, cut to `clip_weights`."""


@dataclass(frozen=True)
class RMSPropUpdate(Update, name="rmsprop_update"):
    """x = clipped(rescale_grad g + wd w);  n = gamma1 n + (1 - gamma1) x^2;
    w = w - lr x / sqrt(n + epsilon), then clipped to clip_weights if that is not negative.

    Tieleman and Hinton (2012).
    """

    lr: float
    gamma1: float = 0.95
    epsilon: float = 1e-8
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    clip_weights: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("n",)
    steps: ClassVar[dict[str, str]] = {
        **DECAY_BEFORE, "next_n": "gamma1 * n + rest_gamma1 * d * d",
        "y": "weight - lr * d / sqrt(next_n + epsilon)", **BOUNDED}


@dataclass(frozen=True)
class RMSPropAlexUpdate(Update, name="rmspropalex_update"):
    """x = clipped(rescale_grad g + wd w);  n = gamma1 n + (1 - gamma1) x^2;
    g = gamma1 g + (1 - gamma1) x;  delta = gamma2 delta - lr x / sqrt(n - g^2 + epsilon);
    w = w + delta, then clipped to clip_weights if that is not negative.

    The centred form with momentum of Graves (2013); the state g is the mean gradient.
    """

    lr: float
    gamma1: float = 0.95
    gamma2: float = 0.9
    epsilon: float = 1e-8
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    clip_weights: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("n", "g", "delta")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_BEFORE, "next_n": "gamma1 * n + rest_gamma1 * d * d",
        "next_g": "gamma1 * g + rest_gamma1 * d",
        "next_delta": "gamma2 * delta - lr * d / sqrt(next_n - next_g * next_g + epsilon)",
        "y": "weight + next_delta", **BOUNDED}


@dataclass(frozen=True)
class AdaGradUpdate(Update, name="_sparse_adagrad_update"):
    """x = clipped(rescale_grad g);  history = history + x^2;
    w = w - lr (x / sqrt(history + epsilon) + wd w).

    Duchi et al. (2011).  MXNet has this op for row-sparse gradients only and computes the dense
    case in several steps; here it is one op.
    """

    lr: float
    epsilon: float = 1e-7
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("history",)
    steps: ClassVar[dict[str, str]] = {
        **CLIPPED, "next_history": "history + c * c",
        "next_weight": "weight - lr * (c / sqrt(next_history + epsilon) + wd * weight)"}


@dataclass(frozen=True)
class GroupAdaGradUpdate(Update, name="_contrib_group_adagrad_update"):
    """x = clipped(rescale_grad g);  history = history + mean of x^2 over each row;
    w = w - lr x / sqrt(history + epsilon).

    One rate for every row, as for the vectors of an embedding.  MXNet has this op for row-sparse
    gradients only and computes the dense case in Python.
    """

    lr: float
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    epsilon: float = 1e-5

    shapes: ClassVar = "weight (n, ...), grad as weight, history (n, 1)"
    aux: ClassVar[tuple[str, ...]] = ("history",)

    def infer_shape(self, ins, outs):
        weight = unify_all([ins[0], ins[1], *outs], "weight, grad and output")
        if weight is not None and len(weight) != 2:
            raise ShapeMismatch(f"weight has shape {weight}, expected a matrix")
        return [weight, weight, ins[2] if weight is None else (weight[0], 1)], [weight]

    def stages(self) -> list[tuple[Program, list[bool]]]:
        """The programs to run in order, and whether each accumulates into its outputs."""
        return [(_SQUARES, [True]), (_DIVISION, [False])]

    def scalar_values_of(self, program: Program, columns: int) -> list[float]:
        """The scalars of a stage for rows of `columns` elements."""
        return [self.rounded(columns if name == "columns" else self.scalar_value(name))
                for name in program.scalars]

    def update(self, ins: Sequence[Any], outs: Sequence[Any], by: RunProgram) -> None:
        tensors = self.tensors(ins, outs)
        prepare = programs.interpreted if by is programs.run else kernels().prepare
        for program, add in self.stages():
            prepare(program, [tensors[name] for name in program.inputs],
                    [tensors[name] for name in program.outputs],
                    self.scalar_values_of(program, ins[0].shape[1]), add)()


_SQUARES = make_program("group_adagrad_squares", {**CLIPPED, "next_history": "c * c / columns"},
                        ("grad",), ("next_history",))
_DIVISION = make_program(
    "group_adagrad", {**CLIPPED, "next_weight": "weight - lr * c / sqrt(history + epsilon)"},
    ("weight", "grad", "history"), ("next_weight",))


# -- rules without a name in the table ----------------------------------------------------------


@dataclass(frozen=True)
class AdaDeltaUpdate(ExactUpdate):
    """x = clipped(rescale_grad g);  n = rho n + (1 - rho) x^2;
    y = sqrt(delta + epsilon) / sqrt(n + epsilon) x;  delta = rho delta + (1 - rho) y^2;
    w = w - y - wd w.

    Zeiler (2012).  There is no learning rate.
    """

    rho: float
    epsilon: float

    name = "adadelta_update"
    aux: ClassVar[tuple[str, ...]] = ("n", "delta")
    steps: ClassVar[dict[str, str]] = {
        **CLIPPED, "next_n": "rho * n + rest_rho * c * c",
        "y": "sqrt(delta + epsilon) / sqrt(next_n + epsilon) * c",
        "next_delta": "rho * delta + rest_rho * y * y",
        "next_weight": "weight - (y + wd * weight)"}


@dataclass(frozen=True)
class AdamaxUpdate(ExactUpdate):
    """x = clipped(rescale_grad g + wd w);  mean = beta1 mean + (1 - beta1) x;
    most = max(beta2 most, |x|);  w = w - lr mean / most, where most is not 0.

    Kingma and Ba (2015), section 7.1; the optimizer puts bias correction into lr.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999

    name = "adamax_update"
    aux: ClassVar[tuple[str, ...]] = ("mean", "most")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_BEFORE, "next_mean": "beta1 * mean + rest_beta1 * d",
        "next_most": "maximum(beta2 * most, abs(d))",
        "next_weight": "where(next_most == 0, weight, weight - lr * next_mean / next_most)"}


@dataclass(frozen=True)
class NadamUpdate(ExactUpdate, BiasCorrected):
    """x = clipped(rescale_grad g + wd w);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;
    y = (1 - mu) x / (1 - M) + mu' mean / (1 - M mu');
    w = w - lr y / (sqrt(var / (1 - beta2^t)) + epsilon).

    Dozat (2016): Adam with Nesterov's momentum.  mu and mu' are the momenta of this step and the
    next, M is the product of those so far.
    """

    lr: float
    share: float
    """(1 - mu) / (1 - M)."""
    ahead: float
    """mu' / (1 - M mu')."""
    t: int
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    name = "nadam_update"
    aux: ClassVar[tuple[str, ...]] = ("mean", "var")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_BEFORE, **moments("d"), "y": "share * d + ahead * next_mean",
        "next_weight": "weight - lr * y / (sqrt(next_var / correction2) + epsilon)"}
