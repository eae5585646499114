"""Distributed stores of ranks with several GPUs: sums on the devices of a rank, then over ranks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda.runtime import launch, simulator
from tests.kvstore.distributed.threads import on_ranks

SHAPES = {"a": (3, 5), "b": (1,), "c": (20,), "d": (2, 3), "e": (8, 4)}
TURNS = threading.Lock()
"""Ranks are threads here, and the simulator runs one kernel at a time."""


def gradient(name, rank, device, step):
    """Of many magnitudes: in another order the sums differ."""
    rng = np.random.default_rng([ord(name), rank, device, step])
    shape = SHAPES[name]
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype("f4")


def trained(store, contexts, optimizer=None, compression=None, steps=3):
    """What every device of a rank has pulled after some steps."""
    names = [*SHAPES]
    store.init(names, [mx.nd.ones(SHAPES[name]) for name in names])
    if compression:
        store.set_gradient_compression(compression)
    if optimizer:
        store.set_optimizer(mx.optimizer.create(optimizer))
    grads = [[mx.nd.zeros(SHAPES[name], ctx=ctx) for ctx in contexts] for name in names]
    outs = [[mx.nd.zeros(SHAPES[name], ctx=ctx) for ctx in contexts] for name in names]
    for step in range(steps):
        for name, arrays in zip(names, grads, strict=True):
            for device, array in enumerate(arrays):
                array[:] = gradient(name, store.rank, device, step)
        store.pushpull(names, grads, out=outs)
    return [out.asnumpy().tobytes() for arrays in outs for out in arrays]


@pytest.fixture
def _in_turns(monkeypatch):
    """Launches of the simulator happen one after the other."""
    if launch.SIMULATED:
        real = simulator.run

        def run(*args):
            with TURNS:
                return real(*args)

        monkeypatch.setattr(simulator, "run", run)


@pytest.mark.gpu
@pytest.mark.usefixtures("_in_turns")
@pytest.mark.parametrize("kind", ["dist_device_sync", "dist_sync"])
@pytest.mark.parametrize(("optimizer", "compression"), [
    (None, None), ("adam", None), ("sgd", {"type": "2bit", "threshold": 0.5})])
@pytest.mark.parametrize(("ranks", "devices"), [(2, 2), (3, 1), (1, 4)])
def test_bits_are_those_of_ranks_on_cpus(kind, optimizer, compression, ranks, devices, monkeypatch):
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "10")
    on_cpus, on_gpus = (
        on_ranks(ranks, lambda store, make=make: trained(
            store, [make(number) for number in range(devices)], optimizer, compression), kind)
        for make in (mx.cpu, mx.gpu))
    assert on_cpus == on_gpus
    assert all(found == on_gpus[0] for found in on_gpus)


@pytest.mark.gpu
def test_one_launch_sums_all_keys_on_each_device(monkeypatch):
    """The devices share the keys, and only the sums are downloaded."""
    if not launch.SIMULATED:
        pytest.skip("counts what the simulator does")
    done = {"run": 0, "download": 0}
    contexts = [mx.gpu(0), mx.gpu(1)]

    def count(store):
        trained(store, contexts, steps=1)
        grads = [[mx.nd.ones(shape, ctx=ctx) for ctx in contexts] for shape in SHAPES.values()]
        store.push([*SHAPES], grads)
        for owner, what in ((simulator, "run"), (simulator.Card, "download")):
            real = getattr(owner, what)

            def counted(*args, what=what, real=real):
                done[what] += 1
                return real(*args)
            monkeypatch.setattr(owner, what, counted)
        store.push([*SHAPES], grads)
        return {total.context for total in store._sums.values()}

    assert on_ranks(1, count, "dist_device_sync") == [{*contexts}]
    assert done == {"run": 2, "download": len(SHAPES)}
