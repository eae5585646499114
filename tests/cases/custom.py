"""Custom: the operators are in `tests.programs.custom_ops`, more in test_custom_op.py."""

from __future__ import annotations

from tests.cases import Sample, label, nonzero

MIX = {"data": (3, 4), "weight": nonzero((4,)), "runs": label(5, (1,), "float32")}

SAMPLES = [
    Sample("Custom", MIX, {"op_type": "test_mix"}, grad=("data", "weight")),
    Sample("Custom", MIX, {"op_type": "test_mix", "factor": 2}, grad=("weight",)),
    Sample("Custom", MIX, {"op_type": "test_mix"}, is_train=False),
    Sample("Custom", tuple(MIX.values()), {"op_type": "test_mix", "factor": -1.5},
           grad=("x0", "x1")),
    Sample("Custom", {"data": (4, 3), "label": label(3, (4,))}, {"op_type": "test_softmax"},
           loss=True, dtypes=("float32",)),
    Sample("Custom", {"data": (4, 3), "label": label(3, (5,))}, {"op_type": "test_softmax"},
           error=r"label has shape \(5,\), expected \(4,\)"),
    Sample("Custom", {"data": (4, 3)}, {"op_type": "nobody"},
           error="no custom operator is registered as 'nobody'"),
    Sample("Custom", {"data": (4, 3)}, {}, error="required parameter op_type is not given"),
    Sample("Custom", {"data": (4, 3), "more": (3,)}, {"op_type": "test_mix"},
           error="no input 'more'"),
]
