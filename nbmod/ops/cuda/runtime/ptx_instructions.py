"""The instructions of `ptx` as text, from which functions are made for each compiler."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INSTRUCTIONS", "Instruction"]


class Instruction(NamedTuple):
    """PTX whose operands are $0, $1 and so on, results first.

    Each letter of `results` and `operands` is a register: r is a 32-bit word, f a float.
    """

    text: str
    results: str
    operands: str
    effect: bool = False
    """Whether compilers may neither move nor remove it: it synchronizes the lanes of a warp."""

    @property
    def constraints(self) -> str:
        """Constraints of the results and operands, as LLVM writes them."""
        return ",".join([*(f"={letter}" for letter in self.results), *self.operands])


def _mma(shape: str, kind: str) -> Instruction:
    return Instruction(f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 "
                       "{$0,$1,$2,$3},{$4,$5,$6,$7},{$8,$9},{$10,$11,$12,$13};",
                       "ffff", "rrrrrrffff", effect=True)


INSTRUCTIONS = {
    "to_tf32": Instruction("cvt.rna.tf32.f32 $0, $1;", "r", "f"),
    # The instructions take the upper operand first.
    "to_bf16x2": Instruction("cvt.rn.bf16x2.f32 $0, $2, $1;", "r", "ff"),
    "to_f16x2": Instruction("cvt.rn.f16x2.f32 $0, $2, $1;", "r", "ff"),
    "mma_tf32": _mma("m16n8k8", "tf32"),
    "mma_bf16": _mma("m16n8k16", "bf16"),
    "mma_f16": _mma("m16n8k16", "f16")}
"""By the names of `ptx`."""
