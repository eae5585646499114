"""Runs in the MXNet worker: programs over symbols, and symbols from JSON."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import mxnet as mx
from mxnet.contrib import amp

from tests.programs import common, symbol_programs


def answers(subject: str) -> list[Any]:
    """MXNet's results for the lines of a subject."""
    return symbol_programs.answers(mx, subject)


def rewrite(json: str) -> str:
    """The JSON that MXNet writes after reading `json`."""
    return mx.sym.load_json(json).tojson()


def rewrite_all(texts: list[str]) -> list[str | None]:
    """`rewrite` of each text; None where MXNet refuses it."""
    return [_rewrite_or_none(text) for text in texts]


def _rewrite_or_none(text: str) -> str | None:
    try:
        return rewrite(text)
    except mx.MXNetError:
        return None


def shapes(json: str, candidates: list[dict[str, tuple[int, ...]]]) -> dict[str, Any] | None:
    """Shapes MXNet infers from the first of `candidates` (known shapes) that determines them all.

    Where none does, from the first that contradicts nothing; None where all do. The result has
    the `known` shapes, and those of `arguments`, `aux` and `internals`, all visible outputs.
    """
    symbol = mx.sym.load_json(json)
    possible = {name for names in candidates for name in names} & set(symbol.list_inputs())
    best = None
    for candidate in candidates:
        known = {name: shape for name, shape in candidate.items() if name in possible}
        found = _partial_shapes(symbol, known)
        if found is not None and _is_complete(found):
            return found
        best = best or found
    return best


def _partial_shapes(symbol: Any, known: dict[str, tuple[int, ...]]) -> dict[str, Any] | None:
    try:
        arguments, internals, aux = symbol.get_internals().infer_shape_partial(**known)
    except mx.MXNetError:
        return None
    return {"known": known, "arguments": arguments, "aux": aux, "internals": internals}


def _is_complete(found: dict[str, Any]) -> bool:
    return all(shape and 0 not in shape for shape in found["arguments"] + found["internals"])


def mixed_precision(json: str) -> str:
    """The graph with the casts that automatic mixed precision inserts."""
    symbol = amp.convert_symbol(mx.sym.load_json(json), target_dtype="float16")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "symbol.json")
        symbol.save(path, remove_amp_cast=False)
        with open(path, encoding="utf-8") as stream:
            return stream.read()


def list_of_amp(name: str) -> Any:
    """A list of operators for mixed precision."""
    return getattr(amp, name)("float16")


def types(json: str, known: dict[str, str]) -> dict[str, Any]:
    """Types of everything inside from those of the arguments."""
    return common.infer(mx.sym.load_json(json).get_internals(), types=known)
