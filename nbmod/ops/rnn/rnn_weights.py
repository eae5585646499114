"""Layout of the weights of stacked recurrent layers in one flat parameter vector: integers only.

The vector holds every matrix, then every bias.  Within each part the order is layer by layer, in a
layer direction by direction (forward first), and for one direction

    i2h    (gates H, I)  applied to the layer's input
    h2h    (gates H, R)  applied to its previous output
    h2r    (R, H)        the projection of its output, if any; it has no bias

H is `state_size`; R is `projection_size`, or H without a projection; I is the size of the data for
layer 0 and R times the number of directions above it.  Gates are stacked along the rows, so the
piece of one gate is contiguous as well:

    lstm       i (input), f (forget), c (candidate), o (output)
    gru        r (reset), z (update), o (candidate)
    rnn_relu, rnn_tanh    one, without a name

`RnnLayout.pieces` lists the pieces under the names that `nbmod.rnn` gives them, without the cell's
prefix: `l0_i2h_f_weight` is the forget gate of layer 0, direction forward (`l`; backward is `r`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..shape import ShapeMismatch, size_of

__all__ = ["GATES", "Matrix", "WeightSlice", "RnnLayout"]

GATES: dict[str, tuple[str, ...]] = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}
"""Suffixes of the gates' names by mode."""


class WeightSlice(NamedTuple):
    """A named part of the vector: elements [offset, offset + size), in rows."""

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return size_of(self.shape)

    @property
    def span(self) -> slice:
        """The piece's elements of the vector."""
        return slice(self.offset, self.offset + self.size)


class Matrix(NamedTuple):
    """All gates of one kind (`i2h_weight`, `h2r_weight`, `h2h_bias`, ...) as one piece."""

    layer: int
    direction: int
    kind: str
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class RnnLayout:
    """The layout of one stack; `projection_size` 0 means none.

    `order` is the order of the gates among the rows, if not as above; the candidate of gru is
    always the last one.
    """

    mode: str
    state_size: int
    num_layers: int
    bidirectional: bool = False
    projection_size: int = 0
    order: tuple[int, ...] = ()

    @property
    def gates(self) -> tuple[str, ...]:
        """Suffixes of the gates' names, in order."""
        return GATES[self.mode]

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """Outputs of one direction of a layer per step: R."""
        return self.projection_size or self.state_size

    def input_size_of(self, layer: int, input_size: int) -> int:
        """Inputs of `layer` per step, for data of `input_size`."""
        return self.output_size * self.directions if layer else input_size

    def size(self, input_size: int) -> int:
        """Length of the vector for data of `input_size`."""
        rows = len(self.gates) * self.state_size
        inputs = sum(self.input_size_of(layer, input_size) for layer in range(self.num_layers))
        fixed = rows * (self.output_size + 2) + self.projection_size * self.state_size
        return self.directions * (rows * inputs + self.num_layers * fixed)

    def input_size(self, size: int) -> int:
        """The inverse of `size`; ShapeMismatch if no data size has that many parameters."""
        per_input = self.size(1) - self.size(0)
        inputs, rest = divmod(size - self.size(0), per_input)
        if rest or inputs < 1:
            raise ShapeMismatch(
                f"parameters has {size} elements, expected {self.size(0)} + {per_input} I for data "
                f"(T, N, I): {self}")
        return inputs

    def matrices(self, input_size: int) -> list[Matrix]:
        """The vector's pieces in order, gates together."""
        matrices: list[Matrix] = []
        offset = 0
        for part in ("weight", "bias"):
            for layer in range(self.num_layers):
                for direction in range(self.directions):
                    for kind, shape in self._shapes(layer, input_size, part).items():
                        matrices.append(Matrix(layer, direction, f"{kind}_{part}", offset, shape))
                        offset += size_of(shape)
        return matrices

    def _shapes(self, layer: int, input_size: int, part: str) -> dict[str, tuple[int, ...]]:
        """Shapes of the matrices, or of the biases, of one direction of a layer."""
        rows, out = len(self.gates) * self.state_size, self.output_size
        if part == "bias":
            return {"i2h": (rows,), "h2h": (rows,)}
        shapes: dict[str, tuple[int, ...]] = {
            "i2h": (rows, self.input_size_of(layer, input_size)), "h2h": (rows, out)}
        if self.projection_size:
            shapes["h2r"] = (out, self.state_size)
        return shapes

    def pieces(self, input_size: int) -> list[WeightSlice]:
        """The vector's pieces in order, gate by gate, under the names of `nbmod.rnn`."""
        pieces: list[WeightSlice] = []
        for matrix in self.matrices(input_size):
            kind, part = matrix.kind.split("_")
            gates = ("",) if kind == "h2r" else self.gates
            shape = (matrix.shape[0] // len(gates), *matrix.shape[1:])
            for i, gate in enumerate(gates):
                name = f"{'lr'[matrix.direction]}{matrix.layer}_{kind}{gate}_{part}"
                pieces.append(WeightSlice(name, matrix.offset + i * size_of(shape), shape))
        return pieces
