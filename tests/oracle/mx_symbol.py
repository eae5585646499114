"""Runs in the MXNet worker: programs over symbols, and symbols from JSON."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from tests import symbol_programs


def answers(subject: str) -> list[Any]:
    """MXNet's answers to the lines of a subject."""
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
