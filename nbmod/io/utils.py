"""MXNet's module path of what names the inputs of iterators."""

from .ndarray_iter import named_arrays as _init_data  # noqa: F401
