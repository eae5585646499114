"""Run the code that compilers make for GPUs, without a GPU.

    python -m tests.cuda.emulated [NAME...] [--types N] [--capability 8.0] [--part I/N]
    python -m tests.cuda.emulated --networks

Compares a sample for every kernel, or those whose names begin so, on the CPU and on an emulated
card: the compiler of NBMOD_CUDA_COMPILER and NVIDIA's linker make PTX of every kernel, as for a
card, and `ptx_machine` runs it.  The simulator of nbmod runs the source of kernels instead, and so
cannot tell what a compiler makes of it.  What this leaves out is the last step, from PTX to the
code of one kind of card, and everything about time.

Needs the environment of `tests.cuda.setup`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
import weakref
from collections.abc import Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any

os.environ.pop("NUMBA_ENABLE_CUDASIM", None)
# Before compilers read it, since `tests.cuda.compile` sets it, too.
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

from nbmod.core.config import CONFIG
from nbmod.ops.cuda.runtime import compiler, driver, simulator
from nbmod.ops.cuda.runtime.device_memory import Array
from nbmod.ops.cuda.runtime.launch import CudaKernel, Launch
from tests.cuda import ptx_machine
from tests.cuda.ptx_program import Program, PtxError, parse

__all__ = ["Block", "Card", "check", "main", "ptx_of"]

BASE = 1 << 32
BYTES = 1 << 30
"""Addresses of the memory, which is taken from the host as it is used."""
GAP = 256
"""Bytes between allocations, which nothing may touch."""


def ptx_of(kernel: CudaKernel, kinds: tuple[str, ...], capability: tuple[int, int], threads: int
           ) -> str:
    """PTX of a kernel for arguments of these types, with all that it calls."""
    bounds = threads, kernel.min_blocks
    key = hashlib.sha256(repr((
        compiler.fingerprint(kernel.function), kinds, capability, bounds, kernel.exact,
        compiler._versions())).encode()).hexdigest()[:32]
    path = CONFIG.cache_dir / "ptx" / f"{kernel.function.__name__}_{key}"
    if path.exists():
        return path.read_text()
    codes = compiler._lto_code(kernel.function, kinds, capability, bounds)
    options = ("-ptx", "-fma=0") if kernel.exact else ("-ptx",)
    with compiler.linked(codes, capability, options) as (nvjitlink, handle):
        code = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, code)
    text = bytes(code).rstrip(b"\0").decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return text


class Memory:
    """Memory of a card: allocations one after another, and what is free again."""

    def __init__(self) -> None:
        self.base = BASE
        self.data = np.zeros(BYTES, np.uint8)
        self.allocated = np.zeros(BYTES, bool)
        self.used = GAP
        self.free: dict[int, list[int]] = {}

    def allocate(self, nbytes: int) -> int:
        size = -(-nbytes // GAP) * GAP + GAP
        places = self.free.get(size)
        if places:
            start = places.pop()
        else:
            start, self.used = self.used, self.used + size
            if self.used > BYTES:
                raise MemoryError("the memory of the emulated card is full")
        self.data[start:start + nbytes] = 0xFF
        self.allocated[start:start + nbytes] = True
        return start

    def release(self, start: int, nbytes: int) -> None:
        self.allocated[start:start + nbytes] = False
        self.free.setdefault(-(-nbytes // GAP) * GAP + GAP, []).append(start)

    def check(self, start: np.ndarray, size: int) -> None:
        """PtxError unless all bytes are allocated."""
        inside = (start >= 0) & (start + size <= BYTES)
        if not inside.all() or not (self.allocated[start] & self.allocated[start + size - 1]).all():
            raise PtxError("an address outside of all arrays")


class Block:
    """An allocation."""

    def __init__(self, memory: Memory, nbytes: int):
        self.memory, self.start = memory, memory.allocate(nbytes)
        self.address = memory.base + self.start
        weakref.finalize(self, memory.release, self.start, nbytes).atexit = False

    def part(self, offset: int, nbytes: int) -> np.ndarray:
        """Some of its bytes."""
        start = self.start + offset
        return self.memory.data[start:start + nbytes]


class Card(simulator.Card):
    """The emulated card: copies are those of the simulator, launches run PTX."""

    capability = (8, 0)

    def __init__(self, number: int):
        super().__init__(number)
        self.device_memory = Memory()

    def memory(self) -> tuple[int, int]:
        return BYTES - self.device_memory.used, BYTES

    def allocate(self, nbytes: int) -> Block:  # type: ignore[override]
        return Block(self.device_memory, nbytes)

    def prepare(self, launch: Launch, holds: bool = True) -> PreparedLaunch:  # type: ignore[override]
        return PreparedLaunch(self, launch)


@cache
def _program(kernel: CudaKernel, kinds: tuple[str, ...], capability: tuple[int, int], threads: int
             ) -> Program:
    return parse(ptx_of(kernel, kinds, capability, threads))


driver.Card = Card      # type: ignore[misc, assignment]  # before `device` asks for it

from nbmod.ops.cuda.check import main as check_networks  # noqa: E402
from tests.cuda.check import NO_TWIN, SampleResult, compare  # noqa: E402
from tests.cuda.compile import chosen  # noqa: E402


class PreparedLaunch:
    """A launch with its program."""

    def __init__(self, card: Card, launch: Launch):
        self.card, self.launch, self.function = card, launch, launch.kernel
        kinds = compiler.kinds_of(launch.args)
        self.program = _program(launch.kernel, kinds, card.capability, prod(launch.block))
        self.parameters = [np.uint64(arg.address) if isinstance(arg, Array)
                           else np.dtype(kind).type(arg)
                           for arg, kind in zip(launch.args, kinds, strict=True)]

    def __call__(self) -> None:
        try:
            ptx_machine.run(self.program, self.card.device_memory, self.launch.grid,
                            self.launch.block, self.parameters)
        except PtxError as error:
            raise driver.DriverError(f"{self.function.function.__name__}: {error}") from error


def check(sample: Any, dtypes: Sequence[str]) -> SampleResult:
    """Compare a sample with the CPU, in these types."""
    result = SampleResult(sample.op, sample.op)
    try:
        for dtype, request in [*product(dtypes, ["write"]), (dtypes[0], "add")]:
            compare(result, sample.seeded(0), dtype, request)
    except Exception as error:      # noqa: BLE001  whatever it is, it is this sample's result
        result.skipped = NO_TWIN in str(error)
        result.error = "" if result.skipped else f"{type(error).__name__}: {error}"
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Check samples; 0 if all agree."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.emulated")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names of samples; "
                        "default: one for every kernel")
    parser.add_argument("--types", type=int, default=1, help="most types of each sample")
    parser.add_argument("--capability", default="8.0", help="of the card; default: %(default)s")
    parser.add_argument("--part", default="0/1", metavar="I/N",
                        help="every Nth sample from number I on")
    parser.add_argument("--networks", action="store_true",
                        help="the networks of `python -m nbmod.ops.cuda.check` instead")
    options = parser.parse_args(argv)
    Card.capability = tuple(map(int, options.capability.split(".")))  # type: ignore[assignment]
    if options.networks:
        return check_networks(options.names)
    first, step = map(int, options.part.split("/"))
    CONFIG.check = 1    # memory is NaN at first
    samples = dict([*chosen(options.names).items()][first::step])
    print(f"{len(samples)} samples, compiled by {compiler.compiler_name()}", flush=True)
    failed = []
    for name, sample in samples.items():
        start = time.perf_counter()
        result = check(sample, sample.dtypes[:options.types])
        if result.failed:
            failed.append(name)
        if not result.skipped:
            print(f"{name}: {result.worst:.2g} {result.where} {result.error} "
                  f"({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"{len(failed)} failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
