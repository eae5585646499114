"""The definition of a sample of an op, and how its arrays are made.

A `Sample` says how an op is called; it holds no arrays and imports nothing from nbmod, so the same
table drives the generic checks (`tests/ops/test_ops.py`) and the comparison with MXNet
(`tests/oracle/test_ops.py`). Arrays are a function of the sample and the element type alone.

Inputs are described by `Input`s, which the functions below make; a shape alone means `normal`.
Their element type is the one under test (`FLOAT`) unless they name another.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

FLOAT = "the element type under test"
AT_LEAST_32 = "the element type under test, but float32 where that is float16"

CONTINUOUS = ("normal", "uniform", "nonzero", "distinct")
FLOATS = ("float32", "float64", "float16")


@dataclass(frozen=True)
class Input:
    """How one input is drawn; `kind` is a name of `_DRAW`, or "array" for given values."""

    shape: tuple[int, ...]
    kind: str = "normal"
    low: float = 0.0
    high: float = 0.0
    dtype: str = FLOAT
    values: tuple[float, ...] = ()


def normal(shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Standard normal values."""
    return Input(shape, "normal", dtype=dtype)


def uniform(low: float, high: float, shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Values uniform between `low` and `high`."""
    return Input(shape, "uniform", low, high, dtype)


def positive(shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Values uniform between 0.5 and 2."""
    return Input(shape, "uniform", 0.5, 2.0, dtype)


def nonzero(shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Values of both signs at least 0.1 from zero: for functions with a kink there."""
    return Input(shape, "nonzero", dtype=dtype)


def distinct(shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Shuffled, evenly spaced, distinct values from -2 to 2: for maxima, sorting, pooling."""
    return Input(shape, "distinct", dtype=dtype)


def integers(low: int, high: int, shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Integers from `low` to `high - 1`: labels and indices, which get no gradient check."""
    return Input(shape, "integers", low, high, dtype)


def label(classes: int, shape: tuple[int, ...], dtype: str = FLOAT) -> Input:
    """Class indices below `classes`."""
    return integers(0, classes, shape, dtype)


def array(values: Any, dtype: str = FLOAT) -> Input:
    """Given values; name them in `grad` if they are to be differentiated."""
    data = np.asarray(values, np.float64)
    return Input(data.shape, "array", dtype=dtype, values=tuple(data.ravel().tolist()))


@dataclass(frozen=True)
class Sample:
    """One way to call an op.

    op       name that users write (`FullyConnected`, `_plus_scalar`, `_contrib_box_iou`)
    inputs   by name, or a tuple for ops of any number of inputs (they are then named x0, x1, ...);
             every input is listed, auxiliary states too, as a shape or an `Input`
    attrs    parameters as Python values
    grad     names of the inputs whose gradient is checked; None: all continuous ones; (): none
    is_train the mode of the forward pass; gradients are checked in training mode only
    dtypes   element types the op is run with; integer types get rounded values
    mx_dtypes  those that real MXNet can run as well; None: the same
    loss     backward is declared, not the derivative of forward: no finite differences
    random   outputs are drawn: only shapes and types are compared
    outputs  indices of the outputs to compare and to send gradients into; None: all
    writes   names of inputs that the op overwrites, though they are no auxiliary states
    out      names of inputs whose arrays are passed as `out`; given, even as (), the oracle calls
             the op eagerly: for what MXNet cannot compose
    eager    called under `autograd.record` instead of bound: its shapes depend on values
    free     names of inputs that come in several shapes, of which inference assumes another
    tol      tolerances other than `TOLERANCE`'s, by element type
    oracle   False where nbmod differs from MXNet on purpose
    inference  False where MXNet infers from the first input alone what is not so here
    error    pattern of the MXNetError that this call must raise, when bound at the latest
    why      the reason for `tol`, `mx_dtypes`, `oracle=False` or `inference=False`
    note     shown in the test's name
    seed     other values of the inputs for every number
    """

    op: str
    inputs: Mapping[str, Any] | tuple[Any, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    grad: tuple[str, ...] | None = None
    is_train: bool = True
    dtypes: tuple[str, ...] = FLOATS
    mx_dtypes: tuple[str, ...] | None = None
    loss: bool = False
    random: bool = False
    outputs: tuple[int, ...] | None = None
    writes: tuple[str, ...] = ()
    out: tuple[str, ...] | None = None
    eager: bool = False
    free: tuple[str, ...] = ()
    tol: Mapping[str, float] = field(default_factory=dict)
    oracle: bool = True
    inference: bool = True
    error: str = ""
    why: str = ""
    note: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        plain = self.oracle and self.inference and self.mx_dtypes is None
        if (self.tol or not plain) and not self.why:
            raise ValueError(f"{self}: say why it is treated differently")

    @property
    def keyword(self) -> bool:
        """Inputs are passed by name."""
        return not isinstance(self.inputs, tuple)

    @property
    def specs(self) -> dict[str, Input]:
        """The inputs by name."""
        given = self.inputs
        named = given if isinstance(given, Mapping) else {f"x{i}": x for i, x in enumerate(given)}
        return {name: x if isinstance(x, Input) else Input(tuple(x)) for name, x in named.items()}

    def arrays(self, dtype: str = "float32") -> dict[str, np.ndarray]:
        """The inputs' values for one element type: the same in every process and every order."""
        return {name: draw(spec, dtype, self._seed(name)) for name, spec in self.specs.items()}

    def heads(self, outputs: list[np.ndarray]) -> list[np.ndarray]:
        """Head gradients for these outputs, of their shapes and types; zero where not compared."""
        specs = [Input(y.shape, "normal", dtype=y.dtype.name) for y in outputs]
        drawn = [draw(spec, "", self._seed(f"head{i}")) for i, spec in enumerate(specs)]
        return [g if self.compares(i) else np.zeros_like(g) for i, g in enumerate(drawn)]

    def compares(self, output: int) -> bool:
        """Whether output number `output` is to be compared."""
        return self.outputs is None or output in self.outputs

    def differentiated(self, dtype: str) -> tuple[str, ...]:
        """Names of the inputs whose gradient is checked."""
        if not self.is_train:
            return ()
        if self.grad is not None:
            return self.grad
        if np.dtype(dtype).kind != "f":
            return ()
        return tuple(name for name, spec in self.specs.items() if spec.kind in CONTINUOUS)

    def tolerance(self, dtype: str) -> float:
        """Largest error, relative to the largest expected magnitude of the array."""
        return self.tol.get(dtype, TOLERANCE.get(dtype, 0.0))

    def _seed(self, name: str) -> int:
        # The sample's position in the table must not matter, nor its `note` and tolerances.
        attrs = sorted((key, str(value)) for key, value in self.attrs.items())
        return zlib.crc32(repr((self.op, name, attrs, sorted(self.specs))).encode()) ^ self.seed

    def seeded(self, seed: int) -> Sample:
        """The sample with inputs of its own for every seed."""
        return replace(self, seed=seed)


# float16 has 11 bits and MXNet accumulates some reductions in it; float32 differs by order of sums.
TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-10}


def dtype_of(spec: Input, dtype: str) -> str:
    """The element type of an input when `dtype` is under test."""
    if spec.dtype == AT_LEAST_32:
        return "float32" if dtype == "float16" else dtype
    return dtype if spec.dtype == FLOAT else spec.dtype


def draw(spec: Input, dtype: str, seed: int) -> np.ndarray:
    """The values of an input: drawn in float64, then converted."""
    kind = np.dtype(dtype_of(spec, dtype))
    rng = np.random.default_rng(seed)
    if spec.kind == "array":
        return np.array(spec.values).reshape(spec.shape).astype(kind)
    if spec.kind == "integers":
        return rng.integers(int(spec.low), int(spec.high), spec.shape).astype(kind)
    values = _DRAW[spec.kind](rng, spec)
    return values.astype(kind) if kind.kind == "f" else _whole(values, spec, kind)


def _whole(values: np.ndarray, spec: Input, kind: np.dtype) -> np.ndarray:
    """Continuous values as integers or truth values, with the properties of their kind."""
    if kind.kind == "b":
        return values > values.mean()
    if spec.kind == "distinct":
        values = values.argsort(axis=None).argsort().reshape(spec.shape)
    rounded = np.rint(values * (1 if spec.kind == "distinct" else 4))
    if spec.kind in ("nonzero", "uniform"):
        rounded[rounded == 0] = 1
    return (np.abs(rounded) if kind.kind == "u" else rounded).astype(kind)


def _draw_nonzero(rng: np.random.Generator, spec: Input) -> np.ndarray:
    return rng.uniform(0.1, 1.6, spec.shape) * rng.choice([-1.0, 1.0], spec.shape)


def _draw_distinct(rng: np.random.Generator, spec: Input) -> np.ndarray:
    count = int(np.prod(spec.shape))
    return rng.permutation(np.linspace(-2.0, 2.0, count)).reshape(spec.shape)


_DRAW = {
    "normal": lambda rng, spec: rng.standard_normal(spec.shape),
    "uniform": lambda rng, spec: rng.uniform(spec.low, spec.high, spec.shape),
    "nonzero": _draw_nonzero,
    "distinct": _draw_distinct,
}
