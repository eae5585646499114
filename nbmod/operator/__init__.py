"""Operators written in Python.

Classes that `register_op` enters are checked at once, results of custom operators when they are
computed: a mistake is an MXNetError that names the operator.

    custom_op.py           `CustomOp`, its description `CustomOpProp`, and `register`
    definition.py          the adapter from a `CustomOpProp` to the op `Custom`
    python_op.py           the older interfaces `NumpyOp` and `NDArrayOp`
    register_op.py         `mx.register_op`: compiled ops of users, on equal terms with nbmod's
    validate.py            the check of an op class before it is registered
    operator_arguments.py  inputs and parameters of all ops, as text

Begin with `custom_op.py`.  Imports `base`, `context`, `core.interrupts`, `ndarray`, `ops`,
`symbol.name` and `symbol.namespace`.
"""

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
