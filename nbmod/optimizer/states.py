"""`.states` files: MXNet's pickles of optimizer states, written and read without `pickle`.

A file is a pickle of `{index: state}` or of the pair `({index: state}, optimizer)`.  A pickle is a
program for a stack machine; `load_states` runs it on a machine of its own that has no instruction
to import or call anything.  It builds numbers, strings, bytes, containers and NDArrays, and
instances of optimizer and scheduler classes the process has already, filled with plain values;
whatever else a file asks for is an MXNetError that names it.

`dump_states` writes the few instructions this takes, under MXNet's class names, so that MXNet reads
nbmod's files and the other way round.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from ..base import MXNetError
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..serialization import record_bytes
from .base import Optimizer

__all__ = ["dump_states", "load_states"]

_MAX_DEPTH, _MAX_PARTS = 16, 1000
_OPTIMIZERS, _SCHEDULERS = "mxnet.optimizer.optimizer", "mxnet.lr_scheduler"
_HOMES: dict[str, type] = {_OPTIMIZERS: Optimizer, "mxnet.optimizer": Optimizer,
                           "mxnet.optimizer.contrib": Optimizer, _SCHEDULERS: LRScheduler}
_NDARRAYS = {("mxnet.ndarray.ndarray", "NDArray"), ("mxnet.ndarray", "NDArray"),
             ("nbmod.ndarray.ndarray", "NDArray")}
_BYTEARRAYS = {("builtins", "bytearray"), ("__builtin__", "bytearray")}
_KEYS = (str, int, float, type(None))


# ---------------------------------------------------------------------------------------- reading

def load_states(content: bytes) -> tuple[dict[Any, Any], Optimizer | None]:
    """The states in a file's content, and the optimizer if it was written with them."""
    found = _Machine().run(bytes(content))
    states, optimizer = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(states, dict):
        raise MXNetError(f"optimizer states: expected a dict, found {type(states).__name__}")
    if not isinstance(optimizer, (Optimizer, type(None))):
        raise MXNetError("optimizer states: expected an Optimizer beside the states, found "
                         f"{type(optimizer).__name__}")
    for index, state in states.items():
        _check_state(index, state)
    return states, optimizer


def _check_state(index: Any, state: Any) -> None:
    """None, numbers, arrays and tuples or lists of states are what optimizers keep.

    Counting every occurrence of a part bounds nesting, and lists within themselves, too.
    """
    waiting = [state]
    for _ in range(_MAX_PARTS):
        if not waiting:
            return
        part = waiting.pop()
        if isinstance(part, (tuple, list)):
            waiting += part[:_MAX_PARTS]
        elif not isinstance(part, (NDArray, int, float, type(None))):
            raise MXNetError(f"optimizer states: the state of {index!r} holds a "
                             f"{type(part).__name__}, expected arrays and numbers")
    raise MXNetError(f"optimizer states: the state of {index!r} has more than {_MAX_PARTS} parts")


class _Class:
    """What a class name in a pickle stands for: something to make instances of."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name
        self.make = self._maker()
        if self.make is None and name != "object":  # which old pickles name as a base
            raise MXNetError(f"optimizer states: {module}.{name} is not allowed: only arrays, "
                             "plain values, optimizers and schedulers are read")

    def _maker(self) -> Callable[[tuple], Any] | None:
        key = (self.module, self.name)
        if key in _NDARRAYS:
            return lambda args: NDArray(None)
        if key in _BYTEARRAYS:
            return _bytearray
        if key == ("_codecs", "encode"):
            return lambda args: _text(args[0]).encode("latin-1")
        if key in (("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")):
            return lambda args: _instance(args[0])
        known = _known_class(self.module, self.name)
        return None if known is None else lambda args: _blank(known)


def _blank(klass: type) -> Any:
    """An instance whose constructor has not run; an optimizer has the defaults of the base."""
    made: Any = object.__new__(klass)
    if isinstance(made, Optimizer):
        Optimizer.__init__(made)
    return made


def _known_class(module: str, name: str) -> type | None:
    """The optimizer or scheduler class of that name; one of MXNet's means nbmod's namesake."""
    for base in (Optimizer, LRScheduler):
        for klass in _subclasses(base):
            namesake = klass.__module__.startswith("nbmod.") and _HOMES.get(module) is base
            if klass.__name__ == name and (klass.__module__ == module or namesake):
                return klass
    return None


def _subclasses(klass: type) -> Iterator[type]:
    child: type
    for child in klass.__subclasses__():
        yield child
        yield from _subclasses(child)


def _bytearray(args: tuple) -> bytearray:
    if len(args) == 2:  # protocols 0 to 2 keep bytes as Latin-1 text
        return bytearray(_text(args[0]).encode("latin-1"))
    if args and not isinstance(args[0], (bytes, bytearray)):
        raise MXNetError("optimizer states: a bytearray is made of something other than bytes")
    return bytearray(*args)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MXNetError(f"optimizer states: expected text, found {type(value).__name__}")
    return value


def _instance(klass: Any, args: tuple = ()) -> Any:
    if not isinstance(klass, _Class) or klass.make is None:
        raise MXNetError(f"optimizer states: a {type(klass).__name__} is called")
    return klass.make(args)


class _Machine:
    """The part of pickle's machine that builds data: a stack, marks on it, and a memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        at = 0
        try:
            for opcode, argument, position in pickletools.genops(content):
                at = position or 0
                if opcode.name == "STOP":
                    return self._pop()
                self._execute(opcode.name, argument)
        except (ValueError, LookupError, TypeError, AttributeError, struct.error, OverflowError,
                RecursionError) as error:
            raise MXNetError(f"optimizer states: damaged at byte {at}: {error}") from None
        raise MXNetError("optimizer states: the file ends before its end mark")

    def _execute(self, name: str, argument: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise MXNetError(f"optimizer states: the instruction {name} is not allowed")

    def _pop(self) -> Any:
        return self.stack.pop()

    def _pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def _drop(self, _: Any) -> None:
        self.stack.pop()

    def _drop_to_mark(self, _: Any) -> None:
        self._pop_to_mark()

    def _store(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def _memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _fetch(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def _list(self, _: Any) -> None:
        self.stack.append(self._pop_to_mark())

    def _tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._pop_to_mark()))

    def _small_tuple(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise ValueError("the stack is empty")
        del self.stack[-count:]
        self.stack.append(items)

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("items are added to something that is no list")
        self.stack[-1].extend(items)

    def _append(self, _: Any) -> None:
        self._extend([self._pop()])

    def _appends(self, _: Any) -> None:
        self._extend(self._pop_to_mark())

    def _fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("items are set in something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise TypeError(f"a dict key is a {type(key).__name__}")
            target[key] = value

    def _set_item(self, _: Any) -> None:
        value = self._pop()
        self._fill([self._pop(), value])

    def _set_items(self, _: Any) -> None:
        self._fill(self._pop_to_mark())

    def _dict(self, _: Any) -> None:
        items = self._pop_to_mark()
        self.stack.append({})
        self._fill(items)

    def _global(self, argument: str) -> None:
        self.stack.append(_Class(*argument.split(" ")))

    def _stack_global(self, _: Any) -> None:
        name = self._pop()
        self.stack.append(_Class(_text(self._pop()), _text(name)))

    def _reduce(self, _: Any) -> None:
        args = self._pop()
        self.stack.append(_instance(self._pop(), tuple(args)))

    def _build(self, _: Any) -> None:
        state = self._pop()
        target = self.stack[-1]
        if not isinstance(target, (NDArray, Optimizer, LRScheduler)) or not isinstance(state, dict):
            raise TypeError(f"a {type(target).__name__} is given a {type(state).__name__} as state")
        if isinstance(target, NDArray):
            handle = state.get("handle")
            if not isinstance(handle, (bytes, bytearray)):
                raise TypeError("an array has no contents")
            target.__setstate__({"handle": handle})
        elif isinstance(target, Optimizer):
            Optimizer.__setstate__(target, state)
        else:
            target.__dict__.update(state)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
}
_LITERALS = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
))
_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine._mark, "POP": _Machine._drop, "POP_MARK": _Machine._drop_to_mark,
    "PUT": _Machine._store, "BINPUT": _Machine._store, "LONG_BINPUT": _Machine._store,
    "GET": _Machine._fetch, "BINGET": _Machine._fetch, "LONG_BINGET": _Machine._fetch,
    "MEMOIZE": _Machine._memoize, "LIST": _Machine._list, "TUPLE": _Machine._tuple,
    "TUPLE1": lambda machine, _: machine._small_tuple(1),
    "TUPLE2": lambda machine, _: machine._small_tuple(2),
    "TUPLE3": lambda machine, _: machine._small_tuple(3),
    "DICT": _Machine._dict, "APPEND": _Machine._append, "APPENDS": _Machine._appends,
    "SETITEM": _Machine._set_item, "SETITEMS": _Machine._set_items,
    "GLOBAL": _Machine._global, "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._reduce, "NEWOBJ": _Machine._reduce, "BUILD": _Machine._build,
}


# ---------------------------------------------------------------------------------------- writing

def dump_states(value: Any) -> bytes:
    """A pickle (protocol 4) of states, or of (states, optimizer), that MXNet reads as its own.

    Raises MXNetError for an object that `load_states` would refuse.
    """
    parts = [b"\x80\x04"]
    _write(parts, value, 0)
    return b"".join([*parts, b"."])


def _write(parts: list[bytes], value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MXNetError("optimizer states: nested too deep to be written")
    if value is None or isinstance(value, bool):
        parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
    elif isinstance(value, int):
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        parts.append(b"\x8b" + struct.pack("<i", len(content)) + content)
    elif isinstance(value, float):
        parts.append(b"G" + struct.pack(">d", value))
    elif isinstance(value, str):
        content = value.encode("utf-8")
        parts.append(b"X" + struct.pack("<I", len(content)) + content)
    elif isinstance(value, (bytes, bytearray)):
        _write_bytearray(parts, value)
    elif isinstance(value, (dict, list, tuple)):
        _write_container(parts, value, depth)
    else:
        _write_object(parts, value, depth)


def _write_bytearray(parts: list[bytes], value: bytes | bytearray) -> None:
    parts += [b"cbuiltins\nbytearray\n", b"\x8e" + struct.pack("<Q", len(value)), bytes(value),
              b"\x85R"]


def _write_container(parts: list[bytes], value: dict | list | tuple, depth: int) -> None:
    start, end = {dict: (b"}(", b"u"), list: (b"](", b"e")}.get(type(value), (b"(", b"t"))
    parts.append(start)
    items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
    for item in items:
        _write(parts, item, depth + 1)
    parts.append(end)


def _write_object(parts: list[bytes], value: Any, depth: int) -> None:
    if isinstance(value, NDArray):
        parts.append(b"cmxnet.ndarray.ndarray\nNDArray\nN\x85R}")
        _write(parts, "handle", depth)
        _write_bytearray(parts, record_bytes(value.asnumpy()))
        parts.append(b"sb")
    elif isinstance(value, (Optimizer, LRScheduler)):
        home = _OPTIMIZERS if isinstance(value, Optimizer) else _SCHEDULERS
        place = type(value).__module__
        module = home if place.startswith("nbmod.") else place
        parts.append(f"c{module}\n{type(value).__name__}\n".encode() + b")\x81")
        state = value.__getstate__() if isinstance(value, Optimizer) else value.__dict__
        _write(parts, state, depth + 1)
        parts.append(b"b")
    elif hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        _write(parts, value.item(), depth)
    else:
        raise MXNetError(f"optimizer states: a {type(value).__name__} cannot be written, only "
                         "arrays, plain values, optimizers and schedulers")
