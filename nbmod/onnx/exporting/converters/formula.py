"""Elementwise operators, from the formulas that define them.

The formula of an operator (`nbmod.ops.elementwise.formula`) is translated node by node, so that one
translator serves all of them.  Operators for which ONNX has a node of their own are in `DIRECT`.
A formula with a function that ONNX lacks gets no converter.
"""

from __future__ import annotations

import ast

import numpy as np

from ....base import DType
from ....ops import OPS
from ....ops.elementwise.formula import functions_in, integer_type, names_in, parse
from ....ops.elementwise.formula_op import FormulaOp
from ..converter import CONVERTERS, NodeExport, converts
from ..onnx_graph import Value

DIRECT = {"sign": "Sign", "reciprocal": "Reciprocal"}
"""Operators over floating-point elements that are one node."""
FUNCTIONS = {
    "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "arcsin": "Asin", "arccos": "Acos",
    "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "arcsinh": "Asinh",
    "arccosh": "Acosh", "arctanh": "Atanh", "erf": "Erf", "maximum": "Max", "minimum": "Min",
}
COMPOSED = {
    "trunc": "where(x < 0, ceil(x), floor(x))",
    "log2": "log(x) / 0.6931471805599453", "log10": "log(x) / 2.302585092994046",
    "log1p": "log(1 + x)", "expm1": "exp(x) - 1",
    "cbrt": "where(x < 0, -(abs(x) ** 0.3333333333333333), abs(x) ** 0.3333333333333333)",
    "mod": "where(y == 0, 0, x - y * floor(x / where(y == 0, 1, y)))",
    "hypot": "sqrt(x * x + y * y)",
}
"""Functions of formulas that ONNX lacks, by functions that it has."""
BINARY = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}
TESTS = {ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual",
         ast.Eq: "Equal", ast.NotEq: "Equal"}
WITHOUT_DOUBLE = {"arcsin", "arccos", "arctan", "tan", "sinh", "cosh", "arcsinh", "arccosh",
                  "arctanh"}
"""Functions that onnxruntime has over float32 only."""
ONNX_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
"""Integer types over which runtimes have all of these nodes."""


class Translation:
    """A formula being translated: the values of its names, and the type of computation."""

    def __init__(self, node: NodeExport, values: dict[str, Value], dtype: DType):
        self.node, self.values, self.dtype = node, values, dtype

    def value(self, tree: ast.expr) -> Value:
        """The value of an expression."""
        if isinstance(tree, ast.Name):
            return self.values[tree.id]
        if isinstance(tree, ast.Constant):
            return self.node.scalar(float(tree.value), self.dtype)  # type: ignore[arg-type]
        if isinstance(tree, ast.UnaryOp):
            return self._negative(tree)
        if isinstance(tree, ast.BinOp):
            return self.node.emit(BINARY[type(tree.op)], self.value(tree.left),
                                  self.value(tree.right))
        if isinstance(tree, ast.Compare):
            return self._test(tree)
        assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
        return self._call(tree.func.id, tree.args)

    def _negative(self, tree: ast.UnaryOp) -> Value:
        if isinstance(tree.operand, ast.Constant):
            return self.node.scalar(-float(tree.operand.value),  # type: ignore[arg-type]
                                    self.dtype)
        return self.node.emit("Neg", self.value(tree.operand))

    def _test(self, tree: ast.Compare) -> Value:
        kind = type(tree.ops[0])
        truth = self.node.emit(TESTS[kind], self.value(tree.left), self.value(tree.comparators[0]))
        return self.node.emit("Not", truth) if kind is ast.NotEq else truth

    def _call(self, name: str, arguments: list[ast.expr]) -> Value:
        if name == "where":
            condition = self.value(arguments[0])
            if [getattr(each, "value", None) for each in arguments[1:]] == [1, 0]:
                return self.node.cast(condition, self.dtype)
            return self.node.emit("Where", condition, *map(self.value, arguments[1:]))
        if name == "mod" and self.dtype.kind in "iu":
            return self._integer_mod(*map(self.value, arguments))
        if name in ("floor", "ceil", "trunc") and self.dtype.kind in "iu":
            return self.value(arguments[0])
        if name in FUNCTIONS:
            return self.node.emit(FUNCTIONS[name], *map(self.value, arguments))
        operands = dict(zip("xy", map(self.value, arguments), strict=False))
        return Translation(self.node, operands, self.dtype).value(parse(COMPOSED[name]))

    def _integer_mod(self, a: Value, b: Value) -> Value:
        zero, one = (self.node.scalar(value, self.dtype) for value in (0, 1))
        empty = self.node.emit("Equal", b, zero)
        rest = self.node.emit("Mod", a, self.node.emit("Where", empty, one, b))
        return self.node.emit("Where", empty, zero, rest)


def convert_formula(node: NodeExport) -> Value:
    """The operator by its formula."""
    op, kind = node.op, node.outs[0].dtype
    if op.name in DIRECT and kind.kind == "f":
        return node.emit(DIRECT[op.name], node.x)
    if not _translatable(op.formula):
        node.refuse("ONNX has no such function")
    work = kind
    if kind.kind in "iu":
        work = integer_type(op.formula) or (kind if kind in ONNX_INTEGERS else np.dtype(np.int32))
        if functions_in(op.formula) & WITHOUT_DOUBLE:
            work = np.dtype(np.float32)
    values = {letter: node.cast_from(value, info.dtype, work)
              for letter, value, info in zip(op.letters, node.inputs, node.ins, strict=True)}
    like = np.empty(0, kind)
    for name in set(names_in(op.formula)) - set(op.letters):
        values[name] = node.scalar(float(op.scalar_value(name, like)), work)
    result = Translation(node, values, work).value(parse(op.formula))
    return node.cast_from(result, work, kind)


def _translatable(formula: str) -> bool:
    return functions_in(formula) <= FUNCTIONS.keys() | COMPOSED.keys()


def register_formulas() -> None:
    """Register the operators whose formulas can be translated and that have no converter."""
    for op in set(OPS.values()):
        if (issubclass(op, FormulaOp) and isinstance(op.formula, str) and op.formula
                and op.name not in CONVERTERS and _translatable(op.formula)):
            CONVERTERS[op.name] = convert_formula


@converts("add_n")
def _add_n(node: NodeExport) -> Value:
    if node.outs[0].dtype.kind == "f":
        return node.emit("Sum", *node.inputs) if len(node.inputs) > 1 else node.x
    total = node.x
    for value in node.inputs[1:]:
        total = node.emit("Add", total, value)
    return total


@converts("clip")
def _clip(node: NodeExport) -> Value:
    info = node.ins[0]
    if info.dtype.kind == "f" and node.op.a_min <= node.op.a_max:
        limits = [node.scalar(limit) for limit in (node.op.a_min, node.op.a_max)]
        return node.emit("Clip", node.x, *limits)
    return convert_formula(node)


@converts("where")
def _where(node: NodeExport) -> Value:
    """A condition of one axis chooses rows."""
    condition, info = node.x, node.ins[0]
    if info.dtype != np.bool_:
        condition = node.cast(condition, np.bool_)
    if info.ndim < node.ins[1].ndim:
        condition = node.axes_op("Unsqueeze", condition, range(info.ndim, node.ins[1].ndim))
    return node.emit("Where", condition, *node.inputs[1:])


@converts("Cast", "amp_cast")
def _cast(node: NodeExport) -> Value:
    source, target = node.ins[0].dtype, node.outs[0].dtype
    if source == target:
        return node.x
    return node.cast(node.x, target)


@converts("amp_multicast")
def _amp_multicast(node: NodeExport) -> list[Value]:
    return [node.cast_from(value, before.dtype, after.dtype) for value, before, after in
            zip(node.inputs, node.ins, node.outs, strict=True)]
