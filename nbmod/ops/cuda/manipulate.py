"""Sizes of tensors as tensors."""

from __future__ import annotations

from ..manipulate import ShapeArray, SizeArray
from .creation import made_on_host
from .launch import on_gpu

__all__: list[str] = []

for _op in (ShapeArray, SizeArray):
    on_gpu(_op, made_on_host)
