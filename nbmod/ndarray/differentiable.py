"""The methods of NDArray for `autograd`, and the recording of copies, reshapes and assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import MXNetError
from . import tape
from .indexing import Key
from .recording import STATE

__all__ = ["Differentiable"]


class Differentiable:
    """The methods of `NDArray` for `autograd`."""

    __slots__ = ()

    _data: Any
    _entry: Any
    """The array's entry on the tape, or None."""

    @property
    def grad(self) -> Any:
        """The NDArray that receives the gradients; None without `attach_grad`."""
        node = None if self._entry is None else self._entry.node
        return node.grad if isinstance(node, tape.Marked) and node.request != "null" else None

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make an array of zeros that receives the gradients of this array, `grad`.

        The array becomes a leaf: `backward` ends at it.

        Parameters
        ----------
        grad_req : {'write', 'add', 'null'}, default 'write'
            How a gradient is stored: overwriting, added to what is there, or not at all.
        stype : {'default', None}, optional
            Storage type of the gradient; only dense arrays exist.

        Examples
        --------
        >>> import nbmod as mx
        >>> x = mx.nd.array([1, 2])
        >>> x.attach_grad(grad_req="add")
        >>> for _ in range(2):
        ...     with mx.autograd.record():
        ...         y = 3 * x
        ...     y.backward()
        >>> x.grad.asnumpy().tolist()
        [6.0, 6.0]
        """
        from .creation import zeros
        from .gradients import mark_variables

        array: Any = self
        mark_variables(array, zeros(array.shape, array.context, array.dtype, stype), grad_req)

    def backward(self, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True
                 ) -> None:
        """Compute the gradients of this array for all marked arrays that it depends on.

        Parameters
        ----------
        out_grad : NDArray, optional
            Gradient of this array, of the same shape; None: ones.
        retain_graph : bool, default False
            Keep what was recorded, for another `backward`; otherwise it is freed.
        train_mode : bool, default True
            Whether operations are differentiated in training mode.

        Raises
        ------
        MXNetError
            If the array was not recorded, its graph was freed, or no array that it depends on has a
            gradient.
        """
        from .gradients import backward

        head: Any = self
        backward(head, None if out_grad is None else [out_grad], retain_graph, train_mode)

    def _record_result(self, made: Any, record: Callable[..., Any], fact: Any) -> Any:
        """`made`, an array made from this one; `record` records that on the tape."""
        if STATE.recording and (entry := tape.live_entry(self)):
            made._entry = record(entry, fact, made._ctx)
        return made

    def _record_assignment(self, key: Key, value: Differentiable | None) -> None:
        """Record the assignment of an array to the elements at `key`, or raise MXNetError."""
        target: Any = self
        tape.require_unrecorded("x[...] = value", [target])
        if value is not None and tape.live_entry(value):
            whole = all(part is Ellipsis or part == slice(None) for part in key)
            shape = value._data.shape
            if not whole or shape != target.shape:
                raise MXNetError(
                    f"x[...] = value: a recorded value of shape {shape} is written to a part of an "
                    f"array of shape {target.shape}; only x[:] = value of the same shape is "
                    "recorded, join parts with concat or stack")
            value._record_result(target, tape.record_copy, target._data.dtype)
