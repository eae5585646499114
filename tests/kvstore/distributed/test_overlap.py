"""Exchange during the backward pass: the same bits as after it, and as in one process."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import nbmod as mx
from nbmod.kvstore.distributed.bucket import Bucket

from .threads import on_ranks

BATCH, BATCHES = 8, 5
RS = np.random.RandomState(3)
DATA = RS.randn(BATCH * BATCHES * 4, 3, 8, 8).astype("f4")
LABEL = RS.randint(0, 4, len(DATA)).astype("f4")


@pytest.fixture(autouse=True)
def overlapped(monkeypatch):
    """On one host nothing is overlapped by default."""
    monkeypatch.setenv("NBMOD_DIST_OVERLAP", "1")


def network():
    x = mx.sym.Variable("data")
    for number in range(3):
        x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), name=f"conv{number}")
        x = mx.sym.Activation(x, act_type="relu")
    shared = mx.sym.Variable("shared_weight")       # read, and written, by two steps
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=48, name="fc")
    for number in range(2):
        x = mx.sym.FullyConnected(x, shared, num_hidden=48, no_bias=True, name=f"shared{number}")
        x = mx.sym.tanh(x)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=4, name="last"), name="softmax")


def initial(symbol):
    shapes, _, _ = symbol.infer_shape(data=(BATCH, 3, 8, 8))
    rs = np.random.RandomState(7)
    return {name: mx.nd.array(rs.randn(*shape) * 0.1)
            for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
            if name not in ("data", "softmax_label")}


def samples(ranks, chosen):
    """The parts of the given ranks of every global batch of `ranks` times BATCH samples."""
    each = [slice(BATCH * (ranks * batch + rank), BATCH * (ranks * batch + rank + 1))
            for batch in range(BATCHES) for rank in chosen]
    return [np.concatenate([array[part] for part in each]) for array in (DATA, LABEL)]


def fit(store, ranks, chosen, devices=1, **options):
    symbol = network()
    data, label = samples(ranks, chosen)
    module = mx.mod.Module(symbol, context=[mx.cpu(i) for i in range(devices)])
    module.fit(mx.io.NDArrayIter(data, label, BATCH * len(chosen)), num_epoch=2, kvstore=store,
               optimizer="adam", optimizer_params={"learning_rate": 0.01},
               arg_params=initial(symbol), **options)
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}, module


def same(found, expected):
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 4])   # the mean of 3 equal copies in one process is rounded
@pytest.mark.parametrize("overlap", ["0", "1"])
def test_training_is_that_of_one_process(ranks, overlap, monkeypatch):
    """P ranks and a batch of B in all are one process with P contexts and a batch of B."""
    monkeypatch.setenv("NBMOD_DIST_OVERLAP", overlap)
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "2000")
    expected, _ = fit("local", ranks, range(ranks), devices=ranks)
    for found in on_ranks(ranks, lambda store: fit(store, ranks, [store.rank])[0]):
        same(found, expected)


@pytest.mark.parametrize(("hosts", "expected"), [(["a", "a"], False), (["a", "b"], True)])
def test_by_default_only_exchanges_between_hosts_overlap(hosts, expected, monkeypatch):
    monkeypatch.delenv("NBMOD_DIST_OVERLAP")

    def train(store):
        store.communicator.hosts = hosts
        found = set()
        fit(store, 2, [store.rank], batch_end_callback=lambda _: found.add(bool(store.overlap)))
        return found

    assert on_ranks(2, train) == [{expected}] * 2


@pytest.mark.parametrize("overlap", ["0", "1"])
@pytest.mark.parametrize("devices", [1, 2])
def test_fit_stores_parameters_where_they_are_used(overlap, devices, monkeypatch):
    """A pull to the only device copies nothing; the store has what a callback assigns."""
    monkeypatch.setenv("NBMOD_DIST_OVERLAP", overlap)
    shared, gather = set(), Bucket.all_gather

    def gather_late(bucket, arrays):
        time.sleep(0.01)
        gather(bucket, arrays)

    monkeypatch.setattr(Bucket, "all_gather", gather_late)

    def assign(param, late=None):
        """After batches 1 and 2, of which one rank each is late: the exchange has ended then."""
        if param.nbatch in (1, 2):
            time.sleep(0.05 if late == param.nbatch - 1 else 0)
            param.locals["self"].set_params({"fc_bias": mx.nd.full((48,), param.nbatch / 4)}, {},
                                            allow_missing=True)

    def used(module):
        group = module._exec_group
        return group.param_arrays[group.param_names.index("fc_weight")][0]._data

    def train(store):
        def look(param):
            assign(param, late=store.rank)
            shared.add(store._stored["fc_weight"]._data is used(param.locals["self"]))

        found, module = fit(store, 2, [store.rank], devices, batch_end_callback=look)
        assert store._stored["fc_weight"]._data is not used(module)
        return found

    first, second = on_ranks(2, train)
    same(first, second)
    if devices == 1:    # sums of two devices on each of two ranks have another order
        same(first, fit("local", 2, range(2), 2, batch_end_callback=assign)[0])
    assert shared == {devices == 1}


def test_it_can_be_seen(monkeypatch):
    """What waits and what completes a bucket is in the table of steps, and in the trace."""
    monkeypatch.setattr("nbmod.kvstore.distributed.overlap.FIRST_BUCKET_BYTES", 1000)
    monkeypatch.setattr("nbmod.kvstore.distributed.overlap.BUCKET_BYTES", 4000)
    shown = []

    def look(param):
        executor = param.locals["self"]._exec_group.execs[0]
        shown.append((executor.debug_str(), len(executor.planned.watchers)))

    mx.profiler.set_config(profile_all=True, filename="unused.json")
    mx.profiler.set_state("run")
    try:
        _, second = on_ranks(2, lambda store: fit(store, 2, [store.rank], batch_end_callback=look))
        events = {event["name"] for event in mx.profiler.session.RECORDER.events}
    finally:
        mx.profiler.set_state("stop")
        mx.profiler.session.RECORDER.clear()
    text, watchers = shown[0]
    buckets = {int(number) for number in re.findall(r"-- completes bucket (\d+) --", text)}
    assert len(buckets) > 2 and watchers == 1
    assert buckets == {int(n) for n in re.findall(r"-- first reads bucket (\d+) --", text)}
    forward, backward = text.split("-- backward --")
    assert "completes" not in forward and "completes bucket 0 " in backward
    for bucket in buckets:
        assert {f"reduce-scatter of bucket {bucket}", f"all-gather of bucket {bucket}"} <= events
    assert second[1]._exec_group.execs[0].planned.watchers == []    # none is left after fit


def test_parameters_are_complete_whenever_they_are_read():
    """By callbacks within an epoch, and by validation in the middle of training."""
    def train(store):
        seen = []

        def look(param):
            seen.append({name: value.asnumpy().copy() for name, value
                         in param.locals["self"].get_params()[0].items()})

        found, _ = fit(store, 2, [store.rank], batch_end_callback=look,
                       eval_data=mx.io.NDArrayIter(DATA[:BATCH], LABEL[:BATCH], BATCH))
        same(seen[-1], found)
        return seen

    first, second = on_ranks(2, train)
    for one, other in zip(first, second, strict=True):
        same(one, other)


def test_gradients_that_callbacks_change_are_those_that_are_pushed():
    """A callback before the update sees complete gradients of its own rank, so nothing overlaps."""
    class Halve:
        def before_update(self, param):
            module = param.locals["self"]
            assert module._kvstore.overlap is None
            for copies in module._exec_group.grad_arrays:
                for grad in copies:
                    grad *= 0.5

        def __call__(self, param):
            pass

    expected, _ = fit("local", 2, range(2), devices=2, batch_end_callback=Halve())
    for found in on_ranks(2, lambda store: fit(store, 2, [store.rank],
                                               batch_end_callback=Halve())[0]):
        same(found, expected)


def test_buckets_of_a_bucketing_module():
    """All buckets share the exchange; batches of other lengths are other executors."""
    def sym_gen(length):
        x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=10, output_dim=6, name="embed")
        x = mx.sym.FullyConnected(mx.sym.mean(x, axis=1), num_hidden=4, name="fc")
        return mx.sym.SoftmaxOutput(x, name="softmax"), ("data",), ("softmax_label",)

    def batches(chosen):
        rs = np.random.RandomState(5)
        for number in range(6):
            length = (5, 7)[number % 2]
            data, label = rs.randint(0, 10, (8, length)), rs.randint(0, 4, 8)
            part = slice(4 * chosen[0], 4 * (chosen[-1] + 1))
            shape = (4 * len(chosen), length)
            yield mx.io.DataBatch(
                [mx.nd.array(data[part])], [mx.nd.array(label[part])], bucket_key=length,
                provide_data=[mx.io.DataDesc("data", shape)],
                provide_label=[mx.io.DataDesc("softmax_label", shape[:1])])

    class Iterator(mx.io.DataIter):
        def __init__(self, chosen):
            super().__init__(4 * len(chosen))
            self.chosen = chosen
            self.default_bucket_key = 7
            self.provide_data = [mx.io.DataDesc("data", (self.batch_size, 7))]
            self.provide_label = [mx.io.DataDesc("softmax_label", (self.batch_size,))]
            self.reset()

        def reset(self):
            self.remaining = batches(self.chosen)

        def next(self):
            return next(self.remaining)

    def train(store, chosen, devices=1):
        module = mx.mod.BucketingModule(sym_gen, 7, context=[mx.cpu(i) for i in range(devices)])
        shapes = {"embed_weight": (10, 6), "fc_weight": (4, 6), "fc_bias": (4,)}
        rs = np.random.RandomState(1)
        module.fit(Iterator(chosen), num_epoch=2, kvstore=store, optimizer="sgd",
                   optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
                   arg_params={name: mx.nd.array(rs.randn(*shape))
                               for name, shape in shapes.items()})
        return {name: value.asnumpy() for name, value in module.get_params()[0].items()}

    expected = train("local", [0, 1], devices=2)
    for found in on_ranks(2, lambda store: train(store, [store.rank])):
        same(found, expected)


def test_an_error_of_an_exchange_is_raised_by_fit(monkeypatch):
    def broken(self, gradients, compression=None):
        raise RuntimeError("the cable is cut")

    monkeypatch.setattr(Bucket, "reduce_scatter", broken)
    with pytest.raises(mx.MXNetError, match="an exchange failed: the cable is cut"):
        on_ranks(2, lambda store: fit(store, 2, [store.rank]))
