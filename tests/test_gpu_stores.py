"""Stores of several GPUs: gradients are added where they are, by one launch for each device that
keeps sums, in the order of the devices."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda import launch, simulator
from tests.compare import assert_same
from tests.kvstore_programs import nd

SHAPES = {"a": (3, 5), "b": (1,), "c": (20,), "d": (2, 3), "e": (4, 1),
          "f": (9,), "g": (8,), "h": (7,), "i": (6,), "j": (6,), "k": (2,)}
"""Some are several parts, some less than one; four devices keep two of them at least."""


def gradients(count, dtype):
    """Of many magnitudes: in another order their sums differ."""
    rng = np.random.default_rng(count)
    return {name: [(rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
                   for _ in range(count)] for name, shape in SHAPES.items()}


class Run:
    """A store, and arrays on devices that are pushed to it and pulled from it."""

    def __init__(self, contexts, dtype="float32", kind="device", optimizer=None):
        self.store, self.names = mx.kv.create(kind), list(SHAPES)
        self.contexts, self.dtype = contexts, dtype
        values = gradients(len(contexts), dtype)
        self.store.init(self.names, [nd(mx, values[name][0]) for name in self.names])
        if optimizer:
            self.store.set_optimizer(mx.optimizer.create(*optimizer))
        self.grads = [[nd(mx, value).as_in_context(ctx) for value, ctx in
                       zip(values[name], contexts, strict=True)] for name in self.names]
        self.outs = [[mx.nd.zeros(SHAPES[name], ctx=ctx, dtype=dtype) for ctx in contexts]
                     for name in self.names]

    def step(self):
        self.store.pushpull(self.names, self.grads, out=self.outs)

    def bits(self):
        return [out.asnumpy().tobytes() for outs in self.outs for out in outs]


def here(count):
    return [mx.cpu(i) for i in range(count)]


def there(count):
    return [mx.gpu(i) for i in range(count)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", ["device", "local"])
def test_sums_are_those_of_the_cpu_bit_for_bit(kind, count, dtype):
    runs = [Run(contexts, dtype, kind) for contexts in (here(count), there(count))]
    for run in runs:
        run.step()
        run.step()
    assert runs[0].bits() == runs[1].bits()


@pytest.mark.gpu
@pytest.mark.parametrize("contexts", [
    [mx.gpu(1), mx.cpu(), mx.gpu(0)], [mx.cpu(), mx.gpu(2)], [mx.gpu(3), mx.gpu(3)]], ids=str)
def test_arrays_of_any_devices_meet(contexts):
    runs = [Run(here(len(contexts))), Run(contexts)]
    for run in runs:
        run.step()
        for grads in run.grads:
            grads[1][:] = -grads[1]     # what is prepared reads anew what was copied
        run.step()
    assert runs[0].bits() == runs[1].bits()


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("optimizer", [None, ("sgd",)])
def test_one_launch_a_device_and_no_copies(count, optimizer, monkeypatch):
    """Sums, updates and what is pulled: each is one launch on every device that has part in it."""
    if not launch.SIMULATED:
        pytest.skip("counts what the simulator does")
    run = Run(there(count), optimizer=optimizer)
    run.step()
    done = {"run": 0, "Start": 0, "move": 0, "upload": 0}
    for owner, what in ((simulator, "run"), (simulator, "Start"), (simulator.Card, "move"),
                        (simulator.Card, "upload")):
        real = getattr(owner, what)

        def counted(*args, what=what, real=real):
            done[what] += 1
            return real(*args)
        monkeypatch.setattr(owner, what, counted)
    run.step()
    assert done == {"run": count * (3 if optimizer else 2), "Start": 0, "move": 0, "upload": 0}
    run.grads[0][0] = run.grads[0][0].copy()
    done["Start"] = 0
    run.step()
    assert done["Start"] > 0, "other arrays: prepared again"


@pytest.mark.gpu
def test_devices_share_the_keys():
    run = Run(there(2))
    run.step()
    kept = {ctx: [name for name in SHAPES if run.store._stored[name].context == ctx]
            for ctx in run.contexts}
    assert kept == {mx.gpu(0): list("adegik"), mx.gpu(1): list("bcfhj")}


@pytest.mark.gpu
def test_arrays_that_share_memory_are_written_in_turn():
    """The last one stays."""
    run, out = Run(there(2)), mx.nd.zeros((2, 3), ctx=mx.gpu(1))
    run.store.pull(["d", "d"], out=[out, out])
    run.store.pull(["a", "d"], out=[mx.nd.zeros((3, 5), ctx=mx.gpu(0)), out])
    assert_same(out.asnumpy(), gradients(2, "float32")["d"][0], 0, "pulled")
    wide = mx.nd.zeros((21,), ctx=mx.gpu(0))
    run.step()
    run.store.pull(["c", "b", "c"], out=[wide[:20], wide[0:1], wide[1:]])
    want = mx.nd.zeros((20,))
    run.store.pull("c", want)
    first = mx.nd.zeros((1,))
    run.store.pull("b", first)
    assert_same(wide.asnumpy(), np.concatenate([first.asnumpy(), want.asnumpy()]), 0, "views")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sgd", "adam", "sgld"])
@pytest.mark.parametrize("count", [2, 4])
def test_optimizers_step_every_key_where_it_is(name, count):
    """The bits are those of any number of devices, and random numbers are drawn in one order."""
    runs = []
    for contexts in (there(count), [mx.gpu(3)] * count):
        mx.random.seed(1)
        runs.append(Run(contexts, optimizer=(name,)))
        runs[-1].step()
        runs[-1].step()
    assert runs[0].bits() == runs[1].bits()
