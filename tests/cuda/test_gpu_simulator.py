"""The simulator itself: it behaves as a GPU, and detects undefined behaviour."""

from __future__ import annotations

import numpy as np
import pytest

from nbmod.core.config import CONFIG
from nbmod.ops.cuda.runtime import coroutines, simulator

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not CONFIG.cuda_simulator,
                                                  reason="NUMBA_ENABLE_CUDASIM=1 is not set")]
if CONFIG.cuda_simulator:
    from nbmod.ops.cuda.runtime import ptx
    from nbmod.ops.cuda.runtime.launch import cuda

WARP, ALL = 32, 0xFFFFFFFF
FLOAT = np.float32


@pytest.fixture(params=simulator.SCHEDULES, autouse=True)
def every_schedule(request, monkeypatch):
    monkeypatch.setattr(simulator, "schedule", request.param)


def run(kernel, *args, grid=(1,), block=(WARP,)):
    simulator.run(kernel, grid, block, args)
    return args[-1]


def block_sum(x, y):
    part = cuda.shared.array(8, FLOAT)
    me = cuda.threadIdx.x
    value = x[me]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(ALL, value, step)
    if cuda.laneid == 0:
        part[me // 32] = value
    cuda.syncthreads()
    if me == 0:
        total = FLOAT(0)
        for warp in range(cuda.blockDim.x // 32):
            total += part[warp]
        y[0] = total


def test_a_sum_by_shuffles_and_shared_memory():
    x = np.arange(96, dtype=FLOAT)
    assert run(block_sum, x, np.zeros(1, FLOAT), block=(96,))[0] == x.sum()


@pytest.mark.parametrize("value, want", [
    (lambda me: cuda.shfl_sync(ALL, me, 5), lambda me: 5),
    (lambda me: cuda.shfl_up_sync(ALL, me, 3), lambda me: me - 3 if me > 2 else me),
    (lambda me: cuda.shfl_down_sync(ALL, me, 3), lambda me: me + 3 if me < 29 else me),
    (lambda me: cuda.shfl_xor_sync(ALL, me, 6), lambda me: me ^ 6),
    (lambda me: cuda.ballot_sync(ALL, me in (1, 4)), lambda me: 0b10010),
    (lambda me: cuda.all_sync(ALL, me < 31), lambda me: 0),
    (lambda me: cuda.any_sync(ALL, me == 31), lambda me: 1),
    (lambda me: cuda.shfl_sync(0xF, me, 2) if me < 4 else me, lambda me: 2 if me < 4 else me),
    (lambda me: cuda.activemask(), lambda me: ALL),
    (lambda me: cuda.syncthreads_count(np.int32(me % 3 == 0)), lambda me: 11),
    (lambda me: cuda.syncthreads_or(np.int32(me == 7)), lambda me: 1),
    (lambda me: cuda.syncthreads_and(np.int32(me != 7)), lambda me: 0),
    (lambda me: cuda.syncwarp() or me, lambda me: me),
])  # fmt: skip
def test_operations_of_threads(value, want):
    def kernel(y):
        me = cuda.threadIdx.x
        y[me] = value(me)

    assert list(run(kernel, np.zeros(WARP, np.int64))) == [want(me) for me in range(WARP)]


@pytest.mark.parametrize("name", ["syncthreads_count", "syncthreads_or", "syncthreads_and"])
def test_barriers_refuse_truth_values_as_devices_do(name):
    def kernel(y):
        y[0] = getattr(cuda, name)(cuda.threadIdx.x < 3)
    with pytest.raises(RuntimeError, match=r"take an int32: np\.int32"):
        run(kernel, np.zeros(1, np.int32))


def test_atomics_of_shared_memory():
    def kernel(y):
        found = cuda.shared.array(2, np.int32)
        me = cuda.threadIdx.x
        if me == 0:
            found[0] = found[1] = 0
        cuda.syncthreads()
        cuda.atomic.add(found, 0, me)
        cuda.atomic.max(found, 1, me)
        cuda.syncthreads()
        y[me % 2] = found[me % 2]

    assert list(run(kernel, np.zeros(2, np.int32))) == [496, 31]


# -- what it detects ------------------------------------------------------------------------------


def parts_of_a_block(y):
    if cuda.threadIdx.x < 20:
        cuda.syncthreads()


def two_barriers(y):
    if cuda.threadIdx.x < 20:
        cuda.syncthreads()
    else:
        cuda.syncthreads()


def half_a_warp(y):
    if cuda.threadIdx.x < 16:
        cuda.shfl_sync(ALL, 1, 0)


def shuffle_against_barrier(y):
    if cuda.threadIdx.x < 16:
        cuda.syncwarp()
    else:
        cuda.syncthreads()


def before_the_start(y):
    y[cuda.threadIdx.x - 1] = 0


def after_the_end(y):
    y[cuda.threadIdx.x + 1] = 0


def an_array(y):
    y[0] = y.size


@pytest.mark.parametrize("kernel, said", [
    (parts_of_a_block, "a barrier that others of its block never reach"),
    (two_barriers, r"syncthreads in two_barriers, line \d+ and at syncthreads in two_barriers"),
    (half_a_warp, "waits at shfl_sync in half_a_warp, line .* for lane 16, which has ended"),
    (shuffle_against_barrier, "threads wait at syncthreads .* and at syncwarp"),
    (before_the_start, "element -1 of 32"),
    (after_the_end, "out of bounds"),
    (an_array, "'Pointer' object has no attribute 'size'"),
])  # fmt: skip
def test_errors_name_kernel_thread_and_place(kernel, said):
    with pytest.raises(RuntimeError, match=rf"kernel {kernel.__name__}: thread \(.*{said}"):
        run(kernel, np.zeros(WARP, FLOAT))


def crossing(x, y):
    part = cuda.shared.array(64, FLOAT)
    me = cuda.threadIdx.x
    part[me] = x[me]
    cuda.syncthreads()
    y[me] = part[63 - me]


def crossing_at_once(x, y):
    part = cuda.shared.array(64, FLOAT)
    me = cuda.threadIdx.x
    part[me] = x[me]
    y[me] = part[63 - me]


def test_a_missing_barrier_shows_what_memory_held():
    x = np.arange(64, dtype=FLOAT)
    assert np.array_equal(run(crossing, x, np.zeros(64, FLOAT), block=(64,)), x[::-1])
    assert np.isnan(run(crossing_at_once, x, np.zeros(64, FLOAT), block=(64,))).any()


# TF32 has 10 fraction bits, as float16 has; bfloat16 has 7.
@pytest.mark.parametrize("mma, pack, depth, error", [
    ("mma_tf32", "to_tf32", 8, 2 ** -11), ("mma_bf16", "to_bf16x2", 16, 2 ** -8),
    ("mma_f16", "to_f16x2", 16, 2 ** -11),
])  # fmt: skip
def test_products_by_a_warp(mma, pack, depth, error):
    mma, pack = getattr(ptx, mma), getattr(ptx, pack)
    width = depth // 8

    def word(x, first, step):
        return pack(*(x[first + k * step] for k in range(width)))

    def kernel(a, b, c):
        g, q = cuda.laneid // 4, cuda.laneid % 4
        left = [word(a, (g + down) * depth + width * q + right, 1)
                for right in (0, depth // 2) for down in (0, 8)]
        right = [word(b, (width * q + down) * 8 + g, 8) for down in (0, depth // 2)]
        found = mma(*left, *right, *[FLOAT(1)] * 4)
        for place, value in zip((0, 1, 64, 65), found, strict=True):
            c[g * 8 + 2 * q + place] = value

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, depth)), rng.standard_normal((depth, 8))
    c = run(kernel, a.astype(FLOAT).ravel(), b.astype(FLOAT).ravel(), np.zeros(128, FLOAT))
    bound = 1.01 * 2 * error * (abs(a) @ abs(b)) + 1e-6
    assert (abs(c.reshape(16, 8) - (a @ b + 1)) < bound).all()


def test_threads_of_python_do_as_well(monkeypatch):
    monkeypatch.setattr(simulator, "Coroutine", coroutines._ThreadCoroutine)
    x = np.arange(96, dtype=FLOAT)
    assert run(block_sum, x, np.zeros(1, FLOAT), block=(96,))[0] == x.sum()
    with pytest.raises(RuntimeError, match="others of its block never reach"):
        run(parts_of_a_block, np.zeros(WARP, FLOAT))
