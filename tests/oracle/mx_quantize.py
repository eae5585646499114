"""Runs in the MXNet worker: small networks, quantized by MXNet or fused by its back end."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization

IMAGES = (2, 3, 16, 16)


def residual(data: Any) -> Any:
    """A residual block as in ResNets."""
    top = _layer(data, "conv0", 8, act="relu")
    below = _layer(top, "conv1", 8, no_bias=True)
    top = mx.sym.Activation(below + top, act_type="relu", name="sum")
    top = mx.sym.Pooling(top, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    below = _layer(_layer(top, "conv2", 8, act="relu"), "conv3", 12)
    top = below + _layer(top, "conv4", 12, kernel=(1, 1), pad=(0, 0))
    return _head(mx.sym.Activation(top, act_type="relu", name="sum1"))


def mobile(data: Any) -> Any:
    """Depthwise convolutions, clipped and leaky activations, concatenated tensors."""
    top = _layer(data, "conv0", 8, act="relu6", stride=(2, 2))
    deep = _layer(_layer(top, "conv1", 8, act="relu6", num_group=8), "conv2", 6, act="leaky")
    other = mx.sym.Pooling(top, kernel=(3, 3), pad=(1, 1), pool_type="avg", name="average")
    return _head(mx.sym.concat(_layer(other, "conv3", 6, act="leaky"), deep, name="joined"))


def _layer(data: Any, name: str, filters: int, act: str = "", **params: Any) -> Any:
    params = {"kernel": (3, 3), "pad": (1, 1), **params}
    top = mx.sym.Convolution(data, num_filter=filters, name=name, **params)
    top = mx.sym.BatchNorm(top, name=f"{name}_norm", fix_gamma=False)
    if act == "relu6":
        return mx.sym.clip(top, 0, 6, name=f"{name}_relu6")
    if act == "leaky":
        return mx.sym.LeakyReLU(top, act_type="leaky", slope=0.1, name=f"{name}_leaky")
    return mx.sym.Activation(top, act_type=act, name=f"{name}_{act}") if act else top


def _head(data: Any) -> Any:
    top = mx.sym.Pooling(data, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="means")
    top = mx.sym.FullyConnected(mx.sym.Flatten(top, name="flat"), num_hidden=20, name="dense")
    top = mx.sym.Activation(top, act_type="relu", name="dense_relu")
    return mx.sym.FullyConnected(top, num_hidden=7, name="scores")


NETWORKS = {"residual": residual, "mobile": mobile}


def quantised(network: str, function: str, **options: Any) -> dict[str, Any]:
    """A network after `quantization.<function>`, and every output of every node of it."""
    symbol = NETWORKS[network](mx.sym.Variable("data"))
    args, aux, data = _values(symbol)
    mx.random.seed(0)
    if options.get("calib_mode", "none") != "none":
        options["calib_data"] = mx.io.NDArrayIter(data, batch_size=IMAGES[0])
        options["num_calib_examples"] = len(data)
    made = getattr(quantization, function)(symbol, args, aux, ctx=mx.cpu(), label_names=None,
                                           **options)  # fmt: skip
    return _run(*made, data[:IMAGES[0]])


def fused(network: str) -> dict[str, Any]:
    """A float32 network as MXNet's oneDNN back end fuses it."""
    symbol = NETWORKS[network](mx.sym.Variable("data"))
    args, aux, data = _values(symbol)
    return _run(symbol.get_backend_symbol("MKLDNN"), args, aux, data[:IMAGES[0]])


def real(json: str, image: tuple[int, ...]) -> dict[str, Any]:
    """A quantized graph with random weights whose activations neither grow nor vanish."""
    symbol = mx.sym.load_json(json)
    rng = np.random.default_rng(0)
    shapes, _, aux_shapes = symbol.infer_shape(data=image)
    args, aux = {}, {}
    for name, shape in zip(symbol.list_arguments(), shapes, strict=True):
        scale = np.sqrt(2 / max(np.prod(shape[1:]), 1)) if name.endswith("weight") else 0.3
        args[name] = mx.nd.array(rng.standard_normal(shape) * scale + name.endswith("gamma"))
    for name, shape in zip(symbol.list_auxiliary_states(), aux_shapes, strict=True):
        aux[name] = mx.nd.array(rng.uniform(0.5, 1.5, shape) - name.endswith("mean"))
    args.pop("data")
    return _run(symbol, args, aux, rng.uniform(-2, 2.5, image).astype(np.float32))


def _values(symbol: Any) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(0)
    shapes, _, aux_shapes = symbol.infer_shape(data=IMAGES)
    args = {name: mx.nd.array(rng.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 4)))
            for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
            if name != "data"}  # fmt: skip
    for name in [name for name in args if name.endswith("gamma")]:
        args[name] = mx.nd.array(rng.uniform(0.5, 1.5, args[name].shape))
    aux = {name: mx.nd.array(rng.uniform(0.2, 1.0, shape))
           for name, shape in zip(symbol.list_auxiliary_states(), aux_shapes,
                                  strict=True)}  # fmt: skip
    return args, aux, rng.standard_normal((4 * IMAGES[0], *IMAGES[1:])).astype(np.float32)


def _run(symbol: Any, args: Any, aux: Any, data: np.ndarray) -> dict[str, Any]:
    inner = symbol.get_internals()
    variables = {*inner.list_arguments(), *inner.list_auxiliary_states()}
    names = [name for name in inner.list_outputs() if name not in variables]
    every = mx.sym.Group([inner[name] for name in names])
    executor = every.bind(mx.cpu(), {**args, "data": mx.nd.array(data)}, aux_states=aux,
                          grad_req="null")  # fmt: skip
    outputs = executor.forward(is_train=False)
    mx.nd.waitall()
    return {"json": symbol.tojson(), "data": data,
            "args": {name: array.asnumpy() for name, array in args.items()},
            "aux": {name: array.asnumpy() for name, array in aux.items()},
            "outputs": {name: array.asnumpy() for name, array
                        in zip(names, outputs, strict=True)}}  # fmt: skip


def saturates() -> bool:
    """Whether sums of products of 8-bit integers saturate here, as they do without VNNI."""
    data = mx.nd.full((1, 64), 255, dtype="uint8")
    weight = mx.nd.full((16, 64), 127, dtype="int8")
    ends = [mx.nd.array([end]) for end in (0, 1, -1, 1)]
    sums = mx.nd.contrib.quantized_fully_connected(
        data, weight, min_data=ends[0], max_data=ends[1], min_weight=ends[2], max_weight=ends[3],
        num_hidden=16, no_bias=True)[0]
    return bool((sums.asnumpy() != 64 * 255 * 127).any())


def rewritten(json: str, arrays: dict[str, np.ndarray], **options: Any) -> dict[str, Any]:
    """What `quantize_graph` makes of a network, without a back end."""
    values = {name: mx.nd.array(array) for name, array in arrays.items()}
    symbol, args, _, collector = quantization.quantize_graph(mx.sym.load_json(json), values, {},
                                                             **options)
    return {"json": symbol.tojson(), "args": _numpy(args),
            "layers": None if collector is None else list(collector.include_layer)}


_OWNED: list[Any] = []
"""Collectors free the arrays that they see, which must not be freed again."""


def thresholds(batches: list[np.ndarray], dtype: str, bins: int) -> list[float]:
    """The range with the least divergence, of a tensor that arrives in batches."""
    quantization.stats = quantization.stats or True  # it asks for SciPy, and does not use it
    collector = quantization._LayerHistogramCollector(bins, ["x"])
    for batch in batches:
        _OWNED.append(mx.nd.array(batch))
        collector.collect(b"x", _OWNED[-1].handle)
    counts, edges, _, _, end = collector.hist_dict["x"]
    low, high = quantization._get_optimal_thresholds(collector.hist_dict, dtype)["x"]
    return [float(np.ravel(low)[0]), float(np.ravel(high)[0]), end, len(counts),
            float(counts.max()), float(edges[-1])]


def calibrated(json: str, arrays: dict[str, np.ndarray], ranges: dict[str, list[float]],
               **options: Any) -> str:
    """A quantized network with these ranges."""
    values = {name: mx.nd.array(array) for name, array in arrays.items()}
    symbol, _, _, collector = quantization.quantize_graph(
        mx.sym.load_json(json), values, {}, calib_mode="naive", **options)
    collector.min_max_dict = {name: tuple(ends) for name, ends in ranges.items()}
    return quantization.calib_graph(symbol, values, {}, collector, "naive")[0].tojson()


def _numpy(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: array.asnumpy() for name, array in arrays.items()}
