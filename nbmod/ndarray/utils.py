"""`mxnet.ndarray.utils`: creation and files, without storage types other than dense."""

from .array_creation import array, empty, zeros
from .saving import load, load_frombuffer, save

__all__ = ["array", "empty", "load", "load_frombuffer", "save", "zeros"]
