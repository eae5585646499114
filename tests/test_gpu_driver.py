"""What is asked of NVIDIA's driver, by a stand-in whose memory is the host's.

Nothing here runs a kernel: it is about copies, packed arguments, and what errors say.
"""

from __future__ import annotations

import ctypes
import gc
from enum import IntEnum
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import nbmod as mx
from nbmod.kvstore.sums import Sums
from nbmod.ndarray import NDArray
from nbmod.ops import OPS, device
from nbmod.ops.cuda import compiler, driver
from nbmod.ops.cuda import device as gpu_device
from nbmod.ops.cuda.launch import Kernel, Launch, PerRun
from nbmod.ops.cuda.memory import Array
from nbmod.ops.cuda.replay import Launcher, Replay
from nbmod.ops.device import CPU
from nbmod.ops.op import Call


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class FakeDriver:
    """The functions of `cuda.bindings.driver` that `driver` calls; `calls` are their names."""

    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
                                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor")
    ANSWERS = {"cuInit": (), "cuDeviceGetCount": (2,), "cuDeviceGet": ("device",),
               "cuDevicePrimaryCtxRetain": ("context",), "cuCtxSetCurrent": (),
               "cuMemGetInfo": (3 << 20, 8 << 20), "cuEventRecord": (),
               "cuEventSynchronize": (), "cuStreamSynchronize": (), "cuModuleLoadData": ("module",),
               "cuModuleGetFunction": ("function",), "cuGraphCreate": ("graph",),
               "cuGraphInstantiate": ("instance",), "cuGraphExecDestroy": (),
               "cuGraphDestroy": (), "cuMemsetD8Async": (), "cuDeviceCanAccessPeer": (1,),
               "cuDeviceGetDefaultMemPool": ("pool",), "cuMemPoolSetAccess": (),
               "cuStreamWaitEvent": ()}
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAccessDesc = staticmethod(lambda: SimpleNamespace(location=SimpleNamespace()))

    def __init__(self, capability=(9, 0)):
        self.capability = dict(zip(("major", "minor"), capability, strict=True))
        self.calls, self.memory, self.launches, self.failing = [], {}, [], {}
        self.nodes, self.given, self.streams = [], [], 0

    def __getattr__(self, name):
        def function(*args):
            self.calls.append(name)
            self.given.append((name, *args))
            if name in self.failing:
                return (self.failing[name], *[None] * len(self.ANSWERS.get(name, (1,))))
            own = getattr(type(self), f"_{name}", None)
            return (Status.CUDA_SUCCESS, *(own(self, *args) if own else self.ANSWERS[name]))

        return function

    def _cuStreamCreate(self, flags):  # noqa: N802 - CUDA's names, here and below
        self.streams += 1
        return (f"stream {self.streams}",)

    def _cuEventCreate(self, flags):  # noqa: N802
        return (f"event {self.calls.count('cuEventCreate')}",)

    def _cuDeviceGetAttribute(self, attribute, device):  # noqa: N802
        return (self.capability[attribute],)

    def _cuMemAllocAsync(self, nbytes, stream):  # noqa: N802
        memory = ctypes.create_string_buffer(nbytes)
        self.memory[ctypes.addressof(memory)] = memory
        return (ctypes.addressof(memory),)

    def _cuMemHostAlloc(self, nbytes, flags):  # noqa: N802
        return self._cuMemAllocAsync(nbytes, None)

    def _cuMemFreeAsync(self, address, stream):  # noqa: N802
        del self.memory[address]
        return ()

    def _copy(self, target, source, nbytes, stream):
        ctypes.memmove(target, source, nbytes)
        return ()

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyDtoDAsync = _copy

    def _cuMemcpyPeerAsync(self, target, here, source, there, nbytes, stream):  # noqa: N802
        return self._copy(target, source, nbytes, stream)

    def _cuLaunchKernel(self, function, *rest):  # noqa: N802
        *sizes, shared, stream, addresses, extra = rest
        self.launches.append((function, sizes, self._arguments(addresses)))
        return ()

    def _arguments(self, addresses):
        places = ctypes.cast(addresses, ctypes.POINTER(ctypes.c_void_p))
        return [ctypes.string_at(places[i], 8) for i in range(3)]

    def _cuGraphAddKernelNode(self, graph, before, count, node):  # noqa: N802
        assert len(before) == count
        sizes = [node.gridDimX, node.gridDimY, node.gridDimZ, node.blockDimX, node.blockDimY,
                 node.blockDimZ]
        self.nodes.append([node.func, sizes, self._arguments(node.kernelParams), list(before)])
        return (len(self.nodes) - 1,)

    def _cuGraphExecKernelNodeSetParams(self, instance, number, node):  # noqa: N802
        self.nodes[number][2] = self._arguments(node.kernelParams)
        return ()

    def _cuGraphLaunch(self, instance, stream):  # noqa: N802
        self.launches += [tuple(node[:3]) for node in self.nodes]
        return ()


@pytest.fixture
def fake(monkeypatch):
    made = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    monkeypatch.setattr(driver, "HALF", 64)
    monkeypatch.setattr(driver, "compile_kernel", lambda *args: compiler.Binary(
        "entry", 32, 0, 0, 0, b"cubin"))
    return made


def array_of(card, values, offset=0):
    block = card.allocate(values.nbytes + offset)
    card.upload(values, block, offset)
    return Array(SimpleNamespace(card=card), block, offset, values.shape, values.dtype)


def scale(x, factor, n):
    """Never runs."""


@pytest.mark.parametrize("count", [1, 16, 17, 48, 100])
def test_copies_go_through_two_halves(fake, count):
    """64 bytes at a time: 16 floats."""
    card = driver.Card(0)
    values = np.arange(count, dtype=np.float32)
    here = array_of(card, values, 8)
    other = card.allocate(values.nbytes)
    card.move((here.block, 8), (other, 0), values.nbytes)
    back = np.empty_like(values)
    card.download(other, 0, back)
    assert np.array_equal(back, values)
    assert fake.calls.count("cuMemcpyHtoDAsync") == -(-count // 16)
    # A half is filled again only after what was in it has gone.
    uploads = [name for name in fake.calls if name in ("cuEventSynchronize", "cuMemcpyHtoDAsync",
                                                       "cuEventRecord")]
    assert uploads[:3] == ["cuEventSynchronize", "cuMemcpyHtoDAsync", "cuEventRecord"]


@pytest.mark.parametrize("refused, direct", [
    (None, True), ("cuDeviceCanAccessPeer", False), ("cuMemPoolSetAccess", False)])
def test_cards_copy_from_each_other_where_they_can(fake, monkeypatch, refused, direct):
    """Either stream waits for the other one: for the numbers, and before they are written again."""
    if refused:
        fake.failing[refused] = Status.CUDA_ERROR_NO_DEVICE
    values = np.arange(20, dtype=np.float32)
    cards = [driver.Card(number) for number in range(2)]
    here, there = array_of(cards[0], values), array_of(cards[1], values * 0)
    here.device.to_numpy = lambda array: values
    fake.calls.clear()
    gpu_device.copy(here, there)
    back = np.empty_like(values)
    order = [name for name in fake.calls if name in ("cuStreamWaitEvent", "cuMemcpyPeerAsync")]
    cards[1].download(there.block, 0, back)
    assert np.array_equal(back, values)
    assert order == (["cuStreamWaitEvent", "cuMemcpyPeerAsync", "cuStreamWaitEvent"] if direct
                     else [])
    assert ("cuMemcpyHtoDAsync" in fake.calls) != direct


def test_cards_meet(fake):
    """Each waits for all others, who have come to a mark before anybody waits."""
    cards = [driver.Card(number) for number in range(3)]
    gpus = [gpu_device.Gpu.__new__(gpu_device.Gpu) for _ in range(4)]
    for number, gpu in enumerate(gpus):
        gpu.device_id, gpu.card = number, cards[number % 3]
    fake.given.clear()
    gpus[0].meet([gpus[3]])
    assert fake.given == [], "they are one card"
    gpus[0].meet([*gpus[1:], CPU])
    calls = [given for given in fake.given if given[0] != "cuCtxSetCurrent"]
    assert calls[:3] == [("cuEventRecord", card.event, card.stream) for card in cards]
    assert calls[3:] == [("cuStreamWaitEvent", card.stream, other.event, 0) for card in cards
                         for other in cards if other is not card]
    assert len({card.stream for card in cards}) == len({card.event for card in cards}) == 3


@pytest.mark.parametrize("reached", [True, False])
def test_sums_are_read_from_other_cards_where_that_is_possible(fake, monkeypatch, reached):
    """One launch for all keys between two meetings; copies to this card where it cannot read."""
    if not reached:
        fake.failing["cuDeviceCanAccessPeer"] = Status.CUDA_ERROR_NO_DEVICE
    monkeypatch.setattr(gpu_device, "Card", SimpleNamespace(count=lambda: 2))
    monkeypatch.setattr(gpu_device, "_card", cache(driver.Card))
    monkeypatch.setattr(device, "_gpus", {number: gpu_device.Gpu(number) for number in range(2)})
    contexts = [mx.gpu(number) for number in range(2)]
    grads = [[NDArray(device.device_of(ctx).from_numpy(np.ones(size, np.float32)), ctx)
              for ctx in contexts] for size in (5, 7)]
    sums = [NDArray(device.device_of(contexts[1]).empty((size,), np.float32), contexts[1])
            for size in (5, 7)]
    jobs = list(zip(grads, sums, strict=True))
    assert all(Sums.possible(*job) for job in jobs)
    assert Sums.possible([grads[0][0]], sums[0]) == reached, "one value would be copied twice"
    made = Sums(jobs)
    fake.calls.clear()
    made()
    assert fake.calls.count("cuLaunchKernel") == 1
    launch = fake.calls.index("cuLaunchKernel")
    waits = [place for place, name in enumerate(fake.calls) if name == "cuStreamWaitEvent"]
    assert [place < launch for place in waits] == [True, True, False, False]
    assert fake.calls.count("cuMemcpyDtoHAsync") == fake.calls.count("cuMemcpyHtoDAsync") == (
        0 if reached else 2)
    table, sizes = addresses_of(fake), [5, 7]
    assert [row[2] for row in table] == [out.handle.address for out in sums]
    for row, given, size in zip(table, grads, sizes, strict=True):
        assert row[1] == given[1].handle.address
        assert (row[0] == given[0].handle.address) == reached
        assert ctypes.string_at(int(row[0]), 4 * size) == np.ones(size, np.float32).tobytes()


def addresses_of(fake):
    """The table of addresses that the last launch was given: a row of three for each sum."""
    start = int.from_bytes(fake.launches[-1][2][0], "little")
    words = ctypes.string_at(start, 8 * 6)
    return np.frombuffer(words, np.int64).reshape(2, 3)


def test_memory_is_given_back_with_its_last_reference(fake):
    card = driver.Card(0)
    before = len(fake.memory)
    block = card.allocate(100)
    assert len(fake.memory) == before + 1
    del block
    gc.collect()
    assert len(fake.memory) == before


def test_a_launch_is_frozen(fake):
    card = driver.Card(0)
    x = array_of(card, np.zeros(4, np.float32))
    launch = Launch(Kernel(scale), (2, 3), (128,), (x, np.float32(0.5), -7))
    start = card.prepare(launch)
    fake.calls.clear()
    start()
    start()
    assert fake.calls == ["cuCtxSetCurrent", "cuLaunchKernel"] * 2
    function, sizes, (pointer, factor, n) = fake.launches[1]
    assert function == "function" and sizes == [2, 3, 1, 128, 1, 1]
    assert int.from_bytes(pointer, "little") == x.address
    assert np.frombuffer(factor, np.float32)[0] == 0.5
    assert np.frombuffer(n, np.int32)[0] == -7
    card.prepare(launch)
    assert fake.calls.count("cuModuleLoadData") == 0, "a kernel is loaded once"


def test_what_a_launch_brings_along_lives_as_long(fake):
    """Whatever else it uses is others' to keep."""
    card = driver.Card(0)
    x, sums = (array_of(card, np.zeros(4, np.float32)) for _ in range(2))
    start = card.prepare(Launch(Kernel(scale), (1,), (32,), (x, sums, 1), (sums,)), holds=False)
    before = len(fake.memory)
    del x, sums
    gc.collect()
    assert len(fake.memory) == before - 1
    del start
    gc.collect()
    assert len(fake.memory) == before - 2


def test_launches_of_many_steps_are_one_call(fake):
    card = driver.Card(0)
    x = array_of(card, np.zeros(4, np.float32))
    factors = iter([0.5, 0.5, 0.25])
    fixed = Launch(Kernel(scale), (2, 3), (128,), (x, np.float32(2), -7))
    later = PerRun(lambda: [Launch(Kernel(scale), (1,), (32,), (x, np.float32(next(factors)), 1))])
    replay = Replay([Launcher(card, [fixed, later]), Launcher(card, [fixed])])
    for expected in (0.5, 0.5, 0.25):
        fake.calls.clear(), fake.launches.clear()
        replay()
        assert fake.calls.count("cuGraphLaunch") == 1 and "cuLaunchKernel" not in fake.calls
        values = [np.frombuffer(args[1], np.float32)[0] for _, _, args in fake.launches]
        assert values == [2, expected, 2]
        assert fake.calls.count("cuGraphExecKernelNodeSetParams") == (expected == 0.25)
    assert [node[3] for node in fake.nodes] == [[], [0], [1]], "each waits for the one before"
    assert fake.nodes[0][1] == [2, 3, 1, 128, 1, 1]
    del replay
    gc.collect()
    assert fake.calls[-2:] == ["cuGraphExecDestroy", "cuGraphDestroy"]


def test_eager_calls_are_found_again(fake, monkeypatch):
    """By op, shapes and places; what they remember keeps no memory."""
    monkeypatch.setattr(gpu_device, "Card", SimpleNamespace(count=lambda: 1))
    monkeypatch.setattr(gpu_device, "_card", driver.Card)
    monkeypatch.setattr(gpu_device, "SIMULATED", False)
    gpu = gpu_device.Gpu(0)
    x, y = (gpu.empty((4,), np.float32) for _ in range(2))
    op = OPS["negative"]()
    prepared = []
    monkeypatch.setattr(driver.Card, "prepare", lambda *args, make=driver.Card.prepare:
                        prepared.append(1) or make(*args))
    for _ in range(3):
        gpu.run(op, [x], [y], Call())
    assert len(prepared) == 1 and fake.calls.count("cuLaunchKernel") == 3
    gpu.run(op, [y], [x], Call())
    assert len(prepared) == 2
    before = len(fake.memory)
    del x, y
    gc.collect()
    assert len(fake.memory) == before - 2


@pytest.mark.parametrize("function, status, act, said", [
    ("cuMemAllocAsync", Status.CUDA_ERROR_OUT_OF_MEMORY, lambda card: card.allocate(9),
     "CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuStreamSynchronize", Status.CUDA_ERROR_ILLEGAL_ADDRESS, lambda card: card.synchronize(),
     "a kernel failed; .* Start the process anew"),
    ("cuLaunchKernel", Status.CUDA_ERROR_ILLEGAL_ADDRESS,
     lambda card: card.prepare(Launch(Kernel(scale), (1,), (1,), (1, 2, 3)))(),
     "kernel scale: CUDA_ERROR_ILLEGAL_ADDRESS; a kernel failed"),
])  # fmt: skip
def test_errors_say_what_to_do(fake, function, status, act, said):
    card = driver.Card(0)
    fake.failing[function] = status
    with pytest.raises(driver.DriverError, match=said) as caught:
        act(card)
    assert isinstance(caught.value, MemoryError) == (status == 2)


def test_old_cards_are_told(monkeypatch, fake):
    fake.capability = {"major": 3, "minor": 5}
    with pytest.raises(mx.MXNetError, match=r"GPU 0 has compute capability \(3, 5\)"):
        driver.Card(0)


def test_cards_are_counted_where_there_is_a_driver(monkeypatch, fake):
    driver.Card.count.cache_clear()
    assert driver.Card.count() == 2
    driver.Card.count.cache_clear()
    fake.failing["cuInit"] = Status.CUDA_ERROR_NO_DEVICE
    assert driver.Card.count() == 0
    driver.Card.count.cache_clear()


@pytest.mark.parametrize("launch, said", [
    (Launch(Kernel(scale), (1,), (1,), (2 ** 31,)), "2,147,483,648 elements; kernels count in 32"),
    (Launch(Kernel(scale), (1,), (64, 32), ()), "blocks of 2048 threads"),
])  # fmt: skip
def test_what_a_gpu_cannot_count_is_told(launch, said):
    with pytest.raises(mx.MXNetError, match=f"GPU kernel scale: {said}"):
        launch.check()


# -- binaries -------------------------------------------------------------------------------------


def factory(number, helper):
    def kernel(x, n):
        x[n] = helper(number)
    return kernel


def test_a_kernel_is_known_by_what_it_is():
    def helper(x):
        return x + 1

    def other(x):
        return x + 2

    same = {compiler.fingerprint(factory(3, helper)) for _ in range(2)}
    others = {compiler.fingerprint(factory(*args)) for args in (
        (4, helper), (3, other), (3.0, helper), (np.float32(3), helper))}
    assert len(same) == 1 and len(others) == 4 and not same & others


def test_binaries_are_kept(monkeypatch, tmp_path):
    made, asked = [], []
    monkeypatch.setattr(compiler.CONFIG, "cache_dir", tmp_path)
    monkeypatch.setattr(compiler.CONFIG, "cache", True)
    monkeypatch.setattr(compiler, "_lto_code", lambda *args: made.append(args))
    binary = compiler.Binary("entry", 32, 8, 4, 16, b"\x7fELF\n\n\0cubin")
    monkeypatch.setattr(compiler, "_link", lambda *args: asked.append(args[2]) or binary)
    for threads, exact in ((128, False), (128, False), (256, False), (128, True)):
        found = compiler.compile_kernel(scale, ("*float32", "int32"), (9, 0), (threads, 1), exact)
        assert found == binary
    assert len(made) == 3 and asked == [(), (), ("-fma=0",)]


def test_the_linkers_words_are_read():
    log = """ptxas info    : Compiling entry function '_Z5scale' for 'sm_90'
ptxas         .     40 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 34 registers, used 1 barriers, 40 bytes cumulative stack size, 512 bytes smem
"""
    assert compiler._described(log, b"")[:5] == ("_Z5scale", 34, 20, 40, 512)
