"""Lists of operators for mixed precision, in `symbol_fp16`."""

from . import symbol_fp16

__all__ = ["symbol_fp16"]
