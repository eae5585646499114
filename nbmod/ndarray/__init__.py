"""`mx.nd`: arrays, and functions that are executed eagerly.

Nothing here needs a compiler, and op families are imported on first use.  `_data` of a dense
array is C-contiguous; code that writes to it calls `mutation.written`.

    ndarray.py           `NDArray`
    invocation.py        `invoke`, which runs one op on arrays
    host_array.py        arguments as NumPy arrays, with MXNet's rules for element types
    array_creation.py    `nd.array`, `nd.zeros`, `nd.arange` and others
    array_functions.py   `nd.concatenate`, `nd.split_v2` and others that are no operators
    array_indexing.py    keys of `x[key]` as NumPy's
    operators.py         `x + y` and `nd.add`, from one table
    functions.py         `nd.X` for every op X, made on first use
    fluent.py            `x.exp()` for `nd.exp(x)`
    eager.py             execution of one op: inference, allocation, the call
    mutation.py          caches that become stale when the memory of an array is written
    buffer_pool.py       reused memory for the batches of iterators
    dlpack.py            memory shared with other libraries
    type_codes.py        numbers of element and storage types, under MXNet's names
    records.py           memory of arrays from records of files and pickles
    saving.py            `nd.save` and `nd.load`
    recording.py         the flags of `autograd`, per thread
    tape.py              the graph that `autograd` records
    direct_gradients.py  operations of the tape that write gradients of leaves themselves
    tape_facts.py        shapes and devices of the gradient graph of a tape
    tape_programs.py     backward passes, planned once for all tapes of one structure
    tape_backward.py     execution of the gradient graph of a tape
    gradients.py         `mark_variables`, `backward` and `grad` of `mx.autograd`
    sparse_array.py      `CSRNDArray` and `RowSparseNDArray`
    sparse.py            `mx.nd.sparse`: how sparse arrays are made, and their ops
    sparse_eager.py      execution of one op some of whose arrays are sparse
    sparse_update.py     update ops with a row_sparse gradient, row by row
    control_flow.py      `foreach`, `while_loop` and `cond` as Python loops
    update.py            `nd.contrib.adamw_update` and other wrappers of update ops
    random.py            `mx.nd.random`: samples of distributions
    contrib.py           `mx.nd.contrib`: the ops `_contrib_X`
    image.py             `mx.nd.image`: the ops `_image_X`
    linalg.py            `mx.nd.linalg`: the ops `_linalg_X`
    op.py                `mx.nd.op`: public ops only
    _internal.py         `mx.nd._internal`: ops whose names start with an underscore
    utils.py             `mx.ndarray.utils`: creation and files

Begin with `ndarray.py`.  Imports `base`, `context`, `core`, `execution.cached_op`,
`execution.interpreter`, `graph`, `imgproc.codecs`, `ops` and `passes.gradient`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import array_creation, array_functions, dlpack, ndarray, saving
from .array_creation import *  # noqa: F403
from .array_functions import *  # noqa: F403
from .dlpack import *  # noqa: F403
from .functions import ARITHMETIC, is_public, namespace
from .invocation import invoke
from .ndarray import NDArray
from .saving import *  # noqa: F403

if TYPE_CHECKING:
    from . import _internal, contrib, image, linalg, op, random, sparse  # noqa: F401
    from ._op_stubs import arithmetic as _arithmetic_stub
    from ._op_stubs import op as _op_stub
    from ._op_stubs.arithmetic import *  # noqa: F403
    from ._op_stubs.op import *  # noqa: F403

__all__ = ["NDArray", "invoke"]
__all__ += array_creation.__all__
__all__ += array_functions.__all__
__all__ += dlpack.__all__
__all__ += saving.__all__
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _arithmetic_stub.__all__
    __all__ += _op_stub.__all__
    __all__ += ["_internal", "contrib", "image", "linalg", "op", "random", "sparse"]

_SUBMODULES = ("_internal", "contrib", "image", "linalg", "op", "random", "sparse")

globals().update(ARITHMETIC)
# MXNet has these in the module of the class, too.
vars(ndarray).update(
    {name: globals()[name] for name in (*array_creation.__all__, *array_functions.__all__,
                                        *dlpack.__all__, *ARITHMETIC)} | {"py_slice": slice})
_find, _names = namespace(__name__, "", is_public)


def __dir__() -> list[str]:
    return sorted({*_names(), *ARITHMETIC, *_SUBMODULES})


def _load(name: str) -> Any:
    if name == "CachedOp":
        from ..execution.cached_op import CachedOp

        return CachedOp
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    return _find(name)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load
