"""Lines of networks for images: what the blocked layout, folding and epilogues rewrite."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.kinds import LARGEST, UNARY, Shape, kind, one, pick, rank, roomy

CHANNELS = (1, 3, 4, 5, 8, 13, 16, 24)


def _is_image(shape: Shape) -> bool:
    return len(shape) == 4 and 0 not in shape


def _convolution_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    _, channels, height, width = shape
    kernel = rng.choice([(1, 1), (3, 3), (3, 3), (1, 3), (5, 5), (2, 2), (height, width)])
    pad = tuple(rng.choice([0, k // 2, k // 2]) for k in kernel)
    dilate = rng.choice([(1, 1)] * 5 + [(2, 2)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilate, strict=True)]
    if any(r > s + 2 * p for r, s, p in zip(reach, (height, width), pad, strict=True)):
        return None
    group = rng.choice([1, 1, 1, channels])
    filters = rng.choice(CHANNELS) if group == 1 else channels * rng.choice([1, 1, 2])
    if not roomy(shape, filters * height * width * shape[0]):
        return None
    return {"kernel": kernel, "pad": pad, "dilate": dilate, "num_group": group,
            "stride": rng.choice([(1, 1), (1, 1), (2, 2), (1, 2)]), "num_filter": filters,
            "no_bias": rng.random() < 0.4}


@kind("convolution", one(_convolution_params, _is_image))
def _(scope, args, params):
    return [scope.mx.sym.Convolution(args[0], name=scope.name, **params)]


def _block_params(rng: Random, shape: Shape) -> dict[str, Any]:
    size = shape[0] * shape[2] * shape[3]
    return {"filters": rng.choice([n for n in CHANNELS if roomy(shape, n * size)]),
            "norm": rng.random() < 0.7,
            "op": rng.choice([None, "act_relu", "relu", "clip6", "leaky", "act_tanh"]),
            "kernel": rng.choice([1, 3]), "depthwise": rng.random() < 0.2,
            "shortcut": rng.random() < 0.4}


@kind("block", one(_block_params, lambda shape: _is_image(shape) and roomy(
    shape, shape[0] * shape[2] * shape[3]) and shape[0] * shape[2] * shape[3] > 3))
def _(scope, args, params):
    """Convolution, batch norm, activation; perhaps with a shortcut around it."""
    mx, k = scope.mx, params["kernel"]
    if params["depthwise"]:
        x = mx.sym.broadcast_mul(args[0], scope.variable("scale", shape=(1, 1, 1, 1)))
    else:
        x = mx.sym.Convolution(args[0], kernel=(k, k), pad=(k // 2, k // 2), no_bias=params["norm"],
                               num_filter=params["filters"], name=f"{scope.name}_conv")
    if params["norm"]:
        x = mx.sym.BatchNorm(x, name=f"{scope.name}_norm", fix_gamma=False, eps=0.1)
    if params["shortcut"] and not params["depthwise"]:
        x = x + mx.sym.Convolution(args[0], kernel=(1, 1), num_filter=params["filters"],
                                   name=f"{scope.name}_short")
    return [x if params["op"] is None else UNARY[params["op"]](mx, x)]


@kind("stem", one(lambda rng, shape: {
    "filters": rng.choice([3, 8, 16]), "kernel": rng.choice([1, 3]),
    "op": rng.choice(["act_relu", "act_tanh", "identity"]), "pool": rng.choice(["max", "avg"]),
    "size": rng.choice([2, 3])},
    lambda shape: _is_image(shape) and shape[0] > 1 and min(shape[2:]) > 2
    and roomy(shape, 16 * shape[0] * shape[2] * shape[3])))
def _(scope, args, params):
    """Convolution, activation and pooling, as networks begin: for a few images at a time."""
    mx, k = scope.mx, params["kernel"]
    x = mx.sym.Convolution(args[0], kernel=(k, k), pad=(k // 2, k // 2), name=scope.name,
                           num_filter=params["filters"])
    return [mx.sym.Pooling(UNARY[params["op"]](mx, x), kernel=(params["size"],) * 2, stride=(2, 2),
                           pool_type=params["pool"])]


def _inverted_params(rng: Random, shape: Shape) -> dict[str, Any]:
    return {"wide": shape[1] * rng.choice([1, 2]), "out": rng.choice([shape[1], 3, 8]),
            "stride": rng.choice([1, 1, 2]), "norm": rng.random() < 0.5}


@kind("inverted", one(_inverted_params, lambda shape: _is_image(shape) and shape[1] < 17 and
                      roomy(shape, shape[0] * shape[1] * 2 * shape[2] * shape[3])
                      and shape[0] * shape[2] * shape[3] > 7))
def _(scope, args, params):
    """Expand, depthwise, project, as in MobileNetV2."""
    mx = scope.mx
    parts = (("expand", {"kernel": (1, 1), "num_filter": params["wide"]}, True),
             ("depth", {"kernel": (3, 3), "pad": (1, 1), "num_filter": params["wide"],
                        "num_group": params["wide"], "stride": (params["stride"],) * 2}, True),
             ("project", {"kernel": (1, 1), "num_filter": params["out"]}, False))
    x = args[0]
    for name, options, active in parts:
        x = mx.sym.Convolution(x, no_bias=params["norm"], name=f"{scope.name}_{name}", **options)
        if params["norm"]:
            x = mx.sym.BatchNorm(x, name=f"{scope.name}_{name}_norm", fix_gamma=False, eps=0.1)
        x = mx.sym.clip(x, a_min=0, a_max=6) if active else x
    return [x]


def _pooling_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    if rng.random() < 0.2:
        return {"global_pool": True, "kernel": (1, 1), "pool_type": rng.choice(["avg", "max"])}
    kernel = rng.choice([(2, 2), (3, 3), (1, 2)])
    if any(k > s for k, s in zip(kernel, shape[2:], strict=True)):
        return None
    stride = rng.choice([(1, 1), (2, 2)])
    pad = rng.choice([(0, 0), tuple(k // 2 for k in kernel)])
    # The maximum of a window outside of the image is the least float32, which overflows later.
    covers = all(p <= k - s for k, s, p in zip(kernel, stride, pad, strict=True))
    return {"kernel": kernel, "stride": stride, "pad": pad,
            "pool_type": rng.choice(["max", "avg", "sum"]),
            "pooling_convention": rng.choice(["valid", "full"]) if covers else "valid"}


@kind("pooling", one(_pooling_params, _is_image))
def _(scope, args, params):
    return [scope.mx.sym.Pooling(args[0], **params)]


@kind("deconvolution", one(lambda rng, shape: {
    "kernel": (k := rng.choice([2, 3]), k), "stride": (s := rng.choice([1, 2]), s),
    "num_filter": rng.choice([1, 3, 8]), "no_bias": rng.random() < 0.5},
    lambda shape: _is_image(shape) and roomy(shape, shape[0] * 8 * shape[2] * shape[3] * 4)))
def _(scope, args, params):
    return [scope.mx.sym.Deconvolution(args[0], name=scope.name, **params)]


@kind("upsampling", one(lambda rng, shape: {"scale": 2},
                        lambda shape: _is_image(shape) and 4 * shape[0] * shape[1] * shape[2]
                        * shape[3] <= LARGEST))
def _(scope, args, params):
    return [scope.mx.sym.UpSampling(args[0], sample_type="nearest", **params)]


@kind("image", one(lambda rng, shape: {"channels": rng.choice([1, 3, 8])}, rank(2, 3)))
def _(scope, args, params):
    """Anything as an image."""
    flat = scope.mx.sym.expand_dims(scope.mx.sym.expand_dims(scope.mx.sym.Flatten(args[0]), axis=2),
                                    axis=3)
    return [scope.mx.sym.broadcast_axis(flat, axis=(2, 3), size=(3, 3))]


def _draw_join(rng: Random, shapes: list[Shape]) -> Any:
    first = pick(rng, shapes, _is_image)
    if first is None:
        return None
    shape = shapes[first]
    more = [pick(rng, shapes, lambda s: len(s) == 4 and s[:1] + s[2:] == shape[:1] + shape[2:])
            for _ in range(rng.randint(1, 2))]
    return (first, *more), {}


@kind("join_images", _draw_join)
def _(scope, args, params):
    """Along channels, as in DenseNet."""
    return [scope.mx.sym.Concat(*args, dim=1)]
