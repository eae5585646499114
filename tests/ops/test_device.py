"""The device layer: memory, views, copies, and the indexing that every device inherits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbmod as mx
from nbmod.ops.device import ALIGNMENT, CPU, LARGE, Cpu, Device, device_of
from nbmod.ops.simd.host import lanes
from nbmod.ops.simd.nontemporal import NONTEMPORAL_BYTES, bypasses_cache

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


class Foreign(Cpu):
    """A device that has only the primitives: its indexing is the base class's."""

    index = Device.index
    assign = Device.assign
    full = Device.full


def test_logical_cpus_share_one_device():
    assert device_of(mx.cpu(0)) is device_of(mx.cpu(3)) is device_of(mx.cpu_pinned()) is CPU


@pytest.mark.parametrize("nbytes", [1, 63, 64, 1000])
def test_arenas_are_aligned(nbytes):
    arena = CPU.arena(nbytes)
    assert arena.nbytes == nbytes and CPU.span(arena)[0] % ALIGNMENT == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_memory_of_the_arena(dtype):
    arena = CPU.arena(256)
    arena[:] = 0
    view = CPU.view(arena, 64, (2, 3), dtype)
    view[...] = 1
    assert view.dtype == dtype and view.shape == (2, 3) and view.flags.c_contiguous
    assert CPU.span(view)[0] == CPU.span(arena)[0] + 64
    assert arena[:64].any() == arena[64 + view.nbytes:].any() == False  # noqa: E712
    assert arena.any()


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_copies_convert_as_c_does(source, target):
    src, dst = np.array([0, 1, 100], source), CPU.empty((3,), target)
    CPU.copy(src, dst)
    np.testing.assert_array_equal(dst, src.astype(target))


def test_copies_of_what_does_not_fit_do_not_warn():
    dst = CPU.empty((2,), np.int32)
    CPU.copy(np.array([np.nan, 1.5], np.float32), dst)
    assert dst[1] == 1
    CPU.copy(np.array([1e9, 1.0]), CPU.empty((2,), np.float16))


def test_large_arrays_may_be_written_past_the_caches():
    shape = (NONTEMPORAL_BYTES // 4096, 1024)
    for array in (CPU.full(shape, np.float32, 0.0),
                  CPU.full(shape, np.float32, 2.0), CPU.from_numpy(np.ones(shape, np.float32))):
        assert bypasses_cache(array) == (lanes("float32") > 1)
        assert array.shape == shape and array[0, 0] == array[-1, -1]


@pytest.mark.parametrize("nbytes", [LARGE, LARGE + 100, 1 << 18])
def test_vectors_of_large_arrays_are_lines_of_the_cache(nbytes):
    """Of many arrays, so that alignment by chance is excluded."""
    shape = (nbytes // 4,)
    arrays = [array for _ in range(8) for array in (
        CPU.empty(shape, np.float32), CPU.full(shape, np.float32, 0.0),
        CPU.full(shape, np.float32, 1.0), CPU.from_numpy(np.ones(shape, np.float32)))]
    assert {array.ctypes.data % ALIGNMENT for array in arrays} == {0}


def test_too_much_memory_is_an_error_that_says_so():
    with pytest.raises(mx.MXNetError, match="no memory.*1152921504606846976"):
        CPU.empty((1 << 60,), np.float32)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_inherited_indexing_is_the_cpus(data):
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=4))
    key = data.draw(st.one_of(hnp.basic_indices(shape, allow_newaxis=True),
                              hnp.integer_array_indices(shape)))  # fmt: skip
    key = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, np.ndarray) or part is ... for part in key):
        key = (*key, ...)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    device, here, there = Foreign(), values.copy(), values.copy()
    mine, theirs = device.index(here, key), CPU.index(there, key)
    np.testing.assert_array_equal(mine, theirs)
    assert np.shares_memory(mine, here) == np.shares_memory(theirs, there)
    device.assign(here, key, np.float32([5]).reshape(()))
    CPU.assign(there, key, np.float32([5]).reshape(()))
    np.testing.assert_array_equal(here, there)


def test_filled_arrays():
    for device in (CPU, Foreign()):
        for value in (0, 3):
            assert (device.full((2, 2), np.int32, value) == value).all()


def test_a_gpu_that_is_not_there():
    if mx.num_gpus():
        pytest.skip("there is a GPU")
    with pytest.raises(mx.MXNetError, match=r"gpu\(0\) does not exist"):
        mx.gpu_memory_info(0)
    with pytest.raises(mx.MXNetError, match=r"gpu\(7\) does not exist"):
        device_of(mx.gpu(7))
