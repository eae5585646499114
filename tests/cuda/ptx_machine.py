"""A machine that runs programs in PTX: all threads of some blocks at once, on arrays of registers.

Every register is an array with an element for each thread.  The threads whose next instruction is
the earliest in the program run it together, and go on until their ways part or others wait for
them, so that threads that took different branches meet again where these end.

The machine finds what a GPU may not tell: reads and writes outside of all allocations, addresses
that are no multiple of the size of what they point to, and threads that wait for others that have
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import prod
from typing import Any, Protocol

import numpy as np

from tests.cuda.ptx_operations import OPERATIONS, compared, result_type
from tests.cuda.ptx_program import TYPES, Address, Instruction, Operand, Program, PtxError
from tests.cuda.ptx_warps import WARP, WARPS

__all__ = ["Machine", "Memory", "PtxError", "run"]

SHARED, LOCAL, CONSTANT = 1 << 44, 2 << 44, 3 << 44
"""Where these kinds of memory begin among all addresses."""
THREADS = 1 << 14
"""About as many run at once."""
ENDED = 1 << 40
"""The next instruction of a thread that has ended."""
Values = Any


class Memory(Protocol):
    """Memory of a GPU, in which all blocks and programs read and write."""

    data: np.ndarray
    """Its bytes."""
    base: int
    """The address of the first."""

    def check(self, start: np.ndarray, size: int) -> None:
        """PtxError unless all of these bytes, counted from the first, are allocated."""


def run(program: Program, memory: Memory, grid: Sequence[int], block: Sequence[int],
        parameters: Sequence[np.generic]) -> None:
    """Run all blocks of a launch."""
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    at_once = max(1, THREADS // prod(block))
    for first in range(0, prod(grid), at_once):
        numbers = np.arange(first, min(first + at_once, prod(grid)))
        Machine(program, memory, grid, block, numbers, parameters).run()


class Machine:
    """The threads of some blocks; `numbers` are those of the blocks in the grid."""

    def __init__(self, program: Program, memory: Memory, grid: Sequence[int], block: Sequence[int],
                 numbers: np.ndarray, parameters: Sequence[np.generic]):
        self.memory = memory
        size = prod(block)
        thread = np.arange(size * len(numbers))
        self.owner = thread
        self.block_index, in_block = thread // size, thread % size
        self.warp_start = thread - in_block % WARP
        self.warp_size = np.minimum(WARP, size - (in_block // WARP) * WARP)
        self.special = _special(grid, block, numbers[self.block_index], in_block)
        self.shared_bytes = -(-program.shared_bytes // 16) * 16
        self.local_bytes = -(-program.stack_bytes // 16) * 16
        self.shared = np.full(self.shared_bytes * len(numbers), 0xFF, np.uint8)
        self.local = np.full(self.local_bytes * len(thread), 0xFF, np.uint8)
        self.constants, self.constant_at = _constants(program)
        self._begin(program, 0)
        for name, (position, stored) in program.parameters.items():
            number = np.asarray(parameters[position])
            bits = number.view(f"u{number.itemsize}").astype(f"u{stored.itemsize}")
            self.slots[Address(name, 0)] = np.broadcast_to(bits, self.count)

    def _begin(self, program: Program, local_start: int) -> None:
        """Let all threads be at the beginning of a program; its local memory begins there."""
        self.program, self.local_start, self.count = program, local_start, len(self.owner)
        self.registers = {name: np.zeros(self.count, bits)
                          for name, bits in program.registers.items()}
        self.slots: dict[Address, np.ndarray] = {}
        self.next = np.zeros(self.count, np.int64)
        self.waits = np.zeros(self.count, bool)

    # -- control ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until all threads have ended."""
        with np.errstate(all="ignore"):
            while True:
                ready = np.where(self.waits, ENDED, self.next)
                at = int(ready.min())
                if at == ENDED:
                    if not self.waits.any():
                        return
                    self._meet()
                    continue
                where = np.flatnonzero(ready == at)
                others = ready[ready != at]
                self._run_together(at, where if len(where) < self.count else slice(None),
                                   int(others.min()) if len(others) else ENDED)

    def _meet(self) -> None:
        """All threads that have not ended wait at barriers: go on."""
        for block in np.unique(self.block_index[self.waits]):
            inside = self.waits & (self.block_index == block)
            if len(np.unique(self.next[inside])) > 1:
                raise PtxError(f"threads of block {block} wait at different barriers")
        self.waits[:] = False

    def _run_together(self, at: int, where: Any, until: int) -> None:
        """Run threads that are at one instruction, until they part or reach instruction `until`."""
        instructions, end = self.program.instructions, len(self.program.instructions)
        while at < until:
            if at >= end:
                self.next[where] = ENDED
                return
            instruction = instructions[at]
            chosen = where
            if instruction.guard:
                truth = self.registers[instruction.guard][where] ^ instruction.negated
                if not truth.all():
                    chosen = np.arange(self.count)[where][truth]
            at += 1
            try:
                if instruction.name in ("bra", "brx", "ret", "exit", "trap") or _is_barrier(
                        instruction):
                    self.next[where] = at
                    if self._turn(instruction, chosen):
                        return
                elif isinstance(chosen, slice) or len(chosen):
                    self._execute(instruction, chosen)
            except PtxError as error:
                raise PtxError(f"{instruction.text}: {error}") from None
            except Exception as error:
                raise PtxError(f"{instruction.text}: {type(error).__name__}: {error}") from error
        self.next[where] = at

    def _turn(self, instruction: Instruction, where: Any) -> bool:
        """Branch, end or wait; whether threads may have parted."""
        if not isinstance(where, slice) and not len(where):
            return False
        if instruction.name == "trap":
            raise PtxError("the kernel ends itself")
        if instruction.name == "bra":
            self.next[where] = self.program.labels[str(instruction.operands[-1])]
        elif instruction.name == "brx":
            labels = self.program.targets[str(instruction.operands[1])]
            places = np.array([self.program.labels[label] for label in labels])
            self.next[where] = places[self.read(instruction.operands[0], "u32", where)]
        elif instruction.name in ("ret", "exit"):
            self.next[where] = ENDED
        else:
            self.waits[where] = True
        return True

    # -- registers ----------------------------------------------------------------------------

    def read(self, operand: Operand, kind: str, where: Any) -> Values:
        """An operand of a type, for these threads."""
        dtype = np.dtype(TYPES[kind])
        if isinstance(operand, str):
            value = self.named(operand, where)
            if value.dtype == dtype:
                return value
            if value.dtype.kind == "b":
                return value.astype(dtype)
            if value.dtype.itemsize != dtype.itemsize:
                value = value.astype(f"u{dtype.itemsize}")
            return value.view(dtype)
        if isinstance(operand, float) or dtype.kind == "f":
            if dtype.kind != "f":      # the bits of a float
                return np.array(operand, f"f{dtype.itemsize}").view(dtype)
            return dtype.type(operand)
        assert isinstance(operand, int)
        if dtype.kind == "b":
            return np.bool_(operand)
        return np.array(operand % 2 ** (8 * dtype.itemsize), f"u{dtype.itemsize}").view(dtype)[()]

    def named(self, name: str, where: Any) -> Values:
        if name in self.registers:
            return self.registers[name][where]
        if name in self.special:
            return self.special[name][where]
        return np.broadcast_to(np.uint64(self._address_of(name)), self.count)[where]

    def _address_of(self, name: str) -> int:
        """The address of an array in its own kind of memory."""
        if name in self.program.local:
            return self.program.local[name] + self.local_start
        for names in (self.program.shared, self.constant_at):
            if name in names:
                return names[name]
        raise PtxError(f"{name} is not known")

    def write(self, name: Operand, value: Values, where: Any) -> None:
        assert isinstance(name, str), name
        if name == "_":
            return
        target = self.registers[name]
        value = np.asarray(value)
        if value.dtype != target.dtype:
            if target.dtype.kind == "b" or value.dtype.kind == "b":
                value = value.astype(target.dtype)
            elif value.dtype.itemsize == target.dtype.itemsize:
                value = np.ascontiguousarray(value).view(target.dtype).reshape(value.shape)
            elif value.dtype.kind == "f":
                value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").reshape(
                    value.shape).astype(target.dtype)
            else:
                value = value.astype(target.dtype)      # with the sign, if there is one
        target[where] = value

    # -- memory -------------------------------------------------------------------------------

    def _access(self, space: str, address: Address, dtype: np.dtype, number: int, where: Any
                ) -> list[tuple[np.ndarray, np.ndarray, Any]]:
        """(memory as elements of a type, positions in it, which of the threads) of an address."""
        base = address.base
        if base.startswith("%"):
            start = self.registers[base][where].astype(np.int64) + address.offset
        else:
            start = np.full(self.count, self._address_of(base) + address.offset)[where]
        size = number * dtype.itemsize
        if (start % size).any():
            odd = int(start[start % size != 0][0])
            raise PtxError(f"address {odd:#x} is no multiple of {size}")
        everyone = np.arange(self.count)[where]
        if space in ("shared", "local"):
            return [(*self._place(space, start, size, dtype, everyone), slice(None))]
        kinds = start >> 44
        return [(*self._place({0: "global", 1: "shared", 2: "local", 3: "const"}[int(kind)],
                              start[kinds == kind] - (int(kind) << 44 if kind else 0), size, dtype,
                              everyone[kinds == kind]), kinds == kind)
                for kind in np.unique(kinds)]

    def _place(self, space: str, start: np.ndarray, size: int, dtype: np.dtype,
               everyone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if space == "global":
            start = start - self.memory.base
            self.memory.check(start, size)
            return self.memory.data.view(dtype), start // dtype.itemsize
        data, each, owners = {
            "shared": (self.shared, self.shared_bytes, self.block_index[everyone]),
            "local": (self.local, self.local_bytes, self.owner[everyone]),
            "const": (self.constants, len(self.constants), np.zeros_like(everyone))}[space]
        if ((start < 0) | (start + size > each)).any():
            raise PtxError(f"byte {int(start.max())} of {each} of {space} memory")
        return data.view(dtype), (start + owners * each) // dtype.itemsize

    def _load(self, instruction: Instruction, where: Any) -> None:
        target, address = instruction.operands[:2]
        kind, space = instruction.types[-1], instruction.space
        assert isinstance(address, Address)
        dtype = np.dtype(TYPES[kind])
        if space == "param":
            return self.write(target, self.slots[address][where].view(dtype), where)
        targets = target if isinstance(target, tuple) else (target,)
        length = len(np.arange(self.count)[where])
        values = [np.empty(length, dtype) for _ in targets]
        for data, at, part in self._access(space, address, dtype, len(targets), where):
            for k, value in enumerate(values):
                value[part] = data[at + k]
        for name, value in zip(targets, values, strict=True):
            self.write(name, value, where)
        return None

    def _store(self, instruction: Instruction, where: Any) -> None:
        address, source = instruction.operands
        assert isinstance(address, Address)
        kind = instruction.types[-1]
        dtype = np.dtype(TYPES[kind])
        if instruction.space == "param":
            slot = self.slots.setdefault(address, np.zeros(self.count, f"u{dtype.itemsize}"))
            slot[where] = np.asarray(self.read(source, kind, where)).view(slot.dtype)
            return
        sources = source if isinstance(source, tuple) else (source,)
        length = len(np.arange(self.count)[where])
        values = [np.broadcast_to(self.read(each, kind, where), length) for each in sources]
        for data, at, part in self._access(instruction.space, address, dtype, len(sources), where):
            for k, value in enumerate(values):
                data[at + k] = value[part]

    def _atomic(self, instruction: Instruction, where: Any) -> None:
        operands = instruction.operands
        target = operands[0] if instruction.name == "atom" else "_"
        address, *rest = operands[instruction.name == "atom":]
        assert isinstance(address, Address)
        kind = instruction.types[-1]
        dtype = np.dtype(TYPES[kind])
        length = len(np.arange(self.count)[where])
        sources = [np.broadcast_to(self.read(each, kind, where), length) for each in rest]
        old = np.empty(length, dtype)
        change = next(ATOMICS[word] for word in ATOMICS if word in instruction.words)
        for data, at, part in self._access(instruction.space, address, dtype, 1, where):
            results = []
            for place, *values in zip(at, *[source[part] for source in sources], strict=True):
                before = data[place]
                results.append(before)
                data[place] = change(before, *values)
            old[part] = results
        if target != "_":
            self.write(target, old, where)

    # -- instructions -------------------------------------------------------------------------

    def _execute(self, instruction: Instruction, where: Any) -> None:
        name = instruction.name
        special = SPECIAL.get(name)
        if special is not None:
            special(self, instruction, where)
        elif name in OPERATIONS:
            self._compute(instruction, where)
        else:
            raise PtxError("the machine does not know this instruction")

    def _compute(self, instruction: Instruction, where: Any) -> None:
        name, kinds = instruction.name, instruction.types
        target, *sources = instruction.operands
        if name in ("setp", "set"):
            return self._set_predicate(instruction, where)
        kind = kinds[-1] if name == "cvt" else kinds[0]
        read = [self.read(operand, _kind_of(instruction, kind, k), where)
                for k, operand in enumerate(sources)]
        result = OPERATIONS[name](instruction, *read)
        if name in ("mul", "mad") and "wide" in instruction.words:
            result = np.asarray(result).astype(result_type(instruction))
        return self.write(target, result, where)

    def _set_predicate(self, instruction: Instruction, where: Any) -> None:
        kind = instruction.types[-1]
        targets = instruction.operands[:1]
        rest = instruction.operands[1:]
        if "|" in instruction.text.split(",")[0]:
            targets, rest = instruction.operands[:2], instruction.operands[2:]
        truth = compared(instruction, *[self.read(each, kind, where) for each in rest[:2]])
        results = [truth, ~truth]
        if len(rest) > 2:
            third = self.condition(str(rest[2]), where)
            combine = next(function for word, function in (
                ("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor))
                if word in instruction.words)
            results = [combine(each, third) for each in results]
        for name, result in zip(targets, results, strict=False):
            if instruction.name == "set":       # all bits, or 1.0
                to = np.dtype(TYPES[instruction.types[0]])
                result = np.where(result, 1 if to.kind == "f" else -1, 0).astype(
                    to if to.kind == "f" else f"i{to.itemsize}")
            self.write(name, result, where)

    def condition(self, name: str, where: Any) -> np.ndarray:
        value = self.read(name.lstrip("!"), "pred", where)
        return ~value if name.startswith("!") else value

    def _call(self, instruction: Instruction, where: Any) -> None:
        """Run a function: a machine of the threads that call it, on the memory of this one."""
        *returned, name, arguments = instruction.operands
        results = returned[0] if returned else ()
        assert isinstance(results, tuple) and isinstance(arguments, tuple)
        inner = copy(self)
        everyone = np.arange(self.count)[where]
        for what in ("owner", "block_index", "warp_start", "warp_size"):
            setattr(inner, what, getattr(self, what)[everyone])
        inner.special = {word: values[everyone] for word, values in self.special.items()}
        callee = self.program.functions[str(name)]
        inner._begin(callee, self.local_start + self.program.local_bytes)
        for own, given in zip(callee.parameters, arguments, strict=True):
            inner.slots[Address(own, 0)] = self.slots[Address(str(given), 0)][everyone]
        inner.run()
        for own, target in zip(callee.results, results, strict=True):
            value = inner.slots[Address(own, 0)]
            slot = self.slots.setdefault(Address(str(target), 0), np.zeros(self.count, value.dtype))
            slot[everyone] = value

    def _move(self, instruction: Instruction, where: Any) -> None:
        target, source = instruction.operands
        kind = instruction.types[0]
        if isinstance(source, tuple):
            parts = [self.named(str(part), where) if isinstance(part, str) else part
                     for part in source]
            size = np.dtype(TYPES[kind]).itemsize // len(parts)
            whole = np.zeros(1, np.uint64)
            for k, part in enumerate(parts):
                whole = whole | (np.asarray(part).astype(np.uint64) << np.uint64(8 * size * k))
            self.write(target, whole.astype(f"u{size * len(parts)}"), where)
        elif isinstance(target, tuple):
            value = self.read(source, kind, where)
            size = value.dtype.itemsize // len(target)
            for k, part in enumerate(target):
                bits = value.view(f"u{value.dtype.itemsize}") >> np.array(
                    8 * size * k, f"u{value.dtype.itemsize}")
                self.write(part, bits.astype(f"u{size}"), where)
        else:
            self.write(target, self.read(source, kind, where), where)

    def _select(self, instruction: Instruction, where: Any) -> None:
        target, a, b, condition = instruction.operands
        kind = instruction.types[0]
        values = [self.read(each, kind, where) for each in (a, b)]
        truth = (self.read(condition, "pred", where) if instruction.name == "selp"
                 else self.read(condition, instruction.types[-1], where) >= 0)
        self.write(target, np.where(truth, *values), where)

    def _convert_address(self, instruction: Instruction, where: Any) -> None:
        target, source = instruction.operands
        start = {"shared": SHARED, "local": LOCAL}.get(instruction.space, 0)
        value = self.read(source, instruction.types[-1], where)
        change = np.uint64(start) if "to" not in instruction.words else -np.uint64(start)
        self.write(target, value + change, where)


def _nothing(machine: Machine, instruction: Instruction, where: Any) -> None:
    """Do nothing: it matters to a card alone, such as the order in which others see writes."""


SPECIAL: dict[str, Callable[[Machine, Instruction, Any], None]] = {
    "ld": Machine._load, "ldu": Machine._load, "st": Machine._store, "atom": Machine._atomic,
    "red": Machine._atomic, "mov": Machine._move, "selp": Machine._select, "slct": Machine._select,
    "cvta": Machine._convert_address, "call": Machine._call, **WARPS,
    **dict.fromkeys(("membar", "fence", "prefetch", "nanosleep", "bar", "barrier"), _nothing)}
"""Instructions that do more than compute, by name."""

ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x, "min": min, "max": max, "and": lambda old, x: old & x,
    "or": lambda old, x: old | x, "xor": lambda old, x: old ^ x, "exch": lambda old, x: x,
    "cas": lambda old, x, y: y if old == x else old,
    "inc": lambda old, x: type(old)(0) if old >= x else old + type(old)(1),
    "dec": lambda old, x: x if old == 0 or old > x else old - type(old)(1)}


def _is_barrier(instruction: Instruction) -> bool:
    return instruction.name in ("bar", "barrier") and "warp" not in instruction.words


def _kind_of(instruction: Instruction, kind: str, position: int) -> str:
    """The type of an operand that has not that of the instruction."""
    name = instruction.name
    if name in ("shl", "shr") and position == 1 or name in ("bfe", "bfi") and position >= (
            1 if name == "bfe" else 2):
        return "u32"
    if name == "mad" and position == 2 and "wide" in instruction.words:
        return {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[kind]
    return kind


def _constants(program: Program) -> tuple[np.ndarray, dict[str, int]]:
    places, parts, used = {}, [], 0
    for name, content in program.constants.items():
        places[name] = CONSTANT + used
        padded = content + bytes(-len(content) % 16)
        parts.append(padded)
        used += len(padded)
    return np.frombuffer(b"".join(parts) or bytes(16), np.uint8).copy(), places


def _special(grid: Sequence[int], block: Sequence[int], blocks: np.ndarray, threads: np.ndarray
             ) -> dict[str, np.ndarray]:
    """Registers that tell each thread its place."""
    found = {}
    for number, sizes, (own, extent) in ((threads, block, ("tid", "ntid")),
                                         (blocks, grid, ("ctaid", "nctaid"))):
        for axis, letter in enumerate("xyz"):
            found[f"%{own}.{letter}"] = (number // prod(sizes[:axis]) % sizes[axis]).astype(
                np.uint32)
            found[f"%{extent}.{letter}"] = np.full(len(number), sizes[axis], np.uint32)
    found["%laneid"] = (threads % WARP).astype(np.uint32)
    found["%warpid"] = (threads // WARP).astype(np.uint32)
    found["%lanemask_lt"] = ((np.uint64(1) << found["%laneid"].astype(np.uint64))
                             - np.uint64(1)).astype(np.uint32)
    return found
