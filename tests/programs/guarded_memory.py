"""Arrays between pages that cannot be read or written, and networks that run in such arrays.

A kernel that reads or writes far enough beyond an array kills the process; one that writes less
far, into what is left of a page, is found afterwards.  Needs `mprotect`.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np

import nbmod as mx
from nbmod.execution.arena import Memory, piece_of
from nbmod.ops.device import ALIGNMENT, CPU, LARGE, Cpu

CANARY, UNSET = 0xA5, 0xFF
NO_ACCESS = 0
PAGE = mmap.PAGESIZE


class Guards:
    """Memory that ends at a guard page, or with `at_end` False starts after one."""

    def __init__(self, at_end: bool):
        self.at_end = at_end
        self.rest: list[np.ndarray] = []

    def allocate(self, nbytes: int, alignment: int = ALIGNMENT) -> np.ndarray:
        """Uninitialised bytes."""
        size = -(-max(nbytes, 1) // PAGE) * PAGE
        pages = np.frombuffer(mmap.mmap(-1, size + 2 * PAGE), np.uint8)
        address = pages.__array_interface__["data"][0]
        for page in (address, address + PAGE + size):
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS):
                raise OSError("mprotect failed")
        inside = pages[PAGE:PAGE + size]
        start = (size - nbytes) // alignment * alignment if self.at_end else 0
        inside[:] = CANARY
        self.rest += [inside[:start], inside[start + nbytes:]]
        block = inside[start:start + nbytes]
        block[:] = UNSET
        return block

    def empty(self, device: Any, shape: Any, dtype: Any) -> np.ndarray:
        """`Cpu.empty`."""
        dtype = np.dtype(dtype)
        nbytes = prod(shape) * dtype.itemsize
        alignment = ALIGNMENT if nbytes >= LARGE else dtype.itemsize
        return np.ndarray(tuple(shape), dtype, self.allocate(nbytes, alignment))

    def array(self, memory: Memory, sid: int, spec: Any, piece: Any = None) -> Any:
        """`Memory.array`: every storage by itself."""
        blocks = memory.__dict__.setdefault("guarded", {})
        if sid not in blocks:
            blocks[sid] = self.allocate(memory.plan.storages[sid].size)
        return piece_of(CPU, blocks[sid], 0, spec, piece)

    def check(self) -> None:
        """Raise AssertionError if anything has been written outside of arrays."""
        assert all((rest == CANARY).all() for rest in self.rest), "written outside of an array"


@contextmanager
def guarded(at_end: bool) -> Iterator[None]:
    """A block in which arrays of the CPU are guarded."""
    guards = Guards(at_end)
    with (patch.object(Cpu, "empty", lambda *args: guards.empty(*args)),
          patch.object(Memory, "array", lambda *args: guards.array(*args))):
        yield
    guards.check()


def run(graph: str, shapes: dict[str, list[int]], dtype: str, request: str, threads: int
        ) -> list[np.ndarray]:
    """Outputs and gradients in ordinary memory; AssertionError if they differ between guards."""
    mx.set_num_threads(threads)
    symbol = mx.sym.load_json(graph)
    found = results(symbol, shapes, dtype, request)
    for at_end in (True, False):
        with guarded(at_end):
            again = results(symbol, shapes, dtype, request)
        for one, other in zip(found, again, strict=True):
            np.testing.assert_array_equal(one, other)
    return found


def results(symbol: Any, shapes: dict[str, list[int]], dtype: str, request: str
            ) -> list[np.ndarray]:
    """Outputs of inference, outputs of training, gradients of all arguments."""
    types = dict.fromkeys(shapes, dtype)
    executor = symbol.simple_bind(mx.cpu(), grad_req=request, type_dict=types,
                                  **{name: tuple(shape) for name, shape in shapes.items()})
    random = np.random.default_rng(0)
    for array in (*executor.arg_arrays, *executor.aux_arrays):
        array[:] = np.abs(random.integers(-8, 9, array.shape)) / 8 + 0.125
    for array in executor.grad_dict.values():
        array[:] = 0.25
    outs = [out.asnumpy() for out in executor.forward(is_train=False)]
    outs += [out.asnumpy() for out in executor.forward(is_train=True)]
    executor.backward([mx.nd.array(random.integers(-8, 9, out.shape) / 8, dtype=out.dtype)
                       for out in executor.outputs])
    return outs + [executor.grad_dict[name].asnumpy() for name in symbol.list_arguments()]
