"""`nd.contrib.adamw_update` and similar functions: MXNet's wrappers of optimizer ops.

In contrast to the ops, `rescale_grad` may be a number, and functions on several weights take one
list of arrays per input instead of interleaved arrays.  Options of the op (`beta1`, `out`, ...) are
passed by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ..base import Forwarded, MXNetError
from .array_creation import array
from .functions import op_function
from .ndarray import NDArray

__all__ = ["adamw_update", "mp_adamw_update", "multi_adamw_update", "multi_lamb_update",
           "multi_mp_adamw_update", "multi_mp_lamb_update"]

Arrays = Sequence[NDArray]
Rates = Sequence[float]
Scale = NDArray | float


def adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Scale,
                 lr: float, eta: float, **options: Forwarded) -> NDArray:
    """Update a weight by AdamW: the operator `_adamw_update`.  All arrays have one shape.

    Parameters
    ----------
    weight : NDArray
        Weight to update.
    grad : NDArray
        Gradient.
    mean : NDArray
        Running mean of the gradients, updated in place.
    var : NDArray
        Running mean of the squared gradients, updated in place.
    rescale_grad : float or NDArray
        Factor of the gradients, a number or an array of one element.
    lr : float
        Learning rate.
    eta : float
        Factor of the whole update.
    **options
        Further parameters of the operator `_adamw_update` and `out`, by name.
    """
    return op_function("_adamw_update")(weight, grad, mean, var, _scale(rescale_grad, weight),
                                        lr=lr, eta=eta, **options)


def mp_adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray,
                    rescale_grad: Scale, lr: float, eta: float, **options: Forwarded) -> NDArray:
    """Update a low-precision weight by AdamW: the operator `_mp_adamw_update`.

    Parameters
    ----------
    weight, grad, mean, var, rescale_grad, lr, eta, **options
        As for `adamw_update`.
    weight32 : NDArray
        float32 copy of the weight, updated in place.
    """
    return op_function("_mp_adamw_update")(weight, grad, mean, var, weight32,
                                           _scale(rescale_grad, weight), lr=lr, eta=eta, **options)


def multi_adamw_update(weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays,
                       rescale_grad: Scale, lrs: Rates, wds: Rates, etas: Rates, size: int = 0,
                       **options: Forwarded) -> list[NDArray]:
    """Update several weights by AdamW: the operator `_multi_adamw_update`.

    Parameters
    ----------
    weights : list of NDArray
        Weights to update.
    grads : list of NDArray
        Gradients.
    mean : list of NDArray
        Running means of the gradients, updated in place.
    var : list of NDArray
        Running means of the squared gradients, updated in place.
    rescale_grad : float or NDArray
        Factor of the gradients, a number or an array of one element.
    lrs : sequence of float
        Learning rates, one for each weight.
    wds : sequence of float
        Weight decays, one for each weight.
    etas : sequence of float
        Factors of the whole update, one for each weight.
    size : int, default 0
        Number of weights; 0: the length of the lists.
    **options
        Further parameters of the operator `_multi_adamw_update` and `out`, by name.

    Raises
    ------
    MXNetError
        If the lists differ in length.
    """
    return op_function("_multi_adamw_update")(
        *_interleaved(size, weights, grads, mean, var), _scale(rescale_grad, weights[0]),
        lrs=lrs, wds=wds, etas=etas, **options)


def multi_mp_adamw_update(weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays,
                          weights32: Arrays, rescale_grad: Scale, lrs: Rates, wds: Rates,
                          etas: Rates, size: int = 0, **options: Forwarded) -> list[NDArray]:
    """Update several low-precision weights by AdamW: the operator `_multi_mp_adamw_update`.

    Parameters
    ----------
    weights, grads, mean, var, rescale_grad, lrs, wds, etas, size, **options
        As for `multi_adamw_update`.
    weights32 : list of NDArray
        float32 copies of the weights, updated in place.
    """
    return op_function("_multi_mp_adamw_update")(
        *_interleaved(size, weights, grads, mean, var, weights32), _scale(rescale_grad, weights[0]),
        lrs=lrs, wds=wds, etas=etas, **options)


def multi_lamb_update(weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays,
                      step_count: Sequence[int], lrs: Rates, wds: Rates, num_tensors: int = 0,
                      **options: Forwarded) -> list[NDArray]:
    """Update several weights by LAMB: the operator `_multi_lamb_update`.

    Parameters
    ----------
    weights, grads, mean, var, lrs, wds, **options
        As for `multi_adamw_update`.
    step_count : sequence of int
        Number of updates of each weight, this one included.
    num_tensors : int, default 0
        Number of weights; 0: the length of the lists.
    """
    return op_function("_multi_lamb_update")(
        *_interleaved(num_tensors, weights, grads, mean, var), learning_rates=lrs, wds=wds,
        step_count=step_count, **options)


def multi_mp_lamb_update(weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays,
                         weights32: Arrays, step_count: Sequence[int], lrs: Rates, wds: Rates,
                         num_tensors: int = 0, **options: Forwarded) -> list[NDArray]:
    """Update several low-precision weights by LAMB: the operator `_multi_mp_lamb_update`.

    Parameters
    ----------
    weights, grads, mean, var, step_count, lrs, wds, num_tensors, **options
        As for `multi_lamb_update`.
    weights32 : list of NDArray
        float32 copies of the weights, updated in place.

    Raises
    ------
    MXNetError
        If the lists differ in length.
    """
    return op_function("_multi_mp_lamb_update")(
        *_interleaved(num_tensors, weights, grads, mean, var, weights32), learning_rates=lrs,
        wds=wds, step_count=step_count, **options)


def _interleaved(size: int, *lists: Arrays) -> list[NDArray]:
    """The arrays of several lists interleaved, weight by weight."""
    counts = [len(arrays) for arrays in lists]
    if len({*counts, size or counts[0]}) != 1:
        raise MXNetError(f"lists of {', '.join(map(str, counts))} arrays are given for {size} "
                         "weights, expected one array in each list for every weight")
    return list(chain(*zip(*lists, strict=True)))


def _scale(rescale_grad: Scale, weight: NDArray) -> NDArray:
    """`rescale_grad` as an array on the device of the weight."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(weight.context)
    try:
        number = float(rescale_grad)
    except (TypeError, ValueError):
        raise MXNetError(f"rescale_grad is {rescale_grad!r}, expected a number or an NDArray of "
                         "one element") from None
    return array([number], ctx=weight.context, dtype=np.float32)
