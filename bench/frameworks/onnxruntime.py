"""onnxruntime: the network as an ONNX model, for inference."""

from __future__ import annotations

from typing import Any

import onnxruntime

from .network import Built, Network
from .onnx_model import inference_model

__all__ = ["build", "version"]


def version() -> str:
    return onnxruntime.__version__


def build(network: Network) -> Built:
    """A session on the model."""
    if network.training:
        raise LookupError("onnxruntime does not train")
    model, feeds = inference_model(network)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = network.threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    last: list[Any] = []

    def step() -> None:
        last[:] = session.run(None, feeds)

    return Built(step, lambda: last[0])
