"""Formulas as nodes: `gy * cos(x)` becomes a `cos` and a `broadcast_mul` over entries.

In this form a gradient, which runs as a single `Backward` node, can itself be differentiated
(higher-order gradients).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ...graph import Entry, Node
from .formula import evaluate, functions_in, parse

__all__ = ["apply", "spell", "spellable"]

_WORDS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "power",
          ast.Eq: "equal", ast.NotEq: "not_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
          ast.Lt: "lesser", ast.LtE: "lesser_equal"}
_SHORT = {"add": "plus", "sub": "minus"}
_REFLECTED = {"sub": "rminus", "div": "rdiv", "power": "rpower", "mod": "rmod",
              "greater": "lesser", "greater_equal": "lesser_equal", "lesser": "greater",
              "lesser_equal": "greater_equal"}

Value = Entry | float


def apply(op: str, *inputs: Entry, **params: object) -> Entry:
    """The first output of a new node."""
    from .. import OPS

    return Entry(Node(OPS[op].from_attrs(params), f"{inputs[0].node.name}_{op}", inputs))


def spellable(formula: str) -> bool:
    """Whether every function of a formula is an op as well."""
    from .. import OPS

    return all(name in OPS or name in ("mod", "hypot") for name in functions_in(formula))


def spell(formula: str, values: Mapping[str, Value]) -> Value:
    """A formula over entries and scalars as nodes; a scalar if it mentions no entry."""
    return _spell(parse(formula), values)


def _spell(tree: ast.expr, values: Mapping[str, Value]) -> Value:
    if isinstance(tree, ast.Name):
        return values[tree.id]
    if isinstance(tree, ast.Constant):
        return tree.value  # type: ignore[return-value]
    parts = [_spell(part, values) for part in _operands(tree)]
    if not any(isinstance(part, Entry) for part in parts):
        return float(evaluate(ast.unparse(tree), values))
    if isinstance(tree, ast.UnaryOp):
        return apply("negative", *parts)  # type: ignore[arg-type]
    if isinstance(tree, (ast.BinOp, ast.Compare)):
        operator = tree.op if isinstance(tree, ast.BinOp) else tree.ops[0]
        return _binary(_WORDS[type(operator)], *parts)
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    if tree.func.id == "where":
        return _where(*parts)
    return (_binary if len(parts) == 2 else apply)(tree.func.id, *parts)  # type: ignore[arg-type]


def _operands(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.UnaryOp):
        return [tree.operand]
    if isinstance(tree, ast.Call):
        return tree.args
    if isinstance(tree, ast.BinOp):
        return [tree.left, tree.right]
    assert isinstance(tree, ast.Compare)
    return [tree.left, *tree.comparators]


def _binary(word: str, a: Value, b: Value) -> Entry:
    if isinstance(a, Entry) and isinstance(b, Entry):
        return apply(f"broadcast_{word}", a, b)
    if isinstance(a, Entry):
        return apply(f"_{_SHORT.get(word, word)}_scalar", a, scalar=b)
    assert isinstance(b, Entry)
    return apply(f"_{_REFLECTED.get(word, _SHORT.get(word, word))}_scalar", b, scalar=a)


def _where(condition: Value, a: Value, b: Value) -> Value:
    if not isinstance(condition, Entry):
        return a if condition else b
    a, b = (x if isinstance(x, Entry) else
            apply("_plus_scalar", apply("zeros_like", condition), scalar=x) for x in (a, b))
    return apply("where", condition, a, b)
