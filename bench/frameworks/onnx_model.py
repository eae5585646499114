"""The network as an ONNX model, for engines that read those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .network import Network, Node

__all__ = ["inference_model"]


def inference_model(network: Network) -> tuple[bytes, dict[str, np.ndarray]]:
    """The file of the model, and its inputs: the variables that are not parameters."""
    values = network.values()
    feeds = {name: values.pop(name) for name in list(values) if name in ("data", "ids", "lhs")}
    return _model(network.nodes, feeds, values).SerializeToString(), feeds


def _model(nodes: list[Node], feeds: dict[str, np.ndarray], values: dict[str, np.ndarray]) -> Any:
    made: list[Any] = []
    for node in nodes:
        if node.op == "null":
            continue
        if node.op not in OPERATORS:
            raise LookupError(f"the table has no {node.op}")
        inputs = [nodes[i].name if nodes[i].op == "null" else f"{nodes[i].name}_{part}"
                  for i, part in node.inputs]
        if node.op == "BatchNorm" and node.attrs.get("fix_gamma", True):
            values[inputs[1]] = np.ones_like(values[inputs[1]])
        made += OPERATORS[node.op](inputs, f"{node.name}_0", node.attrs, values)
    used = {name for node in made for name in node.input}
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        made, "network",
        [helper.make_tensor_value_info(name, floats, a.shape) for name, a in feeds.items()],
        [helper.make_tensor_value_info(made[-1].output[0], floats, None)],
        [numpy_helper.from_array(a, name) for name, a in values.items() if name in used])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


Write = Callable[[list[str], str, dict[str, Any], dict[str, np.ndarray]], list[Any]]


def _one(kind: str, **fixed: Any) -> Write:
    """An operator that ONNX has, without parameters other than `fixed`."""
    return lambda ins, out, a, values: [helper.make_node(kind, ins, [out], **fixed)]


def _window(a: dict[str, Any]) -> dict[str, Any]:
    return {"kernel_shape": a["kernel"], "strides": a.get("stride") or (1, 1),
            "pads": tuple(a.get("pad") or (0, 0)) * 2}


def _convolution(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
    return [helper.make_node("Conv", ins, [out], group=a.get("num_group", 1),
                             dilations=a.get("dilate") or (1, 1), **_window(a))]


def _pooling(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
    kind = "Average" if a.get("pool_type") == "avg" else "Max"
    if a.get("global_pool"):
        return [helper.make_node(f"Global{kind}Pool", ins, [out])]
    more = {"count_include_pad": 1} if kind == "Average" else {}
    return [helper.make_node(f"{kind}Pool", ins, [out], **_window(a), **more)]


def _dense(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
    return [helper.make_node("Flatten", ins[:1], [f"{out}_flat"]),
            helper.make_node("Gemm", [f"{out}_flat", *ins[1:]], [out], transB=1)]


def _activation(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
    return [helper.make_node(str(a["act_type"]).title(), ins, [out])]


def _embedding(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
    return [helper.make_node("Cast", ins[:1], [f"{out}_ids"], to=TensorProto.INT64),
            helper.make_node("Gather", [ins[1], f"{out}_ids"], [out])]


def _sum(ins: list[str], out: str, a: dict[str, Any], values: dict[str, np.ndarray]) -> list[Any]:
    values[f"{out}_axes"] = np.array([a["axis"]]).ravel()
    return [helper.make_node("ReduceSum", [*ins, f"{out}_axes"], [out],
                             keepdims=int(a.get("keepdims", False)))]


def _reshape(ins: list[str], out: str, a: dict[str, Any], values: dict[str, np.ndarray]
             ) -> list[Any]:
    values[f"{out}_shape"] = np.array(a["shape"], np.int64)
    return [helper.make_node("Reshape", [*ins, f"{out}_shape"], [out])]


def _product(axes: list[int]) -> Write:
    """The product of two matrices, or stacks of them, transposed by `axes`."""
    def write(ins: list[str], out: str, a: dict[str, Any], values: Any) -> list[Any]:
        flags = [key for key in ("transpose_a", "transpose_b") if a.get(key)]
        names = dict(zip(("transpose_a", "transpose_b"), ins, strict=True))
        nodes = [helper.make_node("Transpose", [names[key]], [f"{out}_{key}"], perm=axes)
                 for key in flags]
        names.update({key: f"{out}_{key}" for key in flags})
        return [*nodes, helper.make_node("MatMul", list(names.values()), [out])]

    return write


OPERATORS: dict[str, Write] = {
    "Convolution": _convolution, "Pooling": _pooling, "FullyConnected": _dense,
    "Activation": _activation, "Embedding": _embedding, "sum": _sum, "Reshape": _reshape,
    "BatchNorm": lambda ins, out, a, values: [helper.make_node(
        "BatchNormalization", ins, [out], epsilon=a.get("eps", 1e-3))],
    "SoftmaxOutput": lambda ins, out, a, values: [helper.make_node(
        "Softmax", ins[:1], [out], axis=1)],
    "softmax": lambda ins, out, a, values: [helper.make_node(
        "Softmax", ins, [out], axis=a.get("axis", -1))],
    "Flatten": _one("Flatten"), "Dropout": _one("Identity"),
    "Concat": lambda ins, out, a, values: [helper.make_node(
        "Concat", ins, [out], axis=a.get("dim", 1))],
    "elemwise_add": _one("Add"), "_Plus": _one("Add"), "_plus": _one("Add"),
    "broadcast_add": _one("Add"), "elemwise_mul": _one("Mul"), "_mul": _one("Mul"),
    "tanh": _one("Tanh"), "sigmoid": _one("Sigmoid"), "exp": _one("Exp"), "relu": _one("Relu"),
    "dot": _product([1, 0]), "batch_dot": _product([0, 2, 1]),
}
