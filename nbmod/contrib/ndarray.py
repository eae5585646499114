"""`mx.contrib.ndarray`: the functions of `mx.nd.contrib`."""

from ..ndarray.contrib import *  # noqa: F403
from ..ndarray.contrib import __dir__, __getattr__  # type: ignore[attr-defined]  # noqa: F401
