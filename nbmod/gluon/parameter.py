"""Parameters of a `SymbolBlock`: arrays with a name, and a gradient for `autograd`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import initializer
from .. import ndarray as nd
from ..base import CheckError, MXNetError
from ..checkpoint import strip_kind
from ..context import Context, current_context
from ..ndarray import NDArray

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict"]


class DeferredInitializationError(MXNetError):
    """A parameter is read whose shape only the first call of the network tells."""


class Parameter:
    """A named array on one device.

    Parameters
    ----------
    name : str
        Name.
    grad_req : {'write', 'add', 'null'}, default 'write'
        What `autograd` does with the gradient.
    shape : tuple of int, optional
        Shape; a dimension of 0 is not known.
    dtype : dtype, default float32
        Element type.
    lr_mult : float, default 1.0
        Factor of the learning rate, for optimizers that look at it.
    wd_mult : float, default 1.0
        Factor of the weight decay.
    init : Initializer, optional
        Used by `initialize` where it is given none.

    Examples
    --------
    >>> weight = mx.gluon.Parameter("weight", shape=(2, 3))
    >>> weight.initialize(mx.init.One())
    >>> float(weight.data().sum().asscalar())
    6.0
    """

    def __init__(self, name: str, grad_req: str = "write", shape: Any = None,
                 dtype: Any = np.float32, lr_mult: float = 1.0, wd_mult: float = 1.0,
                 init: Any = None):
        self.name, self.grad_req, self.shape, self.dtype = name, grad_req, shape, dtype
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        self._array: NDArray | None = None
        self._deferred: tuple[Any, Context] | None = None

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={np.dtype(self.dtype).name})"

    def initialize(self, init: Any = None, ctx: Any = None, default_init: Any = None,
                   force_reinit: bool = False) -> None:
        """Fill the array with initial values, or do so when its shape is known.

        Parameters
        ----------
        init : Initializer or str, optional
            What to fill it with; `default_init`, or uniform values, if there is none.
        ctx : Context, optional
            Device.
        default_init : Initializer or str, optional
            Used where neither `init` nor the parameter's own is given.
        force_reinit : bool, default False
            Whether to replace values that are there.
        """
        if self._array is not None and not force_reinit:
            return
        chosen = init or self.init or default_init or initializer.Uniform()
        devices = ctx if isinstance(ctx, (list, tuple)) else [ctx]
        self._deferred = initializer.create(chosen), devices[0] or current_context()
        if self.shape is not None and all(dim > 0 for dim in self.shape):
            self.finish(self.shape)

    def finish(self, shape: tuple[int, ...]) -> None:
        """Make the array of an initialized parameter, of a shape that is known now.

        Parameters
        ----------
        shape : tuple of int
            Shape.

        Raises
        ------
        MXNetError
            If `initialize` has not been called.
        """
        if self._deferred is None:
            raise MXNetError(f"parameter {self.name} has no values; call initialize(), or load "
                             "them")
        init, ctx = self._deferred
        array = nd.zeros(shape, ctx, self.dtype)
        desc = initializer.InitDesc(self.name)
        # Gluon's initializers do not look at endings of names.
        fill = init._init_weight if isinstance(init, initializer.Initializer) else init
        fill(desc, array)
        self._take(array)

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the array.

        Parameters
        ----------
        ctx : Context, optional
            Accepted for compatibility: there is one copy.

        Raises
        ------
        MXNetError
            If it has no values yet.
        """
        if self._array is None:
            if self._deferred is not None:
                raise DeferredInitializationError(
                    f"the shape of parameter {self.name} is not known before the first call")
            raise MXNetError(f"parameter {self.name} has no values; call initialize(), or load "
                             "them")
        return self._array

    def set_data(self, data: NDArray) -> None:
        """Replace the values, in the present array if there is one.

        Parameters
        ----------
        data : NDArray
            New values.

        Raises
        ------
        AssertionError
            If the shape is not that of the parameter.
        """
        self._check_shape(data.shape)
        if self._array is not None:
            self._array[:] = data
            return
        self._take(data.copy())

    def cast(self, dtype: Any) -> None:
        """Change the element type of the values, and of the gradient, which is zero then.

        Parameters
        ----------
        dtype : dtype
            Element type.
        """
        self.dtype = dtype
        if self._array is not None:
            self._take(self._array.astype(dtype))

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is not None and not _fits(shape, self.shape):
            raise CheckError(f"parameter {self.name}: the new values have shape {shape}, expected "
                             f"{self.shape}")

    def _take(self, data: NDArray) -> None:
        self._array, self.shape, self.dtype = data, data.shape, data.dtype
        if self.grad_req != "null":
            data.attach_grad(self.grad_req)

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient.

        Parameters
        ----------
        ctx : Context, optional
            Accepted for compatibility.

        Raises
        ------
        MXNetError
            If it has none.
        """
        gradient = self.data().grad
        if gradient is None:
            raise MXNetError(f"parameter {self.name} has no gradient: its grad_req is "
                             f"{self.grad_req!r}")
        return gradient

    def list_data(self) -> list[NDArray]:
        """Return the arrays on all devices: one."""
        return [self.data()]

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all devices: one."""
        return [self.grad()]

    def list_ctx(self) -> list[Context]:
        """Return the devices: one."""
        return [self.data().context]

    def zero_grad(self) -> None:
        """Set the gradient to 0, where there is one."""
        if self.grad_req != "null" and self._array is not None:
            self.grad()[:] = 0


class Constant(Parameter):
    """A parameter without gradient.

    Parameters
    ----------
    name : str
        Name.
    value : array_like
        Values.
    """

    def __init__(self, name: str, value: Any):
        array = value if isinstance(value, NDArray) else nd.array(value)
        super().__init__(name, "null", array.shape, array.dtype)
        self.set_data(array)


def _fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether a shape is the expected one, in which dimensions of 0 and -1 are not known."""
    return len(shape) == len(expected) and all(
        known in (size, 0, -1) for size, known in zip(shape, expected, strict=True))


class ParameterDict(dict[str, Parameter]):
    """Parameters by name."""

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False,
                   force_reinit: bool = False) -> None:
        """Initialize all parameters.

        Parameters
        ----------
        init : Initializer or str, optional
            For parameters without one of their own; uniform values by default.
        ctx, force_reinit
            As for `Parameter.initialize`.
        verbose : bool, default False
            Accepted for compatibility.
        """
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for parameter in self.values():
            parameter.zero_grad()

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters.

        Parameters
        ----------
        name : str
            Attribute, such as `grad_req`.
        value : object
            New value.
        """
        for parameter in self.values():
            setattr(parameter, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write the parameters to a file.

        Parameters
        ----------
        filename : str
            File.
        strip_prefix : str, default ''
            Prefix that names lose in the file.
        """
        nd.save(filename, {name.removeprefix(strip_prefix): parameter.data()
                           for name, parameter in self.items()})

    def load(self, filename: str, ctx: Any = None, allow_missing: bool = False,
             ignore_extra: bool = False, restore_prefix: str = "",
             rename: Callable[[str], str] = str) -> None:
        """Read parameters from a file.

        Parameters
        ----------
        filename : str
            File of `save`, of `Block.save_parameters`, or with MXNet's `arg:` and `aux:`.
        ctx : Context, optional
            Device.
        allow_missing : bool, default False
            Whether parameters may be missing in the file.
        ignore_extra : bool, default False
            Whether the file may hold other arrays.
        restore_prefix : str, default ''
            Prefix that is added to names in the file.
        rename : callable, optional
            Gives the name of a parameter for its name in the file.

        Raises
        ------
        MXNetError
            For missing and other arrays, by name.
        """
        arrays = {rename(restore_prefix + strip_kind(name)): array
                  for name, array in _arrays(filename).items()}
        missing, extra = sorted({*self} - {*arrays}), sorted({*arrays} - {*self})
        if missing and not allow_missing:
            labels = [name for name in missing if name.endswith("label")]
            hint = (f"; {labels} look like labels: name them among the inputs of the SymbolBlock, "
                    "or remove the loss from its outputs" if labels else "")
            raise MXNetError(f"{filename} has no parameter {missing}; it has {sorted(arrays)}; "
                             f"allow_missing=True ignores that{hint}")
        if extra and not ignore_extra:
            raise MXNetError(f"{filename} has {extra}, which the network has not; "
                             "ignore_extra=True ignores that")
        device = ctx[0] if isinstance(ctx, (list, tuple)) else ctx or current_context()
        present = [name for name in self if name in arrays]
        for name in present:
            self[name]._check_shape(arrays[name].shape)
        for name in present:
            self[name].set_data(arrays[name].as_in_context(device))


def _arrays(filename: str) -> Mapping[str, NDArray]:
    arrays = nd.load(filename)
    if not isinstance(arrays, dict):
        raise MXNetError(f"{filename} holds a list of {len(arrays)} arrays, expected named ones")
    return arrays
