"""Loss layers: backward is declared, so MXNet is the only reference."""

from __future__ import annotations

from tests.cases import AT_LEAST_32, Input, Sample, array, distinct, label, normal, uniform

# in range, negative, too large, and truncated to 1
ODD = array([0, -1, 7, 1.9])
WIDE = (64, 65)  # large enough for kernels instead of NumPy


TIMES_HEAD = {"oracle": False, "dtypes": ("float32", "float16"),
              "why": "MXNet multiplies by the output; declared, so no differences in float64"}


def soft(data, labels, attrs: dict | None = None, **options) -> Sample:
    """SoftmaxOutput with the gradient of data."""
    times_head = "out_grad" in (attrs or {})
    options = {"loss": not times_head, "grad": ("data",), "free": ("label",),
               **(TIMES_HEAD if times_head else {})} | options
    return Sample("SoftmaxOutput", {"data": data, "label": labels}, attrs or {}, **options)


def multi(labels: tuple[int, ...], attrs: dict | None = None, **options) -> Sample:
    return soft((2, 3, 2, 2), label(3, labels), {"multi_output": True, **(attrs or {})}, **options)


IGNORE = {"use_ignore": True, "ignore_label": 1}
VALID = {"normalization": "valid"}
BATCH = {"normalization": "batch"}

ATTRS = (
    {}, {"use_ignore": True}, {"use_ignore": True, "ignore_label": 1.7}, BATCH, VALID,
    {**VALID, "use_ignore": True}, {**VALID, **IGNORE}, {**VALID, "ignore_label": 0},
    {"grad_scale": 0.3}, {"smooth_alpha": 0.2}, {"smooth_alpha": 0.2, **IGNORE},
    {"out_grad": True}, {"out_grad": True, **IGNORE, **VALID},
    {"out_grad": True, "smooth_alpha": 0.2, **BATCH},
)
# labels that are no class: errors, unless NBMOD_CHECK_LABELS=0
NO_CLASS = [soft((4, 5), ODD, attrs) for attrs in ATTRS]

SOFTMAX = [
    # in range, ignored, the last one, and truncated to 1
    *[soft((4, 5), array([0, int(attrs.get("ignore_label", -1)), 4, 1.9]), attrs)
      for attrs in ATTRS],
    soft((2, 3), array([1, 1]), {**VALID, "ignore_label": 1}, note="no valid label"),
    soft((4, 1), label(1, (4,))),
    soft(WIDE, label(65, (64,)), {"smooth_alpha": 0.1, **VALID}),
    soft(WIDE, label(3, (64,)), {**IGNORE, "grad_scale": 2}),
    soft((16, 5, 8, 8), label(5, (16, 64)), {"multi_output": True, **IGNORE, **VALID}),
    soft((16, 5, 8, 8), label(5, (16, 64)), {"multi_output": True, "out_grad": True}),
    *[soft((4, 5), uniform(0, 1, (4, 5)), attrs, note="probabilities")
      for attrs in ({}, BATCH, {"grad_scale": 0.3}, {"out_grad": True}, {"multi_output": True})],
    *[multi(shape) for shape in ((2, 4), (2, 2, 2), (2, 1, 2, 2))],
    *[multi((2, 4), attrs) for attrs in (
        BATCH, VALID, IGNORE, {**VALID, **IGNORE}, {"grad_scale": 3}, {"smooth_alpha": 0.2},
        {"out_grad": True})],
    multi((2, 4), is_train=False),
    soft((2, 3, 4), uniform(0, 1, (2, 3, 4)), {"multi_output": True}, note="probabilities"),
    soft((4, 5), label(5, (4,)), {"multi_output": True}),
    soft((4, 5), label(5, (4, 1)), {"multi_output": True}),
    soft((2, 3, 4), label(4, (2, 3)), note="only the first labels are read"),
    soft((2, 3, 4), label(4, (2, 3)), BATCH, note="only the first labels are read"),
    *[soft((2, 3, 4), label(4, (2, 3)), {"preserve_shape": True, **attrs})
      for attrs in ({}, BATCH, {**VALID, **IGNORE}, {"smooth_alpha": 0.1})],
    soft((4, 5), label(5, (5,)), error="label has shape \\(5,\\), expected \\(4,\\) or \\(4, 5\\)"),
    soft((4, 5), label(5, (4, 1)), error="label has shape"),
    soft((2, 3, 4), label(3, (2, 3)), {"multi_output": True}, error="label has shape"),
    soft((5,), label(5, (5,)), error="expected at least \\(N, K\\)"),
    soft((4, 5), label(5, (4,)), {"normalization": "all"}, error="parameter normalization"),
    soft((4, 5), label(5, (4,)), dtypes=("int32",), error="data has type int32"),
]  # fmt: skip


def regression(data, labels, attrs: dict | None = None, **options) -> list[Sample]:
    names = ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
    inputs = {"data": data, "label": labels}
    options = {"loss": True, "grad": ("data",), "free": ("label",)} | options
    return [Sample(name, inputs, attrs or {}, **options) for name in names]


REGRESSION = [
    *regression((4, 5), (4, 5)),
    *regression((4, 5), (4, 5), {"grad_scale": 0.3}),
    *regression((4, 1), (4,)),
    *regression((4,), (4,)),
    *regression((4,), (4, 1)),
    *regression((2, 3, 4), (2, 3, 4), is_train=False),
    *regression((2, 3, 4), (2, 3, 4)),
    *regression((4, 6), (4, 2, 3)),
    *regression(WIDE, WIDE, {"grad_scale": 2}),
    *regression(array([[1, 2, 3]]), array([[1, 3, 2]]), note="MAE at its kink"),
    *regression((4, 5), (4,), error="label has shape \\(4,\\), expected \\(4, 5\\)"),
    *regression((4, 5), (5, 4), error="label has shape"),
    *regression((4, 5), (4, 5), dtypes=("int32",), error="data has type int32"),
]


def svm(attrs: dict, data=(4, 5), labels: Input | None = None, **options) -> Sample:
    inputs = {"data": data, "label": labels or label(5, (4,))}
    return Sample("SVMOutput", inputs, attrs, **{"loss": True, "grad": ("data",)} | options)


def make_loss(attrs: dict, data=(4, 5), **options) -> Sample:
    return Sample("MakeLoss", {"data": data}, attrs, loss=True, **options)


HALF_MARGIN = {"margin": 0.5, "regularization_coefficient": 0.3}
OTHERS = [
    svm({}),
    svm({"use_linear": True}),
    svm(HALF_MARGIN),
    svm({**HALF_MARGIN, "use_linear": True}),
    svm({}, labels=ODD),
    svm({}, (2, 3, 2), label(3, (2, 3))),
    svm({}, is_train=False),
    svm({}, labels=label(5, (5,)), error="label has shape"),
    svm({}, (4,), label(5, (4,)), error="expected at least"),
    make_loss({}),
    make_loss({"grad_scale": 0.3}),
    make_loss({"grad_scale": 0.3, "normalization": "batch"}),
    make_loss({"normalization": "batch"}, (3, 5)),
    make_loss({"normalization": "batch"}, (5,)),
    make_loss({"normalization": "valid"}, distinct((4, 5))),
    make_loss({"normalization": "valid", "valid_thresh": 0.7}, distinct((4, 5))),
    make_loss({"normalization": "valid", "valid_thresh": 7}),
    make_loss({}, is_train=False),
    make_loss({"normalization": "all"}, error="parameter normalization"),
    make_loss({}, dtypes=("int32",), error="data has type int32"),
    Sample("IdentityAttachKLSparseReg", {"data": uniform(0.1, 0.9, (6, 4)),
                                         "moving_avg": uniform(0.1, 0.9, (4,), AT_LEAST_32)},
           {"sparseness_target": 0.2, "penalty": 0.3, "momentum": 0.6}, grad=("data",),
           dtypes=("float32",)),  # its gradient is more than the derivative of forward
    Sample("IdentityAttachKLSparseReg", {"data": normal((6,)), "moving_avg": (6,)},
           error="expected \\(N, C\\)"),
]  # fmt: skip

SAMPLES = SOFTMAX + REGRESSION + OTHERS
