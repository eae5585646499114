"""All calls of NVIDIA's driver API: memory, copies, and prepared launches.

`Card` is a physical GPU with one stream, which executes everything in order.  When a launch is
prepared, its kernel is compiled and loaded and its arguments are packed; starting it is one call of
the driver.  Copies go through two pinned staging buffers: the host fills one while the other is
transferred.

The driver is called through `cuda.bindings`, a dependency of the compilers.  The calls below have
been tested with a mock that records them (`tests/cuda/test_gpu_driver.py`), not yet with a real
driver.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ....base import MXNetError
from ....core.config import CONFIG
from ....core.interrupts import from_handler
from .compiler import Cubin, compile_kernel, kinds_of
from .device_memory import Allocation, Array
from .launch import Argument, CudaKernel, Launch

__all__ = ["Card", "DriverError"]

STAGING_BYTES = 4 << 20
"""Size of a staging buffer."""

OUT_OF_MEMORY = 2
HINTS = {
    OUT_OF_MEMORY: "its memory is full: use a smaller batch or more devices",
    **dict.fromkeys((700, 710, 715, 716, 717, 718, 719, 702), (
        "a kernel submitted earlier has failed; what is on this GPU is lost, the CPU goes on. "
        "Start the process anew to use the GPU; NUMBA_ENABLE_CUDASIM=1 with small tensors finds "
        "the kernel, or compute-sanitizer")),
    **dict.fromkeys((209, 218, 222), (
        "this card or its driver does not know the code; see `nvidia-smi`: CUDA 13 needs compute "
        "capability 7.5 and driver 580, pip install 'nbmod[cu12]' makes do with less")),
    **dict.fromkeys((3, 35, 100, 101, 803, 804), (
        "there is no usable driver; `nvidia-smi` says which there is, mx.cpu() needs none")),
}
OLDEST = (5, 0)


class DriverError(MXNetError):
    """A call of the driver, or a kernel, failed."""


class OutOfDeviceMemory(DriverError, MemoryError):
    """Device memory is exhausted."""


@cache
def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def call(name: str, *args: Any) -> Any:
    """Call a function of the driver; return its results: None, one, or a list."""
    status, *answers = getattr(_driver(), name)(*args)
    if int(status):
        raise _refused(name, status)
    return answers[0] if len(answers) == 1 else answers or None


def _refused(what: str, status: Any) -> DriverError:
    """The error for a status: the GPUs, the failed call, the status and a hint."""
    kind = OutOfDeviceMemory if int(status) == OUT_OF_MEMORY else DriverError
    card = getattr(_current, "card", None)
    parts = [*([f"{card.name}: "] if card else []), f"{what}: {getattr(status, 'name', status)}",
             *([f"; {HINTS[int(status)]}"] if int(status) in HINTS else [])]
    return kind("".join(parts))


_current = threading.local()
"""`card`: the GPU whose context is current on this thread."""


class Block:
    """An allocation, freed with its last reference."""

    def __init__(self, card: Card, nbytes: int):
        self.address = int(call("cuMemAllocAsync", nbytes, card.stream))
        if CONFIG.check:    # elements that no kernel writes are NaN
            call("cuMemsetD8Async", self.address, 0xFF, nbytes, card.stream)
        weakref.finalize(self, card.free, self.address).atexit = False  # the context goes, too


class Card:
    """A physical GPU."""

    @staticmethod
    def count() -> int:
        """The number of GPUs; 0 without a driver or without a compiler."""
        return _availability()[0]

    @staticmethod
    def trouble() -> str:
        """Why there is no GPU."""
        return _availability()[1]

    def __init__(self, number: int):
        self.number = number
        contexts = range(number, CONFIG.virtual_gpus or Card.count(), Card.count())
        self.name = ", ".join(f"gpu({i})" for i in contexts)
        self.device = call("cuDeviceGet", number)
        attribute = _driver().CUdevice_attribute
        self.capability: tuple[int, int] = tuple(
            int(call("cuDeviceGetAttribute", getattr(
                attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), self.device))
            for part in ("MAJOR", "MINOR"))  # type: ignore[assignment]
        if self.capability < OLDEST:
            raise MXNetError(f"{self.name} has compute capability {_version(self.capability)}, "
                             f"{_version(OLDEST)} is the oldest that works; use mx.cpu()")
        self.context = call("cuDevicePrimaryCtxRetain", self.device)
        self.select()
        self.stream = call("cuStreamCreate", 1)     # does not wait for the default stream
        self.event = call("cuEventCreate", 2)       # without times
        self.pinned = [_StagingBuffer(), _StagingBuffer()]

    def select(self) -> None:
        """Make its context current on this thread."""
        _current.card = self
        call("cuCtxSetCurrent", self.context)

    # -- memory -----------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""
        self.select()
        free, total = call("cuMemGetInfo")
        return int(free), int(total)

    def allocate(self, nbytes: int) -> Block:
        """Allocate memory; MemoryError if there is not enough."""
        self.select()
        return Block(self, nbytes)

    def free(self, address: int) -> None:
        """Free memory once the work submitted so far is done."""
        with suppress(DriverError):     # after a failure the context is gone
            self.select()
            call("cuMemFreeAsync", address, self.stream)

    def upload(self, host: np.ndarray, block: Allocation, offset: int) -> None:
        """Copy a contiguous array; it may change as soon as this returns."""
        self.select()
        source = host.reshape(-1).view(np.uint8)
        for turn, start in enumerate(range(0, len(source), STAGING_BYTES)):
            half = self.pinned[turn % 2]
            part = source[start:start + STAGING_BYTES]
            half.wait()
            half.bytes[:len(part)] = part
            call("cuMemcpyHtoDAsync", block.address + offset + start, half.address, len(part),
                 self.stream)
            half.mark(self.stream)

    def download(self, block: Allocation, offset: int, host: np.ndarray) -> None:
        """Copy to a contiguous array, which is complete when this returns."""
        self.select()
        target = host.reshape(-1).view(np.uint8)
        starts = range(0, len(target), STAGING_BYTES)
        for turn in range(len(starts) + 1):
            if turn < len(starts):
                half, start = self.pinned[turn % 2], starts[turn]
                half.wait()
                call("cuMemcpyDtoHAsync", half.address, block.address + offset + start,
                     min(STAGING_BYTES, len(target) - start), self.stream)
                half.mark(self.stream)
            if turn > 0:
                half, start = self.pinned[(turn - 1) % 2], starts[turn - 1]
                half.wait()
                part = target[start:start + STAGING_BYTES]
                part[:] = half.bytes[:len(part)]

    def move(self, source: tuple[Allocation, int], target: tuple[Allocation, int], nbytes: int
             ) -> None:
        """Copy within device memory."""
        self.select()
        call("cuMemcpyDtoDAsync", target[0].address + target[1], source[0].address + source[1],
             nbytes, self.stream)

    def receive(self, other: Card, source: tuple[Allocation, int], target: tuple[Allocation, int],
                nbytes: int) -> bool:
        """Copy from another GPU directly; False if there is no peer access."""
        if not self.reaches(other):
            return False
        self._wait_for([other._mark()])
        call("cuMemcpyPeerAsync", target[0].address + target[1], self.context,
             source[0].address + source[1], other.context, nbytes, self.stream)
        other._wait_for([self._mark()])     # before it writes there again
        return True

    # -- peer access ------------------------------------------------------------------------

    def reaches(self, other: Card) -> bool:
        """Whether kernels and copies on this GPU can access the memory of another one."""
        return _reaches(self, other)

    @staticmethod
    def meet(cards: Sequence[Card]) -> None:
        """Make later work on each GPU wait for all work submitted to any of them so far."""
        marks = [card._mark() for card in cards]
        for card in cards:
            card._wait_for([mark for mark, other in zip(marks, cards, strict=True)
                            if other is not card])

    def _mark(self) -> Any:
        """An event that completes with all work submitted so far."""
        self.select()
        call("cuEventRecord", self.event, self.stream)
        return self.event

    def _wait_for(self, events: Sequence[Any]) -> None:
        """Make later work on this GPU wait for events; they may be recorded again afterwards."""
        self.select()
        for event in events:
            call("cuStreamWaitEvent", self.stream, event, 0)

    # -- execution --------------------------------------------------------------------------

    def prepare(self, launch: Launch, holds: bool = True) -> PreparedLaunch:
        """A function that starts a launch; with `holds` it keeps the launch's memory alive."""
        return PreparedLaunch(self, launch, holds)

    def graph(self, starts: Sequence[PreparedLaunch]) -> CudaGraph:
        """A CUDA graph of launches, executed in order."""
        return CudaGraph(self, starts)

    def load(self, kernel: CudaKernel, kinds: tuple[str, ...], threads: int) -> Any:
        """The function handle of a kernel for arguments of these types."""
        return _load(self, kernel, kinds, threads)

    def synchronize(self) -> None:
        """Wait for all submitted work."""
        self.select()
        call("cuStreamSynchronize", self.stream)


class PreparedLaunch:
    """A launch with its kernel loaded and its arguments packed; calling it starts it."""

    def __init__(self, card: Card, launch: Launch, holds: bool):
        self.card, self.references = card, launch if holds else launch.own
        self.name = launch.kernel.function.__name__
        self.function = card.load(launch.kernel, kinds_of(launch.args), prod(launch.block))
        self.sizes = [size for sizes in (launch.grid, launch.block)
                      for size in (*sizes, 1, 1)[:3]]
        self.values, self.addresses = packed(launch.args)
        self.arguments = (self.function, *self.sizes, 0, card.stream,
                          ctypes.addressof(self.addresses), 0)
        self.start = _driver().cuLaunchKernel

    def __call__(self) -> None:
        self.card.select()
        status = self.start(*self.arguments)[0]
        if int(status):
            raise _refused(f"kernel {self.name} was not started", status)

    def node(self) -> Any:
        """Parameters of a kernel node of a graph; the driver copies the arguments."""
        node = _driver().CUDA_KERNEL_NODE_PARAMS()
        node.func, node.kernelParams = self.function, ctypes.addressof(self.addresses)
        for name, size in zip(SIZES, self.sizes, strict=True):
            setattr(node, name, size)
        return node


SIZES = [f"{part}Dim{axis}" for part in ("grid", "block") for axis in "XYZ"]


class CudaGraph:
    """An instantiated CUDA graph: a chain of kernel nodes."""

    def __init__(self, card: Card, starts: Sequence[PreparedLaunch]):
        card.select()
        self.card, self.starts = card, list(starts)
        self.nodes: list[Any] = []
        graph = call("cuGraphCreate", 0)
        for start in starts:
            before = self.nodes[-1:]
            self.nodes.append(call("cuGraphAddKernelNode", graph, before, len(before),
                                   start.node()))
        self.instance = call("cuGraphInstantiate", graph, 0)
        weakref.finalize(self, _destroy, card, graph, self.instance).atexit = False

    def exchange(self, number: int, start: PreparedLaunch) -> bool:
        """Replace launch `number`; False if `start` is of another kernel."""
        if start.function is not self.starts[number].function:
            return False
        self.card.select()
        call("cuGraphExecKernelNodeSetParams", self.instance, self.nodes[number], start.node())
        self.starts[number] = start
        return True

    def launch(self) -> None:
        """Start the graph."""
        self.card.select()
        call("cuGraphLaunch", self.instance, self.card.stream)


def _destroy(card: Card, graph: Any, instance: Any) -> None:
    with suppress(DriverError):
        card.select()
        call("cuGraphExecDestroy", instance)
        call("cuGraphDestroy", graph)


@cache
def _availability() -> tuple[int, str]:
    """The number of GPUs, and why it is 0."""
    try:
        call("cuInit", 0)
        count = int(call("cuDeviceGetCount"))
        return count, "" if count else "the driver knows no GPU; is CUDA_VISIBLE_DEVICES set?"
    except ImportError as error:
        return 0, f"{error}; pip install 'nbmod[cuda]'"
    except MXNetError as error:
        return 0, str(error)
    except Exception as error:      # loading the driver may fail in any way
        if from_handler(error):
            raise
        return 0, f"install NVIDIA's driver; {error}"


def _version(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


@cache
def _reaches(card: Card, other: Card) -> bool:
    """Whether `card` can access the memory of another one; grants it access to the memory pool."""
    driver = _driver()
    try:
        if not int(call("cuDeviceCanAccessPeer", card.device, other.device)):
            return False
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = card.number
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        call("cuMemPoolSetAccess", call("cuDeviceGetDefaultMemPool", other.device), [access], 1)
    except DriverError:
        return False    # copies through the host always work
    return True


@cache
def _load(card: Card, kernel: CudaKernel, kinds: tuple[str, ...], threads: int) -> Any:
    card.select()
    binary: Cubin = compile_kernel(kernel.function, kinds, card.capability,
                                   (threads, kernel.min_blocks), kernel.exact)
    module = call("cuModuleLoadData", binary.cubin)
    return call("cuModuleGetFunction", module, binary.name.encode())


def packed(args: tuple[Argument, ...]) -> tuple[ctypes.Array, ctypes.Array]:
    """The values of a launch's arguments, eight bytes each, and their addresses."""
    values = (ctypes.c_uint64 * max(len(args), 1))()
    start = ctypes.addressof(values)
    addresses = (ctypes.c_void_p * max(len(args), 1))(*(start + 8 * i for i in range(len(args))))
    for i, (arg, kind) in enumerate(zip(args, kinds_of(args), strict=True)):
        number = np.uint64(arg.address) if isinstance(arg, Array) else np.dtype(kind).type(arg)
        ctypes.memmove(start + 8 * i, number.tobytes(), number.nbytes)
    return values, addresses


class _StagingBuffer:
    """A pinned buffer, with an event that completes when it may be used again."""

    def __init__(self) -> None:
        self.address = int(call("cuMemHostAlloc", STAGING_BYTES, 0))
        memory = (ctypes.c_uint8 * STAGING_BYTES).from_address(self.address)
        self.bytes = np.ctypeslib.as_array(memory)
        self.event = call("cuEventCreate", 2)       # without times

    def mark(self, stream: Any) -> None:
        call("cuEventRecord", self.event, stream)

    def wait(self) -> None:
        call("cuEventSynchronize", self.event)
