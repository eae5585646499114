"""`mxnet.ndarray_doc`: documentation added to functions of arrays.

nbmod documents its operators themselves (`help(mx.nd.stack)`), so only the machinery is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import cleandoc

from .c_interface import build_param_doc as _build_param_doc

__all__ = ["NDArrayDoc"]
__dir__ = __all__.copy


class NDArrayDoc:
    """Base of classes `<function>Doc`, whose docstrings `_build_doc` adds."""


def _build_doc(func_name: str, desc: str, arg_names: Iterable[str], arg_types: Iterable[str],
               arg_desc: Iterable[str], key_var_num_args: str | None = None,
               ret_type: str | None = None) -> str:
    parts = [
        desc, _build_param_doc(arg_names, arg_types, arg_desc),
        "out : NDArray, optional\n    Array to write the result to.\n",
        "Returns\n-------\nout : NDArray or list of NDArrays\n    The result.\n",
        *_added(NDArrayDoc, func_name)]
    return "\n".join(parts).replace("NDArray-or-Symbol", "NDArray")


def _added(base: type, func_name: str) -> list[str]:
    """The docstrings that subclasses of `base` add to a function."""
    added: list[type] = base.__subclasses__()
    return [cleandoc(each.__doc__) for each in added
            if each.__name__ == f"{func_name}Doc" and each.__doc__]
