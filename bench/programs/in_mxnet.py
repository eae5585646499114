"""Runs in MXNet's process: the programs of this package with MXNet."""

from __future__ import annotations

import importlib
from typing import Any

import mxnet as mx


def run(module: str, function: str, *args: Any, **options: Any) -> Any:
    """The result of a function of a module of this package."""
    programs = importlib.import_module(f".{module}", __package__)
    return getattr(programs, function)(mx, *args, **options)


def version() -> str:
    """MXNet's version."""
    return mx.__version__


def debug_text(json: str, shapes: dict[str, list[int]], requests: dict[str, str]) -> str:
    """MXNet's description of the bound graph, the planned memory in its last lines."""
    return mx.sym.load_json(json).simple_bind(
        mx.cpu(), grad_req=requests,
        **{name: tuple(shape) for name, shape in shapes.items()}).debug_str()[-400:]
