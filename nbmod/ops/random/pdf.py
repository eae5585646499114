"""Probability densities of samples, and their gradients: random_pdf_*.

Parameters have the leading axes of the samples: sample (d1, ..., dm, draws...) and each parameter
(d1, ..., dm).  An op is two formulas over arrays that broadcast, in double precision:

    log_density   the logarithm of the density (of the probability mass, if discrete)
    slopes        its derivatives with respect to the sample and each parameter

The density is exp(log_density), its derivatives are density times slopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp
from ..elementwise.special import digamma, gammaln
from ..shape import ShapeMismatch, unify, unify_all

__all__ = ["Density"]


@dataclass(frozen=True)
class Density(FloatOp):
    """Base of all densities; the last `event` axes of a sample are one draw."""

    event: ClassVar[int] = 0
    shapes: ClassVar = "sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample"
    needs: ClassVar = ("ograd", "args", "output")
    is_log: bool = False

    def log_density(self, x: Any, *params: Any) -> Any:
        """The logarithm of the density at x."""
        raise NotImplementedError

    def slopes(self, x: Any, *params: Any) -> tuple[Any, ...]:
        """Derivatives of `log_density` with respect to x and the parameters."""
        raise NotImplementedError

    def infer_shape(self, ins, outs):
        sample, *params = ins
        param = unify_all(params, "shapes of the parameters")
        if sample is None:
            return [sample, *(param for _ in params)], outs
        if self.event and not sample:
            raise ShapeMismatch("sample has no dimension, expected a last one")
        batch, last = sample[:len(sample) - self.event], sample[len(sample) - self.event:]
        if param is not None:
            rank = len(param) - self.event
            if rank < 0 or rank > len(batch):
                raise ShapeMismatch(f"parameters have shape {param}, expected the leading axes of "
                                    f"sample {sample}")
            param = unify(param, (*batch[:rank], *last), "parameters and sample's leading axes")
        return [sample, *(param for _ in params)], [unify(batch, outs[0], "sample and output")]

    def _aligned(self, ins: Sequence[np.ndarray]) -> list[Any]:
        """Sample and parameters in double precision, of as many axes."""
        sample, *params = (array.astype(np.float64) for array in ins)
        draws = (1,) * (sample.ndim - params[0].ndim)
        rank = params[0].ndim - self.event
        return [sample, *(p.reshape(*p.shape[:rank], *draws, *p.shape[rank:]) for p in params)]

    def forward(self, ins, outs, call):
        with np.errstate(all="ignore"):
            value = self.log_density(*self._aligned(ins))
            outs[0][...] = value if self.is_log else np.exp(value)

    def backward(self, ins, outs, call):
        g, *tensors, density = ins
        with np.errstate(all="ignore"):
            weight = g.astype(np.float64) * (1 if self.is_log else density)
            weight = weight.reshape(*weight.shape, *(1,) * self.event)
            for slope, tensor, out in zip(self.slopes(*self._aligned(tensors)), tensors, outs,
                                          strict=True):
                if out is not None:
                    whole = np.broadcast_to(weight * slope, tensors[0].shape)
                    # A parameter's gradient is summed over the axes of the draws.
                    out[...] = whole.sum(axis=tuple(range(tensor.ndim - self.event,
                                                          whole.ndim - self.event)))


class UniformDensity(Density, name="_random_pdf_uniform", aliases=("random_pdf_uniform",)):
    """1 / (high - low), whether or not the sample lies between them."""

    inputs: ClassVar = ("sample", "low", "high")

    def log_density(self, x, low, high):
        return -np.log(high - low) + 0 * x

    def slopes(self, x, low, high):
        return 0.0, 1 / (high - low), -1 / (high - low)


class NormalDensity(Density, name="_random_pdf_normal", aliases=("random_pdf_normal",)):
    """exp(-(x - mu)^2 / (2 sigma^2)) / (sigma sqrt(2 pi))."""

    inputs: ClassVar = ("sample", "mu", "sigma")

    def log_density(self, x, mu, sigma):
        return -0.5 * ((x - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)

    def slopes(self, x, mu, sigma):
        along = (x - mu) / sigma ** 2
        return -along, along, (along * (x - mu) - 1) / sigma


class GammaDensity(Density, name="_random_pdf_gamma", aliases=("random_pdf_gamma",)):
    """beta^alpha x^(alpha - 1) exp(-beta x) / gamma(alpha); beta is a rate."""

    inputs: ClassVar = ("sample", "alpha", "beta")

    def log_density(self, x, alpha, beta):
        return alpha * np.log(beta) + (alpha - 1) * np.log(x) - beta * x - gammaln(alpha)

    def slopes(self, x, alpha, beta):
        return (alpha - 1) / x - beta, np.log(beta * x) - digamma(alpha), alpha / beta - x


class ExponentialDensity(Density, name="_random_pdf_exponential",
                         aliases=("random_pdf_exponential",)):
    """lam exp(-lam x)."""

    inputs: ClassVar = ("sample", "lam")

    def log_density(self, x, lam):
        return np.log(lam) - lam * x

    def slopes(self, x, lam):
        return -lam, 1 / lam - x


class PoissonDensity(Density, name="_random_pdf_poisson", aliases=("random_pdf_poisson",)):
    """lam^x exp(-lam) / x!; the sample, a count, gets no gradient."""

    inputs: ClassVar = ("sample", "lam")

    def log_density(self, x, lam):
        return x * np.log(lam) - lam - gammaln(x + 1)

    def slopes(self, x, lam):
        return 0.0, x / lam - 1


def _failures(x: np.ndarray, k: np.ndarray, p: np.ndarray) -> Any:
    """log of gamma(x + k) / (x! gamma(k)) p^k (1 - p)^x: x failures before k successes."""
    return gammaln(x + k) - gammaln(x + 1) - gammaln(k) + k * np.log(p) + x * np.log1p(-p)


def _failures_slopes(x: np.ndarray, k: np.ndarray, p: np.ndarray) -> tuple[Any, Any]:
    """Its derivatives with respect to k and p."""
    return digamma(x + k) - digamma(k) + np.log(p), k / p - x / (1 - p)


class NegativeBinomialDensity(Density, name="_random_pdf_negative_binomial",
                              aliases=("random_pdf_negative_binomial",)):
    """gamma(x + k) / (x! gamma(k)) p^k (1 - p)^x; the sample, a count, gets no gradient."""

    inputs: ClassVar = ("sample", "k", "p")

    def log_density(self, x, k, p):
        return _failures(x, k, p)

    def slopes(self, x, k, p):
        return 0.0, *_failures_slopes(x, k, p)


class GeneralizedNegativeBinomialDensity(
        Density, name="_random_pdf_generalized_negative_binomial",
        aliases=("random_pdf_generalized_negative_binomial",)):
    """The negative binomial one with k = 1 / alpha and p = 1 / (1 + alpha mu)."""

    inputs: ClassVar = ("sample", "mu", "alpha")

    def log_density(self, x, mu, alpha):
        return _failures(x, 1 / alpha, 1 / (1 + alpha * mu))

    def slopes(self, x, mu, alpha):
        p = 1 / (1 + alpha * mu)
        by_k, by_p = _failures_slopes(x, 1 / alpha, p)
        return 0.0, -alpha * p * p * by_p, -by_k / alpha ** 2 - mu * p * p * by_p


class DirichletDensity(Density, name="_random_pdf_dirichlet", aliases=("random_pdf_dirichlet",)):
    """gamma(sum of alpha) times the product of x_i^(alpha_i - 1) / gamma(alpha_i) over i < k."""

    event: ClassVar = 1
    shapes: ClassVar = ("sample (d1, ..., dm, draws..., k), alpha (d1, ..., dm, k) -> "
                        "(d1, ..., dm, draws...)")
    inputs: ClassVar = ("sample", "alpha")

    def log_density(self, x, alpha):
        each = (alpha - 1) * np.log(x) - gammaln(alpha)
        return each.sum(axis=-1) + gammaln(alpha.sum(axis=-1))

    def slopes(self, x, alpha):
        total = digamma(alpha.sum(axis=-1, keepdims=True))
        return (alpha - 1) / x, np.log(x) + total - digamma(alpha)
