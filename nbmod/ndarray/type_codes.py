"""Numbers of element and storage types under MXNet's names, which scripts import for files.

MXNet's element types are classes of NumPy (`np.float32`), with None for an unknown one.
"""

from ..base import DTYPE_FLAGS, STORAGE_FLAGS

__all__ = ["_DTYPE_MX_TO_NP", "_DTYPE_NP_TO_MX", "_STORAGE_TYPE_ID_TO_STR",
           "_STORAGE_TYPE_STR_TO_ID"]

_DTYPE_MX_TO_NP = {-1: None, **{flag: dtype.type for flag, dtype in DTYPE_FLAGS.items()}}
_DTYPE_NP_TO_MX = {dtype: flag for flag, dtype in _DTYPE_MX_TO_NP.items()}
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, **STORAGE_FLAGS}
_STORAGE_TYPE_ID_TO_STR = {flag: stype for stype, flag in _STORAGE_TYPE_STR_TO_ID.items()}
