"""A Trainer in several processes steps as one in one process with as many contexts.

Ranks are threads here (`threads`); `test_mpi` runs `trained` in processes.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, gluon
from nbmod.gluon import nn

from .threads import on_ranks

ROWS, STEPS = 6, 4


def network(contexts, seed):
    """A hybridized network with values that differ by seed."""
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(40, "tanh", in_units=7), nn.BatchNorm(in_channels=40),
                    nn.Dense(3, in_units=40))
    net.initialize(mx.init.Zero(), ctx=contexts)
    random = np.random.RandomState(seed)
    for each in net.collect_params().values():
        each.set_data(mx.nd.array(random.uniform(0.5, 1, each.shape)))
    net.hybridize()
    return net


def batch(rank, step):
    random = np.random.RandomState(10 * rank + step)
    return random.normal(size=(ROWS, 7)).astype("f4"), random.randint(0, 3, ROWS).astype("f4")


def steps(net, trainer, ranks, chosen, first, last):
    """Step from `first` to `last`; each of the chosen parts of the batch is on a context."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    contexts = net[0].weight.list_ctx()
    for step in range(first, last):
        losses = []
        with autograd.record():
            for rank, ctx in zip(chosen, contexts, strict=True):
                x, label = (mx.nd.array(each, ctx) for each in batch(rank, step))
                losses.append(loss_of(net(x), label))
        autograd.backward(losses)
        trainer.step(ROWS * ranks)


def trained(store, ranks, chosen, updates, path=None, seed=0):
    """The parameters after some steps; with `path`, another trainer makes the second half of them
    from the states of the first."""
    contexts = [mx.cpu(number) for number in range(len(chosen))]
    net = network(contexts, seed)
    stores = [store() for _ in range(1 + bool(path))]
    middle = STEPS // 2 if path else STEPS
    for kvstore, first, last in zip(stores, (0, middle), (middle, STEPS), strict=False):
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}, kvstore,
                                update_on_kvstore=updates)
        if first:
            trainer.load_states(path)
        steps(net, trainer, ranks, chosen, first, last)
        if path and not first:
            trainer.save_states(path)
    return {name: each.data(contexts[0]).asnumpy()
            for name, each in net.collect_params().items() if "running" not in name}


def trained_both_ways(kind, ranks, chosen):
    """Those of stores that update the parameters, and of stores that do not."""
    return {f"{name}, updates {updates}": array for updates in (True, False)
            for name, array in trained(lambda: kind, ranks, chosen, updates).items()}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("updates", [True, False])
def test_bits_are_those_of_one_process(ranks, updates, tmp_path, monkeypatch):
    """And they go on from files as if they had not stopped."""
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "100")
    expected = trained(lambda: "device", ranks, [*range(ranks)], updates)
    begun = network([mx.cpu()], 0).collect_params()
    assert all(not np.array_equal(begun[name].data().asnumpy(), expected[name])
               for name in expected)
    def again(store, **options):
        return trained(lambda: type(store)(store.type, store.communicator), ranks, [store.rank],
                       updates, **options)

    for path in (None, str(tmp_path / "states")):
        for found in on_ranks(ranks, lambda store, path=path: again(
                store, path=path and path + str(updates or store.rank))):
            same(found, expected)
    first, *others = on_ranks(ranks, lambda store: again(store, seed=store.rank))
    for found in others:    # the first step gives all ranks the values of rank 0
        same(found, first)
