"""`.states` files: MXNet's pickles of optimizer states, written and read without `pickle`.

A file is a pickle of `{index: state}` or of the pair `({index: state}, optimizer)`.  `load_states`
runs it on a machine (`safe_unpickler`) that can only build plain data, arrays, and instances of
optimizer and scheduler classes that the process has already, filled with such values; any other
request of a file is an MXNetError that names it.

`write_states` writes the few instructions needed, under MXNet's class names, so that MXNet reads
nbmod's files and the other way round.
"""

from __future__ import annotations

import io
import reprlib
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from ..base import Forwarded, MXNetError
from ..core.serialization import record_size, write_record
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..ndarray.sparse_array import CSRNDArray, RowSparseNDArray
from .base_optimizer import Optimizer
from .safe_unpickler import Machine, Maker, bytes_in
from .state_checks import check_fields, check_names, new_instance
from .update_step import Index, State

__all__ = ["build_object", "checked_states", "described_object", "dump_states", "load_states",
           "write_states"]

_WHAT = "optimizer states"
_MAX_DEPTH, _MAX_PARTS = 16, 1000
_OPTIMIZERS, _SCHEDULERS = "mxnet.optimizer.optimizer", "mxnet.lr_scheduler"
_CONTRIB = {"GroupAdaGrad": "mxnet.optimizer.contrib"}
"""The module of MXNet that has the classes that are not among the others."""
_HOMES: dict[str, type] = {_OPTIMIZERS: Optimizer, "mxnet.optimizer": Optimizer,
                           "mxnet.optimizer.contrib": Optimizer, _SCHEDULERS: LRScheduler}
_NDARRAYS: dict[tuple[str, str], type[NDArray]] = {
    ("mxnet.ndarray.ndarray", "NDArray"): NDArray, ("mxnet.ndarray", "NDArray"): NDArray,
    ("nbmod.ndarray.ndarray", "NDArray"): NDArray,
    ("mxnet.ndarray.sparse", "RowSparseNDArray"): RowSparseNDArray,
    ("mxnet.ndarray.sparse", "CSRNDArray"): CSRNDArray}


# ---------------------------------------------------------------------------------------- reading

def load_states(content: bytes) -> tuple[dict[Index, State], Optimizer | None]:
    """The states in a file's content, and the optimizer if it was written with them."""
    value = Machine(_WHAT, _maker, _set_state).run(bytes(content))
    states, optimizer = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return checked_states(states, optimizer)


def checked_states(states: object, optimizer: object
                   ) -> tuple[dict[Index, State], Optimizer | None]:
    """The states and the optimizer in a file; MXNetError if they cannot be such."""
    if not isinstance(states, dict):
        raise MXNetError(f"{_WHAT}: expected a dict, found {type(states).__name__}")
    if not isinstance(optimizer, (Optimizer, type(None))):
        raise MXNetError(f"{_WHAT}: expected an Optimizer beside the states, found "
                         f"{type(optimizer).__name__}")
    for index, state in states.items():
        _check_state(index, state)
    if optimizer is not None:
        try:
            check_fields(optimizer)     # again: later instructions may have changed a list
        except TypeError as error:
            raise MXNetError(f"{_WHAT}: {error}") from None
    return states, optimizer


def _check_state(index: Index, state: State) -> None:
    """MXNetError unless a state has only None, numbers, arrays, and tuples or lists of these.

    Counting every occurrence of a part bounds lists that occur again and again; a list within
    itself nests too deep.
    """
    waiting = [(state, 0)]
    for _ in range(_MAX_PARTS):
        if not waiting:
            return
        part, depth = waiting.pop()
        if isinstance(part, (tuple, list)):
            if depth == _MAX_DEPTH:
                raise MXNetError(f"{_WHAT}: the state of {reprlib.repr(index)} nests deeper than "
                                 f"{_MAX_DEPTH} levels")
            waiting += [(inner, depth + 1) for inner in part[:_MAX_PARTS]]
        elif isinstance(part, NDArray) and part._data is None:
            raise MXNetError(f"{_WHAT}: the state of {reprlib.repr(index)} holds an array without "
                             "contents")
        elif not isinstance(part, (NDArray, int, float, type(None))):
            raise MXNetError(f"{_WHAT}: the state of {reprlib.repr(index)} holds a "
                             f"{type(part).__name__}, expected arrays and numbers")
    raise MXNetError(f"{_WHAT}: the state of {reprlib.repr(index)} has more than {_MAX_PARTS} "
                     "parts")


def _maker(module: str, name: str) -> Maker | None:
    """The maker of instances of a class; None for classes that files may not name."""
    if (module, name) in _NDARRAYS:
        return lambda args: _NDARRAYS[module, name](None)
    for base in (Optimizer, LRScheduler):
        for klass in _subclasses(base):
            namesake = klass.__module__.startswith("nbmod.") and _HOMES.get(module) is base
            if klass.__name__ == name and (klass.__module__ == module or namesake):
                return partial(_blank, klass)
    return None


def build_object(module: object, name: object, attributes: object) -> object:
    """An optimizer or a scheduler with these attributes; MXNetError if a file may not name it."""
    maker = _maker(module, name) if isinstance(module, str) and isinstance(name, str) else None
    if maker is None or not isinstance(attributes, dict) or not all(
            isinstance(attribute, str) for attribute in attributes):
        raise MXNetError(f"{_WHAT}: {reprlib.repr(module)}.{reprlib.repr(name)} is no class of "
                         "optimizers or schedulers with attributes")
    instance = maker(())
    try:
        _set_state(instance, attributes)
    except TypeError as error:
        raise MXNetError(f"{_WHAT}: {error}") from None
    return instance


def _blank(klass: type[Optimizer | LRScheduler], args: tuple[object, ...]) -> object:
    """An instance whose constructor has not run; it has the defaults of nbmod's class."""
    instance: Optimizer | LRScheduler = object.__new__(klass)
    instance.__dict__.update(vars(new_instance(klass)))
    return instance


def _subclasses(klass: type) -> Iterator[type]:
    child: type
    for child in klass.__subclasses__():
        yield child
        yield from _subclasses(child)


def _set_state(target: object, state: dict[str, Forwarded]) -> None:
    """Fill an instance with its attributes."""
    if isinstance(target, NDArray):
        target.__setstate__({"handle": bytes_in(state.get("handle"))})
    elif isinstance(target, (Optimizer, LRScheduler)):
        check_names(type(target), state)
        if isinstance(target, Optimizer):
            Optimizer.__setstate__(target, state)
        else:
            target.__dict__.update(state)
        check_fields(target)
    else:
        raise TypeError(f"a {type(target).__name__} is given a state")


# ---------------------------------------------------------------------------------------- writing

def dump_states(value: object) -> bytes:
    """A pickle (protocol 4) of states, or of (states, optimizer), that MXNet reads as its own.

    Raises MXNetError for an object that `load_states` would reject.
    """
    stream = io.BytesIO()
    write_states(stream, value)
    return stream.getvalue()


def write_states(stream: BinaryIO, value: object) -> None:
    """Write what `dump_states` returns, without copies of arrays in memory."""
    stream.write(b"\x80\x04")
    _write(stream, value, 0)
    stream.write(b".")


def _write(stream: BinaryIO, value: object, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MXNetError("optimizer states: nested too deep to be written")
    if value is None or isinstance(value, bool):
        stream.write({None: b"N", True: b"\x88", False: b"\x89"}[value])
    elif isinstance(value, int):
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        stream.write(b"\x8b" + struct.pack("<i", len(content)) + content)
    elif isinstance(value, float):
        stream.write(b"G" + struct.pack(">d", value))
    elif isinstance(value, str):
        content = value.encode("utf-8")
        stream.write(b"X" + struct.pack("<I", len(content)) + content)
    elif isinstance(value, (bytes, bytearray)):
        _write_bytearray(stream, len(value), partial(stream.write, value))
    elif isinstance(value, (dict, list, tuple)):
        _write_container(stream, value, depth)
    else:
        _write_object(stream, value, depth)


def _write_bytearray(stream: BinaryIO, size: int, write: Callable[[], object]) -> None:
    """A bytearray of `size` bytes, which `write` writes."""
    stream.write(b"cbuiltins\nbytearray\n\x8e" + struct.pack("<Q", size))
    write()
    stream.write(b"\x85R")


Container = dict[object, object] | list[object] | tuple[object, ...]


def _write_container(stream: BinaryIO, value: Container, depth: int) -> None:
    start, end = {dict: (b"}(", b"u"), list: (b"](", b"e")}.get(type(value), (b"(", b"t"))
    stream.write(start)
    items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
    for item in items:
        _write(stream, item, depth + 1)
    stream.write(end)


def _write_object(stream: BinaryIO, value: object, depth: int) -> None:
    if isinstance(value, NDArray):
        home = "sparse" if value.is_sparse else "ndarray"
        stream.write(f"cmxnet.ndarray.{home}\n{type(value).__name__}\nN".encode() + b"\x85R}")
        _write(stream, "handle", depth)
        array = value._data if value.is_sparse else value.asnumpy()
        _write_bytearray(stream, record_size(array), partial(write_record, stream, array))
        stream.write(b"sb")
    elif isinstance(value, (Optimizer, LRScheduler)):
        home, state = described_object(value)
        stream.write(f"c{home}\n{type(value).__name__}\n".encode() + b")\x81")
        _write(stream, state, depth + 1)
        stream.write(b"b")
    elif hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        _write(stream, value.item(), depth)
    else:
        raise MXNetError(f"optimizer states: a {type(value).__name__} cannot be written, only "
                         "arrays, plain values, optimizers and schedulers")


def described_object(value: Optimizer | LRScheduler) -> tuple[str, dict[str, object]]:
    """The module of an optimizer's or scheduler's class in MXNet, and its attributes."""
    return _home(value), (value.__getstate__() if isinstance(value, Optimizer)
                          else value.__dict__)


def _home(value: object) -> str:
    """The module of an optimizer's or scheduler's class in MXNet."""
    klass = type(value)
    if not klass.__module__.startswith("nbmod."):
        return klass.__module__
    if isinstance(value, LRScheduler):
        return _SCHEDULERS
    return _CONTRIB.get(klass.__name__, _OPTIMIZERS)
