"""Validation of op classes before they are registered: `check`.

Tests run it on nbmod's own ops, `register_op` on those of users.  It checks everything that needs
no instance, so that a mistake is a descriptive error at registration instead of a numba error
during training.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import FunctionType
from typing import Any

from ..base import MXNetError
from ..ops.elementwise.float_op import FloatOp
from ..ops.elementwise.formula import names_in, parse
from ..ops.elementwise.formula_op import FormulaOp
from ..ops.jit import Kernel
from ..ops.op import Op
from ..ops.param import field_types, fields_of, reader_of
from ..ops.traits import OpTraits

__all__ = ["check"]

NAMES = ("inputs", "outputs", "aux", "needs")
RESERVED = ("name", "attr", "out")
"""Arguments of op functions besides tensors and parameters."""
PLURALS = ("ograd", "ograds", "args", "outs")


def check(cls: type[Op]) -> None:
    """Raise MXNetError that says what is missing or wrong in the op class `cls`."""
    doc = cls.__dict__.get("__doc__") or ""
    if not doc.strip() or doc.startswith(f"{cls.__name__}("):
        raise MXNetError("it has no docstring; say its formula and the shapes of its tensors")
    _check_fields(cls)
    _check_names(cls)
    for name, rule in _own_functions(cls):
        _check_signature(name, rule)
    if issubclass(cls, FormulaOp):
        _check_formulas(cls)
    else:
        _check_rules(cls)
    for name, rule in _own_functions(cls):
        _check_kernel_calls(rule)
        _check_returns(name, rule)
    if cls.gpu_module and find_spec(cls.gpu_module) is None:
        raise MXNetError(f"gpu_module is {cls.gpu_module!r}, but there is no such module")


# -- parameters and names -----------------------------------------------------------------------


def _check_fields(cls: type[Op]) -> None:
    """The class is a frozen dataclass, whose field types can be parsed from text."""
    own = [name for name, kind in inspect.get_annotations(cls).items()
           if "ClassVar" not in str(kind)]
    if own and "__dataclass_fields__" not in cls.__dict__:
        raise MXNetError(f"its parameters {own} belong to no dataclass; put "
                         "@dataclass(frozen=True) below @register_op")
    params: Any = getattr(cls, "__dataclass_params__", None)
    if params is None:
        raise MXNetError("it is no dataclass; put @dataclass(frozen=True) below @register_op")
    if not params.frozen:
        raise MXNetError("its dataclass can change; write @dataclass(frozen=True)")
    try:
        for kind in field_types(cls).values():
            reader_of(kind)
    except (TypeError, NameError) as error:
        raise MXNetError(f"the type of a parameter: {error}; expected int, float, bool, str, "
                         "Shape, Ints, Floats, Literal[...] or one of these | None") from None


def _check_names(cls: type[Op]) -> None:
    """Names of inputs, outputs and parameters are unique; needs are among them."""
    fields = [field.name for field in fields_of(cls)]
    if any(isinstance(getattr(cls, what), property) for what in NAMES):
        return  # they depend on the parameters
    for what in NAMES:
        names = getattr(cls, what)
        if not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
            raise MXNetError(f"{what} is {names!r}, expected a tuple of names")
    everything = [*cls.inputs, *fields, *RESERVED]
    twice = sorted({name for name in everything if everything.count(name) > 1})
    if twice:
        raise MXNetError(f"{twice} would mean two things: inputs are {list(cls.inputs)}, "
                         f"parameters {fields}, and every op function takes {list(RESERVED)}")
    unknown = [name for name in cls.aux if name not in cls.inputs]
    if unknown and cls.list_inputs is Op.list_inputs:
        raise MXNetError(f"aux names {unknown}, expected some of the inputs {list(cls.inputs)}")
    if cls.variadic and cls.variadic not in fields:
        raise MXNetError(f"variadic is {cls.variadic!r}, expected one of the parameters {fields}")
    known = (*PLURALS, *cls.inputs, *cls.outputs)
    unknown = [name for name in cls.needs if name not in known]
    if unknown and cls.list_inputs is Op.list_inputs and cls.list_outputs is Op.list_outputs:
        raise MXNetError(f"needs names {unknown}, expected some of {list(known)}")


# -- rules --------------------------------------------------------------------------------------


def _own_functions(cls: type[Op]) -> Iterator[tuple[str, FunctionType]]:
    """The methods of `cls` and its bases, without those of the framework."""
    for base in cls.__mro__:
        if base not in (Op, OpTraits, FloatOp, FormulaOp, object):
            yield from ((name, value) for name, value in vars(base).items()
                        if isinstance(value, FunctionType))


def _check_signature(name: str, rule: FunctionType) -> None:
    """A rule takes the arguments it is called with."""
    model = getattr(Op, name, None)
    if not isinstance(model, FunctionType) or name.startswith("__"):
        return
    expected = list(inspect.signature(model).parameters)
    try:
        inspect.signature(rule).bind(*expected)
    except TypeError:
        raise MXNetError(f"{name}{inspect.signature(rule)} is called with ({', '.join(expected)})"
                     ) from None


def _has(cls: type[Op], *names: str) -> bool:
    """Whether `cls` has a rule of its own under one of the names."""
    return any(getattr(cls, name) is not getattr(Op, name) for name in names)


def _check_rules(cls: type[Op]) -> None:
    """Forward is defined, and backward exactly if the gradient pass calls it."""
    if not (cls.view or _has(cls, "forward", "prepare")):
        raise MXNetError("it has no forward(ins, outs, call), and no prepare")
    has_backward = cls.view or _has(cls, "backward", "prepare_backward")
    wants = bool(cls.needs) or cls.list_needs is not Op.list_needs
    if wants and not has_backward and cls.gradient is Op.gradient:
        raise MXNetError(f"needs is {cls.needs}, but it has no backward(ins, outs, call)")
    if has_backward and not wants and not cls.view and cls.gradient is Op.gradient:
        raise MXNetError("its backward is never called: say in `needs` what it reads, such as "
                         f'("ograd", {", ".join(map(repr, cls.inputs))})')


def _check_returns(name: str, rule: FunctionType) -> None:
    """Rules that compute return nothing: what they returned would be lost."""
    for value in _returned(rule) if name in ("forward", "backward") else ():
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.List, ast.Tuple, ast.Name)):
            raise MXNetError(f"{name} returns {ast.unparse(value)}; write results into the "
                             "arrays of outs, such as outs[0][:] = ...")


def _check_formulas(cls: type[FormulaOp]) -> None:
    """Formulas in the language, over the letters and the parameters."""
    letters: Any = cls.letters
    if isinstance(letters, property):
        return  # they depend on the parameters
    if not cls.formula:
        raise MXNetError("it has no formula")
    if tuple(cls.letters.values()) != cls.inputs:
        raise MXNetError(f"letters are {cls.letters}, expected one for each of the inputs "
                         f"{list(cls.inputs)}, in their order")
    unknown = [letter for letter in cls.gradients if letter not in cls.letters]
    if unknown:
        raise MXNetError(f"gradients are given for {unknown}, expected some of {list(cls.letters)}")
    fields = [field.name for field in fields_of(cls)]
    for formula in (cls.formula, *cls.gradients.values()):
        try:
            parse(formula)
        except (ValueError, SyntaxError) as error:
            raise MXNetError(str(error)) from None
        known = [*cls.letters, *fields] + ["y", "gy"] * (formula is not cls.formula)
        unknown = [name for name in names_in(formula) if name not in known]
        has_default_scalars = (cls.scalar_value is FormulaOp.scalar_value
                               and cls.scalar_values is FormulaOp.scalar_values)
        if unknown and has_default_scalars:
            raise MXNetError(f"formula {formula!r} speaks of {unknown}, expected some of {known}")


# -- kernels ------------------------------------------------------------------------------------


def _check_kernel_calls(rule: FunctionType) -> None:
    """Kernels that `rule` calls are valid, and get the right number of arguments.

    Calls that unpack (`kernel(*arrays)`) are not checked.
    """
    tree = _tree_of(rule)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call):
            named, args = node.func, node.args
            later = isinstance(named, ast.Name) and named.id == "partial" and bool(args)
            if later:
                named, args = args[0], args[1:]
            kernel = rule.__globals__.get(named.id) if isinstance(named, ast.Name) else None
            if isinstance(kernel, Kernel):
                _check_kernel(kernel)
                _check_call(rule, kernel, args + node.keywords, later)


def _tree_of(function: Callable) -> ast.AST | None:
    """The syntax tree of a function, None if its source is not available."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None


def _returned(function: Callable) -> Iterator[ast.expr]:
    """The expressions that a function returns, without those of functions within it."""
    tree = _tree_of(function)
    waiting = [child for each in ast.iter_child_nodes(tree) for child in ast.iter_child_nodes(each)
               ] if tree else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _check_kernel(kernel: Kernel) -> None:
    """Kernels have positional arguments only, and return nothing."""
    for parameter in inspect.signature(kernel.function).parameters.values():
        if (parameter.kind is not parameter.POSITIONAL_OR_KEYWORD
                or parameter.default is not parameter.empty):
            raise MXNetError(f"kernel {kernel.__name__}: argument {parameter}; kernels take "
                             "inputs, outputs and numbers by position, without defaults")
    for value in _returned(kernel.function):
        raise MXNetError(f"kernel {kernel.__name__} returns {ast.unparse(value)}; kernels "
                         "write their results into the outputs")


def _check_call(rule: FunctionType, kernel: Kernel, args: Sequence[Any], later: bool) -> None:
    """`later`: more arguments may follow in another call."""
    expected = list(inspect.signature(kernel.function).parameters)
    fewer = later or any(isinstance(arg, ast.Starred) for arg in args)
    named = any(isinstance(arg, ast.keyword) for arg in args)
    if named or len(args) > len(expected) or (len(args) < len(expected) and not fewer):
        raise MXNetError(f"{rule.__name__} calls kernel {kernel.__name__}({', '.join(expected)}) "
                         f"with ({', '.join(map(ast.unparse, args))})")
