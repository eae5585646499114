"""Random arrays and shapes, drawn from NumPy's global generator, and small helpers over arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray, array
from .tolerance import default_dtype

__all__ = ["assign_each", "assign_each2", "collapse_sum_like", "create_2d_tensor", "create_vector",
           "get_identity_mat", "get_identity_mat_batch", "new_matrix_with_real_eigvals_2d",
           "new_matrix_with_real_eigvals_nd", "new_orthonormal_matrix_2d",
           "new_sym_matrix_with_real_eigvals_2d", "new_sym_matrix_with_real_eigvals_nd",
           "np_reduce", "rand_coord_2d", "rand_ndarray", "rand_shape_2d", "rand_shape_3d",
           "rand_shape_nd", "random_arrays", "random_sample", "random_uniform_arrays"]


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Normally distributed NumPy arrays; for one shape the array itself."""
    arrays: list[np.ndarray] = [
        np.asarray(np.random.standard_normal(shape)).astype(default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], **kwargs: Any) -> list[np.ndarray]:
    """Uniformly distributed NumPy arrays; keywords `low` (0), `high` (1), `dtype`."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"random_uniform_arrays: unknown arguments {sorted(kwargs)}")
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: Sequence, k: int) -> list:
    """`k` different elements of `population`, in its order."""
    return [population[i] for i in sorted(random.sample(range(len(population)), k))]


def rand_ndarray(shape: tuple[int, ...], stype: str = "default", density: float | None = None,
                 dtype: Any = None, modifier_func: Callable | None = None,
                 shuffle_csr_indices: bool = False, distribution: str | None = None,
                 ctx: Context | None = None) -> NDArray:
    """A normally distributed NDArray, of float32 unless `dtype` is given.

    `modifier_func` changes each element.  MXNetError for storage types other than "default".
    """
    if stype != "default":
        raise MXNetError(f"rand_ndarray: stype is {stype!r}, expected 'default': sparse arrays are "
                         "not made here")
    values = assign_each(np.random.standard_normal(shape), modifier_func)
    return array(values, ctx=ctx, dtype=default_dtype() if dtype is None else dtype)


def _dims(dims: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, dim + 1)) for dim in dims)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False
                  ) -> tuple[int, int]:
    """A shape of two dimensions from 1 (or 0) to the numbers given."""
    return _dims((dim0, dim1), allow_zero_size)  # type: ignore[return-value]


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
                  ) -> tuple[int, int, int]:
    """The same for three dimensions."""
    return _dims((dim0, dim1, dim2), allow_zero_size)  # type: ignore[return-value]


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """The same for `num_dim` dimensions up to `dim`."""
    return _dims((dim,) * num_dim, allow_zero_size)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """x and y, each from its low to below its high."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def assign_each(the_input: np.ndarray, function: Callable | None) -> np.ndarray:
    """`function` of every element; the input itself without one."""
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[np.float64])(the_input)


def assign_each2(input1: np.ndarray, input2: np.ndarray, function: Callable | None) -> np.ndarray:
    """`function` of every pair of elements; the first input without one."""
    if function is None:
        return np.array(input1)
    return np.vectorize(function, otypes=[np.float64])(input1, input2)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable) -> Any:
    """A NumPy reduction over any axes, one after another; `axis` None is all of them."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for ax in sorted((ax % dat.ndim for ax in axes), reverse=True):
        dat = numpy_reduce_func(dat, axis=ax)
        dat = np.expand_dims(dat, ax) if keepdims else dat
    return dat


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of broadcasting from `shape`: `a` summed over the axes that were stretched."""
    extra = a.ndim - len(shape)
    stretched = [i for i, dim in enumerate(shape, extra) if dim == 1 and a.shape[i] != 1]
    return a.sum(axis=(*range(extra), *stretched), keepdims=True).reshape(shape)


# -- matrices ---------------------------------------------------------------------------------


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """(rows, columns), every element the number of its row."""
    return array(np.arange(rows)[:, None] + np.zeros((1, columns)), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, ..., size - 1."""
    return array(np.arange(size), dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """The identity of (size, size)."""
    return array(np.identity(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Two of them, (2, size, size)."""
    return array(np.stack([np.identity(size)] * 2))


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random (n, n) matrix whose columns are orthonormal."""
    return np.linalg.qr(np.random.uniform(-1, 1, (n, n)))[0]


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random (n, n) matrix with eigenvalues from 1 to 2."""
    vectors = np.random.uniform(-1, 1, (n, n)) + 2 * np.identity(n)
    return vectors @ np.diag(np.random.uniform(1, 2, n)) @ np.linalg.inv(vectors)


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """The same, symmetric."""
    vectors = new_orthonormal_matrix_2d(n)
    return vectors @ np.diag(np.random.uniform(1, 2, n)) @ vectors.T


def _stack(shape: tuple[int, ...], make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2]))
    return np.stack([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """A stack of such matrices: shape (..., n, n)."""
    return _stack(shape, new_matrix_with_real_eigvals_2d)


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """A stack of symmetric ones."""
    return _stack(shape, new_sym_matrix_with_real_eigvals_2d)
