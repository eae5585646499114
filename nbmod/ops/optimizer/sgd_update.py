"""Update rules of optimizers: one op per rule, each one pass over memory.

An update op gets a weight, its gradient and the optimizer's states; it returns the new weight and
changes the states (its auxiliary inputs) in place.  Optimizers pass the weight itself as output, so
that nothing is copied.  An op is its formulas:

    steps = {"d": "grad * scale + wd * weight",
             "next_mom": "momentum * mom - lr * d", "next_weight": "weight + next_mom"}

`next_weight` and `next_<state>` are written; every other word is an input, an earlier step or a
scalar: a parameter of the op, or what `Update.scalar_value` derives from one.  One table of
formulas (`elementwise.program`) is the NumPy reference, the CPU kernel and the GPU kernel of a
rule.

Where gradients are clipped: in the SGD family before weight decay is added, in Adam and RMSProp
after.  In docstrings, clipped(x) = min(max(x, -clip_gradient), clip_gradient), or x where
clip_gradient < 0.

float16 is computed in float32 and rounded on store.  The `mp_` ops update a float32 master copy,
their last state, and return it rounded to the weight's type (mixed precision).

Here are the base classes and the SGD family; `adaptive_update` has the adaptive rules,
`multi_weight_update` the ops over many weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ...base import MXNetError
from ..elementwise import program as programs
from ..elementwise.codegen import ArraySpec, KernelSpec
from ..elementwise.float16 import FLOAT16, FLOAT32
from ..elementwise.float_op import as_float32
from ..elementwise.formula import names_in
from ..elementwise.formula_op import kernels
from ..elementwise.program import Assign, Program
from ..jit import Kernel, pays_off
from ..op import Call, Op, PartialType, Types
from ..param import float_parameters
from ..shape import ShapeMismatch, Shapes, is_known, size_of, unify_all

__all__ = ["RunProgram", "Update", "distinct", "kernel_for", "make_program", "require_trainable",
           "run", "spec_for"]

COMPILED_FROM = 1 << 10
"""Elements from which a kernel is compiled for an update, 0.3 s once per machine: NumPy takes 30 us
where a kernel takes 1."""

PARALLEL_FROM = 1 << 16
"""Elements from which an update runs on all cores: waking them costs 10 to 20 us."""

RunProgram: TypeAlias = "Callable[..., None]"
"""A function that runs a program on its inputs, outputs and scalars."""

CLIPPED = {"x": "grad * scale", "c": "where(x > clip, clip, where(x < -clip, -clip, x))"}
DECAY_AFTER = {**CLIPPED, "d": "c + wd * weight"}
DECAY_BEFORE = {"x": "grad * scale + wd * weight",
                "d": "where(x > clip, clip, where(x < -clip, -clip, x))"}
"""The gradient that steps, `d`: weight decay is added after or before it is clipped."""


class Update(Op):
    """Base of update ops; see the module docstring.

    The inputs are weight, grad, the states in `aux` and `scalars`, unless a class says otherwise.
    `master=True` makes the `mp_` op of a rule: `weight32` is one more state.  `weight` in formulas
    is that master copy, and the output is its rounded copy.
    """

    shapes: ClassVar = "all tensors have one shape"
    inplace: ClassVar[tuple[tuple[str, str], ...]] = (("weight", "output"),)
    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad")
    steps: ClassVar[dict[str, str]] = {}
    scalars: ClassVar[tuple[str, ...]] = ()
    """Inputs of one element."""
    singles: ClassVar[tuple[str, ...]] = ()
    """Inputs that are float32 whatever the weight's type is."""
    exact: ClassVar[bool] = False
    """Scalars are not rounded to float32, in which MXNet keeps the parameters of its ops."""

    def __init_subclass__(cls, master: bool = False, **kwargs: Any):
        if master:
            cls.aux = (*cls.aux, "weight32")
            cls.singles = (*cls.aux, *cls.scalars)
        if "aux" in cls.__dict__ and "inputs" not in cls.__dict__:
            cls.inputs = ("weight", "grad", *cls.aux, *cls.scalars)
        super().__init_subclass__(**kwargs)

    @property
    def numbers(self) -> tuple[str, ...]:  # type: ignore[override]
        cls: type = type(self)
        return float_parameters(cls)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        shapes = dict(zip(self.inputs, ins, strict=True))
        shape = unify_all([*(shapes[name] for name in self.inputs if name not in self.scalars),
                           *outs], "inputs and outputs")
        for name in self.scalars:
            if is_known(shapes[name]) and size_of(shapes[name] or ()) != 1:
                raise ShapeMismatch(f"{name} has shape {shapes[name]}, expected one element")
        return [shapes[name] or (1,) if name in self.scalars else shape
                for name in self.inputs], [shape]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        types = dict(zip(self.inputs, ins, strict=True))
        own = [types[name] for name in self.inputs if name not in self.singles]
        (dtype, *_), outs = super().infer_type(own, outs)
        require_trainable(dtype)
        return [FLOAT32 if name in self.singles else dtype for name in self.inputs], outs

    @classmethod
    @cache
    def program(cls) -> Program:
        """From weight (or master), gradient and states to the new ones, and the rounded master."""
        states = [f"next_{name}" for name in cls.aux if name != "weight32"]
        rounded = ["rounded"] if "weight32" in cls.aux else []
        return make_program(cls.name, cls.steps, cls.inputs, ["next_weight", *states, *rounded])

    def scalar_value(self, name: str) -> float:
        """The value of a scalar in the formulas."""
        if name == "scale":
            return self.rescale_grad  # type: ignore[attr-defined]
        if name in ("clip", "bound"):
            limit = getattr(self, "clip_gradient" if name == "clip" else "clip_weights")
            return limit if limit >= 0 else math.inf
        if name.startswith("rest_"):  # of a running mean
            return 1 - self.rounded(getattr(self, name.removeprefix("rest_")))
        return getattr(self, name)

    def rounded(self, scalar: float) -> float:
        """A scalar as the rule computes with it."""
        return scalar if self.exact else as_float32(scalar)

    def scalar_values(self, program: Program) -> list[float]:
        """The scalars of the program."""
        return [self.rounded(self.scalar_value(name)) for name in program.scalars]

    def tensors(self, ins: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        """Arrays by the names that the formulas give them."""
        named = dict(zip(self.inputs, ins, strict=True))
        named["weight"] = named.get("weight32", named["weight"])
        named.update({f"next_{name}": named[name] for name in self.aux})
        if "weight32" in self.aux:
            return {**named, "next_weight": named["weight"], "rounded": outs[0]}
        return {**named, "next_weight": outs[0]}

    def execute(self, program: Program, tensors: dict[str, Any], by: RunProgram) -> None:
        """Run a program over named arrays."""
        by(program, [tensors[name] for name in program.inputs],
           [tensors[name] for name in program.outputs], self.scalar_values(program))

    def update(self, ins: Sequence[Any], outs: Sequence[Any], by: RunProgram) -> None:
        """`forward` by a function that runs programs: `run`, or that of `elementwise.program`."""
        self.execute(self.program(), self.tensors(ins, outs), by)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.update(ins, outs, run)


def require_trainable(dtype: PartialType) -> None:
    """MXNetError for a type known to be no floating point type."""
    if dtype is not None and dtype.kind != "f":
        raise MXNetError(f"element type {dtype} cannot be trained, expected a float type")


def make_program(name: str, steps: Mapping[str, str], tensors: Sequence[str],
                 outputs: Sequence[str]) -> Program:
    """The program of these steps; names besides `tensors` and the steps are scalars.

    `rounded`, among the outputs, is a copy of the new weight.
    """
    rows = [Assign(*row) for row in steps.items()]
    rows += [Assign("rounded", "next_weight")] if "rounded" in outputs else []
    read = {word for row in rows for word in names_in(row.formula)} - {row.target for row in rows}
    return Program(name.strip("_"), tuple(rows), tuple(x for x in tensors if x in read),
                   tuple(outputs), tuple(sorted(read - {*tensors})))


# -- execution on the CPU -------------------------------------------------------------------


def run(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray],
        scalars: Sequence[float]) -> None:
    """Execute a program over arrays of one size and of single elements.

    By a kernel if the arrays are large or it is compiled already, else by NumPy; both round alike,
    so results are the same.  `kernel_cache.prepare` would do the same at ten times the overhead,
    which matters where every weight is a call.
    """
    size, arrays = outs[0].size, distinct(ins, outs)
    key = (program.title, len(arrays), size >= PARALLEL_FROM,
           *[(array.dtype.char, array.size == size) for array in arrays])
    if key not in _kernels:
        if not pays_off(size, COMPILED_FROM):
            programs.run(program, ins, outs, scalars)
            return
        _kernels[key] = kernel_for(program, ins, outs, size >= PARALLEL_FROM)
    kernel, real = _kernels[key]
    kernel(*[_flat(array) for array in arrays], *[real(scalar) for scalar in scalars])


_kernels: dict[tuple, tuple[Kernel, Any]] = {}


def distinct(ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays that a kernel gets: inputs, and outputs that alias none of them."""
    return [*ins, *(out for out in outs if not any(out is array for array in ins))]


def spec_for(program: Program, ins: Sequence[Any], outs: Sequence[Any], parallel: bool,
             many: bool = False) -> KernelSpec:
    """The specification of a kernel for arrays of these types, or for many sets of such."""
    arrays = dict(zip(program.inputs, ins, strict=True))
    targets = []
    for name, out in zip(program.outputs, outs, strict=True):
        targets.append(next((known for known, array in arrays.items() if array is out), name))
        arrays.setdefault(targets[-1], out)
    real = "float64" if any(array.dtype == np.float64 for array in arrays.values()) else "float32"
    specs = tuple(ArraySpec(name, array.dtype.name, (array.size == outs[0].size,))
                  for name, array in arrays.items())
    return KernelSpec(program, specs, tuple(targets), (False,) * len(outs), real, parallel,
                      many=many)


def kernel_for(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray],
               parallel: bool, many: bool = False) -> tuple[Kernel, Any]:
    """The kernel of `spec_for`, and the type it computes in."""
    spec = spec_for(program, ins, outs, parallel, many)
    return kernels().kernel_of(spec), np.dtype(spec.real).type


def _flat(array: np.ndarray) -> np.ndarray:
    if array.dtype == FLOAT16:
        array = array.view(np.uint16)
    return array if array.ndim == 1 else array.reshape(-1)


# -- gradient descent -----------------------------------------------------------------------


@dataclass(frozen=True)
class SGDUpdate(Update, name="sgd_update", aliases=("_sparse_sgd_update",)):
    """w = w - lr (clipped(rescale_grad g) + wd w)."""

    lr: float
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0
    lazy_update: bool = True

    steps: ClassVar[dict[str, str]] = {**DECAY_AFTER, "next_weight": "weight - lr * d"}


class MPSGDUpdate(SGDUpdate, name="mp_sgd_update", master=True):
    """`sgd_update` of the master weight32; the new weight is its rounded copy."""


@dataclass(frozen=True)
class _Momentum(Update):
    """Base of rules with a velocity."""

    lr: float
    momentum: float = 0.0
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    aux: ClassVar[tuple[str, ...]] = ("mom",)


@dataclass(frozen=True)
class SGDMomUpdate(_Momentum, name="sgd_mom_update", aliases=("_sparse_sgd_mom_update",)):
    """mom = momentum mom - lr (clipped(rescale_grad g) + wd w);  w = w + mom."""

    lazy_update: bool = True

    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "next_mom": "momentum * mom - lr * d", "next_weight": "weight + next_mom"}


class MPSGDMomUpdate(SGDMomUpdate, name="mp_sgd_mom_update", master=True):
    """`sgd_mom_update` of the master weight32; the new weight is its rounded copy."""


class NAGMomUpdate(_Momentum, name="nag_mom_update"):
    """x = clipped(rescale_grad g);  y = lr (x + wd w);  w = w + momentum (momentum mom - y) - y;
    mom = momentum mom - lr (x + wd w) with the new w.

    Nesterov's accelerated gradient with the velocity taken at the next point.  That the velocity
    decays with the new weight is what MXNet does whenever the output is the weight itself, as it
    is in training; nbmod does it always.
    """

    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "y": "lr * d",
        "next_weight": "weight + (momentum * (momentum * mom - y) - y)",
        "next_mom": "momentum * mom - lr * (c + wd * next_weight)"}


class MPNAGMomUpdate(NAGMomUpdate, name="mp_nag_mom_update", master=True):
    """`nag_mom_update` of the master weight32; the new weight is its rounded copy."""


@dataclass(frozen=True)
class SignSGDUpdate(Update, name="signsgd_update"):
    """w = (1 - lr wd) w - lr sign(g), with sign(0) = sign(NaN) = 0.

    Bernstein et al. (2018).  Scale and magnitude of the gradient do not matter: `rescale_grad` and
    `clip_gradient` are read and ignored, even a negative scale, as in MXNet.
    """

    lr: float
    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    steps: ClassVar[dict[str, str]] = {
        "y": "weight - lr * (wd * weight)",
        "next_weight": "where(grad > 0, y - lr, where(grad < 0, y + lr, y))"}


@dataclass(frozen=True)
class SignumUpdate(_Momentum, name="signum_update"):
    """mom = momentum mom - (1 - momentum) (clipped(rescale_grad g) + wd w);
    w = (1 - lr wd_lh) w + lr sign(mom).

    Bernstein et al. (2018); `wd_lh` is decay apart from the gradient, of Loshchilov and Hutter.
    """

    wd_lh: float = 0.0

    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "next_mom": "momentum * mom - rest_momentum * d",
        "y": "weight - lr * (wd_lh * weight)",
        "next_weight": "where(next_mom > 0, y + lr, where(next_mom < 0, y - lr, y))"}


# -- rules without a name in the table: MXNet computes them in Python, in several operations -----


@dataclass(frozen=True, kw_only=True)
class ExactUpdate(Update):
    """Base of these rules."""

    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float = -1.0

    exact = True


LATE = "lr * (d + lamda * c * c * (weight - previous))"


@dataclass(frozen=True)
class DCASGDUpdate(ExactUpdate):
    """x = clipped(rescale_grad g);  y = w - lr (x + wd w + lamda x^2 (w - previous));
    previous = w;  w = y.

    Delay-compensated asynchronous SGD, Zheng et al. (2017): first-order correction of stale
    gradients.
    """

    lr: float
    lamda: float = 0.04

    name = "dcasgd_update"
    aux: ClassVar[tuple[str, ...]] = ("previous",)
    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "late": LATE, "next_previous": "weight", "next_weight": "weight - late"}


@dataclass(frozen=True)
class DCASGDMomUpdate(DCASGDUpdate):
    """x = clipped(rescale_grad g);  mom = momentum mom - lr (x + wd w + lamda x^2 (w - previous));
    previous = w;  w = w + mom.

    `DCASGDUpdate` with momentum.
    """

    momentum: float = 0.0

    name = "dcasgd_mom_update"
    aux: ClassVar[tuple[str, ...]] = ("mom", "previous")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "late": LATE, "next_mom": "momentum * mom - late",
        "next_previous": "weight", "next_weight": "weight + next_mom"}


@dataclass(frozen=True)
class SGLDUpdate(ExactUpdate):
    """w = w - lr / 2 (clipped(rescale_grad g) + wd w) + sqrt(lr) noise, noise standard normal.

    Stochastic gradient Langevin dynamics, Welling and Teh (2011).
    """

    lr: float

    name = "sgld_update"
    inputs: ClassVar[tuple[str, ...]] = ("weight", "grad", "noise")
    steps: ClassVar[dict[str, str]] = {
        **DECAY_AFTER, "next_weight": "weight - half_rate * d + deviation * noise"}

    @property
    def half_rate(self) -> float:
        """Half the learning rate."""
        return self.lr / 2

    @property
    def deviation(self) -> float:
        """The standard deviation of the step."""
        if self.lr < 0:
            raise MXNetError(f"{self.name}: lr is {self.lr}, whose square root scales the noise; "
                             "expected at least 0")
        return math.sqrt(self.lr)
