"""Update ops over many weights, and the ops that prepare such updates.

    multi_sgd_mom_update(weight_0, grad_0, mom_0, weight_1, ..., lrs, wds, num_weights)

applies the rule for one weight (`sgd_update`) to every weight in order, so results are bitwise the
same.  The `preloaded_` ops get the rates as two tensors, which are the last inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..elementwise.float16 import FLOAT32
from ..op import Call, Op, Types
from ..param import Floats, Shape
from ..shape import Shapes
from .adaptive_update import AdamWUpdate, MPAdamWUpdate
from .lamb_update import LambUpdate, MPLambUpdate
from .sgd_update import (
    MPSGDMomUpdate,
    MPSGDUpdate,
    RunProgram,
    SGDMomUpdate,
    SGDUpdate,
    Update,
    run,
)

__all__ = ["MultiUpdate"]


class MultiUpdate(Op):
    """Base of update ops over many weights; `rule` is the update of one.

    Its inputs come weight by weight, then the tensors named in `shared`.
    """

    inputs: ClassVar[tuple[str, ...]] = ("data",)
    variadic: ClassVar[str] = "num_weights"
    shapes: ClassVar = "all tensors of one weight have its shape"
    rule: ClassVar[type[Update]]
    shared: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def each(cls) -> tuple[str, ...]:
        """Names of the inputs that there are for each weight."""
        return tuple(name for name in cls.rule.inputs if name not in cls.shared)

    @classmethod
    def count_inputs(cls, params: dict[str, Any], count: int) -> None:
        super().count_inputs(params, (count - len(cls.shared)) // len(cls.each()))

    def list_inputs(self) -> tuple[str, ...]:
        return (*(f"{name}_{i}" for i in range(self.count) for name in self.each()), *self.shared)

    def list_outputs(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.count))

    @property
    def aux(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.rule.aux

    def aux_indices(self) -> tuple[int, ...]:
        each = self.each()
        return tuple(i * len(each) + j for i in range(self.count)
                     for j, name in enumerate(each) if name in self.aux)

    @property
    def count(self) -> int:
        """The number of weights."""
        return getattr(self, self.variadic)

    @property
    def inplace(self) -> tuple[tuple[str, str], ...]:  # type: ignore[override]
        return tuple((f"weight_{i}", f"output{i}") for i in range(self.count))

    # -- the parts ----------------------------------------------------------------------------

    def rates(self, ins: Sequence[Any]) -> tuple[Sequence[float], Sequence[float]]:
        """Learning rate and weight decay of every weight; `ins` are NumPy arrays."""
        return self.lrs, self.wds  # type: ignore[attr-defined]

    def rule_for(self, index: int, lr: float, wd: float) -> Update:
        """The rule for one weight."""
        return self.rule(lr=lr, wd=wd, **self.common())  # type: ignore[call-arg]

    def common(self) -> dict[str, Any]:
        """The parameters that are the same for all weights."""
        return {name: getattr(self, name) for name in self._common_names()}

    @classmethod
    @cache
    def _common_names(cls) -> tuple[str, ...]:
        own, theirs = ({parameter.name for parameter in fields(kind)}  # type: ignore[arg-type]
                       for kind in (cls, cls.rule))
        return tuple(sorted(own & theirs))

    def part(self, tensors: Sequence[Any], index: int) -> list[Any]:
        """The inputs of one weight's rule, of a list with one item for each input."""
        step, last = len(self.each()), len(self.each()) * self.count
        own = tensors[index * step:(index + 1) * step]
        return [*own, *(x for name, x in zip(self.shared, tensors[last:], strict=True)
                        if name in self.rule.inputs)]

    # -- rules --------------------------------------------------------------------------------

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        for parameter in fields(self):  # type: ignore[arg-type]
            value = getattr(self, parameter.name)
            if isinstance(value, tuple) and len(value) != self.count:
                raise MXNetError(f"{self.name}: {parameter.name} has {len(value)} values, expected "
                                 f"{self.variadic} = {self.count}")
        return self._infer("infer_shape", ins, outs, (self.count,))

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return self._infer("infer_type", ins, outs, FLOAT32)

    def _infer(self, what: str, ins: list[Any], outs: list[Any], other: Any
               ) -> tuple[list[Any], list[Any]]:
        """Facts inferred by each weight's rule; `other` for inputs that no rule reads."""
        in_facts: list[Any] = []
        out_facts: list[Any] = []
        tail = {name: other for name in self.shared}
        for index in range(self.count):
            own, (out,) = getattr(self.rule_for(index, 0.0, 0.0), what)(
                self.part(ins, index), [outs[index]])
            facts = dict(zip(self.rule.inputs, own, strict=True))
            in_facts += [facts[name] for name in self.each()]
            out_facts.append(out)
            tail.update({name: facts[name] for name in self.shared if name in facts})
        return [*in_facts, *tail.values()], out_facts

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.update(ins, outs, run)

    def update(self, ins: Sequence[Any], outs: Sequence[Any], by: RunProgram) -> None:
        """Update every weight by its rule (see `Update.update`)."""
        lrs, wds = self.rates(ins)
        for index, (out, lr, wd) in enumerate(zip(outs, lrs, wds, strict=True)):
            part = self.part(ins, index)
            rule = self.rule_for(index, float(lr), float(wd))
            rule.update(part, [np.empty_like(part[0]) if out is None else out], by)


class Preloaded(MultiUpdate):
    """Rates are tensors of one element for every weight, so they may be results of other ops."""

    shapes: ClassVar = "all tensors of one weight have its shape, lrs and wds are (num_weights,)"
    shared: ClassVar[tuple[str, ...]] = ("lrs", "wds")

    def rates(self, ins: Sequence[Any]) -> tuple[Sequence[float], Sequence[float]]:
        return ins[-2].reshape(-1), ins[-1].reshape(-1)


def _define_sgd() -> None:
    """The ops of the SGD family, with rates as parameters and as tensors."""
    rates: list[Any] = [("lrs", Floats), ("wds", Floats)]
    for rule in (SGDUpdate, MPSGDUpdate, SGDMomUpdate, MPSGDMomUpdate):
        common: list[Any] = [(one.name, float, field(default=one.default)) for one in fields(rule)
                             if one.name in ("momentum", "rescale_grad", "clip_gradient")]
        common.append(("num_weights", int, field(default=1)))
        name, kind = f"multi_{rule.name}", f"Multi{rule.__name__.removesuffix('Update')}"
        tensors = ", ".join(f"{tensor}_i" for tensor in rule.inputs)
        for base, own, op, title, meaning in (
                (MultiUpdate, rates, name, kind, f"`{rule.name}` of every weight ({tensors})."),
                (Preloaded, [], f"preloaded_{name}", f"Preloaded{kind}",
                 f"`{name}` with tensors lrs and wds of shape (num_weights,).")):
            op_class: Any = make_dataclass(
                title, [*own, *common], bases=(base,), frozen=True,
                namespace={"__doc__": meaning, "__module__": __name__, "rule": rule})
            op_class.enter(op)


_define_sgd()


@dataclass(frozen=True)
class MultiAdamW(MultiUpdate, name="_multi_adamw_update"):
    """`_adamw_update` of every weight (weight_i, grad_i, mean_i, var_i), with one rescale_grad."""

    lrs: Floats
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    wds: Floats = field(kw_only=True)
    etas: Floats = field(kw_only=True)
    clip_gradient: float = -1.0
    num_weights: int = 1

    shapes: ClassVar = "all tensors of one weight have its shape, rescale_grad has one element"
    rule: ClassVar[type[Update]] = AdamWUpdate
    shared: ClassVar[tuple[str, ...]] = ("rescale_grad",)

    def rule_for(self, index: int, lr: float, wd: float) -> Update:
        return self.rule(lr=lr, wd=wd, eta=self.etas[index],  # type: ignore[call-arg]
                         **self.common())


class MultiMPAdamW(MultiAdamW, name="_multi_mp_adamw_update"):
    """`_mp_adamw_update` of every weight (weight_i, grad_i, mean_i, var_i, weight32_i)."""

    rule: ClassVar[type[Update]] = MPAdamWUpdate


@dataclass(frozen=True)
class MultiLamb(MultiUpdate, name="_multi_lamb_update"):
    """LAMB, both phases of it, for every weight (weight_i, grad_i, mean_i, var_i); `step_count` are
    the steps t, counted from 1."""

    learning_rates: Floats
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    wds: Floats = field(kw_only=True)
    rescale_grad: float = 1.0
    lower_bound: float = -1.0
    upper_bound: float = -1.0
    clip_gradient: float = -1.0
    bias_correction: bool = True
    step_count: Shape = field(kw_only=True)
    num_tensors: int = 1

    variadic: ClassVar[str] = "num_tensors"
    rule: ClassVar[type[Update]] = LambUpdate

    def rates(self, ins: Sequence[Any]) -> tuple[Sequence[float], Sequence[float]]:
        return self.learning_rates, self.wds

    def rule_for(self, index: int, lr: float, wd: float) -> Update:
        return self.rule(lr=lr, wd=wd, t=self.step_count[index],  # type: ignore[call-arg]
                         **self.common())


class MultiMPLamb(MultiLamb, name="_multi_mp_lamb_update"):
    """LAMB with a master for every weight (weight_i, grad_i, mean_i, var_i, weight32_i)."""

    rule: ClassVar[type[Update]] = MPLambUpdate
