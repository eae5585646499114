"""Kernels in PTX, NVIDIA's instructions for any GPU, as lists of instructions.

Reads what NVIDIA's linker writes of a kernel: one entry and the functions that are not part of it,
each with registers, arrays in shared and local memory, and instructions.  `ptx_machine` runs them.

The language is described in NVIDIA's "Parallel Thread Execution ISA".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["Address", "Instruction", "Operand", "Program", "PtxError", "parse"]

TYPES = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16,
    "u16": np.uint16, "s16": np.int16, "f16": np.float16, "bf16": np.uint16, "b32": np.uint32,
    "u32": np.uint32, "s32": np.int32, "f32": np.float32, "f16x2": np.uint32, "bf16x2": np.uint32,
    "tf32": np.uint32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64}
"""Type of an instruction -> how its operands are read."""

SPACES = ("global", "shared", "local", "param", "const")


class PtxError(Exception):
    """A program does what a GPU does not allow."""


class Address(NamedTuple):
    """Memory at a register or name, and an offset in bytes."""

    base: str
    offset: int


Operand = str | int | float | Address | tuple["Operand", ...]
"""A register or name, a number, memory, or several in braces."""


class Instruction(NamedTuple):
    """One instruction of a program."""

    text: str
    name: str
    """The part before the first dot."""
    words: frozenset[str]
    """All other parts but types."""
    types: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str
    """The predicate without which it does nothing; empty if there is none."""
    negated: bool

    @property
    def space(self) -> str:
        """The kind of memory it reads or writes; empty if the address tells."""
        return next((space for space in SPACES if space in self.words), "")


@dataclass
class Program:
    """A kernel."""

    parameters: dict[str, tuple[int, np.dtype]] = field(default_factory=dict)
    """Position and type."""
    registers: dict[str, type] = field(default_factory=dict)
    """Type of the bits of each."""
    shared: dict[str, int] = field(default_factory=dict)
    """Offset of each array in the memory of a block."""
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    """Offset of each array in the memory of a thread."""
    local_bytes: int = 0
    constants: dict[str, bytes] = field(default_factory=dict)
    """Contents of arrays that no thread writes."""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Number of the instruction that follows."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """Labels of a table of branches."""
    results: list[str] = field(default_factory=list)
    """Names of what a function returns."""
    functions: dict[str, Program] = field(default_factory=dict)
    """Functions that it may call, by name."""

    @property
    def stack_bytes(self) -> int:
        """Local memory of a thread, calls included: no function calls itself."""
        return self.local_bytes + sum(each.local_bytes for each in self.functions.values())


ARRAY = re.compile(r"\.(?:visible \.|extern \.)?(shared|local|global|const)\s+(?:\.align (\d+) )?"
                   r"\.(\w+)\s+([\w$.]+)(?:\[(\d+)\])?(?:\s*=\s*\{([^}]*)\})?\s*;")
PARAMETER = re.compile(r"\.param \.(?:align \d+ \.)?(\w+)(?: \.ptr[^,)]*?)? ([\w$]+)\s*[,)\n]")
REGISTERS = re.compile(r"\.reg \.(\w+)\s+(%\w+)<(\d+)>;")
STATEMENT = re.compile(r"(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*)$", re.S)


def parse(text: str) -> Program:
    """The program of PTX with one kernel."""
    text = re.sub(r"//[^\n]*", "", text)
    parts = [_part(text[found.start():]) for found in HEAD.finditer(text)]
    programs = {name: _parsed(head, body) for name, head, body in parts if body}
    kernel = next(programs.pop(name) for name, head, _ in parts if ".entry" in head)
    for space, align, kind, name, size, values in ARRAY.findall(text):
        if space in ("global", "const"):
            kernel.constants[name] = _contents(np.dtype(TYPES[kind]), int(size or 1), values)
        elif space == "shared" and name not in kernel.shared:
            _reserve(kernel, space, int(align or 1), np.dtype(TYPES[kind]), name, int(size or 1))
    kernel.functions = programs
    for function in programs.values():
        function.functions, function.constants = programs, kernel.constants
        function.shared = kernel.shared
    return kernel


HEAD = re.compile(r"\.(?:entry|func)\b")


def _part(text: str) -> tuple[str, str, str]:
    """Name, head and body of a kernel or function; a declaration has no body."""
    head = re.match(r"[^{;]*", text)
    assert head
    name = re.findall(r"(?:^\.entry|\)|^\.func)\s*([\w$]+)\s*\(", head[0])[0]
    if text[head.end()] == ";":
        return name, head[0], ""
    depth = 0
    for brace in re.finditer(r"[{}]", text[head.end():]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return name, head[0], text[head.end() + 1:head.end() + brace.start()]
    raise PtxError(f"the body of {name} does not end")


def _parsed(head: str, body: str) -> Program:
    program = Program()
    results, _, rest = head.rpartition(")")[0].rpartition("(")
    program.results = [name for _, name in PARAMETER.findall(results + ")")]
    for position, (kind, name) in enumerate(PARAMETER.findall(rest + "\n")):
        program.parameters[name] = position, np.dtype(TYPES[kind])
    for space, align, kind, name, size, _ in ARRAY.findall(body):
        _reserve(program, space, int(align or 1), np.dtype(TYPES[kind]), name, int(size or 1))
    for kind, prefix, count in REGISTERS.findall(body):
        program.registers.update({f"{prefix}{i}": _bits(kind) for i in range(int(count))})
    body = REGISTERS.sub("", ARRAY.sub("", body))
    body = re.sub(r"([\w$]+):\s*\.branchtargets([^;]*);", lambda found: program.targets.update({
        found[1]: [label.strip() for label in found[2].split(",")]}) or "", body)
    _read_statements(program, body)
    return program


def _bits(kind: str) -> type:
    """The type of a register's bits."""
    return np.bool_ if kind == "pred" else np.dtype(f"u{np.dtype(TYPES[kind]).itemsize}").type


def _contents(dtype: np.dtype, size: int, values: str) -> bytes:
    numbers = [int(value, 0) for value in values.split(",") if value.strip()]
    return np.array(numbers + [0] * (size - len(numbers))).astype(dtype).tobytes()


def _reserve(program: Program, space: str, align: int, dtype: np.dtype, name: str, size: int
             ) -> None:
    used = program.shared_bytes if space == "shared" else program.local_bytes
    start = -(-used // align) * align
    getattr(program, space)[name] = start
    setattr(program, f"{space}_bytes", start + size * dtype.itemsize)


def _read_statements(program: Program, body: str) -> None:
    for part in re.split(r";", re.sub(r"\.(loc|file|pragma|section)\b[^;\n]*[;\n]?", "", body)):
        statement = part.lstrip("{} \n\t").strip()
        while (label := re.match(r"([\w$]+):\s*", statement)):
            program.labels[label[1]] = len(program.instructions)
            statement = statement[label.end():].lstrip("{} \n\t")
        if statement.startswith(".reg"):
            kind, names = re.fullmatch(r"\.reg \.(\w+)\s+(.*)", statement, re.S).groups()
            program.registers.update({name.strip(): _bits(kind) for name in names.split(",")})
        elif statement.strip("{}") and not statement.startswith(".param"):
            program.instructions.append(_instruction(statement))


def _instruction(statement: str) -> Instruction:
    found = STATEMENT.match(statement)
    assert found, statement
    negated, guard, opcode, rest = found.groups()
    name, *parts = opcode.replace("::", "_").split(".")
    types = tuple(part for part in parts if part in TYPES)
    return Instruction(" ".join(statement.split()), name, frozenset(parts) - {*types}, types,
                       tuple(map(_operand, _split(rest))), guard or "", bool(negated))


def _split(text: str) -> list[str]:
    """Operands, which commas separate outside of braces and brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text + ","):
        depth += (letter in "{[(") - (letter in "}])")
        if depth == 0 and (letter == "," or letter == "|"):
            parts.append(text[start:position].strip())
            start = position + 1
    return [part for part in parts if part]


def _operand(text: str) -> Operand:
    if text.startswith(("{", "(")):
        return tuple(map(_operand, _split(text[1:-1])))
    if text.startswith("["):
        base, _, offset = text[1:-1].replace(" ", "").partition("+")
        return Address(base, int(offset or "0", 0))
    if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}", text):
        return float(np.array(int(text[2:], 16), np.uint32).view(np.float32))
    if re.fullmatch(r"0[dD][0-9A-Fa-f]{16}", text):
        return float(np.array(int(text[2:], 16), np.uint64).view(np.float64))
    if re.fullmatch(r"-?(0[xX][0-9A-Fa-f]+|\d+)U?", text):
        return int(text.rstrip("U"), 0)
    return text
