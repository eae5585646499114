"""Backward passes that are planned once: the same bits as without plans, and no array is kept."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, nd
from nbmod.ndarray import tape_programs
from nbmod.ndarray.tape_programs import PROGRAMS
from tests.programs import tape_calls

Network = Callable[[Any, Any, Any], Any]
"""From arrays of shapes (3, 4), (4, 4) and (4,) to one or several heads."""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    PROGRAMS.clear()
    yield
    PROGRAMS.clear()


class Doubled(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * 2

    def backward(self, gy):
        x, = self.saved_tensors
        return gy * 2 + x * 0


@mx.operator.register("halved")
class _HalvedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        class Halved(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] / 2)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] / 2)

        return Halved()


def dense(x: Any, w: Any, b: Any) -> Any:
    return nd.FullyConnected(x, w, b, num_hidden=4)


def normalized(x: Any, w: Any, b: Any) -> Any:
    moving = nd.zeros(4), nd.ones(4)
    y = nd.BatchNorm(nd.dot(x, w), b, b, *moving, fix_gamma=False)
    return nd.concat(y, moving[0].reshape((1, 4)), dim=0)


def bound() -> Network:
    data, weight = mx.sym.var("data"), mx.sym.var("w")
    symbol = mx.sym.tanh(mx.sym.FullyConnected(data, weight, no_bias=True, num_hidden=4)) * 2
    nets: dict[int, Any] = {}

    def run(x: Any, w: Any, b: Any) -> Any:
        if id(w) not in nets:
            nets.clear()
            nets[id(w)] = nd.CachedOp(symbol, (), ["data"], lambda ctx: {"w": w})
        return (nets[id(w)](x) * nets[id(w)](x + b)).sum() + w.sum()

    return run


NETWORKS: dict[str, Network] = {
    "dense": lambda x, w, b: nd.relu(dense(nd.relu(dense(x, w, b)), w, b)),
    "convolution": lambda x, w, b: nd.Pooling(nd.Convolution(
        x.reshape((1, 3, 2, 2)), w[:, :3].reshape((4, 3, 1, 1)), b, kernel=(1, 1), num_filter=4),
        kernel=(2, 2), pool_type="max"),
    "statistics": normalized,
    "mask": lambda x, w, b: nd.Dropout(dense(x, w, b), p=0.5) * 3,
    "draws": lambda x, w, b: x * nd.random.uniform(shape=(3, 4)) + nd.sample_normal(b, b.exp()),
    "loss": lambda x, w, b: nd.SoftmaxOutput(dense(x, w, b), nd.array([0, 1, 2])),
    "table": lambda x, w, b: nd.Embedding(nd.array([0, 2, 2]), w, input_dim=4, output_dim=4) * x,
    "rows of a table": lambda x, w, b: x * nd.Embedding(
        nd.array([0, 2, 2]), w, input_dim=4, output_dim=4, sparse_grad=True),
    "csr": lambda x, w, b: nd.dot(nd.array(np.eye(3, 4)).tostype("csr"), w) * x,
    "views": lambda x, w, b: x[1:].T.reshape((2, 4)) * w[::2, [0, 1, 3, 3]] + b.reshape((1, 4)),
    "copies": lambda x, w, b: x.astype("float16").astype("float32") * x.copy() + b,
    "half": lambda x, w, b: dense(*[each.astype("float16") for each in (x, w, b)]).tanh(),
    "mask of values": lambda x, w, b: nd.contrib.boolean_mask(x, nd.array([1, 0, 1])) * b,
    "function": lambda x, w, b: Doubled()(x) * Doubled()(x + b),
    "custom": lambda x, w, b: nd.Custom(x * b, op_type="halved"),
    "blocked": lambda x, w, b: nd.BlockGrad(x) * b + nd.ones_like(w).sum(),
    "several": lambda x, w, b: [x * b, x.sum(), x * b, w],
    "head twice": lambda x, w, b: [y := x * b, y],
    "leaf": lambda x, w, b: x,
    "zeros": lambda x, w, b: [x * 0.0, x * -0.0],
    "other zeros": lambda x, w, b: [x * -0.0, x * 0.0],
    "other contexts": lambda x, w, b: x.as_in_context(mx.cpu(1)) * b.as_in_context(mx.cpu(1)),
    "bound": bound(),
}
SPARSE = {"rows of a table", "csr"}
"""Networks that an interpreter runs."""


def run(network: Network, requests: tuple[str, str, str], how: str = "backward") -> list[bytes]:
    """Results and gradients of some steps, in which the arrays change."""
    mx.random.seed(3)
    rng = np.random.default_rng(7)
    arrays = [nd.array(rng.uniform(0.5, 1, shape)) for shape in ((3, 4), (4, 4), (4,))]
    for array, request in zip(arrays, requests, strict=True):
        array.attach_grad(request)
    found: list[Any] = []
    for step in range(3):
        with autograd.record():
            made = network(*arrays)
        heads = made if isinstance(made, list) else [made]
        heads_grads = [nd.ones(head.shape, head.context, head.dtype) * (step + 1) for head in heads]
        if how == "grad":
            found += autograd.grad(heads, arrays[:1], heads_grads)
        else:
            autograd.backward(heads, heads_grads, retain_graph=how == "twice")
        if how == "twice":
            autograd.backward(heads, None)
        found += [*heads, *[array.grad for array in arrays if array.grad is not None]]
        found[:] = [each if isinstance(each, bytes) else each.asnumpy().tobytes() for each in found]
        for array in arrays:
            array[:] = array + 0.125
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_programs_compute_the_same_bits(name, monkeypatch):
    ways = [(("write",) * 3, "backward"), (("add", "write", "null"), "twice"),
            (("write", "null", "add"), "grad")]
    results = []
    for most in (PROGRAMS.most, 0):
        monkeypatch.setattr(PROGRAMS, "most", most)
        results.append([run(NETWORKS[name], *way) for way in ways])
        if name not in SPARSE:
            assert bool(PROGRAMS._programs) == bool(most) and None not in (
                PROGRAMS._programs.values())
        PROGRAMS.clear()
    assert results[0] == results[1]


def test_random_tapes_compute_the_same_bits(monkeypatch):
    def answers() -> list[Any]:
        return [tape_calls.run(mx, seed) for seed in range(60)]

    first, again = answers(), answers()
    monkeypatch.setattr(PROGRAMS, "most", 0)
    np.testing.assert_equal(first, interpreted := answers())
    np.testing.assert_equal(again, interpreted)


def step(seed: int = 0, length: int = 3, width: int = 4) -> list[Any]:
    """A chain of layers, differentiated: the arrays that took part."""
    x, w = (nd.random.uniform(shape=(width, width)) for _ in range(2))
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        arrays = [x]
        for _ in range(length):
            arrays.append(nd.relu(nd.dot(arrays[-1], w) * 0.5))
        total = arrays[-1].sum()
    total.backward()
    return [*arrays, w, x.grad, w.grad, total]


def test_equal_structures_are_differentiated_once(monkeypatch):
    made = []
    original = tape_programs.gradient
    monkeypatch.setattr(tape_programs, "gradient",
                        lambda *args: made.append(args) or original(*args))
    for shape in ((3, 4), (3, 4), (2, 4), (3, 5), (3, 4), (3, 5)):
        step(0, *shape)
    assert len(made) == len(PROGRAMS._programs) == 3


def test_leaves_that_are_heads_have_shapes_of_their_own():
    for shape, dtype in (((2,), "float32"), ((3, 2), "float32"), ((3, 2), "float64")):
        x = nd.ones(shape, dtype=dtype)
        x.attach_grad()
        autograd.backward([x, x], [x * 2, x * 3])
        assert x.grad.asnumpy().tolist() == np.full(shape, 5).tolist()
        found, = autograd.grad([x, x], [x])
        assert (found.shape, found.dtype) == (shape, np.dtype(dtype).type)


@pytest.mark.gpu
def test_devices_are_part_of_structures():
    for ctx in (mx.gpu(0), mx.cpu(), mx.gpu(0)):
        x = nd.ones(3, ctx=ctx)
        x.attach_grad()
        with autograd.record():
            y = (x.copyto(mx.gpu(0)) * 2).as_in_context(mx.cpu()) * 2
            z = Doubled()(x) * 2
        found = autograd.grad(y, [x], retain_graph=True)
        for each in (y, z):
            each.backward()
            found.append(x.grad.copy())
        assert [each.context for each in found] == [ctx] * 3
        assert [each.asnumpy().tolist() for each in found] == [[4] * 3] * 3


def test_arrays_without_elements_are_differentiated_anywhere():
    with mx.np_shape():
        for network, shape in ((lambda x: x * 2, (0, 3)), (lambda x: x.sum() + 1, (0, 3)),
                               (lambda x: nd.dot(x, nd.ones((3, 0))), (2, 3)),
                               (lambda x: nd.concat(x, nd.ones((0, 3)), dim=0) * 2, (2, 3))):
            x = nd.ones(shape)
            x.attach_grad()
            with autograd.record():
                y = network(x)
            for _ in range(2):
                gradient, = autograd.grad(y, x, retain_graph=True)
                expected = 0 if 0 in y.shape else 2
                assert gradient.shape == shape and (gradient.asnumpy() == expected).all()


def test_programs_keep_no_array_alive():
    x = nd.ones((4, 4))
    x.attach_grad()
    with autograd.record():
        y = (Doubled()(x) * bound()(x, x, nd.ones(4))).sum()
    y.backward()
    references = [weakref.ref(each._data) for each in (*step(), x, y)]
    del x, y
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    assert len(PROGRAMS._programs) == 2


def test_the_latest_programs_are_kept(monkeypatch):
    monkeypatch.setattr(PROGRAMS, "most", 60)
    for length in range(1, 9):
        step(length=length)
        sizes = [1 + len(program.steps) for program in PROGRAMS._programs.values()]
        assert sum(sizes) == PROGRAMS._steps <= 60
    assert sizes == sorted(sizes) and 1 <= len(sizes) < 8
    PROGRAMS.clear()
    for length in (1, 2, 30):
        step(length=length)
    assert len(PROGRAMS._programs) == 2     # the last one alone has more steps


def test_threads_share_programs():
    results: list[list[float]] = []

    def work() -> None:
        x = nd.ones((4, 4))
        x.attach_grad()
        for count in range(40):
            with autograd.record():
                y = x * 2
                for _ in range(count % 5):
                    y = y * 2
            y.backward()
            results.append([x.grad.asnumpy()[0, 0], 2 ** (1 + count % 5)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160 and all(found == expected for found, expected in results)


def test_errors_name_the_recorded_node_each_time():
    class Failing(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, gy):
            raise mx.MXNetError("no gradient today")

    for _ in range(2):
        x = nd.ones(3)
        x.attach_grad()
        with autograd.record():
            y = Failing()(x) * 2
        with pytest.raises(mx.MXNetError, match="^backward of Failing: no gradient today"):
            y.backward()
        assert x.grad.asnumpy().tolist() == [0, 0, 0]


def test_what_is_written_after_recording_is_what_backward_reads():
    for factor in (3, 5):
        x, c = nd.ones(3), nd.ones(3)
        x.attach_grad()
        with autograd.record():
            y = x * c
        c[:] = factor
        y.backward()
        assert x.grad.asnumpy().tolist() == [factor] * 3
