"""`mxnet.error`: classes of errors, and the table of their names.

nbmod raises them as they are, so that the table only serves scripts that fill or read it.
"""

from __future__ import annotations

from ..base import MXNetError, register_error

__all__ = ["MXNetError", "register"]
__dir__ = __all__.copy

register = register_error


@register_error
class InternalError(MXNetError):
    """An error in nbmod itself, which asks to be reported.

    Parameters
    ----------
    msg : str
        What went wrong.

    Examples
    --------
    >>> issubclass(mx.error.InternalError, mx.MXNetError)
    True
    """

    def __init__(self, msg: str):
        hint = "MXNet hint:"
        super().__init__(msg if hint in msg else
                         f"{msg}\n{hint} this is an internal error; please report it to nbmod")


for _error in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_error)
