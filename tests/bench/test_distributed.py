"""`bench.distributed`: links, throttled exchanges, and the model of a step."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbmod as mx
from bench import distributed, timelines
from bench.step_model import HostCost, StepModel
from bench.throttled import UNLIMITED, Link, ThrottledCommunicator
from bench.timelines import Timeline, Training
from nbmod.kvstore.distributed.communicator import offsets_of
from tests.kvstore.distributed.launched import absence
from tests.kvstore.distributed.threads import on_ranks

LINK = Link(8e6, 0.001)
"""A MB takes a second."""
LINE = Timeline(shapes={"first": (2000, 1000), "last": (1200, 1000)},
                reads={"first": 0.0, "last": 1.0}, finals={"first": 5.0, "last": 3.0},
                backward=5.0, update=0.5, step=6.0)
"""Two keys of 8 and 4.8 MB, which are a bucket each and cut evenly."""


def test_an_exchange_takes_the_time_of_the_link():
    assert LINK.alltoallv(4, 2_000_000, 1_000_000) == pytest.approx(2.003)
    assert LINK.allgatherv(4, 500_000) == pytest.approx(1.503)
    assert LINK.allgather(512, 0) == pytest.approx(0.009)
    assert UNLIMITED.alltoallv(4, 2_000_000, 1) == 0


def test_throttled_exchanges_are_those_of_the_communicator():
    """The same values, asleep for the rest of the link's time; duplicates are throttled, too."""
    counts = [100_000, 300_000, 0]

    def run(store):
        slept = []
        throttled = ThrottledCommunicator(store.communicator, sleep=slept.append)
        exchanges = throttled.duplicate()
        throttled.link = Link(8e3, 0.0)
        rank = throttled.rank
        throttled.operation = "test"
        assert store.communicator.operation == "test"
        sent = np.arange(400_000, dtype="f4") + rank
        received = np.empty(3 * counts[rank], "f4")
        exchanges.alltoallv(sent, counts, received, [counts[rank]] * 3)
        begin, end = offsets_of(counts)[rank:rank + 2]
        expected = np.concatenate([np.arange(begin, end, dtype="f4") + other for other in range(3)])
        np.testing.assert_array_equal(received, expected)
        whole = np.zeros(400_000, "f4")
        whole[begin:end] = rank + 1
        exchanges.allgatherv(whole, counts)
        np.testing.assert_array_equal(whole, np.repeat([1, 2, 3], counts))
        np.testing.assert_array_equal(exchanges.allgather(np.array([rank])), [[0], [1], [2]])
        assert throttled.seconds > 0
        return slept

    for rank, (scatter, gather, _) in enumerate(on_ranks(3, run)):
        moved = 4 * max(400_000 - counts[rank], 2 * counts[rank])
        assert 0 < scatter <= moved / 1e3                   # less what the exchange has taken
        assert 0 < gather <= 2 * 4 * 300_000 / 1e3


def test_a_step_of_the_model_worked_out_by_hand():
    """Two ranks; half of each bucket moves: 4 s for first, 2.4 s for last, and 1 ms for the latency
    of each exchange.

    last is reduced from 3 to 5.401, first from then to 9.402; updates end at 9.652, and first
    arrives at 13.653, last at 16.054, which is 15.054 after the time at which it is read.
    """
    model = StepModel(LINE, 2, LINK)
    assert [[key.name for key in part] for part in model.buckets] == [["last"], ["first"]]
    assert model.exchange == pytest.approx(12.804)
    assert model.seconds() == pytest.approx(15.054)
    assert model.alone == pytest.approx(5.75)
    assert model.hidden == pytest.approx(1 - (15.054 - 5.75) / 12.804)


def test_exchange_that_takes_no_time_changes_nothing_but_the_update():
    model = StepModel(LINE, 4, UNLIMITED)
    assert model.seconds() == pytest.approx(6.0 - 0.75 * 0.5) == pytest.approx(model.alone)


@given(st.integers(2, 600), st.floats(1e6, 1e12), st.floats(0, 1e-3))
def test_faster_links_and_less_work_are_never_slower(ranks, bandwidth, latency):
    slow = StepModel(LINE, ranks, Link(bandwidth, latency), HostCost(1e-9, 1e-9))
    for faster in (StepModel(LINE, ranks, Link(2 * bandwidth, latency), HostCost(1e-9, 1e-9)),
                   StepModel(LINE, ranks, Link(bandwidth, latency / 2), HostCost(1e-9, 1e-9)),
                   StepModel(LINE, ranks, Link(bandwidth, latency))):
        assert faster.seconds() <= slow.seconds() + 1e-9
    assert slow.seconds() <= slow.alone + slow.exchange + Link(bandwidth, latency).allgather(
        ranks, 1) + 1e-9
    assert slow.alone <= slow.seconds() + 1e-9


def test_equal_parts_move_the_bytes_of_a_ring():
    """2 N (P - 1) / P of reduce-scatter and all-gather."""
    model = StepModel(replace(LINE, shapes={"first": (1000, 1000), "last": (1000, 600)}), 8,
                      Link(8.0, 0.0))
    assert model.exchange == pytest.approx(2 * 6_400_000 * 7 / 8)
    assert StepModel(LINE, 8, Link(inf, 0.25)).exchange == pytest.approx(4 * 7 * 0.25)


def test_the_timeline_of_a_network():
    """Every parameter is read in the forward pass, and final in the reverse order."""
    line = Training("lenet", 4).timeline(2)
    assert list(line.shapes) == ["conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias",
                                 "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]
    assert line.shapes["conv1_weight"] == (20, 1, 5, 5)
    weights = [name for name in line.shapes if name.endswith("weight")]
    assert sorted(weights, key=line.reads.__getitem__) == weights
    assert sorted(weights, key=line.finals.__getitem__) == weights[::-1]
    assert max(line.reads.values()) <= min(line.finals.values())
    assert max(line.finals.values()) <= line.backward < line.backward + line.update < line.step


def test_ranks_train_through_a_throttled_store(monkeypatch):
    """As by a plain one, bit for bit; ranks are threads, which must not draw random numbers."""
    monkeypatch.setattr(timelines, "Small", mx.init.Constant)

    def train(store, throttles):
        if throttles:
            store.communicator = ThrottledCommunicator(store.communicator, Link(1e9, 1e-4))
        training = Training("lenet", 4, store)
        training.fit(3, lambda module: None)
        return training.module.get_params()[0]["fc1_weight"].asnumpy()

    plain, throttled = (on_ranks(2, lambda store, given=given: train(store, given))
                        for given in (False, True))
    assert plain[0].std() > 0
    for one in (*plain, *throttled):
        np.testing.assert_array_equal(one, plain[0])


@pytest.mark.skipif(bool(absence()), reason=absence() or "MPI is present")
def test_ranks_find_figures():
    exchange = distributed.launch(2, ["exchange"])
    assert [one["keys"] for one in exchange] == ["4 keys of 25 MB", "keys of ResNet-50"]
    assert all(one[what] > 0 for one in exchange for what in ("store", "host reduce", "allreduce"))
    alone, after, during = distributed.launch(
        2, ["train", "lenet", "4", "2", "alone", "plain,0", "throttled,1,0.1,50"], threads=1)
    assert distributed.timeline_of(alone).shapes["conv1_weight"] == (20, 1, 5, 5)
    assert after["waited"] == after["exchange"] == 0 < after["step"]
    # the largest key has 1.6 MB and one owner, to and from whom it moves at 0.1 Gbit/s
    assert during["exchange"] > 0.25 and 0 < during["waited"] < during["step"]
