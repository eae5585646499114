"""Questions that passes, the memory planner and the executor ask an op, besides computing it.

Every trait has a default that is correct for all ops: an op that declares none runs, more slowly or
in more memory.  `Op` (ops/op.py) inherits them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..base import MXNetError
from .param import Shape
from .regions import RowSlices
from .subgraph import SubgraphRun

if TYPE_CHECKING:
    from ..graph import Entry, Graph, Node
    from .dispatch import Storage
    from .elementwise.program import Elements
    from .op import Op, Spec

__all__ = ["OpTraits"]


class OpTraits:
    """Base class of `Op`: the defaults of all traits."""

    name: ClassVar[str] = ""
    aux: ClassVar[tuple[str, ...]] = ()
    """Inputs that are state: kept between runs, written by the op, given no gradient."""

    # -- what eager calls and tapes plan once ------------------------------------------------

    numbers: ClassVar[tuple[str, ...]] = ()
    """Floating-point parameters that are operands of the arithmetic: only results depend on them,
    nothing that is decided before the op runs, nor the nodes of its gradient."""
    placement: ClassVar[tuple[str, ...]] = ()
    """Parameters of which the same holds once shapes of outputs are known."""

    # -- memory -----------------------------------------------------------------------------

    inplace: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(input, output) pairs that may share memory when the input is not needed afterwards."""
    inplace_backward: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of backward that may share memory: (name in `needs`, input of the gradient)."""
    view: ClassVar[bool] = False
    """Output 0 is input 0 under another shape: no step runs, no memory is used."""
    accumulates: ClassVar[bool] = False
    """Forward honours `call.add`: it can add to its outputs instead of overwriting them."""
    accumulates_backward: ClassVar[bool] = False
    """Backward honours `call.add`."""

    def concat_offsets(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> RowSlices | None:
        """Offsets of the inputs in the first output, if that is their concatenation: producers of
        the inputs may write them there."""
        return None

    def split_offsets(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> RowSlices | None:
        """Offsets of the outputs in the first input, if they are slices of it: consumers of the
        outputs may read them there."""
        return None

    def strided(self) -> tuple[str, ...]:
        """Inputs and outputs that, on the CPU, may be strided (`array.strides`) between rows."""
        return ()

    # -- effects ----------------------------------------------------------------------------

    random: ClassVar[bool] = False
    """Draws random numbers, so two equal nodes are not interchangeable."""
    reads_shapes: ClassVar[bool] = False
    """Only shapes and types of the inputs matter, not their values."""
    reads_context: ClassVar[bool] = False
    """Reads `call.ctx`, also when called eagerly."""
    derived: ClassVar[bool] = False
    """Inserted by passes between parameters and their readers; runs when the parameters change."""
    shape_of_values: ClassVar[Callable[..., list[Shape]] | None] = None
    """For ops whose output shapes depend on values: a method `(ins) -> shapes`, which gets those of
    `index_inputs` as NumPy arrays and of the others the `Spec`.  Such an op runs eagerly only;
    `infer_shape` leaves unknown what does not follow from shapes."""
    storage: ClassVar[tuple[Storage, ...]] = ()
    """Conversions around implementations on the CPU, the outermost first: of tensors that these do
    not read as they are stored."""
    algorithms: ClassVar[tuple[type[Op], ...]] = ()
    """Ops that its kernels consist of, which have several implementations each."""
    numba_module: ClassVar[str] = ""
    """The module that declares the implementations "numba", imported when one is looked for."""
    gpu_module: ClassVar[str] = ""
    """The module with the GPU kernels of an op from outside of this package, imported when the op
    first runs on a GPU."""

    @property
    def is_pure(self) -> bool:
        """Whether running forward again gives the same again and has no other effect."""
        return not (self.random or self.aux)

    @property
    def may_draw(self) -> bool:
        """Whether running forward draws random numbers, or may, as operators of users."""
        return bool(self.random or not (self.is_pure or self.aux))

    def writes_aux(self, is_train: bool) -> bool:
        """Whether a forward pass may change what it reads: states, and parameters with them."""
        return bool(self.aux)

    def is_identity(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> bool:
        """Whether in inference the first output equals the first input."""
        return self.view and ins[0] == outs[0]

    # -- fusion -----------------------------------------------------------------------------

    def elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        """Forward as a program over elements; None if it is not elementwise.

        Several such nodes may run as one (`passes.optimize.fuse_elementwise`).
        """
        return None

    def backward_elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        """Backward as a program: `ins` are the tensors of `list_needs()`, `outs` the gradients."""
        return None

    # -- gradients of gradients -------------------------------------------------------------

    index_inputs: ClassVar[tuple[str, ...]] = ()
    """Inputs without gradient, such as indices; forward is affine in all others."""
    bilinear: ClassVar[tuple[str, str] | tuple[()]] = ()
    """Two inputs that forward is a product of: linear in each, and affine in all others."""

    is_opaque: ClassVar[bool] = False
    """Backward may depend on more than `needs` names, such as attributes of an object: nothing is
    known of its gradient."""

    @property
    def makes_sparse(self) -> bool:
        """Whether a parameter asks for a sparse result, also of dense inputs."""
        return False

    def decompose_backward(self, node: Node) -> list[Entry | None] | None:
        """The results of `node`, a `Backward` of this op, by other nodes over `node.inputs`.

        For differentiating it; None where there is no such form.  Ops that are `bilinear`, or
        affine but for `index_inputs`, need none.
        """
        return None

    # -- subgraphs --------------------------------------------------------------------------

    subgraphs: tuple[Graph, ...] = ()
    """Graphs that the op computes; an op that has any declares this as a field of its own."""
    runs_subgraphs: ClassVar[bool] = False
    """Runs graphs of its own (see `ops.control_flow`), on whatever device their ops run."""

    def with_subgraphs(self, graphs: tuple[Graph, ...]) -> Op:
        """The op of a node with these graphs; MXNetError if they are none it can compute."""
        raise MXNetError(f"{self.name} takes no graphs, but the node holds {len(graphs)}")

    def subgraph_parts(self, ins: list[Spec], requests: list[bool]) -> Sequence[SubgraphRun]:
        """Parts of the op's graphs that forward runs; `requests` tells which outputs are read."""
        return ()

    def backward_subgraph_parts(self, ins: list[Spec], requests: list[bool]
                                ) -> Sequence[SubgraphRun]:
        """Parts that backward runs: `ins` are the tensors of `list_needs()`."""
        return ()
