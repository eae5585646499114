"""Facts of the machine code of a compiled function: width of vectors, FMAs, spills and calls.

They are those of its *hot loop*: of the innermost loops in the assembly the one that computes most
bits in a turn, not that for the rest of the elements; where none computes, the longest.  It tells
why a kernel is far below its roof: a vector loop that a compiler did not make shows a width of 32
or 64 bits, and each spill is a load or store of a register for which there was no room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..base import ArgumentError
from ..ops.build.assembly import assemblies
from ..ops.jit import Kernel, require_compiler

__all__ = ["MachineCode", "facts_of_assembly", "hot_loop", "hot_loop_before_assembly",
           "machine_code"]


@dataclass(frozen=True)
class MachineCode:
    """Facts of the hot loop of a function.

    Attributes
    ----------
    instructions : int
        In the loop; 0 where the function has no loop.
    vector_bits : int
        Width of the widest registers that floating-point instructions, or those of integer
        vectors, use: 512, 256, 128; 64 or 32 for single numbers, and 0 without any.
    fmas : int
        Instructions that multiply and add.
    spills : int
        Loads and stores on the stack.
    calls : int
        Calls of other functions.
    """

    instructions: int
    vector_bits: int
    fmas: int
    spills: int
    calls: int


_LABEL = re.compile(r"^([.\w$@]+):")
_JUMP = re.compile(r"^(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?([.\w$@]+)$")
_FLOATING = re.compile(r"^(?:v?(?:add|sub|mul|div|sqrt|max|min|cvt\w*|fn?m(?:add|sub)\w*?)"
                       r"(?:\d*)(?P<kind>[ps][sdh])|vpdp\w+|vp?madd\w*|v?dpbf16ps|f(?:mla|mls|add|"
                       r"sub|mul|div|madd|msub|max\w*|min\w*|sqrt)|[us]dot)\b")
_FMA = re.compile(r"^(?:vfn?m(?:add|sub)\w*|vpdp\w+|vdpbf16ps|fmla|fmls|fn?madd|fn?msub|[us]dot)\b")
_CALL = re.compile(r"^(?:call\w*|bl|blr)\b")
_STACK = re.compile(r"\(%[re](?:sp|bp)[,)]|\[(?:[re]?sp|[re]bp|x29)\b|\[sp\b")
_ADDRESS = re.compile(r"^(?:lea\w*|add|sub|adrp)\b")
_BLOCK = re.compile(r'^("[^"]+"|[-\w$.]+):')
_BRANCH = re.compile(r'\blabel %("[^"]+"|[-\w$.]+)')
_ARITHMETIC = re.compile(
    r"= (?:[\w ]*\b(?:f(?:add|sub|mul|div|neg|cmp|pext|ptrunc)|[su]itofp)\b|.*@llvm\.)"
    r"[\w.() ]*?(?:<(?P<lanes>\d+) x )?\b(?P<type>half|float|double|i\d+)\b")
_METADATA = re.compile(r",? ![\w.]+(?: !\d+)?|\s+;.*$")


def machine_code(function: Any) -> list[MachineCode]:
    """Facts of a compiled function, for each signature that it was called with.

    Parameters
    ----------
    function : numba dispatcher or Kernel
        Called before; it is compiled once more, because a cache keeps no assembly.

    Raises
    ------
    ArgumentError
        If it is not compiled by numba, or was not called yet.
    """
    require_compiler("machine_code")
    dispatcher = function.compile() if isinstance(function, Kernel) else function
    if not hasattr(dispatcher, "inspect_asm") or not hasattr(dispatcher, "py_func"):
        raise ArgumentError(f"machine_code: the function is a {type(function).__name__}, expected "
                            "one that numba compiles")
    if not dispatcher.signatures:
        raise ArgumentError(f"machine_code: {dispatcher.py_func.__name__} has not been called yet, "
                            "so there is no machine code of it")
    return [facts_of_assembly(text) for text in assemblies(dispatcher)]


def facts_of_assembly(text: str) -> MachineCode:
    """Facts of the hot loop in the assembly of a module, of x86-64 or AArch64.

    Parameters
    ----------
    text : str
        As LLVM writes it.
    """
    loop = hot_loop(text)
    return MachineCode(
        len(loop), max(map(_bits, loop), default=0),
        sum(bool(_FMA.match(line)) for line in loop),
        sum(bool(_STACK.search(line) and not _ADDRESS.match(line)) for line in loop),
        sum(bool(_CALL.match(line)) for line in loop))


def hot_loop(text: str) -> list[str]:
    """The instructions of the hot loop in the assembly of a module; none where it has no loop."""
    lines = [line for line in (_stripped(line) for line in text.splitlines()) if line]
    return max(_innermost_loops(lines), key=lambda body: (sum(map(_bits, body)), len(body)),
               default=[])


def _stripped(line: str) -> str:
    """A label or an instruction without comments; empty for directives."""
    line = re.split(r"\s(?:#|//)", line, maxsplit=1)[0].strip()
    return "" if line.startswith((".p2align", ".cfi", ".type", ".size", "#", "//")) or (
        line.startswith(".") and not _LABEL.match(line)) else line


def hot_loop_before_assembly(text: str) -> list[str]:
    """The lines of the hot loop in a module of LLVM's intermediate representation."""
    functions = re.findall(r"^define .*?{\n(.*?)^}", text, re.MULTILINE | re.DOTALL)
    loops = (loop for body in functions for loop in _innermost_loops(
        [_METADATA.sub("", line).strip() for line in body.splitlines() if line.strip()],
        _BLOCK, _BRANCH))
    return max(loops, key=lambda body: (sum(map(_bits_of_operation, body)), len(body)), default=[])


def _bits_of_operation(line: str) -> int:
    """Width of the vectors or floating-point numbers that a line computes; 0 for others."""
    kind = _ARITHMETIC.search(line)
    if kind is None or kind["type"].startswith("i") and not kind["lanes"]:
        return 0
    bits = {"half": 16, "float": 32, "double": 64}.get(kind["type"]) or int(kind["type"][1:])
    return int(kind["lanes"] or 1) * bits


def _innermost_loops(lines: Sequence[str], label: re.Pattern[str] = _LABEL,
                     jump: re.Pattern[str] = _JUMP) -> Iterator[list[str]]:
    """Instructions of loops that contain no other: from a label to a jump back to it."""
    labels, loops = {}, set[tuple[int, int]]()
    for number, line in enumerate(lines):
        if start := label.match(line):
            labels[start[1]] = number
        else:
            loops |= {(labels[name], number) for name in jump.findall(line) if name in labels}
    for first, last in sorted(loops):
        if not any(first <= start and end <= last and (start, end) != (first, last)
                   for start, end in loops):
            yield [line for line in lines[first:last + 1] if not label.match(line)]


def _bits(line: str) -> int:
    """Width of the registers of an instruction that computes; 0 for others."""
    kind = _FLOATING.match(line)
    if not kind:
        return 0
    scalar = kind["kind"] or ""
    if scalar.startswith("s"):
        return {"s": 32, "d": 64, "h": 16}[scalar[1]]
    for name, bits in (("zmm", 512), ("ymm", 256), ("xmm", 128)):
        if name in line:
            return bits
    if re.search(r"\bv\d+\.(?:16b|8h|4s|2d)", line):
        return 128
    return 64 if re.search(r"\b(?:d\d+|v\d+\.(?:2s|8b|4h))\b", line) else 32
