"""The language of elementwise formulas, and its evaluation by NumPy.

A formula is one Python expression over named values, such as `where(x <= 0, 0, x)`.  It may contain
literals, `+ - * / **`, single comparisons, and the functions of `VOCABULARY`, so it means the same
over arrays and over scalars.  It has two forms:

    evaluate(formula, values)   NumPy computes it over arrays: the eager path, rare element types,
                                and the reference that every kernel is tested against
    scalar_text(formula)        source text over one element, for the code generator

Types.  Literals in a formula take the type of the arrays and never promote.  float16 is a storage
type: callers convert it first.  Integers are computed as such while a formula is exact over them;
`integer_type` is the type of computation otherwise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

__all__ = ["VOCABULARY", "FormulaFunctions", "evaluate", "functions_in", "functions_of",
           "integer_type", "names_in", "parse", "rename", "scalar_text"]

EXACT = ("where", "abs", "maximum", "minimum", "mod", "floor", "ceil", "trunc")
"""Functions that map integers to integers."""

_ELSEWHERE = ("erf", "erfinv", "gamma", "gammaln", "digamma")
"""Functions that are not in NumPy: see `special`."""

VOCABULARY: dict[str, int] = {
    **dict.fromkeys(
        ("abs", "floor", "ceil", "trunc", "exp", "log", "log2", "log10", "log1p", "expm1",
         "sqrt", "cbrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
         "arcsinh", "arccosh", "arctanh", *_ELSEWHERE), 1),
    **dict.fromkeys(("maximum", "minimum", "mod", "hypot"), 2),
    "where": 3,
}
"""Every function of the language and its number of arguments."""

_BLOCK = 4096

_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
              ast.Pow: "power"}
_NODES = (ast.Name, ast.Constant, ast.UnaryOp, ast.USub, ast.Compare, ast.expr_context,
          ast.operator, ast.cmpop)
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()")


@cache
def names_in(formula: str) -> tuple[str, ...]:
    """The names of the values in a formula, in the order of first occurrence."""
    return tuple(dict.fromkeys(_NAME.findall(formula)))


@cache
def parse(formula: str) -> ast.expr:
    """The syntax tree of a formula; ValueError if it is not in the language."""
    tree = ast.parse(formula, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            known = (VOCABULARY.get(getattr(node.func, "id", "")) == len(node.args)
                     and not node.keywords)
        elif isinstance(node, ast.BinOp):
            known = type(node.op) in _OPERATORS
        else:
            known = isinstance(node, _NODES)
            known = known and not (isinstance(node, ast.Compare) and len(node.ops) > 1)
        if not known:
            raise ValueError(f"formula {formula!r}: {ast.unparse(node)} is not in the language")
    return tree


def rename(formula: str, names: Mapping[str, str]) -> str:
    """The formula with some of its values renamed."""
    return _NAME.sub(lambda match: names.get(match[0], match[0]), formula)


# -- over arrays ----------------------------------------------------------------------------


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """Evaluate the formula over arrays and scalars, broadcast as in NumPy.

    Arrays are float32 or float64, or integers where `integer_type` is None.  The result is a new
    array or scalar.
    """
    return functions_of(formula, tuple(values)).value(*values.values())


def _code(tree: ast.expr, title: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(tree)), title, "eval")


def _writing(tree: ast.expr) -> ast.expr | None:
    """The expression that writes the value to `_out`; None if no ufunc is last."""
    if isinstance(tree, ast.BinOp):
        name, operands = _OPERATORS[type(tree.op)], [tree.left, tree.right]
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        name, operands = tree.func.id, tree.args
    else:
        return None
    if not isinstance(_numpy_words()[name], np.ufunc):
        return None
    out = ast.keyword("out", ast.Name("_out", ast.Load()))
    return ast.Call(ast.Name(name, ast.Load()), operands, [out])


class FormulaFunctions(NamedTuple):
    """A formula as functions of its values, in the order of names."""

    value: Callable[..., Any]
    into: Callable[..., Any] | None
    """Writes to its last argument, an array of the result's type and shape that may be one of the
    others, and returns it; None where NumPy's last operation is not a ufunc."""


@cache
def functions_of(formula: str, names: tuple[str, ...]) -> FormulaFunctions:
    """The formula as functions of values of these names."""
    tree = parse(formula)
    into = _writing(tree)
    return FormulaFunctions(_function(tree, names, formula),
                            None if into is None else _function(into, (*names, "_out"), formula))


def _function(tree: ast.expr, names: tuple[str, ...], title: str) -> Callable[..., Any]:
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    function: Callable[..., Any] = eval(_code(ast.Lambda(arguments, tree), title), _numpy_words())
    return function


@cache
def _numpy_words() -> dict[str, Any]:
    words: dict[str, Any] = {name: getattr(np, name) for name in VOCABULARY
                             if name not in ("mod", *_ELSEWHERE)}
    words.update({name: getattr(np, name) for name in _OPERATORS.values()})
    words.update({name: partial(_special, name) for name in _ELSEWHERE})
    return {**words, "where": _where, "mod": _mod, "__builtins__": {}}


_MANY = 1 << 13
"""Elements from which a selection by bits is faster than `np.where`, which branches."""
_BITS: dict[np.dtype, np.dtype] = {np.dtype(np.float32): np.dtype(np.int32),
                                   np.dtype(np.float64): np.dtype(np.int64)}


def _select(condition: np.ndarray, a: Any, b: Any) -> np.ndarray | None:
    """`np.where` by operations on bits; None for operands that are not numbers of one type."""
    arrays = [value for value in (a, b) if isinstance(value, np.ndarray)]
    if not arrays or any([array.shape != condition.shape or array.dtype != arrays[0].dtype
                          for array in arrays]):
        return None
    bits = _BITS.get(arrays[0].dtype)
    if bits is None or any([type(value) not in (int, float, np.ndarray) for value in (a, b)]):
        return None
    chosen, other = (np.asarray(value, arrays[0].dtype).view(bits) for value in (a, b))
    flags = condition.view(np.int8)
    if type(a) is int and a == 0:
        mask = np.subtract(flags, 1, dtype=bits)    # all bits where it is false
        return np.bitwise_and(other, mask, out=mask).view(arrays[0].dtype)
    mask = np.negative(flags, dtype=bits)           # all bits where it is true
    if type(b) is int and b == 0:
        np.bitwise_and(chosen, mask, out=mask)
    else:
        np.bitwise_and(chosen ^ other, mask, out=mask)
        np.bitwise_xor(other, mask, out=mask)
    return mask.view(arrays[0].dtype)


def _where(condition: np.ndarray, a: int | np.generic | np.ndarray,
           b: int | np.generic | np.ndarray) -> Any:
    """`np.where` in which small whole literals take the type of what they are combined with.

    For two literals NumPy returns an int64 array, whose product with float32 elements is float64: a
    fused chain would be rounded differently from its single nodes.
    """
    if type(a) is int and type(b) is int and max(abs(a), abs(b)) < 128:
        a, b = np.int8(a), np.int8(b)
    if (isinstance(condition, np.ndarray) and condition.dtype == np.bool_
            and condition.size >= _MANY):
        selected = _select(condition, a, b)
        if selected is not None:
            return selected
    return np.where(condition, a, b)


def _mod(a: np.ndarray, b: np.ndarray) -> Any:
    """Remainder with the sign of the divisor; 0 where that is 0."""
    if np.ndim(b) == 0:
        return np.mod(a, b) if b else np.zeros_like(a)
    return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


def _special(name: str, x: np.ndarray) -> np.ndarray:
    """A function of `special` over an array, evaluated in blocks that fit into the cache."""
    from . import special

    x = np.asarray(x)
    flat, out = x.reshape(-1), np.empty(x.size, x.dtype)
    for start in range(0, x.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = getattr(special, name)(flat[part].astype(np.float64))
    return out.reshape(x.shape)


@cache
def integer_type(formula: str) -> np.dtype | None:
    """The type in which a formula over integers is computed; None: their own.

    A formula of integers, `+ - *`, comparisons and the functions of `EXACT` is computed in
    integers.  Any other is computed in float64 and truncated.
    """
    for node in ast.walk(parse(formula)):
        function = isinstance(node, ast.Call) and getattr(node.func, "id", "") not in EXACT
        fraction = isinstance(node, ast.Constant) and isinstance(node.value, float)
        if function or fraction or isinstance(node, (ast.Pow, ast.Div)):
            return np.dtype(np.float64)
    return None


# -- over one element -----------------------------------------------------------------------


class _Scalar(ast.NodeTransformer):
    """Literals become `real(literal)`, `where` a conditional expression."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Call(ast.Name("real", ast.Load()), [node], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments = [self.visit(argument) for argument in node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "where":
            return ast.IfExp(arguments[0], arguments[1], arguments[2])
        return ast.Call(node.func, arguments, [])


@cache
def scalar_text(formula: str) -> str:
    """Source text of the formula over one element.

    It calls `real`, which must be the element type, and functions of `VOCABULARY` other than
    `where`.  Both branches of a `where` are free of side effects, so compilers emit a select.
    """
    tree = _Scalar().visit(ast.parse(formula, mode="eval").body)
    return ast.unparse(ast.fix_missing_locations(tree))


@cache
def functions_in(formula: str) -> frozenset[str]:
    """The functions a formula calls, `where` aside."""
    calls = [node for node in ast.walk(parse(formula)) if isinstance(node, ast.Call)]
    return frozenset(getattr(node.func, "id", "") for node in calls) - {"where"}
