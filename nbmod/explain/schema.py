"""The facts of a plan as plain values: the classes below.

Nodes, entries, storages and steps have the numbers of their places in the lists of a `PlanFacts`
and of a `BindFacts`, and refer to each other by these numbers.  Equal networks have equal facts:
there are no times, addresses or names of hosts among them, unless a measurement was asked for.

`SCHEMA` and `VERSION` come first in a file.  A version only adds fields; a field that changes its
meaning or goes makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["SCHEMA", "VERSION", "Advice", "ArgumentFacts", "BindFacts", "CandidateFacts",
           "CodeFacts", "EntryFacts", "FailureFacts", "GraphNodeFacts", "ImplementationFacts",
           "Json", "Keeper", "KernelFacts", "MeasuredFacts", "MemoryFacts", "NetworkFacts",
           "PassFacts", "PlanFacts", "RemarkFacts", "Replaced", "RunFacts", "StepCodeFacts",
           "StepFacts", "StepTimeFacts", "StorageFacts", "TensorFacts", "ValueFacts", "Variant"]

SCHEMA, VERSION = "nbmod.explain", 1

Json: TypeAlias = "str | int | float | bool | None | Sequence[Json] | Mapping[str, Json]"


@dataclass(frozen=True)
class NetworkFacts:
    """The symbol, and what its plan depends on beside it."""

    name: str
    arguments: Sequence[str]
    auxiliary: Sequence[str]
    outputs: Sequence[str]
    context: str
    requests: Mapping[str, str]
    """Gradients of arguments: "write" or "add"; those without are left out."""
    exact: bool
    disabled_passes: Sequence[str]

    @property
    def training(self) -> bool:
        """Whether there are gradients."""
        return bool(self.requests)


@dataclass(frozen=True)
class TensorFacts:
    """Shape and type."""

    shape: Sequence[int]
    dtype: str


@dataclass(frozen=True)
class GraphNodeFacts:
    """A node of one or more of the graphs; those of the symbol come first."""

    name: str
    op: str
    """Empty for a variable."""
    parameters: Mapping[str, str]
    """Parameters that are not defaults."""
    inputs: Sequence[Sequence[int]]
    """Node and number of its output."""
    outputs: Sequence[TensorFacts | None]
    """None for an output that a pass knows nothing about."""
    origins: Sequence[int]
    """The nodes of the symbol that it computes, or is the gradient of; for what a pass inserts,
    such as a reorder of a layout, those whose results it converts.
    A node of the symbol is there for itself, at least."""


@dataclass(frozen=True)
class Replaced:
    """A node that a pass replaced by one of the same name: with another op, or other inputs."""

    before: int
    after: int


@dataclass(frozen=True)
class PassFacts:
    """A pass that changed the graph, and the graph that it left."""

    name: str
    description: str
    graph: Sequence[int]
    """Nodes, inputs before users."""
    outputs: Sequence[Sequence[int]]
    added: Sequence[int]
    removed: Sequence[int]
    replaced: Sequence[Replaced]


@dataclass(frozen=True)
class RemarkFacts:
    """A decision of a pass: see `passes.remarks`."""

    pass_name: str
    node: int | None
    """The node of some graph that it is about; None for an entry."""
    entry: int | None
    """The entry of the plan that it is about, for passes of the memory planner."""
    name: str
    """The name of either."""
    verdict: str
    """"done" or "refused"."""
    rule: str
    evidence: Mapping[str, Json]
    """Nodes are {"node": number, "name": name}, outputs of nodes have an "output", too; tensors and
    steps of the plan are {"entry": number, "name": name} and {"step": number, "name": name}."""
    where: str


@dataclass(frozen=True)
class EntryFacts:
    """An output of a node of the final graph, and its memory."""

    name: str
    node: int
    output: int
    tensor: TensorFacts
    nbytes: int
    kind: str
    """"planned", "variable", "gradient", "constant", or "unread": nothing reads it."""
    storage: int | None = None
    offset: int = 0
    """Bytes from the start of the storage, or of what it is a view of."""
    rows: int = 1
    row_step: int = 0
    """Rows that are not adjacent: their number, and the bytes from one to the next."""
    view_of: int | None = None
    """The variable, gradient or constant whose memory it is."""
    in_place_of: int | None = None
    """The input that it overwrites."""
    adds: bool = False
    """Whether it is added to what is in its memory."""
    producer: int | None = None
    readers: Sequence[int] = ()
    is_output: bool = False


@dataclass(frozen=True)
class Keeper:
    """Why a storage is not free before the end of its last step."""

    reason: str
    """"read" by a step, "output" of the network, "written" and never read, or "scratch"."""
    step: int | None
    entry: int | None


@dataclass(frozen=True)
class StorageFacts:
    """A piece of memory that entries share, one after another."""

    space: int
    """A number in `MemoryFacts.arenas`."""
    offset: int | None
    """None for an output, which has a buffer of its own."""
    nbytes: int
    first: int
    last: int
    held: bool
    """Whether it lives on after the run, for it is an output."""
    entries: Sequence[int]
    scratch_of: int | None
    """The step whose workspace it is."""
    keeper: Keeper


@dataclass(frozen=True)
class CandidateFacts:
    """An implementation that was chosen or rejected."""

    name: str
    key: str
    source: str
    cost: float | None
    """Nanoseconds on one thread, as estimated."""
    why_not: str
    parts: Sequence[ImplementationFacts] = ()
    """Computations that it consists of."""


@dataclass(frozen=True)
class ImplementationFacts:
    """The choice for a step, or for a part of one."""

    op: str
    chosen: CandidateFacts | None
    rejected: Sequence[CandidateFacts]


@dataclass(frozen=True)
class StepFacts:
    """A node in the order of execution."""

    node: int
    name: str
    op: str
    phase: str
    """"forward" or "backward"."""
    context: str
    reads: Sequence[int]
    writes: Sequence[int | None]
    """None for an output that nothing reads."""
    is_view: bool
    """Whether nothing runs: the result is in memory already."""
    scratch: Sequence[int]
    operations: int
    """Multiplications and additions of products; 0 for steps that memory bounds."""
    nbytes: int
    """Read and written."""
    forward: int | None
    """For a gradient, the step that it is the gradient of."""
    implementation: ImplementationFacts | None
    subgraphs: Sequence[PlanFacts] = ()
    """Plans of the bodies of a loop or branch."""


@dataclass(frozen=True)
class MemoryFacts:
    """Totals of a plan, in bytes."""

    total: int
    held: int
    arenas: Mapping[str, int]
    """By context."""
    unshared: int
    """All planned entries and workspaces, if no two shared memory."""
    live: Sequence[int]
    """Bytes alive at each step."""
    peak_step: int | None
    """The first step at which most is alive."""


@dataclass(frozen=True)
class PlanFacts:
    """Steps and memory of a graph."""

    entries: Sequence[EntryFacts]
    storages: Sequence[StorageFacts]
    steps: Sequence[StepFacts]
    constants: Sequence[Sequence[int]]
    """Groups of nodes that run only when what they read has changed."""
    memory: MemoryFacts


@dataclass(frozen=True)
class Variant:
    """The figures of the plan, or of the plan that there would be without a pass."""

    without: str
    """The pass; empty if there is none."""
    total: int
    """Bytes of memory."""
    steps: int
    """Steps that run; views do not."""
    operations: int = 0
    """Sum over all steps."""
    nbytes: int = 0
    """Bytes that all steps together read and write."""
    added: str = ""
    """A part of bind that is off in the plan: "mirror"."""


@dataclass(frozen=True)
class StepTimeFacts:
    """The time of a step."""

    step: int
    seconds: float
    """Median of all runs."""
    noise: float | None
    """0.01 where two runs may differ by 1%; None where there were too few to know it."""
    share: float | None
    """Part of the roof that limits the step; None where it reads and writes nothing."""
    roof: str
    """"float32 peak", "L2 bandwidth"; empty without a share."""


@dataclass(frozen=True)
class MeasuredFacts:
    """Times of steps, by the kernel bench (`nbmod.bench.step_facts`)."""

    threads: int
    runs: int
    steps: Sequence[StepTimeFacts]
    """The steps that a run takes, in their order."""
    operations: Mapping[str, float]
    """Roofs: multiplications plus additions a second, by type."""
    bandwidths: Mapping[str, float]
    """Roofs: bytes a second, by level: L1, L2, L3 and memory."""


@dataclass(frozen=True)
class KernelFacts:
    """A compiled function that steps call, for types of arguments; see `bench.machine_code`."""

    name: str
    where: str
    """File and line."""
    source: str
    """The function in Python, as it was written or generated."""
    intermediate: str
    """The hot loop in LLVM's intermediate representation; empty without a loop."""
    assembly: str
    """The hot loop in machine instructions."""
    instructions: int
    vector_bits: int
    fmas: int
    spills: int
    calls: int


@dataclass(frozen=True)
class StepCodeFacts:
    """The kernels that a step calls."""

    step: int
    kernels: Sequence[int]
    """Numbers in `CodeFacts.kernels`; none for a step that NumPy runs."""


@dataclass(frozen=True)
class CodeFacts:
    """Kernels of steps, as far as anybody asked for them."""

    kernels: Sequence[KernelFacts]
    steps: Sequence[StepCodeFacts]


@dataclass(frozen=True)
class ValueFacts:
    """Values of a tensor at some moment of a run."""

    entry: int
    low: float | None
    """The least finite value; None if there is none."""
    high: float | None
    mean: float | None
    not_finite: int
    """How many values are infinite or no numbers."""
    sample: Sequence[Sequence[float | None]]
    """Rows from the last two axes at the first place of the others, to four digits: all of it where
    it is small, else evenly chosen.  None where it is not finite."""


@dataclass(frozen=True)
class RunFacts:
    """A run: of inference, or of training with gradients of 1 for all outputs."""

    arrays: Sequence[ValueFacts]
    """Variables and constants before it."""
    steps: Sequence[Sequence[ValueFacts]]
    """Results of each step."""


@dataclass(frozen=True)
class ArgumentFacts:
    """An input of the node at which something failed."""

    name: str
    node: int
    tensor: TensorFacts | None
    """Shape and type that are known; 0 is an unknown dimension, "?" an unknown type."""
    fits: TensorFacts | None
    """Shape and type that the other inputs need it to have."""


@dataclass(frozen=True)
class FailureFacts:
    """Why there is no plan, or no result of it."""

    stage: str
    """"inference" of shapes and types, "bind" or "run"."""
    kind: str
    """The class of the error."""
    message: str
    node: int | None
    """The node that the error names."""
    step: int | None
    """The step that failed."""
    arguments: Sequence[ArgumentFacts]


@dataclass(frozen=True)
class Advice:
    """A change of a network, or of how it is bound, and what it changes; less is negative."""

    kind: str
    """"unread gradient", "recompute", "read earlier", "layout", "fuse" or "slow step"."""
    subject: str
    """The node, argument or kind of node that it is about."""
    reason: str
    change: str
    """A line of the user's program, or what to change in it."""
    nodes: Sequence[int]
    total: int
    """Bytes of memory."""
    steps: int
    operations: int
    nbytes: int
    """Bytes read and written."""
    seconds: float | None
    """By the roofs, or for a slow step by its time; None without a measurement."""


@dataclass(frozen=True)
class BindFacts:
    """Everything that is decided when a network is bound, and why."""

    network: NetworkFacts
    nodes: Sequence[GraphNodeFacts]
    graph: Sequence[int]
    """The nodes of the symbol."""
    outputs: Sequence[Sequence[int]]
    passes: Sequence[PassFacts]
    remarks: Sequence[RemarkFacts]
    plan: PlanFacts
    variants: Sequence[Variant] = field(default=())
    measured: MeasuredFacts | None = None
    advice: Sequence[Advice] | None = None
    """The best first; None if nobody asked for it."""
    code: CodeFacts | None = None
    run: RunFacts | None = None
    failure: FailureFacts | None = None
    """Then passes and the plan are those that there were before it; often none."""
