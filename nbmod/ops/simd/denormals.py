"""Flush-to-zero mode: denormals are treated as 0, by bits of the processor's control register.

Elements below the smallest normal number (1.2e-38 in float32) make arithmetic a hundred times
slower on many processors, and no network needs them.  `switch(before, at, bits)` sets the bits in
the calling thread and stores the previous ones in `before[at]`.
"""

from __future__ import annotations

import platform

import numpy as np

from .ir import IRValue, MicroKernel, Vectors

__all__ = ["FLUSH", "switch"]

_MACHINE = platform.machine().lower()
_X86, _ARM = _MACHINE in ("x86_64", "amd64"), _MACHINE in ("aarch64", "arm64")
FLUSH = 0x8040 if _X86 else 1 << 24 if _ARM else 0
"""The bits: MXCSR's FTZ (results) and DAZ (operands), FPCR's FZ (both), or none elsewhere."""


def _emit(v: Vectors) -> None:
    b, before = v.builder, v.at(v.args.before, v.args.at)
    if not FLUSH:
        b.store(v.int64(0), before)
        return
    word = _read(v)
    b.store(b.and_(word, v.int64(FLUSH)), before)
    _write(v, b.or_(b.and_(word, v.int64(~FLUSH)), b.and_(v.args.bits, v.int64(FLUSH))))


def _read(v: Vectors) -> IRValue:
    if _ARM:
        return v.intrinsic("aarch64.get.fpcr", v.integer)
    memory = v.builder.alloca(v.ir.IntType(32))
    v.intrinsic("x86.sse.stmxcsr", v.ir.VoidType(), _bytes(v, memory))
    return v.builder.zext(v.builder.load(memory), v.integer)


def _write(v: Vectors, word: IRValue) -> None:
    if _ARM:
        v.intrinsic("aarch64.set.fpcr", v.ir.VoidType(), word)
    else:
        memory = v.builder.alloca(v.ir.IntType(32))
        v.builder.store(v.builder.trunc(word, v.ir.IntType(32)), memory)
        v.intrinsic("x86.sse.ldmxcsr", v.ir.VoidType(), _bytes(v, memory))


def _bytes(v: Vectors, pointer: IRValue) -> IRValue:
    return v.builder.bitcast(pointer, v.ir.IntType(8).as_pointer())


def _reference(before: np.ndarray, at: int, bits: int) -> None:
    """Python code cannot set the register."""


switch = MicroKernel(("before", "at", "bits"), _emit, _reference)
