"""`Constant`: a parameter with fixed values."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import initializer
from .. import ndarray as nd
from ..base import warn_user
from ..ndarray import NDArray
from .base_parameter import Parameter

__all__ = ["Constant"]


class Constant(Parameter):
    """A parameter with fixed values and without gradient.

    Parameters
    ----------
    name : str
        Name.
    value : array_like
        Values.

    Examples
    --------
    >>> scale = mx.gluon.Constant("scale", [1, 2])
    >>> scale.initialize()
    >>> scale.data().asnumpy().tolist()
    [1.0, 2.0]
    """

    _kind: ClassVar = "Constant"

    def __init__(self, name: str, value: Any):
        self.value = value if isinstance(value, NDArray) else nd.array(value)
        super().__init__(name, "null", self.value.shape, self.value.dtype,
                         init=initializer.Constant(self.value))

    @property
    def grad_req(self) -> str:
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warn_user(f'Constant parameter "{self.name}" does not support grad_req other than '
                      f'"null", and new value "{req}" is ignored.')
