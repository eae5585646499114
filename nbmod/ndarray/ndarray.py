"""`NDArray`: a tensor on a device.

`_data` is a C-contiguous array of the device (`numpy.ndarray` on the CPU, see `ops.device`), `_ctx`
its context, of a device that exists.  Several NDArrays may share memory: `reshape`, `detach`, and
basic indexing with a contiguous result give views.

Execution is synchronous on the CPU and asynchronous on a GPU, where `asnumpy` and `wait_to_read`
synchronize.  Any number of threads may read an array concurrently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError, integer_types
from ..context import Context, current_context, resolve
from ..core.shape_semantics import is_np_shape
from ..graph import Entry
from ..ops.device import device_of
from ..ops.shape import normalize_axis, size_of
from . import array_indexing, mutation, tape
from .fluent import fluent_methods
from .host_array import as_dtype, host_array, reshape_argument
from .operators import BINARY, Operators
from .recording import STATE
from .type_codes import *  # noqa: F403  # scripts import them from here

if TYPE_CHECKING:
    from ..base import DTypeArg, Forwarded
    from ._op_stubs.methods import Methods

__all__ = ["NDArray"]


def _function(name: str) -> Any:
    from .functions import function
    return function(name)


if not TYPE_CHECKING:
    Methods = fluent_methods(_function)


class NDArray(Operators, Methods):
    """An array of one element type on one device.

    Functions such as `nd.array` and `nd.zeros`, and operations on other arrays, return arrays.

    Parameters
    ----------
    handle : numpy.ndarray or array of a device
        Memory of the array, which is not copied and nothing else may write; None in unpickling.
    ctx : Context, optional
        Device of the array; None: the current context.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    >>> x.shape, x.size, x.ndim, x.context
    ((2, 3), 6, 2, cpu(0))
    >>> x[:, 1].asnumpy().tolist(), x.sum(axis=0).asnumpy().tolist()
    ([2.0, 5.0], [5.0, 7.0, 9.0])
    """

    __slots__ = ("_data", "_ctx", "_entry", "__weakref__")

    is_sparse = False
    """Whether `_data` is a sparse value: see `sparse_array`."""
    _binary: Callable[..., NDArray]
    """An operation with another array or a number; `invocation` sets it, as it makes arrays."""

    def __init__(self, handle: Any, ctx: Context | None = None):
        self._data = handle
        self._ctx = ctx if ctx is not None else resolve(current_context())
        self._entry: Any = None

    # -- what it is -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis, a tuple of int."""
        return self._data.shape

    @property
    def dtype(self) -> type[np.generic]:
        """The NumPy scalar type of the elements, such as `numpy.float32`."""
        return self._data.dtype.type

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def context(self) -> Context:
        """The device that holds the array."""
        return self._ctx

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type: 'default' is dense, others are 'csr' and 'row_sparse'."""
        return "default"

    @property
    def handle(self) -> Any:
        """The memory: on the CPU a `numpy.ndarray`, through which it may be read and written."""
        return mutation.lend(self._data) if isinstance(self._data, np.ndarray) else self._data

    @property
    def writable(self) -> bool:
        """Whether elements can be assigned; true of all dense arrays."""
        return True

    @property
    def T(self) -> NDArray:
        """A copy with the axes in reverse order; an array of one axis itself."""
        return self.transpose() if self.ndim > 1 else self

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return bool(self.size and self.asnumpy().item())

    __nonzero__ = __bool__

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n{self.asnumpy()!s}\n<{type(self).__name__} {shape} @{self._ctx}>"

    def __iter__(self) -> Iterator[NDArray]:
        return (self[i] for i in range(len(self)))

    def __neg__(self) -> NDArray:
        return self._binary(BINARY["multiply"], -1.0)

    def __abs__(self) -> NDArray:
        return self.abs()

    # -- to and from elsewhere --------------------------------------------------------------

    def asnumpy(self) -> np.ndarray:
        """Return a copy of the elements as a NumPy array, when work on the array is done."""
        return device_of(self._ctx).to_numpy(self._data)

    def __dlpack__(self, **kwargs: Any) -> Any:
        self._require_host("__dlpack__")
        return mutation.lend(self._data).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._require_host("__dlpack_device__")
        return 1, 0

    def _require_host(self, what: str) -> None:
        if self._ctx.is_gpu:
            raise MXNetError(f"{what}: the array is on {self._ctx}, expected one on the CPU; copy "
                             "it by as_in_context(mx.cpu())")

    def to_dlpack_for_read(self) -> Any:
        """`nd.to_dlpack_for_read`, or `nd.to_dlpack_for_write`, of this array."""
        return self.__dlpack__()

    to_dlpack_for_write = to_dlpack_for_read

    def __array__(self, dtype: DTypeArg = None, copy: bool | None = None) -> np.ndarray:
        return self.asnumpy() if dtype is None else self.asnumpy().astype(dtype, copy=False)

    def asscalar(self) -> Any:
        """Return the only element as a NumPy scalar; ValueError for another number of elements."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(-1)[0]

    def copyto(self, other: NDArray | Context) -> NDArray | bool:
        """Copy the elements to another array, converting their type, or to a device; return it.

        Parameters
        ----------
        other : NDArray or Context
            Destination: an array of the same shape, or a device, on which an array is made.  This
            array itself: a warning and False.
        """
        target = other if isinstance(other, NDArray) else self._made_on(other)
        if target is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, 2)
            return False
        if target.shape != self.shape:
            raise MXNetError(f"copyto: shapes {self.shape} and {target.shape} do not agree")
        if target.is_sparse:
            target[:] = self.asnumpy()
            return target
        if STATE.recording:
            tape.require_unrecorded("copyto", [target])
        ctx = target._ctx if isinstance(self._data, np.ndarray) else self._ctx
        device_of(ctx).copy(self._data, target._data)
        mutation.written(target._data)
        return self._record_result(target, tape.record_copy, target._data.dtype)

    def _made_on(self, ctx: object) -> NDArray:
        """A new array of this shape and type on a device."""
        if not isinstance(ctx, Context):
            raise TypeError(f"copyto does not support type {type(ctx)}")
        ctx = resolve(ctx)
        return NDArray(device_of(ctx).empty(self.shape, self.dtype), ctx)

    def copy(self) -> NDArray:
        """Return a copy on the same device."""
        return self._as(self._data.dtype)

    def __deepcopy__(self, memo: object = None) -> NDArray:
        return self.copy()

    __copy__ = __deepcopy__

    def as_in_context(self, context: Context) -> NDArray:
        """Return this array if it is on the given device, or else a copy on that device.

        Parameters
        ----------
        context : Context
            Device.
        """
        return self if self._ctx == resolve(context) else self.copyto(context)  # type: ignore

    def astype(self, dtype: DTypeArg, copy: bool = True) -> NDArray:
        """Return a copy with another element type.

        Parameters
        ----------
        dtype : str or numpy type
            Element type of the result.
        copy : bool, default True
            False: an array that has this type is returned itself.
        """
        target = as_dtype(dtype)
        return self if not copy and target == self._data.dtype else self._as(target)

    def _as(self, dtype: np.dtype) -> NDArray:
        device = device_of(self._ctx)
        data = device.empty(self.shape, dtype)
        device.copy(self._data, data)
        return self._record_result(NDArray(data, self._ctx), tape.record_copy, dtype)

    def tostype(self, stype: str) -> NDArray:
        """Return a copy with another storage type.

        Parameters
        ----------
        stype : {'default', 'csr', 'row_sparse'}
            Storage type; 'default' is dense, 'csr' is for matrices.
        """
        return self.copy() if stype == self.stype else _function("cast_storage")(self, stype=stype)

    def as_nd_ndarray(self) -> NDArray:
        """Return this array; for compatibility with MXNet's NumPy interface."""
        return self

    def _sync_copyfrom(self, source_array: object) -> None:
        """Copy from anything NumPy understands, of the same shape."""
        source = host_array(source_array, self._data.dtype)
        if source.shape != self.shape:
            raise ValueError(f"Shape inconsistent: expected {self.shape} vs got {source.shape}")
        device_of(self._ctx).copy(np.ascontiguousarray(source), self._data)
        mutation.written(self._data)

    def wait_to_read(self) -> None:
        """Wait until all work on the device of this array is done."""
        device_of(self._ctx).synchronize()

    wait_to_write = wait_to_read

    def __reduce__(self) -> tuple[type[NDArray], tuple[None], dict[str, bytearray | None]]:
        return NDArray, (None,), self.__getstate__()

    def __getstate__(self) -> dict[str, bytearray | None]:
        from ..core.serialization import record_bytes

        return {"handle": None if self._data is None else bytearray(record_bytes(self.asnumpy()))}

    def __setstate__(self, state: Mapping[str, bytes | bytearray | memoryview | None]) -> None:
        from .records import from_record

        self._ctx = resolve(current_context())
        self._data = from_record(state["handle"], self._ctx, self.stype)

    # -- gradients --------------------------------------------------------------------------

    @property
    def grad(self) -> NDArray | None:
        """The NDArray that receives the gradients; None without `attach_grad`."""
        node = None if self._entry is None else self._entry.node
        return node.grad if isinstance(node, tape.Marked) and node.request != "null" else None

    _fresh_grad = property(tape.fresh_gradient, tape.set_fresh_gradient)

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make an array of zeros, `grad`, for the gradients of this array; `backward` ends here.

        Parameters
        ----------
        grad_req : {'write', 'add', 'null'}, default 'write'
            How a gradient is stored: overwriting, added to what is there, or not at all.
        stype : {'default', 'row_sparse', 'csr'}, optional
            Storage type of the gradient; None: that of the array.
        """
        from .array_creation import zeros
        from .gradients import mark_variables

        gradient = zeros(self.shape, self.context, self.dtype, stype or self.stype)
        mark_variables(self, gradient, grad_req)

    def backward(self, out_grad: NDArray | None = None, retain_graph: bool = False,
                 train_mode: bool = True) -> None:
        """Compute the gradients of this array for all marked arrays that it depends on.

        Parameters
        ----------
        out_grad, retain_graph, train_mode
            As `head_grads` and so on of `autograd.backward`.
        """
        from .gradients import backward

        backward(self, None if out_grad is None else [out_grad], retain_graph, train_mode)

    def _record_result(self, result: NDArray, record: Callable[..., Entry], fact: Any) -> NDArray:
        """`result`, an array made from this one; `record` records that on the tape."""
        if STATE.recording and (entry := tape.live_entry(self)):
            result._entry = record(entry, fact, result._ctx)
        return result

    def detach(self) -> NDArray:
        """Return a view of the whole array through which no gradients flow."""
        return NDArray(self._data, self._ctx)

    # -- elements ---------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NDArray:
        """Return the elements at an index.

        Integers and slices give a view if its elements are contiguous in memory; arrays, lists and
        masks give a copy.  `x[0, 1]` of a matrix has the shape (1,), or () where `mx.np_shape` is
        active.  `x[:]` and `x[()]` are `x` itself.
        """
        if isinstance(key, (slice, tuple)) and key in array_indexing.WHOLE and self.shape:
            return self
        normal, basic = array_indexing.normalize(key)
        result = NDArray(device_of(self._ctx).index(self._data, normal), self._ctx)
        if STATE.recording and tape.live_entry(self):
            result._entry = tape.record_index(self, normal, basic, result.shape)
        if result.size == 1 and is_np_shape() and [*map(type, normal[:-1])] == [int] * self.ndim:
            return result.reshape(())
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write `value`, broadcast and converted to this type, to the elements at an index."""
        if not self.ndim and isinstance(key, slice) and key == slice(None):
            key = Ellipsis  # a scalar has no axis to slice
        normal, _ = array_indexing.normalize(key)
        if STATE.recording:
            tape.record_assignment(self, normal, value if isinstance(value, NDArray) else None)
        if (isinstance(value, NDArray) and not value.is_sparse
                and isinstance(value._data, np.ndarray) == isinstance(self._data, np.ndarray)):
            source = value._data
        else:
            source = host_array(value, self._data.dtype)
        device_of(self._ctx).assign(self._data, normal, source)
        mutation.written(self._data)

    def slice_assign(self, rhs: NDArray | float, begin: Sequence[int], end: Sequence[int],
                     step: Sequence[int]) -> NDArray:
        """Write an array to a slice of this array, in place, and return this array.

        Parameters
        ----------
        rhs : NDArray
            Elements to write; broadcasts to the shape of the slice.
        begin, end, step : sequence of int
            Start, end (excluded) and step of the slice on each axis.
        """
        self[array_indexing.to_slices(begin, end, step)] = rhs
        return self

    def slice_assign_scalar(self, value: float, begin: Sequence[int], end: Sequence[int],
                            step: Sequence[int]) -> NDArray:
        """`slice_assign` with a number.

        Parameters
        ----------
        value : float
            Number to write.
        begin, end, step
            As for `slice_assign`.
        """
        return self.slice_assign(value, begin, end, step)

    # -- shape ------------------------------------------------------------------------------

    def reshape(self, *shape: int | Sequence[int], **kwargs: Forwarded) -> NDArray:
        """Return a view with another shape.

        Parameters
        ----------
        *shape : int, or one tuple of int
            New shape, in which 0 and -1 to -4 mean what they do for `nd.reshape`.
        **kwargs
            `shape`, in place of the positional arguments, and `reverse`, as for `nd.reshape`.

        Examples
        --------
        >>> x = mx.nd.zeros((2, 3, 4))
        >>> x.reshape(0, -1).shape, x.reshape((-3, 0)).shape, x.reshape(-4, 1, 2, -2).shape
        ((2, 12), (6, 4), (1, 2, 3, 4))
        """
        return self._reshaped(reshape_argument(self.shape, shape, kwargs))

    def _reshaped(self, shape: tuple[int, ...]) -> NDArray:
        view = NDArray(self._data.reshape(shape), self._ctx)
        return self._record_result(view, tape.record_reshape, shape)

    def flatten(self, inplace: bool = False) -> NDArray:
        """Return the array with all axes but the first merged into one.

        Parameters
        ----------
        inplace : bool, default False
            Return a view instead of a copy.
        """
        view = self._reshaped((*self.shape[:1], size_of(self.shape[1:])))
        return view if inplace else view.copy()

    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray:
        """Return the array with a new axis of length 1.

        Parameters
        ----------
        axis : int
            Position of the axis in the result.
        inplace
            As for `flatten`.
        """
        at = normalize_axis(axis, self.ndim + 1)
        view = self._reshaped((*self.shape[:at], 1, *self.shape[at:]))
        return view if inplace else view.copy()

    def squeeze(self, axis: int | tuple[int, ...] | None = None, inplace: bool = False) -> NDArray:
        """Return the array without axes of length 1.

        Parameters
        ----------
        axis : int or tuple of int, optional
            Axes to remove; None: all of length 1.
        inplace
            As for `flatten`.
        """
        result = _function("squeeze")(self, axis=axis)
        return self._reshaped(result.shape) if inplace else result

    def broadcast_to(self, shape: Sequence[int]) -> NDArray:
        """Repeat the array along axes of length 1.

        Parameters
        ----------
        shape : int or tuple of int
            Shape of the result; 0 keeps the length of an axis.  New axes are added in front.
        """
        target = (shape,) if isinstance(shape, integer_types) else tuple(shape)
        lead = len(target) - self.ndim
        view = self.reshape((1,) * lead + self.shape) if lead > 0 else self
        return _function("broadcast_to")(view, shape=target)

    def broadcast_like(self, other: NDArray) -> NDArray:
        """Repeat the array along axes of length 1, to the shape of another one.

        Parameters
        ----------
        other : NDArray
            Array that has the shape of the result.
        """
        return self.broadcast_to(other.shape)


if TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """`array`, `zeros`, `add` and others, which the package puts here as MXNet does."""
