"""A dense region of a network with sparse arrays, bound as an ordinary executor.

Assumes: a region's inputs have a name each; `passes.dense_regions._unlike` gives them one.  That
nothing else contributes to the gradients which a region writes to arrays of the network; checked in
`sparse_program.SparseProgram._written`, which counts who reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from ..base import Array
from ..ndarray import NDArray, mutation, zeros
from ..ops.sparse.dense_region import DenseRegion
from ..passes.infer import Inferred
from ..symbol import Symbol
from .bind import Arrays, BindArguments

__all__ = ["Bind", "BoundRegion"]


class BoundNetwork(Protocol):
    """An executor, as regions use it."""

    @property
    def outputs(self) -> list[NDArray]: ...

    def forward(self, is_train: bool) -> list[NDArray]: ...

    def backward(self, out_grads: Arrays, is_train: bool) -> None: ...

    def retain(self) -> None: ...

    def debug_str(self) -> str: ...


Bind: TypeAlias = Callable[[BindArguments], BoundNetwork]


class BoundRegion:
    """The executor that computes a region.

    Arrays of the network are read where they are, and so are gradients written of those, named in
    `own`, that nothing else contributes to.  Other inputs are copied; the gradients of those in
    `read` are for others.
    """

    def __init__(self, op: DenseRegion, network: BindArguments, own: Collection[str],
                 read: Collection[str], bind: Bind):
        body, ctx = Inferred(op.body, op.specs), network.ctx
        specs = body.of(body.graph.arguments)

        def made(name: str) -> NDArray:
            return zeros(specs[name].shape, ctx, specs[name].dtype)

        args = {name: network.args[name] if name in network.args else made(name) for name in specs}
        grads = {name: made(name) for name in op.names if name in read}
        grads.update({name: network.grads[name] for name in op.names if name in own})
        requests = {name: network.requests[name] if name in own else
                    "write" if name in grads else "null" for name in specs}
        aux = {node.name: network.aux[node.name] for node in body.graph.states}
        self.executor = bind(BindArguments(
            Symbol(body.graph.outputs), ctx, args, grads, requests, aux, {}, body, network.exact,
            bool(network.numpy_first)))
        self._copied = [(index, args[name]._data) for index, name in enumerate(op.names)
                        if name not in network.args]
        self._grads = [grads[name]._data if name in read else None for name in op.names]
        self._heads, self._ctx = op.heads, ctx

    def forward(self, ins: Sequence[Array], is_train: bool) -> list[Array]:
        """The outputs, which the next call overwrites."""
        for index, array in self._copied:
            array[...] = ins[index]
            mutation.written(array)
        return [output._data for output in self.executor.forward(is_train)]

    def backward(self, heads: Sequence[Array], outs: Sequence[Array | None],
                 is_train: bool) -> None:
        """Write the gradients of the inputs to those of `outs` that are not None.

        `heads` are the gradients of the outputs that these depend on.
        """
        head_grads: list[NDArray | None] = [None] * len(self.executor.outputs)
        for position, head in zip(self._heads, heads, strict=True):
            head_grads[position] = NDArray(head, self._ctx)
        self.executor.backward(head_grads, is_train)  # type: ignore[arg-type]  # None: not read
        for out, grad in zip(outs, self._grads, strict=True):
            if out is not None and grad is not None:
                out[...] = grad
