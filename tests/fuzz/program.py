"""A program: plain data from which either library builds the same symbol.

Values are numbered: first the inputs, then what every line gives, in order.  Nothing here imports
nbmod, so that MXNet's process can build and run the same programs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Line(NamedTuple):
    """`kind` applied to the values `args`; `gives` is the number of its results."""

    kind: str
    args: tuple[int, ...]
    params: Mapping[str, Any]
    gives: int = 1


@dataclass(frozen=True)
class Program:
    """A graph, and how it is bound.

    inputs    shapes of the variables x0, x1, ...
    outputs   values that the executor returns
    request   "write", "add" or "null" for all variables, or "mixed": another for each
    mirror    backward recomputes cheap nodes
    groups    lines alternate between two contexts
    """

    inputs: tuple[Shape, ...]
    lines: tuple[Line, ...]
    outputs: tuple[int, ...]
    request: str = "write"
    mirror: bool = False
    groups: bool = False

    def request_of(self, name: str) -> str:
        """The gradient request of a variable.

        Not "add" for gammas: that of a fixed gamma MXNet sets to 0.
        """
        requests = ("write", "add", "null")
        found = self.request if self.request in requests else (
            requests[zlib.crc32(name.encode()) % 3])
        return "write" if found == "add" and name.endswith("_gamma") else found

    @property
    def trains(self) -> bool:
        return self.request != "null"

    def values(self) -> Iterator[tuple[Line, range]]:
        """Every line, and the ids of the values that it defines."""
        first = len(self.inputs)
        for line in self.lines:
            yield line, range(first, first + line.gives)
            first += line.gives

    def to_json(self) -> str:
        return json.dumps({"inputs": self.inputs, "lines": self.lines, "outputs": self.outputs,
                           "request": self.request, "mirror": self.mirror, "groups": self.groups})

    @staticmethod
    def from_json(text: str) -> Program:
        data = json.loads(text)
        lines = [Line(kind, tuple(args), _frozen(params), gives)
                 for kind, args, params, gives in data.pop("lines")]
        return Program(**{key: _frozen(value) for key, value in data.items()}, lines=tuple(lines))

    def __str__(self) -> str:
        """The program as Python text that makes it again."""
        lines = "".join(f"\n        Line({line.kind!r}, {line.args}, {dict(line.params)!r}"
                        + (f", {line.gives})," if line.gives != 1 else "),") for line in self.lines)
        more = "".join(f", {name}={value!r}" for name, value, default in (
            ("request", self.request, "write"), ("mirror", self.mirror, False),
            ("groups", self.groups, False)) if value != default)
        return f"Program({self.inputs}, ({lines}\n    ), {self.outputs}{more})"


def _frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {key: _frozen(one) for key, one in value.items()} if isinstance(value, dict) else value


@dataclass
class Scope:
    """What building a line may need: the library, and a dictionary for values of its variables."""

    mx: Any
    name: str = ""
    dtype: str = "float32"
    fixed: dict[str, Any] = field(default_factory=dict)
    """Variables whose values are not drawn: name -> function of the element type."""

    def variable(self, name: str, values: Any = None, **attrs: Any) -> Any:
        """The variable of this line called `name`; `values(dtype)` gives its values."""
        name = f"{self.name}_{name}"
        if values is not None:
            self.fixed[name] = values
        return self.mx.sym.Variable(name, **attrs)


def build(mx: Any, program: Program, dtype: str = "float32") -> tuple[Any, dict[str, Any]]:
    """The symbol of `program` in the library `mx`, and the values of variables that have some."""
    from tests.fuzz.kinds import KINDS

    scope = Scope(mx, dtype=dtype)
    values = [mx.sym.Variable(f"x{i}") for i in range(len(program.inputs))]
    with mx.name.NameManager():
        for number, line in enumerate(program.lines):
            scope.name = f"n{number}"
            attributes = {"ctx_group": f"g{number % 2}"} if program.groups else {}
            with mx.AttrScope(**attributes):
                made = KINDS[line.kind].build(scope, [values[i] for i in line.args], line.params)
            assert len(made) == line.gives, line
            values += made
        outputs = [values[i] for i in program.outputs]
    return (outputs[0] if len(outputs) == 1 else mx.sym.Group(outputs)), scope.fixed


def drawn(name: str, shape: Sequence[int], dtype: Any, round: int = 0, narrow: str = "float32"
          ) -> np.ndarray:
    """The values of a variable: a function of its name, its shape and the round alone, rounded to
    the type `narrow`."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {round}".encode()))
    values = rng.standard_normal(tuple(shape))
    if name.endswith(("_gamma", "_var")):
        values = 1 + 0.2 * np.abs(values)
    return (0.5 * values if not name.startswith("x") else values).astype(narrow).astype(dtype)
