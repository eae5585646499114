"""`Parameter`: an array of a network, with a copy and a gradient on each of its devices."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np

from .. import initializer
from .. import ndarray as nd
from .. import symbol as sym
from ..base import ArgumentError, CheckError, DTypeArg, MXNetError, warn_user
from ..context import Context, computing, cpu, current_context, resolve
from ..core.shape_semantics import is_np_shape
from ..initializer.base_initializer import require_initializer
from ..ndarray import NDArray
from ..ndarray.gradients import mark_variables
from ..ndarray.recording import RecordingScope
from ..symbol import Symbol
from .parameter_arrays import AnyInit, ArrayUser, Init, ParameterArrays, device_positions, fill
from .saved_values import DtypeSource, Loading, fits, take_saved
from .utils import Contexts, as_contexts, dimensions, existing, shape_is_known, without_values

__all__ = ["DeferredInitializationError", "Parameter"]

Stype = Literal["default", "row_sparse", "csr"]
_STYPES = ("default", "row_sparse", "csr")


class DeferredInitializationError(MXNetError):
    """A parameter is read whose shape only the first call of the network tells."""


class Parameter:
    """An array of a network, with a copy and a gradient on each of its devices.

    Parameters
    ----------
    name : str
        Name.
    grad_req : {'write', 'add', 'null'}, default 'write'
        What `autograd` does with the gradient.
    shape : int or tuple of int, optional
        Shape; a dimension of 0 is not known yet.
    dtype : dtype, default float32
        Element type.
    lr_mult, wd_mult : float, default 1.0
        Factors of the learning rate and of the weight decay, for optimizers.
    init : Initializer or str, optional
        Takes precedence over the one that `Block.initialize` is given.
    allow_deferred_init : bool, default False
        Whether `initialize` may wait for the shape.
    differentiable : bool, default True
        False: `grad_req` is 'null' and stays so.
    stype, grad_stype : {'default', 'row_sparse', 'csr'}, default 'default'
        Storage types of the array and of the gradient.

    Examples
    --------
    >>> weight = mx.gluon.Parameter("weight", shape=(2, 3))
    >>> weight.initialize(mx.init.One())
    >>> float(weight.data().sum().asscalar())
    6.0
    """

    _kind: ClassVar = "Parameter"

    def __init__(self, name: str, grad_req: str = "write", shape: Any = None,
                 dtype: DTypeArg = np.float32, lr_mult: float = 1.0, wd_mult: float = 1.0,
                 init: Init = None, allow_deferred_init: bool = False, differentiable: bool = True,
                 stype: Stype = "default", grad_stype: Stype = "default"):
        for what, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in _STYPES:
                raise CheckError(f"{what} for Parameter {name!r} must be one of 'default', "
                                 f"'row_sparse', or 'csr', but got {value!r}")
        self.name, self.lr_mult, self.wd_mult, self.init = name, lr_mult, wd_mult, init
        self._shape = None if shape is None else dimensions(shape)
        self._dtype, self._stype, self._grad_stype = dtype, stype, grad_stype
        self._allow_deferred_init, self._differentiable = allow_deferred_init, differentiable
        self._copies: ParameterArrays | None = None
        self._is_replaced = False  # whether a program has replaced arrays by its own
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] | None = None
        self._deferred_init: tuple[Any, ...] = ()  # own init, contexts, default init, data
        self._var: Symbol | None = None
        self._trainer: Any = None  # the latest one, which pulls rows
        self._trainers, self._users = weakref.WeakSet[Any](), weakref.WeakSet[ArrayUser]()
        self._grad_req = "null"
        self.grad_req = grad_req

    def __repr__(self) -> str:
        return f"{self._kind} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_users": None, "_trainer": None, "_trainers": None, "_var": None,
                "_grad": None, "_copies": self._data and [*self._data]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._users, self._trainers = weakref.WeakSet(), weakref.WeakSet()
        if self._copies is not None:
            contexts = self._ctx_list or []
            self._keep(x.as_in_context(ctx).detach()
                       for x, ctx in zip(self._copies, contexts, strict=True))
            self._init_grad()

    # -- facts ------------------------------------------------------------------------------------

    @property
    def grad_req(self) -> str:
        """How `autograd` stores the gradient: 'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise CheckError("grad_req must be one of 'write', 'add', or 'null', but got "
                             f"{req!r}; it is that of parameter {self.name}")
        req = req if self._differentiable else "null"
        if req != self._grad_req:
            self._grad_req = req
            if self._data is not None:
                self._init_grad()

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape, with 0 for a dimension that is not known yet; a value may fill these."""
        if self._shape is not None and is_np_shape():
            return tuple(size or -1 for size in self._shape)
        return self._shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        if self._shape is not None and not fits(shape, self._shape):
            raise CheckError(f"Expected shape {tuple(shape)} is incompatible with given shape "
                             f"{self._shape}: parameter {self.name} keeps what is known of it")
        self._shape = dimensions(shape)

    @property
    def dtype(self) -> DTypeArg:
        """Element type, as it was given; a new one casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DTypeArg) -> None:
        self.cast(dtype)

    @property
    def stype(self) -> Stype:
        """Storage type of the array."""
        return self._stype

    def var(self) -> Symbol:
        """Return the variable of this parameter in symbols: one for each parameter."""
        if self._var is None:
            self._var = sym.var(self.name, shape=self.shape, dtype=self.dtype, init=self.init,
                                lr_mult=self.lr_mult, wd_mult=self.wd_mult, stype=self._stype)
        return self._var

    # -- values -----------------------------------------------------------------------------------

    def initialize(self, init: AnyInit = None, ctx: Contexts = None, default_init: AnyInit = None,
                   force_reinit: bool = False) -> None:
        """Fill the arrays with initial values, or do so when the shape is known.

        Parameters
        ----------
        init : Initializer or str, optional
            Initializer; the parameter's own by default.
        ctx : Context or list of Context, optional
            Devices, each of which gets a copy; the current one by default.
        default_init : Initializer or str, optional
            Used where neither `init` nor the parameter's own is given; uniform values by default.
        force_reinit : bool, default False
            Whether to replace values that are there.

        Raises
        ------
        ValueError
            If the shape is not known, and the parameter may not wait for it.
        MXNetError
            If the shape is known, and a device does not exist.
        """
        if self._data is not None and not force_reinit:
            warn_user(f"Parameter {self.name!r} is already initialized, ignoring. "
                      "Set force_reinit=True to re-initialize.")
            return
        default_init = default_init or initializer.Uniform()
        chosen = init or self.init or default_init
        for each in (chosen, default_init):
            require_initializer(each, f"Parameter {self.name!r}")
        contexts = as_contexts(ctx, used=shape_is_known(self.shape))
        for trainer in self._trainers if self._data is not None else ():
            trainer._replace(self)
        self._copies = self._grad = None
        if not shape_is_known(self.shape) and not self._allow_deferred_init:
            raise ArgumentError(f"Cannot initialize Parameter {self.name!r} because it has invalid "
                                f"shape: {self.shape}. Give the whole shape, or "
                                "allow_deferred_init=True.")
        self._deferred_init = chosen, contexts, default_init, None
        if shape_is_known(self.shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Make the arrays of an initialized parameter whose shape is known now."""
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        shape = self.shape
        if shape is None or not shape_is_known(shape):
            raise CheckError(f"Cannot initialize Parameter {self.name!r} because it has invalid "
                             f"shape: {shape}. Give in_units, in_channels and so on to the layer.")
        contexts = existing(contexts, self.name)
        self._deferred_init = ()
        with RecordingScope(False, None):
            if data is None:
                data = nd.zeros(shape, cpu(), self.dtype, stype=self._stype)
                fill(self.name, data, init, default_init)
            self._init_impl(data, contexts)

    def _init_impl(self, data: NDArray, contexts: Sequence[Context]) -> None:
        """Copy values to the devices, as new arrays."""
        self._ctx_list = list(contexts)
        self._keep(data.copyto(ctx) for ctx in contexts)  # type: ignore[misc]
        self._init_grad()

    def _init_grad(self) -> None:
        """Make new gradients, or none, and tell those who keep arrays."""
        self._grad = None
        data = self._check_and_get(self._data, list)
        if self.grad_req == "null":
            self._keep(x.detach() for x in data)
        else:
            self._grad = [nd.zeros(x.shape, x.context, x.dtype, stype=self._grad_stype)
                          for x in data]
            mark_variables(data, self._grad, self.grad_req)
        for user in self._users:
            user.reset()

    def _check_and_get(self, arrays: list[NDArray] | None, ctx: Context | type[list[Any]] | None
                       ) -> Any:
        """The array on a device, or all of them if `ctx` is `list`; an error without values."""
        if arrays is None or self._ctx_list is None:
            if self._deferred_init:
                raise DeferredInitializationError(
                    f"Parameter {self.name!r} has not been initialized yet because initialization "
                    "was deferred: the first call of the network finds its shape. Call the "
                    "network on a batch first, or give in_units, in_channels and so on.")
            raise without_values(self.name)
        if ctx is list:
            return arrays
        if ctx is None and len(arrays) == 1:
            return arrays[0]
        where = computing(resolve(current_context() if ctx is None else ctx))  # type: ignore[arg-type]
        for own, array in zip(self._ctx_list, arrays, strict=True):
            if computing(own) == where:
                return array
        raise MXNetError(f"Parameter {self.name!r} was not initialized on context {where}. "
                         f"It was only initialized on {self._ctx_list}.")

    @property
    def _ctx_map(self) -> list[list[int | None]] | None:
        """Positions of the devices."""
        return None if self._ctx_list is None else device_positions(self._ctx_list)

    @_ctx_map.setter
    def _ctx_map(self, positions: object) -> None:
        """Do nothing: parameters of other projects copy it together with the list of devices."""

    @property
    def _is_computed(self) -> bool:
        """Whether `data` may return another array for each call: a program changes it."""
        return self._is_replaced or getattr(self.data, "__func__", None) is not Parameter.data

    @property
    def _data(self) -> list[NDArray] | None:
        """The copies; programs may put arrays of their own, of any shape, in their place."""
        return self._copies

    @_data.setter
    def _data(self, arrays: Iterable[NDArray] | None) -> None:
        self._keep(arrays)
        self._read_per_call()

    def _keep(self, arrays: Iterable[NDArray] | None) -> None:
        self._copies = None if arrays is None else ParameterArrays(arrays, self._read_per_call)

    def _read_per_call(self) -> None:
        """Let those who keep arrays read those of a program for each call."""
        self._is_replaced = True
        for user in self._users:
            user.read_per_call(self.name, self.data)

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the array on a device.

        Parameters
        ----------
        ctx : Context, optional
            Device; by default the only one, or the current one of several.

        Raises
        ------
        DeferredInitializationError
            If its shape is not known yet.
        RuntimeError
            If it has no values, or none on this device.
        """
        if self._stype != "default":
            self._fail_rows(f"a copy of Parameter {self.name!r} on ctx {ctx} via data()")
        arrays = self._copies
        if arrays is not None and len(arrays) == 1 and (ctx is None or arrays[0]._ctx == ctx):
            return arrays[0]
        return self._check_and_get(arrays, ctx)

    def list_data(self) -> list[NDArray]:
        """Return the arrays on all devices, in the order of `list_ctx`."""
        if self._stype != "default":
            self._fail_rows(f"copies of Parameter {self.name!r} on all contexts via list_data()")
        return list(self._check_and_get(self._data, list))

    def _fail_rows(self, what: str) -> NoReturn:
        raise MXNetError(f"Cannot return {what} because its storage type is {self._stype}. "
                         "Please use row_sparse_data() instead.")

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Return rows of a parameter of storage type 'row_sparse', on the device of `row_id`.

        Parameters
        ----------
        row_id : NDArray
            Numbers of the rows, which are pulled from the trainer's store.

        Raises
        ------
        RuntimeError
            If the parameter is dense, or no trainer has it.
        """
        return self._get_row_sparse(self._data, row_id.context, row_id)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Return rows of a parameter of storage type 'row_sparse', on all devices.

        Parameters
        ----------
        row_id : NDArray
            Numbers of the rows.
        """
        return list(self._get_row_sparse(self._data, list, row_id))

    def _get_row_sparse(self, arrays: list[NDArray] | None, ctx: Any, row_id: NDArray) -> Any:
        if self._stype != "row_sparse":
            raise MXNetError(f"Cannot return a copy of Parameter {self.name} via row_sparse_data() "
                             f"because its storage type is {self._stype}. Please use data() "
                             "instead.")
        results = self._check_and_get(arrays, ctx)
        self._pull_rows(results, row_id)
        return results

    def _pull_rows(self, out: NDArray | list[NDArray], row_id: NDArray, full_idx: bool = False
                   ) -> None:
        """Fetch rows from the store of the trainer."""
        if self._trainer is None:
            raise MXNetError(f"Cannot get row_sparse data for Parameter {self.name!r} when no "
                             "Trainer is created with it.")
        self._trainer._row_sparse_pull(self, out, row_id, full_idx)

    def set_data(self, data: NDArray) -> None:
        """Replace the values, in the arrays of all devices.

        Parameters
        ----------
        data : NDArray
            New values; before the first call they are kept for it, and without `initialize`
            they are the first ones, on their device.

        Raises
        ------
        AssertionError
            If the shape is not that of the parameter.
        """
        self.shape = data.shape
        if self._data is not None:
            for trainer in self._trainers:
                trainer._replace(self)
            for array in self._data:
                array[:] = data
        elif self._deferred_init:
            self._deferred_init = (*self._deferred_init[:3], data)
        else:
            self._init_impl(data, [data.context])

    def _load_init(self, data: NDArray, ctx: Contexts, cast_dtype: bool = False,
                   dtype_source: DtypeSource = "current") -> None:
        """Take values of a file."""
        take_saved(self, data, Loading(ctx, cast_dtype=cast_dtype, dtype_source=dtype_source))

    def cast(self, dtype: DTypeArg) -> None:
        """Change the element type of the values and of the gradients.

        Parameters
        ----------
        dtype : dtype
            Element type.
        """
        self._dtype, self._var = dtype, None
        if self._data is not None:
            with RecordingScope(False, None):
                before = self._grad
                self._keep(x.astype(dtype) for x in self._data)
                self._init_grad()
                for gradient, former in zip(self._grad or (), before or (), strict=True):
                    gradient[:] = former
            for trainer in self._trainers:
                trainer._cast(self)

    def _set_trainer(self, trainer: Any) -> None:
        """Say who steps this, and pulls rows; of rows only one may."""
        if self._stype != "default" and trainer is not None and (
                self._trainer not in (None, trainer)):
            raise MXNetError(f"Failed to set the trainer for Parameter {self.name!r} because it "
                             f"was already set. More than one trainers for a {self._stype} "
                             "Parameter is not supported.")
        self._trainer = trainer
        self._trainers.update({trainer} - {None})

    # -- devices and gradients --------------------------------------------------------------------

    def list_ctx(self) -> list[Context]:
        """Return the devices, in the order of `initialize`."""
        if self._data is None and not self._deferred_init:
            raise without_values(self.name)
        return list(self._deferred_init[1] if self._data is None else self._ctx_list or ())

    def reset_ctx(self, ctx: Contexts) -> None:
        """Move to other devices: the mean of the copies is copied to each of them.

        Parameters
        ----------
        ctx : Context or list of Context
            Devices.

        Raises
        ------
        ValueError
            If the parameter is not initialized.
        """
        contexts = as_contexts(ctx, used=self._data is not None)
        if self._data is not None:
            with RecordingScope(False, None):
                self._init_impl(self._reduce(), contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = init, contexts, default_init, data
        else:
            raise ArgumentError(f"Cannot reset context for Parameter {self.name!r} because it has "
                                "not been initialized.")

    def _reduce(self) -> NDArray:
        """The mean of the copies, on the CPU."""
        if self._stype != "default":
            whole = nd.sparse.zeros(self._stype, self.shape or (), cpu(), self.dtype)
            self._pull_rows(whole, nd.arange(0, len(whole), dtype="int64"), full_idx=True)
            return whole
        copies = [x.as_in_context(cpu()) for x in self.list_data()]
        return copies[0] if len(copies) == 1 else nd.add_n(*copies) / len(copies)

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient on a device.

        Parameters
        ----------
        ctx : Context, optional
            Device; by default the only one, or the current one of several.

        Raises
        ------
        RuntimeError
            If there is none.
        """
        self._require_grad()
        return self._check_and_get(self._grad, ctx)

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all devices, in the order of `list_ctx`."""
        self._require_grad()
        return list(self._grad or self._check_and_get(None, list))

    def _require_grad(self) -> None:
        if self._data is not None and self._grad is None:
            raise MXNetError(f"Cannot get gradient array for Parameter {self.name!r} because "
                             f"grad_req={self.grad_req!r}")

    def zero_grad(self) -> None:
        """Set the gradients to 0, where there are any."""
        for gradient in self._grad or ():
            gradient[:] = 0
