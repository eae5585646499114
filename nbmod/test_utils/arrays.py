"""Random arrays and shapes, drawn from NumPy's global generator, and small array helpers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import integer_types
from ..context import Context
from ..ndarray import NDArray, array
from .sparse_arrays import rand_sparse_ndarray
from .tolerance import default_dtype

__all__ = ["assign_each", "assign_each2", "collapse_sum_like", "create_2d_tensor", "create_vector",
           "get_identity_mat", "get_identity_mat_batch", "new_matrix_with_real_eigvals_2d",
           "new_matrix_with_real_eigvals_nd", "new_orthonormal_matrix_2d",
           "new_sym_matrix_with_real_eigvals_2d", "new_sym_matrix_with_real_eigvals_nd",
           "np_reduce", "rand_coord_2d", "rand_ndarray", "rand_shape_2d", "rand_shape_3d",
           "rand_shape_nd", "random_arrays", "random_sample", "random_uniform_arrays"]


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Draw float32 NumPy arrays from the standard normal distribution; one shape gives one.

    Parameters
    ----------
    *shapes : tuple of int
        Shapes of the arrays.

    Examples
    --------
    >>> [array.shape for array in mx.test_utils.random_arrays((2, 3), (4,))]
    [(2, 3), (4,)]
    """
    arrays: list[np.ndarray] = [
        np.asarray(np.random.standard_normal(shape)).astype(default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], **kwargs: Any) -> list[np.ndarray]:
    """Draw NumPy arrays, one for each shape, from a uniform distribution.

    Parameters
    ----------
    *shapes : tuple of int
        Shapes of the arrays.
    **kwargs
        `low` (default 0) and `high` (default 1), the bounds of the distribution, and `dtype`
        (default float32).

    Raises
    ------
    TypeError
        For other keywords.
    """
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"random_uniform_arrays: unknown arguments {sorted(kwargs)}")
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: Sequence, k: int) -> list:
    """Draw elements without replacement, in the order of `population`.

    Parameters
    ----------
    population : sequence
        Elements to draw from.
    k : int
        Number of elements to draw.
    """
    return [population[i] for i in sorted(random.sample(range(len(population)), k))]


def rand_ndarray(shape: tuple[int, ...], stype: str = "default", density: float | None = None,
                 dtype: Any = None, modifier_func: Callable | None = None,
                 shuffle_csr_indices: bool = False, distribution: str | None = None,
                 ctx: Context | None = None) -> NDArray:
    """Draw an NDArray from the standard normal distribution.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    stype : str, default 'default'
        Storage type: 'default', 'csr' or 'row_sparse'.
    density, shuffle_csr_indices, distribution : optional
        Of sparse arrays, as for `rand_sparse_ndarray`, whose elements are uniform.
    dtype : dtype, optional
        Element type; float32 unless given.
    modifier_func : callable, optional
        Function that is applied to each element.
    ctx : Context, optional
        The device; the current context unless given.
    """
    if stype != "default":
        return rand_sparse_ndarray(shape, stype, density, dtype, distribution, None, None,
                                   modifier_func, shuffle_csr_indices, ctx)[0]
    values = assign_each(np.random.standard_normal(shape), modifier_func)
    return array(values, ctx=ctx, dtype=default_dtype() if dtype is None else dtype)


def _dims(dims: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, dim + 1)) for dim in dims)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False
                  ) -> tuple[int, int]:
    """Draw a shape of two dimensions, see `rand_shape_nd`.

    Parameters
    ----------
    dim0, dim1 : int, default 10
        Largest size of each dimension.
    allow_zero_size : bool, default False
        Whether sizes may be 0.
    """
    return _dims((dim0, dim1), allow_zero_size)  # type: ignore[return-value]


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
                  ) -> tuple[int, int, int]:
    """Draw a shape of three dimensions, see `rand_shape_nd`.

    Parameters
    ----------
    dim0, dim1, dim2 : int, default 10
        Largest size of each dimension.
    allow_zero_size : bool, default False
        Whether sizes may be 0.
    """
    return _dims((dim0, dim1, dim2), allow_zero_size)  # type: ignore[return-value]


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Draw a shape.

    Parameters
    ----------
    num_dim : int
        Number of dimensions.
    dim : int, default 10
        Largest size of each dimension; the smallest is 1.
    allow_zero_size : bool, default False
        Whether sizes may be 0.
    """
    return _dims((dim,) * num_dim, allow_zero_size)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """Draw a point (x, y) with integer coordinates.

    Parameters
    ----------
    x_low, x_high : int
        Bounds of x: x_low <= x < x_high.
    y_low, y_high : int
        Bounds of y.
    """
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def assign_each(the_input: np.ndarray, function: Callable | None) -> np.ndarray:
    """Apply a function to every element of an array.

    Parameters
    ----------
    the_input : numpy.ndarray
        The array.
    function : callable or None
        The function; None: the identity.

    Returns
    -------
    numpy.ndarray
        The results, float64; without a function a copy of the input.
    """
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[np.float64])(the_input)


def assign_each2(input1: np.ndarray, input2: np.ndarray, function: Callable | None) -> np.ndarray:
    """Apply a function to every pair of elements of two arrays.

    Parameters
    ----------
    input1, input2 : numpy.ndarray
        The arrays.
    function : callable or None
        The function; None: its first argument.

    Returns
    -------
    numpy.ndarray
        The results, float64; without a function a copy of the first input.
    """
    if function is None:
        return np.array(input1)
    return np.vectorize(function, otypes=[np.float64])(input1, input2)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable) -> Any:
    """Reduce an array over one axis after another.

    Parameters
    ----------
    dat : numpy.ndarray
        The array.
    axis : int, sequence of int or None
        Axes to reduce; None: all.
    keepdims : bool
        Whether reduced axes remain, with size 1.
    numpy_reduce_func : callable
        Reduction with a parameter `axis`, such as `numpy.sum`.

    Examples
    --------
    >>> import numpy as np
    >>> mx.test_utils.np_reduce(np.ones((2, 3, 4)), (0, 2), False, np.sum).tolist()
    [8.0, 8.0, 8.0]
    """
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, integer_types) else axis
    for ax in sorted((ax % dat.ndim for ax in axes), reverse=True):
        dat = numpy_reduce_func(dat, axis=ax)
        dat = np.expand_dims(dat, ax) if keepdims else dat
    return dat


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum an array over its broadcast axes: the gradient of broadcasting from `shape`.

    Parameters
    ----------
    a : numpy.ndarray
        The array.
    shape : tuple of int
        Shape that was broadcast to that of `a`.
    """
    extra = a.ndim - len(shape)
    stretched = [i for i, dim in enumerate(shape, extra) if dim == 1 and a.shape[i] != 1]
    return a.sum(axis=(*range(extra), *stretched), keepdims=True).reshape(shape)


# -- matrices ---------------------------------------------------------------------------------


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Make a matrix whose elements are the indices of their rows.

    Parameters
    ----------
    rows, columns : int
        Shape of the matrix.
    dtype : dtype, default numpy.int64
        Element type.
    """
    return array(np.arange(rows)[:, None] + np.zeros((1, columns)), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """Make the vector 0, 1, ..., size - 1.

    Parameters
    ----------
    size : int
        Number of elements.
    dtype : dtype, default numpy.int64
        Element type.
    """
    return array(np.arange(size), dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """Make an identity matrix.

    Parameters
    ----------
    size : int
        Number of rows and columns.
    """
    return array(np.identity(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Make a batch of two identity matrices, (2, size, size).

    Parameters
    ----------
    size : int
        Number of rows and columns.
    """
    return array(np.stack([np.identity(size)] * 2))


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """Draw an orthogonal matrix.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    """
    return np.linalg.qr(np.random.uniform(-1, 1, (n, n)))[0]


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Draw a matrix with eigenvalues from 1 to 2.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    """
    vectors = np.random.uniform(-1, 1, (n, n)) + 2 * np.identity(n)
    return vectors @ np.diag(np.random.uniform(1, 2, n)) @ np.linalg.inv(vectors)


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Draw a symmetric matrix with eigenvalues from 1 to 2.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    """
    vectors = new_orthonormal_matrix_2d(n)
    return vectors @ np.diag(np.random.uniform(1, 2, n)) @ vectors.T


def _stack(shape: tuple[int, ...], make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2]))
    return np.stack([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Draw a stack of matrices with eigenvalues from 1 to 2.

    Parameters
    ----------
    shape : tuple of int
        Shape of the stack, (..., n, n).
    """
    return _stack(shape, new_matrix_with_real_eigvals_2d)


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Draw a stack of symmetric matrices with eigenvalues from 1 to 2.

    Parameters
    ----------
    shape : tuple of int
        Shape of the stack, (..., n, n).
    """
    return _stack(shape, new_sym_matrix_with_real_eigvals_2d)
