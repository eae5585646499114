"""Sizes of tensors as tensors."""

from __future__ import annotations

from ...tensor.manipulate import ShapeArray, SizeArray
from ..runtime.launch import on_gpu
from .creation import made_on_host

__all__: list[str] = []

on_gpu((ShapeArray, SizeArray), made_on_host)
