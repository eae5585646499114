"""Samples of a data set become the arrays of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import ArgumentError
from ...context import Context, cpu, cpu_shared
from ...ndarray import NDArray, array, stack

__all__ = ["default_batchify_fn", "default_mp_batchify_fn", "make_batch"]


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Return a batch of samples.

    Parameters
    ----------
    data : list
        Samples: arrays of one shape are stacked; of tuples, their first parts, second parts and so
        on; anything else is converted by NumPy.

    Returns
    -------
    NDArray or list of NDArray
        The batch, of the samples' element type.

    Raises
    ------
    ArgumentError
        If there is no sample, or if they are neither numbers nor arrays of one shape.

    Examples
    --------
    >>> data, label = mx.gluon.data.dataloader.default_batchify_fn([([1., 2.], 0), ([3., 4.], 1)])
    >>> data.shape, label.asnumpy().tolist()
    ((2, 2), [0, 1])
    """
    return _batch(data, None)


def make_batch(dataset: Any, batchify_fn: Callable[[list[Any]], Any], indices: Sequence[Any]
               ) -> Any:
    """Return the batch of some samples of a data set.

    Parameters
    ----------
    dataset : Dataset
        Samples by index.
    batchify_fn : callable
        Function that makes a batch of a list of samples.
    indices : list
        Indices of the samples.

    Raises
    ------
    RuntimeError
        If the data set or the function raises `StopIteration`, which would end the epoch early.
    """
    try:
        return batchify_fn([dataset[index] for index in indices])
    except StopIteration as error:
        raise RuntimeError("the data set or batchify_fn raised StopIteration for the samples "
                           f"{[*indices]}: does it call next() of an iterator that ended?"
                           ) from error


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """Return a batch of samples as workers make it.

    Parameters
    ----------
    data : list
        Samples, as for `default_batchify_fn`.

    Returns
    -------
    NDArray or list of NDArray
        The batch, whose context is `cpu_shared(0)`.

    Examples
    --------
    >>> mx.gluon.data.dataloader.default_mp_batchify_fn([1, 2]).context
    cpu_shared(0)
    """
    return _batch(data, cpu_shared(0))


def _batch(samples: Sequence[Any], context: Context | None) -> Any:
    if not len(samples):
        raise ArgumentError("a batch has no samples; check the batch sampler")
    first = samples[0]
    if isinstance(first, NDArray):
        shapes = sorted({sample.shape for sample in samples})
        if len(shapes) > 1:
            raise _unlike(f"arrays of shapes {shapes}")
        stacked = stack(*samples)
        return stacked if context is None else stacked.as_in_context(context)
    if isinstance(first, tuple):
        return [_batch(parts, context) for parts in zip(*samples, strict=False)]
    try:
        values = np.asarray(samples)
    except ValueError as error:
        raise _unlike(str(error)) from error
    if values.dtype.kind not in "biuf":
        raise _unlike(f"{type(first).__name__} objects")
    return array(values, dtype=values.dtype, ctx=context or cpu())


def _unlike(samples: str) -> ArgumentError:
    return ArgumentError(f"a batch cannot be made of {samples}, only of numbers and of arrays of "
                         "one shape; transform the data set, or give the loader a batchify_fn")


def _as_in_context(data: Any, ctx: Context) -> Any:
    """The arrays of a batch on a context."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data
