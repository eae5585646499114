"""`mx.register_op`: user-defined ops in the op table, on equal terms with nbmod's.

    @mx.register_op("ChannelScale", aliases=("_contrib_ChannelScale",))
    @dataclass(frozen=True)
    class ChannelScale(FloatOp):
        '''y[n, c] = scale[n, c] x[n, c], for data (N, C, ...) and scale (N, C).'''
        ...

The class is written as those in `nbmod.ops` are; docs/register_op.md shows a whole one.  From then
on there is `mx.sym.ChannelScale`, `mx.nd.contrib.ChannelScale` and so on, symbol files may hold it,
and executors, autograd and GPUs take it.  An invalid class is an MXNetError here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeVar

from ..base import MXNetError
from ..ndarray.eager import clear_caches
from ..ndarray.functions import forget_function
from ..ops import OPS
from ..ops.op import _TABLE, Cost, Count, Op
from ..symbol.namespace import symbol_function
from .validate import check

__all__ = ["register_op", "unregister_op"]

OpClass = TypeVar("OpClass", bound=type[Op])

_NAMESPACES = {"_contrib_": ".contrib", "_image_": ".image", "_linalg_": ".linalg",
               "_sparse_": ".sparse"}
_replaced: dict[str, dict[str, type[Op]]] = {}
"""Name of a registered op -> what its names meant before, where they meant something."""


def register_op(name: str, aliases: Sequence[str] = (), replace: bool = False,
                operations: Count | None = None, nbytes: Count | None = None
                ) -> Callable[[OpClass], OpClass]:
    """The class decorator that enters an op under `name` and `aliases`.

    A name that starts with `_contrib_`, `_linalg_`, `_image_` or `_sparse_` puts the function into
    that namespace, with any other underscore it is in `_internal`.  With `replace` the op may take
    the names of others, nbmod's included, until `unregister_op`.

    `operations(op, ins, outs)` counts the multiplications and additions of one run, and `nbytes`
    the bytes that it reads and writes, from the specs of inputs and outputs (None: nothing reads
    it): `nbmod bench`, the profiler and `nbmod.bench` tell speeds and shares of the roof by them.
    Without them an op counts by the bytes of its inputs and outputs.

    Raises MXNetError for a name that is taken, and for a class that cannot be an op.
    """
    names = (name, aliases) if isinstance(aliases, str) else (name, *aliases)
    for each in names:
        if not (isinstance(each, str) and each.isidentifier()):
            raise MXNetError(f"register_op: {each!r} is no name; expected a word such as "
                             "'ChannelScale' or '_contrib_ChannelScale'")

    def enter(cls: OpClass) -> OpClass:
        if not (isinstance(cls, type) and issubclass(cls, Op)):
            raise MXNetError(f"register_op({name!r}): {cls!r} is given, expected a subclass of "
                             "nbmod.ops.Op")
        where = f"register_op({name!r}), class {cls.__module__}.{cls.__name__}"
        if any(known is cls for known in _TABLE.values()):
            raise MXNetError(f"{where}: it is in the table already, as {cls.name!r}; leave "
                             "`name=` out of the class statement, and register it once")
        try:
            _check_names(names, replace)
            check(cls)
        except MXNetError as error:
            raise MXNetError(f"{where}: {error}") from error.__cause__
        _replaced[name] = {each: _TABLE.pop(each) for each in names if each in OPS}
        cls.cost = Cost(operations, nbytes)
        cls.enter(name, names[1:])
        _forget(names)
        return cls

    return enter


def _check_names(names: Sequence[str], replace: bool) -> None:
    for name in names:
        if name in OPS and not replace:
            raise MXNetError(f"there is an operator {name!r} already ({OPS[name].__module__}."
                             f"{OPS[name].__name__}); choose another name, or say replace=True to "
                             "replace it")
        prefix, submodule = next(
            (pair for pair in _NAMESPACES.items() if name.startswith(pair[0])),
            ("", "._internal" if name.startswith("_") else ""))
        for package in ("..ndarray", "..symbol"):
            module, short = import_module(package + submodule, __package__), name[len(prefix):]
            if name not in OPS and short in vars(module):
                raise MXNetError(f"{module.__name__}.{short} is something else, which would hide "
                                 "the operator; choose another name")


def unregister_op(name: str) -> None:
    """Take an op that was registered by `register_op` out again, by its name: for tests.

    Names it had replaced mean what they did before; symbols made with it keep it.
    """
    if name not in _replaced:
        raise MXNetError(f"unregister_op: no operator was registered as {name!r}; registered are "
                         f"{sorted(_replaced)}")
    cls, before = _TABLE[name], _replaced.pop(name)
    names = (name, *cls.aliases)
    for each in names:
        del _TABLE[each]
    _TABLE.update(before)
    del cls.name, cls.aliases
    _forget(names)


def _forget(names: Sequence[str]) -> None:
    """Clear everything cached under these names."""
    clear_caches()
    symbol_function.cache_clear()
    for name in names:
        forget_function(name)
