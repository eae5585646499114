"""The functions that `nd.random` and `sym.random` make of distributions: one table for both.

A namespace has one function `draw(name, parameters, shape, ...)` of its own; `draw_functions` puts
the parameters of each distribution in place of the first two of it, in signatures and docstrings.
`docs/generate_stubs.py` writes them for editors and type checkers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["DRAW_FUNCTIONS", "draw_functions"]


class DrawFunction(NamedTuple):
    """A row of the table."""

    summary: str
    parameters: Mapping[str, tuple[float, str]]
    """Default and meaning of each parameter of the distribution."""
    op_parameters: Callable[..., Mapping[str, Any]] = dict
    """Parameters of the op by those of the function."""


DRAW_FUNCTIONS = {
    "uniform": DrawFunction(
        "Draw from the uniform distribution over [low, high).",
        {"low": (0, "Lower bound, included."), "high": (1, "Upper bound, excluded.")}),
    "normal": DrawFunction(
        "Draw from the normal distribution.",
        {"loc": (0, "Mean."), "scale": (1, "Standard deviation.")}),
    "poisson": DrawFunction(
        "Draw counts from the Poisson distribution, P(k) = lam**k exp(-lam) / k!, as floats.",
        {"lam": (1, "Mean.")}),
    "exponential": DrawFunction(
        "Draw from the exponential distribution, of density exp(-x / scale) / scale for x >= 0.",
        {"scale": (1, "Mean, the inverse of the rate.")}, lambda scale: {"lam": 1.0 / scale}),
    "gamma": DrawFunction(
        "Draw from the gamma distribution, of mean alpha beta and variance alpha beta**2.",
        {"alpha": (1, "Shape of the distribution."), "beta": (1, "Scale of the distribution.")}),
    "negative_binomial": DrawFunction(
        "Draw from the negative binomial distribution, of mean k (1 - p) / p: failures before the\n"
        "k-th success.",
        {"k": (1, "Number of successes."), "p": (1, "Probability of a success.")}),
    "generalized_negative_binomial": DrawFunction(
        "Draw from the negative binomial distribution, by its mean and dispersion.",
        {"mu": (1, "Mean."), "alpha": (1, "Dispersion: the variance is mu + alpha mu**2.")}),
}


def draw_functions(draw: Callable[..., Any], module: str, tensor: str
                   ) -> dict[str, Callable[..., Any]]:
    """The functions of `module`, by name, whose parameters are numbers or of the class `tensor`."""
    return {name: _function(name, row, draw, module, tensor)
            for name, row in DRAW_FUNCTIONS.items()}


def _function(name: str, row: DrawFunction, draw: Callable[..., Any], module: str, tensor: str
              ) -> Callable[..., Any]:
    common = inspect.signature(draw)
    own = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default,
                             annotation=f"{tensor} | float")
           for key, (default, _) in row.parameters.items()]
    signature = common.replace(parameters=[*own, *[*common.parameters.values()][2:]])

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        values = {key: call.arguments.pop(key, default)
                  for key, (default, _) in row.parameters.items()}
        return draw(name, row.op_parameters(**values), **call.kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__signature__ = signature  # type: ignore[attr-defined]
    head, _, sections = (inspect.getdoc(draw) or "").partition("Parameters\n----------\n")
    function.__doc__ = "\n".join([
        f"{row.summary}\n\nParameters\n----------",
        *(f"{key} : float or {tensor}, default {default}\n    {meaning}"
          for key, (default, meaning) in row.parameters.items()), sections])
    return function
