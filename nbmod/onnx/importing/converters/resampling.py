"""Images of another size, and images sampled at points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.param import Shape
from ....ops.shape import normalize_axes
from ..composition import add, binary, multiply, round_half_even
from ..imported_tensor import INT64, ImportedTensor
from ..interpolation import Resampling, nearest_index, resampling_matrix, sample_positions
from ..node_import import NodeImport, imports


@imports("Resize", "Upsample")
def resize(node: NodeImport) -> ImportedTensor:
    """An image of another size: axis by axis, or as one of MXNet's operators."""
    axes = _axes(node)
    data = node.plain(node.data)
    natural = _upsampled(node, data, axes) or _bilinear(node, data, axes)
    if natural is not None:
        return natural
    for index, axis in axes.items():
        data = _resample(node, data, index, axis)
    return _outside(node, data, axes)


def _axes(node: NodeImport) -> dict[int, Resampling]:
    """The axes that change, and how; axes with a scale of 1 may be open."""
    rank = node.rank()
    new = node.operator == "Resize" and node.opset >= 11
    scales = node.constant(2 if new else 1, "scales")
    chosen: Sequence[int] = normalize_axes(node.integers("axes") or range(rank), rank)
    chosen, sizes = _sizes(node, chosen) if new else (chosen, None)
    factors = [float(each) for each in (scales if scales is not None else [])]
    roi = node.constant(1) if new else None
    if not sizes and (roi is None or not roi.size):
        chosen, factors = _without_open(node, chosen, factors)
    shape = node.data.shape or ()
    if not all(shape[i] for i in chosen):
        shape = node.static()
    if sizes:
        factors, sizes = _fitted(node, [shape[i] for i in chosen], sizes)
    else:
        sizes = tuple(int(np.floor(shape[i] * f)) for i, f in zip(chosen, factors, strict=True))
    bounds = [0.0] * len(chosen) + [1.0] * len(chosen) if roi is None or not roi.size else [
        float(each) for each in roi]
    common = _common(node, new)
    axes = {}
    for k, (i, out, factor) in enumerate(zip(chosen, sizes, factors, strict=True)):
        region = bounds[k], bounds[k + len(chosen)]
        node.owner.reserve((out, shape[i]), np.dtype(np.float64))
        if out < 1:
            node.refuse(f"axis {i} of length {shape[i]} would have length {out}")
        if (out, factor) != (shape[i], 1.0) or (
                common["coordinates"] == "tf_crop_and_resize" and region != (0.0, 1.0)):
            axes[i] = Resampling(shape[i], out, factor, roi=region, **common)  # type: ignore
    return axes


def _sizes(node: NodeImport, chosen: Sequence[int]) -> tuple[Sequence[int], Shape | None]:
    """Axes and their new sizes, if the node has these, without those that stay as they are."""
    sizes = node.open_sizes(3) if len(chosen) == node.rank() else None
    if sizes is None or -1 in sizes:
        return chosen, node.integer_list(3)
    return ([axis for axis, size in enumerate(sizes) if size is not None],
            tuple(size for size in sizes if size is not None))


def _without_open(node: NodeImport, chosen: Sequence[int], factors: list[float]
                  ) -> tuple[Sequence[int], list[float]]:
    """Axes and their scales, without axes that are open and stay as they are."""
    shape = node.data.shape or ()
    pairs = [(i, factor) for i, factor in zip(chosen, factors, strict=True)
             if shape[i] or factor != 1]
    return [i for i, _ in pairs], [factor for _, factor in pairs]


def _common(node: NodeImport, new: bool) -> dict[str, object]:
    mode = str(node.attribute("mode", "nearest"))
    return {"coordinates": node.attribute("coordinate_transformation_mode",
                                          "half_pixel" if new else "asymmetric"),
            "mode": {"bilinear": "linear"}.get(mode, mode),
            "nearest": node.attribute("nearest_mode", "round_prefer_floor" if new else "floor"),
            "cubic": float(node.attribute("cubic_coeff_a", -0.75)),
            "antialias": bool(node.attribute("antialias", 0)),
            "exclude_outside": bool(node.attribute("exclude_outside", 0)),
            "extrapolation": float(node.attribute("extrapolation_value", 0.0))}


def _fitted(node: NodeImport, old: list[int], sizes: Shape) -> tuple[list[float], Shape]:
    """Factors and sizes, with the ratio of the image kept if the model says so."""
    factors = [new / size for new, size in zip(sizes, old, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return factors, sizes
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(old), tuple(int(np.floor(size * factor + 0.5)) for size in old)


def _upsampled(node: NodeImport, data: ImportedTensor, axes: dict[int, Resampling]
               ) -> ImportedTensor | None:
    """UpSampling, where every pixel becomes a square."""
    if set(axes) != {2, 3} or node.rank() != 4 or data.dtype.kind != "f":
        return None
    scales = {axis.scale for axis in axes.values()}
    scale = int(next(iter(scales)))
    repeats = all(axis.mode == "nearest" and axis.out == axis.size * scale and np.array_equal(
        nearest_index(axis), np.arange(axis.out) // max(scale, 1)) for axis in axes.values())
    if scales != {float(scale)} or not repeats:
        return None
    return node.emit("UpSampling", data, scale=scale, sample_type="nearest", num_args=1)


def _bilinear(node: NodeImport, data: ImportedTensor, axes: dict[int, Resampling]
              ) -> ImportedTensor | None:
    """BilinearResize2D, which has two of the ways to place pixels."""
    shape = list(node.data.shape or ())
    if not set(axes) <= {2, 3} or len(shape) != 4 or not axes or data.dtype.kind != "f":
        return None
    ways = {axis.coordinates for axis in axes.values()}
    for index, axis in axes.items():
        single = axis.out == 1 and axis.coordinates == "half_pixel"
        if (axis.mode != "linear" or axis.antialias or single
                or abs(axis.scale * axis.size - axis.out) > 1e-6):
            return None
        shape[index] = axis.out
    if ways not in ({"align_corners"}, {"half_pixel"}):
        return None
    return node.emit("_contrib_BilinearResize2D", data, height=shape[2], width=shape[3],
                     align_corners=ways == {"align_corners"})


def _resample(node: NodeImport, data: ImportedTensor, index: int, axis: Resampling
              ) -> ImportedTensor:
    if axis.mode == "nearest":
        taken = node.new_constant(nearest_index(axis), INT64)
        return node.emit("take", data, taken, axis=index)
    rank = node.rank(data)
    last = [i for i in range(rank) if i != index] + [index]
    moved = node.transpose(data, last)
    weights = node.new_constant(resampling_matrix(axis), data.dtype)
    samples = node.emit("FullyConnected", moved, weights, no_bias=True, flatten=False,
                        num_hidden=axis.out)
    return node.transpose(samples, [int(i) for i in np.argsort(last)])


def _outside(node: NodeImport, data: ImportedTensor, axes: dict[int, Resampling]
             ) -> ImportedTensor:
    """`extrapolation` where a cropping resize samples outside of the image."""
    inside = np.ones((1,) * node.rank())
    value = 0.0
    for index, axis in axes.items():
        if axis.coordinates == "tf_crop_and_resize":
            x = sample_positions(axis)
            valid = ((x >= 0) & (x <= axis.size - 1)).astype(float)
            inside = inside * valid.reshape([-1 if i == index else 1 for i in range(node.rank())])
            value = axis.extrapolation
    if inside.all():
        return data
    interior = multiply(node, data, node.new_constant(inside, data.dtype))
    return add(node, interior, node.new_constant((1 - inside) * value, data.dtype))


@imports("GridSample")
def grid_sample(node: NodeImport) -> ImportedTensor:
    """An image sampled at points of a grid (N, H, W, 2) of coordinates from -1 to 1."""
    data, grid = node.input(0), node.input(1)
    shape = node.static()
    mode = {"bilinear": "linear"}.get(*[node.attribute("mode", "linear")] * 2)
    border = node.attribute("padding_mode", "zeros")
    if len(shape) != 4 or mode not in ("linear", "nearest") or border == "reflection":
        node.refuse(f"mode {mode!r} with padding {border!r} and rank {len(shape)} has no "
                    "counterpart")
    sizes = np.array([shape[3], shape[2]]).reshape(1, 2, 1, 1)
    if 1 in shape[2:]:
        node.refuse("images of one row or column have no counterpart")
    points = node.transpose(grid, (0, 3, 1, 2))
    last = sizes - 1
    pixels = _affine(node, points, (last if node.attribute("align_corners", 0) else sizes) / 2,
                     last / 2)
    if mode == "nearest":
        pixels = round_half_even(node, pixels)
    if border == "border":
        pixels = binary(node, "broadcast_maximum", pixels, node.new_constant(0, pixels.dtype))
        pixels = binary(node, "broadcast_minimum", pixels, node.new_constant(last, pixels.dtype))
    # MXNet's points: pixel (x + 1) (W - 1) / 2
    return node.emit("BilinearSampler", data, _affine(node, pixels, 2 / last, -1))


def _affine(node: NodeImport, points: ImportedTensor, factor: object, shift: object
            ) -> ImportedTensor:
    scaled = multiply(node, points, node.new_constant(factor, points.dtype))
    return add(node, scaled, node.new_constant(shift, points.dtype))
