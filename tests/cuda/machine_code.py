"""Counts of the instructions of a cubin, read from its bytes: no disassembler is needed.

Since Volta an instruction has 16 bytes, whose lowest twelve bits are its opcode.  A branch goes
from the instruction behind it to a distance in words of four bytes: bits 34 to 81, to which compute
capability 9.0 and newer append bits 16 to 23.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["MachineCode", "machine_code", "parameter_sizes"]

_BRANCH = 0x947
_DOUBLES = {0x28, 0x29, 0x2A, 0x2B}
"""DMUL, DADD, DSETP and DFMA, by their lowest nine bits, which leave out the kinds of operands."""
_FUSED = {0x23}
"""FFMA."""
_ARITHMETIC = {*_FUSED, 0x2B, 0x31, 0x3C, 0x3F}
"""Multiply-adds: FFMA, DFMA, and of tensor cores HMMA of 16 bits, HMMA and DMMA."""


class MachineCode(NamedTuple):
    """Numbers of instructions."""

    total: int
    doubles: int
    """In double precision."""
    fused: int
    """Multiply-adds in single precision."""
    loop: int
    """In the innermost loop with the most multiply-adds, or else the longest; 0 without a loop."""
    loop_math: int
    """Multiply-adds in that loop."""


def machine_code(cubin: bytes, capability: tuple[int, int]) -> MachineCode:
    """The counts of the only kernel of a cubin for this compute capability."""
    words = [int.from_bytes(code[at:at + 16], "little") for code in _sections(cubin, b".text")
             for at in range(0, len(code) - 15, 16)]
    kinds = [word & 0x1FF for word in words]
    loops = [(sum(kind in _ARITHMETIC for kind in kinds[first:last + 1]), last + 1 - first)
             for first, last in _innermost(list(_loops(words, capability >= (9, 0))))]
    math, length = max(loops, default=(0, 0))
    return MachineCode(len(words), sum(kind in _DOUBLES for kind in kinds),
                       sum(kind in _FUSED for kind in kinds), length, math)


def _loops(words: list[int], appended: bool) -> Iterator[tuple[int, int]]:
    """First and last instruction of each loop; a branch to itself, which ends a kernel, is none."""
    for at, word in enumerate(words):
        if word & 0xFFF == _BRANCH:
            distance = word >> 34 & (1 << 48) - 1
            distance -= distance >> 47 << 48
            if appended:
                distance = distance << 8 | word >> 16 & 0xFF
            target = at + 1 + distance // 4
            if 0 <= target < at:
                yield target, at


def _innermost(loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The loops that contain no other."""
    return [one for one in loops if not any(
        other != one and one[0] <= other[0] and other[1] <= one[1] for other in loops)]


def parameter_sizes(cubin: bytes) -> list[int]:
    """Bytes of each parameter of the only kernel of a cubin, in order."""
    found = {}
    for info in _sections(cubin, b".nv.info."):
        at = 0
        while at < len(info):
            form, attribute, size = struct.unpack_from("<BBH", info, at)
            if (form, attribute) == (4, 0x17):      # EIATTR_KPARAM_INFO
                _, order, _, flags = struct.unpack_from("<IHHI", info, at + 4)
                found[order] = flags >> 18
            at += 4 + (size if form == 4 else 0)
    return [found[order] for order in sorted(found)]


def _sections(elf: bytes, beginning: bytes) -> list[bytes]:
    """The sections of a 64-bit ELF file whose names start so."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    strings = headers[names][4]
    return [elf[offset:offset + length] for name, _, _, _, offset, length in headers
            if elf.startswith(beginning, strings + name)]
