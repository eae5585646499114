"""Layers of Gluon: of every case the text, parameters, graph, and values from equal weights.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[tuple[int, ...], ...]]

IMAGES, VOLUMES, ROWS = (2, 4, 9, 8), (2, 4, 6, 5, 6), (2, 4, 9)

CASES: tuple[Case, ...] = (
    ("Dense", (3,), {}, ((2, 5),)),
    ("Dense", (3,), {"activation": "relu", "use_bias": False}, ((2, 3, 4),)),
    ("Dense", (3, "tanh"), {"flatten": False, "in_units": 4}, ((2, 3, 4),)),
    ("Dense", (3,), {"weight_initializer": "normal", "bias_initializer": "ones", "prefix": "fc_"},
     ((2, 5),)),
    ("Dropout", (0.5,), {}, ((2, 5),)),
    ("Dropout", (0.25, (1,)), {}, ((2, 5, 3),)),
    ("Dropout", (0,), {}, ((2, 5),)),
    ("BatchNorm", (), {}, (IMAGES,)),
    ("BatchNorm", (-1, 0.8, 1e-3), {"scale": False, "in_channels": 8}, (IMAGES,)),
    ("BatchNorm", (), {"center": False, "use_global_stats": True}, ((3, 4),)),
    ("BatchNormReLU", (), {}, (IMAGES,)),
    ("BatchNormReLU", (), {"axis": 3, "scale": False}, (IMAGES,)),
    ("InstanceNorm", (), {}, (IMAGES,)),
    ("InstanceNorm", (), {"axis": 2, "epsilon": 1e-3, "scale": True, "center": False}, (IMAGES,)),
    ("InstanceNorm", (), {"scale": True, "in_channels": 4}, (ROWS,)),
    ("LayerNorm", (), {}, ((2, 3, 4),)),
    ("LayerNorm", (), {"axis": 1, "center": False, "scale": False, "in_channels": 3},
     ((2, 3, 4),)),
    ("GroupNorm", (), {}, (IMAGES,)),
    ("GroupNorm", (2,), {"epsilon": 1e-3, "center": False, "scale": False}, (IMAGES,)),
    ("Embedding", (7, 3), {}, ((2, 5),)),
    ("Embedding", (7, 3, "float32", "ones"), {"sparse_grad": True}, ((2, 5),)),
    ("Flatten", (), {}, ((2, 3, 4),)),
    ("HybridLambda", ("tanh",), {}, ((2, 3),)),
    ("HybridLambda", ("broadcast_add",), {"prefix": "sum_"}, ((2, 3), (1, 3))),
    ("Activation", ("relu",), {}, ((2, 3),)),
    ("Activation", ("softrelu",), {}, ((2, 3),)),
    ("Activation", ("softsign",), {"prefix": "act_"}, ((2, 3),)),
    ("LeakyReLU", (0.1,), {}, ((2, 3),)),
    ("PReLU", (), {}, ((2, 3),)),
    ("PReLU", ("ones", 3), {}, ((2, 3),)),
    ("ELU", (), {}, ((2, 3),)),
    ("ELU", (0.5,), {}, ((2, 3),)),
    ("SELU", (), {}, ((2, 3),)),
    ("GELU", (), {}, ((2, 3),)),
    ("Swish", (), {}, ((2, 3),)),
    ("Swish", (0.5,), {}, ((2, 3),)),
    ("ReflectionPad2D", (), {}, (IMAGES,)),
    ("ReflectionPad2D", (2,), {}, (IMAGES,)),
    ("ReflectionPad2D", ((0, 0, 0, 0, 1, 2, 3, 1),), {}, (IMAGES,)),
    ("Conv1D", (3, 2), {}, (ROWS,)),
    ("Conv1D", (6, 3, 2, 1, 2, 2), {"activation": "relu", "use_bias": False, "in_channels": 4},
     (ROWS,)),
    ("Conv2D", (3, 3), {}, (IMAGES,)),
    ("Conv2D", (3,), {"kernel_size": (3, 2), "strides": (2, 1), "padding": (1, 0),
                      "use_bias": False, "prefix": "stem_"}, (IMAGES,)),
    ("Conv2D", (4, 3), {"groups": 2, "dilation": 2, "padding": 1, "activation": "sigmoid",
                        "weight_initializer": "normal", "bias_initializer": "ones"}, (IMAGES,)),
    ("Conv3D", (3, 3), {}, (VOLUMES,)),
    ("Conv3D", (3, (2, 2, 2), (2, 1, 2), (1, 0, 1)), {"activation": "tanh"}, (VOLUMES,)),
    ("Conv1DTranspose", (3, 3), {}, (ROWS,)),
    ("Conv1DTranspose", (3, 3, 2, 1, 1), {"in_channels": 4, "activation": "relu"}, (ROWS,)),
    ("Conv2DTranspose", (3, 3), {}, (IMAGES,)),
    ("Conv2DTranspose", (6, (3, 4), (2, 3), (1, 1), (1, 0)), {"groups": 2, "use_bias": False,
                                                               "in_channels": 4}, (IMAGES,)),
    ("Conv2D", (4, 3), {"layout": "NHWC", "groups": 2, "in_channels": 6}, ((2, 9, 8, 6),)),
    ("Conv3D", (4, 3), {"layout": "NDHWC"}, ((2, 5, 6, 5, 4),)),
    ("Conv2DTranspose", (4, 3), {"layout": "NHWC"}, ((2, 9, 8, 6),)),
    ("MaxPool2D", (), {"layout": "NHWC"}, ((2, 9, 8, 6),)),
    ("GlobalAvgPool3D", (), {"layout": "NDHWC"}, ((2, 5, 6, 5, 4),)),
    ("Conv3DTranspose", (3, 2), {}, (VOLUMES,)),
    ("Conv3DTranspose", (3, (2, 3, 2), (2, 2, 1), (0, 1, 0), (1, 1, 0)), {"in_channels": 4},
     (VOLUMES,)),
    *((f"{kind}Pool{rank}D", arguments, settings, (shape,))
      for kind in ("Max", "Avg") for rank, shape in ((1, ROWS), (2, IMAGES), (3, VOLUMES))
      for arguments, settings in (
          ((), {}), ((3, 2, 1), {}),
          (((3, 2, 4)[:rank], (2, 1, 2)[:rank], (1, 0, 1)[:rank]), {"ceil_mode": True}))),
    *((f"AvgPool{rank}D", (3, 2, 1), {"count_include_pad": False, "prefix": "p_"}, (shape,))
      for rank, shape in ((1, ROWS), (2, IMAGES), (3, VOLUMES))),
    *((f"Global{kind}Pool{rank}D", (), {}, (shape,)) for kind in ("Max", "Avg")
      for rank, shape in ((1, ROWS), (2, IMAGES), (3, VOLUMES))),
)
"""(class, arguments, keywords, shapes of the inputs)."""


UNTRAINED = ("Dropout", "ModulatedDeformableConvolution")
"""Layers that draw in training, or that MXNet does not train on a CPU."""


def describe(mx: Any, case: Case, layers: Any = None) -> dict[str, Any]:
    """Texts, parameters and graph of a layer: all that is known before it has values.

    `layers` is the module of the class, `gluon.nn` by default.
    """
    name, args, kwargs, shapes = case
    with mx.name.NameManager():
        layer = getattr(layers or mx.gluon.nn, name)(*args, **kwargs)
        data = [mx.sym.var(f"x{index}") for index in range(len(shapes))]
        graph = layer(*data)
    written = json.loads(graph.tojson())
    del written["node_row_ptr"]     # counts outputs of operators
    return {"name": layer.name, "prefix": layer.prefix, "repr": repr(layer), "graph": written,
            "parameters": parameters(layer), "keys": sorted(layer._collect_params_with_prefix())}


def parameters(block: Any) -> list[dict[str, Any]]:
    """Facts about each parameter of a block, in order."""
    return [{"name": each.name, "shape": tuple(each.shape), "dtype": str(np.dtype(each.dtype)),
             "grad_req": each.grad_req, "grad_stype": each._grad_stype,
             "attributes": with_tuple(dict(each.var().list_attr()))}
            for each in block.collect_params().values()]


def with_tuple(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes with a shape that is no list, which MXNet makes of some."""
    text = attributes.get("__shape__", "")
    return {**attributes, "__shape__": f"({text[1:-1]})"} if text.startswith("[") else attributes


def answers(mx: Any, case: Case, hybridized: bool = False, layers: Any = None
            ) -> dict[str, Any]:
    """Values, gradients and changed statistics from weights that depend on nothing but shapes."""
    name, args, kwargs, shapes = case
    with mx.name.NameManager():
        layer = getattr(layers or mx.gluon.nn, name)(*args, **kwargs)
    layer.initialize()
    if hybridized:
        layer.hybridize()
    integers = name == "Embedding"
    inputs = [mx.nd.array(numbers(shape, index, integers)) for index, shape in enumerate(shapes)]
    layer(*inputs)
    found = {"repr": repr(layer), "parameters": parameters(layer)}
    for index, each in enumerate(layer.collect_params().values()):
        each.set_data(mx.nd.array(numbers(each.shape, 9 + index, positive="var" in each.name)))
    found["predicted"] = layer(*inputs).asnumpy()
    if name in UNTRAINED:
        return found
    for each in inputs if not integers else ():
        each.attach_grad()
    with mx.autograd.record():
        output = layer(*inputs)
    output.backward(mx.nd.array(numbers(output.shape, 5)))
    known = layer.collect_params().values()
    return {**found, "output": output.asnumpy(),
            "inputs": [each.grad.asnumpy() for each in inputs if not integers],
            "gradients": {each.name: each.grad().asnumpy() for each in known
                          if each.grad_req != "null"},
            "states": {each.name: each.data().asnumpy() for each in known
                       if each.grad_req == "null"}}


def all_descriptions(mx: Any) -> list[dict[str, Any]]:
    """`describe` of all cases."""
    return [describe(mx, case) for case in CASES]


def all_answers(mx: Any) -> list[dict[str, Any] | None]:
    """`answers` of all cases; None where MXNet has no kernel for a CPU."""
    found: list[dict[str, Any] | None] = []
    for case in CASES:
        try:
            found.append(answers(mx, case))
        except mx.MXNetError as error:
            if "descriptor" not in str(error) and "MKL-DNN" not in str(error):
                raise
            found.append(None)
    return found


def numbers(shape: tuple[int, ...], seed: int, integers: bool = False, positive: bool = False
            ) -> np.ndarray:
    """Drawn numbers of a shape."""
    rng = np.random.default_rng(seed)
    if integers:
        return rng.integers(0, 7, shape).astype(np.float32)
    drawn = rng.standard_normal(shape)
    return (np.abs(drawn) + 0.5 if positive else drawn).astype(np.float32)


def weight_shapes(mx: Any) -> list[list[tuple[int, ...]]]:
    """What convolutions of other projects ask for their operators."""
    options = {"kernel": (3, 2), "num_filter": 4, "num_group": 1, "no_bias": False}
    ask = mx.gluon.nn.conv_layers._infer_weight_shape
    return [[*map(tuple, ask(op, shape, options))] for op in ("Convolution", "Deconvolution")
            for shape in ((1, 3, 8, 8), (0, 3, 0, 0), (0, 0, 0, 0))]
