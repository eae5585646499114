"""`mxnet.library`: operators and passes of C++ libraries, which nbmod has not."""

from .core.refusal import refuse_names

__getattr__ = refuse_names(__name__, (
    "nbmod has no operators and passes of C++ libraries; mx.register_op registers operators "
    "written in Python"))
