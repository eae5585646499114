"""`mx.gluon.data.DataLoader`: batches are MXNet's, whoever makes them."""

from __future__ import annotations

import multiprocessing
import threading
import time

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import gluon_data

DataLoader = mx.gluon.data.DataLoader


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


def test_a_batch_without_samples_is_refused():
    with pytest.raises(MXNetError, match="no samples; check the batch sampler"):
        next(iter(DataLoader([1, 2], batch_sampler=[[]])))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1, "thread_pool": True},
                                     {"num_workers": 3, "thread_pool": True, "prefetch": 0}])
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


def test_two_epochs_of_a_loader_run_at_once():
    loader = DataLoader(list(range(4)), 2, num_workers=2, thread_pool=True)
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
