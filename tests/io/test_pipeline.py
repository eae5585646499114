"""Prefetching: order, back-pressure, errors, interruption, threads that end, reused memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from functools import partial

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.context import cpu
from nbmod.io.job_pipeline import Job, Pipeline
from nbmod.ndarray import NDArray
from nbmod.ndarray.buffer_pool import BufferPool


def numbers(count, parts=3, begun=None):
    """Jobs whose tasks sleep so that later ones end first, with results 0, 1, ..."""
    for number in range(count):
        results = [None] * parts

        def part(index, results=results, number=number):
            if begun is not None:
                begun.append(number)
            time.sleep(0.002 * (parts - index))
            results[index] = number

        def finish(results=results):
            assert len(set(results)) == 1
            return results[0]

        yield Job([lambda i=i, part=part: part(i) for i in range(parts)], finish)


def drain(pipeline):
    return list(iter(lambda: next_or_none(pipeline), None))


def next_or_none(pipeline):
    try:
        return pipeline.next()
    except StopIteration:
        return None


@pytest.mark.parametrize("threads, ahead", [(1, 1), (1, 5), (4, 1), (4, 3), (3, 50)])
def test_results_come_in_order(threads, ahead):
    pipeline = Pipeline(threads, ahead)
    for count in (7, 0, 3):
        pipeline.start(numbers(count))
        assert drain(pipeline) == list(range(count))
        assert next_or_none(pipeline) is None
    pipeline.close()


def test_no_more_than_ahead_is_begun():
    begun: list[int] = []
    pipeline = Pipeline(2, 3)
    pipeline.start(numbers(20, 1, begun))
    time.sleep(0.1)
    assert set(begun) == {0, 1, 2}
    assert [pipeline.next() for _ in range(4)] == [0, 1, 2, 3]
    time.sleep(0.1)
    assert max(begun) == 6
    pipeline.close()


def test_start_leaves_nothing_of_the_old_jobs_at_work():
    begun: list[int] = []
    pipeline = Pipeline(2, 8)
    pipeline.start(numbers(20, 2, begun))
    pipeline.start(iter(()))
    seen = len(begun)
    time.sleep(0.05)
    assert len(begun) == seen and next_or_none(pipeline) is None
    pipeline.close()


def test_a_call_takes_the_place_of_the_jobs():
    pipeline = Pipeline(1, 3)
    pipeline.start(numbers(20))
    assert pipeline.call(threading.get_ident) != threading.get_ident()
    with pytest.raises(KeyError, match="the broken part"):
        pipeline.call(broken)
    assert next_or_none(pipeline) is None
    pipeline.close()


def broken():
    raise KeyError("the broken part")


def test_errors_come_in_turn_with_their_own_traceback():
    pipeline = Pipeline(3, 4)
    jobs = list(numbers(6))
    jobs[2] = Job([lambda: None, broken], lambda: 2)
    pipeline.start(iter(jobs))
    assert [pipeline.next(), pipeline.next()] == [0, 1]
    with pytest.raises(KeyError, match="the broken part") as raised:
        pipeline.next()
    assert "in broken" in "".join(traceback.format_tb(raised.value.__traceback__))
    assert next_or_none(pipeline) is None
    pipeline.start(numbers(2))
    assert drain(pipeline) == [0, 1]
    pipeline.close()


def test_nothing_of_a_failed_job_is_at_work():
    begun: list[int] = []
    pipeline = Pipeline(1, 1)
    pipeline.start(iter([Job([broken, *next(numbers(1, 9, begun)).tasks], lambda: 0)]))
    with pytest.raises(KeyError):
        pipeline.next()
    seen = len(begun)
    time.sleep(0.05)
    assert len(begun) == seen
    pipeline.close()


def test_an_error_does_not_wait_for_parts_that_hang():
    hangs = threading.Event()
    pipeline = Pipeline(2, 1)
    pipeline.start(iter([Job([hangs.wait, broken], lambda: 0)]))
    with pytest.raises(KeyError, match="the broken part"):
        pipeline.next()
    assert not hangs.is_set()
    hangs.set()
    pipeline.start(numbers(2))
    assert drain(pipeline) == [0, 1]
    pipeline.close()


def test_a_timeout_of_a_part_is_its_own():
    def late():
        raise TimeoutError("its own")

    pipeline = Pipeline(1, 1)
    pipeline.start(iter([Job([late], lambda: 0)]))
    with pytest.raises(TimeoutError, match="its own"):
        pipeline.next()
    pipeline.close()


def workers():
    return {thread for thread in threading.enumerate() if thread.name.startswith("nbmod-io")}


def test_threads_end_with_their_pipeline():
    before = workers()
    pipeline = Pipeline(4, 4)
    pipeline.start(numbers(30))
    assert pipeline.next() == 0 and workers() - before
    pipeline.close()
    assert only_remain(before)
    pipeline.start(numbers(30))
    assert pipeline.next() == 0
    del pipeline
    gc.collect()
    assert only_remain(before)


def only_remain(threads):
    """Whether all other workers end within ten seconds."""
    deadline = time.monotonic() + 10
    while workers() - threads and time.monotonic() < deadline:
        time.sleep(0.01)
    return not workers() - threads


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="cannot fork")
def test_a_forked_process_makes_threads_of_its_own():
    pipeline = Pipeline(2, 2)
    pipeline.start(numbers(5))
    assert pipeline.next() == 0
    child = os.fork()
    if child == 0:
        try:
            pipeline.next()
        except MXNetError:
            pipeline.start(numbers(3))
            os._exit(0 if drain(pipeline) == [0, 1, 2] else 1)
        os._exit(2)
    assert drain(pipeline) == [1, 2, 3, 4]
    assert os.waitpid(child, 0)[1] == 0
    pipeline.close()


@pytest.mark.parametrize("seconds", [0.1, 600])
def test_the_end_of_the_process_waits_for_nothing_that_hangs(seconds):
    code = textwrap.dedent(f"""
        import time
        from nbmod.io.job_pipeline import Job, Pipeline
        pipeline = Pipeline(2, 4)
        pipeline.start(Job([lambda: time.sleep({seconds})], lambda: 0) for _ in range(100))
        time.sleep(0.2)
    """)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (2**40, 1), (1, 2**40)])
def test_threads_and_jobs_ahead_are_bounded(arguments):
    with pytest.raises(MXNetError, match="expected 1 to 1,0"):
        Pipeline(*arguments)


def test_buffers_are_used_again_when_nothing_refers_to_them():
    pool = BufferPool((4, 3), "float32")
    first = pool.acquire()
    first[:] = 7
    address, view = first.ctypes.data, first[1:].reshape(-1)[2:]
    assert type(first) is np.ndarray and address % 64 == 0
    del first
    second = pool.acquire()
    second[:] = 1
    assert second.ctypes.data != address and (view == 7).all()
    del view
    batch = NDArray(pool.acquire(), cpu())
    assert batch.handle.ctypes.data == address
    taken = np.from_dlpack(batch)   # by another library
    del batch
    assert pool.acquire().ctypes.data != address
    del taken
    assert pool.acquire().ctypes.data == address


def test_no_python_code_runs_when_a_buffer_becomes_free():
    """Ctrl-C would be lost there."""
    buffer, called = BufferPool((4, 3), "float32").acquire(), []
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del buffer
    sys.setprofile(None)
    assert called == ["c_call"]  # that of setprofile


def while_items_last(sample, items):
    """The sample, unless the items have ended."""
    return sample if next(items) is None else None


@pytest.mark.parametrize("make", [
    lambda transform: mx.io.DatasetIter(np.ones((80, 1)), 40, label_names=(), transform=transform),
    lambda transform: mx.io.GeneratorIter(lambda: iter(np.ones((80, 1))), 40, label_names=(),
                                          transform=transform)], ids=["data set", "generator"])
def test_an_iterator_that_ends_in_a_sample_does_not_end_the_epoch(make):
    batches = make(partial(while_items_last, items=iter([None] * 60)))
    with pytest.raises(RuntimeError, match="StopIteration in the middle of an epoch"):
        list(batches)
