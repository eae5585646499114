"""Classes that can be imported and subclassed, and refuse to make objects."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base import MXNetError

__all__ = ["Absent", "absent_classes"]


class Absent:
    """Base of the names of Gluon's classes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, naming the class of Gluon that `cls` is or derives from."""
        named = next(base for base in cls.__mro__ if base.__bases__ == (Absent,))
        raise MXNetError(f"mx.{named.__module__.partition('.')[2]}.{named.__name__}: this part of "
                         "Gluon is not in nbmod; mx.gluon.Trainer trains networks")


def absent_classes(module: str, names: str) -> dict[str, type[Absent]]:
    """Return classes of these names, separated by blanks, for a module's namespace."""
    return {name: type(name, (Absent,), {"__module__": module, "__doc__": "Part of Gluon."})
            for name in names.split()}
