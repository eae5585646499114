"""Fused operators of MXNet's oneDNN back end; graphs of them: `tests.programs.fused_programs`."""

from __future__ import annotations

from typing import Any

from tests.cases.quantize import calibrated, end, s8, u8
from tests.cases.sample import Input, Sample, uniform

CONV = {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)}
DENSE = {"num_hidden": 6}
NORM = {"eps": 0.01, "fix_gamma": False}
UNIT = ("float32",)


def real(*shape: int) -> Input:
    return uniform(-1.0, 1.0, shape, "float32")


def weights(bias: bool = True, norm: bool = False) -> dict[str, Input]:
    found = {"weight": real(4, 3, 3, 3)}
    if bias:
        found["bias"] = real(4)
    if norm:
        found |= {"gamma": real(4), "beta": real(4), "moving_mean": real(4),
                  "moving_var": uniform(0.5, 2.0, (4,), "float32")}  # fmt: skip
    return found


def ends(**tensors: Input) -> dict[str, Input]:
    """A range for each tensor, under the names that convolutions have for them."""
    return {f"{name}_{which}": end(value) for number, (name, spec) in enumerate(tensors.items())
            for which, value in (("min", 0.0 if spec.dtype == "uint8" else -0.5 - number),
                                 ("max", 1.5 - number / 4))}  # fmt: skip


def swapped(found: dict[str, Input]) -> dict[str, Input]:
    """`min_data` for `data_min`."""
    return {"_".join(reversed(name.split("_"))): spec for name, spec in found.items()}


def conv(inputs: dict[str, Any], attrs: dict[str, Any], note: str, **more: Any) -> Sample:
    layer = CONV | ({} if "bias" in inputs else {"no_bias": True}) | attrs.pop("layer", {})
    flags = {"with_bn": "norm" in attrs, "with_act": "before" in attrs,
             "with_sum": "sum" in inputs, "with_postsum_act": "after" in attrs}  # fmt: skip
    attrs = {"layer": layer, **{key: "true" for key, on in flags.items() if on}, **attrs}
    return Sample("_sg_mkldnn_conv", inputs, attrs, grad=(), is_train=False, dtypes=UNIT,
                  note=note, **more)  # fmt: skip


def dense(inputs: dict[str, Any], attrs: dict[str, Any], note: str, **more: Any) -> Sample:
    layer = DENSE | ({} if "bias" in inputs else {"no_bias": True}) | attrs.pop("layer", {})
    flag = {"with_eltwise": "True"} if "before" in attrs else {}
    return Sample("_sg_mkldnn_fully_connected", inputs, {"layer": layer, **flag, **attrs}, grad=(),
                  is_train=False, dtypes=UNIT, note=note, **more)  # fmt: skip


IMAGE, OUT = (2, 3, 6, 5), (2, 4, 6, 5)
S8, U8, SUM = s8(*IMAGE), u8(*IMAGE), s8(*OUT)
QUANTIZED = {"quantized": "true"}
CALIBRATED = QUANTIZED | calibrated(-3.0, 4.0)
CUT = "without calibration MXNet forgets the limit of a clipped convolution"

CONVOLUTIONS = [
    conv({"data": real(*IMAGE), **weights()}, {}, "real"),
    conv({"data": real(*IMAGE), **weights(False, True)}, {"norm": NORM, "before": "relu"}, "real"),
    conv({"data": real(*IMAGE), **weights(True, True), "sum": real(*OUT)},
         {"norm": {"eps": 0.01}, "after": "relu"}, "real sum"),
    *[conv({"data": real(*IMAGE), **weights()}, {"before": act}, f"real {act}")
      for act in ("relu6", "leaky", "tanh", "gelu")],
    conv({"data": real(2, 4, 6, 5), "weight": real(4, 2, 3, 3)},
         {"layer": {"num_group": 2, "stride": (2, 2)}}, "real groups"),
    *[conv({"data": data, **weights(), **ends(data=data)}, CALIBRATED | act, f"8-bit {act}")
      for data in (S8, U8) for act in ({}, {"before": "relu"}, {"before": "relu6"},
                                                       {"before": "leaky"}, {"before": "gelu"})],
    *[conv({"data": S8, **weights(bias, True), **ends(data=S8)},
           CALIBRATED | {"norm": NORM | {"fix_gamma": fixed}}, f"8-bit norm {bias} {fixed}")
      for bias in (True, False) for fixed in (True, False)],
    *[conv({"data": U8, **weights(), "sum": other, **ends(data=U8, sum=other)},
           CALIBRATED | act, f"8-bit sum {act}")
      for other, act in ((SUM, {"after": "relu"}), (SUM, {}), (u8(*OUT), {"after": "relu"}))],
    conv({"data": U8, **weights(), "sum": u8(*OUT), **ends(data=U8, sum=u8(*OUT))},
         dict(CALIBRATED), "8-bit sum of uint8", oracle=False,
         why="MXNet takes numbers from 128 on for negative ones"),
    conv({"data": U8, **weights(), "sum": u8(*OUT), **ends(data=U8, sum=u8(*OUT))},
         CALIBRATED | {"before": "relu", "after": "relu"}, "8-bit two activations"),
    conv({"data": s8(2, 4, 6, 5), "weight": real(4, 1, 3, 3), **ends(data=s8(2, 4, 6, 5))},
         CALIBRATED | {"layer": {"num_group": 4}}, "8-bit depthwise"),
    conv({"data": u8(1, 600, 3, 3), "weight": real(4, 600, 1, 1), **ends(data=u8(1, 600, 3, 3))},
         CALIBRATED | {"layer": {"kernel": (1, 1), "pad": (0, 0)}}, "8-bit sums in parts"),
    *[conv({"data": data, **weights(), **ends(data=data)}, QUANTIZED | act, f"sums {act}")
      for data in (S8, U8) for act in ({}, {"before": "relu"})],
    conv({"data": S8, **weights(), "sum": SUM, **ends(data=S8, sum=SUM)},
         QUANTIZED | {"after": "relu"}, "sums and another"),
    conv({"data": S8, **weights(), **ends(data=S8)}, QUANTIZED | {"before": "relu6"},
         "clipped sums", oracle=False, why=CUT),
    conv({"data": real(*IMAGE), **weights(), **ends(data=S8)}, dict(CALIBRATED),
         "wrong type",
         error="data has type float32, expected uint8 or int8"),
    conv({"data": S8, "weight": real(4, 2, 3, 3), **ends(data=S8)}, dict(CALIBRATED),
         "wrong weight", error="weight has shape"),
]  # fmt: skip

ROWS = {"weight": s8(6, 10), "bias": s8(6)}
RANGES = swapped(ends(data=S8, weight=S8, bias=S8))
PER_ROW = {"channel_wise_quantize": "True"}

DENSES = [
    dense({"data": real(3, 10), "weight": real(6, 10), "bias": real(6)}, {}, "real"),
    dense({"data": real(3, 2, 5), "weight": real(6, 10)}, {"before": "relu"}, "real"),
    dense({"data": real(2, 3, 5), "weight": real(6, 5)},
          {"layer": {"flatten": False}, "before": "gelu"}, "real rows"),
    *[dense({"data": data, **ROWS, **RANGES}, CALIBRATED | act, f"8-bit {act}")
      for data in (s8(3, 10), u8(3, 2, 5))
      for act in ({}, {"before": "relu"}, {"before": "leaky"}, {"before": "abs"},
                  {"before": "gelu"}, {"before": "relu6"})],
    *[dense({"data": data, **ROWS, **RANGES}, QUANTIZED | act, f"real output {act}")
      for data in (s8(3, 10), u8(3, 10))
      for act in ({"enable_float_output": "True"},
                  {"enable_float_output": "True", "before": "gelu"})],
    *[dense({"data": data, **ROWS, **RANGES}, dict(QUANTIZED), "sums")
      for data in (s8(3, 10), u8(3, 10))],
    dense({"data": s8(2, 3, 10), "weight": s8(6, 10), **swapped(ends(data=S8, weight=S8))},
          CALIBRATED | {"layer": {"flatten": False}}, "8-bit rows"),
    *[dense({"data": s8(3, 10), "weight": real(6, 10), "bias": real(6), **swapped(ends(data=S8))},
            attrs | PER_ROW, "a range per row")
      for attrs in (CALIBRATED, QUANTIZED | {"enable_float_output": "True"})],
]  # fmt: skip

SAMPLES = CONVOLUTIONS + DENSES
