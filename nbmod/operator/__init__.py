"""Operators written in Python.

    custom      `CustomOp` computes, `CustomOpProp` describes it, `register` gives it a name
    definition  the adapter from a `CustomOpProp` to the op `Custom`
    python_op   the older interfaces `NumpyOp` and `NDArrayOp`
    arguments   inputs and parameters of all ops
"""

from __future__ import annotations

from .custom_op import CustomOp, CustomOpProp, register
from .operator_arguments import (
           OperatorArguments,
           get_all_registered_operators,
           get_operator_arguments,
)
from .python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = ["CustomOp", "CustomOpProp", "NDArrayOp", "NumpyOp", "OperatorArguments", "PythonOp",
           "get_all_registered_operators", "get_operator_arguments", "register"]
__dir__ = __all__.copy
