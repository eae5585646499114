"""MXNet's module path of parameters (see `nbmod.gluon`)."""

from ..ndarray import NDArray
from ..symbol import Symbol
from .base_parameter import DeferredInitializationError, Parameter
from .constant import Constant
from .parameter_dict import ParameterDict

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types"]

tensor_types = Symbol, NDArray
"""Blocks are called on these."""
