# Written by `python docs/generate_stubs.py`.
from nbmod.operator import CustomOp as CustomOp
from nbmod.operator import CustomOpProp as CustomOpProp
from nbmod.operator import NDArrayOp as NDArrayOp
from nbmod.operator import NumpyOp as NumpyOp
from nbmod.operator import OperatorArguments as OperatorArguments
from nbmod.operator import PythonOp as PythonOp
from nbmod.operator import get_all_registered_operators as get_all_registered_operators
from nbmod.operator import get_operator_arguments as get_operator_arguments
from nbmod.operator import register as register
