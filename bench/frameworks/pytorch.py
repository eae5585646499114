"""PyTorch in eager mode: its version of each operator, in the faster of its two layouts.

A ReLU runs in place where nothing else reads its input, as in PyTorch's own networks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .network import SGD, Built, Network, Node

__all__ = ["build", "vector_bits", "version"]

Call = Callable[..., Any]
DEVICES = {"cpu": "cpu", "gpu": "cuda"}
LAYOUTS = {"NCHW": torch.contiguous_format, "channels last": torch.channels_last}


def version() -> str:
    return torch.__version__


def vector_bits() -> int:
    return {"AVX2": 256, "AVX512": 512}.get(torch.backends.cpu.get_cpu_capability(), 128)


def build(network: Network, compiled: Callable[[Call], Call] = lambda forward: forward) -> Built:
    """The faster of two layouts for images; `compiled` makes the forward pass another one."""
    torch.set_num_threads(network.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = network.tf32
    images = any(node.op == "Convolution" for node in network.nodes)
    built = [_complete(_built(network, name, compiled), network.device)
             for name in (LAYOUTS if images else ["NCHW"])]
    return min(built, key=lambda one: _seconds(one.step)) if images else built[0]._replace(note="")


def _complete(built: Built, device: str) -> Built:
    """Steps that synchronize with the device."""
    def step() -> None:
        built.step()
        torch.cuda.synchronize()

    return built if device == "cpu" else built._replace(step=step)


def _seconds(step: Call) -> float:
    """Seconds of the second run."""
    step()
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def _built(network: Network, layout: str, compiled: Callable[[Call], Call]) -> Built:
    nodes, tensors = network.nodes, {}
    for name, value in network.values().items():
        tensor = torch.from_numpy(value).to(DEVICES[network.device])
        if tensor.ndim == 4:
            tensor = tensor.contiguous(memory_format=LAYOUTS[layout])
        tensors[name] = tensor.requires_grad_(network.training and name in network.wanted)
    readers = Counter(place for node in nodes for place in node.inputs)
    calls = [None if node.op == "null" else (
        _call(node, network, tensors, nodes[node.inputs[0][0]].op != "null"
              and readers[node.inputs[0]] == 1), node.inputs) for node in nodes]
    start = [tensors.get(node.name) if node.op == "null" else None for node in nodes]
    leaves = [tensor for tensor in tensors.values() if tensor.requires_grad]
    leaves += [tensor for called in calls if called for tensor in getattr(called[0], "owned", ())]
    optimizer = torch.optim.SGD(leaves, SGD["learning_rate"], SGD["momentum"],
                                weight_decay=SGD["wd"]) if network.updates else None

    def forward() -> Any:
        values: list[Any] = list(start)
        for number, called in enumerate(calls):
            if called is not None:
                call, inputs = called
                values[number] = call(*[
                    values[i][part] if isinstance(values[i], tuple) else values[i]
                    for i, part in inputs])
        return values[-1][0] if isinstance(values[-1], tuple) else values[-1]

    last: list[Any] = []
    run = compiled(forward)

    def infer() -> None:
        with torch.inference_mode():
            last[:] = [run()]

    def train() -> None:
        for leaf in leaves:
            leaf.grad = None
        output = run()
        output.backward(None if output.ndim == 0 else torch.ones_like(output))
        if optimizer:
            optimizer.step()

    return Built(train if network.training else infer,
                 lambda: last[0].contiguous().cpu().numpy(), layout)


def _call(node: Node, network: Network, tensors: dict[str, Any], alone: bool) -> Call:
    """The function of a node's inputs."""
    if node.op not in OPERATORS:
        raise LookupError(f"PyTorch's table has no {node.op}")
    attrs = node.attrs | {"alone": alone, "training": network.training}
    if node.op == "RNN":
        attrs["flat"] = next(tensors[name] for name in tensors if name.endswith("_parameters"))
    return OPERATORS[node.op](attrs)


def _convolution(a: dict[str, Any]) -> Call:
    stride, pad, dilate = (a.get(key) or default for key, default in
                           (("stride", (1, 1)), ("pad", (0, 0)), ("dilate", (1, 1))))
    groups = a.get("num_group", 1)
    return lambda x, w, b=None: F.conv2d(x, w, b, stride, pad, dilate, groups)


def _batch_norm(a: dict[str, Any]) -> Call:
    training, eps, momentum = a["training"], a.get("eps", 1e-3), 1 - a.get("momentum", 0.9)
    fixed = a.get("fix_gamma", True)
    return lambda x, gamma, beta, mean, var: F.batch_norm(
        x, mean, var, None if fixed else gamma, beta, training, momentum, eps)


def _activation(a: dict[str, Any]) -> Call:
    if a["act_type"] == "relu":
        return lambda x: F.relu(x, inplace=a["alone"])
    return {"tanh": torch.tanh, "sigmoid": torch.sigmoid}[a["act_type"]]


def _pooling(a: dict[str, Any]) -> Call:
    average = a.get("pool_type") == "avg"
    if a.get("global_pool"):
        return lambda x: (F.adaptive_avg_pool2d if average else F.adaptive_max_pool2d)(x, 1)
    kernel, stride, pad = a["kernel"], a.get("stride", (1, 1)), a.get("pad", (0, 0))
    pool = F.avg_pool2d if average else F.max_pool2d
    return lambda x: pool(x, kernel, stride, pad)


def _dense(a: dict[str, Any]) -> Call:
    if a.get("flatten", True):
        return lambda x, w, b=None: F.linear(x.flatten(1) if x.ndim > 2 else x, w, b)
    return F.linear


def _softmax_output(a: dict[str, Any]) -> Call:
    if a["training"]:
        return lambda x, label: F.cross_entropy(x, label.flatten().long(), reduction="sum")
    return lambda x, label: F.softmax(x, 1)


def _reshape(a: dict[str, Any]) -> Call:
    return lambda x: x.reshape([x.shape[i] if size == 0 else size
                                for i, size in enumerate(a["shape"])])


def _rnn(a: dict[str, Any]) -> Call:
    """The parameter vector is split: weights of all layers, then their biases."""
    flat, hidden, layers = a["flat"].detach(), a["state_size"], a["num_layers"]
    gates = {"lstm": 4, "gru": 3}[a["mode"]]
    rest = flat.numel() // (gates * hidden) - (layers - 1) * 2 * hidden - 2 * layers - hidden
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[a["mode"]]
    layer = kind(rest, hidden, layers).to(flat.device)
    parts, place = layer.state_dict(), 0
    for name in sorted(parts, key=lambda name: name.startswith("bias")):  # a stable order
        size = parts[name].numel()
        parts[name].copy_(flat[place:place + size].reshape(parts[name].shape))
        place += size
    if not a["training"]:
        layer.requires_grad_(False)

    def call(x: Any, parameters: Any, *state: Any) -> Any:
        return layer(x, state if len(state) > 1 else state[0])[0]

    call.owned = list(layer.parameters()) if a["training"] else []  # type: ignore[attr-defined]
    return call


def _product(a: dict[str, Any]) -> Call:
    left, right = a.get("transpose_a", False), a.get("transpose_b", False)
    return lambda x, y: torch.matmul(x.mT if left else x, y.mT if right else y)


def _function(function: Call) -> Callable[[dict[str, Any]], Call]:
    """An operator without parameters."""
    return lambda a: function


OPERATORS: dict[str, Callable[[dict[str, Any]], Call]] = {
    "Convolution": _convolution, "BatchNorm": _batch_norm, "Activation": _activation,
    "Pooling": _pooling, "FullyConnected": _dense, "SoftmaxOutput": _softmax_output,
    "Reshape": _reshape, "RNN": _rnn,
    "Flatten": _function(lambda x: x.flatten(1)),
    "Dropout": lambda a: lambda x: F.dropout(x, a.get("p", 0.5), a["training"]),
    "Embedding": _function(lambda ids, weight: F.embedding(ids.long(), weight)),
    "Concat": lambda a: lambda *x: torch.cat(x, a.get("dim", 1)),
    "SliceChannel": lambda a: lambda x: tuple(
        part.squeeze(a.get("axis", 1)) if a.get("squeeze_axis") else part
        for part in x.chunk(a["num_outputs"], a.get("axis", 1))),
    "transpose": lambda a: lambda x: x.permute(a.get("axes") or list(range(x.ndim))[::-1]),
    "sum": lambda a: lambda x: x.sum(a["axis"], keepdim=a.get("keepdims", False)),
    "mean": lambda a: lambda x: x.mean(a["axis"], keepdim=a.get("keepdims", False)),
    "softmax": lambda a: lambda x: F.softmax(x, a.get("axis", -1)),
    "log_softmax": lambda a: lambda x: F.log_softmax(x, a.get("axis", -1)),
    "LayerNorm": lambda a: lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, a.get("eps", 1e-5)),
    "InstanceNorm": lambda a: lambda x, g, b: F.instance_norm(
        x, weight=g, bias=b, eps=a.get("eps", 1e-3)),
    "GroupNorm": lambda a: lambda x, g, b: F.group_norm(  # one factor for each group
        x, len(g), g.repeat_interleave(x.shape[1] // len(g)),
        b.repeat_interleave(x.shape[1] // len(b)), a.get("eps", 1e-5)),
    "_copy": _function(torch.clone),
    "tanh": _function(torch.tanh), "sigmoid": _function(torch.sigmoid),
    "exp": _function(torch.exp), "relu": _function(torch.relu),
    "elemwise_add": _function(torch.add), "_Plus": _function(torch.add),
    "_plus": _function(torch.add), "broadcast_add": _function(torch.add),
    "elemwise_mul": _function(torch.mul), "_mul": _function(torch.mul),
    "_rminus_scalar": lambda a: lambda x: a["scalar"] - x,
    "dot": _product, "batch_dot": _product,
}
