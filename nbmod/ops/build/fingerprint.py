"""A digest of everything in the sources that determines a kernel's machine code.

A kernel is compiled from its own bytecode, from the helpers that it inlines, and from the Python
functions that emit its micro-kernels.  From the kernel on, `fingerprint` follows every reference
that a function can make: global names, closures, default arguments, methods of classes.  The result
is a digest of the bytecode and the constants of all functions reached, as content-addressed build
systems have it (Dolstra et al. 2004, "Nix"): it changes with an edit of any of them, and not with
their files' times and places, their comments, or other functions.

What is neither code nor plain data, such as a module of another package, counts by its name; the
versions of packages, the host and the settings belong to the key as well (`store`).
"""

from __future__ import annotations

import enum
import functools
import hashlib
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

import numpy as np

from ...core.config import CONFIG

__all__ = ["fingerprint"]

LIBRARIES = {"numpy", "numba", "llvmlite"}
IGNORED = {"__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__",
           "__static_attributes__", "__annotate__", "__annotate_func__", "_abc_impl",
           "__annotations_cache__", "__conditional_annotations__"}
"""Attributes of classes that no function reads while it emits code."""


class DefinitionText(NamedTuple):
    """A function or a class: a text of its own content, and the functions and classes in that."""

    text: str
    references: tuple[object, ...]


_units: dict[int, tuple[object, DefinitionText]] = {}
"""Units of functions and classes by identity; the objects are kept, so that none gets that of
another."""


def fingerprint(function: FunctionType) -> str:
    """The digest of `function` and of all that it reaches, in hexadecimal digits.

    Examples
    --------
    >>> from nbmod.ops.build.fingerprint import fingerprint
    >>> double, twice, triple = (lambda x: x * 2), (lambda x: x * 2), (lambda x: x * 3)
    >>> fingerprint(double) == fingerprint(twice), fingerprint(double) == fingerprint(triple)
    (True, False)
    """
    reached: dict[int, str] = {}
    open_ends: list[object] = [function]
    while open_ends:
        code = open_ends.pop()
        if id(code) not in reached:
            unit = _unit(code)
            reached[id(code)] = unit.text
            open_ends += unit.references
    # The order in which units are reached does not matter: each names what it refers to.
    return hashlib.sha256("\n".join(sorted(reached.values())).encode()).hexdigest()


def _unit(code: object) -> DefinitionText:
    if id(code) not in _units:
        writer = _Describer()
        text = writer.of_class(code) if isinstance(code, type) else writer.of_function(code)
        _units[id(code)] = code, DefinitionText(text, tuple(writer.references))
    return _units[id(code)][1]


class _Describer:
    """Describes values in text, and collects the functions and classes among them."""

    def __init__(self) -> None:
        self.references: list[object] = []
        self._parents: set[int] = set()

    def of_function(self, function: object) -> str:
        assert isinstance(function, FunctionType)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        closure = {name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell)}
        names = _names(function.__code__)
        used = {name: self.value(function.__globals__[name], sorted(names))
                for name in names - {"prange"} if name in function.__globals__}
        return (f"{_label(function)} {self.code(function.__code__, function.__doc__)} "
                f"{self.value(function.__defaults__)} {self.value(function.__kwdefaults__)} "
                f"{self.value(closure)} {sorted(used.items())}")

    def of_class(self, code: type) -> str:
        members = {name: value for name, value in vars(code).items() if name not in IGNORED}
        return f"{_label(code)} {self.value(code.__bases__)} {self.value(members)}"

    def code(self, code: CodeType, doc: str | None = None) -> str:
        """Bytecode and constants, without lines and docstring."""
        constants = [self.code(each) if isinstance(each, CodeType) else self.value(each)
                     for number, each in enumerate(code.co_consts)
                     if number or doc is None or each != doc]
        digest = hashlib.sha256(code.co_code + getattr(code, "co_exceptiontable", b""))
        return (f"{digest.hexdigest()} {constants} {code.co_names} {code.co_varnames} "
                f"{code.co_freevars} {code.co_cellvars} {code.co_argcount} {code.co_flags}")

    def value(self, value: object, attributes: Iterable[str] = ()) -> str:
        """A description that is equal for equal values only; functions and classes are named.

        attributes: names that the code may look up in `value` if that is a module.
        """
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, ModuleType):
            return self.module(value, attributes)
        if isinstance(value, (FunctionType, type)):
            return self.named(value)
        if id(value) in self._parents:
            return "itself"
        self._parents.add(id(value))
        try:
            return self.compound(value)
        finally:
            self._parents.discard(id(value))

    def module(self, module: ModuleType, attributes: Iterable[str]) -> str:
        values = {}
        if _is_own(module.__name__):
            values = {name: self.value(getattr(module, name)) for name in attributes
                      if hasattr(module, name)}
        return f"module {module.__name__} {sorted(values.items())}"

    def named(self, code: FunctionType | type) -> str:
        """The name of a function or class, which is followed unless it belongs to a library."""
        if _is_own(code.__module__):
            self.references.append(code)
        return _label(code)

    def compound(self, value: object) -> str:
        """A container, or an object with attributes."""
        if isinstance(value, (set, frozenset)):
            return f"{type(value).__name__} {sorted(map(self.value, value))}"
        if isinstance(value, dict):
            return f"dict {sorted((self.value(key), self.value(of)) for key, of in value.items())}"
        if isinstance(value, enum.Enum):
            return f"{self.named(type(value))} {value.name} {self.value(value.value)}"
        if isinstance(value, (tuple, list)):
            return f"{self.named(type(value))} {[self.value(each) for each in value]}"
        parts = _parts(value)
        if parts is not None:
            return f"of {[self.value(each) for each in parts]}"
        if value is CONFIG:
            return "settings"
        if _is_own(type(value).__module__):
            return f"{self.named(type(value))} {self.value(getattr(value, '__dict__', None))}"
        # Of a library: its types and ufuncs have names.  A memory address is not one.
        text = repr(value)
        return _label(type(value)) + (f" {text}" if " at 0x" not in text else "")


def _parts(value: object) -> tuple[object, ...] | None:
    """The parts of a function-like object; None for others."""
    parts = getattr(value, "fingerprint_parts", None)   # a helper, compiled or not
    if parts is not None:
        return tuple(parts)
    function = getattr(value, "py_func", None)      # what users compile with numba
    if isinstance(function, FunctionType):
        return function, repr(sorted(getattr(value, "targetoptions", {}).items()))
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, BuiltinFunctionType):
        return value.__module__, value.__qualname__
    if isinstance(getattr(value, "__wrapped__", None), FunctionType):   # functools.cache
        return (value.__wrapped__,)  # type: ignore[attr-defined]
    return None


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes in code and in the functions inside it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _is_own(module: str | None) -> bool:
    """Whether code of a module is followed; that of LIBRARIES and of Python has versions."""
    name = (module or "builtins").partition(".")[0]
    return name not in LIBRARIES and name not in sys.stdlib_module_names


def _is_filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def _label(code: FunctionType | type) -> str:
    return f"{code.__module__}.{code.__qualname__}"
