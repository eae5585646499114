"""How batches travel from worker processes: their arrays lie in memory that both processes map.

A `SharedBlock` is memory without a name: a file that exists only as a descriptor, which the worker
sends through its connection, so that nothing outlives the processes.  `pack` writes the arrays of a
batch to a block and describes the rest by a pickle; `unpack` makes arrays that are the block's
memory.  When the last of them is gone, the block's number goes back to its worker, which writes
another batch to it.

A batch is sent as bytes where descriptors cannot be sent (Windows), and when the consumer keeps so
many batches that a worker has `MOST_BLOCKS` blocks.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...base import MXNetError
from ...context import Context
from ...ndarray import NDArray

__all__ = ["MOST_BLOCKS", "SharedBlock", "Parcel", "Ring", "attached", "pack", "unpack"]

MOST_BLOCKS = 32
"""Blocks of a worker: each holds a descriptor in both processes."""
_ALIGNMENT, _LEAST = 64, 1 << 16


class Parcel(NamedTuple):
    """A batch without the contents of its arrays, which are in a block or, without one, here."""

    pickled: bytes
    spans: list[tuple[int, int]]
    """Offset and length, in bytes, of each array."""
    block: int | None
    contents: bytes = b""


class SharedBlock(NamedTuple):
    """Memory of two processes."""

    number: int
    memory: mmap.mmap


def _new_file(size: int) -> int:
    """The descriptor of a file without a name, whose memory is there."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("nbmod-batch")
    else:
        descriptor, path = tempfile.mkstemp(prefix="nbmod-batch-")
        os.unlink(path)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.truncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise MXNetError(f"DataLoader: no shared memory of {size:,} bytes for a batch "
                         f"({error.strerror}); take smaller batches, fewer workers, a smaller "
                         "prefetch, or thread_pool=True") from error
    return descriptor


def attached(number: int, descriptor: int) -> SharedBlock:
    """The block in a file, whose descriptor is closed."""
    try:
        return SharedBlock(number, mmap.mmap(descriptor, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)


class Ring:
    """The blocks of a worker.

    `send(number, dropped, descriptor)` sends the descriptor of a new block to the other process,
    and the number of the block that it replaces, or None.
    """

    def __init__(self, send: Callable[[int, int | None, int], None]):
        self._send = send
        self._free: list[SharedBlock] = []
        self._lent: dict[int, SharedBlock] = {}
        self._made = 0

    def take(self, size: int) -> SharedBlock | None:
        """A block of at least `size` bytes; None if there are too many, or if none can be sent."""
        fitting = [block for block in self._free if len(block.memory) >= size]
        if fitting:
            block = min(fitting, key=lambda each: len(each.memory))
            self._free.remove(block)
        elif os.name == "nt" or not self._free and len(self._lent) >= MOST_BLOCKS:
            return None
        else:
            block = self._new(max(size, _LEAST))
        self._lent[block.number] = block
        return block

    def give_back(self, numbers: list[int]) -> None:
        """Blocks that the other process has no array in any more."""
        self._free += [self._lent.pop(number) for number in numbers]

    def _new(self, size: int) -> SharedBlock:
        dropped = self._free.pop() if self._free else None
        descriptor = _new_file(size)
        self._send(self._made, dropped and dropped.number, descriptor)
        self._made += 1
        return attached(self._made - 1, descriptor)


class _Packer(pickle.Pickler):
    """Pickles a batch without its arrays, which it collects."""

    def __init__(self, file: io.BytesIO):
        self.arrays: list[np.ndarray] = []
        super().__init__(file, 5, buffer_callback=lambda buffer: self.arrays.append(
            np.asarray(buffer.raw())))

    def persistent_id(self, value: Any) -> Any:
        if type(value) is not NDArray:
            return None
        return value.asnumpy(), value.context.device_type, value.context.device_id


class _Unpacker(pickle.Unpickler):
    """Makes MXNet's arrays of NumPy's."""

    def persistent_load(self, pid: Any) -> NDArray:
        array, kind, number = pid
        return NDArray(array, Context(kind, number))


def pack(batch: Any, ring: Ring) -> Parcel:
    """Write the arrays of a batch to a block of the ring."""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(batch)
    spans, size = [], 0
    for array in packer.arrays:
        spans.append((size, array.nbytes))
        size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    block = ring.take(size) if size else None
    target = bytearray(size) if block is None else block.memory
    memory = np.frombuffer(target, np.uint8)
    for array, (start, length) in zip(packer.arrays, spans, strict=True):
        memory[start:start + length] = array
    contents = bytes(target) if isinstance(target, bytearray) else b""
    return Parcel(file.getvalue(), spans, block and block.number, contents)


def unpack(parcel: Parcel, block: SharedBlock | None, free: Callable[[int], None]) -> Any:
    """Make the batch, whose arrays are the block's memory; `free` is called when all are gone."""
    memory = np.frombuffer(bytearray(parcel.contents) if block is None else block.memory, np.uint8)
    if block is not None:
        weakref.finalize(memory, free, block.number).atexit = False
    buffers = [memory[start:start + length] for start, length in parcel.spans]
    return _Unpacker(io.BytesIO(parcel.pickled), buffers=buffers).load()
