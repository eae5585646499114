"""Convolution and Deconvolution: directions, geometries, groups, and errors."""

from __future__ import annotations

from tests.cases import Sample

WITHOUT_64 = ("float32", "float16")
LAST = {"oracle": False, "why": "real MXNet has no channels-last convolution on the CPU"}
AIMED = {"mx_dtypes": ("float64",), "why": "real MXNet's oneDNN refuses this target_shape"}


def conv(data: tuple[int, ...], kernel: tuple[int, ...], filters: int, **attrs) -> Sample:
    """A Convolution; the attributes may include arguments of `Sample` itself."""
    groups, last = attrs.get("num_group", 1), attrs.get("layout", "").endswith("C")
    channels = data[-1 if last else 1] // groups
    weight = (filters, *kernel, channels) if last else (filters, channels, *kernel)
    return sample("Convolution", data, weight, filters, {"kernel": kernel, **attrs})


def deconv(data: tuple[int, ...], kernel: tuple[int, ...], filters: int, **attrs) -> Sample:
    """A Deconvolution, likewise."""
    groups, last = attrs.get("num_group", 1), attrs.get("layout", "").endswith("C")
    share = filters // groups
    weight = (data[-1], *kernel, share) if last else (data[1], share, *kernel)
    return sample("Deconvolution", data, weight, filters, {"kernel": kernel, **attrs})


def sample(op: str, data: tuple, weight: tuple, filters: int, attrs: dict) -> Sample:
    options = {key: attrs.pop(key) for key in tuple(attrs)
               if key in ("note", "error", "oracle", "why", "mx_dtypes", "dtypes", "op")}
    no_bias = attrs.get("no_bias", op == "Deconvolution")
    inputs = {"data": data, "weight": weight} | ({} if no_bias else {"bias": (filters,)})
    return Sample(options.pop("op", op), inputs, {**attrs, "num_filter": filters}, **options)


SAMPLES = [
    conv((2, 3, 5, 7), (3, 3), 4),
    conv((2, 3, 5, 7), (3, 3), 4, no_bias=True),
    conv((2, 4, 9, 7), (3, 2), 6, stride=(2, 3), pad=(1, 2), dilate=(2, 1)),
    conv((3, 5, 6, 6), (1, 1), 7, note="pixelwise"),
    conv((2, 4, 5, 6), (1, 1), 3, stride=(2, 2), note="pixelwise with stride"),
    conv((2, 2, 7, 7), (2, 2), 5, stride=(3, 3), note="stride beyond the kernel"),
    conv((2, 2, 3, 4), (3, 4), 5, note="one output pixel"),
    conv((1, 2, 3, 3), (2, 2), 2, pad=(4, 3), note="windows in the padding only"),
    conv((2, 1, 6, 6), (3, 3), 9, pad=(1, 1), note="one channel"),
    conv((1, 40, 5, 5), (3, 3), 5, pad=(1, 1), note="deeper than a tile", dtypes=("float32",)),
    conv((3, 4, 24, 24), (3, 3), 2, dtypes=("float32",), note="more columns than a tile"),
    conv((2, 6, 5, 5), (3, 3), 9, num_group=3, pad=(1, 1)),
    conv((2, 4, 6, 5), (3, 3), 4, num_group=4, pad=(1, 1), stride=(2, 1), note="depthwise"),
    conv((2, 3, 6, 7), (3, 2), 6, num_group=3, pad=(2, 1), dilate=(2, 3), note="depthwise"),
    conv((1, 2, 5, 5), (3, 3), 10, num_group=2, note="depthwise, many filters"),
    conv((2, 4, 11), (3,), 6, stride=(2,), pad=(1,)),
    conv((2, 3, 8), (2,), 3, dilate=(3,), num_group=3, layout="NCW"),
    conv((2, 3, 4, 5, 4), (3, 2, 2), 5, stride=(2, 1, 2), pad=(1, 1, 0)),
    conv((2, 16, 1, 8, 8), (1, 3, 3), 16, pad=(1, 1, 1), note="one slice between padding"),
    conv((2, 32, 1, 8, 8), (1, 3, 3), 32, num_group=32, pad=(2, 1, 1), stride=(2, 1, 1),
         note="one slice between padding"),
    conv((1, 4, 4, 3, 5), (2, 1, 2), 4, num_group=4, dilate=(2, 1, 2), layout="NCDHW"),
    conv((2, 5, 6, 3), (3, 2), 6, num_group=3, stride=(1, 2), layout="NHWC", note="depthwise",
         **LAST),
    conv((2, 3, 5, 7), (3, 3), 4, workspace=256, cudnn_tune="off", cudnn_off=True, layout="NCHW"),
    conv((2, 5, 7, 4), (3, 2), 6, num_group=2, stride=(2, 1), layout="NHWC", **LAST),
    conv((1, 3, 4, 3, 2), (2, 2, 2), 3, layout="NDHWC", no_bias=True, **LAST),
    conv((2, 2, 6, 5), (2, 3), 4, dilate=(2, 1), num_group=2, op="Convolution_v1"),
    deconv((2, 4, 5, 4), (3, 3), 6),
    deconv((2, 4, 4, 5), (3, 2), 6, stride=(2, 3), pad=(1, 0), adj=(1, 2), no_bias=False),
    deconv((2, 4, 4, 5), (3, 2), 6, stride=(2, 3), num_group=2),
    deconv((1, 4, 4, 5), (3, 2), 6, dilate=(2, 1), num_group=2, mx_dtypes=WITHOUT_64,
           why="real MXNet's float64 forward ignores dilate"),
    deconv((2, 4, 3, 4), (4, 4), 4, stride=(2, 2), pad=(1, 1), num_group=4, note="depthwise"),
    deconv((2, 5, 4, 4), (1, 1), 3, note="pixelwise"),
    deconv((2, 4, 1, 1), (2, 3), 3, no_bias=False, note="a window spans the output"),
    deconv((2, 4, 1, 5), (3, 2), 6, num_group=2, no_bias=False, note="in one axis"),
    deconv((2, 4, 5), (3,), 3, stride=(2,), adj=(1,)),
    deconv((1, 2, 3, 2, 4), (3, 2, 2), 3, stride=(2, 1, 2), pad=(1, 0, 0), mx_dtypes=WITHOUT_64,
           why="real MXNet has no 3-D deconvolution in float64"),
    deconv((1, 2, 5, 5), (3, 3), 4, stride=(2, 2), target_shape=(11, 11)),
    deconv((1, 2, 5, 5), (3, 3), 4, stride=(2, 2), target_shape=(0, 0), pad=(1, 1)),
    deconv((1, 2, 5, 5), (3, 3), 4, stride=(2, 2), target_shape=(10, 9), **AIMED),
    deconv((1, 2, 5, 5), (3, 3), 4, stride=(2, 2), target_shape=(3, 3), **AIMED),
    deconv((2, 3, 4, 4), (2, 3), 6, num_group=2, stride=(2, 1), layout="NHWC", **LAST),
    # errors
    Sample("Convolution", {"data": (1, 4, 8, 8), "weight": (16, 3, 3, 3), "bias": (16,)},
           {"kernel": (3, 3), "num_filter": 16}, error=r"op \(Convolution\): weight has shape "
           r"\(16, 3, 3, 3\), expected \(16, 4, 3, 3\) from data \(1, 4, 8, 8\)"),
    Sample("Convolution", {"data": (1, 4, 8), "weight": (6, 4, 3, 3), "bias": (6,)},
           {"kernel": (3, 3), "num_filter": 6}, error="expected 4 dimensions: .N, C, H, W"),
    conv((1, 4, 2, 8), (3, 3), 6, error=r"window spans \(3, 3\).*image \(2, 8\)"),
    conv((1, 4, 5, 5), (3, 3), 6, num_group=3, error="does not divide the 4 channels"),
    conv((1, 4, 5, 5), (3, 3), 6, num_group=4, error="does not divide num_filter 6"),
    Sample("Convolution", {"data": (1, 4, 5, 5), "weight": (6, 4, 3, 3)}, {"kernel": (3, 3),
           "num_filter": 6, "num_group": 0, "no_bias": 1}, error="num_group is 0"),
    conv((1, 4, 5, 5), (3, 3), 6, stride=(2,), error=r"stride is \(2,\), expected 2 entries"),
    conv((1, 4, 5, 5), (3, 3), 6, stride=(0, 1), error="stride is .*at least 1"),
    conv((1, 4, 5, 5), (3, 3), 6, pad=(-1, 0), error="pad is .*at least 0"),
    conv((1, 4, 5, 5), (3, 3), 6, layout="NCW", error="layout is NCW"),
    conv((1, 4, 5, 5), (3, 3), 6, dtypes=("int32",), error="has type int32"),
    conv((1, 2, 3, 3, 3, 3), (1, 1, 1, 1), 2, error="kernel has 4 dimensions, expected 1 to 3"),
    deconv((1, 4, 5, 5), (3, 3), 6, stride=(2, 2), adj=(2, 0), error="adj is .*less than stride"),
    deconv((1, 4, 5, 5), (3, 3), 6, target_shape=(9, 9), error="expected at most"),
    deconv((1, 4, 2, 2), (3, 3), 6, pad=(2, 2), error="leaves nothing of the output"),
    deconv((1, 4, 5, 5), (3, 3), 6, target_shape=(7, 0), error="target_shape is .*at least 1"),
]  # fmt: skip
