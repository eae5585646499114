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
    read = _singles if "tf32" in instruction.types else _halves
    left, right = (read(machine, instruction, part, where, warps) for part in (a, b))
    sums = np.zeros((warps, 16, 8))
    for operand, place in zip(c, SUMS, strict=True):
        sums[(slice(None), *place)] = np.broadcast_to(
            machine.read(operand, "f32", where), warps * WARP).reshape(warps, WARP)
    sums += left @ right
    for target, place in zip(targets, SUMS, strict=True):
        machine.write(target, sums[(slice(None), *place)].astype(np.float32).ravel(), where)


def _singles(machine: Machine, instruction: Instruction, parts: Operand, where: Any, warps: int
             ) -> np.ndarray:
    """A factor of which each register has one element: (16, 8) of four, (8, 8) of two."""
    assert isinstance(parts, tuple)
    result = np.zeros((warps, 16, 8) if len(parts) == 4 else (warps, 8, 8))
    for k, part in enumerate(parts):
        values = np.broadcast_to(machine.read(part, "f32", where), warps * WARP)
        place = ((ROW + 8 * (k & 1), PAIR + 4 * (k >> 1)) if len(parts) == 4
                 else (PAIR + 4 * k, ROW))
        result[(slice(None), *place)] = values.reshape(warps, WARP)
    return result


def _halves(machine: Machine, instruction: Instruction, parts: Operand, where: Any, warps: int
            ) -> np.ndarray:
    """A factor of which each register has two elements: (16, 16) of four, (16, 8) of two."""
    assert isinstance(parts, tuple)
    result = np.zeros((warps, 16, 16) if len(parts) == 4 else (warps, 16, 8))
    for k, part in enumerate(parts):
        bits = np.broadcast_to(machine.read(part, "u32", where), warps * WARP)
        for half in (0, 1):
            word = (bits >> np.uint32(16 * half)).astype(np.uint16)
            values = (word.view(np.float16) if "f16" in instruction.types
                      else (word.astype(np.uint32) << np.uint32(16)).view(np.float32))
            place = ((ROW + 8 * (k & 1), 2 * PAIR + half + 8 * (k >> 1)) if len(parts) == 4
                     else (2 * PAIR + half + 8 * k, ROW))
            result[(slice(None), *place)] = values.reshape(warps, WARP)
    return result


WARPS: dict[str, Callable[[Machine, Instruction, Any], None]] = {
    "shfl": shuffle, "vote": vote, "activemask": active, "mma": matrix}
"""By name."""
