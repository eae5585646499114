"""Ops defined by formulas for the output and for the gradients; all other rules follow from these.

    class Relu(FormulaOp, name="relu"):
        formula = "where(x <= 0, 0, x)"
        gradients = {"x": "where(y > 0, gy, y)"}

In formulas every tensor has a short name: the inputs by `letters`, the output is `y`, its gradient
`gy`.  Any other name is a parameter of the op.  Backward reads (`needs`) the tensors that occur in
the gradients, which keeps live ranges short.  An input without a gradient gets 0.

Eager calls evaluate formulas with NumPy; in bound graphs, large tensors are computed by generated
kernels (`kernel_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ..op import _TABLE, Call, Computation, Op, PartialType, Run, Spec, Tensor, Types
from .formula import functions_in, names_in
from .formula_graph import spell, spellable
from .program import Assign, Elements, Program, run, specialized

__all__ = ["FormulaOp", "backward_program", "define", "forward_program", "kernels"]


@dataclass(frozen=True)
class FormulaOp(Op):
    """Base of ops that are one formula forward and one per input backward.

    Subclasses without parameters need no dataclass of their own, which saves import time.
    """

    shapes: ClassVar = "all tensors have one shape"
    formula: ClassVar[str] = ""
    gradients: ClassVar[dict[str, str]] = {}
    letters: ClassVar[dict[str, str]] = {"x": "data"}
    """Formula name of every input -> its name."""
    accumulates: ClassVar = True
    accumulates_backward: ClassVar = True
    inplace: ClassVar[tuple[tuple[str, str], ...]] = (("data", "output"),)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        if "gradients" in own and "needs" not in own:
            mentioned = {name for formula in cls.gradients.values() for name in names_in(formula)}
            tensors = {"gy": "ograd", **cls.letters, "y": "output"}
            cls.needs = tuple(tensors[name] for name in tensors if name in mentioned)
            if "inplace_backward" not in own and not cls.inplace_backward:
                cls.inplace_backward = tuple((need, name) for letter, name in cls.letters.items()
                                             for need in cls.needs if letter in cls.gradients)

    # -- types ------------------------------------------------------------------------------

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        for dtype in (*ins, *outs):
            self.check_type(dtype)
        return super().infer_type(ins, outs)

    def check_type(self, dtype: PartialType) -> None:
        """MXNetError if the formula is not defined over the type."""
        if dtype == np.bool_:
            raise MXNetError(f"{self.name} does not take arrays of type bool; insert a Cast")

    # -- programs ---------------------------------------------------------------------------

    def program(self, kind: str = "f") -> Program:
        """The forward formula as a program from the inputs to `y`.

        `kind` is NumPy's letter for the kind of the elements, for formulas that depend on it.
        """
        return forward_program(self.name, self.formula, tuple(self.letters))

    def backward_program(self, kind: str = "f") -> Program:
        """The gradients as a program from what backward reads to `g<letter>` of every input."""
        gradients = tuple(self.gradients.get(letter, "0") for letter in self.letters)
        if kind != "f" and self._is_stepped():
            gradients = ("gy * 0",) * len(gradients)
        return backward_program(self.name, gradients, tuple(self.letters))

    def _is_stepped(self) -> bool:
        """Whether the gradient over integers is 0: the remainder's, as in MXNet."""
        return "mod" in functions_in(self.formula)

    def scalar_value(self, name: str, like: Tensor) -> Any:
        """The value of a parameter in the formula, for arrays such as `like`."""
        return float(getattr(self, name))

    def scalar_values(self, program: Program, like: Tensor) -> list[Any]:
        """The values of the scalars of a program of this op."""
        return [self.scalar_value(name, like) for name in program.scalars]

    def operands(self, ins: Sequence[Any], program: Program) -> list[Any]:
        """The inputs of the backward program, among the tensors that backward gets."""
        by_letter = self._by_letter(ins)
        return [by_letter[name] for name in program.inputs]

    def _by_letter(self, ins: Sequence[Any]) -> dict[str, Any]:
        """The tensors that backward gets, by the names that formulas give them."""
        letters = {"ograd": "gy", "output": "y", **{name: x for x, name in self.letters.items()}}
        return {letters[need]: tensor for need, tensor in zip(self.needs, ins, strict=True)}

    def elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        program = self.program(outs[0].dtype.kind)
        scalars = self.scalar_values(program, outs[0])
        return Elements(program, tuple(range(len(ins))), tuple(scalars))

    def backward_elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        program = self.backward_program(ins[0].dtype.kind)
        return Elements(program, tuple(self.operands(range(len(ins)), program)),
                        tuple(self.scalar_values(program, ins[0])))

    # -- gradient ---------------------------------------------------------------------------

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        """If every gradient is `gy` or `-gy`: `gy` itself and `negative` nodes, without copies."""
        formulas = [self.gradients.get(letter) for letter in self.letters]
        if not set(formulas) <= {"gy", "-gy"} or self._is_stepped():
            return None
        grad = ograds[0]
        if grad is None:
            return [None] * len(formulas)
        return [grad if formula == "gy" else
                Entry(Node(_TABLE["negative"](), f"{node.name}_backward", [grad]))
                for formula in formulas]

    def decompose_backward(self, node: Node) -> list[Entry | None] | None:
        if not all(map(spellable, self.gradients.values())):
            return None
        values = self._by_letter(node.inputs)
        like = np.empty((), np.float32)
        for name in {name for formula in self.gradients.values() for name in names_in(formula)}:
            if name not in values:
                values[name] = float(self.scalar_value(name, like))
        gradients = [spell(self.gradients.get(letter, "0"), values) for letter in self.letters]
        return [entry if isinstance(entry, Entry) else None for entry in gradients]

    # -- execution --------------------------------------------------------------------------

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        program = self.program(outs[0].dtype.kind)
        run(program, ins, outs, self.scalar_values(program, outs[0]), call.add)

    def at_once(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        if type(self).forward is not FormulaOp.forward or outs[0] is None:
            return super().at_once(ins, outs)
        program = self.program(outs[0].dtype.kind)
        compute, scalars = specialized(program, ins, outs), _scalars_of(program, outs[0])
        return lambda op, ins, outs, call: compute(ins, outs, scalars(op))

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        program = self.program(outs[0].dtype.kind)
        return kernels().prepare(program, ins, outs, self.scalar_values(program, outs[0]), call.add)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        program = self.backward_program(ins[0].dtype.kind)
        scalars = self.scalar_values(program, ins[0])
        run(program, self.operands(ins, program), outs, scalars, call.add)

    def backward_at_once(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        if type(self).backward is not FormulaOp.backward:
            return super().backward_at_once(ins, outs)
        program = self.backward_program(ins[0].dtype.kind)
        positions = self.operands(range(len(ins)), program)
        compute = specialized(program, [ins[i] for i in positions], outs)
        scalars = _scalars_of(program, ins[0])
        return lambda op, ins, outs, call: compute([ins[i] for i in positions], outs, scalars(op))

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        program = self.backward_program(ins[0].dtype.kind)
        return kernels().prepare(program, self.operands(ins, program), outs,
                                 self.scalar_values(program, ins[0]), call.add)


@cache
def kernels() -> Any:
    """The module that compiles kernels; imported at the first bind, eager calls do not use it."""
    from . import kernel_cache as module

    return module


def _scalars_of(program: Program, like: Spec) -> Callable[[FormulaOp], Sequence[Any]]:
    """From an op to the values of the scalars of a program, which are kept for the latest op."""
    if not program.scalars:
        return lambda op: ()
    latest: tuple[FormulaOp | None, list[Any]] = None, []

    def values(op: FormulaOp) -> list[Any]:
        nonlocal latest
        known = latest      # once: another thread may call this
        if known[0] is not op:
            latest = known = op, op.scalar_values(program, like)
        return known[1]

    return values


def _scalars(steps: Sequence[Assign], tensors: Sequence[str]) -> tuple[str, ...]:
    names = dict.fromkeys(name for step in steps for name in names_in(step.formula))
    return tuple(name for name in names if name not in tensors)


@cache
def forward_program(name: str, formula: str, letters: tuple[str, ...]) -> Program:
    """`y = formula` over inputs called `letters`, for the op `name`."""
    steps = (Assign("y", formula),)
    return Program(name.strip("_"), steps, letters, ("y",), _scalars(steps, letters))


@cache
def backward_program(name: str, gradients: tuple[str, ...], letters: tuple[str, ...]) -> Program:
    """`g<letter> = gradient` for every input, for the op `name`."""
    steps = tuple(Assign(f"g{x}", formula) for x, formula in zip(letters, gradients, strict=True))
    tensors = ("gy", *letters, "y")
    read = {word for formula in gradients for word in names_in(formula)}
    return Program(f"{name.strip('_')}_backward", steps,
                   tuple(word for word in tensors if word in read),
                   tuple(step.target for step in steps), _scalars(steps, tensors))


def define(base: type[FormulaOp], name: str, meaning: str, formula: str,
           gradients: dict[str, str] | None = None, aliases: Sequence[str] = (),
           module: str = __name__) -> type[FormulaOp]:
    """A subclass of `base` for one row of a table of formulas.

    Rows share the parameters of `base`, so none of them pays for a dataclass of its own.
    """
    gradients = gradients or {}
    inputs = f"{', '.join(base.letters)} = {', '.join(base.letters.values())}"
    lines = [meaning, "", f"    {inputs}", f"    y = {formula}"]
    lines += [f"    g{letter} = {gradients.get(letter, '0')}" for letter in base.letters]
    members = {"__doc__": "\n".join(lines), "__module__": module, "formula": formula,
               "gradients": gradients}
    return type(name, (base,), members, name=name, aliases=tuple(aliases))
