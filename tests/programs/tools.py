"""Programs over engine, runtime, test_utils and the profiler.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from typing import Any

import numpy as np


def bulk_sizes(mx: Any) -> list[Any]:
    """The results of every call of `set_bulk_size`, around and in a block."""
    found = [mx.engine.set_bulk_size(5)]
    with mx.engine.bulk(3):
        found.append(mx.engine.set_bulk_size(4))
    return [*found, mx.engine.set_bulk_size(0)]


def features(mx: Any) -> list[Any]:
    """Names in order, and how features are shown and queried."""
    found = mx.runtime.Features()
    assert found is mx.runtime.Features()
    return [list(found), [feature.name for feature in mx.runtime.feature_list()],
            found.is_enabled("cudnn"), repr(found["CUDNN"]), found["CUDNN"].enabled]


# -- test_utils ----------------------------------------------------------------------------------

PAIRS = [
    ([1.0, 2.0], [1.0, 2.0]),
    ([1.0, 2.0], [1.0, 2.0001]),
    ([1.0, 2.0], [1.0, 2.1]),
    ([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]),
    ([1.0, np.nan], [1.0, np.nan]),
    ([1.0, np.inf], [1.0, np.inf]),
    ([1.0, np.inf], [1.0, 5.0]),
    ([1.0, 5.0], [1.0, -np.inf]),
    ([0.0, 1e-25], [0.0, 0.0]),
]  # fmt: skip
"""Arrays to compare."""


def verdict(function: Any, *args: Any, **kwargs: Any) -> str:
    """The name of the exception of a call, or "fine"."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "fine"


def tolerances(mx: Any) -> list[Any]:
    """Defaults, and those that follow from the types of two arrays."""
    utils = mx.test_utils
    tables = [utils.default_rtols(), utils.default_atols(), utils.default_numeric_eps()]
    arrays = [np.zeros(2, kind) for kind in ("float16", "float32", "float64", "int32")]
    arrays.append(mx.nd.zeros((2,)))
    return [*({np.dtype(kind).name: value for kind, value in table.items()} for table in tables),
            [utils.get_tols(a, b, None, None) for a in arrays for b in arrays],
            utils.get_tols(arrays[0], arrays[1], 0.5, None), utils.get_atol(), utils.get_atol(3),
            utils.get_rtol(), utils.get_rtol(0.5), utils.get_etol(), utils.get_etol(0.5),
            [np.dtype(utils.effective_dtype(array)).name for array in arrays],
            utils.default_dtype() is np.float32, str(utils.default_context())]


def comparisons(mx: Any) -> list[Any]:
    """Whether pairs of arrays are equal, by every function."""
    utils, found = mx.test_utils, []
    for a, b in PAIRS:
        x, y = np.array(a, np.float32), np.array(b, np.float32)
        for options in ({}, {"equal_nan": True}, {"rtol": 0.1, "atol": 0}):
            found.append(bool(utils.almost_equal(x, y, **options)))
            if x.shape == y.shape:
                found.append(verdict(utils.assert_almost_equal, mx.nd.array(x), y, **options))
        if x.shape == y.shape:
            found += [utils.same(x, y), bool(utils.almost_equal(x, y, use_broadcast=False)),
                      verdict(utils.assert_almost_equal, x, y, use_broadcast=False),
                      verdict(utils.assert_almost_equal_ignore_nan, x, y),
                      verdict(utils.assert_allclose, x, y),
                      verdict(utils.assert_almost_equal_with_err, x, y, etol=0.5)]
    array = mx.nd.zeros((2, 2))
    return [*found, utils.locationError(x, y, (1,), ("mine", "yours"), True),
            utils.same_array(array, array.reshape((2, 2))), utils.same_array(array, array.copy()),
            verdict(utils.assert_exception, int, ValueError, "x"),
            verdict(utils.assert_exception, int, ValueError, "1"),
            verdict(utils.compare_ndarray_tuple, (array, None), (array, None)),
            verdict(utils.compare_ndarray_tuple, (array, (array,)), (array, (array + 1,)))]


def structures(mx: Any) -> list[bool]:
    """Whether symbols have the same structure as `a * b`."""
    a, b, c = (mx.sym.Variable(name) for name in "abc")
    others = [c * a, a * a, a + b, mx.sym.sum(a)]
    return [bool(mx.test_utils.same_symbol_structure(a * b, other)) for other in others] + [
        bool(mx.test_utils.same_symbol_structure(mx.sym.sum(a, axis=0), mx.sym.sum(a, axis=1)))]


def helpers(mx: Any) -> list[Any]:
    """The results of helpers over arrays and the environment."""
    utils, x = mx.test_utils, np.arange(6.0).reshape(1, 2, 3)
    with utils.environment("NBMOD_TEST_A", "1"), utils.environment({"NBMOD_TEST_B": "2",
                                                                    "NBMOD_TEST_A": None}):
        seen = [os.environ.get("NBMOD_TEST_A"), os.environ.get("NBMOD_TEST_B")]
    batches = mx.io.NDArrayIter(x.reshape(3, 2), np.zeros(3), 1)
    dummy = utils.DummyIter(batches)
    first = [dummy.next().data[0].asnumpy() for _ in range(2)]
    return [seen, os.environ.get("NBMOD_TEST_B"), utils.np_reduce(x, (0, 2), True, np.sum),
            utils.np_reduce(x, None, False, np.max), utils.np_reduce(x, 1, False, np.sum),
            utils.collapse_sum_like(np.ones((2, 3, 4)), (3, 1)),
            utils.assign_each(np.arange(3), lambda v: v + 1),
            utils.assign_each2(np.arange(3), np.arange(3), lambda v, w: v * w),
            *(array.asnumpy() for array in (
                utils.create_2d_tensor(2, 3), utils.create_vector(3), utils.get_identity_mat(2),
                utils.get_identity_mat_batch(2))),
            *first, [tuple(desc) for desc in dummy.provide_data], dummy.batch_size,
            utils.gen_buckets_probs_with_ppf(lambda q: 2 * q, 4), list(utils.list_gpus()),
            utils.is_cd_run(), utils.has_tvm_ops(), utils.is_op_runnable()]


def symbol_checks(mx: Any) -> list[Any]:
    """The results of checks of symbols for right and for wrong expectations."""
    utils, sym = mx.test_utils, mx.sym
    a, b = sym.Variable("a"), sym.Variable("b")
    x, y, g = (np.array(v, np.float32) for v in ([[1, 2], [3, 4]], [[5, 6], [7, 8]],
                                                 [[1, -1], [2, 0.5]]))
    product = sym.elemwise_mul(a, b, name="product")
    norm = sym.BatchNorm(a, fix_gamma=False, name="n")
    forward, backward = utils.check_symbolic_forward, utils.check_symbolic_backward
    numeric = utils.check_numeric_gradient
    return [
        utils.simple_forward(product, a=x, b=y),
        [part for part in utils.simple_forward(sym.Group([product, a + b]), a=x, b=y)],
        [out.asnumpy() for out in forward(product, [x, y], [x * y])],
        verdict(forward, product, {"a": x, "b": mx.nd.array(y)}, {"product_output": x * y}),
        verdict(forward, product, [x, y], [x + y]),
        verdict(forward, product, [x, y], [x * y * 1.01], rtol=0.1),
        verdict(forward, product, {"a": x, "c": y}, [x * y]),
        sorted(backward(product, [x, y], [g], [y * g, x * g])),
        verdict(backward, product, [x, y], [g], {"a": y * g}, grad_req="add"),
        verdict(backward, product, [x, y], {"product_output": g}, [y * g, x * g],
                grad_req=["write", "add"]),
        verdict(backward, product, [x, y], [g], {"a": y * g}, grad_req={"a": "write", "b": "null"}),
        verdict(backward, product, [x, y], [g], [y, x]),
        verdict(backward, sym.make_loss(product), [x, y], None, [y, x]),
        verdict(numeric, product, [x, y], rtol=0.01, atol=0.01),
        verdict(numeric, product, {"a": x, "b": y}, grad_nodes=["a"], dtype=np.float64),
        verdict(numeric, product, [x, y], grad_nodes={"a": "add", "b": "null"}, rtol=0.01,
                atol=0.01),
        verdict(numeric, sym.BlockGrad(a) + b, [x, y]),
        verdict(numeric, norm, [x, np.ones(2), np.ones(2)], [np.zeros(2), np.ones(2)], rtol=0.01,
                atol=0.01),
    ]  # fmt: skip


def consistencies(mx: Any) -> list[Any]:
    """The results of comparisons of executors and optimizers."""
    utils, sym = mx.test_utils, mx.sym
    a, b = sym.Variable("a"), sym.Variable("b")
    product = sym.elemwise_mul(a, b, name="product")
    same = sym.broadcast_mul(a, b, name="product")
    other = sym.elemwise_add(a, b, name="product")
    wide = {"ctx": mx.cpu(), "a": (2, 2), "b": (2, 2), "type_dict": {"a": np.float64}}
    narrow = {**wide, "type_dict": {"a": np.float32}}
    check, sgd = utils.check_consistency, mx.optimizer.SGD
    found = check(product, [wide, narrow])
    return [
        sorted(found), found["product_output"].dtype == np.float64,
        sorted(check([product, same], [wide, wide], grad_req="null")),
        verdict(check, [product, other], [wide, wide]),
        verdict(check, [product, other], [wide, wide], raise_on_err=False),
        verdict(check, product, [wide]),
        utils.check_speed(product, N=1, a=(2, 2), b=(2, 2)) > 0,
        utils.check_speed(product, {"a": np.ones((2, 2)), "b": np.ones((2, 2))}, N=1,
                          typ="forward") > 0,
        verdict(utils.check_speed, product, N=1, typ="half", a=(2, 2), b=(2, 2)),
        verdict(utils.compare_optimizer, sgd(momentum=0.9), sgd(momentum=0.9), (3, 2), "float32"),
        verdict(utils.compare_optimizer, sgd(), sgd(learning_rate=0.5), (3, 2), "float32"),
    ]  # fmt: skip


# -- profiler --------------------------------------------------------------------------------------


def profiled(mx: Any, file: str) -> list[Any]:
    """The table and the JSON of a user's measurements, with # for every number."""
    profiler = mx.profiler
    profiler.set_config(filename=file, profile_all=False, profile_symbolic=False,
                        profile_imperative=False, profile_memory=False, profile_api=False,
                        aggregate_stats=True)
    profiler.set_state("run")
    domain = profiler.Domain("mine")
    spans = [domain.new_task("task"), domain.new_frame("frame"), profiler.Event("an event whose "
             "name is longer than the column")]  # fmt: skip
    for span in spans:
        span.start()
        span.stop()
    counter = domain.new_counter("counter", 5)
    counter.increment(3)
    counter.decrement()
    counter += 2
    counter -= 1
    counter.set_value(7)
    domain.new_marker("marker").mark()
    profiler.set_state("stop")
    table, text = profiler.dumps(), profiler.dumps(reset=True, format="json")
    profiler.dump()
    found = json.loads(text)
    kept = {category: {name: sorted(numbers) for name, numbers in found["Time"][category].items()}
            for category in ("event", "mine", "mine,frame")}  # fmt: skip
    lines = [re.sub(r"[0-9.]+ *", "#", line) for line in table.splitlines()]
    mine = [line for line in lines if re.match(r"task|frame|counter|an event|Name|----", line)]
    return [[str(span) for span in spans], str(counter), str(domain), lines[:3], sorted(set(mine)),
            kept, found["Unit"], sorted(found), found["Time"]["mine"]["counter"]["Count"]]
