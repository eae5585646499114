"""Numbers from distributions: three families of ops over the same ones.

    _random_X(params, shape, dtype)   one set of parameters, any shape
    _random_X_like(data, params)      the same, shaped and typed like `data`
    _sample_X(param arrays, shape)    row i of the output is drawn with element i of the parameters

A distribution is a function `(rng, size, kind, *parameters)`: `size` is the shape to draw,
`kind` float32 or float64, the parameters numbers or arrays that broadcast to `size`.  float16 is
drawn in float32 and rounded.  None of these passes a gradient on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ..op import Op
from ..param import Shape
from ..shape import unify, unify_all
from .rng import generator

__all__: list[str] = []

Real = Literal["float16", "float32", "float64"]
Index = Literal["int32", "int64"]
Draw = Callable[..., Any]


def _uniform(rng, size, kind, low, high):
    return low + (high - low) * rng.random(size, kind)


def _normal(rng, size, kind, loc, scale):
    return loc + scale * rng.standard_normal(size, kind)


def _exponential(rng, size, kind, lam):
    return rng.standard_exponential(size, kind) / lam


def _gamma(rng, size, kind, alpha, beta):
    return beta * rng.standard_gamma(alpha, size, kind)


def _poisson(rng, size, kind, lam):
    return rng.poisson(lam, size)


def _negative_binomial(rng, size, kind, k, p):
    return rng.negative_binomial(k, p, size)


def _generalized_negative_binomial(rng, size, kind, mu, alpha):
    # A Poisson variable whose rate is gamma distributed; alpha = 0 is the limit of a fixed rate.
    alpha = np.asarray(alpha, np.float64)
    rate = rng.standard_gamma(1 / np.where(alpha > 0, alpha, 1), size) * alpha * mu
    return rng.poisson(np.where(alpha > 0, rate, mu))


def _fill(op: Op, draw: Draw, out: np.ndarray, *parameters: Any) -> None:
    """Draw `out` from the next stream; parameters out of range are an MXNetError."""
    kind = np.float64 if out.dtype == np.float64 else np.float32
    try:
        out[...] = draw(generator(), out.shape, kind, *parameters)
    except ValueError as error:
        raise MXNetError(f"{op.name}: {error}") from None


_LIMITS: dict[Draw, tuple[Callable[..., bool], str]] = {
    _uniform: (lambda low, high: low <= high, "low <= high"),
    _normal: (lambda loc, scale: scale > 0, "scale > 0"),
    _exponential: (lambda lam: lam > 0, "lam > 0"),
    _gamma: (lambda alpha, beta: alpha > 0 and beta > 0, "alpha > 0 and beta > 0"),
}
"""What must hold of parameters that are numbers, beyond what NumPy checks itself."""


def _fill_checked(op: Op, draw: Draw, out: np.ndarray, *parameters: float) -> None:
    """`_fill` for numbers as parameters."""
    holds, expected = _LIMITS.get(draw, (None, ""))
    if holds is not None and not holds(*parameters):
        raise MXNetError(f"{op.name}: the parameters are {parameters}, expected {expected}")
    _fill(op, draw, out, *parameters)


# -- one set of parameters ------------------------------------------------------------------


class _Filled(Op):
    """Base of `_random_X`: `parameters()` are the fields before `shape`."""

    shapes: ClassVar = "-> `shape`; (1,) without it"
    inputs: ClassVar = ()
    random: ClassVar = True
    default: ClassVar = "float32"
    draw: ClassVar[Draw]
    shape: Shape | None
    dtype: str | None

    def parameters(self) -> list[Any]:
        values = list(vars(self).items())
        return [value for name, value in values if name not in ("shape", "ctx", "dtype")]

    def infer_shape(self, ins, outs):
        return [], [unify(self.shape, outs[0], "shape and output")]

    def infer_type(self, ins, outs):
        return [], [np.dtype(self.dtype or self.default)]

    def forward(self, ins, outs, call):
        _fill_checked(self, type(self).draw, outs[0], *self.parameters())


@dataclass(frozen=True)
class RandomUniform(_Filled, name="_random_uniform", aliases=("random_uniform", "uniform")):
    """Numbers spread evenly over [low, high)."""

    low: float = 0.0
    high: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_uniform)


@dataclass(frozen=True)
class RandomNormal(_Filled, name="_random_normal", aliases=("random_normal", "normal")):
    """Normally distributed numbers of mean `loc` and standard deviation `scale`."""

    loc: float = 0.0
    scale: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_normal)


@dataclass(frozen=True)
class RandomExponential(_Filled, name="_random_exponential", aliases=("random_exponential",)):
    """Exponentially distributed numbers of rate `lam`, which is mean 1 / lam."""

    lam: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_exponential)


@dataclass(frozen=True)
class RandomGamma(_Filled, name="_random_gamma", aliases=("random_gamma",)):
    """Gamma distributed numbers of shape `alpha` and scale `beta`, which is mean alpha beta."""

    alpha: float = 1.0
    beta: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_gamma)


@dataclass(frozen=True)
class RandomPoisson(_Filled, name="_random_poisson", aliases=("random_poisson",)):
    """Poisson distributed counts of rate `lam`, as floating point numbers."""

    lam: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_poisson)


@dataclass(frozen=True)
class RandomNegativeBinomial(_Filled, name="_random_negative_binomial",
                             aliases=("random_negative_binomial",)):
    """Failures before the k-th success of trials that succeed with probability p."""

    k: int = 1
    p: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_negative_binomial)


@dataclass(frozen=True)
class RandomGeneralizedNegativeBinomial(_Filled, name="_random_generalized_negative_binomial",
                                        aliases=("random_generalized_negative_binomial",)):
    """Counts of mean mu and variance mu + alpha mu^2."""

    mu: float = 1.0
    alpha: float = 1.0
    shape: Shape | None = None
    ctx: str = ""
    dtype: Real | None = None
    draw: ClassVar = staticmethod(_generalized_negative_binomial)


@dataclass(frozen=True)
class RandomRandint(_Filled, name="_random_randint", aliases=("random_randint",)):
    """Integers of [low, high), all equally likely."""

    low: int
    high: int
    shape: Shape | None = None
    ctx: str = ""
    dtype: Index | None = None
    default: ClassVar = "int32"

    def forward(self, ins, outs, call):
        out = outs[0]
        if self.high <= self.low:
            raise MXNetError(f"high is {self.high}, expected more than low, which is {self.low}")
        out[...] = generator().integers(self.low, self.high, out.shape, out.dtype)


# -- shaped like an array -------------------------------------------------------------------


class _Like(Op):
    """Base of `_random_X_like`."""

    shapes: ClassVar = "data and output have one shape"
    random: ClassVar = True
    draw: ClassVar[Draw]

    def forward(self, ins, outs, call):
        _fill_checked(self, type(self).draw, outs[0], *vars(self).values())


@dataclass(frozen=True)
class RandomUniformLike(_Like, name="_random_uniform_like"):
    """`_random_uniform` of the shape and type of `data`."""

    low: float = 0.0
    high: float = 1.0
    draw: ClassVar = staticmethod(_uniform)


@dataclass(frozen=True)
class RandomNormalLike(_Like, name="_random_normal_like"):
    """`_random_normal` of the shape and type of `data`."""

    loc: float = 0.0
    scale: float = 1.0
    draw: ClassVar = staticmethod(_normal)


@dataclass(frozen=True)
class RandomExponentialLike(_Like, name="_random_exponential_like"):
    """`_random_exponential` of the shape and type of `data`."""

    lam: float = 1.0
    draw: ClassVar = staticmethod(_exponential)


@dataclass(frozen=True)
class RandomGammaLike(_Like, name="_random_gamma_like"):
    """`_random_gamma` of the shape and type of `data`."""

    alpha: float = 1.0
    beta: float = 1.0
    draw: ClassVar = staticmethod(_gamma)


@dataclass(frozen=True)
class RandomPoissonLike(_Like, name="_random_poisson_like"):
    """`_random_poisson` of the shape and type of `data`."""

    lam: float = 1.0
    draw: ClassVar = staticmethod(_poisson)


@dataclass(frozen=True)
class RandomNegativeBinomialLike(_Like, name="_random_negative_binomial_like"):
    """`_random_negative_binomial` of the shape and type of `data`."""

    k: int = 1
    p: float = 1.0
    draw: ClassVar = staticmethod(_negative_binomial)


@dataclass(frozen=True)
class RandomGeneralizedNegativeBinomialLike(
        _Like, name="_random_generalized_negative_binomial_like"):
    """`_random_generalized_negative_binomial` of the shape and type of `data`."""

    mu: float = 1.0
    alpha: float = 1.0
    draw: ClassVar = staticmethod(_generalized_negative_binomial)


# -- one distribution per element -----------------------------------------------------------


class _Sampled(Op):
    """Base of `_sample_X`: parameters of shape P give an output of shape P + `shape`."""

    shapes: ClassVar = "parameters (2,), shape=(3,) -> (2, 3)"
    random: ClassVar = True
    draw: ClassVar[Draw]
    shape: Shape
    dtype: str | None

    def infer_shape(self, ins, outs):
        rows = unify_all(ins, "parameters")
        return [rows] * len(ins), [None if rows is None else (*rows, *self.shape)]

    def infer_type(self, ins, outs):
        (kind, *_), _ = super().infer_type(ins, [])
        return [kind] * len(ins), [np.dtype(self.dtype or "float32")]

    def forward(self, ins, outs, call):
        ones = (1,) * len(self.shape)
        rows = [array.astype(np.float64).reshape(array.shape + ones) for array in ins]
        _fill(self, type(self).draw, outs[0], *rows)


@dataclass(frozen=True)
class SampleUniform(_Sampled, name="_sample_uniform", aliases=("sample_uniform",)):
    """Row i: numbers of [low_i, high_i)."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("low", "high")
    draw: ClassVar = staticmethod(_uniform)


@dataclass(frozen=True)
class SampleNormal(_Sampled, name="_sample_normal", aliases=("sample_normal",)):
    """Row i: normally distributed with mean mu_i and standard deviation sigma_i."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("mu", "sigma")
    draw: ClassVar = staticmethod(_normal)


@dataclass(frozen=True)
class SampleGamma(_Sampled, name="_sample_gamma", aliases=("sample_gamma",)):
    """Row i: gamma distributed with shape alpha_i and scale beta_i."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("alpha", "beta")
    draw: ClassVar = staticmethod(_gamma)


@dataclass(frozen=True)
class SampleExponential(_Sampled, name="_sample_exponential", aliases=("sample_exponential",)):
    """Row i: exponentially distributed with rate lam_i."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("lam",)
    draw: ClassVar = staticmethod(_exponential)


@dataclass(frozen=True)
class SamplePoisson(_Sampled, name="_sample_poisson", aliases=("sample_poisson",)):
    """Row i: Poisson distributed with rate lam_i."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("lam",)
    draw: ClassVar = staticmethod(_poisson)


@dataclass(frozen=True)
class SampleNegativeBinomial(_Sampled, name="_sample_negative_binomial",
                             aliases=("sample_negative_binomial",)):
    """Row i: failures before success number k_i, each trial succeeding with probability p_i."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("k", "p")
    draw: ClassVar = staticmethod(_negative_binomial)


@dataclass(frozen=True)
class SampleGeneralizedNegativeBinomial(
        _Sampled, name="_sample_generalized_negative_binomial",
        aliases=("sample_generalized_negative_binomial",)):
    """Row i: counts of mean mu_i and variance mu_i + alpha_i mu_i^2."""

    shape: Shape = ()
    dtype: Real | None = None
    inputs: ClassVar = ("mu", "alpha")
    draw: ClassVar = staticmethod(_generalized_negative_binomial)
