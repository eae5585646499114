"""nbmod: MXNet 1.x's symbolic engine and Module API in plain Python on numpy and numba."""

__version__ = "0.1.0"
