"""MXNet for old programs: `import mxnet` as nbmod, old interfaces, and old names of NumPy.

Each file keeps names and signatures of an import path of MXNet, and leaves all computation to the
current interfaces.  `core.import_paths` has paths such as `mx.util`.

    mxnet_name.py        `import mxnet` as nbmod in this process; names that NumPy has removed
    util.py              `mx.util`: environment variables, GPUs, the meaning of shapes (`np_shape`)
    model.py             `mx.model`: the path to checkpoints and `FeedForward`
    feedforward.py       `FeedForward`, MXNet's first model class, as a thin layer over `Module`
    executor_manager.py  `DataParallelExecutorManager`, for scripts with their own training loop
    mxnet_predict.py     `Predictor`, the small interface of MXNet's amalgamation
    misc.py              the learning-rate schedulers of MXNet 0.5
    engine.py            options of MXNet's asynchronous engine, which are stored and have no effect
    error.py             `mxnet.error`: error classes by name
    libinfo.py           `mxnet.libinfo`: paths of a shared library that does not exist here
    c_interface.py       handles and helpers of `mxnet.base`; most C functions raise MXNetError
    c_functions.py       C functions that copy arrays from and to pointers
    ndarray_doc.py       `mxnet.ndarray_doc`: documentation that scripts add to functions
    symbol_doc.py        `mxnet.symbol_doc`: such documentation for symbols, and output shapes

Begin with `mxnet_name.py`.  Imports `base`, `callback`, `checkpoint`, `context`, `core`,
`initializer`, `io`, `metric`, `module`, `ndarray`, `ops`, `serving`, `startup.sitecustomize` and
`symbol`.
"""

from .mxnet_name import (
    MXNET_VERSION,
    as_mxnet,
    become_mxnet,
    explain_errors,
    numpy_cure,
    restore_old_names,
)

__all__ = ["MXNET_VERSION", "as_mxnet", "become_mxnet", "explain_errors", "numpy_cure",
           "restore_old_names"]
