"""Gradients of recorded arrays: `mark_variables`, `backward` and `grad` of `mx.autograd`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..base import CheckError, MXNetError, wrong_type
from ..graph import Entry, Graph
from ..ops import OPS
from ..ops.device import device_of
from .direct_gradients import DirectGradients, latest_first, unfold
from .invocation import invoke
from .mutation import owner, written
from .ndarray import NDArray
from .recording import RecordingScope
from .sparse_array import of_value, share_rows
from .tape import LeafGroup, Marked, Recorded, free, live_entry
from .tape_backward import Gradient, differentiate

__all__ = ["array_list", "backward", "grad", "mark_variables"]

Arrays = NDArray | Sequence[NDArray]
HeadGrads = NDArray | Sequence[NDArray | None] | None
_REQUESTS = ("null", "write", "add")


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
    >>> x, gradient = mx.nd.array([3]), mx.nd.zeros(1)
    >>> mx.autograd.mark_variables(x, gradient)
    >>> with mx.autograd.record():
    ...     y = x ** 2
    >>> y.backward()
    >>> gradient.asnumpy().tolist()
    [6.0]
    """
    arrays, grads = array_list("variables", variables), array_list("gradients", gradients)
    requests = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(arrays) == len(grads) == len(requests):
        raise ValueError(f"mark_variables: {len(arrays)} variable(s), {len(grads)} gradient(s) "
                         f"and {len(requests)} grad_req(s), expected as many of each")
    for array, target, request in zip(arrays, grads, requests, strict=True):
        if request not in _REQUESTS:
            raise ValueError(f"grad_req is {request!r}, expected one of {_REQUESTS}")
        if (target.shape, target.dtype) != (array.shape, array.dtype):
            raise MXNetError(f"mark_variables: the gradient has shape {target.shape} and type "
                             f"{target.dtype.__name__}, expected {array.shape} and "
                             f"{array.dtype.__name__} like its variable")
    for array, target, request in zip(arrays, grads, requests, strict=True):
        array._entry = Entry(Marked(array._data, array._ctx, target, request))


def array_list(what: str, arrays: Arrays) -> list[NDArray]:
    """Return one or several arrays as a list.

    Parameters
    ----------
    what : str
        Name of the argument, for the error.
    arrays : NDArray or list of NDArray
        Argument.

    Raises
    ------
    TypeError
        If one is not an NDArray.
    """
    listed = [arrays] if isinstance(arrays, NDArray) else list(arrays)
    for array in listed:
        if not isinstance(array, NDArray):
            raise TypeError(f"{what}: a {type(array).__name__} is given, expected an NDArray or a "
                            "list of them")
    return listed


def backward(heads: Arrays, head_grads: HeadGrads = None, retain_graph: bool = False,
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
    >>> x = mx.nd.array([1, 2])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * 2
    >>> mx.autograd.backward(y, mx.nd.array([1, 10]))
    >>> x.grad.asnumpy().tolist()
    [2.0, 20.0]
    """
    outputs = _Heads(heads, head_grads)
    direct = DirectGradients(outputs.graph, retain_graph)
    wrt = latest_first([node for node in outputs.graph.variables
                        if isinstance(node, Marked) and node.request != "null"
                        or isinstance(node, LeafGroup) and node.leaves])
    if not wrt:
        raise MXNetError("backward: no array that the heads were computed from has a gradient; "
                         "call attach_grad() on it before recording")
    with direct, RecordingScope(False, train_mode):
        results = outputs.differentiate(wrt, train_mode, False)
        for node, gradient in zip(wrt, results, strict=True):
            if isinstance(node, Marked):    # otherwise the operation has written the gradients
                _store(node, gradient, node.request == "add" or direct.has_written(node))
    if not retain_graph:  # only now: another thread may take the memory of a call that is free
        free(outputs.graph.nodes)


def _store(leaf: Marked, gradient: Gradient, adds: bool) -> None:
    """Write the gradient of a leaf to its array, or add it there."""
    data, target = gradient.array, leaf.grad
    if not (adds or target.is_sparse or hasattr(data, "stype")):
        device_of(leaf.ctx).copy(data, target._data)
        written(target._data)
    else:
        array = of_value(data, leaf.ctx)
        if adds:
            array = array + target
        if not (gradient.owns_memory and share_rows(array, target)):
            target[:] = array
    leaf.fresh = True


def grad(heads: Arrays, variables: Arrays, head_grads: HeadGrads = None,
         retain_graph: bool | None = None, create_graph: bool = False, train_mode: bool = True
         ) -> list[NDArray]:
    """Return a gradient of recorded results for each given variable, without storing them.

    Parameters
    ----------
    heads, head_grads, train_mode
        As for `backward`.
    variables : NDArray or list of NDArray
        Marked arrays to differentiate by.
    retain_graph : bool, optional
        Keep what was recorded; None: as `create_graph`.
    create_graph : bool, default False
        Record the computation of the gradients as well, so that they can be differentiated again.

    Raises
    ------
    MXNetError
        If a variable is not marked, or the heads do not depend on it.

    Examples
    --------
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
    arrays = array_list("variables", variables)
    if not arrays:
        raise CheckError("grad: no variables are given, expected at least one")
    outputs = _Heads(heads, head_grads)
    retains = create_graph if retain_graph is None else retain_graph
    if create_graph:
        outputs.graph = unfold(outputs.graph)
    direct = DirectGradients(outputs.graph, retains)
    own = [node for node in outputs.graph.variables if isinstance(node, Marked)]
    wrt = [_leaf(index, array, [*own, *direct.leaves]) for index, array in enumerate(arrays)]
    flowing = [leaf for leaf in own if any(leaf is each for each in wrt)]
    groups = [group for group in direct.groups
              if any(leaf is each for leaf in group.leaves for each in wrt)]
    with _lent(direct.leaves), direct, RecordingScope(False, train_mode):
        results = outputs.differentiate([*flowing, *groups], train_mode, create_graph)
        flows = {id(leaf): result for leaf, result in zip(flowing, results, strict=False)}
        gradients = [_total(leaf, flows.get(id(leaf)), direct) for leaf in wrt]
    if not retains:
        free(outputs.graph.nodes)
    if create_graph:
        with RecordingScope(True, train_mode):
            gradients = [_depends_on(gradient, array) for gradient, array in
                         zip(gradients, arrays, strict=True)]
    return gradients


def _leaf(index: int, array: NDArray, reached: Sequence[Marked]) -> Marked:
    """The leaf that is variable `index` of `grad`; `reached` are those that the heads depend on."""
    leaf = array._entry.node if live_entry(array) else None
    if not isinstance(leaf, Marked) or leaf.request == "null":
        raise MXNetError(f"grad: variable {index} of shape {array.shape} is not marked; call "
                         "attach_grad() on it before recording")
    if not any(leaf is node for node in reached):
        raise MXNetError(f"grad: the heads do not depend on variable {index} of shape "
                         f"{array.shape}")
    return leaf


@contextmanager
def _lent(leaves: Sequence[Marked]) -> Iterator[None]:
    """A block at whose end gradients are as they were; those that are added to begin as zeros."""
    with RecordingScope(False, None):
        former = [(leaf, leaf.grad.copy(), leaf.fresh) for leaf in leaves]
        for leaf in leaves:
            if leaf.request == "add":
                leaf.grad[:] = _zeros_like(leaf.grad)
    try:
        yield
    finally:
        with RecordingScope(False, None):
            for leaf, before, fresh in former:
                leaf.grad[:], leaf.fresh = before, fresh


def _zeros_like(array: NDArray) -> NDArray:
    zeros: NDArray = invoke(OPS.find("zeros_like")(), [array])
    return zeros


def _total(leaf: Marked, flow: Gradient | None, direct: DirectGradients) -> NDArray:
    """The gradient of a leaf, of memory of its own: from the tape, and from its own array."""
    if flow is None:
        return leaf.grad.copy() if direct.has_written(leaf) else _zeros_like(leaf.grad)
    gradient = of_value(flow.array, leaf.ctx)
    if direct.has_written(leaf):
        return gradient + leaf.grad
    if not flow.owns_memory:
        gradient = gradient.copy()
    gradient._entry = flow.entry
    return gradient


def _depends_on(gradient: NDArray, array: NDArray) -> NDArray:
    """A gradient with a graph: that of a linear function is constant, with derivative zero."""
    entry = live_entry(gradient)
    if entry is not None and any(isinstance(node, Marked) for node in Graph([entry]).nodes):
        return gradient
    return invoke(OPS.find("_identity_with_attr_like_rhs").from_attrs({}), [gradient, array])


class _Heads:
    """The recorded results to differentiate: their graph and their head gradients."""

    def __init__(self, heads: Arrays, head_grads: HeadGrads):
        self.heads = array_list("heads", heads)
        self.grads = self._head_grads(head_grads)
        self.graph = Graph([self._entry(index, head) for index, head in enumerate(self.heads)])
        for node in self.graph.nodes:
            if isinstance(node, Recorded) and node.freed:
                raise _freed(f"{node.name}, which the heads were computed from,")
        if head_grads is not None:
            self._keep_apart()

    def _keep_apart(self) -> None:
        """Copy head gradients in memory of gradients, which are written before all is computed."""
        ends = [node.leaves if isinstance(node, LeafGroup) else [node]
                for node in self.graph.variables]
        written = {_memory(leaf.grad) for leaves in ends for leaf in leaves
                   if isinstance(leaf, Marked) and leaf.request != "null"}
        for index, grad in enumerate(self.grads):
            if grad is not None and _memory(grad) in written:
                self.grads[index] = copy = grad.detach().copy()
                copy._entry = grad._entry

    def _entry(self, index: int, head: NDArray) -> Entry:
        entry = live_entry(head)
        if entry is not None:
            return entry
        if head._entry is not None:
            raise _freed(f"head {index} of shape {head.shape}")
        raise MXNetError(f"backward: head {index} of shape {head.shape} was not recorded; compute "
                         "it from arrays with attach_grad(), under autograd.record()")

    def _head_grads(self, head_grads: HeadGrads) -> list[NDArray | None]:
        if head_grads is None:
            return [None] * len(self.heads)
        grads = [head_grads] if isinstance(head_grads, NDArray) else head_grads
        if not isinstance(grads, (list, tuple)):
            raise wrong_type("backward: head_grads", grads, "an NDArray or a list of them")
        if len(grads) != len(self.heads):
            raise CheckError(f"{len(grads)} head gradient(s) are given for {len(self.heads)} "
                             "head(s)")
        for index, (head, grad) in enumerate(zip(self.heads, grads, strict=True)):
            if not isinstance(grad, (NDArray, type(None))):
                raise wrong_type(f"backward: the gradient of head {index}", grad, "an NDArray")
            if grad is not None and (grad.shape, grad.dtype) != (head.shape, head.dtype):
                raise MXNetError(f"backward: the gradient of head {index} has shape {grad.shape} "
                                 f"and type {grad.dtype.__name__}, expected {head.shape} and "
                                 f"{head.dtype.__name__}")
        return list(grads)

    def differentiate(self, wrt: Sequence[Marked | LeafGroup], training: bool, create_graph: bool
                      ) -> list[Gradient]:
        """The gradients for leaves `wrt`, where nothing is recorded."""
        grads = [NDArray(device_of(head._ctx).full(head.shape, head._data.dtype, 1), head._ctx)
                 if grad is None else grad
                 for head, grad in zip(self.heads, self.grads, strict=True)]
        return differentiate(self.graph, grads, wrt, training, create_graph)


def _memory(array: NDArray) -> int:
    """A number that arrays of the same memory have in common."""
    return id(array) if array.is_sparse else id(owner(array._data))


def _freed(what: str) -> MXNetError:
    return MXNetError(f"backward: {what} has no graph any more, an earlier backward has freed it; "
                      "give that one retain_graph=True")
