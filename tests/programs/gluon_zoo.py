"""The model zoo: texts, parameters and graphs; files, outputs, gradients and a training step.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Case = tuple[str, dict[str, Any]]

_BLOCK = {"channels": 8, "stride": 2, "downsample": True, "in_channels": 4, "prefix": "block_"}

NETWORKS: tuple[Case, ...] = (
    ("resnet18_v1", {"thumbnail": True, "classes": 7}),
    ("resnet50_v2", {"thumbnail": True, "prefix": ""}),
    ("DenseNet", {"num_init_features": 6, "growth_rate": 3, "block_config": [2, 1], "bn_size": 2,
                  "dropout": 0.25}),
    ("MobileNet", {"multiplier": 0.3}),
    ("MobileNetV2", {"multiplier": 1.4, "classes": 3}),
    ("VGG", {"layers": [1, 2], "filters": [3, 4], "batch_norm": True}),
    ("inception.make_aux", {"classes": 3}),
    ("mobilenet.LinearBottleneck", {"in_channels": 4, "channels": 4, "t": 2, "stride": 1}),
    ("mobilenet.RELU6", {}),
    ("densenet._make_dense_block", {"num_layers": 2, "bn_size": 2, "growth_rate": 3,
                                    "dropout": 0.5, "stage_index": 4}),
    ("densenet._make_dense_layer", {"growth_rate": 3, "bn_size": 2, "dropout": 0}),
    ("densenet._make_transition", {"num_output_features": 6}),
    *((name, {**_BLOCK, **more})
      for name in ("BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2")
      for more in ({}, {"stride": 1, "downsample": False, "prefix": None})))
"""Beside every function of the zoo: other arguments, and the blocks that networks consist of."""

SMALL: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("AlexNet", {"classes": 7}, 64),
    ("DenseNet", {"num_init_features": 4, "growth_rate": 3, "block_config": [2, 1], "bn_size": 2,
                  "classes": 3}, 56),
    ("Inception3", {"classes": 7}, 299),
    ("MobileNet", {"multiplier": 0.125, "classes": 3}, 32),
    ("MobileNetV2", {"multiplier": 0.25, "classes": 3}, 32),
    ("ResNetV1", {"block": "BottleneckV1", "layers": [1, 2], "channels": [4, 8, 16],
                  "classes": 3, "thumbnail": True}, 16),
    ("ResNetV2", {"block": "BasicBlockV2", "layers": [2, 1], "channels": [4, 4, 8],
                  "classes": 3}, 16),
    ("SqueezeNet", {"version": "1.1", "classes": 48}, 224),
    ("VGG", {"layers": [1, 1], "filters": [16, 32], "classes": 3, "batch_norm": True}, 16))
"""One of each family, and the height and width of its images."""


def make(mx: Any, name: str, arguments: dict[str, Any]) -> Any:
    """The network of a case, whose names do not depend on those that were made before."""
    vision = mx.gluon.model_zoo.vision
    if isinstance(arguments.get("block"), str):
        arguments = {**arguments, "block": getattr(vision, arguments["block"])}
    module, _, function = name.rpartition(".")
    with mx.name.NameManager():
        return getattr(getattr(vision, module) if module else vision, function)(**arguments)


def describe(mx: Any, case: Case) -> dict[str, Any]:
    """All that is known of a network before it has values."""
    net = make(mx, *case)
    with mx.name.NameManager():
        graph = json.loads(net(mx.sym.var("data")).tojson())
    del graph["node_row_ptr"]     # counts outputs of operators
    return {"name": net.name, "repr": repr(net), "graph": graph,
            "paths": {path: each.name for path, each in net._collect_params_with_prefix().items()},
            "requests": {each.name: each.grad_req for each in net.collect_params().values()}}


def all_descriptions(mx: Any, cases: list[Case]) -> list[dict[str, Any]]:
    """Those of cases."""
    return [describe(mx, case) for case in cases]


@contextmanager
def narrow(mx: Any) -> Iterator[None]:
    """Divide the sizes of AlexNet, Inception, SqueezeNet and VGG, whose arguments do not."""
    nn = mx.gluon.nn
    dense, convolution = nn.Dense, nn.Conv2D
    nn.Dense = lambda units, *args, **kwargs: dense(units // 128 or units, *args, **kwargs)
    nn.Conv2D = lambda channels, *args, **kwargs: convolution(channels // 8, *args, **kwargs)
    try:
        yield
    finally:
        nn.Dense, nn.Conv2D = dense, convolution


def make_small(mx: Any, number: int) -> Any:
    """One of the small networks."""
    name, arguments, _ = SMALL[number]
    arguments = {**arguments, "prefix": "net_"}
    if name in ("AlexNet", "Inception3", "SqueezeNet", "VGG"):
        with narrow(mx):
            return make(mx, name, arguments)
    return make(mx, name, arguments)


def data_of(mx: Any, number: int) -> Any:
    """Two images for one of the small networks."""
    size = SMALL[number][2]
    return mx.nd.array(np.random.default_rng(number).standard_normal((2, 3, size, size)),
                       dtype="float32")


def write(mx: Any, number: int, path: str) -> np.ndarray:
    """The output of a network, after all of its files are written."""
    net = make_small(mx, number)
    mx.random.seed(number)
    net.initialize(mx.init.Xavier("gaussian", "in", 2))    # which keeps the size of values
    net.hybridize()
    output = net(data_of(mx, number)).asnumpy()
    net.save_parameters(f"{path}.params")
    net.export(path)
    return output


def read(mx: Any, number: int, path: str) -> list[np.ndarray]:
    """Outputs of networks that are read from these files: by path, by name, and of the graph."""
    data = data_of(mx, number)
    by_path, by_name = make_small(mx, number), make_small(mx, number)
    by_path.load_parameters(f"{path}.params")
    by_name.collect_params().load(f"{path}-0000.params")
    graph = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    return [net(data).asnumpy() for net in (by_path, by_name, graph)]


def learn(mx: Any, number: int, path: str) -> dict[str, Any]:
    """Gradients and parameters after a training step from the values of a file."""
    net = make_small(mx, number)
    net.load_parameters(f"{path}.params")
    net.apply(lambda block: steady(block, SMALL[number][0] != "ResNetV2"))
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "wd": 0.1})
    with mx.autograd.record():
        value = mx.nd.square(net(data_of(mx, number))).sum()
    value.backward()
    trainer.step(2)
    parameters = net.collect_params()
    return {"gradients": {name: each.grad().asnumpy() for name, each in parameters.items()
                          if each.grad_req != "null"},
            "values": {name: each.data().asnumpy() for name, each in parameters.items()}}


def steady(block: Any, has_fixed_statistics: bool) -> None:
    """Let dropout draw nothing, and fix statistics where those of two images amplify rounding."""
    kind = type(block).__name__
    if kind == "Dropout":
        block._rate = 0
    elif kind == "BatchNorm":
        block._kwargs["use_global_stats"] = has_fixed_statistics


def write_all(mx: Any, folder: str) -> list[np.ndarray]:
    """`write` for all small networks."""
    return [write(mx, number, f"{folder}/{name}") for number, (name, *_) in enumerate(SMALL)]


def read_all(mx: Any, folder: str) -> list[list[np.ndarray]]:
    """`read` for all small networks."""
    return [read(mx, number, f"{folder}/{name}") for number, (name, *_) in enumerate(SMALL)]


def learn_all(mx: Any, folder: str) -> dict[str, Any]:
    """`learn` for all small networks but Inception, whose many ReLUs switch by rounding."""
    return {name: learn(mx, number, f"{folder}/{name}")
            for number, (name, *_) in enumerate(SMALL) if name != "Inception3"}


def cast_types(mx: Any) -> list[dict[str, str]]:
    """Element types of the parameters of all small networks after `cast`."""
    found = []
    for number in range(len(SMALL)):
        net = make_small(mx, number)
        net.cast("float16")
        found.append({name: np.dtype(each.dtype).name
                      for name, each in net.collect_params().items()})
    return found
