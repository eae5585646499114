"""`mx.autograd`: gradients of ordinary Python code on NDArrays.

    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()            # x.grad is 2 x

Operations under `record` are entered on a tape (`ndarray.tape`), and `backward` differentiates the
tape by the rules that bound symbols use (`passes.gradient`).  The flags belong to the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .base import MXNetError
from .graph import Entry, Graph, Node
from .ndarray import NDArray
from .ndarray.recording import STATE, RecordingScope
from .ndarray.tape import Marked, Recorded, entry_of, free, held, keep, live, mark, reached
from .ndarray.tape_backward import differentiate
from .ops.device import device_of
from .ops.op import Call, Op

__all__ = ["Function", "backward", "get_symbol", "grad", "is_recording", "is_training",
           "mark_variables", "pause", "predict_mode", "record", "set_recording", "set_training",
           "train_mode"]

Arrays = NDArray | Sequence[NDArray]
_REQUESTS = ("null", "write", "add")


# -- what the thread is doing ---------------------------------------------------------------


def set_recording(is_recording: bool) -> bool:
    """Switch recording on or off for the current thread.

    Parameters
    ----------
    is_recording : bool
        Whether to record operations from now on.

    Returns
    -------
    bool
        The setting before.
    """
    before, STATE.recording = STATE.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Switch training mode on or off for the current thread.

    Parameters
    ----------
    train_mode : bool
        Whether operations run in training mode from now on; otherwise in inference mode.

    Returns
    -------
    bool
        The setting before.
    """
    before, STATE.training = STATE.training, bool(train_mode)
    return before


def is_recording() -> bool:
    """Return whether the current thread records operations.

    Examples
    --------
    >>> import nbmod as mx
    >>> with mx.autograd.record():
    ...     print(mx.autograd.is_recording(), mx.autograd.is_training())
    True True
    """
    return STATE.recording


def is_training() -> bool:
    """Return whether operations run in training mode: Dropout drops, BatchNorm uses the batch."""
    return STATE.training


def record(train_mode: bool = True) -> RecordingScope:
    """Return a scope in which operations are recorded, for a `with` statement.

    Parameters
    ----------
    train_mode : bool, default True
        Whether operations in the scope run in training mode.

    Returns
    -------
    RecordingScope
        Context manager that restores both flags at its end.

    Examples
    --------
    >>> import nbmod as mx
    >>> x = mx.nd.array([1, 2, 3])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.asnumpy().tolist()
    [2.0, 4.0, 6.0]
    """
    return RecordingScope(True, train_mode)


def pause(train_mode: bool = False) -> RecordingScope:
    """Return a scope in which nothing is recorded, for a `with` statement.

    Parameters
    ----------
    train_mode : bool, default False
        Whether operations in the scope run in training mode.

    Returns
    -------
    RecordingScope
        Context manager that restores both flags at its end.
    """
    return RecordingScope(False, train_mode)


def train_mode() -> RecordingScope:
    """Return a scope in which operations run in training mode; recording is not changed."""
    return RecordingScope(None, True)


def predict_mode() -> RecordingScope:
    """Return a scope in which operations run in inference mode; recording is not changed."""
    return RecordingScope(None, False)


# -- gradients ------------------------------------------------------------------------------


def mark_variables(variables: Arrays, gradients: Arrays, grad_reqs: str | Sequence[str] = "write"
                   ) -> None:
    """Assign arrays for the gradients of variables.

    A variable that is itself the result of recorded operations becomes a leaf: gradients do not
    flow further back.

    Parameters
    ----------
    variables : NDArray or list of NDArray
        Arrays to differentiate by.
    gradients : NDArray or list of NDArray
        Arrays that receive the gradients, of the same shapes and types.
    grad_reqs : {'write', 'add', 'null'} or list of these, default 'write'
        How a gradient is stored: overwriting, added to what is there, or not at all.

    Raises
    ------
    ValueError
        If the lists differ in length, or for another `grad_reqs`.
    MXNetError
        If a gradient has another shape or type than its variable.

    Examples
    --------
    >>> import nbmod as mx
    >>> x, gradient = mx.nd.array([3]), mx.nd.zeros(1)
    >>> mx.autograd.mark_variables(x, gradient)
    >>> with mx.autograd.record():
    ...     y = x ** 2
    >>> y.backward()
    >>> gradient.asnumpy().tolist()
    [6.0]
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
    """Compute the gradients of recorded results for all marked arrays that they depend on.

    Parameters
    ----------
    heads : NDArray or list of NDArray
        Recorded results.
    head_grads : NDArray, or list of NDArray or None, optional
        Gradients of the heads, of the same shapes; None: ones.
    retain_graph : bool, default False
        Keep what was recorded, for another `backward`; otherwise it is freed.
    train_mode : bool, default True
        Whether operations are differentiated in training mode.

    Raises
    ------
    MXNetError
        If a head was not recorded, its graph was freed, or no array that it depends on has a
        gradient.

    Examples
    --------
    >>> import nbmod as mx
    >>> x = mx.nd.array([1, 2])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * 2
    >>> mx.autograd.backward(y, mx.nd.array([1, 10]))
    >>> x.grad.asnumpy().tolist()
    [2.0, 20.0]
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
    """Return the gradients of recorded results for given variables, without storing them.

    Parameters
    ----------
    heads : NDArray or list of NDArray
        Recorded results.
    variables : NDArray or list of NDArray
        Marked arrays to differentiate by.
    head_grads : NDArray, or list of NDArray or None, optional
        Gradients of the heads, of the same shapes; None: ones.
    retain_graph : bool, optional
        Keep what was recorded; None: as `create_graph`.
    create_graph : bool, default False
        Record the computation of the gradients as well, so that they can be differentiated again.
    train_mode : bool, default True
        Whether operations are differentiated in training mode.

    Returns
    -------
    list of NDArray
        One gradient for each variable.

    Raises
    ------
    MXNetError
        If a variable is not marked, or the heads do not depend on it.

    Examples
    --------
    >>> import nbmod as mx
    >>> x = mx.nd.array([2])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     slope, = mx.autograd.grad(x ** 3, [x], create_graph=True)
    >>> slope.asnumpy().tolist()
    [12.0]
    >>> slope.backward()
    >>> x.grad.asnumpy().tolist()
    [12.0]
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
    """Return the recorded computation of an array as a symbol.

    Parameters
    ----------
    x : NDArray
        Recorded result.

    Returns
    -------
    Symbol
        Graph whose variables are called var0, var1, ...

    Raises
    ------
    MXNetError
        If `x` was not recorded.

    Examples
    --------
    >>> import nbmod as mx
    >>> x = mx.nd.array([2])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x.exp()
    >>> mx.autograd.get_symbol(y).list_arguments()
    ['var0']
    """
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

    Subclasses define `forward` and `backward`.  Nothing inside these is recorded.  An instance can
    be called once.

    Examples
    --------
    >>> import nbmod as mx
    >>> class Sigmoid(mx.autograd.Function):
    ...     def forward(self, x):
    ...         y = 1 / (1 + mx.nd.exp(-x))
    ...         self.save_for_backward(y)
    ...         return y
    ...     def backward(self, dy):
    ...         y, = self.saved_tensors
    ...         return dy * y * (1 - y)
    >>> x = mx.nd.zeros(2)
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = Sigmoid()(x)
    >>> y.backward()
    >>> x.grad.asnumpy().tolist()
    [0.25, 0.25]
    """

    saved_tensors: tuple[Any, ...] = ()
    _used = False

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for `backward`, as the tuple `saved_tensors`.

        Parameters
        ----------
        *args : NDArray
            What to keep.
        """
        self.saved_tensors = args

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs.

        Parameters
        ----------
        *inputs : NDArray
            Arguments of the call.

        Returns
        -------
        NDArray, or list or tuple of NDArray
            Outputs.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def backward(self, *output_grads: Any) -> Any:
        """Compute the gradients of the inputs.

        Parameters
        ----------
        *output_grads : NDArray
            Gradients of the outputs.

        Returns
        -------
        NDArray, or list or tuple of NDArray
            One gradient for each input.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no backward")

    def __call__(self, *inputs: NDArray) -> Any:
        """Call `forward` and record it as one operation; an instance can be called once."""
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
