"""BatchNorm and the other normalization layers."""

from __future__ import annotations

from tests.cases import AT_LEAST_32, Sample, normal, positive

F32 = ("float32",)
DATA = {"data": (4, 3, 5, 2)}


def batch_norm(shape: tuple[int, ...], axis: int = 1) -> dict:
    """Inputs of BatchNorm over `axis`; its parameters stay float32 for float16 data."""
    c = (shape[axis],)
    return {
        "data": normal(shape), "gamma": normal(c, AT_LEAST_32), "beta": normal(c, AT_LEAST_32),
        "moving_mean": normal(c, AT_LEAST_32), "moving_var": positive(c, AT_LEAST_32),
    }  # fmt: skip


def bn(
    attrs: dict, shape: tuple[int, ...] = (4, 3, 5, 2), axis: int = 1, op="BatchNorm", **options
) -> Sample:
    # fix_gamma makes gamma a constant one whatever is passed, so it has no gradient to check
    fixed = attrs.get("fix_gamma", True)
    grad = ("data", "beta") if fixed else ("data", "gamma", "beta")
    writes = ("gamma",) if fixed and options.get("is_train", True) else ()
    visible = (0,) if attrs.get("output_mean_var") else None
    options = {"grad": grad, "writes": writes, "outputs": visible} | options
    return Sample(op, batch_norm(shape, axis), attrs, **options)


FREE = {"fix_gamma": False}
RELU = "_contrib_BatchNormWithReLU"
SYNC = "_contrib_SyncBatchNorm"
SHOWN = {"output_mean_var": True, "key": "a"}

SAMPLES = [
    bn({}),
    bn(FREE),
    bn({}, is_train=False),
    bn(FREE, is_train=False),
    bn({**FREE, "use_global_stats": True}),
    bn({"use_global_stats": True}),
    bn({**FREE, "output_mean_var": True}),
    bn({**FREE, "output_mean_var": True}, is_train=False, outputs=None),
    bn({**FREE, "output_mean_var": True, "use_global_stats": True}),
    bn({**FREE, "eps": 1e-2, "momentum": 0.5}),
    bn({**FREE, "momentum": 0}),
    bn(FREE, (7, 5), note="dense"),
    bn(FREE, (3, 40), note="more channels than a strip"),
    bn({**FREE, "use_global_stats": True}, (7, 5), note="dense"),
    bn(FREE, (7, 5), is_train=False, note="dense"),
    bn(FREE, (2, 3, 4), note="rank 3"),
    bn(FREE, (2, 3, 2, 3, 2), note="rank 5"),
    bn({**FREE, "axis": -1}, (2, 4, 3, 18), -1, note="channels last"),
    bn({**FREE, "axis": -1, "use_global_stats": True}, (2, 4, 3, 5), -1, note="channels last"),
    bn({**FREE, "axis": 2}, (2, 4, 3, 5), 2, note="channels in the middle"),
    bn({**FREE, "axis": 0}, (3, 4, 2), 0, note="channels first"),
    bn(FREE, (9, 1, 3, 3), note="one channel"),
    bn(FREE, (1, 2, 65, 3), note="one image"),
    bn(FREE, op="BatchNorm_v1", mx_dtypes=F32, why="MXNet's is float32 only"),
    bn({}, op="BatchNorm_v1", mx_dtypes=F32, why="MXNet's is float32 only"),
    bn(FREE, op="BatchNorm_v1", is_train=False, mx_dtypes=F32, why="MXNet's is float32 only"),
    bn({**FREE, "key": "a"}, op="_contrib_SyncBatchNorm", dtypes=F32),
    # What has one key in MXNet has one size, too.
    *(bn({**attrs, **SHOWN, "key": f"shown{i}{len(shape)}"}, shape, op=SYNC, dtypes=F32,
         outputs=None, note="variance shown")
      for i, attrs in enumerate(({}, FREE, {"eps": 0.5})) for shape in ((4, 3, 5, 2), (7, 5))),
    *(bn({**FREE, **SHOWN, **attrs}, op=SYNC, is_train=train, oracle=False,
         why="MXNet leaves outputs 1 and 2 unset", note="moving variance shown", outputs=None)
      for attrs, train in (({}, False), ({"use_global_stats": True}, True))),
    *(bn(attrs, op=RELU, is_train=train, mx_dtypes=F32, why="MXNet's is float32 only")
      for attrs in ({}, FREE, {**FREE, "use_global_stats": True}) for train in (True, False)),
    bn({**FREE, "output_mean_var": True}, op=RELU, mx_dtypes=F32, why="MXNet's is float32 only"),
    bn({**FREE, "axis": -1}, (2, 4, 3, 5), -1, RELU, oracle=False, why="MXNet's has axis 1 only"),
    bn(FREE, (7, 5), op=RELU, oracle=False, why="MXNet's has images only"),
    Sample("BatchNorm", batch_norm((2, 3, 4)) | {"gamma": (4,)}, error="gamma has shape"),
    Sample("BatchNorm", batch_norm((2, 3, 4)), {"axis": 3}, error="axis is 3"),
    Sample("BatchNorm", batch_norm((2, 3)), {"axes": 1}, error="did you mean 'axis'"),
    Sample("BatchNorm", batch_norm((2, 3)), dtypes=("int32",), error="data has type int32"),
    Sample("_contrib_SyncBatchNorm", batch_norm((2, 3)), error="parameter key is not given"),
]


def layer_norm(
    shape: tuple[int, ...], attrs: dict | None = None, size: int = 0, op="LayerNorm", **options
) -> Sample:
    """A sample of an op with inputs data, gamma, beta; `size` elements in the latter two."""
    size = size or shape[(attrs or {}).get("axis", -1)]
    inputs = {"data": shape, "gamma": (size,), "beta": (size,)}
    return Sample(op, inputs, attrs or {}, **options)


def group_norm(shape: tuple[int, ...], groups: int, attrs: dict | None = None, **options):
    attrs = {"num_groups": groups, **(attrs or {})}
    return layer_norm(shape, attrs, groups, "GroupNorm", **options)


def instance_norm(shape: tuple[int, ...], attrs: dict | None = None, **options) -> Sample:
    why = "MXNet's is float32 only"
    return layer_norm(shape, attrs, shape[1], "InstanceNorm", mx_dtypes=F32, why=why, **options)


SAMPLES += [
    layer_norm((4, 6)),
    layer_norm((2, 3, 70), {"eps": 1e-2}),
    layer_norm((5,)),
    layer_norm((7, 150), note="long rows"),
    layer_norm((90, 130), {"output_mean_var": True}, outputs=(0,), note="long rows"),
    layer_norm((3, 4, 5), {"axis": 1}),
    layer_norm((3, 4, 5), {"axis": 0, "output_mean_var": True}, outputs=(0,)),
    layer_norm((3, 5), {"output_mean_var": True}, is_train=False),
    layer_norm((4, 3, 2), {"axis": 2}, is_train=False),
    layer_norm((4, 6), size=5, error="gamma has shape"),
    layer_norm((4, 6), {"axis": 2}, size=6, error="axis is 2"),
    Sample("LayerNorm", {"data": (2, 3), "gamma": (3,), "beta": (3,)}, dtypes=("int32",),
           error="data has type int32"),
    group_norm((2, 4, 5), 2),
    group_norm((2, 4, 5), 1),
    group_norm((2, 4, 5, 13), 2, {"output_mean_var": True}, outputs=(0,), note="long rows"),
    group_norm((2, 4, 3, 3), 4, {"eps": 1e-2}),
    group_norm((3, 6, 2, 2, 2), 3, {"output_mean_var": True}, outputs=(0,)),
    group_norm((3, 6, 2), 3, {"output_mean_var": True}, is_train=False),
    group_norm((2, 4, 5), 3, error="num_groups is 3"),
    group_norm((2, 4), 2, error="at least 3 dimensions"),
    instance_norm((2, 3, 4)),
    instance_norm((2, 3, 4, 5), {"eps": 1e-2}),
    instance_norm((2, 3, 2, 3, 4), is_train=False),
    Sample("InstanceNorm", {"data": (3,), "gamma": (3,), "beta": (3,)}, error="at least"),
    Sample("L2Normalization", {"data": (3, 7)}),
    # an element divided by itself: its gradient is nothing but rounding
    Sample("L2Normalization", {"data": (3,)}, grad=()),
    Sample("L2Normalization", {"data": (2, 3, 4, 5)}, {"eps": 0.5}),
    Sample("L2Normalization", {"data": (2, 3, 70)}, {"mode": "channel"}),
    Sample("L2Normalization", {"data": (2, 3, 4, 5)}, {"mode": "channel", "eps": 0.1}),
    Sample("L2Normalization", {"data": (2, 3, 4, 5)}, {"mode": "spatial"}),
    Sample("L2Normalization", {"data": (2, 3, 4)}, {"mode": "spatial"}, is_train=False),
    Sample("L2Normalization", {"data": (2, 3, 4)}, {"mode": "channel"}, is_train=False),
    Sample("L2Normalization", {"data": (2, 3)}, {"mode": "channel"}, error="at least 3 dimensions"),
    Sample("L2Normalization", {"data": (2, 3)}, {"mode": "row"}, error="parameter mode"),
    *[
        Sample("LRN", {"data": (2, 7, 3, 4)}, {"nsize": n, "alpha": 0.3, "beta": 0.6, "knorm": 1.5},
               mx_dtypes=F32, why="MXNet's is float32 only")
        for n in (1, 3, 4, 5, 17)
    ],
    Sample("LRN", {"data": (2, 7, 3, 4)}, {"nsize": 5}, is_train=False, mx_dtypes=F32,
           why="MXNet's is float32 only"),
    Sample("LRN", {"data": (2, 7, 3)}, {"nsize": 3}, oracle=False, why="MXNet's needs 4-D"),
    Sample("LRN", {"data": (2, 7, 3, 4)}, error="parameter nsize is not given"),
    Sample("LRN", {"data": (7,)}, {"nsize": 3}, error="at least"),
]  # fmt: skip
