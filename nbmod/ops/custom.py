"""`Custom`: the op whose rules and computation are a user's Python class.

`mx.operator.register` adds a factory to `FACTORIES`, which makes a `Definition` from the parameters
of a node.  So ops depend neither on NDArrays nor on users' classes: `nbmod.operator` is the
adapter.

A node that comes from a file may name an operator that is not registered (yet).  It then has as
many inputs and outputs as the file connects; any other use is an error that names the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from ..base import MXNetError, did_you_mean
from .op import Call, Op, Run, Types, resolve_needs
from .param import to_text
from .shape import Shapes

__all__ = ["Custom", "Definition", "FACTORIES"]

Arrays = Mapping[tuple[str, int], Any]
"""Arrays that backward reads: ("ograd" | "in" | "out", index) -> array; all others are absent.
Auxiliary states are the last of "in"."""


class Definition(Protocol):
    """A custom operator with the parameters of one node; `module` has the user's class."""

    module: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[str, ...]
    needs: tuple[str, ...]

    def infer_shape(self, ins: Shapes) -> tuple[Shapes, Shapes]:
        """Shapes of arguments and states, and of outputs, from those of the arguments."""

    def infer_type(self, ins: Types) -> tuple[Types, Types]:
        """Element types of arguments and states, and of outputs, from those of the arguments."""

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        """A function that runs the user's forward on these very arrays."""

    def prepare_backward(self, ins: Arrays, outs: Sequence[Any], call: Call) -> Run:
        """A function that runs the user's backward; `outs`: gradients of arguments and states."""


FACTORIES: dict[str, Callable[[dict[str, str]], Definition]] = {}
"""Name of a registered operator -> function from a node's parameters to its definition."""


# eq=False: every node has a definition of its own, even with equal parameters.
@dataclass(frozen=True, eq=False)
class Custom(Op, name="Custom"):
    """y_1, y_2, ... = f(x_1, x_2, ...), with f and its gradient written in Python.

    `op_type` is the name under which a `CustomOpProp` was registered with `mx.operator.register`.
    All further parameters go to its constructor, as text.  It defines names, shapes and types of
    inputs, auxiliary states and outputs, and creates the `CustomOp` that computes: one for each
    bound executor, so it may keep intermediate results of forward for backward.
    """

    op_type: str
    parameters: InitVar[Mapping[str, str] | None] = None
    connected: InitVar[tuple[int, int] | None] = None

    shapes: ClassVar = "as the operator's own infer_shape says"
    variadic: ClassVar = "op_type"
    may_lack_inputs: ClassVar = True
    reads_context: ClassVar = True
    is_pure: ClassVar = False
    is_opaque: ClassVar = True
    _parameters: ClassVar[dict[str, str]] = {}
    _connected: ClassVar[tuple[int, int] | None] = None

    def __post_init__(self, parameters, connected):
        object.__setattr__(self, "_parameters", dict(parameters or {}))
        object.__setattr__(self, "_connected", connected)
        if self.op_type in FACTORIES:
            assert self.definition is not None  # raises errors here rather than at bind

    @classmethod
    def from_attrs(cls, attrs, where=""):
        parameters = {key: to_text(value) for key, value in attrs.items()}
        op_type = parameters.pop("op_type", "")
        if not op_type:
            raise MXNetError(f"{where or 'Custom'}: required parameter op_type is not given, "
                             "expected the name of a registered operator")
        return cls(op_type, parameters)

    def to_attrs(self):
        return {"op_type": self.op_type, **self._parameters}

    @classmethod
    def count_inputs(cls, params, count):
        """The definition knows the number of inputs."""

    def with_arity(self, inputs, outputs):
        if self.op_type in FACTORIES:
            return self
        return Custom(self.op_type, self._parameters, (inputs, outputs))

    @cached_property
    def definition(self) -> Definition:
        """The definition that is registered as `op_type`, with the parameters of this node."""
        if self.op_type not in FACTORIES:
            raise MXNetError(
                f"no custom operator is registered as {self.op_type!r}; import the module whose "
                f"class is decorated with @mx.operator.register({self.op_type!r})"
                f"{did_you_mean(self.op_type, FACTORIES)}")
        definition = FACTORIES[self.op_type](self._parameters)
        names = definition.arguments + definition.states
        if self._connected and len(names) != self._connected[0]:
            raise MXNetError(f"custom operator {self.op_type!r} is registered with {len(names)} "
                             f"inputs {list(names)}, but its node has {self._connected[0]}")
        return definition

    def _placeholder(self) -> tuple[int, int] | None:
        """The numbers of inputs and outputs of an operator from a file that is not registered."""
        return None if self.op_type in FACTORIES else self._connected

    # -- names ------------------------------------------------------------------------------

    @property
    def aux(self):  # type: ignore[override]
        return () if self._placeholder() else self.definition.states

    def list_inputs(self):
        if counts := self._placeholder():
            return tuple(f"arg{i}" for i in range(counts[0]))
        return self.definition.arguments + self.definition.states

    def list_outputs(self):
        if counts := self._placeholder():
            return tuple(f"output{i}" for i in range(counts[1])) if counts[1] > 1 else ("output",)
        return self.definition.outputs

    def list_needs(self):
        return self.definition.needs

    # -- inference --------------------------------------------------------------------------

    def infer_shape(self, ins, outs):
        return self.definition.infer_shape(ins[:len(self.definition.arguments)])

    def infer_type(self, ins, outs):
        return self.definition.infer_type(ins[:len(self.definition.arguments)])

    # -- execution --------------------------------------------------------------------------

    def forward(self, ins, outs, call):
        self.prepare(ins, outs, call)()

    def prepare(self, ins, outs, call):
        return self.definition.prepare(ins, outs, call)

    def backward(self, ins, outs, call):
        self.prepare_backward(ins, outs, call)()

    def prepare_backward(self, ins, outs, call):
        keys = [(kind, index) for _, kind, index in resolve_needs(self)]
        return self.definition.prepare_backward(
            dict(zip(keys, ins, strict=True)), outs, call)
