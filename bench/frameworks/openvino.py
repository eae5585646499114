"""OpenVINO: the network as an ONNX model, for inference in float32."""

from __future__ import annotations

from typing import Any

import openvino

from .network import Built, Network
from .onnx_model import inference_model

__all__ = ["build", "version"]


def version() -> str:
    return openvino.__version__.partition("-")[0]


def build(network: Network) -> Built:
    """A request of the compiled model, which would compute in bfloat16 where the CPU can."""
    if network.training:
        raise LookupError("OpenVINO does not train")
    model, feeds = inference_model(network)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {
        "INFERENCE_NUM_THREADS": network.threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    last: list[Any] = []

    def step() -> None:
        last[:] = [request.infer(feeds)[0]]

    return Built(step, lambda: last[0])
