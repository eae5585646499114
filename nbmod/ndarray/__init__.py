"""`mx.nd`: arrays, and functions that are executed eagerly.

    ndarray    the class, and `invoke`, which runs one op on arrays
    eager      execution of one op: inference, allocation, the call
    tape       recording for `autograd`         gradients  its backward pass
    indexing   keys of `x[key]`                 operators  `x + y` and `nd.add`
    fluent     `x.exp()` for `nd.exp(x)`        creation   `nd.array`, `nd.zeros`, ...
    functions  `nd.X` for every op X            saving     `.params` files
    dlpack     memory shared with others

The ops in namespaces are in the modules `contrib`, `image`, `linalg`, `random`, `sparse`, `op` and
`_internal`.  Nothing here needs a compiler, and op families are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import array_creation, dlpack, saving
from .array_creation import *  # noqa: F403
from .dlpack import *  # noqa: F403
from .functions import ARITHMETIC, is_public, namespace
from .ndarray import NDArray, invoke
from .saving import *  # noqa: F403

if TYPE_CHECKING:
    from . import _internal, contrib, image, linalg, op, random, sparse  # noqa: F401
    from ._op_stubs import arithmetic as _arithmetic_stub
    from ._op_stubs import op as _op_stub
    from ._op_stubs.arithmetic import *  # noqa: F403
    from ._op_stubs.op import *  # noqa: F403

__all__ = ["NDArray", "invoke"]
__all__ += array_creation.__all__
__all__ += dlpack.__all__
__all__ += saving.__all__
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _arithmetic_stub.__all__
    __all__ += _op_stub.__all__
    __all__ += ["_internal", "contrib", "image", "linalg", "op", "random", "sparse"]

_SUBMODULES = ("_internal", "contrib", "image", "linalg", "op", "random", "sparse")

globals().update(ARITHMETIC)
_find, _names = namespace(__name__, "", is_public)


def __dir__() -> list[str]:
    return sorted({*_names(), *ARITHMETIC, *_SUBMODULES})


def _load(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    return _find(name)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load
