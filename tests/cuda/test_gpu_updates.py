"""Optimizers on GPUs: one launch updates all weights of a list, whatever their rates."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda.runtime import launch, simulator
from nbmod.optimizer import Updater
from tests.compare import assert_same

SHAPES = [(5, 7), (3,), (1,), (4, 4)]
MOMENTUM = {"momentum": 0.9, "wd": 0.1}


def stepped(context, name, params, dtype, mark=lambda: None):
    """Weights after three steps of a list at falling learning rates; some of them do not decay.
    `mark` is called before each step and after the last."""
    names = dict(enumerate(("a_weight", "b_bias", "c_gamma", "d_weight")))
    optimizer = mx.optimizer.create(name, param_idx2name=names, multi_precision=True, **params)
    updater, rng = Updater(optimizer), np.random.default_rng(0)
    weights, grads = ([mx.nd.array(rng.standard_normal(shape), ctx=context, dtype=dtype)
                       for shape in SHAPES] for _ in range(2))
    for rate in (0.1, 0.05, 0.01):
        mark()
        optimizer.set_learning_rate(rate)
        updater(list(range(len(weights))), grads, weights)
    mark()
    return [weight.asnumpy() for weight in weights]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name, params", [
    ("sgd", {"wd": 0.1}), ("sgd", MOMENTUM), ("nag", MOMENTUM), ("adam", {"wd": 0.1}),
    ("rmsprop", {"clip_gradient": 0.5})], ids=str)
def test_lists_are_stepped_by_one_launch(name, params, dtype, monkeypatch):
    """Launches are prepared in the first step only: rates are elements in device memory."""
    counts, marks = {"PreparedLaunch": 0, "run": 0}, []
    want = stepped(mx.cpu(), name, params, dtype)
    for what in counts:
        real = getattr(simulator, what)

        def counted(*args, what=what, real=real):
            counts[what] += 1
            return real(*args)
        monkeypatch.setattr(simulator, what, counted)
    got = stepped(mx.gpu(0), name, params, dtype, lambda: marks.append(tuple(counts.values())))
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, 1e-3 if dtype == "float16" else 1e-6, name)
    if launch.SIMULATED:
        steps = [(later[0] - before[0], later[1] - before[1]) for before, later in
                 zip(marks[1:], marks[2:], strict=False)]
        assert steps == [(0, 1), (0, 1)], "launches prepared, launches started"


RATES = {"lrs": (0.1, 0.2, 0.3), "wds": (0.01, 0.0, 0.1)}
CUT = {"rescale_grad": 0.5, "clip_gradient": 0.3}
LISTS = {
    # op, dtypes of a weight's arrays, tensors that come last, attributes, launches
    "multi_sgd_update": ("ff", 0, {**RATES, **CUT}, 1),
    "multi_mp_sgd_mom_update": ("eeff", 0, {**RATES, **CUT, "momentum": 0.9}, 1),
    "preloaded_multi_sgd_mom_update": ("fff", 2, {**CUT, "momentum": 0.9}, 2),
    "preloaded_multi_mp_sgd_update": ("eef", 2, CUT, 2),
    "_multi_adamw_update": ("ffff", 1, {**RATES, "etas": (1.0, 0.5, 2.0)}, 1),
    "_multi_mp_adamw_update": ("eefff", 1, {**RATES, "etas": (1.0, 0.5, 2.0)}, 1),
}


def listed(name, context, shapes):
    """Arrays for three weights of an op, and the op as a function of them."""
    kinds, shared, attrs, _ = LISTS[name]
    rng = np.random.default_rng(1)
    arrays = [mx.nd.array(rng.uniform(0.5, 1.5, shape), ctx=context, dtype=np.dtype(kind))
              for shape in shapes for kind in kinds]
    arrays += [mx.nd.array(values, ctx=context) for values in
               ([[0.5]] if shared == 1 else [RATES["lrs"], RATES["wds"]])[:shared]]
    function = getattr(mx.nd._internal if name.startswith("_") else mx.nd, name)
    count = {"num_weights": len(shapes)}
    return arrays, len(kinds), lambda out: function(*arrays, **attrs, **count, out=out)


@pytest.mark.gpu
@pytest.mark.parametrize("shapes", [[(1,), (5, 7), (3,)], [(1,), (1,), (1,)]], ids=str)
@pytest.mark.parametrize("name", LISTS)
def test_ops_over_many_weights_are_one_launch(name, shapes, monkeypatch):
    """Of several parts or one element; rates that are tensors stay on the GPU."""
    runs, started = [], []
    real = simulator.run
    monkeypatch.setattr(simulator, "run", lambda *args: started.append(args[0]) or real(*args))
    for context in (mx.cpu(), mx.gpu(0)):
        arrays, step, function = listed(name, context, shapes)
        started.clear()
        for _ in range(2):
            function([arrays[i * step] for i in range(len(shapes))])
        if launch.SIMULATED and context.is_gpu:
            assert len(started) == 2 * LISTS[name][-1], [found.__name__ for found in started]
        runs.append([array.asnumpy() for array in arrays])
    for mine, theirs in zip(*runs, strict=True):
        assert_same(mine, theirs, 1e-3 if mine.dtype == np.float16 else 1e-6, name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["multi_sgd_update", "preloaded_multi_sgd_mom_update"])
def test_a_weight_that_is_listed_twice_is_stepped_twice(name):
    """The second run continues from the first."""
    runs = []
    for context in (mx.cpu(), mx.gpu(0)):
        arrays, step, _ = listed(name, context, [(5, 2)] * 3)
        _, shared, attrs, _ = LISTS[name]
        given = [*arrays[:step], *arrays[step:2 * step], *arrays[:step],
                 *(arrays[-shared:] if shared else [])]
        getattr(mx.nd, name)(*given, **attrs, num_weights=3,
                             out=[arrays[0], arrays[step], arrays[0]])
        runs.append([array.asnumpy() for array in arrays])
    for mine, theirs in zip(*runs, strict=True):
        assert_same(mine, theirs, 1e-6, name)


@pytest.mark.gpu
def test_rates_in_a_graph_are_those_of_the_run():
    """Rates follow from the inputs; with joined launches too."""
    names = ("w", "g")
    rates = mx.sym.Variable("rates") * 2
    x = mx.sym.preloaded_multi_sgd_update(*map(mx.sym.Variable, names), rates, rates * 0,
                                          num_weights=1)
    executor = x.bind(mx.gpu(0), {name: mx.nd.ones((5,), ctx=mx.gpu(0)) for name in names}
                      | {"rates": mx.nd.zeros((1,), ctx=mx.gpu(0))})
    for rate in (0.25, 0.125):
        executor.arg_dict["rates"][:] = rate
        assert_same(executor.forward()[0].asnumpy(), np.full(5, 1 - 2 * rate, "f"), 0, "weight")
