"""OpenVINO: the network as an ONNX model, for inference in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

from .network import Built, Network
from .onnx_model import inference_model

__all__ = ["build", "vector_bits", "version"]


def version() -> str:
    return openvino.__version__.partition("-")[0]


def vector_bits() -> int:
    """The wider of oneDNN's, by the name of a convolution's kernel, and of the plugin's own, which
    offers Winograd's algorithm where it may use AVX-512."""
    core = openvino.Core()
    data = ops.parameter([1, 8, 8, 8], np.float32)
    weight = ops.constant(np.ones((8, 8, 3, 3), np.float32))
    model = openvino.Model([ops.convolution(data, weight, [1, 1], [0, 0], [0, 0], [1, 1])], [data])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    kernels = [node.get_rt_info()["primitiveType"].value
               for node in compiled.get_runtime_model().get_ops()]
    is_wide = any("avx512" in kernel for kernel in kernels)
    offers = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return 512 if is_wide or "WINOGRAD" in offers else 256


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
