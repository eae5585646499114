"""The functions of `mx.nd`: one per op, made on first use.

A namespace (`nd`, `nd.contrib`, `nd.linalg`, ...) is a module whose `__getattr__` is made by
`namespace(prefix)`: `nd.linalg.gemm` is the op `_linalg_gemm`.  Functions are cached in the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..base import MXNetError
from ..ops import OPS
from ..ops.op import Op
from ..ops.param import to_text
from ..ops.refused_ops import absent_function
from ..ops.signature import Arguments, op_doc, op_signature, split_arguments
from .array_creation import context_of
from .eager import op_instance
from .invocation import binary, invoke
from .ndarray import NDArray
from .operators import BINARY

__all__ = ["ARITHMETIC", "forget_function", "function", "op_function", "namespace", "is_public"]

_SHOWN: list[tuple[str, str, str]] = []
"""(op, module, name in it) of every function that is cached in a namespace."""


def _arithmetic(name: str) -> Callable[..., Any]:
    def call(lhs: Any, rhs: Any) -> Any:
        return binary(name, lhs, rhs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Element-wise `{name}` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """
    return call


ARITHMETIC = {name: _arithmetic(name) for name in BINARY}
ARITHMETIC["true_divide"] = ARITHMETIC["divide"]


@cache
def function(name: str) -> Callable[..., Any]:
    """The function that users find as `nd.<name>`."""
    return getattr(sys.modules[__package__], name)


def op_function(name: str) -> Callable[..., Any]:
    """A function that applies op `name`, with its true signature and documentation."""
    cls = OPS.find(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return _apply(cls, split_arguments(cls, args, kwargs, "ndarray", NDArray), len(args))

    call.__name__ = call.__qualname__ = name
    call.__module__ = __package__
    call.__signature__ = op_signature(cls, "ndarray")  # type: ignore[attr-defined]
    call.__doc__ = op_doc(cls, "ndarray")
    return call


def _apply(cls: type[Op], arguments: Arguments, placed: int) -> Any:
    """Run an op on the arguments of a call, the first `placed` of them given by position."""
    params = arguments.params
    if cls.variadic:
        cls.count_inputs(params, len(arguments.positional) + len(arguments.named))
    op = op_instance(cls, {key: to_text(value) if isinstance(value, list) else value
                           for key, value in params.items()})
    inputs = _inputs(op, arguments, placed)
    ctx = context_of(params["ctx"]) if "ctx" in params and not inputs else None
    return invoke(op, inputs, arguments.tail.get("out"), ctx)


def _inputs(op: Op, arguments: Arguments, placed: int) -> list[NDArray]:
    """The tensors in the op's order; an MXNetError for one that lacks or is too many."""
    names, named = op.list_inputs(), arguments.named
    if placed and not named.keys() <= {*names}:
        named = _counted(named, op.inputs[:placed], names)
    inputs = [*arguments.positional]
    for name in names[len(inputs):]:
        if name not in named:
            raise MXNetError(f"{op.name}: input {name!r} is not given, expected "
                             f"{len(names)} input(s): {', '.join(names)}")
        inputs.append(named[name])
    extra = [name for name in named if name not in names]
    if extra:
        raise MXNetError(f"{op.name}: {extra[0]!r} is an NDArray, but with these parameters the "
                         f"inputs are {', '.join(names) or 'none'}")
    return inputs


def _counted(named: Mapping[str, NDArray], places: Sequence[str], names: Sequence[str]
             ) -> dict[str, NDArray]:
    """`named`, where arrays given by position count past inputs that the op does not have.

    As in MXNet: `CTCLoss(data, label, lengths, use_label_lengths=True)` has no `data_lengths`,
    whose place the lengths of labels take.
    """
    lacking = (name for name in names if name not in named)
    return {next(lacking, name) if name in places and name not in names else name: array
            for name, array in named.items()}


def forget_function(op_name: str) -> None:
    """Remove the functions of an op from the namespaces: its name refers to another op now."""
    function.cache_clear()
    for shown in [shown for shown in _SHOWN if shown[0] == op_name]:
        _SHOWN.remove(shown)
        vars(sys.modules[shown[1]]).pop(shown[2], None)


def namespace(module: str, prefix: str, accept: Callable[[str], bool] = lambda name: True,
              own: Iterable[str] = ()) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose `name` is the op `prefix + name`.

    A module without a list `__all__`, whose functions that are no ops are `own`, has one of all its
    public names, as in MXNet.
    """

    def find(name: str) -> Any:
        if name == "__all__":
            return [name for name in names() if not name.startswith("_")]
        if name.startswith("__") or not accept(name) or prefix + name not in OPS:
            if (absent := absent_function(prefix + name)) is not None:
                return absent
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        function = op_function(prefix + name)
        function.__module__ = module
        if prefix:
            function.__name__ = function.__qualname__ = name
        setattr(sys.modules[module], name, function)
        _SHOWN.append((prefix + name, module, name))
        return function

    def names() -> list[str]:
        ops = [name[len(prefix):] for name in OPS if name.startswith(prefix)]
        return sorted({*vars(sys.modules[module]).get("__all__", own), *filter(accept, ops)})

    return find, names


def is_public(name: str) -> bool:
    """Whether an op is found directly in `nd`: all others are in a namespace of their own."""
    return not name.startswith("_")
