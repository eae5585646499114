"""`mx.contrib.autograd`: the functions of `mx.autograd` under their names before MXNet 0.10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

from .. import autograd
from .. import ndarray as nd
from ..autograd import mark_variables
from ..base import _as_list
from ..ndarray import NDArray

__all__ = ["backward", "compute_gradient", "grad", "grad_and_loss", "mark_variables",
           "set_is_training", "test_section", "train_section"]
__dir__ = __all__.copy


def set_is_training(is_train: bool) -> bool:
    """Switch recording and training mode of the current thread; returns the state before.

    Parameters
    ----------
    is_train : bool
        New state.
    """
    before = autograd.set_recording(is_train)
    autograd.set_training(is_train)
    return before


def train_section() -> AbstractContextManager[Any]:
    """Return a context in which operations are recorded, in training mode.

    Examples
    --------
    >>> from nbmod.contrib import autograd
    >>> x, gradient = mx.nd.array([1, 2]), mx.nd.zeros(2)
    >>> autograd.mark_variables([x], [gradient])
    >>> with autograd.train_section():
    ...     y = x * x
    >>> autograd.backward([y])
    >>> gradient.asnumpy().tolist()
    [2.0, 4.0]
    """
    return autograd.record()


def test_section() -> AbstractContextManager[Any]:
    """Return a context in which operations are not recorded, in inference mode."""
    return autograd.pause()


def backward(outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None,
             retain_graph: bool = False) -> None:
    """Compute the gradients of marked variables.

    Parameters
    ----------
    outputs : list of NDArray
        Results to differentiate.
    out_grads : list of NDArray, optional
        Gradients of these; ones by default.
    retain_graph : bool, default False
        Whether `backward` may be called again.
    """
    autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """Compute the gradients of marked variables: `backward` of ones.

    Parameters
    ----------
    outputs : list of NDArray
        Results to differentiate.
    """
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: int | Sequence[int] | None = None
                  ) -> Callable[..., tuple[list[NDArray], Any]]:
    """Return a function that gives the gradients of `func`, and its value.

    Parameters
    ----------
    func : callable
        Function of arrays.
    argnum : int or list of int, optional
        Arguments to differentiate by; all by default.

    Examples
    --------
    >>> square = mx.contrib.autograd.grad_and_loss(lambda x: x * x)
    >>> gradients, value = square(mx.nd.array([3]))
    >>> gradients[0].asnumpy().tolist(), value.asnumpy().tolist()
    ([6.0], [9.0])
    """
    @wraps(func)
    def wrapped(*args: NDArray) -> tuple[list[NDArray], Any]:
        variables = list(args) if argnum is None else [args[i] for i in _as_list(argnum)]
        gradients = [nd.zeros_like(x) for x in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        backward(_as_list(outputs))
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | Sequence[int] | None = None
         ) -> Callable[..., list[NDArray]]:
    """Return a function that gives the gradients of `func`.

    Parameters
    ----------
    func, argnum
        As for `grad_and_loss`.
    """
    both = grad_and_loss(func, argnum)

    @wraps(func)
    def wrapped(*args: NDArray) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
