"""How users call ops: signatures, docstrings and argument splitting, built from the op table.

`sym.X` and `nd.X` are generated from the op class when the name is first used.  The order of
parameters is MXNet's: tensors, then op parameters, then the flavour's tail (`name, attr, out` for
symbols, `out, name` for arrays).  An op with any number of inputs takes its tensors as `*data` and
everything else by keyword.

Only explicit arguments count, never defaults: an explicit `no_bias=False` is stored in the
graph, an absent one is not.  `_Null` is MXNet's way of saying "not given".
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Union

from ..base import CheckError, MXNetError, _Null, element_type
from .op import Op
from .param import Floats, Ints, Shape, field_types, fields_of
from .param_docs import known

__all__ = ["Arguments", "Flavour", "default_of", "dtype_name", "op_arguments", "op_doc",
           "op_signature", "split_arguments", "type_text"]

Flavour = Literal["symbol", "ndarray"]

_TAIL = {"symbol": ("name", "attr", "out"), "ndarray": ("out", "name")}
_TENSOR = {"symbol": "Symbol", "ndarray": "NDArray"}


class Arguments(NamedTuple):
    """The arguments of a call, by kind."""

    positional: list[Any]
    """Tensors given by position to an op of any number of inputs; empty for all other ops."""
    named: dict[str, Any]
    """Tensors by input name."""
    params: dict[str, Any]
    """Op parameters as given, hidden and unknown keys included."""
    tail: dict[str, Any]
    """`name`, `attr` and `out`, where given."""


def op_signature(op: type[Op], flavour: Flavour) -> inspect.Signature:
    """The signature of the function that applies `op`; required parameters default to `_Null`."""
    kinds = inspect.Parameter
    keyword = kinds.KEYWORD_ONLY if op.variadic else kinds.POSITIONAL_OR_KEYWORD
    if op.variadic:
        parameters = [inspect.Parameter(op.inputs[0], kinds.VAR_POSITIONAL)]
    else:
        parameters = [inspect.Parameter(n, keyword, default=None) for n in op.inputs]
    for field in fields_of(op):
        parameters.append(inspect.Parameter(field.name, keyword, default=default_of(field)))
    parameters += [inspect.Parameter(n, keyword, default=None) for n in _TAIL[flavour]]
    parameters.append(inspect.Parameter("kwargs", kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def op_doc(op: type[Op], flavour: Flavour) -> str:
    """The op's docstring, followed by shapes, tensors and parameters."""
    tensor = _TENSOR[flavour]
    lines = [inspect.getdoc(op) or op.name, ""]
    lines += [f"Shapes: {op.shapes}.", ""] if op.shapes else []
    lines += ["Parameters", "----------"]
    if op.variadic:
        lines.append(f"*{op.inputs[0]} : any number of {tensor}")
    else:
        lines += [f"{name} : {tensor}" for name in op.inputs]
    hints = field_types(op)
    for field in fields_of(op):
        default = default_of(field)
        requirement = "required" if default is _Null else f"default {default!r}"
        lines.append(f"{field.name} : {type_text(hints[field.name])}, {requirement}")
        if (told := known(op, field.name)) and f"`{field.name}`" not in lines[0]:
            lines.append(f"    {told}")
    if flavour == "symbol":
        lines += ["name : str, default chosen by the current NameManager",
                  "attr : dict of str to str, attributes of the new node"]
    else:
        lines.append("out : NDArray or list of NDArray, written to instead of new arrays")
    if op.aliases:
        lines += ["", f"Also known as {', '.join(op.aliases)}."]
    return "\n".join(lines)


def op_arguments(op: type[Op]) -> dict[str, str]:
    """Inputs and parameters of an op: name -> type, and whether it must be given, in words."""
    tensor = "NDArray-or-Symbol" + "[]" * bool(op.variadic)
    arguments = dict.fromkeys(op.inputs, tensor)
    hints = field_types(op)
    for field in fields_of(op):
        default = default_of(field)
        arguments[field.name] = f"{type_text(hints[field.name])}, " + (
            "required" if default is _Null else f"optional, default={default!r}")
    return arguments


def split_arguments(op: type[Op], args: Sequence[Any], kwargs: Mapping[str, Any],
                    flavour: Flavour, tensor: type) -> Arguments:
    """Sort the positional and keyword arguments of a call of `op` by their meaning.

    `tensor` is the class of tensors (Symbol or NDArray): a keyword argument of that class is an
    input whatever its name, except for `dtype`.  A wrong class, a surplus or a repeated argument
    is an MXNetError.
    """
    arguments = dict(kwargs)
    positional: list[Any] = []
    if op.variadic:
        positional = [_checked(op, f"argument {i}", value, tensor) for i, value in enumerate(args)]
    else:
        _bind_positions(op, args, arguments, flavour)
    named, params, tail = {}, {}, {}
    for key, value in arguments.items():
        if value is _Null:
            continue
        if key == "dtype":
            params[key] = dtype_name(value)
        elif isinstance(value, tensor) and key not in _TAIL[flavour]:
            named[key] = value
        elif key in op.inputs and not op.variadic:
            if value is not None:
                named[key] = _checked(op, f"input {key!r}", value, tensor)
        elif key in _TAIL[flavour]:
            tail[key] = value
        else:
            params[key] = value
    return Arguments(positional, named, params, tail)


def _bind_positions(op: type[Op], args: Sequence[Any], arguments: dict[str, Any],
                    flavour: Flavour) -> None:
    """Add positional arguments to `arguments` under their names."""
    kind: Any = op
    order = _order(kind, flavour)
    if len(args) > len(order):
        raise MXNetError(f"{op.name} takes at most {len(order)} positional arguments "
                         f"({', '.join(order)}), {len(args)} were given")
    for name, value in zip(order, args, strict=False):
        if name in arguments:
            raise MXNetError(f"{op.name}: argument {name!r} is given by position and by name")
        arguments[name] = value


@lru_cache(maxsize=4096)
def _order(op: Any, flavour: Flavour) -> tuple[str, ...]:
    """The names of positional arguments."""
    return *op.inputs, *[field.name for field in fields_of(op)], *_TAIL[flavour]


def _checked(op: type[Op], what: str, value: Any, tensor: type) -> Any:
    if not isinstance(value, tensor):
        article = "an" if tensor.__name__[:1] in "AEIOUN" else "a"
        raise CheckError(f"{op.name}: {what} is a {type(value).__name__}, "
                         f"expected {article} {tensor.__name__}")
    return value


def dtype_name(dtype: Any) -> Any:
    """The name of an element type given as NumPy type, Python type, text or array."""
    if dtype is None or (isinstance(dtype, str) and dtype == "bfloat16"):
        return dtype
    try:
        return element_type(dtype).name
    except TypeError:
        return dtype


def default_of(field: dataclasses.Field) -> Any:
    """The default of a parameter; `_Null` where one must be given."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _Null


def type_text(hint: Any) -> str:
    """A parameter's type the way users write its values."""
    known = {Shape: "tuple of int", Ints: "tuple of int or None", Floats: "tuple of float"}
    if hint in known:
        return known[hint]
    if typing.get_origin(hint) is Literal:
        return "{" + ", ".join(map(repr, typing.get_args(hint))) + "}"
    if typing.get_origin(hint) in (Union, types.UnionType):
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return f"{type_text(inner[0])} or None"
    return getattr(hint, "__name__", str(hint))
