"""The memory of an RNN operator: sizes and layout.

What the backward pass reads is the *workspace*, one vector with `LayerResults` for each layer.  In
inference the results of layers share memory instead, and keep no steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..jit import num_threads
from ..linalg.gemm import gemm_workspace, max_gemm_workspace, packed_b_spec
from ..linalg.gemm_small_m import MAX_ROWS
from ..op import Spec
from ..param import Shape
from ..shape import size_of
from .rnn_cells import MODES
from .rnn_weights import Matrix, RnnLayout

__all__ = ["GateRows", "RnnPlan", "LayerResults", "Vector", "Weights"]

Weights = Mapping[tuple[int, int, str], Any]
"""Arrays by (layer, direction, kind), kinds as in `rnn_weights`; of gradients the wanted ones."""


class Vector(Protocol):
    """A flat array, or what gives its slices (of arrays on GPUs)."""

    def __getitem__(self, span: slice, /) -> Any:
        """The array of these elements."""


PARALLEL_FROM = 16_384
"""Products of a step from which on threads share them.  40 steps of 15,000 products take one thread
0.13 ms and two 0.17 ms, since these meet at the barriers of each step; where other programs use the
cores, every barrier takes as long as a turn of theirs, some ms."""
ALIGNED = 16
"""Alignment of buffers within a vector, in elements."""


class LayerResults(NamedTuple):
    """Results of one layer (see `rnn_kernels`); the layer above reads x, which is y after
    dropout."""

    gates: Any
    cells: Any
    hidden: Any
    y: Any
    mask: Any
    x: Any


class GateRows(NamedTuple):
    """Rows [row, row + size) of i2h belong to columns [column, column + size) of the gates."""

    row: int
    column: int
    size: int

    @property
    def rows(self) -> slice:
        return slice(self.row, self.row + self.size)

    @property
    def columns(self) -> slice:
        return slice(self.column, self.column + self.size)


@dataclass(frozen=True)
class RnnPlan:
    """Sizes of one operator; `dtype` is the type it computes in."""

    layout: RnnLayout
    data: Shape
    dtype: np.dtype
    dropout: bool

    # -- sizes ------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Samples at all steps: T N."""
        return self.data[0] * self.data[1]

    @property
    def few(self) -> bool:
        """Whether weights are used too rarely in a forward pass to be packed for it."""
        return self.rows <= MAX_ROWS

    @property
    def columns(self) -> int:
        """Rows of i2h and h2h: G H."""
        return len(self.layout.gates) * self.layout.state_size

    @property
    def width(self) -> int:
        """Pre-activations of a cell: for gru one H more, see `rnn_cells`."""
        return self.columns + (self.layout.state_size if self.layout.mode == "gru" else 0)

    @property
    def cell(self) -> tuple[int, ...]:
        """Mode of the cells and positions of their gates, see `rnn_cells`."""
        mode, (*order,) = self.layout.mode, self.layout.order or range(len(self.layout.gates))
        gates = [0, 1 + order[0], 1 + order[1], 3] if mode == "gru" else [*order, 0, 0, 0][:4]
        return MODES.index(mode), *gates

    @property
    def parts(self) -> list[GateRows]:
        """The rows of i2h for each range of columns of the gates."""
        size = self.layout.state_size
        if self.layout.mode == "gru":
            return [GateRows(0, size, 2 * size), GateRows(2 * size, 0, size)]
        return [GateRows(0, 0, self.columns)]

    @property
    def cell_size(self) -> int:
        return self.layout.state_size if self.layout.mode == "lstm" else 0

    @property
    def hidden_size(self) -> int:
        return self.layout.state_size if self.layout.projection_size else 0

    @property
    def y_shape(self) -> Shape:
        return (*self.data[:2], self.layout.directions, self.layout.output_size)

    def per_step(self, size: int, steps: int | None = None) -> Shape:
        """(D, T, N, size), with another T where given."""
        return (self.layout.directions, steps or self.data[0], self.data[1], size)

    def inputs(self, layer: int) -> int:
        return self.layout.input_size_of(layer, self.data[2])

    @cached_property
    def matrices(self) -> dict[tuple[int, int, str], Matrix]:
        """Pieces of the parameter vector."""
        matrices = self.layout.matrices(self.data[2])
        return {(m.layer, m.direction, m.kind): m for m in matrices}

    def weights(self, vector: Vector) -> Weights:
        """Views of the pieces of the parameter vector, or of its gradient."""
        return {key: vector[piece.offset:piece.offset + size_of(piece.shape)].reshape(piece.shape)
                for key, piece in self.matrices.items()}

    def of_directions(self, weights: Weights, layer: int, kind: str) -> list[Any]:
        """The arrays of one kind, one for each direction."""
        return [weights[layer, d, kind] for d in range(self.layout.directions)]

    # -- stores of layers ---------------------------------------------------------------------

    def _store_shapes(self, last: bool, is_training: bool) -> LayerResults:
        """Shapes of a layer's arrays; of the last one y is the output."""
        y = (0,) if last else self.y_shape
        mask = y if self.dropout else (0,)
        steps, x = (self.data[0], mask) if is_training else (1, (0,))
        return LayerResults(self.per_step(self.width), self.per_step(self.cell_size, steps),
                            self.per_step(self.hidden_size, steps), y, mask, x)

    @property
    def workspace_size(self) -> int:
        """Elements of the vector that holds the stores of all layers."""
        return sum(_aligned(size_of(shape)) for layer in range(self.layout.num_layers)
                   for shape in self._store_shapes(layer == self.layout.num_layers - 1, True))

    @property
    def scratch_size(self) -> int:
        """Elements of stores that layers share: one of each, and two alternating outputs."""
        shapes = self._store_shapes(self.layout.num_layers == 1, False)
        return sum(_aligned(size_of(shape)) for shape in (*shapes, shapes.y))

    def kept_stores(self, workspace: Vector, output: Any) -> list[LayerResults]:
        """The stores in a workspace; `output` is the last layer's y."""
        take, stores = _allocator(workspace), []
        for layer in range(self.layout.num_layers):
            last = layer == self.layout.num_layers - 1
            store = LayerResults(*map(take, self._store_shapes(last, True)))
            y = output.reshape(self.y_shape) if last else store.y
            stores.append(store._replace(y=y, x=store.x if store.x.size else y))
        return stores

    def shared_stores(self, scratch: Vector, output: Any) -> list[LayerResults]:
        """Stores for a forward pass without gradients."""
        take, layers = _allocator(scratch), self.layout.num_layers
        shapes = self._store_shapes(layers == 1, False)
        store, other = LayerResults(*map(take, shapes)), take(shapes.y)
        ys = [(store.y, other)[layer % 2] for layer in range(layers - 1)]
        ys.append(output.reshape(self.y_shape))
        return [store._replace(y=y, x=y) for y in ys]

    # -- workspace ----------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Threads of a layer's kernel; results do not depend on it.  All have the same number of
        directions, or one has all."""
        directions, out = self.layout.directions, self.layout.output_size
        if self.data[1] * self.columns * out * directions < PARALLEL_FROM:
            return 1
        return -(-num_threads() // directions) * directions

    def _product_workspace(self, products: Iterable[tuple[int, int, int]]) -> Spec:
        """Workspace for any of some products (rows, depth, columns)."""
        shapes = [gemm_workspace(*sizes, self.dtype).shape for sizes in products]
        return Spec((max(n for n, _ in shapes), max(size for _, size in shapes)), self.dtype)

    def states(self) -> dict[str, Spec]:
        """The states h and c of all layers, or their gradients."""
        cells = self.layout.num_layers, self.layout.directions, self.data[1]
        return {"h": Spec((*cells, self.layout.output_size), self.dtype),
                "c": Spec((*cells, self.cell_size), self.dtype)}

    def _common_scratch(self, recurrent: tuple[int, int], projection: tuple[int, int]
                        ) -> dict[str, Spec]:
        """Workspace of both passes; weights of a layer's kernel are (depth, columns)."""
        samples, directions = self.data[1], self.layout.directions
        share = max(max_gemm_workspace(samples, *sizes, self.dtype)
                    for sizes in (recurrent, projection) if all(sizes))
        panels = [Spec((directions, *packed_b_spec(*sizes, self.dtype).shape), self.dtype)
                  for sizes in (recurrent, projection)]
        return self.states() | {
            "lengths": Spec((samples,), np.dtype(np.int64)),
            "shares": Spec((self.workers, share), self.dtype),
            "recurrent": panels[0], "projection": panels[1],
        }

    def forward_scratch(self) -> dict[str, Spec]:
        """Workspace arrays of the forward pass by name."""
        layout = self.layout
        recurrent = layout.output_size, self.columns
        projection = self.hidden_size, layout.projection_size
        return self._common_scratch(recurrent, projection) | {
            "store": Spec((self.scratch_size,), self.dtype),
            "base": Spec((self.width,), self.dtype),
            "work": self._product_workspace(
                (self.rows, self.inputs(layer), part.size) for part in self.parts
                for layer in range(layout.num_layers)),
        }

    def backward_scratch(self) -> dict[str, Spec]:
        """Workspace arrays of the backward pass by name."""
        layout, out = self.layout, self.layout.output_size
        recurrent, projection = (self.columns, out), (layout.projection_size, self.hidden_size)
        products = [(size, self.rows, depth) for size, depth in (recurrent, projection)]
        products += [sizes for layer in range(layout.num_layers) for part in self.parts
                     for sizes in ((part.size, self.rows, self.inputs(layer)),
                                   (self.rows, part.size, self.inputs(layer)))]
        below = 2 if layout.num_layers > 1 else 0
        return self._common_scratch(recurrent, projection) | {
            "dgates": Spec(self.per_step(self.width), self.dtype),
            "before": Spec(self.per_step(out), self.dtype),
            "douts": Spec(self.per_step(layout.projection_size), self.dtype),
            "wide": Spec(self.per_step(self.hidden_size, 1), self.dtype),
            "gy": Spec((below, *self.y_shape), self.dtype),
            "work": self._product_workspace(products),
        }


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _allocator(vector: Vector) -> Callable[[Shape], Any]:
    """A function that allocates consecutive arrays from the vector."""
    at = 0

    def take(shape: Shape) -> Any:
        nonlocal at
        start, at = at, at + _aligned(size_of(shape))
        return vector[start:start + size_of(shape)].reshape(shape)

    return take
