"""Registries of classes by name: `"acc"` or `'["xavier", {"magnitude": 2}]'` becomes an object.

There is one table per base class, from lower-cased names to classes.  Metrics and initializers use
it; other families of classes may.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from ..base import ArgumentTypeError, CheckError, MXNetError, did_you_mean

__all__ = ["get_registry", "get_register_func", "get_alias_func", "get_create_func", "construct",
           "is_abandoned"]
__dir__ = __all__.copy

Base = TypeVar("Base")
Class = TypeVar("Class", bound=type)

_TABLES: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the table of `base_class`: name -> class."""
    return dict(_TABLES.setdefault(base_class, {}))


def is_abandoned(known: type, klass: type) -> bool:
    """Whether `known` is `klass` of an import that failed, such as by Ctrl-C, and is repeated."""
    name, module = known.__name__, sys.modules.get(known.__module__)
    return ((klass.__name__, klass.__module__) == (name, known.__module__)
            and getattr(getattr(module, "__spec__", None), "_initializing", False)
            and getattr(module, name, None) is not known)


def enter(table: dict[str, type[Base]], klass: type[Base], nickname: str,
          name: str | None = None) -> None:
    """Enter a class in a table under a name, its own by default; a warning if it replaces one."""
    if not isinstance(klass, type):
        raise CheckError(f"{klass!r} cannot be registered as {nickname}: it is no class")
    key = (name or klass.__name__).lower()
    known = table.get(key, klass)
    if known is not klass and not is_abandoned(known, klass):
        warnings.warn(f"new {nickname} {klass.__module__}.{klass.__name__} replaces "
                      f"{known.__module__}.{known.__name__} under the name {key!r}", UserWarning,
                      stacklevel=3)
    table[key] = klass


class Register(Protocol):
    """A class decorator that takes a name, too."""

    def __call__(self, klass: Class, name: str | None = None) -> Class: ...


def get_register_func(base_class: type, nickname: str) -> Register:
    """The class decorator that enters subclasses of `base_class` under a name (default: theirs)."""
    table = _TABLES.setdefault(base_class, {})

    def register(klass: Class, name: str | None = None) -> Class:
        if not isinstance(klass, type):
            raise ArgumentTypeError(f"{klass!r} cannot be registered as {nickname}: it is no class")
        if not issubclass(klass, base_class):
            raise CheckError(f"{klass!r} cannot be registered as {nickname}: it is no subclass of "
                             f"{base_class.__name__}")
        enter(table, klass, nickname, name)
        return klass

    register.__doc__ = f"Register a {nickname} class, under its own name or `name`."
    return register


def get_alias_func(base_class: type, nickname: str
                   ) -> Callable[..., Callable[[Class], Class]]:
    """The class decorator `@alias("a", "b")` that enters a class under several names."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[Class], Class]:
        def enter(klass: Class) -> Class:
            for name in names:
                register(klass, name)
            return klass
        return enter

    alias.__doc__ = f"Register a {nickname} class under further names: `@alias(\"a\", \"b\")`."
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """The function that makes an instance from a name, a description or an instance (see below)."""
    table = _TABLES.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        what, rest = (args[0], args[1:]) if args else (kwargs.pop(nickname, None), ())
        if isinstance(what, base_class):
            if rest or kwargs:
                raise CheckError(f"{nickname} {what!r} exists already: the arguments "
                                 f"{rest or kwargs} cannot be applied to it")
            return what
        name, described = _described(what, nickname)
        if name.lower() not in table:
            raise CheckError(f"{nickname} {name!r} is not registered; known: {sorted(table)}"
                             f"{did_you_mean(name.lower(), table)}")
        return construct(table[name.lower()], *rest, **{**described, **kwargs})

    create.__doc__ = (f"The {nickname} meant by a registered name (with arguments), by JSON "
                      f"`[\"name\", {{arguments}}]`, by a dict, or an instance as it is.")
    return create


def construct(klass: type, *args: Any, **kwargs: Any) -> Any:
    """`klass(*args, **kwargs)`; an ArgumentTypeError for arguments that it does not take."""
    try:
        return klass(*args, **kwargs)
    except TypeError as error:
        if isinstance(error, MXNetError):
            raise
        raise _wrong_arguments(klass, kwargs, error) from error


def _wrong_arguments(klass: type, args: Mapping[str, Any], error: TypeError) -> ArgumentTypeError:
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if wrong is None or wrong[1] not in args:
        return ArgumentTypeError(f"{klass.__name__}: {error}")
    known = sorted(_parameters(klass))
    return ArgumentTypeError(f"{klass.__name__} has no argument {wrong[1]!r}, known: {known}"
                             f"{did_you_mean(wrong[1], known)}")


def _parameters(klass: type) -> set[str]:
    """Names of what a class and its bases can be made with."""
    makers = [vars(base)["__init__"] for base in klass.__mro__[:-1] if "__init__" in vars(base)]
    known = [parameter for make in makers
             for parameter in list(inspect.signature(make).parameters.values())[1:]]
    return {parameter.name for parameter in known if parameter.kind is not parameter.VAR_KEYWORD}


def _from_json(text: str, nickname: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MXNetError(f"{nickname} description {text[:80]!r} is not JSON: {error}") from None


def _described(what: Any, nickname: str) -> tuple[str, dict[str, Any]]:
    """(name, keyword arguments) from a name, a JSON text or a dict."""
    if isinstance(what, str) and what.startswith(("[", "{")):
        what = _from_json(what, nickname)
    if isinstance(what, dict):
        arguments = dict(what)
        what = [arguments.pop(nickname, None), arguments]
    elif isinstance(what, str):
        what = [what, {}]
    match what:
        case [str(name), dict(arguments)]:
            return name, arguments
    raise CheckError(f"{nickname} must be a name, [name, {{arguments}}], a dict with the key "
                     f"{nickname!r} or an instance, given {what!r}")
