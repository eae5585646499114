"""Stores of several GPUs: gradients are reduced in place, by one launch for each device that
stores sums, in the order of the devices."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager

import numpy as np
import pytest

import nbmod as mx
from nbmod.kvstore import nccl
from nbmod.ops import device
from nbmod.ops.cuda import device as gpu_device
from nbmod.ops.cuda.runtime import launch, simulator
from tests.compare import assert_same
from tests.programs.kvstore_programs import nd

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
            grads[1][:] = -grads[1]     # prepared calls read copied arrays again
        run.step()
    assert runs[0].bits() == runs[1].bits()


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("optimizer", [None, ("sgd",)])
def test_one_launch_a_device_and_no_copies(count, optimizer, monkeypatch):
    """Sums, updates and pulled arrays: one launch each on every device that takes part."""
    if not launch.SIMULATED:
        pytest.skip("counts what the simulator does")
    run = Run(there(count), optimizer=optimizer)
    run.step()
    done = {"run": 0, "PreparedLaunch": 0, "move": 0, "upload": 0}
    for owner, what in ((simulator, "run"), (simulator, "PreparedLaunch"), (simulator.Card, "move"),
                        (simulator.Card, "upload")):
        real = getattr(owner, what)

        def counted(*args, what=what, real=real):
            done[what] += 1
            return real(*args)
        monkeypatch.setattr(owner, what, counted)
    run.step()
    assert done == {"run": count * (3 if optimizer else 2), "PreparedLaunch": 0, "move": 0,
                    "upload": 0}
    run.grads[0][0] = run.grads[0][0].copy()
    done["PreparedLaunch"] = 0
    run.step()
    assert done["PreparedLaunch"] > 0, "other arrays: prepared again"


@pytest.mark.gpu
def test_devices_share_the_keys():
    run = Run(there(2))
    run.step()
    kept = {ctx: [name for name in SHAPES if run.store._stored[name].context == ctx]
            for ctx in run.contexts}
    assert kept == {mx.gpu(0): list("adegik"), mx.gpu(1): list("bcfhj")}


@pytest.mark.gpu
def test_arrays_that_share_memory_are_written_in_turn():
    """The last write remains."""
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
    """Results are bitwise independent of the number of devices; draws happen in one order."""
    runs = []
    for contexts in (there(count), [mx.gpu(3)] * count):
        mx.random.seed(1)
        runs.append(Run(contexts, optimizer=(name,)))
        runs[-1].step()
        runs[-1].step()
    assert runs[0].bits() == runs[1].bits()


# -- NCCL -----------------------------------------------------------------------------------------


class Card(simulator.Card):
    """One of four GPUs."""

    @staticmethod
    def count():
        return 4

    def __init__(self, number):
        super().__init__(number)
        self.stream, self.reached = 100 + number, set()

    def reaches(self, other):
        self.reached.add(other.number)
        return True

    def meet(self, cards):
        """Work is complete when it is submitted."""

    def receive(self, other, source, target, nbytes):
        self.move(source, target, nbytes)
        return True


class Library:
    """The functions used of `nccl.core`: checks arguments, and executes at the end of a group."""

    SUM = "sum"

    def __init__(self):
        self.Communicator, self.done, self.begun, self.error = self, [], [], None

    def init_all(self, numbers):
        if self.error:
            raise self.error
        return [Communicator(self, numbers, rank) for rank in range(len(numbers))]

    @contextmanager
    def group(self):
        self.begun = []
        yield
        names, roots, counts, kinds, ranks = zip(*[call[:5] for call in self.begun], strict=True)
        assert len({*zip(names, roots, counts, kinds, strict=True)}) == 1, "all say the same"
        assert sorted(ranks) == list(range(self.begun[0][5])), "and all take part"
        given = {rank: elements for (*_, elements), rank in zip(self.begun, ranks, strict=True)}
        if names[0] == "reduce":
            total = given[0].copy()
            for rank in range(1, len(given)):
                total += given[rank]
            given[roots[0]][:] = total
        else:
            for elements in given.values():
                elements[:] = given[roots[0]]
        self.done.append((names[0], roots[0], int(counts[0]), kinds[0]))


class Communicator:
    """Of one GPU."""

    def __init__(self, library, numbers, rank):
        self.library, self.numbers, self.rank = library, numbers, rank

    def _call(self, name, array, out, root, stream):
        assert array is out and array.device.card.number == self.numbers[self.rank]
        assert stream == 100 + self.numbers[self.rank]
        found = array.__cuda_array_interface__
        (address, is_read_only), (count,) = found["data"], found["shape"]
        assert not is_read_only
        memory = (ctypes.c_char * array.nbytes).from_address(address)
        self.library.begun.append((name, root, count, found["typestr"], self.rank,
                                   len(self.numbers), np.frombuffer(memory, found["typestr"])))

    def reduce(self, array, out, operation, root, *, stream):
        assert operation == Library.SUM
        self._call("reduce", array, out, root, stream)

    def broadcast(self, array, out, root, *, stream):
        self._call("broadcast", array, out, root, stream)


@pytest.fixture
def library(monkeypatch):
    """Four GPUs in the simulator, and a library that connects them."""
    if not launch.SIMULATED:
        pytest.skip("stands in for cards and for NCCL")
    made = Library()
    monkeypatch.setattr(nccl, "_library", lambda: made)
    monkeypatch.setattr(gpu_device, "Card", Card)
    monkeypatch.setattr(device, "_gpus", {})
    caches = gpu_device._card, gpu_device.gpu_count, nccl._started
    for cache in caches:
        cache.cache_clear()
    yield made
    for cache in caches:
        cache.cache_clear()


SIZE = sum(int(np.prod(shape)) for shape in SHAPES.values())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, kind", [("float32", "<f4"), ("float16", "<f2"),
                                         ("float64", "<f8"), ("int32", None)])
@pytest.mark.parametrize("optimizer", [None, ("sgd",)])
@pytest.mark.parametrize("gpus", [[0, 1], [2, 0, 3], [3, 2, 1, 0]], ids=str)
def test_nccl_is_called_once_for_sums_and_once_for_values(library, gpus, optimizer, dtype, kind):
    """On every GPU, for all keys, on its stream; the first GPU has the stored value.  Integers,
    which are no gradients, take the default path."""
    contexts = [mx.gpu(i) for i in gpus]
    if optimizer and dtype in ("int32", "float16"):
        return      # is refused, or warned of
    runs = [Run(contexts, dtype, store, optimizer) for store in ("device", "nccl")]
    for run in runs:
        run.step()
        run.step()
    for mine, theirs in zip(*[[out.asnumpy() for outs in run.outs for out in outs]
                              for run in runs[::-1]], strict=True):
        assert_same(mine, theirs, 1e-3 if dtype == "float16" else 1e-6, "pulled")
    root = sorted(gpus).index(gpus[0])
    assert library.done == (2 * [("reduce", root, SIZE, kind), ("broadcast", root, SIZE, kind)]
                            if kind else [])
    for card in [gpu_device._card(i) for i in gpus if kind]:
        assert card.reached >= set(gpus) - {card.number}, "NCCL may use their memory directly"


@pytest.mark.gpu
def test_nccl_connects_the_gpus_that_have_something_to_say(library):
    """Keys of other GPUs, or of the CPU, in one call."""
    store = mx.kv.create("nccl")
    store.init(list("abcd"), [mx.nd.zeros((2,))] * 4)
    places = [[0, 1], [1, 2], [1, 2], [0, None]]
    values = [[mx.nd.full((2,), 2 ** i, ctx=mx.cpu() if gpu is None else mx.gpu(gpu))
               for i, gpu in enumerate(gpus)] for gpus in places]
    outs = [mx.nd.zeros((2,), ctx=mx.gpu(3)) for _ in places]
    store.pushpull(list("abcd"), values, out=outs)
    assert [out.asnumpy().tolist() for out in outs] == [[3, 3]] * 4
    # The last key stays on the CPU, that of gpu(0) and both of gpu(1) go to gpu(3).
    assert library.done == [("reduce", 0, 2, "<f4"), ("reduce", 0, 4, "<f4"),
                            ("broadcast", 0, 2, "<f4"), ("broadcast", 0, 4, "<f4")]


@pytest.mark.gpu
def test_what_nccl_cannot_do_is_told(library, monkeypatch):
    store, one = mx.kv.create("nccl"), mx.nd.ones((2,), ctx=mx.gpu(1))
    store.init("a", one)
    with pytest.raises(mx.MXNetError, match=r"2 values on gpu\(1\), expected one on each GPU"):
        store.push("a", [one, one, one.as_in_context(mx.gpu(0))])
    library.error = RuntimeError("unhandled system error")
    with pytest.raises(mx.MXNetError, match=r"on gpu\(0\), gpu\(1\): unhandled system error; NC"):
        store.push("a", [one, one.as_in_context(mx.gpu(0))])
    library.error = None
    monkeypatch.setattr(gpu_device._card(1), "number", 0)
    with pytest.raises(mx.MXNetError, match=r"of gpu\(0\), gpu\(1\) some are one card"):
        store.push("a", [one, one.as_in_context(mx.gpu(0))])


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_modules_train_by_nccl(library):
    rng, x = np.random.default_rng(0), mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3)
    net = mx.sym.SoftmaxOutput(x, name="softmax")
    data = rng.standard_normal((12, 4)).astype("float32")
    found = []
    for kind in ("nccl", "device"):
        mx.random.seed(1)
        module = mx.mod.Module(net, context=there(3))
        module.fit(mx.io.NDArrayIter(data, np.arange(12) % 3, 6), num_epoch=2, kvstore=kind)
        found.append({name: value.asnumpy() for name, value in module.get_params()[0].items()})
    for name, value in found[1].items():
        assert_same(found[0][name], value, 1e-6, name)
    assert [call[0] for call in library.done[-4:]] == ["reduce", "broadcast"] * 2
