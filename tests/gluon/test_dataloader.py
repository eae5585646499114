"""`mx.gluon.data.DataLoader`: batches are MXNet's, whoever makes them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon.data import dataloader, shared_batches, worker_processes
from tests.programs import gluon_data, loader_processes

DataLoader = mx.gluon.data.DataLoader
ROOT = Path(__file__).resolve().parents[2]
forked = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")


def test_epochs_are_mxnets(oracle):
    assert gluon_data.epochs(mx) == oracle.call("mx_scripts.run", "gluon_data", "epochs")


def test_batches_of_samples_are_mxnets(oracle):
    assert gluon_data.batches(mx) == oracle.call("mx_scripts.run", "gluon_data", "batches")


def values(loader):
    return [batch.asnumpy().tolist() for batch in loader]


@pytest.mark.parametrize("samples", [
    ["a", "b"], [{"a": 1}], [None], [b"x"], [1, "a"], [np.zeros(2), np.zeros(3)],
    [mx.nd.ones(2), mx.nd.ones(3)], [([1, 2],), ([3],)]])
def test_samples_that_are_no_batch_are_refused(samples):
    with pytest.raises(ValueError, match="a batch cannot be made of .*batchify_fn"):
        next(iter(DataLoader(samples, 2)))


class Ended:
    """Samples of an iterator that ends before the data set does."""

    def __len__(self):
        return 6

    def __getitem__(self, idx):
        return next(iter([idx][idx // 3:]))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1, "thread_pool": True},
                                     pytest.param({"num_workers": 1}, marks=forked)])
@pytest.mark.parametrize("dataset, batchify", [
    (Ended(), None), (range(6), lambda samples: Ended()[samples[-1]])])
def test_an_iterator_that_ends_in_a_sample_does_not_end_the_epoch(options, dataset, batchify):
    batches = iter(DataLoader(dataset, 3, batchify_fn=batchify, **options))
    next(batches)
    with pytest.raises(RuntimeError, match=r"StopIteration for the samples \[3, 4, 5\]"):
        next(batches)


def test_a_batch_without_samples_is_refused():
    with pytest.raises(MXNetError, match="no samples; check the batch sampler"):
        next(iter(DataLoader([1, 2], batch_sampler=[[]])))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1, "thread_pool": True},
                                     {"num_workers": 3, "thread_pool": True, "prefetch": 0},
                                     {"num_workers": 1}, {"num_workers": 2, "prefetch": 0}])
def test_batches_do_not_depend_on_workers(options):
    loader = DataLoader(list(range(10)), 3, last_batch="rollover", **options)
    assert len(loader) == 3 and values(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert values(loader) == [[9, 0, 1], [2, 3, 4], [5, 6, 7]]
    lists = DataLoader(list(range(4)), 2, batchify_fn=list, **options)
    assert list(lists) == [[0, 1], [2, 3]]


def test_arrays_are_pinned():
    data, label = next(iter(DataLoader([(1, 2)], 1, pin_memory=True, pin_device_id=1)))
    assert data.context == label.context == mx.cpu_pinned(1)


def test_an_epoch_begins_when_another_ends():
    reads = []

    def read(sample):
        reads.append(sample)
        return sample

    data = mx.gluon.data.SimpleDataset([1, 2]).transform(read)
    loader = DataLoader(data, 2, num_workers=1, thread_pool=True, auto_reload=True)
    assert values(loader) == [[1, 2]]
    while len(reads) < 4:
        time.sleep(0.001)
    loader.clean()
    assert values(loader) == [[1, 2]]


@pytest.mark.parametrize("thread_pool", [True, False])
def test_two_epochs_of_a_loader_run_at_once(thread_pool):
    loader = DataLoader(list(range(4)), 2, num_workers=2, thread_pool=thread_pool)
    pairs = zip(loader, loader, strict=True)
    assert [values(pair) for pair in pairs] == [[[0, 1], [0, 1]], [[2, 3], [2, 3]]]


def test_a_batch_that_takes_too_long_is_an_error():
    release = threading.Event()
    data = mx.gluon.data.SimpleDataset([1, 2]).transform(lambda x: release.wait(60) and x)
    loader = DataLoader(data, 1, num_workers=1, thread_pool=True, timeout=0.1)
    with pytest.raises(multiprocessing.TimeoutError, match=r"longer than timeout=0\.1 seconds"):
        next(iter(loader))
    release.set()
    assert values(loader) == [[1], [2]]


def test_errors_of_threads_keep_their_type():
    loader = DataLoader(gluon_data.Faulty(), 2, num_workers=2, thread_pool=True)
    with pytest.raises(KeyError, match="sample 0"):
        list(loader)


# -- processes ------------------------------------------------------------------------------------


def test_draws_do_not_depend_on_the_number_of_processes():
    one = loader_processes.epochs(1)
    assert loader_processes.epochs(3) == one
    draws = [number for batch in one for column in batch[1:] for number in np.ravel(column)]
    assert len(set(draws)) == len(draws) == 3 * 24


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="workers are forked"))])
def test_processes_that_start_anew_load_the_same(method):
    done = program(method)
    assert done.communicate(timeout=200) == ("True\nTrue\n", "")


UNGUARDED = """
import multiprocessing
import nbmod as mx
multiprocessing.set_start_method("spawn", force=True)
print(list(mx.gluon.data.DataLoader([1, 2], 2, num_workers=1)))
"""


def test_a_script_whose_work_is_imported_again_hears_how_to_stop_that(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1 and "put its work under if __name__ == '__main__':" in done.stderr


def children():
    return {each.pid for each in multiprocessing.active_children()}


def program(what):
    return subprocess.Popen([sys.executable, "-m", "tests.programs.loader_processes", what],
                            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def make_pickle(indices, batchify_fn, dataset):
    return pickle.dumps(batchify_fn([10 * index for index in indices]))


def make_batch(indices, batchify_fn, dataset):
    return batchify_fn([dataset[index] for index in indices])


@pytest.mark.parametrize("prefetch", [0, 1, 9])
@pytest.mark.parametrize("make, dataset", [(make_pickle, None), (make_batch, [0, 10, 20, 30, 40])])
def test_loaders_of_other_projects_have_pools(make, dataset, prefetch):
    sampler = mx.gluon.data.BatchSampler(mx.gluon.data.SequentialSampler(5), 2)
    with ThreadPool(2) as pool:
        epoch = dataloader._MultiWorkerIter(pool, dataloader.default_batchify_fn, sampler, True,
                                            worker_fn=make, prefetch=prefetch, dataset=dataset)
        assert len(epoch) == 3 and values(epoch) == [[0, 10], [20, 30], [40]]
        with pytest.raises(StopIteration):
            epoch.next()


@forked
@pytest.mark.parametrize("dataset, code", [
    (loader_processes.Killed(), "-9, SIGKILL"), (loader_processes.Exits(), "7")])
def test_a_worker_that_dies_is_an_error(dataset, code):
    before = children()
    loader = DataLoader(dataset, 4, num_workers=2, timeout=1000)
    for _ in range(2):
        with pytest.raises(MXNetError, match=f"died with exit code {code}, while it made batch 1"):
            list(loader)
        assert children() <= before


@forked
def test_a_worker_that_dies_between_batches_is_an_error():
    loader = DataLoader(loader_processes.Numbers(), 4, num_workers=1, prefetch=0)
    epoch = iter(loader)
    next(epoch)
    (worker,) = (each.process for each in loader._worker_pool._workers)
    worker.kill()
    worker.join()
    with pytest.raises(MXNetError, match="exit code -9"):
        list(epoch)
    assert len(list(loader)) == 3


@pytest.mark.parametrize("dataset, kind, text", [
    (loader_processes.Raises(), KeyError, "number 5"),
    (loader_processes.Unpicklable(), MXNetError, "Local: number 5")])
def test_errors_of_processes_keep_their_type(dataset, kind, text):
    loader = DataLoader(dataset, 4, num_workers=2)
    for _ in range(2):
        with pytest.raises(kind, match=text) as caught:
            list(loader)
        assert "__getitem__" in str(caught.value.__cause__)


def test_a_process_that_hangs_is_an_error():
    before = children()
    with pytest.raises(multiprocessing.TimeoutError, match=r"timeout=0\.2"):
        list(DataLoader(loader_processes.Slow(), 4, num_workers=1, timeout=0.2))
    assert children() <= before


def test_an_epoch_that_is_dropped_leaves_the_workers_to_the_next():
    gc.collect()
    before = children()
    loader = DataLoader(loader_processes.Numbers(), 2, num_workers=2)
    for _ in range(5):
        assert next(iter(loader)).asnumpy().tolist() == [0, 1]
    workers = children()
    assert len(workers - before) == 2 and len(values(loader)) == 6 and children() == workers
    del loader
    gc.collect()
    assert children() <= before


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@forked
def test_batches_are_shared_memory_which_workers_use_again():
    loader = DataLoader(mx.nd.arange(4000).reshape((40, 100)), 2, num_workers=1)
    expected = np.arange(4000).reshape(20, 2, 100)
    kept = [array.asnumpy() for array in loader]
    held = descriptors()
    for _ in range(3):
        for array, rows in zip(loader, expected, strict=True):
            assert (array.asnumpy() == rows).all() and array.context == mx.Context("cpu_shared", 0)
    assert descriptors() == held
    assert (np.stack(kept) == expected).all()
    arrays = [batch for _ in range(3) for batch in loader]    # more than there are blocks
    assert len(arrays) > shared_batches.MOST_BLOCKS
    assert (np.stack([array.asnumpy() for array in arrays[-20:]]) == expected).all()
    assert (np.stack([array.asnumpy() for array in arrays[:20]]) == expected).all()
    (worker,) = loader._worker_pool._workers
    assert len(worker.blocks) == shared_batches.MOST_BLOCKS
    del loader, worker    # arrays outlive the workers
    gc.collect()
    assert (arrays[0].asnumpy() == expected[0]).all()


@forked
def test_the_parent_copies_no_batch():
    """Arrays are the memory that a worker wrote, and no other of their size is allocated."""
    samples, labels = np.ones((8, 1 << 18), np.float32), np.arange(8, dtype=np.float32)
    loader = DataLoader(mx.gluon.data.ArrayDataset(samples, labels), 4, num_workers=1)
    list(loader)    # imports, and blocks
    tracemalloc.start()
    try:
        for data, label in loader:
            blocks = [np.frombuffer(block.memory, np.uint8)
                      for block in loader._worker_pool._workers[0].blocks.values()]
            for array in (data, label):
                assert sum(np.shares_memory(array._data, block) for block in blocks) == 1
            del blocks
        assert tracemalloc.get_traced_memory()[1] < samples.nbytes / 2 / 8
    finally:
        tracemalloc.stop()


def test_blocks_grow_with_batches():
    sizes = [10, 300_000, 20, 900_000, 900_000, 5]
    data = mx.gluon.data.SimpleDataset(sizes).transform(lambda size: np.full(size, size))
    loader = DataLoader(data, 1, num_workers=1, prefetch=0)
    for array, size in zip(loader, sizes, strict=True):
        assert array.shape == (1, size) and (array.asnumpy() == size).all()


def test_batches_are_any_objects():
    loader = DataLoader([1, 2], 2, num_workers=1, batchify_fn=lambda samples: {
        "text": "a", "samples": samples, "empty": np.zeros((0, 3)), "array": mx.nd.ones(2),
        "turned": np.arange(6).reshape(2, 3).T, "sparse": mx.nd.ones((2, 2)).tostype("csr")})
    (batch,) = loader
    assert batch["text"] == "a" and batch["samples"] == [1, 2] and batch["empty"].shape == (0, 3)
    assert batch["array"].context == mx.cpu() and batch["array"].asnumpy().tolist() == [1, 1]
    assert batch["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert batch["sparse"].stype == "csr" and batch["sparse"].asnumpy().tolist() == [[1, 1]] * 2
    batch["turned"][:] = 1    # the consumer's own


@pytest.mark.parametrize("version, chosen, method", [
    ((3, 14), "forkserver", "fork"), ((3, 14), None, "fork"), ((3, 14), "spawn", "spawn"),
    ((3, 13), "forkserver", "forkserver"), ((3, 13), None, "fork")])
def test_python_3_14_forks_workers_as_its_predecessors(monkeypatch, version, chosen, method):
    """Its own default, "forkserver", is what `get_start_method` returns after the first lock."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: chosen)
    assert worker_processes._start_method() == method


@forked
def test_memory_that_is_not_there_is_named(monkeypatch):
    def refuse(descriptor, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(MXNetError, match=r"no shared memory of 65,536 bytes.*No space"):
        list(DataLoader([1, 2], 2, num_workers=1))


@forked
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(what):
    """Nothing is left in shared memory, either: what they share has no name."""
    parent = program("wait")
    workers = [int(each) for each in parent.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(1)       # until it waits for a batch
    with ended(parent):
        shared = [file for each in [parent.pid, *workers] for file in shared_memory_of(each)]
        assert sum("nbmod-batch" in file for file in shared) >= 2
        assert [file for file in shared if not file.endswith("(deleted)")] == []
        parent.send_signal(what)
        out, errors = parent.communicate(timeout=100)
    assert (out, errors) == ("0\n" if what == signal.SIGINT else "", "")
    while any(is_running(each) for each in workers):    # the test's time limit ends this
        time.sleep(0.01)


def shared_memory_of(process):
    """The files whose memory a process writes and shares with others."""
    mappings = (line.split(maxsplit=5)
                for line in Path(f"/proc/{process}/maps").read_text().splitlines())
    return [mapping[5].strip() for mapping in mappings if mapping[1] == "rw-s"]


@contextmanager
def ended(process):
    """A process that ends with the block, so that a failure leaves nothing to other tests."""
    with process:
        try:
            yield
        finally:
            process.kill()


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
