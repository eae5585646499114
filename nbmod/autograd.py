"""`mx.autograd`: gradients of what ordinary Python does with NDArrays.

    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()            # x.grad is 2 x

What runs under `record` is entered on a tape (`ndarray.tape`), and `backward` differentiates that
with the rules that bound symbols use (`passes.gradient`).  The flags belong to the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .base import MXNetError
from .graph import Entry, Graph, Node
from .ndarray import NDArray
from .ndarray.differentiate import differentiate
from .ndarray.recording import STATE, RecordingScope
from .ndarray.tape import Marked, Recorded, entry_of, free, held, keep, live, mark, reached
from .ops.device import device_of
from .ops.op import Call, Op

__all__ = ["Function", "backward", "get_symbol", "grad", "is_recording", "is_training",
           "mark_variables", "pause", "predict_mode", "record", "set_recording", "set_training",
           "train_mode"]

Arrays = NDArray | Sequence[NDArray]
_REQUESTS = ("null", "write", "add")


# -- what the thread is doing ---------------------------------------------------------------


def set_recording(is_recording: bool) -> bool:
    """Record from now on, or stop; returns how it was."""
    before, STATE.recording = STATE.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Run operations in training mode from now on, or in inference mode; returns how it was."""
    before, STATE.training = STATE.training, bool(train_mode)
    return before


def is_recording() -> bool:
    """Whether operations are recorded."""
    return STATE.recording


def is_training() -> bool:
    """Whether operations run in training mode: Dropout drops, BatchNorm uses the batch."""
    return STATE.training


def record(train_mode: bool = True) -> RecordingScope:
    """`with record():` operations on arrays with a gradient are recorded, in training mode."""
    return RecordingScope(True, train_mode)


def pause(train_mode: bool = False) -> RecordingScope:
    """`with pause():` nothing is recorded."""
    return RecordingScope(False, train_mode)


def train_mode() -> RecordingScope:
    """`with train_mode():` operations run in training mode; recording stays as it is."""
    return RecordingScope(None, True)


def predict_mode() -> RecordingScope:
    """`with predict_mode():` operations run in inference mode; recording stays as it is."""
    return RecordingScope(None, False)


# -- gradients ------------------------------------------------------------------------------


def mark_variables(variables: Arrays, gradients: Arrays, grad_reqs: str | Sequence[str] = "write"
                   ) -> None:
    """Let gradients of `variables` go to the arrays `gradients`.

    `grad_reqs`, one or one for each: "write" overwrites, "add" adds, "null" computes none.
    A variable that was computed becomes a leaf: nothing flows on to what it was computed from.
    """
    arrays, grads = _listed("variables", variables), _listed("gradients", gradients)
    requests = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(arrays) == len(grads) == len(requests):
        raise ValueError(f"mark_variables: {len(arrays)} variable(s), {len(grads)} gradient(s) "
                         f"and {len(requests)} grad_req(s), expected as many of each")
    for array, target, request in zip(arrays, grads, requests, strict=True):
        _check_mark(array, target, request)
    for array, target, request in zip(arrays, grads, requests, strict=True):
        mark(array, target, request)


def _check_mark(array: NDArray, target: NDArray, request: str) -> None:
    if request not in _REQUESTS:
        raise ValueError(f"grad_req is {request!r}, expected one of {_REQUESTS}")
    if (target.shape, target.dtype) != (array.shape, array.dtype):
        raise MXNetError(f"mark_variables: the gradient has shape {target.shape} and type "
                         f"{target.dtype.__name__}, expected {array.shape} and "
                         f"{array.dtype.__name__} like its variable")


def _listed(what: str, arrays: Arrays) -> list[NDArray]:
    listed = [arrays] if isinstance(arrays, NDArray) else list(arrays)
    for array in listed:
        if not isinstance(array, NDArray):
            raise TypeError(f"{what}: a {type(array).__name__} is given, expected an NDArray or a "
                            "list of them")
    return listed


def backward(heads: Arrays, head_grads: Any = None, retain_graph: bool = False,
             train_mode: bool = True) -> None:
    """Compute the gradients of `heads` for all arrays with `attach_grad` they were computed from.

    `head_grads`: weights shaped like the heads, one NDArray or None (ones) for each.
    What was recorded for the heads is freed, unless `retain_graph`.
    Raises MXNetError if a head was not recorded or nothing it depends on has a gradient.
    """
    problem = _Problem(heads, head_grads)
    wrt = [node for node in problem.graph.variables
           if isinstance(node, Marked) and node.request != "null"]
    if not wrt:
        raise MXNetError("backward: no array that the heads were computed from has a gradient; "
                         "call attach_grad() on it before recording")
    results = problem.solve(wrt, train_mode, False)
    if not retain_graph:
        free(problem.graph.nodes)
    with pause(train_mode):
        for node, (data, _, _) in zip(wrt, results, strict=True):
            found = NDArray(data, node.ctx)
            node.grad[:] = node.grad + found if node.request == "add" else found


def grad(heads: Arrays, variables: Arrays, head_grads: Any = None,
         retain_graph: bool | None = None, create_graph: bool = False, train_mode: bool = True
         ) -> Any:
    """The gradients of `heads` for `variables`, returned and not stored: a list for a list.

    `create_graph` records their computation, so that they can be differentiated again; then
    `retain_graph` is the default.  Raises MXNetError for a variable that is not marked or that
    the heads do not depend on.
    """
    problem, arrays = _Problem(heads, head_grads), _listed("variables", variables)
    if not arrays:
        raise AssertionError("grad: no variables are given, expected at least one")
    wrt = [_variable(problem.graph, i, array) for i, array in enumerate(arrays)]
    results = problem.solve(wrt, train_mode, create_graph)
    if not (create_graph if retain_graph is None else retain_graph):
        free(problem.graph.nodes)
    return [_result(NDArray(data, node.ctx), entry, own)
            for node, (data, entry, own) in zip(wrt, results, strict=True)]


def _result(found: NDArray, entry: Any, own: bool) -> NDArray:
    with pause():
        array = found if own else found.copy()
    array._entry = entry
    return array


def _variable(graph: Graph, index: int, array: NDArray) -> Marked:
    """The leaf of an array whose gradient is asked for."""
    entry = live(array)
    if entry is None or not isinstance(entry.node, Marked) or entry.node.request == "null":
        raise MXNetError(f"grad: variable {index} of shape {array.shape} is not marked; call "
                         "attach_grad() on it before recording")
    if not any(entry.node is node for node in graph.variables):
        raise MXNetError(f"grad: the heads do not depend on variable {index} of shape "
                         f"{array.shape}")
    return entry.node


class _Problem:
    """What is to be differentiated: the graph of the heads, and their weights."""

    def __init__(self, heads: Arrays, head_grads: Any):
        self.heads = _listed("heads", heads)
        self.graph = Graph([self._entry(index, head) for index, head in enumerate(self.heads)])
        for node in self.graph.nodes:
            if isinstance(node, Recorded) and node.freed:
                raise _freed(f"{node.name}, which the heads were computed from,")
        self.weights = self._weights(head_grads)

    def _entry(self, index: int, head: NDArray) -> Any:
        entry = live(head)
        if entry is not None:
            return entry
        if head._entry is not None:
            raise _freed(f"head {index} of shape {head.shape}")
        raise MXNetError(f"backward: head {index} of shape {head.shape} was not recorded; compute "
                         "it from arrays with attach_grad(), under autograd.record()")

    def _weights(self, head_grads: Any) -> list[NDArray | None]:
        if head_grads is None:
            return [None] * len(self.heads)
        grads = [head_grads] if isinstance(head_grads, NDArray) else list(head_grads)
        if len(grads) != len(self.heads):
            raise AssertionError(f"{len(grads)} head gradient(s) are given for {len(self.heads)} "
                                 "head(s)")
        for index, (head, given) in enumerate(zip(self.heads, grads, strict=True)):
            if given is not None and (given.shape, given.dtype) != (head.shape, head.dtype):
                raise MXNetError(f"backward: the gradient of head {index} has shape {given.shape} "
                                 f"and type {given.dtype.__name__}, expected {head.shape} and "
                                 f"{head.dtype.__name__}")
        return grads

    def solve(self, wrt: Sequence[Marked], training: bool, create_graph: bool) -> list:
        weights = [held(self._ones(head) if given is None else
                            given if create_graph else given.detach())
                   for head, given in zip(self.heads, self.weights, strict=True)]
        with RecordingScope(False, training):
            return differentiate(self.graph, weights, wrt, training, create_graph)

    @staticmethod
    def _ones(head: NDArray) -> NDArray:
        return NDArray(device_of(head._ctx).full(head.shape, head._data.dtype, 1), head._ctx)


def _freed(what: str) -> MXNetError:
    return MXNetError(f"backward: {what} has no graph any more, an earlier backward has freed it; "
                      "give that one retain_graph=True")


# -- other ways in and out ------------------------------------------------------------------


def get_symbol(x: NDArray) -> Any:
    """The recorded computation of `x` as a symbol; its variables are called var0, var1, ..."""
    from .symbol import Symbol

    entry = live(x)
    if entry is None:
        raise MXNetError(f"get_symbol: the array of shape {x.shape} was not recorded; compute it "
                         "from arrays with attach_grad(), under autograd.record()")
    clones: dict[int, Node] = {}
    for node in Graph([entry]).nodes:
        inputs = [Entry(clones[id(source)], index) for source, index in node.inputs]
        prefix = "var" if node.op is None else "node_"
        count = sum((clone.op is None) == (node.op is None) for clone in clones.values())
        attrs = {} if node.op is None else node.op.to_attrs()
        clones[id(node)] = Node(node.op, f"{prefix}{count}", inputs, attrs)
    return Symbol([Entry(clones[id(entry.node)], entry.index)])


class Function:
    """A function of arrays with a gradient of its own.

        class Sigmoid(mx.autograd.Function):
            def forward(self, x):
                y = 1 / (1 + mx.nd.exp(-x))
                self.save_for_backward(y)
                return y
            def backward(self, dy):
                y, = self.saved_tensors
                return dy * y * (1 - y)

        y = Sigmoid()(x)

    Nothing inside is recorded.  An instance serves one recorded call.
    """

    saved_tensors: tuple[Any, ...] = ()
    _used = False

    def save_for_backward(self, *args: Any) -> None:
        """Keep what backward needs, as `saved_tensors`."""
        self.saved_tensors = args

    def forward(self, *inputs: Any) -> Any:
        """The output, or a list or tuple of outputs."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def backward(self, *output_grads: Any) -> Any:
        """The gradient of the input, or one for each, given those of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} defines no backward")

    def __call__(self, *inputs: NDArray) -> Any:
        if self._used:
            raise AssertionError("Each Function instance can only be called once. Please create "
                                 "another instance.")
        self._used = True
        with RecordingScope(False, None):
            outputs = self.forward(*inputs)
        if not (STATE.recording and reached(inputs)):
            return outputs
        results = [output.detach() for output in _listed("outputs of forward", outputs)]
        op = _FunctionOp(self, len(inputs), len(results))
        node = Recorded(op, [entry_of(array) for array in inputs], inputs[0]._ctx)
        keep(node, [array._data for array in inputs], [array._data for array in results])
        for index, result in enumerate(results):
            result._entry = Entry(node, index)
        return results[0] if isinstance(outputs, NDArray) else type(outputs)(results)


class _FunctionOp(Op):
    """A call of a `Function`, for the tape: only its backward is ever executed."""

    needs: ClassVar = ("ograds",)

    def __init__(self, function: Function, num_inputs: int, num_outputs: int):
        self.name = type(function).__name__  # type: ignore[misc]
        self._function = function
        self._inputs = tuple(f"input{i}" for i in range(num_inputs))
        self._outputs = tuple(f"output{i}" for i in range(num_outputs))

    def to_attrs(self) -> dict[str, str]:
        raise MXNetError(f"get_symbol: the Function {self.name} is Python code and has no symbol; "
                         "write it as a mx.operator.CustomOp")

    def list_inputs(self) -> tuple[str, ...]:
        return self._inputs

    def list_outputs(self) -> tuple[str, ...]:
        return self._outputs

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        grads = self._function.backward(*[NDArray(array, call.ctx) for array in ins])
        grads = [grads] if isinstance(grads, NDArray) else list(grads)
        if len(grads) != len(outs):
            raise MXNetError(f"{self.name}.backward returned {len(grads)} gradient(s), expected "
                             f"{len(outs)}, one for each input")
        for array, found in zip(outs, grads, strict=True):
            if array is not None:
                NDArray(array, call.ctx)[:] = found
