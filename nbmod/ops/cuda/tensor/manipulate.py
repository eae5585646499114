"""Sizes of tensors as tensors."""

from __future__ import annotations

from ...dispatch import implements
from ...tensor.manipulate import ShapeArray, SizeArray
from .creation import made_on_host

__all__: list[str] = []

implements((ShapeArray, SizeArray), "cuda", made_on_host)
