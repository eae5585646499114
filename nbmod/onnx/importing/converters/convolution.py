"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ....ops.param import Shape
from ....ops.shape import size_of
from ..composition import divide
from ..imported_tensor import FLOAT, Array, ImportedTensor
from ..node_import import NodeImport, imports

MAX_TAPS = 256


class _Window(NamedTuple):
    """A sliding window: attributes of a convolution or a pooling."""

    kernel: Shape
    stride: Shape
    dilate: Shape
    before: Shape
    after: Shape

    @property
    def is_symmetric(self) -> bool:
        return self.before == self.after


def window(node: NodeImport, kernel: Shape, image: Callable[[], Shape]) -> _Window:
    """The window of a node; `image` gives the size of the image where padding depends on it."""
    rank = len(kernel)
    stride = node.integers("strides") or (1,) * rank
    dilate = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    how = node.attribute("auto_pad", "NOTSET")
    before, after = pads[:rank], pads[rank:]
    if how in ("SAME_UPPER", "SAME_LOWER"):
        spans = [d * (k - 1) + 1 for d, k in zip(dilate, kernel, strict=True)]
        total = [max((-(-size // step) - 1) * step + span - size, 0)
                 for size, step, span in zip(image(), stride, spans, strict=True)]
        small = tuple(each // 2 for each in total)
        large = tuple(each - each // 2 for each in total)
        before, after = (small, large) if how == "SAME_UPPER" else (large, small)
    elif how == "VALID":
        before = after = (0,) * rank
    if not rank == len(stride) == len(dilate) == len(before) == len(after):
        node.refuse(f"kernel {kernel}, strides {stride}, dilations {dilate} and pads {pads} differ "
                    "in their numbers of axes")
    return _Window(kernel, stride, dilate, before, after)


def padded(node: NodeImport, data: ImportedTensor, before: Sequence[int], after: Sequence[int],
           value: float = 0.0) -> ImportedTensor:
    """An image with a border."""
    if not any((*before, *after)):
        return data
    widths = [0, 0, 0, 0]
    for pair in zip(before, after, strict=True):
        widths += pair
    return node.emit("Pad", data, mode="constant", pad_width=tuple(widths), constant_value=value)


@imports("Conv")
def convolution(node: NodeImport) -> ImportedTensor:
    """A convolution."""
    data, weight = node.input(0), node.input(1)
    return convolve(node, data, weight, node.optional(2))


def convolve(node: NodeImport, data: ImportedTensor, weight: ImportedTensor,
             bias: ImportedTensor | None) -> ImportedTensor:
    """The convolution that the attributes of a node describe."""
    shape = node.static(weight)
    area = window(node, shape[2:], lambda: node.static(data)[2:])
    pad = area.before
    if not area.is_symmetric:
        data, pad = padded(node, data, area.before, area.after), (0,) * len(pad)
    inputs = [data, weight] if bias is None else [data, weight, bias]
    return node.emit("Convolution", *inputs, kernel=area.kernel, stride=area.stride,
                     dilate=area.dilate, pad=pad, num_filter=shape[0],
                     num_group=int(node.attribute("group", 1)), no_bias=bias is None)


@imports("ConvTranspose")
def transposed_convolution(node: NodeImport) -> ImportedTensor:
    """A transposed convolution; what is cut off of its border may differ between the ends."""
    data, weight, bias = node.input(0), node.input(1), node.optional(2)
    shape, group = node.static(weight), int(node.attribute("group", 1))
    kernel, rank = shape[2:], len(shape) - 2
    stride = node.integers("strides") or (1,) * rank
    dilate = node.integers("dilations") or (1,) * rank
    extra = node.integers("output_padding") or (0,) * rank
    before, after = _cut(node, kernel, stride, dilate, extra)
    inputs = [data, weight] if bias is None else [data, weight, bias]
    common = {"kernel": kernel, "stride": stride, "dilate": dilate, "num_group": group,
              "num_filter": shape[1] * group, "no_bias": bias is None}
    if "output_padding" in node.attributes:
        common["adj"] = extra
    if before == after and all(e < s for e, s in zip(extra, stride, strict=True)):
        return node.emit("Deconvolution", *inputs, pad=before, **common)
    if any(e >= s for e, s in zip(extra, stride, strict=True)):
        node.refuse(f"output_padding {extra} is not below strides {stride}")
    whole = node.emit("Deconvolution", *inputs, **common)
    begin = (None, None, *before)
    end = (None, None, *[-size or None for size in after])
    if any(size < 0 for size in (*before, *after)):
        whole = padded(node, whole, [max(-s, 0) for s in before], [max(-s, 0) for s in after])
        begin = (None, None, *[max(s, 0) for s in before])
        end = (None, None, *[-s if s > 0 else None for s in after])
    return node.emit("slice", whole, begin=begin, end=end)


def _cut(node: NodeImport, kernel: Shape, stride: Shape, dilate: Shape, extra: Shape
         ) -> tuple[Shape, Shape]:
    """Sizes cut off before and after each axis of a whole transposed convolution."""
    rank, how = len(kernel), node.attribute("auto_pad", "NOTSET")
    sizes = node.integers("output_shape")
    if sizes is None and how not in ("SAME_UPPER", "SAME_LOWER"):
        pads = node.integers("pads") or (0,) * (2 * rank)
        return (pads[:rank], pads[rank:]) if how == "NOTSET" else ((0,) * rank, (0,) * rank)
    image = node.static()[2:]
    sizes = sizes or tuple(size * step for size, step in zip(image, stride, strict=True))
    total = [step * (size - 1) + more + (k - 1) * d + 1 - out for step, size, more, k, d, out in
             zip(stride, image, extra, kernel, dilate, sizes[-rank:], strict=True)]
    small = tuple(each // 2 for each in total)
    large = tuple(each - each // 2 for each in total)
    return (small, large) if how == "SAME_UPPER" else (large, small)


# -- pooling --------------------------------------------------------------------------------------


@imports("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pooling(node: NodeImport) -> ImportedTensor:
    """A pooling over whole images."""
    rank = node.rank()
    if node.operator == "GlobalLpPool":
        power = int(node.attribute("p", 2))
        return node.emit("norm", node.data, ord=power, axis=tuple(range(2, rank)), keepdims=True)
    kind = {"GlobalAveragePool": "avg", "GlobalMaxPool": "max"}[node.operator]
    if not 3 <= rank <= 5:
        op = {"avg": "mean", "max": "max"}[kind]
        return node.emit(op, node.data, axis=tuple(range(2, rank)), keepdims=True)
    return node.emit("Pooling", node.data, kernel=(1,) * (rank - 2), global_pool=True,
                     pool_type=kind)


@imports("MaxPool", "AveragePool", "LpPool")
def pooling(node: NodeImport) -> ImportedTensor:
    """The maximum, mean or norm of windows."""
    if node.wants(1):
        node.refuse("indices of maxima have no counterpart")
    kernel = node.integers("kernel_shape") or ()
    data = node.plain(node.data)
    if node.operator == "LpPool":
        return _norm(node, data, kernel)
    if data.dtype.kind != "f":
        return node.cast(_pool(node, node.cast(data, FLOAT), kernel), data.dtype)
    return _pool(node, data, kernel)


def _norm(node: NodeImport, data: ImportedTensor, kernel: Shape) -> ImportedTensor:
    """(sum of |x|^p)^(1/p); MXNet's own has no absolute value, and p up to 3."""
    power = int(node.attribute("p", 2))
    raised = node.emit("_power_scalar", node.emit("abs", data), scalar=power)
    return node.emit("_power_scalar", _pool(node, raised, kernel), scalar=1 / power)


def _pool(node: NodeImport, data: ImportedTensor, kernel: Shape) -> ImportedTensor:
    area = window(node, kernel, lambda: node.static(data)[2:])
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "sum"}[node.operator]
    plain = all(step == 1 for step in area.dilate)
    small = all(pad < size for pad, size in zip(area.before, kernel, strict=True))
    included = bool(node.attribute("count_include_pad", 0))
    params: dict[str, object] = {"kernel": kernel, "stride": area.stride, "pool_type": kind}
    if kind == "avg":
        params["count_include_pad"] = included
    natural = kind != "sum" or not any(area.before)
    if plain and area.is_symmetric and small and natural and not node.attribute("ceil_mode", 0):
        return node.emit("Pooling", data, pad=area.before, **params)
    out, after = _out_and_after(area, node.static(data)[2:], bool(node.attribute("ceil_mode", 0)))
    if plain and small and kind == "max" and out == _full(area, node.static(data)[2:]):
        return node.emit("Pooling", data, pad=area.before, pooling_convention="full", **params)
    lowest = float(np.finfo(data.dtype).min) if kind == "max" else 0.0
    image = padded(node, data, area.before, after, lowest)
    if kind == "avg":
        return _mean(node, data, image, area, included)
    if any(step > 1 for step in area.dilate):
        return _dilated(node, image, area, kind)
    return node.emit("Pooling", image, **params)


def _out_and_after(area: _Window, image: Shape, ceil: bool) -> tuple[Shape, Shape]:
    """Sizes of the output, and of the padding after the image that whole windows need."""
    out, after = [], []
    for k, step, d, low, high, size in zip(*area, image, strict=True):
        span = d * (k - 1) + 1
        count = (size + low + high - span) // step + 1
        if ceil:
            count = -(-(size + low + high - span) // step) + 1
            count -= (count - 1) * step >= size + low  # a window must not begin in the padding
        out.append(count)
        after.append(max((count - 1) * step + span - size - low, 0))
    return tuple(out), tuple(after)


def _full(area: _Window, image: Shape) -> Shape:
    """Sizes of the output of MXNet's pooling by the convention 'full'."""
    return tuple(-(-(size + 2 * pad - k) // step) + 1 for size, pad, k, step in
                 zip(image, area.before, area.kernel, area.stride, strict=True))


def _mean(node: NodeImport, data: ImportedTensor, image: ImportedTensor, area: _Window,
          included: bool) -> ImportedTensor:
    """Sums of windows divided by their numbers of elements."""
    size = node.static(data)[2:]
    node.owner.reserve(node.static(image)[2:], np.dtype(np.float64))
    mask = np.zeros(node.static(image)[2:])
    low = (0,) * len(size) if included else area.before
    high = [b + s + a if included else b + s
            for b, s, a in zip(area.before, size, area.after, strict=True)]
    mask[tuple(map(slice, low, high))] = 1
    if any(step > 1 for step in area.dilate):
        total = _dilated(node, image, area, "avg")
    else:
        total = node.emit("Pooling", image, kernel=area.kernel, stride=area.stride,
                          pool_type="sum")
    counts = _window_sums(mask, area)
    return divide(node, total, node.new_constant(counts[None, None], data.dtype))


def _window_sums(image: Array, area: _Window) -> Array:
    """Sums of the windows of an array, axis by axis."""
    for axis, (k, step, d) in enumerate(zip(area.kernel, area.stride, area.dilate, strict=True)):
        count = (image.shape[axis] - d * (k - 1) - 1) // step + 1
        starts = np.arange(count) * step
        image = np.sum([np.take(image, starts + tap * d, axis) for tap in range(k)], axis=0)
    return image


def _dilated(node: NodeImport, image: ImportedTensor, area: _Window, kind: str) -> ImportedTensor:
    """Pooling of windows with holes, tap by tap."""
    size = node.static(image)[2:]
    if size_of(area.kernel) > MAX_TAPS:
        node.refuse(f"a dilated pooling with kernel {area.kernel} is too large")
    taps = []
    for tap in np.ndindex(*area.kernel):
        begin = [t * d for t, d in zip(tap, area.dilate, strict=True)]
        last = [(s - d * (k - 1) - 1) // step * step for s, d, k, step in
                zip(size, area.dilate, area.kernel, area.stride, strict=True)]
        end = [b + e + 1 for b, e in zip(begin, last, strict=True)]
        taps.append(node.emit("slice", image, begin=(None, None, *begin), end=(None, None, *end),
                              step=(1, 1, *area.stride)))
    stacked = node.emit("stack", *taps, axis=0, num_args=len(taps))
    return node.emit("max" if kind == "max" else "sum", stacked, axis=0)


@imports("MaxRoiPool")
def max_roi_pooling(node: NodeImport) -> ImportedTensor:
    """Maxima of regions."""
    return node.emit("ROIPooling", node.input(0), node.input(1),
                     pooled_size=node.integers("pooled_shape"),
                     spatial_scale=float(node.attribute("spatial_scale", 1.0)))


@imports("RoiAlign")
def roi_align(node: NodeImport) -> ImportedTensor:
    """Means of interpolated points of regions."""
    if node.attribute("mode", "avg") != "avg":
        node.refuse("only the mean of points has a counterpart")
    data, boxes, batch = [node.input(i) for i in range(3)]
    count = node.static(boxes)[0]
    index = node.reshape(node.cast(batch, boxes.dtype), (count, 1))
    rois = node.emit("Concat", index, boxes, dim=1, num_args=2)
    half = node.opset >= 16 and node.attribute(
        "coordinate_transformation_mode", "half_pixel") == "half_pixel"
    return node.emit("_contrib_ROIAlign", data, rois, aligned=half,
                     pooled_size=(int(node.attribute("output_height", 1)),
                                  int(node.attribute("output_width", 1))),
                     sample_ratio=int(node.attribute("sampling_ratio", 0)) or -1,
                     spatial_scale=float(node.attribute("spatial_scale", 1.0)))


@imports("DeformConv")
def deformable_convolution(node: NodeImport) -> ImportedTensor:
    """A convolution whose taps are moved, and weighted with a mask."""
    data, weight, offset = [node.input(i) for i in range(3)]
    bias, mask = node.optional(3), node.optional(4)
    shape = node.static(weight)
    area = window(node, shape[2:], lambda: node.static(data)[2:])
    if not area.is_symmetric:
        data = padded(node, data, area.before, area.after)
        area = area._replace(before=(0,) * len(area.before))
    inputs = [each for each in (data, offset, mask, weight, bias) if each is not None]
    op = "_contrib_DeformableConvolution" if mask is None else (
        "_contrib_ModulatedDeformableConvolution")
    return node.emit(op, *inputs, kernel=area.kernel, stride=area.stride, dilate=area.dilate,
                     pad=area.before, num_filter=shape[0], no_bias=bias is None,
                     num_group=int(node.attribute("group", 1)),
                     num_deformable_group=int(node.attribute("offset_group", 1)))


@imports("Col2Im")
def col2im(node: NodeImport) -> ImportedTensor:
    """Columns of windows added up."""
    size, kernel = node.integer_list(1), node.integer_list(2)
    if size is None or kernel is None:
        node.refuse("image_shape and block_shape are missing")
    area = window(node, kernel, lambda: size)
    if not area.is_symmetric:
        node.refuse(f"pads {area.before} and {area.after} differ")
    return node.emit("col2im", node.data, output_size=size, kernel=kernel, stride=area.stride,
                     dilate=area.dilate, pad=area.before)
