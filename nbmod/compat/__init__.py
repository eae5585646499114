"""MXNet for old programs: `import mxnet` as nbmod, old interfaces, and old names of NumPy."""

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
