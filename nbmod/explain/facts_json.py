"""Facts as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from ..base import MXNetError
from .schema import SCHEMA, VERSION, BindFacts, Json

__all__ = ["from_json", "to_json"]


def to_json(facts: BindFacts) -> dict[str, Json]:
    """The facts as values that `json.dump` takes."""
    return {"schema": SCHEMA, "version": VERSION, **_plain_fields(facts)}


def _plain_fields(value: object) -> dict[str, Json]:
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}  # type: ignore[arg-type]


def _plain(value: object) -> Json:
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"explain: {type(value).__name__} is no value of JSON")


def from_json(values: Mapping[str, Json]) -> BindFacts:
    """The facts in a file that `to_json` made.

    Raises
    ------
    MXNetError
        If they are no facts, or of a later version.
    """
    schema, version = values.get("schema"), values.get("version")
    if schema != SCHEMA or not isinstance(version, int) or version > VERSION:
        raise MXNetError(f"explain: the file has schema {schema!r} version {version!r}, expected "
                         f"{SCHEMA!r} up to version {VERSION}; `nbmod explain --json` writes it")
    try:
        facts = _value(BindFacts, {key: value for key, value in values.items()
                             if key not in ("schema", "version")})
    except (KeyError, TypeError, AttributeError) as error:
        raise MXNetError(f"explain: the file is damaged: {error}") from None
    assert isinstance(facts, BindFacts)
    return facts


@cache
def _hints(kind: type) -> dict[str, object]:
    """The types of the fields of a class."""
    return get_type_hints(kind)


def _value(kind: object, value: Json) -> object:
    """A value of a type of this module from JSON."""
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise TypeError(f"{kind.__name__} is {value!r}, expected an object")
        hints = _hints(kind)
        return kind(**{name: _value(hints[name], each) for name, each in value.items()
                       if name in hints})
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and type(None) in args:
        rest = [each for each in args if each is not type(None)]
        return None if value is None else _value(rest[0], value) if len(rest) == 1 else value
    if origin is not None and isinstance(value, list) and args:
        return [_value(args[0], each) for each in value]
    return value
