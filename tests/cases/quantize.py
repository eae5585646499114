"""Quantization: quantize, dequantize, requantize, and operators on quantized tensors."""

from __future__ import annotations

from typing import Any

from tests.cases.sample import Input, Sample, array, integers, uniform

ONE = ("float32",)  # every input names its type


def s8(*shape: int) -> Input:
    return integers(-127, 128, shape, "int8")


def u8(*shape: int) -> Input:
    return integers(0, 256, shape, "uint8")


def s32(*shape: int) -> Input:
    return integers(-(2**24), 2**24, shape, "int32")


def end(value: float) -> Input:
    """One bound of a range."""
    return array([value], "float32")


def ends(*values: float) -> dict[str, Input]:
    """Bounds of ranges under the names that most ops have for them."""
    names = ("min_data", "max_data", "min_weight", "max_weight", "min_bias", "max_bias")
    return {name: end(value) for name, value in zip(names, values, strict=False)}


def calibrated(low: float, high: float) -> dict[str, float]:
    return {"min_calib_range": low, "max_calib_range": high}


def sample(op: str, inputs: Any, attrs: Any = None, **more: Any) -> Sample:
    return Sample(f"_contrib_{op}", inputs, attrs or {}, grad=(), is_train=False, dtypes=ONE,
                  **more)


UNKNOWN = {"inference": False, "why": "MXNet takes a type it does not know for uint8"}


REAL, POSITIVE = uniform(-2.0, 3.0, (3, 40), "float32"), uniform(0.0, 3.0, (3, 40), "float32")
RANGE = {"min_range": end(-1.5), "max_range": end(2.25)}

QUANTIZE = [
    *[sample("quantize", {"data": REAL, **RANGE}, {"out_type": kind})
      for kind in ("int8", "uint8")],
    sample("quantize", {"data": POSITIVE, "min_range": end(0.0), "max_range": end(2.0)}),
    *[sample("quantize_v2", {"data": data}, {"out_type": kind, **attrs})
      for kind in ("int8", "uint8", "auto") for data in (REAL, POSITIVE)
      for attrs in ({}, calibrated(-1.0, 2.0), calibrated(0.0, 1.0))],
    sample("quantize_v2", {"data": s8(2, 3)}), sample("quantize_v2", {"data": u8(2, 3)},
                                                      {"out_type": "uint8"}),
    sample("quantize_v2", {"data": s8(2, 3)}, calibrated(-1.0, 2.0)),
    sample("quantize_v2", {"data": array([[0.0, 0.0]], "float32")}, oracle=False,
           why="MXNet divides by the range, which is 0, and makes 127 of it"),
    sample("quantize_v2", {"data": integers(0, 2, (2, 3), "int32")}, error="data has type int32"),
    *[sample("dequantize", {"data": data, **RANGE}) for data in (s8(2, 3, 5), u8(30))],
    sample("dequantize", {"data": u8(1), "min_range": end(0.0), "max_range": end(2.0)}),
    sample("dequantize", {"data": s32(3), **RANGE}, error="data has type int32.*uint8 or int8"),
    *[sample("requantize", {"data": s32(4, 50), "min_range": end(-200.0), "max_range": end(200.0)},
             {"out_type": kind, **attrs}) for kind in ("int8", "uint8", "auto")
      for attrs in ({}, calibrated(-1.0, 1.2), calibrated(0.0, 0.7))],
]  # fmt: skip

STEPS = [uniform(low, 3.0, (4, 2, 8), "float32") for low in (-2.0, 1.0)]
ASYMMETRIC = [sample("quantize_asym", {"data": data}, attrs) for data in STEPS
              for attrs in ({}, calibrated(-1.0, 2.0))]  # fmt: skip

IMAGE, FILTERS = (2, 3, 7, 6), s8(4, 3, 3, 2)
DATA_WEIGHT = ends(-0.25, 2.0, -1.5, 0.75)

SOUND = {"oracle": False, "why": "MXNet takes the steps of uint8 data for those of int8 on a CPU, "
                                 "and does not rescale the bias"}

LAYERS = [
    sample("quantized_conv", {"data": u8(*IMAGE), "weight": FILTERS, **DATA_WEIGHT},
           {"kernel": (3, 2), "num_filter": 4, "no_bias": True}, **SOUND),
    *[sample("quantized_conv", {"data": data, "weight": FILTERS, "bias": s8(4),
                                **ends(0.0, 2.0, -1.5, 0.75, -0.5, 0.25)},
             {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "pad": (1, 0)}, **SOUND)
      for data in (u8(*IMAGE), s8(*IMAGE))],
    sample("quantized_conv", {"data": u8(1, 600, 3, 3), "weight": s8(2, 600, 1, 1), **DATA_WEIGHT},
           {"kernel": (1, 1), "num_filter": 2, "no_bias": True}, note="sums in parts", **SOUND),
    sample("quantized_conv", {"data": u8(1, 1, 24, 24), "weight": s8(2, 1, 24, 24), **DATA_WEIGHT},
           {"kernel": (24, 24), "num_filter": 2, "no_bias": True}, note="many taps", **SOUND),
    sample("quantized_conv", {"data": s8(2, 4, 5, 5), "weight": s8(6, 2, 3, 3), **DATA_WEIGHT},
           {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "dilate": (2, 2), "no_bias": True},
           oracle=False, why="MXNet takes uint8 data only"),
    sample("quantized_conv", {"data": u8(1, 5, 5, 3), "weight": s8(4, 3, 3, 3), **DATA_WEIGHT},
           {"kernel": (3, 3), "num_filter": 4, "no_bias": True, "layout": "NHWC"},
           error="expected channels second"),
    *[sample("quantized_fully_connected", {"data": data, "weight": s8(40, 30), **DATA_WEIGHT},
             {"num_hidden": 40, "no_bias": True}) for data in (u8(2, 3, 10), s8(2, 30))],
    *[sample("quantized_fully_connected",
             {"data": data, "weight": s8(40, 30), "bias": s8(40),
              **ends(-0.25, 2.0, -1.5, 0.75, -0.5, 0.25)}, {"num_hidden": 40})
      for data in (u8(2, 30), s8(1, 30))],
    sample("quantized_fully_connected", {"data": s8(2, 3, 10), "weight": s8(4, 10), **DATA_WEIGHT},
           {"num_hidden": 4, "no_bias": True, "flatten": False}),
    *[sample("quantized_pooling", {"data": data, **ends(-1.0, 2.0)},
             {"kernel": (3, 3), "pool_type": kind, **attrs})
      for data in (u8(2, 3, 8, 8), s8(2, 3, 8, 8)) for kind in ("max", "avg")
      for attrs in ({}, {"pad": (1, 1), "stride": (2, 2)},
                    {"stride": (2, 2), "pooling_convention": "full"})],
    sample("quantized_pooling", {"data": s8(2, 3, 8, 8), **ends(-1.0, 2.0)},
           {"kernel": (3, 3), "pool_type": "avg", "pad": (1, 1), "count_include_pad": False}),
    sample("quantized_pooling", {"data": u8(2, 3, 8, 8), **ends(-1.0, 2.0)},
           {"kernel": (1, 1), "pool_type": "avg", "global_pool": True}),
    sample("quantized_pooling", {"data": u8(2, 3, 4, 8, 8), **ends(-1.0, 2.0)},
           {"kernel": (2, 3, 3), "stride": (2, 2, 2)}),
    sample("quantized_pooling", {"data": u8(2, 3, 8, 8), **ends(-1.0, 2.0)},
           {"kernel": (2, 2), "pool_type": "sum"}, error="pool_type is 'sum'"),
    sample("quantized_act", {"data": s8(2, 3, 4), **ends(-1.0, 2.0)}, {"act_type": "relu"}),
    sample("quantized_act", {"data": u8(2, 3), **ends(0.0, 2.0)}, {"act_type": "relu"},
           oracle=False, why="MXNet gives int8, in which values from 128 on are negative"),
    sample("quantized_act", {"data": s8(2, 3), **ends(-1.0, 2.0)}, {"act_type": "tanh"},
           error="act_type is 'tanh', expected 'relu'"),
    *[sample("quantized_flatten", {"data": data, **ends(-1.0, 2.0)})
      for data in (s8(2, 3, 4), u8(2, 3))],
]  # fmt: skip

PAIR = {"lhs_min": end(-0.3), "lhs_max": end(2.7), "rhs_min": end(-1.1), "rhs_max": end(1.3)}
BN = {"gamma": uniform(0.5, 1.5, (3,), "float32"), "beta": uniform(-1.0, 1.0, (3,), "float32"),
      "moving_mean": uniform(-1.0, 1.0, (3,), "float32"),
      "moving_var": uniform(0.5, 2.0, (3,), "float32")}  # fmt: skip
ROWS = {"weight": s8(5, 3), "min_weight": end(-1.0), "max_weight": end(2.0)}

ELEMENTS = [
    *[sample("quantized_concat", (x, y, end(-0.5), end(1.0), end(-2.0), end(0.25)),
             {"num_args": 2, "dim": 1}, **UNKNOWN) for x, y in
      ((u8(2, 3, 4, 4), u8(2, 1, 4, 4)), (s8(2, 3, 4, 4), s8(2, 2, 4, 4)),
       (u8(2, 3, 4, 4), s8(2, 2, 4, 4)))],
    sample("quantized_concat", (u8(2, 3), s8(2, 2), end(-0.5), end(1.0), end(-2.0), end(0.25)),
           {"num_args": 2, "dim": -1}, oracle=False, why="MXNet crashes on a negative axis"),
    # Each with a shape of its own: MXNet keeps the primitive of a shape, its first scales included.
    *[sample("quantized_elemwise_add", {"lhs": kind(*shape), "rhs": kind(*shape), **PAIR},
             calibrated(*ends), **UNKNOWN)
      for kind, shape, ends in ((u8, (2, 50), (-3.0, 3.5)), (u8, (2, 51), (-1.0, 1.0)),
                                (s8, (2, 3, 5, 5), (-3.0, 3.5)), (s8, (2, 3, 5, 6), (-1.0, 1.0)))],
    *[sample("quantized_elemwise_add", {"lhs": x, "rhs": y, **PAIR}, calibrated(-3.0, 3.5),
             **UNKNOWN) for x, y in ((u8(2, 50), s8(2, 50)), (s8(2, 50), u8(2, 50)))],
    *[sample("quantized_elemwise_add", {"lhs": x, "rhs": x, **PAIR}, oracle=False,
             why="MXNet's sums are float32, which is off by 128 of 2**31 steps")
      for x in (s8(2, 50), u8(2, 50))],
    sample("quantized_elemwise_add", {"lhs": s8(2, 50), "rhs": u8(2, 50), **PAIR}, oracle=False,
           why="MXNet cuts the uint8 tensor off at 127 of 2**31 steps"),
    *[sample("quantized_elemwise_mul", {"lhs": s8(2, 50), "rhs": s8(2, 50), **PAIR}, attrs)
      for attrs in ({}, calibrated(-3.0, 3.5), {"enable_float_output": True})],
    sample("quantized_elemwise_mul", {"lhs": u8(2, 5), "rhs": s8(2, 5), **PAIR},
           error="lhs has type uint8, expected int8"),
    *[sample("quantized_batch_norm", {"data": data, **BN, **ends(-0.4, 2.7)},
             {"eps": 0.1, "fix_gamma": fixed, **calibrated(-4.0, 3.0)})
      for data in (s8(2, 3, 6, 6), u8(2, 3, 6, 6)) for fixed in (True, False)],
    sample("quantized_batch_norm", {"data": s8(2, 3, 6, 6), **BN, **ends(-0.4, 2.7)},
           error="must be calibrated"),
    sample("quantized_embedding", {"data": integers(-2, 8, (2, 6), "float32"), **ROWS},
           {"input_dim": 5, "output_dim": 3}),
    sample("quantized_embedding", {"data": integers(0, 5, (4,), "int32"), **ROWS},
           {"input_dim": 5, "output_dim": 3}),
]  # fmt: skip



def entropy(bins: int, levels: int, **more: Any) -> Sample:
    """Of a histogram with a few outliers."""
    counts = integers(0, 50, (bins,), "float32")
    edges = array([2.0 * i / bins - 1 for i in range(bins + 1)], "float32")
    return sample("calibrate_entropy", {"hist": counts, "hist_edges": edges},
                  {"num_quantized_bins": levels}, **more)


CALIBRATION = [
    entropy(101, 15), entropy(801, 255), entropy(255, 255),
    entropy(100, 15, error="expected an odd number of bins"),
    entropy(101, 255, error="at least num_quantized_bins = 255"),
]  # fmt: skip

ABSENT = {"oracle": False, "why": "MXNet's packages are built without them"}
FLOATS, STEP = uniform(-2.0, 3.0, (3, 40), "float32"), array([0.01], "float32")
PREPARED, BIAS = s8(6, 40), {"int32": s32(6), "float32": uniform(-1.0, 1.0, (6,), "float32")}

INTGEMM = [
    *[sample("intgemm_maxabsolute", {"data": data}, **ABSENT)
      for data in (FLOATS, uniform(-3.0, -2.0, (2, 3, 5), "float32"))],
    sample("intgemm_maxabsolute", {"data": s8(3)}, error="data has type int8, expected float32"),
    *[sample("intgemm_prepare_data", {"data": FLOATS, "maxabs": end(most)}, **ABSENT)
      for most in (3.0, 1.0)],
    sample("intgemm_prepare_weight", {"weight": FLOATS, "maxabs": end(3.0)}, **ABSENT),
    sample("intgemm_prepare_weight", {"weight": PREPARED}, {"already_quantized": True}, **ABSENT),
    sample("intgemm_prepare_weight", {"weight": FLOATS}, {"already_quantized": True},
           error="weight has type float32, expected int8"),
    *[sample("intgemm_take_weight", {"weight": s8(6, *rest), "indices": array(rows, "int32")},
             **ABSENT) for rest, rows in (((40,), [5, 0, 5]), ((2, 4), [3]))],
    *[sample("intgemm_fully_connected",
             {"data": data, "weight": PREPARED, **({} if kind == "int32" else {"scaling": STEP}),
              **({"bias": BIAS[kind]} if bias else {})},
             {"num_hidden": 6, "no_bias": not bias, "out_type": kind}, **ABSENT)
      for data in (s8(3, 40), FLOATS) for kind in ("float32", "int32") for bias in (True, False)],
    *[sample("intgemm_fully_connected",
             {"data": s8(2, 5, 8), "weight": s8(6, 40 if flat else 8), "scaling": STEP},
             {"num_hidden": 6, "no_bias": True, "flatten": flat}, **ABSENT)
      for flat in (True, False)],
    sample("intgemm_fully_connected", {"data": s8(3, 40), "weight": s8(5, 40), "scaling": STEP},
           {"num_hidden": 6, "no_bias": True}, error="weight has shape"),
    sample("intgemm_fully_connected", {"data": u8(3, 40), "weight": PREPARED, "scaling": STEP},
           {"num_hidden": 6, "no_bias": True}, error="data has type uint8, expected float32 or"),
]  # fmt: skip

SAMPLES = QUANTIZE + ASYMMETRIC + LAYERS + ELEMENTS + CALIBRATION + INTGEMM
