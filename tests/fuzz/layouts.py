"""Lines of layers over sequences, images and volumes, with channels first or last."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

from tests.fuzz.kinds import Shape, kind, one, rank, roomy

NAMES = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def _common(rng: Random, shape: Shape) -> tuple[dict[str, Any], int, Shape]:
    """Rank and layout, the channels, and the sizes of the image."""
    last = rng.random() < 0.5
    channels = shape[-1] if last else shape[1]
    return {"rank": len(shape), "last": last}, channels, shape[1:-1] if last else shape[2:]


def _fits(shape: Shape) -> bool:
    return 3 <= len(shape) <= 5 and 0 not in shape


def _layer_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    params, channels, image = _common(rng, shape)
    kernel = tuple(rng.choice([k for k in (1, 2, 3) if k <= size + 1]) for size in image)
    pad = tuple(k // 2 for k in kernel)
    filters = rng.choice([1, 3, 8])
    group = rng.choice([1, 1, channels])
    transposed = rng.random() < 0.2
    stride = tuple(rng.choice([1, 1, 2]) for _ in image)
    grown = prod(stride) if transposed else 1
    if group > 1:
        filters = channels
    if channels > 24 or not roomy(shape, filters * grown * prod(image) * shape[0] * 2):
        return None
    return {**params, "transposed": transposed, "options": {
        "kernel": kernel, "pad": pad, "stride": stride, "num_filter": filters,
        "num_group": group, "no_bias": rng.random() < 0.4}}


@kind("convolution_nd", one(_layer_params, _fits))
def _(scope, args, params):
    op = scope.mx.sym.Deconvolution if params["transposed"] else scope.mx.sym.Convolution
    return [op(args[0], name=scope.name, layout=NAMES[params["rank"]][params["last"]],
               **params["options"])]


def _pooling_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    params, _, image = _common(rng, shape)
    if rng.random() < 0.2:
        options = {"global_pool": True, "kernel": (1,) * len(image)}
    else:
        kernel = tuple(rng.choice([k for k in (1, 2, 3) if k <= size]) for size in image)
        options = {"kernel": kernel, "stride": tuple(rng.choice([1, 2]) for _ in image),
                   "pooling_convention": rng.choice(["valid", "full"])}
        if any(s > k for s, k in zip(options["stride"], kernel, strict=True)):
            options["pooling_convention"] = "valid"     # no window lies outside
    return {**params, "options": {**options, "pool_type": rng.choice(["max", "avg", "sum"])}}


@kind("pooling_nd", one(_pooling_params, _fits))
def _(scope, args, params):
    return [scope.mx.sym.Pooling(args[0], layout=NAMES[params["rank"]][params["last"]],
                                 **params["options"])]


def _block_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    params, channels, image = _common(rng, shape)
    if channels > 24 or not roomy(shape, 8 * prod(image) * shape[0]):
        return None
    return {**params, "filters": rng.choice([3, 8]), "op": rng.choice(["relu", "sigmoid"])}


@kind("block_nd", one(_block_params, lambda shape: _fits(shape) and prod(shape) > 3 * shape[1]
                      and prod(shape) > 3 * shape[-1]))
def _(scope, args, params):
    """Convolution, batch norm, activation, with channels where the layout has them."""
    sym, dims = scope.mx.sym, params["rank"] - 2
    x = sym.Convolution(args[0], kernel=(3,) * dims, pad=(1,) * dims, no_bias=True,
                        num_filter=params["filters"], name=f"{scope.name}_conv",
                        layout=NAMES[params["rank"]][params["last"]])
    x = sym.BatchNorm(x, axis=-1 if params["last"] else 1, fix_gamma=False, eps=0.1,
                      name=f"{scope.name}_norm")
    return [sym.Activation(x, act_type=params["op"])]


@kind("volume", one(lambda rng, shape: {"axis": rng.randint(2, 4), "size": rng.randint(1, 3)},
                    lambda shape: rank(4)(shape) and roomy(shape, 3 * prod(shape))))
def _(scope, args, params):
    """An image as a volume."""
    x = scope.mx.sym.expand_dims(args[0], axis=params["axis"])
    return [scope.mx.sym.broadcast_axis(x, axis=params["axis"], size=params["size"])]
