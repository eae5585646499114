"""Calls of NVIDIA's driver, replaced by a fake whose memory is the host's.

No kernel runs here: tested are copies, packed arguments, and error messages.
"""

from __future__ import annotations

import ctypes
import gc
from enum import IntEnum
from types import SimpleNamespace

import numpy as np
import pytest

import bench.gpu
import nbmod as mx
from nbmod.kvstore.sums import Sums
from nbmod.ndarray import NDArray
from nbmod.ops import OPS, device
from nbmod.ops.build.inlining import Inlined
from nbmod.ops.cuda import check as network_check
from nbmod.ops.cuda import device as gpu_device
from nbmod.ops.cuda.lib.kernel_math import SCALAR_NUMPY, scalar_function
from nbmod.ops.cuda.runtime import compiler, driver
from nbmod.ops.cuda.runtime.device_memory import Array
from nbmod.ops.cuda.runtime.graph_replay import GraphReplay, Launcher
from nbmod.ops.cuda.runtime.launch import CudaKernel, Launch, PerRun
from nbmod.ops.device import CPU
from nbmod.ops.op import Call
from tests.cuda import check


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


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
        self.calls, self.memory, self.launches = [], {}, []
        self.nodes, self.given, self.streams = [], [], 0
        self.failing, self.once = {}, {}

    def __getattr__(self, name):
        def function(*args):
            self.calls.append(name)
            self.given.append((name, *args))
            status = self.once.pop(name, None) or self.failing.get(name)
            if status:
                return (status, *[None] * len(self.ANSWERS.get(name, (1,))))
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
    driver._availability.cache_clear()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    monkeypatch.setattr(driver, "STAGING_BYTES", 64)
    monkeypatch.setattr(driver, "compile_kernel", lambda *args: compiler.Cubin(
        "entry", 32, 0, 0, 0, b"cubin"))
    yield made
    driver._availability.cache_clear()


@pytest.fixture
def gpus(fake, monkeypatch):
    """`mx.gpu(0)` and `mx.gpu(1)` are the fake devices."""
    monkeypatch.setattr(gpu_device, "Card", driver.Card)
    monkeypatch.setattr(gpu_device, "SIMULATED", False)
    monkeypatch.setattr(device, "_gpus", {})
    caches = gpu_device._card, gpu_device.gpu_count
    for cached in caches:
        cached.cache_clear()
    yield fake
    for cached in caches:
        cached.cache_clear()


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
    # A half of the staging buffer is filled again only after its copy has completed.
    uploads = [name for name in fake.calls if name in ("cuEventSynchronize", "cuMemcpyHtoDAsync",
                                                       "cuEventRecord")]
    assert uploads[:3] == ["cuEventSynchronize", "cuMemcpyHtoDAsync", "cuEventRecord"]


@pytest.mark.parametrize("refused, direct", [
    (None, True), ("cuDeviceCanAccessPeer", False), ("cuMemPoolSetAccess", False)])
def test_cards_copy_from_each_other_where_they_can(fake, monkeypatch, refused, direct):
    """Each stream waits for the other: for the values, and before they are overwritten."""
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
    """Each waits for all others, after all have recorded their events."""
    cards = [driver.Card(number) for number in range(3)]
    gpus = [gpu_device.Gpu.__new__(gpu_device.Gpu) for _ in range(4)]
    for number, gpu in enumerate(gpus):
        gpu.device_id, gpu.card = number, cards[number % 3]
    fake.given.clear()
    gpus[0].barrier([gpus[3]])
    assert fake.given == [], "they are one card"
    gpus[0].barrier([*gpus[1:], CPU])
    calls = [given for given in fake.given if given[0] != "cuCtxSetCurrent"]
    assert calls[:3] == [("cuEventRecord", card.event, card.stream) for card in cards]
    assert calls[3:] == [("cuStreamWaitEvent", card.stream, other.event, 0) for card in cards
                         for other in cards if other is not card]
    assert len({card.stream for card in cards}) == len({card.event for card in cards}) == 3


@pytest.mark.parametrize("reached", [True, False])
def test_sums_are_read_from_other_cards_where_that_is_possible(gpus, fake, reached):
    """One launch for all keys between two barriers; copies to this GPU without peer access."""
    if not reached:
        fake.failing["cuDeviceCanAccessPeer"] = Status.CUDA_ERROR_NO_DEVICE
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
    """The table of addresses of the last launch: a row of three for each sum."""
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
    launch = Launch(CudaKernel(scale), (2, 3), (128,), (x, np.float32(0.5), -7))
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
    """Its other arrays are kept alive by their owners."""
    card = driver.Card(0)
    x, sums = (array_of(card, np.zeros(4, np.float32)) for _ in range(2))
    start = card.prepare(Launch(CudaKernel(scale), (1,), (32,), (x, sums, 1), (sums,)), holds=False)
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
    fixed = Launch(CudaKernel(scale), (2, 3), (128,), (x, np.float32(2), -7))
    later = PerRun(
        lambda: [Launch(CudaKernel(scale), (1,), (32,), (x, np.float32(next(factors)), 1))])
    replay = GraphReplay([Launcher(card, [fixed, later]), Launcher(card, [fixed])])
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


def test_eager_calls_are_found_again(gpus, fake, monkeypatch):
    """By op, shapes and strides; cached entries keep no memory alive."""
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


def test_eager_calls_with_a_zero_are_found_by_its_sign(gpus, fake, monkeypatch):
    """x / 0.0 is not x / -0.0, though the ops are equal."""
    gpu = gpu_device.Gpu(0)
    x, y = (gpu.empty((4,), np.float32) for _ in range(2))
    prepared = []
    monkeypatch.setattr(driver.Card, "prepare", lambda *args, make=driver.Card.prepare:
                        prepared.append(1) or make(*args))
    for zero in (0.0, -0.0, 0.0, -0.0):
        gpu.run(OPS["_div_scalar"](zero), [x], [y], Call())
    assert len(prepared) == 2 and fake.calls.count("cuLaunchKernel") == 4


# -- errors ---------------------------------------------------------------------------------------


def bound(ctx):
    return mx.sym.relu(mx.sym.Variable("x")).simple_bind(ctx, x=(3, 5))


@pytest.mark.parametrize("act, said", [
    (lambda: mx.nd.zeros((1 << 20, 4), ctx=mx.gpu(1)), r"gpu\(1\): no memory for an array of "
     r"shape \(1048576, 4\) and type float32: 16 MiB; 3 of 8 MiB are free: use a smaller batch"),
    (lambda: bound(mx.gpu(0)), r"gpu\(0\): no memory for .*: use a smaller batch or more devices"),
    (lambda: mx.nd.ones((2,)).as_in_context(mx.gpu(0)), r"gpu\(0\): no memory for an array of"),
])  # fmt: skip
def test_memory_that_is_not_there_is_told_and_asked_for_again(gpus, act, said):
    """As MXNetError and as MemoryError; a smaller allocation may succeed afterwards."""
    gpus.failing["cuMemAllocAsync"] = Status.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(mx.MXNetError, match=said) as caught:
        act()
    assert isinstance(caught.value, MemoryError)
    gpus.failing.clear()
    act()


def test_memory_that_only_cycles_hold_is_freed_for_others(gpus):
    x = mx.nd.empty((4,), ctx=mx.gpu(0))
    held = [x]
    held.append(held)
    before = len(gpus.memory)
    gpus.once["cuMemAllocAsync"] = Status.CUDA_ERROR_OUT_OF_MEMORY
    gc.disable()
    try:
        del x, held
        y = mx.nd.empty((4,), ctx=mx.gpu(0))
    finally:
        gc.enable()
    assert y.shape == (4,) and len(gpus.memory) == before


def acts_on(x):
    """Common operations of users on a GPU, by name."""
    return {"asnumpy": x.asnumpy, "waitall": mx.nd.waitall, "forward": bound(x.context).forward,
            "add": lambda: x + x, "assign": lambda: x.__setitem__(slice(None), np.ones((3, 5))),
            "empty": lambda: mx.nd.empty((2,), ctx=x.context), "copy": lambda: x.copyto(mx.cpu())}


@pytest.mark.parametrize("function", ["cuStreamSynchronize", "cuEventSynchronize", "cuLaunchKernel",
                                      "cuMemAllocAsync", "cuMemFreeAsync", "cuCtxSetCurrent"])
def test_a_kernel_that_failed_is_told_wherever_it_shows(gpus, function):
    """All calls fail from then on, including those that free memory; the CPU continues."""
    acts = acts_on(mx.nd.zeros((3, 5), ctx=mx.gpu(0)))
    gpus.failing[function] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    shown = set()
    for name, act in acts.items():
        try:
            act()
        except mx.MXNetError as error:
            assert not isinstance(error, MemoryError)
            for part in ("gpu(0): ", "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel submitted earlier has",
                         "the CPU goes on. Start the process anew"):
                assert part in str(error)
            shown.add(name)
    assert shown or function == "cuMemFreeAsync"
    if function == "cuCtxSetCurrent":
        assert shown == set(acts)
    del acts, act
    gc.collect()    # pytest reports exceptions that are raised there
    assert (mx.nd.ones((2,)) + 1).asnumpy().tolist() == [2, 2]


def test_a_kernel_that_does_not_start_is_named(gpus):
    start = driver.Card(0).prepare(Launch(CudaKernel(scale), (1,), (1,), (1, 2, 3)))
    gpus.failing["cuLaunchKernel"] = Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(mx.MXNetError, match=r"gpu\(0\): kernel scale was not started: CUDA_ERR"):
        start()


def test_old_cards_are_told(gpus):
    gpus.capability = {"major": 3, "minor": 5}
    with pytest.raises(mx.MXNetError, match=r"gpu\(1\) has compute capability 3.5, 5.0 is the ol"):
        mx.nd.ones((2,), ctx=mx.gpu(1))


def test_cards_that_share_names_have_all_of_them(gpus, monkeypatch):
    monkeypatch.setattr(driver.CONFIG, "virtual_gpus", 5)
    assert [driver.Card(number).name for number in range(2)] == [
        "gpu(0), gpu(2), gpu(4)", "gpu(1), gpu(3)"]


@pytest.mark.parametrize("name, status, said", [
    ("cuInit", Status.CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE; there is no usable driver"),
    ("_driver", ModuleNotFoundError("No module named 'cuda'"),
     r"No module named 'cuda'; pip install 'nbmod\[cuda\]'"),
    ("_driver", RuntimeError("libcuda.so.1 was not found"),
     "install NVIDIA's driver; libcuda.so.1 was not found")])
def test_why_there_is_no_gpu_is_told(gpus, monkeypatch, name, status, said):
    assert mx.num_gpus() == 2
    driver._availability.cache_clear(), gpu_device.gpu_count.cache_clear()
    gpus.failing[name] = status
    if name == "_driver":
        monkeypatch.setattr(driver, "_driver", lambda: exec("raise status", {"status": status}))
    assert mx.num_gpus() == 0
    with pytest.raises(mx.MXNetError, match=rf"offers 0 usable CUDA device\(s\) \(.*{said}.*Pass"):
        mx.nd.ones((2,), ctx=mx.gpu(0))
    with pytest.raises(mx.MXNetError, match=said):
        mx.context.gpu_memory_info(0)


def test_no_gpus_among_those_of_the_driver(gpus, monkeypatch):
    monkeypatch.setitem(FakeDriver.ANSWERS, "cuDeviceGetCount", (0,))
    with pytest.raises(mx.MXNetError, match="the driver knows no GPU; is CUDA_VISIBLE_DEVICES set"):
        mx.nd.ones((2,), ctx=mx.gpu(0))


def test_checks_say_what_there_is_instead_of_a_gpu(gpus, monkeypatch, capsys):
    monkeypatch.setitem(FakeDriver.ANSWERS, "cuDeviceGetCount", (0,))
    for tool in (network_check, check, bench.gpu):
        with pytest.raises(SystemExit, match="2"):
            tool.main([])
        assert "the driver knows no GPU" in " ".join(capsys.readouterr().err.split())


def test_code_of_helpers_of_the_cpu_is_that_of_numbers_too():
    """A kernel of the CPU, compiled before, has put compiled helpers in their places."""
    def helper(x):
        return np.exp(x)

    for form in (helper, Inlined(helper), Inlined(helper).compile()):
        made = scalar_function(form, {"np": SCALAR_NUMPY})
        made = getattr(made, "py_func", made)
        assert made.__code__ is helper.__code__ and made.__globals__["np"] is SCALAR_NUMPY


def test_what_the_compilers_do_not_know_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler.CONFIG, "cache_dir", tmp_path)
    monkeypatch.setattr(compiler, "_lto_code", lambda *args: 1 / 0)
    said = (r"GPU kernel scale was not compiled for compute capability 7.0: ZeroDivisionError: .*; "
            r".*pip install .* or 'nbmod\[cu12\]' \(from 5.0\)")
    with pytest.raises(mx.MXNetError, match=said):
        compiler.compile_kernel(scale, ("*float32", "int32"), (7, 0), (128, 1))


@pytest.mark.parametrize("launch, said", [
    (Launch(CudaKernel(scale), (1,), (1,), (2 ** 31,)),
     "2,147,483,648 elements; kernels count in 32"),
    (Launch(CudaKernel(scale), (1,), (64, 32), ()), "blocks of 2048 threads"),
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
    binary = compiler.Cubin("entry", 32, 8, 4, 16, b"\x7fELF\n\n\0cubin")
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
