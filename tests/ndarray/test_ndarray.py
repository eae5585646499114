"""NDArray and `mx.nd`: the same expressions give the same results as in MXNet."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ndarray.fluent import FLUENT
from nbmod.ndarray.operators import BINARY
from tests.programs.array_answers import answers

CREATION = [
    "nd.array(np.arange(3))", "nd.array([1, 2])", "nd.array([1.5, 2], dtype='int32')",
    "nd.array(np.arange(3, dtype='int8'))", "nd.array(i)", "nd.array(3)", "nd.array([])",
    "nd.array(np.zeros((0, 3)))", "nd.array([True, False])", "nd.array([1], dtype='float16')",
    "nd.array(range(3))", "nd.array([1], ctx=mx.cpu(3))", "nd.array(np.arange(3), dtype=np.int64)",
    "nd.array(np.ones((2, 2), 'f')[:, 0])", "nd.array(None)", "nd.array(i, ctx=mx.cpu(2))",
    "nd.array(np.float16([1.5]))", "nd.array([-1.5, 300.7], dtype='uint8')[1]", "nd.zeros((2, 3))",
    "nd.zeros(3)", "nd.zeros((2,), dtype='int64')", "nd.zeros(3, dtype=int)",
    "nd.zeros(3, name='a', __layout__='N')", "nd.ones(3, name='a', __layout__='N')",
    "nd.random.uniform(shape=3, name='a', __layout__='N').shape",
    "nd.zeros(2, mx.cpu(1))", "nd.zeros((2,), 'cpu(1)')", "nd.ones([2, 2])",
    "nd.ones(2, dtype=None)", "nd.ones((2, 3), out=o); o", "nd.full((2, 2), 3)",
    "nd.full((2,), 1.7, dtype='int32')", "nd.full((2,), nd.array([5, 6]))",
    "nd.full((2,), np.array([1, 2]))", "nd.full(0, 1)", "nd.full((2, 3), 1, out=o); o",
    "nd.empty((2, 2)).shape", "nd.empty(0).shape", "nd.arange(5)", "nd.arange(1, 5, 2)",
    "nd.arange(0, 1, 0.3)", "nd.arange(3, repeat=2)", "nd.arange(3, dtype='int32')",
    "nd.arange(2.5)", "nd.arange(5, 0, -2)", "nd.arange(1, None)",
    "nd.arange(0, 4, 1, 1, False, mx.cpu(1))", "nd.linspace(0, 1, 5)", "nd.linspace(0, 1, 1)",
    "nd.linspace(0, 1, 5, endpoint=False)", "nd.linspace(0, 1, 3, ctx=mx.cpu(1))", "nd.eye(3)",
    "nd.eye(2, 3, 1)", "nd.eye(3, 0, -1, dtype='int32')", "nd.from_numpy(np.ones(3))",
    "nd.from_numpy(np.arange(3), zero_copy=False)", "nd.concatenate([a, a], axis=1)",
    "nd.concatenate([a])", "nd.concatenate([a], always_copy=False) is a", "nd.moveaxis(a, 0, 2)",
    "nd.moveaxis(a, [0, 1], [-1, -2])", "nd.stack(f, f)", "nd.onehot_encode(s - 6, o[0:1]); o",
    "nd.histogram(a, bins=3, range=(0, 5))", "nd.split_v2(a, (1,), axis=1)",
    "nd.split_v2(b, (1, 2), axis=1, squeeze_axis=True)", "nd.split_v2(a, 2)",
]  # fmt: skip
PROPERTIES = [
    "a.shape", "a.size", "a.ndim", "a.dtype", "i.dtype", "a.stype", "a.context", "a.ctx", "a.T",
    "len(a)", "bool(s)", "bool(s - 7)", "bool(nd.zeros((1, 1)))", "bool(nd.array([]))",
    "f[0].asscalar()", "s.asscalar()", "i[2].asscalar()", "hash(a) == hash(a)", "a.writable",
    "repr(a)", "str(a)", "repr(i)", "repr(nd.array([]))", "repr(nd.ones(2, mx.cpu(1)))",
    "[x for x in b]", "list(reversed(f))", "1.5 in f", "9 in f", "f.asnumpy()", "max(f)",
    "sum([f, f])", "f.asnumpy() is f.asnumpy()", "a.asnumpy().flags.writeable", "a.grad",
    "nd.waitall()", "a.wait_to_read()", "a.as_nd_ndarray() is a", "a.__array_priority__",
]  # fmt: skip
CONVERSION = [
    "a.astype('int32')", "f.astype(int)", "f.astype('uint8')[0]", "f.astype(bool)",
    "i.astype('float16')", "a.astype(np.float32, copy=False) is a", "a.astype('float32') is a",
    "a.copy()", "a.copy() is a", "a.as_in_context(mx.cpu(0)) is a", "a.as_in_context(mx.cpu(1))",
    "a.tostype('default')", "a.copyto(mx.cpu(1))", "b.copyto(o) is o", "b.copyto(o); o",
    "i.copyto(f); f", "f.copyto(i); i", "a.detach() is a", "d.astype('float32')",
    "nd.array([1e10, -1]).astype('float16')",
]  # fmt: skip
OPERANDS = ["f", "2", "1.5", "True", "np.float64(2)", "np.int32(3)", "h.astype('float32')", "b"]
ARITHMETIC = [
    *(f"{x} {op} {y}" for op in ("+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=", ">=")
      for x, y in [("f", "f"), ("f", "2"), ("2", "f"), ("b", "f"), ("i", "i"), ("i", "1.5"),
                   ("3", "i"), ("u", "10"), ("d", "2.5"), ("h", "3"), ("h", "h"), ("l", "l"),
                   ("np.float32(2)", "f"), ("f", "np.int64(3)"), ("True", "f"), ("a", "nd.ones(4)"),
                   ("a", "nd.ones((3, 1))")]
      if not (op == "%" and x == "b")),
    "-f", "-i", "-u", "abs(f)", "f.__div__(2)", "f.__rdiv__(2)", "t + 1", "-t", "t * 2",
    *(f"nd.{name}(f, 2)" for name in BINARY), *(f"nd.{name}(2, f)" for name in BINARY),
    *(f"nd.{name}(f, f[0])" for name in BINARY), *(f"nd.{name}(3, 2)" for name in BINARY),
    "nd.true_divide(f, 2)", "nd._internal._plus_scalar(f, 2)",
    "nd._internal._set_value(3.5, out=f)", "nd._internal._set_value(src=-2.5, out=i)",
    "nd._internal._copyto(a, out=nd.zeros((2, 3, 4), dtype='float64'))",
    "nd._internal._rminus_scalar(f, scalar=2)", "a + nd.ones((2, 3, 4), ctx=mx.cpu(1))",
]  # fmt: skip
IN_PLACE = [
    "a += 1; a", "a *= 2.5; a", "a /= 2; a", "a %= 3; a", "a -= nd.ones(4); a", "a **= 2; a",
    "v = a[0]; v += 100; a", "v = a; v -= 1; v is a", "i += 1.5; i", "i /= 2; i", "i *= 2.7; i",
    "a += a; a", "a -= a; a", "a[0] += 1; a", "a[:, 1] += 1; a", "a[[0, 1], [1, 2]] += 5; a",
    "v = a[0]; a[1] += v; v -= a[1]; a",
]  # fmt: skip
OUT = [
    "nd.exp(b, out=o) is o", "nd.exp(b, out=o); o", "nd.exp(b, o); o", "nd.exp(b, out=[o])",
    "nd.exp(b, out=nd.zeros((2, 3), mx.cpu(1)))", "nd.exp(b, out=b); b",
    "nd.sum(b, axis=0, out=f); f", "nd.dot(b, b.T, out=nd.zeros((2, 2)))",
    "nd.split(b, 3, out=[nd.zeros((2, 1)) for _ in range(3)])", "nd.broadcast_add(b, f, out=b); b",
    "nd.sgd_update(f, f, lr=0.5, out=f); f",
    "nd.sgd_mom_update(f, f, d.astype('float32'), lr=0.5); f",
    "m = nd.zeros(3); nd.sgd_mom_update(f, f, m, lr=0.5, out=f); [f, m]",
    "nd.elemwise_mul(b, b, out=b); b",
]  # fmt: skip
CALLS = [
    "nd.exp(data=f)", "nd.exp(f, name='x')", "nd.sum(b, 0)", "nd.sum(b)", "nd.mean(b, axis=1)",
    "nd.clip(b, 2, 4)", "nd.clip(b, a_min=2, a_max=4)", "nd.cast(f, dtype='int32')",
    "nd.Cast(f, np.int32)", "nd.one_hot(i, 5)", "nd.one_hot(i, depth=5)", "nd.concat(b, b, dim=0)",
    "nd.concat(*[b, b])", "nd.Concat(b, b, num_args=2)", "nd.add_n(f, f, f)",
    "nd.ElementWiseSum(f)", "nd.split(b, 3)",
    "nd.where(b > 2, b, -b)", "nd.transpose(b, axes=(1, 0))", "nd.reshape(b, shape=(3, -1))",
    "nd.flatten(a)", "nd.norm(b)", "nd.argmax_channel(b)", "nd.argmax(b, axis=1)",
    "nd.dot(b, b, transpose_b=True)", "nd.Activation(f, act_type='relu')", "nd.zeros_like(b)",
    "nd.ones_like(b)", "nd.identity(f)",
    "nd.FullyConnected(b, nd.ones((2, 3)), num_hidden=2, no_bias=True)",
    "nd.FullyConnected(b, nd.ones((2, 3)), nd.ones(2), num_hidden=2)", "nd.Dropout(b)",
    "nd.BatchNorm(nd.ones((2, 3, 4, 4)), f, f, f, abs(f), fix_gamma=False)", "nd.BlockGrad(f)",
    "nd.Embedding(i, nd.array(np.arange(10).reshape(5, 2)), input_dim=5, output_dim=2)",
    "nd._internal._zeros(shape=(2,), ctx='cpu(1)')", "nd._internal._zeros((2,), mx.cpu(1))",
    "nd.op.exp(f)", "nd.linalg.gemm2(b, b, transpose_b=True)", "nd.contrib.isnan(f / 0 * 0)",
    "nd.contrib.isinf(f / 0)", "nd.contrib.isfinite(f / 0)", "nd.sparse.add(f, 1)",
    "nd.slice_axis(a, 1, 0, 2)",
]  # fmt: skip
FLUENT_CALLS = [
    *(f"b.{name}()" for name in FLUENT if name not in {
        "broadcast_axes", "clip", "depth_to_space", "one_hot", "pad", "pick", "repeat", "slice",
        "slice_axis", "slice_like", "space_to_depth", "split", "split_v2", "swapaxes", "take",
        "tile", "reshape_like", "argsort", "topk", "sort", "arccosh", "arctanh", "arccos", "arcsin",
    }),
    "(b / 10).arccos()", "(b / 10).arcsin()", "(b / 10).arctanh()", "b.arccosh()",
    "b.clip(2, 4)", "b.one_hot(7)", "b.pick(f[:2] * 0, 1)",
    "nd.ones((1, 4, 2, 2)).depth_to_space(2)",
    "nd.ones((1, 1, 4, 4)).space_to_depth(2)", "b.repeat(2)",
    "nd.ones((1, 1, 2, 2)).pad(mode='constant', pad_width=(0, 0, 0, 0, 1, 1, 1, 1))", "b.split(3)",
    "b.slice((0, 1), (1, 3))", "b.slice(begin=(None, 1), end=(None, 2))", "b.slice_axis(0, 0, 1)",
    "b.slice_like(nd.ones((1, 2)))", "b.split(axis=0, num_outputs=2, squeeze_axis=True)",
    "b.split_v2(2)", "b.swapaxes(0, 1)", "b.take(nd.array([0, 1]))", "b.tile((2,))", "b.tile(2)",
    "b.reshape_like(nd.ones((3, 2)))", "b.expand_dims(0).broadcast_axes(0, 3)", "b.flip(1)",
    "b.transpose((1, 0))", "b.transpose(axes=(0, 1))", "b.sum(0)", "a.sum((0, 1), True)",
    "f.diag()", "a.mean(axis=1, keepdims=True)", "a.prod(exclude=True, axis=0)", "b.max(1, True)",
    "b.norm(ord=1)", "b.expand_dims(0)", "b.expand_dims(axis=-1)",
    "b.expand_dims(1, inplace=True)", "b.flatten()", "a.flatten(inplace=True)", "f.flatten()",
    "nd.ones((1, 2, 1)).squeeze()", "b.broadcast_like(a[:, :2, :3])",
    "nd.ones((1, 2, 1)).squeeze(axis=0, inplace=True)", "nd.ones((1, 3)).broadcast_to((2, 3))",
    "f.broadcast_to((2, 3))", "f.slice_assign(nd.array([9, 9]), (0,), (2,), (1,)); f",
    "f.slice_assign_scalar(5, (0,), (2,), (None,)); f",
]  # fmt: skip
RESHAPES = [
    "a.reshape((4, 6))", "a.reshape(4, 6)", "a.reshape((-1,))", "a.reshape((0, -1))",
    "a.reshape((-2,))", "a.reshape((-3, 0))", "a.reshape((-4, 1, 2, 0, 0))",
    "a.reshape((0, -4, -1, 1, 0))", "a.reshape((-1, 0), reverse=True)", "a.reshape(shape=(4, 6))",
    "a.reshape((24, 1, -1))", "a.reshape([4, 6])", "a.reshape(24)", "a.reshape((-2, 1, 1))",
    "a.reshape((-3, -2))",
]  # fmt: skip
TABLES = {name.lower(): table for name, table in globals().items()
          if isinstance(table, list) and name.isupper() and name != "OPERANDS"}  # fmt: skip

ERRORS = {
    "nd.array([[1, 2], [3]])": (TypeError, "array like"),
    "nd.array('abc')": (TypeError, "abc"),
    "nd.array([1 + 2j])": (TypeError, "array like"),
    "nd.array([1], dtype='uint32')": (TypeError, "uint32"),
    "nd.zeros((2, 3), dtype='foo')": (TypeError, "foo"),
    "nd.zeros(2, names='a')": (TypeError, "names"),
    "nd.zeros(-1)": (mx.MXNetError, "-1"),
    "nd.ones((2.0, 3))": (mx.MXNetError, "2.0"),
    "nd.zeros(2, ctx='cpu')": (mx.MXNetError, "cpu"),
    "nd.zeros((1 << 60, 4))": (mx.MXNetError, "no memory"),
    "nd.arange(5, 1)": (mx.MXNetError, "_arange"),
    "nd.concatenate([b, f])": (mx.MXNetError, "Concat.*\\(2, 3\\).*\\(3,\\)"),
    "nd.concatenate([])": (mx.MXNetError, "at least one"),
    "nd.moveaxis(a, 5, 0)": (ValueError, "source"),
    "nd.split_v2(b, 2, axis=1)": (ValueError, "equal division"),
    "bool(a)": (ValueError, "ambiguous"),
    "a.asscalar()": (ValueError, "not a scalar"),
    "float(s)": (TypeError, "float"),
    "a.astype('bad')": (TypeError, "bad"),
    "a.copyto(3)": (TypeError, "int"),
    "b.copyto(f)": (mx.MXNetError, "\\(2, 3\\) and \\(3,\\)"),
    "f.tostype('csr')": (mx.MXNetError, "expected 2 axes for csr"),
    "a.tostype('bad')": (mx.MXNetError, "bad"),
    "a.backward()": (mx.MXNetError, "was not recorded"),
    "a.attach_grad('sum')": (ValueError, "'null', 'write', 'add'"),
    "a.foo": (AttributeError, "foo"),
    "setattr(a, 'foo', 1)": (AttributeError, "foo"),
    "nd.foo": (AttributeError, "foo"),
    "nd.contrib.foo": (AttributeError, "foo"),
    "a.reshape((5, 5))": (mx.MXNetError, "24 element"),
    "a.reshape((-1, -1))": (mx.MXNetError, "inferred"),
    "a.reshape((-1,), foo=1)": (TypeError, "foo"),
    "a.reshape(())": (mx.MXNetError, "\\(\\)"),
    "a + f": (mx.MXNetError, "broadcast_add.*\\(2, 3, 4\\).*\\(3,\\)"),
    "a += nd.ones((5, 2, 3, 4)); a": (mx.MXNetError, "broadcast_add.*\\(5, 2, 3, 4\\)"),
    "f + i": (mx.MXNetError, "broadcast_add.*float32.*int32"),
    "f + None": (TypeError, "NoneType"),
    "f == None": (TypeError, "NoneType"),
    "f + 'x'": (TypeError, "str"),
    "f + np.ones(3)": (TypeError, "ndarray"),
    "np.ones(3) + f": (TypeError, "ndarray"),
    "nd.add(f, 'x')": (TypeError, "str"),
    "f @ f": (TypeError, "@"),
    "nd.exp(b, out=f)": (mx.MXNetError, "exp.*\\(2, 3\\)"),
    "nd.exp(f, out=i)": (mx.MXNetError, "exp.*int32"),
    "nd.exp(f, out=3)": (TypeError, "exp.*int"),
    "nd.split(b, 3, out=o)": (mx.MXNetError, "SliceChannel.*expected 3"),
    "nd.exp()": (mx.MXNetError, "exp.*data"),
    "nd.exp(3)": (mx.MXNetError, "exp.*data.*int"),
    "nd.exp([1, 2])": (mx.MXNetError, "exp.*data.*list"),
    "nd.sum(f, foo=3)": (mx.MXNetError, "sum.*foo"),
    "nd.sum(b, axis='x')": (mx.MXNetError, "sum.*axis.*'x'"),
    "nd.sum(b, axis=5)": (mx.MXNetError, "sum.*5"),
    "nd.Activation(f)": (mx.MXNetError, "Activation.*act_type"),
    "nd.Activation(f, act_type='foo')": (mx.MXNetError, "Activation.*act_type.*foo.*relu"),
    "nd.FullyConnected(b, num_hidden=2)": (mx.MXNetError, "FullyConnected.*weight"),
    "nd.FullyConnected(b, nd.ones((2, 4)), num_hidden=2, no_bias=True)": (
        mx.MXNetError, "FullyConnected: weight has shape \\(2, 4\\), expected \\(2, 3\\)"),
    "nd.FullyConnected(b, b, f, num_hidden=2, no_bias=True)": (
        mx.MXNetError, "FullyConnected.*bias"),
    "nd.array([]) + 1": (mx.MXNetError, "_plus_scalar.*elements"),
    "nd.save('x', ())": (ValueError, "tuple"),
    "nd.save('x', [1])": (TypeError, "int"),
    "nd.save('x', {1: f})": (TypeError, "int"),
    "nd.load('/no/such/file')": (mx.MXNetError, "/no/such/file"),
    "nd.load(3)": (TypeError, "int"),
    "nd.load_frombuffer(b'abc')": (mx.MXNetError, "buffer"),
    "nd.sparse.csr_matrix(f)": (mx.MXNetError, "2 Dimensional"),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_answers_are_mxnets(oracle, table):
    expressions = TABLES[table]
    real = oracle.call("mx_arrays.answers", expressions)
    found = answers(mx, expressions)
    wrong = [f"{text}: nbmod {mine}, MXNet {theirs}"
             for text, mine, theirs in zip(expressions, found, real, strict=True)
             if not same(mine, theirs)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def same(mine: Any, theirs: Any) -> bool:
    """Equal in structure and type; floating-point values to the last few places."""
    if isinstance(mine, np.ndarray):
        close = {2: 2e-3, 4: 2e-6, 8: 1e-12}.get(mine.dtype.itemsize * (mine.dtype.kind == "f"), 0)
        return (
            isinstance(theirs, np.ndarray) and mine.dtype == theirs.dtype
            and mine.shape == theirs.shape
            and np.allclose(mine, theirs, rtol=close, atol=close, equal_nan=True)
        )  # fmt: skip
    if isinstance(mine, dict):
        return isinstance(theirs, dict) and mine.keys() == theirs.keys() and all(
            same(value, theirs[key]) for key, value in mine.items())  # fmt: skip
    if isinstance(mine, list):
        return (
            isinstance(theirs, list)
            and len(mine) == len(theirs)
            and all(map(same, mine, theirs))
        )
    return type(mine) is type(theirs) and mine == theirs


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_say_what_is_wrong(expression):
    kind, words = ERRORS[expression]
    scope = __import__("tests.programs.array_answers", fromlist=["names"]).names(mx)
    before, _, last = expression.rpartition(";")
    with pytest.raises(kind, match=f"(?s){words}"):
        exec(before, scope)
        eval(last.strip(), scope)


def test_every_public_method_of_mxnet_is_here(oracle):
    """Absent: raw constructors of other array kinds."""
    absent = {"as_np_ndarray"}
    theirs = oracle.call("mx_arrays.public_names")
    assert {name for name in theirs if not hasattr(mx.nd.NDArray, name)} == absent


def test_functions_have_signatures_and_documentation():
    for name in ("exp", "Convolution", "sum", "concat", "sgd_mom_update"):
        function = getattr(mx.nd, name)
        signature = inspect.signature(function)
        assert function.__name__ == name and "out" in signature.parameters, name
        assert len(function.__doc__) > 40 and getattr(mx.nd, name) is function, name
    assert list(inspect.signature(mx.nd.clip).parameters)[:3] == ["data", "a_min", "a_max"]
    assert {"exp", "array", "contrib", "NDArray"} <= set(dir(mx.nd))


def test_submodules_are_listed_before_they_are_loaded():
    code = "import nbmod as mx; print({'contrib', 'random', 'linalg'} <= set(dir(mx.nd)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_copies_and_pickles(tmp_path):
    a = mx.nd.array([[1, 2], [3, 4]], dtype="float16")
    for other in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a, 2))):
        assert other is not a and other.dtype == np.float16
        np.testing.assert_array_equal(other.asnumpy(), a.asnumpy())
    state = a.__getstate__()
    assert a.__reduce__()[1] == (None,) and isinstance(state["handle"], bytearray)


def test_pickles_hold_what_mxnets_hold(oracle):
    a = mx.nd.array(np.arange(6).reshape(2, 3))
    assert bytes(a.__getstate__()["handle"]) == oracle.call("mx_arrays.pickled_state", a.asnumpy())


def test_save_and_load(tmp_path):
    path = str(tmp_path / "x.params")
    f, i = mx.nd.array([1.5, 2.5]), mx.nd.array([1, 2], dtype="int32")
    mx.nd.save(path, {"f": f, "i": i})
    loaded = mx.nd.load(path)
    assert list(loaded) == ["f", "i"] and loaded["i"].dtype == np.int32
    mx.nd.save(path, [f, i])
    for arrays in (mx.nd.load(path), mx.nd.load_frombuffer((tmp_path / "x.params").read_bytes())):
        assert [x.context for x in arrays] == [mx.cpu(), mx.cpu()]
        np.testing.assert_array_equal(arrays[0].asnumpy(), [1.5, 2.5])
    mx.nd.save(path, f)
    assert len(mx.nd.load(path)) == 1


def test_a_second_array_from_one_numpy_array_can_be_written():
    source = np.zeros(3, np.float32)
    first, second = mx.nd.from_numpy(source), mx.nd.from_numpy(source)
    second[1] = 5
    assert first.asnumpy().tolist() == source.tolist() == [0, 5, 0]
    assert not source.flags.writeable


def test_from_numpy_takes_memory_that_nobody_may_write():
    assert mx.nd.from_numpy(np.frombuffer(b"ab", np.uint8)).asnumpy().tolist() == [97, 98]


def test_from_numpy_shares_memory_and_freezes_the_source():
    source = np.arange(3.0)
    a = mx.nd.from_numpy(source)
    a[0] = 7
    assert source[0] == 7
    with pytest.raises(ValueError):
        source[1] = 1


def test_a_reshape_to_another_size_is_a_value_error():
    with pytest.raises(ValueError, match=r"30 element\(s\), cannot have shape \(2, 3\)"):
        mx.nd.zeros((2, 3, 5)).reshape((2, 3))


def test_copying_to_itself_warns_and_does_nothing():
    a = mx.nd.ones(2)
    with pytest.warns(RuntimeWarning, match="itself"):
        assert a.copyto(a) is False


def test_contexts():
    with mx.cpu(2):
        assert mx.nd.ones(2).context == mx.cpu(2) == mx.nd.arange(3).context
    a = mx.nd.ones(2, ctx=mx.cpu(1))
    assert (a + 1).context == mx.cpu(1) == (1 - a).context == a.exp().context == a[0].context


def test_a_missing_gpu_says_how_to_go_on():
    if mx.num_gpus():
        pytest.skip("there is a GPU")
    for make in (lambda: mx.nd.ones(2, mx.gpu(0)), lambda: mx.nd.ones(2).copyto(mx.gpu(0)),
                 lambda: mx.nd.ones(2).as_in_context(mx.gpu(0))):  # fmt: skip
        with pytest.raises(mx.MXNetError, match="NBMOD_GPU_TO_CPU"):
            make()


def test_many_threads_read_one_array():
    a = mx.nd.array(np.arange(1000))
    sums: list[float] = []
    threads = [
        threading.Thread(
            target=lambda: sums.extend(float((a[k:] * 2).sum().asscalar()) for k in range(50))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == sorted(4 * [float(2 * np.arange(k, 1000).sum()) for k in range(50)])


@pytest.mark.gpu
def test_arrays_on_gpus():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = mx.nd.array(values, ctx=mx.gpu(0))
    assert a.context == mx.gpu(0) == a[0].context == (a + 1).context == a.copy().context
    for key in (0, (0, 1, 2), slice(1, 2), (slice(None), 1), [1, 0], (..., 0), (None, 1)):
        expected = values[key].reshape(np.shape(values[key]) or (1,))
        np.testing.assert_array_equal(a[key].asnumpy(), expected)
    np.testing.assert_array_equal((a * 2 + a).asnumpy(), values * 3)
    np.testing.assert_array_equal(a.astype("int32").asnumpy(), values.astype(np.int32))
    a[0][1:] = 5
    a[:, 0] = mx.nd.array([1, 2, 3, 4])
    a[1] += a[0]
    values[0][1:] = 5
    values[:, 0] = [1, 2, 3, 4]
    values[1] += values[0]
    np.testing.assert_array_equal(a.asnumpy(), values)


@pytest.mark.gpu
def test_arrays_travel_between_devices():
    a = mx.nd.array([1, 2, 3], ctx=mx.gpu(0))
    for ctx in (mx.cpu(), mx.gpu(mx.num_gpus() - 1), mx.gpu(0)):
        other = a.copyto(ctx)
        assert other.context == ctx and other.asnumpy().tolist() == [1, 2, 3]
        other[:] = 0
        a.copyto(other)
        assert other.asnumpy().tolist() == [1, 2, 3] == a.as_in_context(ctx).asnumpy().tolist()
    target = mx.nd.zeros(3, ctx=mx.gpu(0))
    mx.nd.broadcast_add(mx.nd.ones(3), mx.nd.ones(3), out=target)
    assert target.asnumpy().tolist() == [2, 2, 2]
    assert pickle.loads(pickle.dumps(target)).context == mx.cpu()
    with pytest.raises(mx.MXNetError, match="as_in_context"):
        a + mx.nd.ones(3)


@pytest.mark.parametrize("indices, out", [((3,), (2, 3)), ((2,), (3,)), ((2, 1), (2, 3))])
def test_one_hot_vectors_of_other_shapes_are_refused(indices, out):
    with pytest.raises(MXNetError, match="onehot_encode: indices has shape .* and out"):
        mx.nd.onehot_encode(mx.nd.zeros(indices), mx.nd.zeros(out))


def test_slices_have_the_name_that_scripts_import():
    assert mx.nd.ndarray.py_slice is slice


def test_text_is_read_as_numbers():
    assert mx.nd.array(["1", "2.5"]).asnumpy().tolist() == [1, 2.5]
    assert mx.nd.array([["1", "2"]], dtype="int32").asnumpy().tolist() == [[1, 2]]
    with pytest.raises(TypeError, match="expected a number"):
        mx.nd.array(["1", "one"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int32", "int64"])
def test_memory_is_shared_by_dlpack(dtype):
    x = mx.nd.array([[1, 2], [3, 4]], dtype=dtype)
    for capsule in (x.to_dlpack_for_read(), mx.nd.to_dlpack_for_write(x), x):
        y = mx.nd.from_dlpack(capsule)
        y[0, 1] = y[0, 1].asscalar() + 1
        assert y.dtype == x.dtype and y[0, 1].asscalar() == x[0, 1].asscalar()
    assert x.asnumpy().tolist() == [[1, 5], [3, 4]]
    source = np.arange(6, dtype=dtype).reshape(2, 3)
    assert mx.nd.from_dlpack(source.T).asnumpy().tolist() == source.T.tolist()
    view = mx.nd.from_dlpack(source)
    del source
    assert view.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.from_dlpack(view).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_capsule_is_used_once():
    capsule = mx.nd.ones(2).to_dlpack_for_read()
    mx.nd.from_dlpack(capsule)
    with pytest.raises(mx.MXNetError, match="a capsule can be used once"):
        mx.nd.from_dlpack(capsule)
    with pytest.raises(AssertionError, match="given a int, expected a DLPack capsule"):
        mx.nd.from_dlpack(3)


def test_arrays_by_position_count_past_inputs_that_an_op_does_not_have():
    steps, texts = mx.nd.ones((20, 2, 4)), mx.nd.array([[2, 1, 2, 2], [3, 2, 2, 2]])
    lengths = mx.nd.array([2, 3])
    loss = mx.nd.CTCLoss(steps, texts, lengths, use_label_lengths=True)
    named = mx.nd.CTCLoss(steps, texts, label_lengths=lengths, use_label_lengths=True)
    assert loss.asnumpy().tolist() == named.asnumpy().tolist()
    with pytest.raises(MXNetError, match="'label_lengths' is not given"):
        mx.nd.CTCLoss(steps, texts, data_lengths=lengths, use_label_lengths=True)
    with pytest.raises(MXNetError, match="'bias' is an NDArray, but"):
        mx.nd.FullyConnected(texts, mx.nd.ones((3, 4)), mx.nd.ones(3), num_hidden=3, no_bias=True)


@pytest.mark.parametrize("call, expected", [
    (lambda x, zero: x / zero, lambda zero: 1 / zero),
    (lambda x, zero: x * zero, lambda zero: zero),
    (lambda x, zero: zero * x, lambda zero: zero),
    (lambda x, zero: mx.nd.clip(-x, a_min=zero, a_max=1), lambda zero: zero),
    (lambda x, zero: mx.nd.clip(-x, a_min=np.float32(zero), a_max=1), lambda zero: zero),
    (lambda x, zero: mx.nd.image.normalize(x.reshape((1, 1, 1)), mean=(0,), std=(zero,)),
     lambda zero: 1 / zero)])
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_the_sign_of_a_zero_parameter_counts(call, expected, zeros):
    """Ops are cached by their parameters, which are equal."""
    mx.ndarray.eager.clear_caches()
    with np.errstate(divide="ignore"):
        for zero in zeros:
            result = call(mx.nd.ones(1), zero).asnumpy().reshape(-1)
            target = np.float32(expected(np.float32(zero)))
            assert (result[0], np.signbit(result[0])) == (target, np.signbit(target))
