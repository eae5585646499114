"""`mxnet.contrib.onnx`: files of ONNX, which nbmod does not read or write."""

from ..refusal import refuse_names

ONNX_REFUSAL = ("nbmod does not read or write ONNX; use Module.save_checkpoint and the files of "
                "MXNet 1.x")
__getattr__ = refuse_names(__name__, ONNX_REFUSAL)
