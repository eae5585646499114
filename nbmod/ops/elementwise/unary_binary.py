"""Elementwise ops: one table of functions of one tensor, one of functions of two of equal shape.

A row is the meaning, the formula and the gradients of an op (see `formula_op`).  The table of two
operands, `BINARY`, also serves the families that broadcast or take a scalar for one operand.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ..shape import ShapeMismatch, Shapes
from .formula_op import FormulaOp, define

__all__ = ["BINARY", "REGULAR", "Binary", "Unary"]


class Unary(FormulaOp):
    """A function of one tensor."""


UNARY: tuple[tuple[str, str, str, str], ...] = (
    # name, y, gx, meaning
    ("abs", "abs(x)", "where(x > 0, gy, where(x < 0, -gy, 0))",
     "Absolute value; its gradient at 0 is 0."),
    ("sign", "where(x > 0, 1, where(x < 0, -1, 0))", "0", "-1, 0 or 1."),
    ("round", "trunc(x) - where(abs(x - trunc(x)) >= 0.5, where(x > 0, -1, 1), 0)", "0",
     "The nearest whole number, halves away from 0."),
    ("rint", "where(x - floor(x) <= ceil(x) - x, floor(x), ceil(x))", "0",
     "The nearest whole number, halves down."),
    ("ceil", "ceil(x)", "0", "The smallest whole number not below x."),
    ("floor", "floor(x)", "0", "The largest whole number not above x."),
    ("trunc", "trunc(x)", "0", "x without its fraction."),
    ("fix", "trunc(x)", "0", "The nearest whole number towards 0."),
    ("square", "x * x", "2 * x * gy", "Square."),
    ("sqrt", "sqrt(x)", "0.5 * gy / y", "Square root."),
    ("rsqrt", "1 / sqrt(x)", "-0.5 * gy * y * y * y", "Reciprocal of the square root."),
    ("cbrt", "cbrt(x)", "gy / (3 * y * y)", "Cube root."),
    ("rcbrt", "1 / cbrt(x)", "gy * y * y * y * y / -3", "Reciprocal of the cube root."),
    ("exp", "exp(x)", "gy * y", "e to the power of x."),
    ("log", "log(x)", "gy / x", "Natural logarithm."),
    ("log10", "log10(x)", "gy / (2.302585092994046 * x)", "Logarithm to base 10."),
    ("log2", "log2(x)", "gy / (0.6931471805599453 * x)", "Logarithm to base 2."),
    ("log1p", "log1p(x)", "gy / (1 + x)", "log(1 + x), accurate near 0."),
    ("expm1", "expm1(x)", "gy * exp(x)", "exp(x) - 1, accurate near 0."),
    ("sin", "sin(x)", "gy * cos(x)", "Sine of x radians."),
    ("cos", "cos(x)", "-gy * sin(x)", "Cosine of x radians."),
    ("tan", "tan(x)", "gy * (1 + y * y)", "Tangent of x radians."),
    ("arcsin", "arcsin(x)", "gy / sqrt(1 - x * x)", "Inverse of sin, in radians."),
    ("arccos", "arccos(x)", "-gy / sqrt(1 - x * x)", "Inverse of cos, in radians."),
    ("arctan", "arctan(x)", "gy / (1 + x * x)", "Inverse of tan, in radians."),
    ("sinh", "sinh(x)", "gy * cosh(x)", "Hyperbolic sine."),
    ("cosh", "cosh(x)", "gy * sinh(x)", "Hyperbolic cosine."),
    ("tanh", "tanh(x)", "gy * (1 - y * y)", "Hyperbolic tangent."),
    ("arcsinh", "arcsinh(x)", "gy / sqrt(1 + x * x)", "Inverse of sinh."),
    ("arccosh", "arccosh(x)", "gy / sqrt(x * x - 1)", "Inverse of cosh."),
    ("arctanh", "arctanh(x)", "gy / (1 - x * x)", "Inverse of tanh."),
    ("degrees", "x * 57.29577951308232", "gy * 57.29577951308232", "Radians as degrees."),
    ("radians", "x * 0.017453292519943295", "gy * 0.017453292519943295", "Degrees as radians."),
    ("negative", "-x", "-gy", "The negative."),
    ("relu", "where(x <= 0, 0, x)", "where(y > 0, gy, y)",
     "x where it is positive, else 0; NaN, and its gradient, is NaN."),
    ("sigmoid", "1 / (1 + exp(-x))", "gy * y * (1 - y)", "The logistic function."),
    ("gamma", "gamma(x)", "gy * y * digamma(x)", "The gamma function."),
    ("gammaln", "gammaln(x)", "gy * digamma(x)", "Logarithm of |gamma(x)|."),
)
"""These have a `_sparse_` alias in MXNet."""

DENSE_UNARY: tuple[tuple[str, str, str, str], ...] = (
    ("reciprocal", "1 / x", "-gy * y * y", "1 / x."),
    ("softsign", "x / (1 + abs(x))", "gy / ((1 + abs(x)) * (1 + abs(x)))",
     "A smooth step from -1 to 1."),
    ("erf", "erf(x)", "gy * 1.1283791670955126 * exp(-x * x)", "The error function."),
    ("erfinv", "erfinv(x)", "gy * 0.886226925452758 * exp(y * y)", "Inverse of erf."),
    ("logical_not", "where(x == 0, 1, 0)", "0", "1 where x is 0, else 0."),
)


def _define_unary() -> None:
    for rows, sparse in ((UNARY, True), (DENSE_UNARY, False)):
        for name, formula, gradient, meaning in rows:
            # rcbrt is the one of its family that MXNet never made sparse
            alias = [f"_sparse_{name}"] if sparse and name != "rcbrt" else []
            define(Unary, name, meaning, formula, {} if gradient == "0" else {"x": gradient},
                   alias, __name__)
    for name, of in (("_contrib_round_ste", "round"), ("_contrib_sign_ste", "sign")):
        formula, meaning = next((row[1], row[3]) for row in UNARY if row[0] == of)
        define(Unary, name, f"{meaning}  Its gradient passes straight through.", formula,
               {"x": "gy"}, [f"_sparse_{name}"], __name__)


class BinaryFormula(NamedTuple):
    """A function of a and b: its formula, the gradients of both (None: 0), what it means."""

    formula: str
    ga: str | None
    gb: str | None
    meaning: str

    def gradients(self) -> dict[str, str]:
        return {letter: formula for letter, formula in (("a", self.ga), ("b", self.gb)) if formula}


def _test(condition: str, meaning: str) -> BinaryFormula:
    return BinaryFormula(f"where({condition}, 1, 0)", None, None, f"1 where {meaning}, else 0.")


BINARY = {
    "add": BinaryFormula("a + b", "gy", "gy", "Sum."),
    "sub": BinaryFormula("a - b", "gy", "-gy", "Difference."),
    "mul": BinaryFormula("a * b", "gy * b", "gy * a", "Product."),
    "div": BinaryFormula("a / b", "gy / b", "-gy * a / (b * b)",
                         "Quotient; that of integers is truncated."),
    "mod": BinaryFormula("mod(a, b)", "gy", "-gy * floor(a / b)",
                         "Remainder with the sign of the divisor; 0 where that is 0.  Over "
                         "integers its gradient is 0."),
    "power": BinaryFormula("a ** b", "gy * b * a ** (b - 1)", "gy * a ** b * log(a)",
                           "a to the power of b."),
    "hypot": BinaryFormula("hypot(a, b)", "gy * a / y", "gy * b / y", "sqrt(a^2 + b^2)."),
    "maximum": BinaryFormula("maximum(a, b)", "where(a >= b, gy, 0)", "where(a < b, gy, 0)",
                             "The larger; the gradient of a tie is a's."),
    "minimum": BinaryFormula("minimum(a, b)", "where(a <= b, gy, 0)", "where(a > b, gy, 0)",
                             "The smaller; the gradient of a tie is a's."),
    "equal": _test("a == b", "a is b"),
    "not_equal": _test("a != b", "a is not b"),
    "greater": _test("a > b", "a is above b"),
    "greater_equal": _test("a >= b", "a is not below b"),
    "lesser": _test("a < b", "a is below b"),
    "lesser_equal": _test("a <= b", "a is not above b"),
    "logical_and": BinaryFormula("where(a != 0, where(b != 0, 1, 0), 0)", None, None,
                                 "1 where neither is 0, else 0."),
    "logical_or": BinaryFormula("where(a != 0, 1, where(b != 0, 1, 0))", None, None,
                                "1 where a or b is not 0, else 0."),
    "logical_xor": BinaryFormula("where((a != 0) == (b != 0), 0, 1)", None, None,
                                 "1 where exactly one of a and b is not 0, else 0."),
}
REGULAR = tuple(BINARY)[4:]
"""Functions whose ops have regular names; those before have several."""


class Binary(FormulaOp):
    """A function of two tensors of one shape."""

    inputs: ClassVar = ("lhs", "rhs")
    letters: ClassVar = {"a": "lhs", "b": "rhs"}
    inplace: ClassVar = (("lhs", "output"), ("rhs", "output"))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        try:
            return super().infer_shape(ins, outs)
        except ShapeMismatch as error:
            raise ShapeMismatch(f"{error} (lhs {ins[0]}, rhs {ins[1]}); {self.name} does not "
                                "broadcast, the broadcast_ ops do") from None


def _define_binary() -> None:
    for name, key, *aliases in (
        ("elemwise_add", "add", "_Plus", "_add", "_plus", "_sparse_elemwise_add"),
        ("elemwise_sub", "sub", "_Minus", "_minus", "_sparse_elemwise_sub", "_sub"),
        ("elemwise_mul", "mul", "_Mul", "_mul", "_sparse_elemwise_mul"),
        ("elemwise_div", "div", "_Div", "_div", "_sparse_elemwise_div"),
        ("_scatter_elemwise_div", "div"),
        ("_grad_add", "add"),
        *((f"_{key}", key, f"_{key.title()}") for key in REGULAR),
    ):
        row = BINARY[key]
        define(Binary, name, row.meaning, row.formula, row.gradients(), aliases, __name__)


_define_unary()
_define_binary()
