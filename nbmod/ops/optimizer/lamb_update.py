"""LAMB (You et al. 2020): Adam's step scaled by a trust ratio for each weight.

    x = clipped(rescale_grad g);  mean = beta1 mean + (1 - beta1) x
    var = beta2 var + (1 - beta2) x^2
    step = mean / (1 - beta1^t) / (sqrt(var / (1 - beta2^t)) + epsilon) + wd w
    w = w - lr r1 / r2 step,  r1 = |w| kept within lower_bound and upper_bound,  r2 = |step|

and r1 / r2 = 1 where either is 0.  MXNet's `lamb_update_phase1` computes the step and `phase2`
applies it, with the norms computed in between.  `LambUpdate` is the whole rule: it recomputes the
step instead of storing it, so it needs no workspace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy import float64, int64, sqrt

from ..elementwise import program as programs
from ..elementwise.float16 import FLOAT16, FLOAT32
from ..elementwise.formula_op import kernels
from ..elementwise.program import Program
from ..jit import kernel, prange
from ..op import Types
from .adaptive_update import BiasCorrected, moments
from .multi_tensor import CHUNK
from .sgd_update import CLIPPED, RunProgram, make_program

__all__ = ["LambUpdate", "MPLambUpdate"]

STEP = "next_mean / correction1 / (sqrt(next_var / correction2) + epsilon) + wd * weight"
BOUNDED = {"low": "where(r1 < lower, lower, r1)", "r": "where(low > upper, upper, low)",
           "ratio": "where(r == 0, 1, where(r2 == 0, 1, r / r2))"}


class _Lamb(BiasCorrected):
    """Base of the phases and of the whole rule: scalars under other names."""

    bias_correction: bool
    lower_bound: float
    upper_bound: float

    def scalar_value(self, name: str) -> float:
        if name.startswith("correction") and not self.bias_correction:
            return 1.0
        if name in ("lower", "upper"):
            bound = getattr(self, f"{name}_bound")
            return bound if bound >= 0 else math.inf if name == "upper" else 0.0
        return super().scalar_value(name)


@dataclass(frozen=True)
class LambPhase1(_Lamb, name="lamb_update_phase1"):
    """x = clipped(rescale_grad g);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  output = m / (sqrt(v) + epsilon) + wd w
    with m = mean / (1 - beta1^t) and v = var / (1 - beta2^t), or mean and var themselves without
    bias correction.

    The step of LAMB before it is scaled.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    t: int = field(kw_only=True)
    bias_correction: bool = True
    wd: float = field(kw_only=True)
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("mean", "var")
    steps: ClassVar[dict[str, str]] = {**CLIPPED, **moments("c"), "next_weight": STEP}


class MPLambPhase1(LambPhase1, name="mp_lamb_update_phase1"):
    """`lamb_update_phase1` for the master weight32; the step is float32."""

    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var", "weight32")
    singles: ClassVar[tuple[str, ...]] = ("mean", "var", "weight32")
    inplace: ClassVar[tuple[tuple[str, str], ...]] = ()

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return super().infer_type(ins, [None])[0], [FLOAT32]


@dataclass(frozen=True)
class LambPhase2(_Lamb, name="lamb_update_phase2"):
    """w = w - lr r1 / r2 g, with r1 kept within lower_bound and upper_bound where these are not
    negative, and r1 / r2 = 1 if either is 0.

    g is the output of phase 1, r1 the length of the weight and r2 that of g, both of one element.
    """

    lr: float
    lower_bound: float = -1.0
    upper_bound: float = -1.0

    shapes: ClassVar = "weight, g and output have one shape, r1 and r2 have one element"
    inputs: ClassVar[tuple[str, ...]] = ("weight", "g", "r1", "r2")
    scalars: ClassVar[tuple[str, ...]] = ("r1", "r2")
    steps: ClassVar[dict[str, str]] = {**BOUNDED, "next_weight": "weight - lr * ratio * g"}


class MPLambPhase2(LambPhase2, name="mp_lamb_update_phase2"):
    """`lamb_update_phase2` of the master weight32; the new weight is its rounded copy."""

    inputs: ClassVar[tuple[str, ...]] = ("weight", "g", "r1", "r2", "weight32")
    aux: ClassVar[tuple[str, ...]] = ("weight32",)
    singles: ClassVar[tuple[str, ...]] = ("g", "r1", "r2", "weight32")


# -- both phases ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LambUpdate(_Lamb):
    """Both phases, with the norms computed between them; see the module docstring."""

    lr: float
    wd: float
    t: int
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    bias_correction: bool = True
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    lower_bound: float = -1.0
    upper_bound: float = -1.0

    name = "lamb_update"
    aux: ClassVar[tuple[str, ...]] = ("mean", "var")

    @classmethod
    @cache
    def stages(cls) -> tuple[Program, Program, Program]:
        """Programs to run in order: new moments, squared norms, the new weight."""
        tensors = (*cls.inputs, "next_mean", "next_var", "w2", "s2")
        targets = ["next_weight", *(["rounded"] if "weight32" in cls.aux else [])]
        means = {**CLIPPED, **moments("c")}
        lengths = {"w2": "weight * weight", "step": STEP, "s2": "step * step"}
        move = {"r1": "sqrt(w2)", "r2": "sqrt(s2)", **BOUNDED, "step": STEP,
                "next_weight": "weight - lr * ratio * step"}
        return (make_program(f"{cls.name}_means", means, tensors, ["next_mean", "next_var"]),
                make_program(f"{cls.name}_lengths", lengths, tensors[:-2], ["w2", "s2"]),
                make_program(f"{cls.name}_move", move, tensors, targets))

    def update(self, ins: Sequence[Any], outs: Sequence[Any], by: RunProgram) -> None:
        tensors = self.tensors(ins, outs)
        real = tensors["mean"].dtype if tensors["mean"].dtype != FLOAT16 else FLOAT32
        tensors.update(w2=np.empty(1, real), s2=np.empty(1, real))
        means, lengths, move = self.stages()
        self.execute(means, tensors, by)
        self._measure(lengths, tensors, by)
        self.execute(move, tensors, by)

    def _measure(self, program: Program, tensors: dict[str, Any], by: RunProgram) -> None:
        """Compute the squared norms of the weight and of the step."""
        arrays = [tensors[name] for name in ("weight", "mean", "var")]
        size, types = arrays[0].size, {array.dtype for array in arrays}
        is_small = size < kernels().COMPILED_FROM
        if by is programs.run or is_small or len(types) > 1 or FLOAT16 in types:
            programs.run(program, [tensors[name] for name in program.inputs],
                         [tensors["w2"], tensors["s2"]], self.scalar_values(program))
            return
        scalars = dict(zip(program.scalars, self.scalar_values(program), strict=True))
        sums = np.empty((-(-size // CHUNK), 2))
        _lengths(*(array.reshape(-1) for array in arrays),
                 *(arrays[0].dtype.type(scalars[name])
                   for name in ("correction1", "correction2", "epsilon", "wd")), sums)
        tensors["w2"][:], tensors["s2"][:] = sums.sum(axis=0)


class MPLambUpdate(LambUpdate, master=True):
    """LAMB of a weight with a master copy in float32."""

    name = "mp_lamb_update"


@kernel(parallel=True, fastmath=True)
def _lengths(weight, mean, var, correction1, correction2, epsilon, wd, sums):
    for chunk in prange(sums.shape[0]):
        first = int64(chunk) * CHUNK
        w = weight[first:first + CHUNK]
        m = mean[first:first + CHUNK]
        v = var[first:first + CHUNK]
        w2, s2 = 0.0, 0.0
        for i in range(w.size):
            step = m[i] / correction1 / (sqrt(v[i] / correction2) + epsilon) + wd * w[i]
            w2 += float64(w[i]) * w[i]
            s2 += float64(step) * step
        sums[chunk, 0] = w2
        sums[chunk, 1] = s2
