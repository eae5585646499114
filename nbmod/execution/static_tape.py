"""A network as a tape that is made once, and run many times.

The nodes of a network become `Recorded` nodes, which the gradient pass differentiates when the
network is bound.  `forward` computes the nodes one by one and saves the values that gradients read;
`backward` runs the gradient nodes as `autograd` does.

Assumes: all nodes are on one CPU and none runs a subgraph; checked in
`sparse_executor._require_supported`.  Values are kept by reference: an argument that is written
between `forward` and `backward` is read as it is then, as in any executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Graph, Node
from ..ndarray import mutation
from ..ndarray.eager import execute
from ..ndarray.recording import STATE, RecordingScope
from ..ndarray.tape import Recorded, num_outputs_read, save_for_backward
from ..ndarray.tape_backward import GradientExecutor
from ..ops.device import CPU
from ..ops.op import Spec
from ..ops.sparse.dense_region import DenseRegion
from ..ops.sparse.formats import as_dense, letters_of
from ..ops.sparse.forms import compute
from ..ops.sparse.storage_types import result
from ..passes.gradient import gradient
from ..passes.infer import Inferred

__all__ = ["StaticTape", "Value", "Watch"]

Value: TypeAlias = Any  # type: ignore[explicit-any]
"""A dense or sparse array on the CPU."""
Watch = Callable[[Node, Sequence[Value], Sequence[Value]], None]
"""Is called with a node, its inputs and its outputs, after it has run."""


class StaticTape:
    """A tape of the nodes of a network, and of their gradients.

    Parameters
    ----------
    network : Inferred
        Graph, shapes and types.
    trained : sequence of str
        Names of the variables whose gradients are wanted.
    ctx : Context
        The context of all arrays, a CPU.

    Attributes
    ----------
    graph : Graph
        That of the network.
    gradients : dict of str to Entry
        Entries of the gradients, by variable.
    heads : list of Recorded
        Variables for the gradients of the outputs.
    """

    def __init__(self, network: Inferred, trained: Sequence[str], ctx: Context):
        self._network, self._ctx = network, ctx
        self.graph = network.graph
        self._nodes: list[tuple[Node, Recorded]] = []
        recorded: dict[int, Recorded] = {}

        def current(entry: Entry) -> Entry:
            return Entry(recorded[id(entry.node)], entry.index)

        for node in network.graph.nodes:
            made = recorded[id(node)] = Recorded(node.op, map(current, node.inputs), ctx)
            made.name = node.name
            self._nodes.append((node, made))
        self._outputs = [current(entry) for entry in network.graph.outputs]
        self.heads = [Recorded(None, (), ctx) for _ in self._outputs]
        leaves = {node.name: recorded[id(node)] for node in network.graph.variables}
        found = gradient(Graph(self._outputs), [leaves[name] for name in trained],
                         [Entry(head) for head in self.heads])
        self.gradients = dict(zip(trained, found, strict=True))

    @property
    def regions(self) -> list[Recorded]:
        """The nodes of dense regions."""
        return [made for _, made in self._nodes if isinstance(made.op, DenseRegion)]

    def heads_read(self) -> list[int]:
        """Positions of the outputs whose gradients the others depend on."""
        read = {id(node) for node in Graph(self.gradients.values()).nodes}
        return [position for position, head in enumerate(self.heads) if id(head) in read]

    # -- running ------------------------------------------------------------------------------

    def forward(self, leaf: Callable[[str], Value], is_train: bool, watch: Watch | None = None
                ) -> list[Value]:
        """The outputs; `leaf` has the arrays of variables.

        Values that gradients read are saved with `is_train`.
        """
        values: dict[Entry, Value] = {}
        saves = is_train and bool(self.gradients)
        with RecordingScope(False, is_train):
            for node, made in self._nodes:
                if made.op is None:
                    found = [leaf(node.name)]
                    made.specs = [Spec(found[0].shape, found[0].dtype)]
                    made.values = [None]
                else:
                    ins = [values[entry] for entry in made.inputs]
                    found = self._run(node, made, ins, saves)
                    if watch is not None:
                        watch(node, ins, found)
                values.update({Entry(made, index): each for index, each in enumerate(found)})
        return [values[entry] for entry in self._outputs]

    def _run(self, node: Node, made: Recorded, ins: list[Value], saves: bool) -> list[Value]:
        try:
            found = self._compute(node, made, ins, saves)
        except MXNetError as error:
            raise type(error)(f"{node.describe()}: {error}") from error
        if saves:
            save_for_backward(made, ins, found)
        return found

    def _compute(self, node: Node, made: Recorded, ins: list[Value], saves: bool) -> list[Value]:
        op, letters = made.required_op, letters_of(ins)
        if isinstance(op, DenseRegion):
            executor = made.state["executor"]
            return executor.forward(ins, STATE.training)
        if letters.strip("d") or op.makes_sparse:
            if (letter := result(op, letters)) is not None:
                with np.errstate(all="ignore"):     # infinity and NaN are results
                    return [compute(op, ins, letter,
                                    lambda op, arrays: execute(op, arrays, CPU)[0])]
            ins = [*map(as_dense, ins)]
        outs = () if ins else [CPU.empty(*self._spec(node, index))
                               for index in range(node.num_visible)]
        made.state = {}
        extra = (num_outputs_read(op), made.state) if saves else ()
        found = execute(op, ins, CPU, outs, self._ctx, *extra)
        if op.aux:
            mutation.written(*[ins[index] for index in op.aux_indices()])
        return found

    def _spec(self, node: Node, index: int) -> Spec:
        return self._network.specs[self._network.graph.eid(Entry(node, index))]

    def backward(self, heads: Mapping[int, Value], nodes: Sequence[Node], wanted: Sequence[Entry],
                 is_train: bool) -> list[Value]:
        """Run gradient nodes, for gradients of the outputs by position, and return some values."""
        for position, value in heads.items():
            head = self.heads[position]
            head.specs, head.values = [Spec(value.shape, value.dtype)], [value]
        with RecordingScope(False, is_train):
            executor = GradientExecutor(nodes, wanted, is_train, False)
            executor.run()
        return [executor.value(entry) for entry in wanted]

    def free(self) -> None:
        """Forget the values that gradients read."""
        for _, made in self._nodes:
            made.values = [None] * len(made.values)
