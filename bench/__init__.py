"""Benchmarks.  They measure kernels: a network waits for those that are missing in the cache."""

import os

os.environ.setdefault("NBMOD_NUMPY_FIRST", "0")
