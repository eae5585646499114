"""Operators written in Python.

    custom      `CustomOp` computes, `CustomOpProp` says what it is, `register` gives it a name
    definition  what the op table sees of them
    python_op   `NumpyOp` and `NDArrayOp`, which came before
    arguments   what the ops of the table are called with
"""

from __future__ import annotations

from .arguments import OperatorArguments, get_all_registered_operators, get_operator_arguments
from .custom import CustomOp, CustomOpProp, register
from .python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = ["CustomOp", "CustomOpProp", "NDArrayOp", "NumpyOp", "OperatorArguments", "PythonOp",
           "get_all_registered_operators", "get_operator_arguments", "register"]
