"""The truth table of special values: operators on NaN, infinities and zeros, beside MXNet."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing

import numpy as np

from tests.reliability.figures import Figure

SIGNS = {"broadcast_mod", "min of rows", "LeakyReLU {'act_type': 'elu'}",
         "LeakyReLU {'act_type': 'gelu'}"}
"""Operators of which some zeros have another sign than in MXNet."""


def _softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


OWN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softmax of rows": _softmax, "log_softmax of rows": _log_softmax,
    "norm of rows": lambda rows: np.sqrt((rows ** 2).sum(axis=1)),
    "nansum of rows": lambda rows: np.nansum(rows, axis=1),
}
"""Deviations (docs/deviations.md): what nbmod gives for rows, in float64, where MXNet differs."""


def table() -> Figure:
    """Compare every value; without MXNet there is nothing to compare with."""
    import nbmod as mx
    from bench import mxnet_environment
    from tests.oracle import client
    from tests.programs import special_values

    python = mxnet_environment.find_python()
    if python is None:
        return Figure("Special values as in MXNet", 0, (), mxnet_environment.absence())
    with closing(client.Oracle(python)) as oracle:
        theirs = oracle.call("mx_scripts.run", "special_values", "answers")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ours = special_values.answers(mx)
        rows = special_values.rows().astype(np.float64)
        own = {name: function(rows).astype(np.float32) for name, function in OWN.items()}
    failures, count = [], 0
    for name, found in ours.items():
        expected = own.get(name, theirs[name])
        count += found.size
        same = agree(found, expected, signs=name not in SIGNS)
        failures += [f"{name}, element {index}: {found[tuple(index)]}, expected "
                     f"{expected[tuple(index)]}" for index in np.argwhere(~same).tolist()]
    return Figure("Special values as in MXNet", count, tuple(failures),
                  f"{len(ours)} operators, {len(OWN)} of them with documented deviations")


def agree(found: np.ndarray, expected: np.ndarray, signs: bool) -> np.ndarray:
    """Where two arrays have the same NaN, infinities and zeros, and nearly the same numbers.

    Other numbers are compared elsewhere: here 1e-5 and 1e-14 are enough, as functions of the
    extremes are off by some units in the last place, and 1e-38 is 0 where denormals are flushed.
    """
    finite = np.isfinite(found) & np.isfinite(expected)
    with np.errstate(all="ignore"):
        near = finite & np.isclose(found, expected, rtol=1e-5, atol=1e-14)
    same = near | (found == expected) | (np.isnan(found) & np.isnan(expected))
    if signs:
        same &= (np.signbit(found) == np.signbit(expected)) | (found != 0) | (expected != 0)
    return same
