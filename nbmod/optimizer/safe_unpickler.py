"""A pickle machine that builds plain data and has no instruction to import or call anything.

A pickle is a program for a stack machine.  `Machine` runs those of its instructions that make
numbers, text, bytes, lists, tuples and dicts.  Where a program names a class, the machine looks the
name up in a table of makers: functions from arguments to a new object, and the only way to anything
beyond plain data.  Any other request of a program is an MXNetError that names it.

A short program can build large objects by copying one again and again.  So all copies are counted
against a multiple of the program's length, and the time remains linear in that length.
"""

from __future__ import annotations

import io
import pickletools
import struct
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..base import MXNetError

__all__ = ["Machine", "Maker", "bytes_in"]

Value: TypeAlias = Any  # type: ignore[explicit-any]
"""An object that a program has built.  Any: each instruction checks the types of what it reads."""
Maker: TypeAlias = Callable[[tuple[Value, ...]], Value]
"""From the arguments of a class (or of a function) to what stands for the new object."""

_MAX_INSTRUCTIONS = 4_000_000
"""Four times what the states of 100,000 parameters take."""
_MAX_BITS = 1024
_COPIES_PER_BYTE = 8
"""How often, on average, the bytes of a program may be copied; old protocols need three times."""
_LONG, _BYTES = 1 << 16, (b"B", b"\x8e")
"""Bytes of a long string, and the instructions that make strings of bytes that may be long."""
_KEYS = (str, int, float, type(None))


class _Class:
    """The maker of objects for a class or a function named in a pickle."""

    def __init__(self, make: Maker):
        self.make = make


class _Program(io.BytesIO):
    """The bytes of a pickle, which `pickletools` reads.

    Long strings of bytes are views of them: the contents of an array are copied once, into it.
    """

    def __init__(self, content: bytes):
        super().__init__(content)
        self._content, self._opcode = memoryview(content), b""

    def read(self, size: int | None = -1) -> Value:
        if size is None or size < _LONG or self._opcode not in _BYTES:
            piece = super().read(size)
            if size == 1:   # lengths of these instructions have 4 or 8 bytes
                self._opcode = piece
            return piece
        start = self.tell()
        view = self._content[start:start + size]
        self.seek(start + len(view))
        return view


class _ElementType:
    """A numpy.dtype in construction: its byte order comes after its name."""

    def __init__(self, name: Value):
        self.dtype = np.dtype(_text(name))
        if self.dtype.kind not in "biuf":
            raise TypeError(f"numbers of type {self.dtype}")

    def set_state(self, state: Value) -> None:
        if not isinstance(state, tuple) or len(state) < 2:
            raise TypeError("a numpy type without a byte order")
        order = _text(state[1])
        self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]  # any str


def bytes_in(value: Value) -> bytes | bytearray | memoryview:
    """`value` itself, which must be bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"a {type(value).__name__} where bytes are expected")
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where text is expected")
    return value


def _numpy_scalar(args: tuple[Value, ...]) -> Value:
    kind, content = args
    if not isinstance(kind, _ElementType):
        raise TypeError("a numpy number without a type")
    return np.frombuffer(bytes_in(content), kind.dtype, 1)[0].item()


class Machine:
    """The subset of pickle's machine that builds data: a stack, marks on it, and a memo.

    `find(module, name)` returns the maker for a class that a program may use, or None; `build`
    is called with (object, state) to assign the state of a new object, and raises TypeError for an
    object that takes none; `what` names the file in errors.
    """

    def __init__(self, what: str, find: Callable[[str, str], Maker | None],
                 build: Callable[[Value, Value], None]):
        self.what, self.find, self.build = what, find, build
        self.stack: list[Value] = []
        self.marks: list[int] = []
        self.memo: dict[int, Value] = {}
        self.classes: dict[tuple[str, str], _Class] = {}
        self.budget = 0

    def run(self, content: bytes) -> Value:
        """The result of the program.  MXNetError with the offset of any damage."""
        with warnings.catch_warnings():     # unknown escapes in text are kept, as `pickle` does
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._run(content)

    def _run(self, content: bytes) -> Value:
        at = 0
        self.budget = _COPIES_PER_BYTE * len(content) + 10_000
        try:
            program = pickletools.genops(_Program(content))
            for count, (opcode, argument, position) in enumerate(program):
                at = position or 0
                if opcode.name == "STOP":
                    return self.stack.pop()
                if count > _MAX_INSTRUCTIONS:
                    raise ValueError(f"more than {_MAX_INSTRUCTIONS} instructions")
                self._execute(opcode.name, argument)
        except (ValueError, LookupError, TypeError, AttributeError, struct.error, OverflowError,
                RecursionError) as error:
            raise MXNetError(f"{self.what}: damaged at byte {at}: {error}") from None
        raise MXNetError(f"{self.what}: the file ends before its end mark")

    def _execute(self, name: str, argument: Value) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            if isinstance(argument, int) and argument.bit_length() > _MAX_BITS:
                raise ValueError(f"an integer of more than {_MAX_BITS} bits")
            self.stack.append(argument)
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise MXNetError(f"{self.what}: the instruction {name} is not allowed")

    def _spend(self, copied: int) -> None:
        self.budget -= copied
        if self.budget < 0:
            raise ValueError("more is asked for than the file can be about")

    # -- stack and memo ---------------------------------------------------------------------

    def _pop_to_mark(self) -> list[Value]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _store(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def _fetch(self, index: int) -> None:
        self.stack.append(self.memo[index])

    # -- containers -------------------------------------------------------------------------

    def _small_tuple(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise ValueError("the stack is empty")
        del self.stack[-count:]
        self.stack.append(items)

    def _extend(self, items: list[Value]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("items are added to something that is no list")
        self.stack[-1].extend(items)

    def _fill(self, items: list[Value]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("items are set in something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise TypeError(f"a dict key is a {type(key).__name__}")
            target[key] = value

    def _set_item(self, _: Value) -> None:
        value = self.stack.pop()
        self._fill([self.stack.pop(), value])

    def _dict(self, _: Value) -> None:
        items = self._pop_to_mark()
        self.stack.append({})
        self._fill(items)

    # -- objects ----------------------------------------------------------------------------

    def _stack_global(self, _: Value) -> None:
        name = self.stack.pop()
        self._name(_text(self.stack.pop()), _text(name))

    def _name(self, module: str, name: str) -> None:
        klass = self.classes.get((module, name))
        if klass is None:
            make = self._own_maker(module, name) or self.find(module, name)
            if make is None:
                raise MXNetError(f"{self.what}: {module}.{name} is not allowed: only arrays, "
                                 "plain values, optimizers and schedulers are read")
            klass = self.classes[module, name] = _Class(make)
        self.stack.append(klass)

    def _own_maker(self, module: str, name: str) -> Maker | None:
        """Makers of plain data: the calls with which Python and NumPy pickle it."""
        return {
            ("builtins", "bytearray"): self._bytearray,
            ("__builtin__", "bytearray"): self._bytearray,
            ("_codecs", "encode"): lambda args: self._latin(args[0]),
            ("copy_reg", "_reconstructor"): lambda args: self._make(args[0], ()),
            ("copyreg", "_reconstructor"): lambda args: self._make(args[0], ()),
            ("builtins", "object"): _nothing, ("__builtin__", "object"): _nothing,
            ("numpy", "dtype"): lambda args: _ElementType(args[0]),
            ("numpy.core.multiarray", "scalar"): _numpy_scalar,
            ("numpy._core.multiarray", "scalar"): _numpy_scalar,
        }.get((module, name))

    def _latin(self, value: Value) -> bytes:
        """Protocols 0 to 2 store bytes as Latin-1 text."""
        text = _text(value)
        self._spend(len(text))
        return text.encode("latin-1")

    def _bytearray(self, args: tuple[Value, ...]) -> bytearray | memoryview:
        if not args:
            return bytearray()
        content = self._latin(args[0]) if len(args) == 2 else bytes_in(args[0])
        self._spend(len(content))
        return content if isinstance(content, memoryview) else bytearray(content)

    def _make(self, klass: Value, args: Value) -> Value:
        if not isinstance(klass, _Class) or not isinstance(args, tuple):
            raise TypeError(f"a {type(klass).__name__} is called with a {type(args).__name__}")
        return klass.make(args)

    def _reduce(self, _: Value) -> None:
        args = self.stack.pop()
        self.stack.append(self._make(self.stack.pop(), args))

    def _build(self, _: Value) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _ElementType):
            target.set_state(state)
            return
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise TypeError(f"a {type(target).__name__} is given a {type(state).__name__} as state")
        self._spend(len(state) + sum(len(value) for value in state.values()
                                     if isinstance(value, (bytes, bytearray))))
        self.build(target, state)


def _nothing(args: tuple[Value, ...]) -> None:
    """`object`, which old pickles name as a base."""


_CONSTANTS: dict[str, Callable[[], Value]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
}
_LITERALS = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
))
_INSTRUCTIONS: dict[str, Callable[[Machine, Value], object]] = {
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine._pop_to_mark(),
    "PUT": Machine._store, "BINPUT": Machine._store, "LONG_BINPUT": Machine._store,
    "GET": Machine._fetch, "BINGET": Machine._fetch, "LONG_BINGET": Machine._fetch,
    "MEMOIZE": lambda machine, _: machine._store(len(machine.memo)),
    "LIST": lambda machine, _: machine.stack.append(machine._pop_to_mark()),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine._pop_to_mark())),
    "TUPLE1": lambda machine, _: machine._small_tuple(1),
    "TUPLE2": lambda machine, _: machine._small_tuple(2),
    "TUPLE3": lambda machine, _: machine._small_tuple(3),
    "DICT": Machine._dict,
    "APPEND": lambda machine, _: machine._extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine._extend(machine._pop_to_mark()),
    "SETITEM": Machine._set_item,
    "SETITEMS": lambda machine, _: machine._fill(machine._pop_to_mark()),
    "GLOBAL": lambda machine, text: machine._name(*text.split(" ")),
    "STACK_GLOBAL": Machine._stack_global,
    "REDUCE": Machine._reduce, "NEWOBJ": Machine._reduce, "BUILD": Machine._build,
}
