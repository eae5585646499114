"""Lists of operators for mixed precision."""

from . import symbol_fp16

__all__ = ["symbol_fp16"]
