"""Random samples of layers over images and sequences: parameters, shapes and borders."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.cases import Sample, array, distinct, label, normal, uniform
from tests.cases.fused_layers import (
    CALIBRATED,
    PER_ROW,
    QUANTIZED,
    conv,
    dense,
    ends,
    real,
    swapped,
)
from tests.cases.quantize import DATA_WEIGHT, end, s8, u8
from tests.cases.rnn import CLIPPED, GATES, rnn

Shape = tuple[int, ...]
MAKERS: dict[str, Callable[[str, Random], Sample]] = {}
"""By the name of the op."""


def random_sample(op: str, rng: Random) -> Sample:
    """A sample of one of MAKERS."""
    return MAKERS[op](op, rng).seeded(rng.randrange(1 << 30))


def makes(*names: str) -> Callable[[Any], Any]:
    """Enter a function of (op, rng) for these ops."""
    def enter(make: Any) -> Any:
        MAKERS.update(dict.fromkeys(names, make))
        return make
    return enter


def shape(rng: Random, axes: int, most: int = 6) -> Shape:
    return tuple(rng.randint(1, most) for _ in range(axes))


def window(rng: Random, axes: int, most: int = 3) -> tuple[dict[str, Shape], Shape]:
    """kernel, stride, dilate and pad, and the shape of an image that they fit."""
    params = {"kernel": shape(rng, axes, most), "stride": shape(rng, axes, 3),
              "dilate": shape(rng, axes, 2), "pad": tuple(rng.randint(0, 2) for _ in range(axes))}
    least = [max(1, (k - 1) * d + 1 - 2 * p) for k, d, p in zip(
        params["kernel"], params["dilate"], params["pad"], strict=True)]
    return params, tuple(rng.choice((low, rng.randint(low, 9))) for low in least)


def positions(params: dict[str, Shape], image: Shape) -> Shape:
    return tuple((size + 2 * p - (k - 1) * d - 1) // s + 1 for size, k, s, d, p in zip(
        image, *params.values(), strict=True))


# -- images ----------------------------------------------------------------------------------------


@makes("BilinearSampler")
def bilinear_sampler(op: str, rng: Random) -> Sample:
    n, c = shape(rng, 2, 3)
    return Sample(op, {"data": normal((n, c, *shape(rng, 2))),
                       "grid": uniform(-1.8, 1.8, (n, 2, *shape(rng, 2)))})


@makes("SpatialTransformer")
def spatial_transformer(op: str, rng: Random) -> Sample:
    n, c = shape(rng, 2, 3)
    return Sample(op, {"data": normal((n, c, *shape(rng, 2))), "loc": normal((n, 6))},
                  {"target_shape": shape(rng, 2), "transform_type": "affine",
                   "sampler_type": "bilinear"})


@makes("Correlation")
def correlation(op: str, rng: Random) -> Sample:
    size, reach, pad = rng.choice((1, 3, 5)), rng.randint(0, 3), rng.randint(0, 3)
    least = max(1, 2 * (reach + size // 2 - pad) + 1)
    images = (*shape(rng, 2, 3), rng.randint(least, least + 5), rng.randint(least, least + 5))
    return Sample(op, {"data1": normal(images), "data2": normal(images)},
                  {"kernel_size": size, "max_displacement": reach, "pad_size": pad,
                   "stride1": rng.randint(1, 3), "stride2": rng.randint(1, 3),
                   "is_multiply": rng.random() < 0.5})


@makes("Convolution", "Deconvolution")
def filters(op: str, rng: Random) -> Sample:
    params, image = window(rng, rng.randint(1, 3))
    groups, no_bias = rng.choice((1, 1, 2)), rng.random() < 0.5
    channels, count = (groups * rng.choice((1, 3, 16)) for _ in range(2))
    if op == "Deconvolution":
        params["pad"] = tuple(min(p, (k - 1) // 2) for p, k in zip(params["pad"], params["kernel"],
                                                                   strict=True))
    shapes = (channels, count // groups) if op == "Deconvolution" else (count, channels // groups)
    return Sample(op, {"data": normal((rng.randint(1, 2), channels, *image)),
                       "weight": normal((*shapes, *params["kernel"])),
                       **({} if no_bias else {"bias": normal((count,))})},
                  {**params, "num_filter": count, "num_group": groups, "no_bias": no_bias})


@makes("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")
def deformable(op: str, rng: Random) -> Sample:
    params, image = window(rng, 2)
    groups, moved = rng.choice((1, 2)), rng.choice((1, 2, 3))
    channels, filters = 6 * rng.randint(1, 2), groups * rng.randint(1, 3)
    n, taps, out = rng.randint(1, 2), params["kernel"][0] * params["kernel"][1], positions(
        params, image)
    inputs = {"data": normal((n, channels, *image)),
              "offset": uniform(-2.5, 2.5, (n, 2 * moved * taps, *out)),
              "mask": uniform(0, 1, (n, moved * taps, *out)),
              "weight": normal((filters, channels // groups, *params["kernel"])),
              "bias": normal((filters,))}
    attrs = {**params, "num_filter": filters, "num_group": groups, "num_deformable_group": moved,
             "no_bias": rng.random() < 0.5}
    skipped = {"bias"} if attrs["no_bias"] else set()
    skipped |= {"mask"} if op == "_contrib_DeformableConvolution" else set()
    return Sample(op, {name: x for name, x in inputs.items() if name not in skipped}, attrs)


@makes("_image_resize", "_cvimresize")
def image_resize(op: str, rng: Random) -> Sample:
    images = (*shape(rng, 2, 12), rng.choice((1, 3)))
    size = {"size": shape(rng, 2, 12)} if op == "_image_resize" else dict(
        zip("wh", shape(rng, 2, 12), strict=True))
    return Sample(op, {"data" if "size" in size else "src": uniform(0, 255, images)},
                  {**size, "interp": rng.randrange(5)}, (),
                  dtypes=("uint8", "float32", "float64", "float16"))


@makes("_contrib_AdaptiveAvgPooling2D")
def adaptive_pooling(op: str, rng: Random) -> Sample:
    return Sample(op, {"data": shape(rng, 4)}, {"output_size": shape(rng, 2, 9)})


@makes("_contrib_BilinearResize2D")
def bilinear_resize(op: str, rng: Random) -> Sample:
    height, width = shape(rng, 2, 9)
    return Sample(op, {"data": shape(rng, 4)}, {"height": height, "width": width,
                                                "align_corners": rng.random() < 0.5})


# -- bytes -----------------------------------------------------------------------------------------


@makes("_contrib_quantized_conv")
def quantized_conv(op: str, rng: Random) -> Sample:
    params, image = window(rng, rng.randint(1, 3))
    groups, kind, no_bias = rng.choice((1, 2)), rng.choice((s8, u8)), rng.random() < 0.5
    channels, filters = groups * rng.choice((1, 2, 40)), groups * rng.randint(1, 3)
    bias = {} if no_bias else {"bias": s8(filters), "min_bias": end(-0.5), "max_bias": end(0.25)}
    return Sample(op, {"data": kind(rng.randint(1, 2), channels, *image),
                       "weight": s8(filters, channels // groups, *params["kernel"]),
                       **DATA_WEIGHT, **bias},
                  {**params, "num_filter": filters, "num_group": groups, "no_bias": no_bias}, (),
                  is_train=False, dtypes=("float32",))


@makes("Pooling", "_contrib_quantized_pooling")
def pooling(op: str, rng: Random) -> Sample:
    params, image = window(rng, rng.randint(1, 3))
    del params["dilate"]
    params["pad"] = tuple(min(p, k - 1) for p, k in zip(params["pad"], params["kernel"],
                                                        strict=True))
    data = (rng.randint(1, 2), rng.choice((1, 3, 16)), *(size + 3 for size in image))
    attrs = {**params, "pool_type": rng.choice(("max", "avg")),
             "pooling_convention": rng.choice(("valid", "full")), "global_pool": rng.random() < 0.2,
             "count_include_pad": rng.choice((True, False))}
    if op == "Pooling":
        return Sample(op, {"data": distinct(data)}, attrs, dtypes=("float32", "float64"))
    return Sample(op, {"data": rng.choice((s8, u8))(*data), "min_data": end(-1.0),
                       "max_data": end(2.0)}, attrs, (), is_train=False, dtypes=("float32",))


ACTIVATIONS: tuple[dict[str, str], ...] = ({}, {"before": "relu"}, {"before": "relu6"},
                                           {"before": "leaky"}, {"before": "gelu"})


@makes("_sg_mkldnn_conv")
def fused_conv(op: str, rng: Random) -> Sample:
    params, image = window(rng, 2)
    groups, norm, adds = rng.choice((1, 2)), rng.random() < 0.5, rng.random() < 0.5
    data, filters = (rng.randint(1, 2), 4, *image), 2 * rng.randint(1, 3)
    out = (data[0], filters, *positions(params, image))
    inputs = {"data": real(*data), "weight": real(filters, 4 // groups, *params["kernel"])}
    if norm:
        inputs |= {name: real(filters) for name in ("gamma", "beta", "moving_mean")}
        inputs["moving_var"] = uniform(0.5, 2.0, (filters,), "float32")
    if adds:
        inputs["sum"] = real(*out)
    attrs = {"layer": {**params, "num_filter": filters, "num_group": groups},
             **rng.choice(ACTIVATIONS), **({"norm": {"eps": 0.01}} if norm else {})}
    if rng.random() < 0.7:
        attrs |= rng.choice((QUANTIZED, CALIBRATED))
        tensors = {"data": rng.choice((s8, u8))(*data)} | ({"sum": s8(*out)} if adds else {})
        inputs |= tensors | ends(**tensors)
    return conv(inputs, attrs, "random")


@makes("_sg_mkldnn_fully_connected")
def fused_dense(op: str, rng: Random) -> Sample:
    rows, size, hidden = shape(rng, 3, 12)
    layer, act = {"layer": {"num_hidden": hidden}}, rng.choice(ACTIVATIONS)
    if rng.random() < 0.3:
        return dense({"data": real(rows, size), "weight": real(hidden, size)}, layer | act,
                     "random")
    data, made = rng.choice((s8, u8))(rows, size), rng.choice((CALIBRATED, QUANTIZED))
    if rng.random() < 0.5:
        return dense({"data": data, "weight": real(hidden, size), "bias": real(hidden),
                      **swapped(ends(data=data))}, layer | act | CALIBRATED | PER_ROW, "random")
    return dense({"data": data, "weight": s8(hidden, size),
                  **swapped(ends(data=data, weight=data))},
                 layer | made | (act if made is CALIBRATED else {}), "random")


# -- sequences and rows ----------------------------------------------------------------------------


@makes("RNN")
def recurrent(op: str, rng: Random) -> Sample:
    data, mode = shape(rng, 3, 5), rng.choice(sorted(GATES))
    attrs: dict[str, Any] = {"state_outputs": rng.random() < 0.7, "p": rng.choice((0, 0, 0.4))}
    if mode == "lstm":
        attrs |= {"projection_size": rng.randint(1, 7)} if rng.random() < 0.4 else {}
        attrs |= CLIPPED if rng.random() < 0.3 else {}
    lengths = tuple(rng.randint(0, data[0]) for _ in range(data[1])) if rng.random() < 0.5 else ()
    return rnn(mode, data, rng.randint(1, 6), rng.randint(1, 3), rng.random() < 0.5, lengths, attrs)


@makes("sort", "argsort", "topk")
def ordering(op: str, rng: Random) -> Sample:
    data = shape(rng, rng.randint(1, 3), 40)
    axis = rng.choice((None, *range(-len(data), len(data))))
    attrs: dict[str, Any] = {"axis": axis, "is_ascend": rng.random() < 0.5}
    if op == "topk":
        length = data[axis] if axis is not None else min(data)
        attrs |= {"k": rng.randint(0, length), "ret_typ": rng.choice(("both", "value", "mask",
                                                                      "indices"))}
    ties = rng.random() < 0.3
    return Sample(op, {"data": label(4, data) if ties else distinct(data)}, attrs,
                  () if op == "argsort" or attrs.get("ret_typ") in ("mask", "indices") else
                  ("data",))


@makes("softmax_cross_entropy")
def cross_entropy(op: str, rng: Random) -> Sample:
    rows, classes = shape(rng, 2, 20)
    labels = [rng.randint(-1, classes) for _ in range(rows)]
    return Sample(op, {"data": uniform(-30, 30, (rows, classes)), "label": array(labels)}, {},
                  ("data",))

