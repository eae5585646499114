"""Classes that can be imported and subclassed, and refuse to make objects."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base import MXNetError

__all__ = ["Absent", "absent_classes"]

_INSTEAD = {"data": "mx.io and mx.image have iterators"}
_OTHERWISE = "mx.gluon.nn and mx.gluon.rnn have layers, and mx.nd and mx.sym all operators"


def _refuse(module: str, name: str) -> NoReturn:
    where = module.partition(".")[2]
    instead = next((text for key, text in _INSTEAD.items() if key in (*where.split("."), name)),
                   _OTHERWISE)
    raise MXNetError(f"mx.{where}.{name}: this part of Gluon is not in nbmod; {instead}")


class Absent:
    """Base of the names of Gluon's classes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, naming the class of Gluon that `cls` is or derives from."""
        named = next(base for base in cls.__mro__ if base.__bases__ == (Absent,))
        _refuse(named.__module__, named.__name__)


def absent_classes(module: str, names: str) -> dict[str, type[Absent]]:
    """Return classes of these names, separated by blanks, for a module's namespace."""
    return {name: type(name, (Absent,), {"__module__": module, "__doc__": "Part of Gluon."})
            for name in names.split()}
