"""Errors of a trainer's steps."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ..base import MXNetError, wrong_type
from ..ndarray import NDArray
from .parameter import Parameter

__all__ = ["EmptyBatch", "StepError", "require_samples", "stale"]


class StepError(MXNetError, UserWarning):
    """A step that cannot be meant, where MXNet raises UserWarning."""


class EmptyBatch(MXNetError, ZeroDivisionError):
    """A step by a batch without samples, where MXNet raises ZeroDivisionError."""


_SAMPLES = "the number of samples in the batch, such as data.shape[0]"


def require_samples(batch_size: Any) -> None:
    """Raise an error unless a batch size is a number but 0.

    Parameters
    ----------
    batch_size : float
        Size of the batch.

    Raises
    ------
    TypeError
        If it is no number.
    ZeroDivisionError
        If it is 0.
    """
    if not isinstance(batch_size, Real):
        raise wrong_type("step: batch_size", batch_size, _SAMPLES)
    if not batch_size:
        raise EmptyBatch(f"step: batch_size is {batch_size}, expected {_SAMPLES}")


def stale(parameter: Parameter, array: NDArray) -> StepError:
    """Return the error of a step without a new gradient.

    Parameters
    ----------
    parameter : Parameter
        Parameter.
    array : NDArray
        Its values on one device.
    """
    return StepError(
        f"Gradient of Parameter `{parameter.name}` on context {array.context} has not been updated "
        "by backward since last `step`. This could mean a bug in your model that made it only use "
        "a subset of the Parameters (Blocks) for this iteration. If you are intentionally only "
        "using a subset, call step with ignore_stale_grad=True to suppress this warning and skip "
        "updating of Parameters with stale gradient")
