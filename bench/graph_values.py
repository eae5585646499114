"""Values of real graphs: shapes of their inputs that fit, weights that keep values moderate."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import numpy as np

__all__ = ["Arrays", "Shapes", "draw_values", "known_shapes", "lightened", "readers", "statistics"]

Arrays = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]

SIZES = (96, 64, 128, 224, 299, 300, 331)
CLIPS = ((1, 3, 8, 64, 64), (1, 3, 16, 112, 112), (1, 3, 16, 224, 224), (1, 3, 32, 224, 224),
         (1, 3, 64, 112, 112), (1, 3, 64, 224, 224), (1, 3, 80, 224, 224))  # fmt: skip
IMAGES = tuple((batch, channels, size, size) for batch in (2, 1) for channels in (3, 12, 6)
               for size in SIZES)  # fmt: skip
CANDIDATES = (*IMAGES, *CLIPS, (1, 3, 480, 480), (1, 3, 512, 512), (1, 3, 768, 768),
              (1, 3, 1024, 1024), (2, 3, 32, 32), (2, 1, 28, 28), (4, 5), (4, 35), (35, 4),
              (2, 784))  # fmt: skip


def lightened(text: str) -> str:
    """The graph with dropout disabled, and with 20 proposals instead of 1000."""
    graph = json.loads(text)
    regions = any("ROI" in node["op"] for node in graph["nodes"])
    for node in graph["nodes"]:
        attrs = node.get("attrs", {})
        if node["op"] in ("Dropout", "RNN"):
            attrs["p"] = "0"
        if "rpn_post_nms_top_n" in attrs:
            attrs["rpn_post_nms_top_n"] = "20"
        if regions and node["op"] != "null":
            node["attrs"] = {key: re.sub(r"\b1000\b", "20", value) for key, value in attrs.items()}
    return json.dumps(graph)


def statistics(text: str) -> tuple[str, list[dict[str, Any]]]:
    """A graph whose outputs are mean and 1 / deviation of every BatchNorm's batch, and these."""
    graph = json.loads(text)
    numbered = [(i, node) for i, node in enumerate(graph["nodes"]) if "BatchNorm" in node["op"]]
    for _, node in numbered:
        node.setdefault("attrs", {})["use_global_stats"] = "False"
    graph["heads"] = [[i, output, 0] for i, _ in numbered for output in (1, 2)]
    names = [{"eps": float(node["attrs"].get("eps", 1e-3)),
              "aux": [graph["nodes"][i]["name"] for i, *_ in node["inputs"][3:5]]}
             for _, node in numbered]  # fmt: skip
    return json.dumps(graph), names


def known_shapes(symbol: Any, error: type[Exception]) -> Shapes:
    """Shapes of the inputs from which all others follow: the first of CANDIDATES that fits."""
    names = set(symbol.list_inputs())
    for shape, label in product(CANDIDATES, (("softmax_label",), ())):
        known = {"data": shape, "data0": shape, "label": (shape[0], 8, 5),
                 "im_info": (shape[0], 3), **dict.fromkeys(label, shape)}  # fmt: skip
        known = {name: dims for name, dims in known.items() if name in names}
        try:
            arguments, outputs, aux = symbol.get_internals().infer_shape(**known)
        except error:
            continue
        if arguments is not None and all(np.prod(s) > 0 for s in (*arguments, *outputs, *aux)):
            return known
    raise ValueError("no candidate shape fits")


def readers(text: str) -> dict[str, tuple[dict[str, Any], int]]:
    """For every variable the first node that reads it, and as which input."""
    nodes = json.loads(text)["nodes"]
    found: dict[str, tuple[dict[str, Any], int]] = {}
    for node in nodes:
        for position, (index, *_) in enumerate(node["inputs"]):
            if nodes[index]["op"] == "null":
                found.setdefault(nodes[index]["name"], (node, position))
    return found


def draw_values(symbol: Any, text: str, known: Shapes, seed: int = 0) -> Arrays:
    """Values of all arguments and auxiliary states, by name."""
    rng = np.random.default_rng(seed)
    arguments, _, aux = symbol.infer_shape(**known)
    named = dict(zip(symbol.list_arguments(), arguments, strict=True))
    named |= dict(zip(symbol.list_auxiliary_states(), aux, strict=True))
    reader = readers(text)
    size = max(known["data"][2:], default=1)
    return {name: np.asarray(_value(rng, name, shape, *reader[name], size), np.float32)
            for name, shape in named.items()}  # fmt: skip


def _value(rng: np.random.Generator, name: str, shape: tuple[int, ...], reader: dict[str, Any],
           position: int, size: int) -> Any:  # fmt: skip
    op, attrs = reader["op"], reader.get("attrs", {})
    if op == "Embedding" and position == 0:
        return rng.integers(0, int(attrs["input_dim"]), shape)
    if name == "label":
        corners = rng.uniform(0, 0.5, (*shape[:2], 2))
        return np.concatenate([rng.integers(0, 3, (*shape[:2], 1)), corners, corners + 0.4], 2)
    if name.endswith("label"):
        return rng.integers(0, 2, shape)
    if name == "im_info":
        return np.tile([size, size, 1.0], (shape[0], 1))
    if "anchor" in name and shape[-1] % 4 == 0:
        corners = rng.uniform(0, 0.7 * size, (int(np.prod(shape)) // 4, 2))
        return np.concatenate([corners, corners + rng.uniform(8, size, corners.shape)], 1
                              ).reshape(shape)  # fmt: skip
    if "anchor" in name or name.endswith(("scale", "gamma", "var")):
        return rng.uniform(0.5, 1.5, shape)
    if op in ("Convolution", "FullyConnected", "Deconvolution") and position == 1:
        inward = np.prod(shape[1:]) if op != "Deconvolution" else shape[0]
        return rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / inward))
    if op == "RNN":
        return rng.uniform(-0.1, 0.1, shape)
    if op == "LeakyReLU" and position == 1:
        return rng.uniform(0.1, 0.4, shape)
    return rng.standard_normal(shape, np.float32) * np.float32(0.1 if position else 1)
