"""Instructions of PTX in which the threads of a warp work together, on all warps at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.cuda.ptx_program import Instruction, Operand, PtxError

if TYPE_CHECKING:
    from tests.cuda.ptx_machine import Machine

__all__ = ["WARP", "WARPS"]

WARP = 32
"""Threads of a warp."""
LANES = np.arange(WARP)
ROW, PAIR = LANES >> 2, LANES & 3
"""Which part of a matrix a lane holds."""
SUMS = [(ROW, 2 * PAIR), (ROW, 2 * PAIR + 1), (ROW + 8, 2 * PAIR), (ROW + 8, 2 * PAIR + 1)]
"""Rows and columns of the four sums of each lane."""


def _places(machine: Machine, where: Any) -> tuple[np.ndarray, np.ndarray]:
    """First threads of the warps of these threads, and their lanes."""
    everyone = np.arange(machine.count)[where]
    start = machine.warp_start[everyone]
    return start, everyone - start


def shuffle(machine: Machine, instruction: Instruction, where: Any) -> None:
    """Read a register of another lane."""
    both = "|" in instruction.text.split(",")[0]
    target, *rest = instruction.operands
    inside = rest.pop(0) if both else None
    offset, limit = [machine.read(each, "u32", where).astype(np.int64) for each in rest[1:3]]
    start, lane = _places(machine, where)
    segment = limit >> 8 & 31
    last = (lane & segment) | (limit & 31 & ~segment)
    mode = next(word for word in ("up", "down", "bfly", "idx") if word in instruction.words)
    wanted = {"up": lane - offset, "down": lane + offset, "bfly": lane ^ offset,
              "idx": (lane & segment) | (offset & ~segment)}[mode]
    valid = wanted >= last if mode == "up" else wanted <= last
    picked = np.where(valid, wanted, lane)
    if (picked >= machine.warp_size[start]).any():
        raise PtxError("a lane that the block does not have is read")
    values = machine.read(rest[0], "b32", slice(None))
    machine.write(target, np.broadcast_to(values, machine.count)[start + picked], where)
    if inside is not None:
        machine.write(inside, valid, where)


def vote(machine: Machine, instruction: Instruction, where: Any) -> None:
    """Tell all lanes of a warp of which of them a condition is true."""
    target, condition = instruction.operands[:2]
    start, lane = _places(machine, where)
    truth = (machine.condition(condition, where) if isinstance(condition, str)
             else np.full(len(lane), bool(condition)))
    here = _bits(machine, start, lane, np.ones(len(lane), bool))
    true = _bits(machine, start, lane, truth)
    results = {"ballot": true, "any": true != 0, "all": true == here,
               "uni": (true == 0) | (true == here)}
    machine.write(target, next(value for word, value in results.items()
                               if word in instruction.words), where)


def active(machine: Machine, instruction: Instruction, where: Any) -> None:
    """Tell which lanes run this."""
    start, lane = _places(machine, where)
    machine.write(instruction.operands[0],
                  _bits(machine, start, lane, np.ones(len(lane), bool)), where)


def _bits(machine: Machine, start: np.ndarray, lane: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """For each thread the lanes of its warp for which something is true."""
    found = np.zeros(machine.count, np.uint32)
    np.bitwise_or.at(found, start, np.where(truth, np.uint32(1) << lane.astype(np.uint32),
                                            np.uint32(0)))
    return found[start]


def matrix(machine: Machine, instruction: Instruction, where: Any) -> None:
    """Products of tensor cores: sums (16, 8) of products of (16, n) and (n, 8) matrices, of which
    each lane holds parts."""
    targets, a, b, c = instruction.operands
    assert isinstance(targets, tuple) and isinstance(c, tuple)
    start, lane = _places(machine, where)
    if len(lane) % WARP or (lane.reshape(-1, WARP) != LANES).any():
        raise PtxError("not all lanes of a warp run it")
    warps = len(lane) // WARP
    left, right = (_factor(machine, instruction, part, where, warps) for part in (a, b))
    sums = np.zeros((warps, 16, 8))
    for operand, place in zip(c, SUMS, strict=True):
        sums[(slice(None), *place)] = np.broadcast_to(
            machine.read(operand, "f32", where), warps * WARP).reshape(warps, WARP)
    sums += left @ right
    for target, place in zip(targets, SUMS, strict=True):
        machine.write(target, sums[(slice(None), *place)].astype(np.float32).ravel(), where)


def _factor(machine: Machine, instruction: Instruction, parts: Operand, where: Any, warps: int
            ) -> np.ndarray:
    """A factor, (16, n) of four registers of each lane or (n, 8) of two; each has one element or
    two neighbours along n."""
    assert isinstance(parts, tuple)
    count = 1 if "tf32" in instruction.types else 2
    inner = 8 * count
    result = np.zeros((warps, 16, inner) if len(parts) == 4 else (warps, inner, 8))
    for k, part in enumerate(parts):
        bits = np.broadcast_to(machine.read(part, "u32", where), warps * WARP)
        for i, values in enumerate(_elements(bits, instruction)):
            along = count * PAIR + i
            place = ((ROW + 8 * (k & 1), along + 4 * count * (k >> 1)) if len(parts) == 4
                     else (along + 4 * count * k, ROW))
            result[(slice(None), *place)] = values.reshape(warps, WARP)
    return result


def _elements(bits: np.ndarray, instruction: Instruction) -> list[np.ndarray]:
    """The elements in each register."""
    if "tf32" in instruction.types:
        return [bits.view(np.float32)]
    words = [(bits >> np.uint32(shift)).astype(np.uint16) for shift in (0, 16)]
    if "f16" in instruction.types:
        return [word.view(np.float16) for word in words]
    return [(word.astype(np.uint32) << np.uint32(16)).view(np.float32) for word in words]


WARPS: dict[str, Callable[[Machine, Instruction, Any], None]] = {
    "shfl": shuffle, "vote": vote, "activemask": active, "mma": matrix}
"""By name."""
