"""Random numbers: a runtime draws others than nbmod, of the same distribution."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("_random_normal", "_random_normal_like", "_random_uniform", "_random_uniform_like")
def _drawn(node: NodeExport) -> Value:
    from onnx import helper

    op, out = node.op, node.outs[0]
    if "normal" in op.name:
        kind, parameters = "RandomNormal", {"mean": op.loc, "scale": op.scale}
    else:
        kind, parameters = "RandomUniform", {"low": op.low, "high": op.high}
    dtype = helper.np_dtype_to_tensor_dtype(out.dtype)
    if node.inputs:
        return node.emit(f"{kind}Like", node.x, dtype=dtype, domain="", **parameters)
    return node.emit(kind, dtype=dtype, shape=list(node.static(out)), domain="", **parameters)


@converts("_sample_multinomial")
def _categories(node: NodeExport) -> list[Value]:
    """Categories of rows of probabilities, of which Multinomial reads the logarithms.

    Of rows that are no probabilities the runtime draws one after the last, which becomes the last.
    """
    info = node.ins[0]
    count = node.static(info, [info.ndim - 1])[-1]
    rows = node.reshape_to(node.x, -1, count)
    logs = node.emit("Log", node.cast_from(rows, info.dtype, np.float32))
    drawn = node.emit("Multinomial", logs, sample_size=int(np.prod(node.op.shape)))
    drawn = node.emit("Min", drawn, node.scalar(count - 1, np.int32))
    results = [node.cast_from(drawn, np.int32, node.outs[0].dtype)]
    if node.op.get_prob:
        chosen = node.emit("GatherElements", logs, drawn, axis=1)
        results.append(node.cast_from(chosen, np.float32, info.dtype))
    return [node.reshape(each, out) for each, out in zip(results, node.outs, strict=True)]
