"""`x[key]` and `x[key] = value`: values as in NumPy, memory shared as in MXNet."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbmod as mx

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)

VIEWS = [
    "a[0]", "a[-1]", "a[True]", "a[np.int64(1)]", "a[None]", "a[...]", "a[:]", "a[()]", "a[0:1]",
    "a[1:]", "a[:-1]", "a[-9:1]", "a[::2]", "a[1:0:-1]", "a[0, 1]", "a[0, 1, 2]", "a[0, 1:3]",
    "a[0:1, 1:3]", "a[0:1, 1:2, 1:3]", "a[1, ...]", "a[0, None]", "a[:, None]", "a[0, :, None]",
    "a[0, 1, 2, None]", "a[None, 0, 1, 2]", "a[::2, 1]", "a[0, 0:2:2]", "a[:, 0:3]", "a[0][1][2]",
    "a.reshape((4, 6))", "a.reshape((-1,))[5:9]", "a.detach()", "a.as_in_context(mx.cpu())",
]  # fmt: skip
COPIES = [
    "a[::-1]", "a[:, 1]", "a[:, 1:2]", "a[..., 0]", "a[..., 1, 2]", "a[0, ..., 1]", "a[0, :, ::2]",
    "a[0, 1, ::-1]", "a[0:1, ::2]", "a[np.newaxis, ..., 0]", "a[[0, 1]]", "a[[0]]", "a[[1, 0, 1]]",
    "a[[0, 1], [1, 2]]", "a[[0, 1], :, [1, 2]]", "a[:, [0, 2], 1]", "a[0, [0, 2], 1]",
    "a[range(2)]", "a[np.array([0., 1.])]", "a[mx.nd.array([1, 0])]",
    "a[mx.nd.array([[0, 1], [1, 1]])]", "a[:, [[0], [1]], [0, 1]]", "a[None, [0, 1]]",
    "a[0, :, [0, 1]]", "a[mx.nd.array([1])]", "a.copy()", "a.T",
]  # fmt: skip
ERRORS = [
    "a[2]", "a[-3]", "a[0, 0, 0, 0]", "a[:, :, :, :]", "a[..., ...]", "a[[0, 2]]", "a[[-3]]",
    "a[0, [5]]", "a['x']", "a[1.0]", "a[::0]", "a[0:1.0]", "a[0:mx.nd.array([1])]",
]  # fmt: skip
ASSIGNMENTS = [
    "a[:] = 1", "a[...] = 2.5", "a[()] = 3", "a[0] = 1", "a[:] = np.arange(4)",
    "a[:] = mx.nd.arange(4)", "a[:] = [1, 2, 3, 4]", "a[0] = [[1], [2], [3]]", "a[0] = a[1]",
    "a[:] = mx.nd.ones((2, 3, 4), dtype='int32') * 2", "a[:, 1] = 5", "a[0, 1] = range(4)",
    "a[:, 1:2] = mx.nd.array([[1, 2, 3, 4]])", "a[:, 1] = np.ones((2, 1)) * 9", "a[0, 1, 2] = 100",
    "a[0, 1, 2] = mx.nd.array([7])", "a[0, 1, 2] = np.array([[7]])", "a[..., 0] = -1",
    "a[::-1] = mx.nd.arange(24).reshape((2, 3, 4))", "a[::2, ::2] = 0", "a[1:0:-1] = 3",
    "a[None, 0] = mx.nd.ones((1, 3, 4))", "a[0:0] = 5", "a[[0, 1]] = 5", "a[[0, 1], [1, 2]] = 9",
    "a[[0, 1], [1, 2]] = np.array([[1], [2]])", "a[mx.nd.array([1])] = 0", "a[:, [0, 2], 1] = 7",
    "a[[0, 1], :, [1, 2]] = mx.nd.ones((2, 3)) * 50", "a[0, [0, 2]] = [[1], [2]]", "a[0] = True",
    "a[0] = np.float64(2.5)", "a[0] = np.array(3)", "a[0] = None",
    "a[0] = mx.nd.ones((1, 1, 1, 3, 4))", "a[0:1] = mx.nd.ones((3, 4))", "a[0] += 1",
    "a[:, 1] += 1", "b = a[0]; b += 100", "b = a[0][1]; b[:] = 7", "a.reshape((-1,))[3:5] = 0",
    "a[0, 1, 2] *= 5", "a[:] = mx.nd.ones((2, 3, 4), ctx=mx.cpu(1))", "a[0] = 1.7", "a[0] = -1.7",
    "a[0] = 300", "a[0] = -1", "a[0] = np.array([1.5, 2.5, 3.5, -4.5])",
    "a[0] = mx.nd.array([[1.9, 2, 3, 4]])",
]  # fmt: skip
BAD_ASSIGNMENTS = [
    "a[:] = mx.nd.arange(3)", "a[:] = np.arange(3)", "a[:, 1] = np.ones((2, 3))", "a[5] = 1",
    "a['x'] = 1", "a[1.0] = 1", "a[0] = 'x'", "a[0, 0, 0, 0] = 1", "a[..., ...] = 1",
    "a[0] = 2 + 1j", "a[0] = [1, 2]",
]  # fmt: skip


def counting(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def evaluate(text: str, a: Any) -> Any:
    return eval(text, {"a": a, "mx": mx, "np": np})


def at_least_1d(array: np.ndarray) -> np.ndarray:
    """There are no 0-d NDArrays."""
    return array.reshape(array.shape or (1,))


@st.composite
def mixed_key(draw: Any, shape: tuple[int, ...]) -> tuple:
    """Index arrays of one broadcast shape among integers and slices, at most one Ellipsis."""
    length = draw(st.integers(1, 3))
    part = {
        "slice": lambda n: st.slices(n),
        "number": lambda n: st.integers(-n, n - 1),
        "array": lambda n: hnp.arrays(np.int64, length, elements=st.integers(-n, n - 1)),
        "column": lambda n: hnp.arrays(np.int32, (2, 1), elements=st.integers(-n, n - 1)),
        "list": lambda n: st.lists(st.integers(-n, n - 1), min_size=length, max_size=length),
    }
    kinds = draw(st.lists(st.sampled_from(list(part)), min_size=1, max_size=len(shape)))
    front = draw(st.integers(0, len(kinds)))
    sizes = [*shape[:front], *shape[len(shape) - len(kinds) + front :]]
    key = [draw(part[kind](n)) for kind, n in zip(kinds, sizes, strict=True)]
    return (*key[:front], ..., *key[front:]) if sizes != [*shape[: len(kinds)]] else tuple(key)


@st.composite
def shape_and_key(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(SHAPES)
    basic = hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
    mask = hnp.arrays(np.bool_, shape[: draw(st.integers(1, len(shape)))])
    return shape, draw(st.one_of(basic, mixed_key(shape), mask))


@EXAMPLES
@given(shape_and_key())
def test_reading_is_numpys(case):
    shape, key = case
    found = mx.nd.array(counting(shape))[key]
    assert found._data.flags.c_contiguous
    np.testing.assert_array_equal(found.asnumpy(), at_least_1d(counting(shape)[key]))


@EXAMPLES
@given(shape_and_key(), st.data())
def test_writing_is_numpys(case, data):
    shape, key = case
    expected, found = counting(shape), mx.nd.array(counting(shape))
    target = np.shape(expected[key])
    value = data.draw(
        st.one_of(
            st.just(-5.5),
            hnp.arrays(np.float32, hnp.broadcastable_shapes(target, max_side=max(target, default=1),
                                                            max_dims=len(target))
                       if target and 0 not in target else st.just(target), elements=st.just(-3)),
        ))  # fmt: skip
    if np.ndim(value) and np.broadcast_shapes(np.shape(value), target) != target:
        value = -1.0
    expected[key] = value
    found[key] = mx.nd.array(value) if data.draw(st.booleans()) else value
    np.testing.assert_array_equal(found.asnumpy(), expected)


@EXAMPLES
@given(st.data())
def test_a_view_is_what_numpy_has_contiguous(data):
    """The rule found from MXNet's results below: contiguous results share memory."""
    shape = data.draw(SHAPES)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    a = mx.nd.array(counting(shape))
    picked = a[key]
    values = picked.asnumpy()
    a[:] = -1
    expected = -np.ones_like(values) if counting(shape)[key].flags.c_contiguous else values
    np.testing.assert_array_equal(picked.asnumpy(), expected)


@pytest.mark.parametrize("view", [True, False])
def test_views_and_copies(view):
    for text in VIEWS if view else COPIES:
        a = mx.nd.array(counting((2, 3, 4)))
        picked = evaluate(text, a)
        before = picked.asnumpy()
        a[:] = -1
        assert (picked.asnumpy() == (-1 if view else before)).all(), text


def test_views_are_mxnets(oracle):
    for text, real in zip(
        VIEWS + COPIES, oracle.call("mx_arrays.pick", [2, 3, 4], VIEWS + COPIES), strict=True
    ):
        picked = evaluate(text, mx.nd.array(counting((2, 3, 4))))
        np.testing.assert_array_equal(picked.asnumpy(), real["values"], text)
        assert real["view"] == (text in VIEWS), text


def test_random_keys_share_memory_as_in_mxnet(oracle):
    """MXNet rejects most empty results and some slices with clamped bounds; those are skipped."""
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(20):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        keys = [_random_basic_key(rng, shape) for _ in range(20)]
        for key, real in zip(keys, oracle.call("mx_arrays.pick", list(shape), keys), strict=True):
            if real.get("error") == "MXNetError":
                continue
            a = mx.nd.array(counting(shape))
            picked = evaluate(key, a)
            np.testing.assert_array_equal(picked.asnumpy(), real["values"], key)
            a[:] = -1
            shared = bool(picked.size and (picked.asnumpy() == -1).all())
            assert shared == real["view"], (shape, key)
            compared += 1
    assert compared > 250


def _random_basic_key(rng: np.random.Generator, shape: tuple[int, ...]) -> str:
    parts = []
    count = rng.integers(1, len(shape) + 1)
    front = rng.integers(0, count + 1)
    for n in [*shape[:front], *shape[len(shape) - count + front :]]:
        bounds = [str(rng.integers(-n, n + 1)) if rng.random() < 0.6 else "" for _ in range(2)]
        number, step = str(rng.integers(-n, n)), rng.choice(["", "1", "2", "-1"])
        parts.append(number if rng.random() < 0.4 else ":".join([*bounds, str(step)]))
    if count < len(shape) or rng.random() < 0.3:
        parts.insert(front, "...")
    if rng.random() < 0.3:
        parts.insert(rng.integers(0, len(parts) + 1), "None")
    return f"a[{', '.join(parts)},]"


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
def test_assignments_are_mxnets(oracle, dtype):
    statements = [s for s in ASSIGNMENTS if dtype.startswith("float") or "None" not in s]
    real = oracle.call("mx_arrays.assign", [2, 3, 4], statements, dtype)
    for statement, expected in zip(statements, real, strict=True):
        a = mx.nd.array(counting((2, 3, 4)), dtype=dtype)
        try:
            exec(statement, {"a": a, "mx": mx, "np": np})
        except mx.MXNetError:
            assert expected == "MXNetError", statement
            continue
        np.testing.assert_array_equal(a.asnumpy(), expected, statement)


def test_errors_are_mxnets(oracle):
    real = oracle.call("mx_arrays.pick", [2, 3, 4], ERRORS)
    for text, answer in zip(ERRORS, real, strict=True):
        with pytest.raises(Exception) as caught:
            evaluate(text, mx.nd.array(counting((2, 3, 4))))
        assert type(caught.value).__name__ == answer["error"], text


def test_assignment_errors_are_mxnets(oracle):
    real = oracle.call("mx_arrays.assign", [2, 3, 4], BAD_ASSIGNMENTS)
    for statement, answer in zip(BAD_ASSIGNMENTS, real, strict=True):
        with pytest.raises(Exception) as caught:
            exec(statement, {"a": mx.nd.array(counting((2, 3, 4))), "mx": mx, "np": np})
        assert type(caught.value).__name__ == answer, statement


@pytest.mark.parametrize("mask", ["np", "nd", "list"])
def test_boolean_arrays_select(mask):
    values = counting((2, 3))
    chosen = values > 2
    a = mx.nd.array(values)
    key = {"np": chosen, "nd": mx.nd.array(chosen, dtype="bool"), "list": chosen.tolist()}[mask]
    np.testing.assert_array_equal(a[key].asnumpy(), [3, 4, 5])
    a[key] = 0
    np.testing.assert_array_equal(a.asnumpy(), [[0, 1, 2], [0, 0, 0]])


def test_large_integers_survive_assignment():
    a = mx.nd.zeros((2,), dtype="int64")
    a[0] = 2**53 + 1
    assert a.asnumpy().tolist() == [2**53 + 1, 0]


def test_a_view_outlives_its_base_and_pickles_as_itself():
    view = mx.nd.array(counting((3, 4)))[1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view)).asnumpy(), [4, 5, 6, 7])
    np.testing.assert_array_equal(view.asnumpy(), [4, 5, 6, 7])


def test_an_index_out_of_range_of_a_gather_is_an_index_error():
    data = mx.nd.arange(6).reshape((2, 3))
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=r"expected values in \[0, 3\)") as caught:
            mx.nd.gather_nd(data, mx.nd.array([[0, 1], [0, wrong]]))
        assert isinstance(caught.value, mx.MXNetError)
