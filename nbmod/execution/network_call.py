"""A recorded call of a bound network: one node of the tape.

`NetworkCall` is the operation.  The values that its gradient reads are in an executor, which the
call has for itself until the node is freed, or nothing refers to it any more: it holds a `Lease` of
a `Slot`.  A slot has an executor for each signature of calls, all in the same arenas, so that there
are as many slots as calls were ever in flight at the same time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..base import MXNetError
from ..core.loans import Loans
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray, empty, invoke, zeros
from ..ndarray.recording import RecordingScope
from ..ndarray.tape import DirectGradientOp, LeafGroup, OwnKind, Recorded, entry_of, free
from ..ops.internal import ZeroGradient
from ..ops.op import Backward, Spec
from ..ops.shape import is_known
from ..passes.infer import Variable, infer_specs
from .bind import resized
from .first_answers import FirstAnswers
from .interpreter import Value
from .lent_outputs import LentOutputs

if TYPE_CHECKING:
    from ..context import Context
    from ..executor import Executor
    from ..ndarray.tape import Marked
    from .step_monitor import StepMonitor

__all__ = ["Lease", "NetworkCall", "Slot", "Slots", "run_nodes"]


class NetworkCall(DirectGradientOp):
    """The call of a network on one executor.

    Parameters
    ----------
    executor : Executor
        The network on its arrays.
    copied : dict of str to NDArray
        Those to which the inputs of a call are copied.
    flowing : sequence of str
        Inputs that are on the tape.
    leaves : dict of str to Marked
        Parameters with gradients.
    """

    name = "_CachedOp"
    needs: ClassVar = ("ograds",)

    def __init__(self, executor: Executor, copied: Mapping[str, NDArray], flowing: Sequence[str],
                 leaves: Mapping[str, Marked]):
        self._graph = graph = Graph(executor._symbol.entries)
        self.lent = LentOutputs(executor)
        self.executor, self.copied, self.flowing = executor, copied, tuple(flowing)
        self.leaves, self._group = leaves, LeafGroup([*leaves.values()], executor._ctx)
        self.specs = [Spec(output.shape, output._data.dtype) for output in executor.outputs]
        ops = [node.required_op for node in graph.nodes if node.op is not None]
        self._has_loss = any(op.list_needs() and not op.head_gradients() for op in ops)
        self._flows = [flow for name in flowing if (flow := executor.grad_dict[name]) is not None]
        self._outputs = tuple(f"output{i}" for i in range(len(graph.outputs)))
        inputs = [Spec(array.shape, array._data.dtype)
                  for array in [executor.arg_dict[name] for name in flowing]]
        self._kind = OwnKind(NetworkCall, tuple(inputs), tuple(self.specs), self.head_gradients())

    def list_inputs(self) -> tuple[str, ...]:
        return (*self.flowing, "parameters")

    def list_outputs(self) -> tuple[str, ...]:
        return self._outputs

    def to_attrs(self) -> dict[str, str]:
        return {}

    def head_gradients(self) -> tuple[int, ...]:
        """Losses inside start gradients without those of any output."""
        return () if self._has_loss else tuple(range(len(self._outputs)))

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None]:
        heads = [Entry(Node(ZeroGradient(index), "zero_grad", source=node)) if grad is None else
                 grad for index, grad in enumerate(ograds)]
        names = [f"ograd{index}" for index in range(len(heads))]
        backward = Node(Backward(self, len(node.inputs), names), f"{node.name}_backward", heads,
                        source=node)
        return [Entry(backward, index) for index in range(len(node.inputs))]

    def record(self, lease: Lease, entries: Sequence[Entry], ctx: Context) -> Recorded:
        """Record a call that has run; `entries` are those of the inputs on the tape."""
        node = Recorded(self, [*entries, Entry(self._group)], ctx)
        node.specs, node.values, node.kind = self.specs, [None] * len(self.specs), self._kind
        node.state["lease"] = lease
        return node

    def gradients(self, node: Recorded, heads: Sequence[Value], is_train: bool) -> list[Value]:
        executor, group = self.executor, node.inputs[-1].node
        assert isinstance(group, LeafGroup)
        if group.direct.retains:
            executor.retain()
        former = group.direct.begin(group)
        executor.backward([NDArray(head, node.ctx) for head in heads], is_train)
        group.direct.end(group, former)
        return [*[flow._data for flow in self._flows], group]

    def all_inputs(self, node: Recorded) -> list[Entry]:
        known = dict(zip(self.flowing, node.inputs, strict=False))
        known |= {name: Entry(leaf) for name, leaf in self.leaves.items()}
        return [known.get(each.name) or Entry(each) for each in self._graph.variables]

    def unfolded(self, node: Recorded) -> list[Entry]:
        executor, lease = self.executor, node.state["lease"]
        for each in self._graph.nodes:
            if each.op is not None and each.op.random:
                raise MXNetError(f"create_graph: {each.describe()} draws random numbers, so the "
                                 "network cannot be run again to record its gradient; call it "
                                 "without hybridize(), where each operation is recorded")
        self._require_same_outputs(node)
        arrays = {**executor.arg_dict, **executor.aux_dict}
        flowing = dict(zip(self.flowing, node.inputs, strict=False))
        with RecordingScope(True, lease.is_train):
            for name in self.copied:   # the executor's own arrays, which later calls overwrite
                arrays[name] = NDArray(arrays[name].copy()._data, node.ctx)
                arrays[name]._entry = flowing.get(name)
            return [*map(entry_of, run_nodes(self._graph, arrays, node.ctx))]

    def _require_same_outputs(self, node: Recorded) -> None:
        """Require that parameters are those of the call: its network is going to run again."""
        executor = self.executor
        if isinstance(executor._ran, FirstAnswers) and executor._ran.in_numpy:
            return      # kernels, which may run by now, round otherwise
        before = [output.copy() for output in executor.outputs]
        self.lent.leave()
        executor.forward(node.state["lease"].is_train)
        if not all(map(_has_same_bits, before, executor.outputs)):
            free([node])
            raise MXNetError("create_graph: a parameter or moving average of the network was "
                             "written since it was called, so that its gradient cannot be "
                             "recorded; write it after grad, or call the network again")


def _has_same_bits(array: NDArray, other: NDArray) -> bool:
    return array.asnumpy().tobytes() == other.asnumpy().tobytes()


def run_nodes(graph: Graph, arrays: Mapping[str, NDArray], ctx: Context,
              monitor: StepMonitor | None = None) -> list[NDArray]:
    """Run the nodes of a network as operations on arrays by name, recorded as any; the outputs."""
    values = {Entry(node): arrays[node.name] for node in graph.variables}
    created = _arrays_to_create(graph, arrays, ctx)
    for node in graph.nodes:
        if node.op is not None:
            if node.op.runs_subgraphs:
                raise MXNetError(f"{node.describe()}: a loop or branch of a hybridized network "
                                 "does not run by itself, as it would for create_graph; call the "
                                 "block without hybridize()")
            ins = [values[entry] for entry in node.inputs]
            results = invoke(node.op, ins, created.get(node), ctx, casts=False)
            outputs = results if isinstance(results, list) else [results]
            values.update({Entry(node, index): array for index, array in enumerate(outputs)})
            if monitor is not None:
                monitor.watch(node, [array._data for array in ins],
                              [array._data for array in outputs], ctx)
    return [values[entry] for entry in graph.outputs]


def _arrays_to_create(graph: Graph, arrays: Mapping[str, NDArray], ctx: Context
                      ) -> dict[Node, list[NDArray]]:
    """Outputs of nodes without inputs whose shapes follow from their readers alone.

    The first states of a recurrent layer are such: zeros of shape (layers, 0, units).
    """
    nodes = [node for node in graph.nodes if node.op is not None and not node.inputs
             and not all(map(is_known, node.op.infer_shape([], [None] * node.op.num_visible)[1]))]
    if not nodes:
        return {}
    known: dict[Variable, Spec] = {node.name: Spec(arrays[node.name].shape,
                                                   np.dtype(arrays[node.name].dtype))
                                   for node in graph.variables}
    specs = infer_specs(graph, known)
    has_lengths = any([0 in spec.shape for spec in known.values()])
    return {node: [empty(specs[eid].shape, ctx, specs[eid].dtype)
                   for eid in graph.output_eids(node)] for node in nodes
            if all([specs[eid].shape and (has_lengths or is_known(specs[eid].shape))
                    for eid in graph.output_eids(node)])}


# -- slots -----------------------------------------------------------------------------------------


class Slot:
    """Executors by signature, which share arenas and inputs: one of them runs at a time.

    Attributes
    ----------
    calls : dict
        At most `LARGEST`, the most recently used last.
    """

    LARGEST = 64

    def __init__(self, number: int):
        self.number = number
        self.calls: dict[Hashable, NetworkCall] = {}
        self._buffers: dict[str, NDArray] = {}

    def find(self, signature: Hashable) -> NetworkCall | None:
        """The executor for calls of a signature."""
        call = self.calls.get(signature)
        if call is not None and len(self.calls) > 1:
            self.calls[signature] = self.calls.pop(signature)
        return call

    def add(self, signature: Hashable, call: NetworkCall) -> None:
        """Keep an executor for calls of a signature."""
        self.calls[signature] = call
        if len(self.calls) > self.LARGEST:
            del self.calls[next(iter(self.calls))]

    def buffer(self, name: str, like: NDArray) -> NDArray:
        """An array of the shape of `like`, in memory that calls of other shapes use, too."""
        if like.is_sparse:
            return zeros(like.shape, like.context, like.dtype, like.stype)
        array = self._buffers.get(name)
        if (array is None or array.size < like.size or array.dtype != like.dtype
                or array.context != like.context):
            array = self._buffers[name] = zeros(like.shape, like.context, like.dtype)
        return resized(array, like.shape)


class Lease:
    """The use of a slot by one call.

    Attributes
    ----------
    is_train : bool
        Whether the call worked as in training.
    """

    __slots__ = ("slot", "is_train", "__weakref__")

    def __init__(self, slot: Slot, is_train: bool):
        self.slot, self.is_train = slot, is_train


class Slots:
    """The slots of a network.

    Attributes
    ----------
    all : list of Slot
        Free ones and others.
    """

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._loans = Loans[Slot]()

    def take(self, signature: Hashable, is_train: bool) -> Lease:
        """A free slot, one that knows the signature before others; its end is that of the lease."""
        return self._loans.lend(self._made, lambda slot: Lease(slot, is_train),
                                lambda slot: (signature not in slot.calls, slot.number))

    def known(self, signature: Hashable) -> NetworkCall | None:
        """A call of this signature in any slot."""
        calls = [slot.calls.get(signature) for slot in self.all]
        return next((call for call in calls if call is not None), None)

    def _made(self) -> Slot:
        self.all.append(Slot(len(self.all)))
        return self.all[-1]
