"""The base class of ops.  An op is a frozen dataclass: fields are parameters, methods are rules.

    @dataclass(frozen=True)
    class FullyConnected(Op, name="FullyConnected"):
        '''Y = X W^T + b ...'''
        num_hidden: int
        no_bias: bool = False
        flatten: bool = True

        inputs: ClassVar = ("data", "weight", "bias")
        needs: ClassVar = ("ograd", "data", "weight")

Subclassing with `name=` registers the class in `OPS`.  All rules have defaults here; what helps
passes and the memory planner (in-place pairs, fusion, ...) is in `OpTraits` (ops/traits.py).

Gradients.  An op says in `needs` which tensors its backward reads, by name: inputs, outputs,
`"ograd"` (gradient of the first output), `"ograds"` (of every visible output), `"args"` (every
input), `"outs"` (every output).  One generic `Backward` node per forward node serves all ops: its
inputs are those tensors in that order, its outputs the gradients of the inputs of forward.  An op
whose gradient is simpler in terms of other ops overrides `gradient` instead.

Execution.  `forward(ins, outs, call)` and `backward(ins, outs, call)` get arrays (C-contiguous
`numpy.ndarray` on the CPU) and a `Call`.  An output that nothing reads is None and must be skipped;
the first output of forward is never None.  Results are written into `outs`, never returned.
`prepare` and `prepare_backward` choose a compiled kernel for the arrays at hand: they run once, at
bind, and return a function without arguments.  Either of `forward` and `prepare` is enough, as each
is the default of the other.  All are called through the table of implementations (`dispatch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

from ..base import DType, MXNetError
from ..core.registry import is_abandoned
from .param import Shape, parse_params, to_text
from .regions import RowSlices
from .shape import Shapes, size_of, unify_all
from .subgraph import Bind, SubgraphRun
from .traits import OpTraits

Run = Callable[[], None]
"""A prepared step: calling it computes the step."""

if TYPE_CHECKING:
    from ..context import Context
    from ..graph import Entry, Node
    from .elementwise.program import Elements

__all__ = ["Op", "Backward", "Computation", "Spec", "Call", "Mode", "PartialType", "Run", "Tensor",
           "Types"]

PartialType: TypeAlias = "DType | None"
Types = list[PartialType]


def common_type(types: Iterable[PartialType]) -> PartialType:
    """The one element type among those known; None if none is."""
    known = [dtype for dtype in types if dtype is not None]
    for dtype in known:
        if dtype != known[0]:
            raise MXNetError(f"element types {known[0]} and {dtype} do not agree; insert a Cast, "
                             "such as x.astype('float32')")
    return known[0] if known else None


class Tensor(Protocol):
    """A spec, or an array of any device, of which only the shape and the type are read."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def size(self) -> int: ...


class Spec(NamedTuple):
    """Shape and type of a tensor before it exists."""

    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        return size_of(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass
class Mode:
    """Values that differ between runs of one executor; all its steps share one `Mode`."""

    is_train: bool = False
    iteration: tuple[int, ...] = ()
    """In the body of a loop: the number of the iteration, of the outermost loop first."""


@dataclass
class Call:
    """Arguments of a step besides arrays.

    `scratch` holds the arrays the op asked for in `scratch`/`backward_scratch`; `add[i]` is true
    where output i is added to instead of overwritten (only where the op `accumulates`).  `specs`
    describes every output, also those that are None; it is empty in eager calls, where none is.
    `ctx` is the arrays' context; `state` belongs to one node in one executor (None in eager calls).
    `subgraphs` has an entry for each of the op's `subgraph_parts`.
    """

    mode: Mode = field(default_factory=Mode)
    scratch: Sequence[Any] = ()
    add: Sequence[bool] = ()
    specs: Sequence[Spec] = ()
    ctx: Context | None = None
    state: dict[str, Any] | None = None
    subgraphs: Sequence[Bind] = ()

    @property
    def is_train(self) -> bool:
        return self.mode.is_train


Count: TypeAlias = Callable[["Op", Sequence["Spec"], Sequence["Spec | None"]], float]
"""From an op and the specs of its inputs and outputs (None: nothing reads it)."""


Computation: TypeAlias = Callable[[Any, Sequence[Any], Sequence[Any], Call], None]
"""From an op of one form, inputs, outputs (None for one that nothing reads) and the call."""


class Cost(NamedTuple):
    """How one run of an op's forward is counted; None: as the cost model does."""

    operations: Count | None = None
    nbytes: Count | None = None


class Op(OpTraits):
    """Base class of every op; see the module docstring.  All methods here are the defaults."""

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[str, ...]] = ("data",)
    """Names of the tensors; those in `aux` (see `OpTraits`) are states."""
    outputs: ClassVar[tuple[str, ...]] = ("output",)
    needs: ClassVar[tuple[str, ...]] = ()
    """Tensors that backward reads; () with the default `gradient` means a zero gradient."""
    variadic: ClassVar[str] = ""
    """For ops of any number of inputs: the parameter that tells how many (`num_args`)."""
    may_lack_inputs: ClassVar[bool] = False
    """Whether a `variadic` op may have no inputs at all."""
    init: ClassVar[dict[str, str]] = {}
    """Initializer (JSON text, as in `__init__`) that auto-created inputs carry."""
    cost: ClassVar[Cost] = Cost()
    """The counts that `register_op` was given, for the cost model."""
    shapes: ClassVar[str] = ""
    """For documentation: shapes, or an example of them; "" where the docstring has them."""

    def __init_subclass__(cls, name: str = "", aliases: Sequence[str] = (), **kwargs: object):
        super().__init_subclass__(**kwargs)
        if name:
            cls.enter(name, aliases)

    @classmethod
    def enter(cls, name: str, aliases: Sequence[str] = ()) -> None:
        """Register the class under its names; MXNetError for a name that is taken."""
        cls.name, cls.aliases = name, tuple(aliases)
        for key in (name, *aliases):
            known = _TABLE.setdefault(key, cls)
            if known is not cls and not is_abandoned(known, cls):
                raise MXNetError(f"{cls.__module__}.{cls.__name__}: there is an op {key!r} already")
            _TABLE[key] = cls

    @classmethod
    def from_attrs(cls, attrs: dict[str, Any], where: str = "") -> Op:
        """The op with parameters read from attributes; errors name `where` (the node)."""
        return cls(**parse_params(cls, attrs, where))

    def to_attrs(self) -> dict[str, str]:
        """The parameters as attributes, without those that have their defaults."""
        return {f.name: to_text(getattr(self, f.name)) for f in fields(self)  # type: ignore[arg-type]
                if getattr(self, f.name) != f.default}

    @classmethod
    def count_inputs(cls, params: dict[str, Any], count: int) -> None:
        """Set the parameter `variadic` to the number of tensors if it is not given."""
        params.setdefault(cls.variadic, str(count))

    def with_arity(self, inputs: int, outputs: int) -> Op:
        """The op of a node in a file, for ops whose numbers of inputs and outputs only connections
        tell."""
        return self

    # -- names ------------------------------------------------------------------------------

    def list_inputs(self) -> tuple[str, ...]:
        """Names of all inputs, auxiliary states included (last)."""
        if self.variadic:
            return tuple(f"arg{i}" for i in range(getattr(self, self.variadic)))
        return self.inputs

    def list_outputs(self) -> tuple[str, ...]:
        """Names of all outputs, hidden ones last; `<node>_<name>` is the public name."""
        return self.outputs

    @property
    def num_visible(self) -> int:
        """Number of outputs that users see."""
        return len(self.list_outputs())

    def aux_indices(self) -> tuple[int, ...]:
        if not self.aux:
            return ()
        return tuple(i for i, name in enumerate(self.list_inputs()) if name in self.aux)

    def list_needs(self) -> tuple[str, ...]:
        return self.needs

    @property
    def form(self) -> Op:
        """The op with zeros for its `numbers`, which stands for all ops of this form."""
        return self._form if self.numbers else self     # not cached: the op would refer to itself

    @cached_property
    def _form(self) -> Op:
        return with_values(self, **dict.fromkeys(self.numbers, 0.0))

    # -- inference --------------------------------------------------------------------------

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        """Everything that follows from the shapes known so far; default: all are the same.

        Partial on the way in and out (see `ops.shape`).  Raises ShapeMismatch.
        """
        shape = unify_all([*ins, *outs], "inputs and outputs")
        return [shape] * len(ins), [shape] * len(outs)

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        """Element types that follow from those known so far; default: all are the same."""
        dtype = common_type((*ins, *outs))
        return [dtype] * len(ins), [dtype] * len(outs)

    def like(self, node: Node) -> list[Entry] | None:
        """Entries whose shapes and types the outputs copy, for ops without a rule of their own."""
        return None

    # -- gradient ---------------------------------------------------------------------------

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        """Gradient entries of `node.inputs`; None (whole, or per input) is a zero gradient.

        None here asks the gradient pass for the generic `Backward` node of `list_needs()`, or for
        zeros if the op needs nothing.
        """
        return None

    def head_gradients(self) -> tuple[int, ...]:
        """Indices of outputs whose gradient backward reads: empty for a loss layer."""
        needs = self.list_needs()
        if "ograds" in needs:
            return tuple(range(self.num_visible))
        return (0,) if "ograd" in needs else ()

    # -- execution --------------------------------------------------------------------------

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        """Workspace of forward: temporary arrays of undefined contents, part of the memory plan."""
        return []

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        """Workspace of backward: `ins` are the tensors of `list_needs()`, `outs` the gradients."""
        return []

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if type(self).prepare is Op.prepare:
            raise MXNetError(f"{self.name} cannot be executed on the CPU")
        self.prepare(ins, outs, call)()

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if type(self).prepare_backward is Op.prepare_backward:
            raise MXNetError(f"{self.name} has no gradient on the CPU")
        self.prepare_backward(ins, outs, call)()

    def at_once(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        """A function that does what `forward` of any op of this form does, for arrays of these
        specs.

        Outputs overlap no input.
        """
        return type(self).forward

    def backward_at_once(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        """A function that does what `backward` does, as `at_once`."""
        return type(self).backward

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        """A function without arguments that runs forward on these very arrays."""
        return partial(self.forward, ins, outs, call)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.backward, ins, outs, call)


class Backward(Op):
    """The gradient of `fwd`: inputs are what it needs, outputs the gradients of its inputs.

    One class serves every op.  Inference copies shapes and types of the outputs from the inputs of
    the forward node.
    """

    name = "_backward"

    def __init__(self, fwd: Op, num_inputs: int, in_names: Sequence[str]):
        self.fwd = fwd
        self.name = f"_backward_{fwd.name}"  # type: ignore[misc]
        self.view = fwd.view  # type: ignore[misc]
        self.storage = fwd.storage  # type: ignore[misc]
        self.accumulates = fwd.accumulates_backward  # type: ignore[misc]
        self.random = fwd.random  # type: ignore[misc]
        self.runs_subgraphs = fwd.runs_subgraphs  # type: ignore[misc]
        self._inputs = tuple(in_names)
        self._outputs = tuple(fwd.list_inputs()[:num_inputs])
        self.inplace = fwd.inplace_backward  # type: ignore[misc]

    def list_inputs(self) -> tuple[str, ...]:
        return self._inputs

    def list_outputs(self) -> tuple[str, ...]:
        return self._outputs

    def like(self, node: Node) -> list[Entry]:
        assert node.source is not None
        return node.source.inputs

    def subgraph_parts(self, ins: list[Spec], requests: list[bool]) -> Sequence[SubgraphRun]:
        return self.fwd.backward_subgraph_parts(ins, requests)

    def elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        return self.fwd.backward_elements(ins, outs)

    def concat_offsets(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> RowSlices | None:
        return self.fwd.split_offsets(outs, ins) if self.fwd.needs == ("ograds",) else None

    def split_offsets(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> RowSlices | None:
        return self.fwd.concat_offsets(outs, ins) if self.fwd.needs == ("ograd",) else None

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.fwd.backward_scratch(ins, outs)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.fwd.backward(ins, outs, call)

    def at_once(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        compute = self.fwd.backward_at_once(ins, outs)
        return lambda op, ins, outs, call: compute(op.fwd, ins, outs, call)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return self.fwd.prepare_backward(ins, outs, call)

    def of(self, fwd: Op) -> Backward:
        """The gradient of another op of the same form."""
        return self if fwd is self.fwd else with_values(self, fwd=fwd)

    def __repr__(self) -> str:
        return f"Backward({self.fwd!r})"


AnyOp = TypeVar("AnyOp", bound=Op)


def with_values(op: AnyOp, **values: Any) -> AnyOp:
    """A copy of an op with other values of these attributes, which are not validated."""
    other = object.__new__(type(op))
    vars(other).update(vars(op), **values)
    return other


_TABLE: dict[str, type[Op]] = {}


def resolve_needs(op: Op) -> Iterator[tuple[str, str, int]]:
    """(name, kind, index) of every tensor backward reads; kind: 'ograd', 'in' or 'out'."""
    inputs, outputs = op.list_inputs(), op.list_outputs()
    for need in op.list_needs():
        if need == "ograd":
            yield need, "ograd", 0
        elif need == "ograds":
            yield from ((f"ograd{i}", "ograd", i) for i in range(op.num_visible))
        elif need == "args":
            yield from ((name, "in", i) for i, name in enumerate(inputs))
        elif need == "outs":
            yield from ((name, "out", i) for i, name in enumerate(outputs))
        elif need in inputs:
            yield need, "in", inputs.index(need)
        elif need in outputs:
            yield need, "out", outputs.index(need)
        elif need not in op.inputs:
            raise MXNetError(f"{op.name}: needs names {need!r}, which is no input or output")


def apply_rule(op: Op, rule: str, ins: Sequence[Any], outs: Sequence[Any], *through: Any
               ) -> tuple[list[Any], list[Any]]:
    """Shapes or types of inputs and outputs by a rule of `op`, which may be a user's.

    MXNetError if the rule fails on what is known so far, or leaves out a tensor.
    """
    try:
        facts: tuple[list[Any], list[Any]] = getattr(op, rule)(list(ins), list(outs), *through)
        counts = [*map(len, facts)]
    except MXNetError:
        raise
    except (TypeError, AttributeError, IndexError) as error:
        raise MXNetError(f"{rule} of {type(op).__name__} raised {type(error).__name__}: {error}; "
                         "shapes and types that are unknown are None") from error
    if counts != [len(ins), len(outs)]:
        raise MXNetError(f"{rule} of {type(op).__name__} returned lists of lengths {counts}, "
                         f"expected {[len(ins), len(outs)]}, as it has inputs and outputs")
    return facts


def all_of(runs: Sequence[Run]) -> Run:
    """One function that calls `runs` in order."""
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for each in runs:
            each()

    return run
