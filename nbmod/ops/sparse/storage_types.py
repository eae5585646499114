"""The storage type of every op's result, for every combination of storage types of its inputs.

Types are letters: `d` (default, dense), `r` (row_sparse), `c` (csr).  A rule maps those of the
inputs, such as "cd", to that of the first output.  Combinations without a rule *fall back*: sparse
inputs are converted to dense arrays, and the result is dense.  Facts are those of MXNet 1.9.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op import Op

__all__ = ["CSR_LABELS", "LETTERS", "STYPES", "result"]

STYPES = {"d": "default", "r": "row_sparse", "c": "csr"}
LETTERS = {stype: letter for letter, stype in STYPES.items()}

KEEPS_ZEROS = frozenset((
    "abs", "relu", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "negative", "square",
    "sqrt", "cbrt", "log1p", "expm1", "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh",
    "arctanh", "degrees", "radians", "_copy", "BlockGrad", "make_loss",
    "_contrib_round_ste", "_contrib_sign_ste", "_mul_scalar", "_div_scalar",
    "_scatter_plus_scalar", "_scatter_minus_scalar"))
"""Elementwise ops that are computed on the stored elements, and keep the places of them."""

CSR_LABELS = ("LinearRegressionOutput", "LogisticRegressionOutput")
"""Losses with labels in csr, which are a batch that is as large as the predictions."""
SAME = {"rr": "r", "cc": "c"}
RULES: dict[str, dict[str, str]] = {
    **dict.fromkeys(("elemwise_add", "elemwise_sub", "_grad_add"),
                    SAME | dict.fromkeys(("dr", "rd", "dc", "cd"), "d")),
    **dict.fromkeys(("_maximum", "_minimum", "_hypot"), SAME),
    "elemwise_mul": SAME | {"dr": "r", "rd": "r", "dc": "c", "cd": "c"},
    **dict.fromkeys(("broadcast_add", "broadcast_sub"), {"cd": "d"}),
    **dict.fromkeys(("broadcast_mul", "broadcast_div"), {"cd": "c"}),
    "zeros_like": {"r": "r", "c": "c"},
    "_scatter_elemwise_div": {"rd": "r", "rr": "r", "rc": "r"},
    **dict.fromkeys(("sum", "mean", "norm"), {"r": "d", "c": "d"}),
    "_sparse_retain": {"rd": "r"},
    "_contrib_getnnz": {"c": "d"},
    "where": {"cdd": "d"},
    "Embedding": {"dr": "d"},
    "_contrib_SparseEmbedding": {"dr": "d"},
    "FullyConnected": {"dr": "d", "drr": "d", "drd": "d", "ddr": "d"},
    **dict.fromkeys(CSR_LABELS, {"dc": "d"}),
}
"""Op -> rules for its inputs."""


def result(op: Op, letters: str, natural: bool = False) -> str | None:
    """The letter of the first output; None: the op falls back.

    `natural`: the letter of what the op computes, before a conversion that a parameter asks for.
    """
    if op.name in KEEPS_ZEROS:
        return letters if letters in ("r", "c") else None
    if op.name == "dot":
        letter = None if natural else LETTERS.get(getattr(op, "forward_stype", None) or "")
        return letter or _dot(op, letters)
    if op.name in CONDITIONAL:
        return CONDITIONAL[op.name](op, letters)
    return RULES.get(op.name, {}).get(letters)


def _if(condition: Callable[[Any], bool]) -> Callable[[Any, str], str | None]:
    """The rule of an op of one input that keeps zeros with some parameters only."""
    return lambda op, letters: letters if condition(op) else None


def _square_sum(op: Any, letters: str) -> str | None:
    if letters != "r" or op.axis not in ((0,), (1,)) or op.exclude:
        return None
    return "r" if op.axis == (1,) and op.keepdims else "d"


def _dot(op: Any, letters: str) -> str | None:
    if letters == "dc":
        return None if op.transpose_a else "c"
    if letters in ("cd", "cr") and not op.transpose_b:
        return "r" if op.transpose_a else "d"
    return None


CONDITIONAL: dict[str, Callable[[Any, str], str | None]] = {
    "_plus_scalar": lambda op, letters: letters if op.scalar == 0 else "d",
    "_minus_scalar": lambda op, letters: letters if op.scalar == 0 else "d",
    "_equal_scalar": _if(lambda op: op.scalar != 0),
    "_not_equal_scalar": _if(lambda op: op.scalar == 0),
    "_greater_scalar": _if(lambda op: op.scalar >= 0),
    "_greater_equal_scalar": _if(lambda op: op.scalar > 0),
    "_lesser_scalar": _if(lambda op: op.scalar <= 0),
    "_lesser_equal_scalar": _if(lambda op: op.scalar < 0),
    "clip": _if(lambda op: op.a_min <= 0 <= op.a_max),
    "_contrib_quadratic": lambda op, letters: "c" if letters == "c" and op.c == 0 else None,
    "slice": lambda op, letters: "c" if letters == "c" and not any(op.step) else None,
    "add_n": lambda op, letters: "r" if set(letters) == {"r"} else None,
    "Concat": lambda op, letters: "c" if set(letters) == {"c"} and op.dim == 0 else None,
    "_square_sum": _square_sum,
    "take": lambda op, letters: {"cd": "c", "rd": "d"}.get(letters) if op.axis == 0 else None,
    "cast_storage": lambda op, letters: LETTERS[op.stype],
}
"""Rules that depend on parameters."""
