"""`Block.save` and `load`: parameters, and the traces and names of all blocks within a network.

``<prefix>-model.json`` has an entry for each block, with those of its children inside; its key is
the class in lower case and a number.  ``<prefix>-model.params`` is the file of `save_parameters`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, TypeAlias

from ..base import MXNetError
from ..core.atomic import atomic_write, named_errors
from .parameter_dict import ParameterDict

__all__ = ["load_block", "save_block"]

Block: TypeAlias = Any  # `base_block`, which imports this module


def save_block(block: Block, prefix: str) -> None:
    """Write the files of a network.

    Parameters
    ----------
    block : Block
        Network.
    prefix : str
        Beginning of the names of the files.
    """
    name = f"{prefix}-model.json"
    with named_errors(name), atomic_write(name) as file:
        file.write(json.dumps(_entry(block, count())).encode())
    block.save_parameters(f"{prefix}-model.params")


def _entry(block: Block, numbers: Iterator[int]) -> dict[str, Any]:
    """The entry of a block by its key."""
    key = f"{type(block).__name__.lower()}{next(numbers)}"
    entry: dict[str, Any] = {"orig_name": block.name, **block._saved_trace(), "children": {
        child.name: attribute for attribute, child in block._children.items()}}
    for child in block._children.values():
        entry.update(_entry(child, numbers))
    return {key: entry}


def load_block(block: Block, prefix: str) -> None:
    """Give a network the parameters, traces and names of files.

    Parameters
    ----------
    block : Block
        Network of the same structure.
    prefix : str
        Beginning of the names of the files.

    Raises
    ------
    MXNetError
        If the structure is another.
    """
    name = f"{prefix}-model.json"
    with open(name, encoding="utf-8") as file:
        entries = json.load(file)
    _restore(block, entries, name)
    block.load_parameters(f"{prefix}-model.params")


def _restore(block: Block, entries: dict[str, Any], where: str) -> None:
    """Restore a block, whose entry is the only one, and its children."""
    (key, entry), = entries.items()
    kind = type(block).__name__.lower()
    if key.rstrip("0123456789") != kind.rstrip("0123456789"):
        raise MXNetError(f"{where}: {key!r} is in the place of {block.name}, a {kind}; load it "
                         "into a network built as the one that was saved")
    children = {name: each for name, each in entry.items()
                if isinstance(each, dict) and "orig_name" in each}
    if len(children) != len(block._children):
        raise MXNetError(f"{where}: {entry['orig_name']} has {len(children)} children, but "
                         f"{block.name} has {len(block._children)}: {list(block._children)}")
    _rename(block, entry["orig_name"])
    block._restore_trace(entry)
    for child, (name, each) in zip(block._children.values(), children.items(), strict=True):
        _restore(child, {name: each}, where)
    _rename_children(block, [entry["children"].get(each["orig_name"])
                             for each in children.values()])


def _rename_children(block: Block, attributes: list[str | None]) -> None:
    """Register children under the names of the file, which those in the file of arrays begin with.

    A child that is registered twice has one name in the file, so that children keep their own.
    """
    if None not in attributes and len({*attributes}) == len(attributes):
        children = [*block._children.values()]
        block._children.clear()
        block._children.update(zip(attributes, children, strict=True))


def _rename(block: Block, name: str) -> None:
    """Give a block a name, and its own parameters the names that follow."""
    before, prefix = block.prefix, f"{name}_" if name else ""
    block._name, block._prefix = name, prefix
    own = ParameterDict(prefix, block._params._shared)
    for parameter in block._params.values():
        if parameter.name.startswith(before):
            parameter.name = prefix + parameter.name.removeprefix(before)
            parameter._var = None
        own._params[parameter.name] = parameter
    block._params = own
