"""`mx.autograd`: reverse-mode automatic differentiation of Python code on NDArrays.

    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()            # x.grad is 2 x

Operations under `record` are recorded on a tape (`ndarray.tape`), and `backward` differentiates the
tape by the rules for bound symbols (`ndarray.gradients`).  The flags are per thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .base import CheckError, MXNetError
from .graph import Entry, Graph, Node
from .ndarray import NDArray
from .ndarray.gradients import array_list, backward, grad, mark_variables
from .ndarray.recording import STATE, RecordingScope
from .ndarray.tape import (
    DirectGradientOp,
    LeafGroup,
    OwnKind,
    Recorded,
    entry_of,
    is_any_recorded,
    live_entry,
    save_for_backward,
)
from .ops.op import Call, Op, Spec

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["Function", "NDArray", "backward", "get_symbol", "grad", "is_recording", "is_training",
           "mark_variables", "pause", "predict_mode", "record", "set_recording", "set_training",
           "train_mode"]
__dir__ = __all__.copy

# -- flags of the thread ----------------------------------------------------------------------


def set_recording(is_recording: bool) -> bool:
    """Switch recording on or off for the current thread; returns the setting before.

    Parameters
    ----------
    is_recording : bool
        Whether to record operations from now on.
    """
    before, STATE.recording = STATE.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Switch training mode on or off for the current thread; returns the setting before.

    Parameters
    ----------
    train_mode : bool
        Whether operations run in training mode from now on; otherwise in inference mode.
    """
    before, STATE.training = STATE.training, bool(train_mode)
    return before


def is_recording() -> bool:
    """Return whether the current thread records operations.

    Examples
    --------
    >>> with mx.autograd.record():
    ...     print(mx.autograd.is_recording(), mx.autograd.is_training())
    True True
    """
    return STATE.recording


def is_training() -> bool:
    """Return whether operations run in training mode: Dropout drops, BatchNorm uses the batch."""
    return STATE.training


def record(train_mode: bool = True) -> RecordingScope:
    """Return a scope for a `with` statement in which operations are recorded; its end restores.

    Parameters
    ----------
    train_mode : bool, default True
        Whether operations in the scope run in training mode.

    Examples
    --------
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
    """Return a scope for a `with` statement in which nothing is recorded; its end restores.

    Parameters
    ----------
    train_mode : bool, default False
        Whether operations in the scope run in training mode.
    """
    return RecordingScope(False, train_mode)


def train_mode() -> RecordingScope:
    """Return a scope in which operations run in training mode; recording is not changed."""
    return RecordingScope(None, True)


def predict_mode() -> RecordingScope:
    """Return a scope in which operations run in inference mode; recording is not changed."""
    return RecordingScope(None, False)


# -- symbols and functions --------------------------------------------------------------------


def get_symbol(x: NDArray) -> Symbol:
    """Return the recorded computation of an array; variables are called var0, var1, ...

    Parameters
    ----------
    x : NDArray
        Recorded result.

    Raises
    ------
    MXNetError
        If `x` was not recorded.

    Examples
    --------
    >>> x = mx.nd.array([2])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x.exp()
    >>> mx.autograd.get_symbol(y).list_arguments()
    ['var0']
    """
    from .symbol import Symbol

    if not isinstance(x, NDArray):
        raise CheckError(f"get_symbol: given a {type(x).__name__}, expected an NDArray")
    entry = live_entry(x)
    if entry is None:
        raise MXNetError(f"get_symbol: the array of shape {x.shape} was not recorded; compute it "
                         "from arrays with attach_grad(), under autograd.record()")
    clones: dict[int, Node] = {}
    for node in Graph([entry]).nodes:
        if isinstance(node, LeafGroup):
            continue
        sources: Sequence[Entry] = node.inputs
        if isinstance(node.op, DirectGradientOp) and isinstance(node, Recorded):
            sources = node.op.all_inputs(node)
        for each in (*[source.node for source in sources], node):
            if id(each) not in clones:
                prefix = "var" if each.op is None else "node_"
                count = sum((clone.op is None) == (each.op is None) for clone in clones.values())
                inputs = [Entry(clones[id(source)], index) for source, index in sources
                          ] if each is node else ()
                attrs = {} if each.op is None else each.op.to_attrs()
                clones[id(each)] = Node(each.op, f"{prefix}{count}", inputs, attrs)
    return Symbol([Entry(clones[id(entry.node)], entry.index)])


class Function:
    """A function of arrays with a gradient of its own.

    Subclasses define `forward` and `backward`.  Nothing inside these is recorded.  An instance can
    be called once.

    Examples
    --------
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

    saved_tensors: tuple[NDArray, ...] = ()
    _used = False

    def save_for_backward(self, *args: NDArray) -> None:
        """Keep arrays for `backward`, as the tuple `saved_tensors`.

        Parameters
        ----------
        *args : NDArray
            What to keep.
        """
        self.saved_tensors = args

    def forward(self, *inputs: NDArray) -> NDArray | list[NDArray] | tuple[NDArray, ...]:
        """Compute the outputs.

        Parameters
        ----------
        *inputs : NDArray
            Arguments of the call.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def backward(self, *output_grads: NDArray) -> NDArray | list[NDArray] | tuple[NDArray, ...]:
        """Compute the gradients of the inputs, one for each.

        Parameters
        ----------
        *output_grads : NDArray
            Gradients of the outputs.
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
        if not (STATE.recording and is_any_recorded(inputs)):
            return outputs
        results = [output.detach() for output in array_list("outputs of forward", outputs)]
        op = _FunctionOp(self, len(inputs), len(results))
        node = Recorded(op, [entry_of(array) for array in inputs], inputs[0]._ctx)
        ins, outs = ([array._data for array in arrays] for arrays in (inputs, results))
        save_for_backward(node, ins, outs)
        node.kind = OwnKind(_FunctionOp, _specs(ins), _specs(outs))
        for index, result in enumerate(results):
            result._entry = Entry(node, index)
        return results[0] if isinstance(outputs, NDArray) else type(outputs)(results)


def _specs(arrays: Sequence[Any]) -> tuple[Spec, ...]:
    return tuple([Spec(array.shape, array.dtype) for array in arrays])


class _FunctionOp(Op):
    """A call of a `Function`, for the tape: only its backward is ever executed."""

    needs: ClassVar = ("ograds",)
    is_opaque: ClassVar = True

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
        for array, gradient in zip(outs, grads, strict=True):
            if array is not None:
                NDArray(array, call.ctx)[:] = gradient
