"""Iterators against MXNet: batches, padding, rolled-over samples."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.io import text_kernels
from tests.programs import iteration

HANDLES = ("pad", "discard", "roll_over")


def same(oracle, function, *args):
    """Results of `tests.programs.iteration.function`, after comparison with MXNet's."""
    ours = getattr(iteration, function)(mx, *args)
    theirs = oracle.call("mx_scripts.run", "iteration", function, *args)
    np.testing.assert_equal(ours, theirs)
    return ours


@pytest.mark.parametrize("handle", HANDLES)
@pytest.mark.parametrize("count, batch_size", [
    (12, 4), (10, 4), (9, 4), (11, 5), (4, 4), (7, 6), (4, 6)])
def test_epochs(oracle, handle, count, batch_size):
    options = {"batch_size": batch_size, "last_batch_handle": handle}
    same(oracle, "epochs", "numpy", count, options, [None, None, None, 1, None, "hard", None])


@pytest.mark.parametrize("kind", ["numpy", "ndarray", "list", "dict", "unlabelled"])
@pytest.mark.parametrize("handle", HANDLES)
def test_forms_of_data(oracle, kind, handle):
    options = {"batch_size": 4, "last_batch_handle": handle, "data_name": "x", "layout": "NC"}
    same(oracle, "epochs", kind, 10, options, [None, None])


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("reset_internal", [True, False])
def test_resized(oracle, size, reset_internal):
    same(oracle, "resized", 10, size, reset_internal)


@pytest.mark.parametrize("handle", HANDLES)
def test_shuffled_epochs_bring_every_sample_in_another_order(handle):
    mx.random.seed(3)
    options = {"batch_size": 4, "last_batch_handle": handle, "shuffle": True}
    ran = iteration.epochs(mx, "numpy", 12, options, [None] * 3)["epochs"]
    orders = []
    for batches in ran:
        rows = np.concatenate([data[0] for data, _, _ in batches])
        np.testing.assert_array_equal(rows[:, 0], np.concatenate([x[0] for _, x, _ in batches]))
        assert sorted(rows[:, 0]) == list(range(12))
        orders.append(rows[:, 0].tolist())
    assert orders[0] != orders[1] != orders[2]
    mx.random.seed(3)
    again = iteration.epochs(mx, "numpy", 12, options, [None] * 3)["epochs"]
    np.testing.assert_equal(again, ran)


def test_carried_samples_survive_shuffling():
    """10 samples by 4: the two left over begin the next epoch, followed by all ten again."""
    options = {"batch_size": 4, "last_batch_handle": "roll_over", "shuffle": True}
    first, second = iteration.epochs(mx, "numpy", 10, options, [None, None])["epochs"]
    seen = {value for (rows,), _, _ in first for value in rows[:, 0]}
    opening = second[0][0][0][:, 0]
    assert set(opening[:2]) == set(range(10)) - seen and [b[2] for b in second] == [2, 0, 0]
    assert sorted(np.concatenate([b[0][0][:, 0] for b in second])[2:]) == list(range(10))


WRONG = [
    ([], [], {}, MXNetError, "data is empty"),
    ([(4, 2)], [(3,)], {}, MXNetError, "'data': 4, 'softmax_label': 3"),
    ([(5, 2), (4, 2)], [], {}, MXNetError, "'_0_data': 5, '_1_data': 4"),
    ([(4, 2)], [], {"last_batch_handle": "wrap"}, MXNetError, "'wrap'.*'roll_over'"),
    ([(4, 2)], [], {"batch_size": 0}, MXNetError, "batch_size is 0"),
]


@pytest.mark.parametrize("data, label, options, error, text", WRONG)
def test_wrong_use(data, label, options, error, text):
    data, label = ([np.zeros(shape, np.float32) for shape in shapes] for shapes in (data, label))
    with pytest.raises(error, match=text):
        mx.io.NDArrayIter(data, label, **options)


@pytest.mark.parametrize("handle", ["discard", "roll_over"])
def test_samples_beyond_those_of_the_first_array_are_left_out(oracle, handle):
    """Without 'pad': MXNet's padded labels have another length than the data."""
    theirs = oracle.call("mx_scripts.run", "iteration", "longer", handle)
    with pytest.warns(UserWarning, match="'data': 5, 'softmax_label': 8}; only the first 5"):
        np.testing.assert_equal(iteration.longer(mx, handle), theirs)


def test_descriptions(oracle):
    same(oracle, "descriptions")


@pytest.mark.parametrize("loads", [[1, 1], [1, 1, 1], [1, 2, 1], [3, 1], [0.3, 0.7], [4, 1, 1, 1]])
def test_batches_are_split_as_in_mxnet(oracle, loads):
    for batch_size in range(1, 12):
        same(oracle, "split", batch_size, loads)


@pytest.mark.parametrize("kind", ["resize", "prefetch"])
def test_a_subclass_may_decide_when_an_epoch_ends(kind):
    """`next` asks `iter_next`, as in MXNet."""
    inner = mx.io.NDArrayIter(np.arange(8), batch_size=2)
    base = {"resize": mx.io.ResizeIter, "prefetch": mx.io.PrefetchingIter}[kind]

    class Short(base):
        left = 2

        def iter_next(self):
            self.left -= 1
            return self.left >= 0 and super().iter_next()

    batches = Short(inner, *([4] if kind == "resize" else []))
    assert [batch.data[0].asnumpy().tolist() for batch in batches] == [[0, 1], [2, 3]]


TEXT = """
import sys
import nbmod as mx
print(mx.io.LibSVMIter(data_libsvm=sys.argv[1], data_shape=(4,), batch_size=3).next().data[0]
      .asnumpy().tolist())
"""


CSV = b"1,2,-3.5\n.5, 4.e2 ,+6\n\n7,8,9\r\n"
LIBSVM = b"1 0:0.5 2:1.5\n0 1:2.0 3:-1e3\n\n 1 0:3.25e2 1:-12345.678\t3:12345678 \r\n"


def parsed(kernel, text):
    """The status of a parser of text, and the rows if it has found no error."""
    padded = np.frombuffer(text.rstrip(b"\n") + b"\n" * (1 + text_kernels.PADDING), np.uint8)
    status, values = np.zeros(3, np.int64), np.zeros((9, 3), np.float32)
    arrays = [np.zeros(9, np.float32), np.zeros(10, np.int64), np.zeros(20, np.int64),
              np.zeros(20, np.float32)]
    if ":" in text.decode():
        kernel(padded, 4, *arrays, status)
        used = arrays[1][status[0]]
        found = [arrays[0][:status[0]], arrays[1][:status[0] + 1], *(each[:used] for each
                                                                    in arrays[2:])]
    else:
        kernel(padded, False, values, status)
        found = [values[:status[0]]]
    return [status.tolist(), *([] if status[1] else found)]


@pytest.mark.parametrize("correct", [CSV, LIBSVM], ids=["csv", "libsvm"])
def test_numpy_parses_the_text_that_kernels_parse(correct, monkeypatch):
    """Correct, and changed in a few places: text with errors it leaves to the Python functions."""
    class LeftToPython(Exception):
        pass

    def leave(*args):
        raise LeftToPython

    draw, kernel = random.Random(0), (
        text_kernels.parse_csv if correct is CSV else text_kernels.parse_libsvm)
    kernel.compile()
    monkeypatch.setattr(kernel, "function", leave)
    assert parsed(kernel.plain, correct)[0] == [3, text_kernels.OK, len(correct)]
    for _ in range(2000):
        text = bytearray(correct)
        for _ in range(draw.randint(0, 3)):
            at, length = draw.randrange(len(text)), draw.choice([0, 1])
            text[at:at + length] = draw.choice(
                [b"", bytes([draw.choice(b"0123456789,:.-+eE \n\t#x")])])
        if (b":" in text) == (correct is LIBSVM):
            expected = parsed(kernel, bytes(text))   # infinite where float32 overflows
            try:
                with np.errstate(over="ignore"):
                    found = parsed(kernel.plain, bytes(text))
            except LeftToPython:
                continue
            assert len(found) == len(expected) and found[0] == expected[0], text
            for ours, kernels in zip(found[1:], expected[1:], strict=True):
                np.testing.assert_allclose(ours, kernels, rtol=1e-6, err_msg=str(text))


def test_text_is_parsed_without_the_compiler(tmp_path):
    """Kernels as Python functions read words of memory, too, and do not warn of overflow."""
    path = tmp_path / "data.svm"
    path.write_text("1 0:0.5 2:1.5\n0 1:2.0 3:-1e3\n1 0:3.25e2 1:-12345.678 3:12345678\n")
    done = subprocess.run([sys.executable, "-c", TEXT, str(path)], capture_output=True, text=True,
                          env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
    assert not done.stderr
    expected = [[0.5, 0, 1.5, 0], [0, 2, 0, -1000],
                [325, np.float32(-12345.678).item(), 0, 12345678]]
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
def test_csr_batches_are_those_of_dense_arrays(shuffle, handle):
    """MXNet takes csr arrays with 'discard' only, and yields dense batches."""
    values = np.arange(15).reshape(5, 3) % 4

    def epochs(data):
        mx.random.seed(3)
        batches = mx.io.NDArrayIter(data, np.arange(5), 2, shuffle, handle)
        for _ in range(2):
            for batch in batches:
                yield (batch.data[0].stype, batch.data[0].asnumpy(), batch.label[0].asnumpy(),
                       batch.pad)
            batches.reset()

    sparse = [*epochs(mx.nd.array(values).tostype("csr"))]
    assert {stype for stype, *_ in sparse} == {"csr"}
    for (_, *mine), (_, *dense) in zip(sparse, epochs(mx.nd.array(values)), strict=True):
        for one, other in zip(mine, dense, strict=True):
            np.testing.assert_array_equal(one, other)


def test_scipy_matrices_give_csr_batches():
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.csr_matrix(np.eye(4, 3, dtype=np.float32))
    batch = next(iter(mx.io.NDArrayIter(matrix, batch_size=2)))
    assert batch.data[0].stype == "csr"
    np.testing.assert_array_equal(batch.data[0].asnumpy(), np.eye(2, 3))
