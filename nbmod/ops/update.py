"""What optimizers do to a weight: one op per rule, one pass over memory each.

Every op gets the weight, its gradient and the optimizer's states; it returns the new weight and
changes the states (its auxiliary inputs) in place.  Optimizers pass the weight itself as output, so
that nothing is copied.  In the formulas w, g are weight and gradient, and

    clipped(x) = min(max(x, -clip_gradient), clip_gradient), or x where clip_gradient < 0.

MXNet clips the scaled gradient before weight decay is added in the SGD family, and the sum of the
two in Adam and RMSProp; so do these.

Kernels change their first argument and the states in place; all arrays are flat, of one float type,
and scalars have that type, so float32 stays float32.  float16 has no arithmetic of its own: the
plain ops widen everything to float32 and back, the `mp_` ops keep a float32 master weight as their
last state and return its rounded copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..base import MXNetError
from .half import HALF, SINGLE, single
from .jit import kernel
from .op import Call, Op, PartialType, Spec


class _Update(Op):
    """Common rules; a subclass has the fields lr, wd, rescale_grad, clip_gradient and `step`."""

    shapes: ClassVar = "all tensors have one shape"
    inplace: ClassVar = (("weight", "output"),)

    wd: float
    rescale_grad: float
    clip_gradient: float

    def step(self, arrays: Sequence[Any]) -> None:
        """Update `arrays` (weight, gradient, states; flat, of one type) in place."""
        raise NotImplementedError

    def _decay_scale_clip(self, real: Any) -> tuple[Any, Any, Any]:
        clip = self.clip_gradient if self.clip_gradient >= 0 else math.inf
        return _numbers(real, self.wd, self.rescale_grad, clip)

    def infer_type(self, ins: list[PartialType], outs: list[PartialType]
                   ) -> tuple[list[PartialType], list[PartialType]]:
        ins, outs = super().infer_type(ins, outs)
        if outs[0] is not None and outs[0].kind != "f":
            raise MXNetError(f"element type {outs[0]} cannot be trained, expected a float type")
        return ins, outs

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [Spec(spec.shape, SINGLE) for spec in ins if spec.dtype == HALF]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if outs[0] is not ins[0]:
            np.copyto(outs[0], ins[0])
        arrays = [outs[0], *ins[1:]]
        if outs[0].dtype != HALF:
            self.step([array.reshape(-1) for array in arrays])
            return
        for wide, half in zip(call.scratch, arrays, strict=True):
            np.copyto(wide, half)
        self.step([wide.reshape(-1) for wide in call.scratch])
        for index, (wide, half) in enumerate(zip(call.scratch, arrays, strict=True)):
            if index != 1:
                _round_to(half, wide)


class _MasterUpdate(_Update):
    """The same on a float32 master copy, the last state; output: its copy in the weight's type."""

    def infer_type(self, ins: list[PartialType], outs: list[PartialType]
                   ) -> tuple[list[PartialType], list[PartialType]]:
        (weight, grad), (out,) = super().infer_type(ins[:2], outs)
        return [weight, grad, *[SINGLE] * (len(ins) - 2)], [out]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [Spec(ins[1].shape, SINGLE)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _, grad, *states, master = ins
        wide = call.scratch[0]
        np.copyto(wide, grad, casting="same_kind")
        self.step([array.reshape(-1) for array in (master, wide, *states)])
        _round_to(outs[0], master)


def _numbers(real: Any, *values: float) -> tuple[Any, ...]:
    """Kernel scalars of a type; first rounded to float32, in which MXNet keeps parameters."""
    return tuple(real(single(value)) for value in values)


def _mixing(real: Any, rate: float) -> tuple[Any, Any]:
    """(rate, 1 - rate) of a running mean; the difference is MXNet's, of the rounded rate."""
    return _numbers(real, rate, float(np.float32(1) - np.float32(rate)))


def _round_to(target: Any, source: Any) -> None:
    with np.errstate(over="ignore"):
        np.copyto(target, source, casting="same_kind")


@kernel
def _sgd(w, g, lr, wd, scale, clip):
    for i in range(w.size):
        x = g[i] * scale
        x = clip if x > clip else (-clip if x < -clip else x)
        w[i] -= lr * (x + wd * w[i])


@dataclass(frozen=True)
class SGDUpdate(_Update, name="sgd_update", aliases=("_sparse_sgd_update",)):
    """w = w - lr (clipped(rescale_grad g) + wd w)."""

    lr: float
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    lazy_update: bool = True

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad")

    def step(self, arrays):
        real = arrays[0].dtype.type
        _sgd(*arrays, *_numbers(real, self.lr), *self._decay_scale_clip(real))


@dataclass(frozen=True)
class MPSGDUpdate(_MasterUpdate, SGDUpdate, name="mp_sgd_update"):
    """`sgd_update` of the master weight32; the new weight is its rounded copy."""

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "weight32")
    aux: ClassVar[tuple[str, ...]] = ("weight32",)


@kernel
def _sgd_mom(w, g, mom, lr, momentum, wd, scale, clip):
    for i in range(w.size):
        x = g[i] * scale
        x = clip if x > clip else (-clip if x < -clip else x)
        mom[i] = momentum * mom[i] - lr * (x + wd * w[i])
        w[i] += mom[i]


@dataclass(frozen=True)
class SGDMomUpdate(_Update, name="sgd_mom_update", aliases=("_sparse_sgd_mom_update",)):
    """mom = momentum mom - lr (clipped(rescale_grad g) + wd w);  w = w + mom."""

    lr: float
    momentum: float = 0.0
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    lazy_update: bool = True

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mom")
    aux: ClassVar[tuple[str, ...]] = ("mom",)

    def step(self, arrays):
        real = arrays[0].dtype.type
        _sgd_mom(*arrays, *_numbers(real, self.lr, self.momentum), *self._decay_scale_clip(real))


@dataclass(frozen=True)
class MPSGDMomUpdate(_MasterUpdate, SGDMomUpdate, name="mp_sgd_mom_update"):
    """`sgd_mom_update` of the master weight32; the new weight is its rounded copy."""

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mom", "weight32")
    aux: ClassVar[tuple[str, ...]] = ("mom", "weight32")


@kernel
def _nag_mom(w, g, mom, lr, momentum, wd, scale, clip):
    for i in range(w.size):
        x = g[i] * scale
        x = clip if x > clip else (-clip if x < -clip else x)
        y = lr * (x + wd * w[i])
        w[i] += momentum * (momentum * mom[i] - y) - y
        mom[i] = momentum * mom[i] - lr * (x + wd * w[i])


@dataclass(frozen=True)
class NAGMomUpdate(_Update, name="nag_mom_update"):
    """x = clipped(rescale_grad g);  y = lr (x + wd w);  w = w + momentum (momentum mom - y) - y;
    mom = momentum mom - lr (x + wd w) with the new w.

    Nesterov's accelerated gradient with the velocity taken at the next point.  That the velocity
    decays with the new weight is what MXNet does whenever the output is the weight itself, as it
    is in training; nbmod does it always.
    """

    lr: float
    momentum: float = 0.0
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mom")
    aux: ClassVar[tuple[str, ...]] = ("mom",)

    def step(self, arrays):
        real = arrays[0].dtype.type
        _nag_mom(*arrays, *_numbers(real, self.lr, self.momentum), *self._decay_scale_clip(real))


@dataclass(frozen=True)
class MPNAGMomUpdate(_MasterUpdate, NAGMomUpdate, name="mp_nag_mom_update"):
    """`nag_mom_update` of the master weight32; the new weight is its rounded copy."""

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mom", "weight32")
    aux: ClassVar[tuple[str, ...]] = ("mom", "weight32")


@kernel
def _adam(w, g, mean, var, lr, betas, epsilon, wd, scale, clip):
    beta1, rest1, beta2, rest2 = betas
    for i in range(w.size):
        x = g[i] * scale + wd * w[i]
        x = clip if x > clip else (-clip if x < -clip else x)
        mean[i] = beta1 * mean[i] + rest1 * x
        var[i] = beta2 * var[i] + rest2 * x * x
        w[i] -= lr * mean[i] / (math.sqrt(var[i]) + epsilon)


@dataclass(frozen=True)
class AdamUpdate(_Update, name="adam_update", aliases=("_sparse_adam_update",)):
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

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var")
    aux: ClassVar[tuple[str, ...]] = ("mean", "var")

    def step(self, arrays):
        real = arrays[0].dtype.type
        lr, epsilon = _numbers(real, self.lr, self.epsilon)
        betas = (*_mixing(real, self.beta1), *_mixing(real, self.beta2))
        _adam(*arrays, lr, betas, epsilon, *self._decay_scale_clip(real))


@kernel
def _rmsprop(w, g, n, lr, gammas, epsilon, wd, scale, clip, clip_weight):
    gamma1, rest1 = gammas
    for i in range(w.size):
        x = g[i] * scale + wd * w[i]
        x = clip if x > clip else (-clip if x < -clip else x)
        n[i] = gamma1 * n[i] + rest1 * x * x
        y = w[i] - lr * x / math.sqrt(n[i] + epsilon)
        w[i] = clip_weight if y > clip_weight else (-clip_weight if y < -clip_weight else y)


@dataclass(frozen=True)
class RMSPropUpdate(_Update, name="rmsprop_update"):
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

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "n")
    aux: ClassVar[tuple[str, ...]] = ("n",)

    def step(self, arrays):
        real = arrays[0].dtype.type
        bound = self.clip_weights if self.clip_weights >= 0 else math.inf
        lr, epsilon, bound = _numbers(real, self.lr, self.epsilon, bound)
        _rmsprop(*arrays, lr, _mixing(real, self.gamma1), epsilon, *self._decay_scale_clip(real),
                 bound)


@kernel
def _rmsprop_alex(w, g, n, mean, delta, lr, gammas, epsilon, decay_scale_clip, clip_weight):
    gamma1, rest1, gamma2 = gammas
    wd, scale, clip = decay_scale_clip
    for i in range(w.size):
        x = g[i] * scale + wd * w[i]
        x = clip if x > clip else (-clip if x < -clip else x)
        n[i] = gamma1 * n[i] + rest1 * x * x
        mean[i] = gamma1 * mean[i] + rest1 * x
        variance = n[i] - mean[i] * mean[i]
        delta[i] = gamma2 * delta[i] - lr * x / math.sqrt(variance + epsilon)
        y = w[i] + delta[i]
        w[i] = clip_weight if y > clip_weight else (-clip_weight if y < -clip_weight else y)


@dataclass(frozen=True)
class RMSPropAlexUpdate(_Update, name="rmspropalex_update"):
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

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "n", "g", "delta")
    aux: ClassVar[tuple[str, ...]] = ("n", "g", "delta")

    def step(self, arrays):
        real = arrays[0].dtype.type
        bound = self.clip_weights if self.clip_weights >= 0 else math.inf
        lr, gamma2, epsilon, bound = _numbers(real, self.lr, self.gamma2, self.epsilon, bound)
        gammas = (*_mixing(real, self.gamma1), gamma2)
        _rmsprop_alex(*arrays, lr, gammas, epsilon, self._decay_scale_clip(real), bound)


@kernel
def _adagrad(w, g, history, lr, epsilon, wd, scale, clip):
    for i in range(w.size):
        x = g[i] * scale
        x = clip if x > clip else (-clip if x < -clip else x)
        history[i] += x * x
        w[i] -= lr * (x / math.sqrt(history[i] + epsilon) + wd * w[i])


@dataclass(frozen=True)
class AdaGradUpdate(_Update, name="_sparse_adagrad_update"):
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

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "history")
    aux: ClassVar[tuple[str, ...]] = ("history",)

    def step(self, arrays):
        real = arrays[0].dtype.type
        _adagrad(*arrays, *_numbers(real, self.lr, self.epsilon), *self._decay_scale_clip(real))
