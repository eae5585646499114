"""`mx.test_utils`: MXNet's verdicts, messages, statistics and files."""

from __future__ import annotations

import gzip
import math
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import nbmod as mx
from nbmod import test_utils as utils
from nbmod.base import MXNetError
from nbmod.io.mnist import read_idx
from nbmod.test_utils.generators import chi_square_tail
from tests.compare import assert_like
from tests.programs import tools


@pytest.mark.parametrize("program", ["tolerances", "comparisons", "structures", "helpers",
                                     "symbol_checks", "consistencies"])  # fmt: skip
def test_answers_are_mxnets(oracle, program):
    assert_like(getattr(tools, program)(mx), oracle.call("mx_scripts.run", "tools", program), 1e-6)


def test_a_star_import_brings_what_scripts_take_from_it():
    names: dict[str, object] = {}
    exec("from nbmod.test_utils import *", names)
    assert names["mx"] is mx and names["np"] is np and names["os"] is os
    assert names["Context"] is mx.Context and names["array"] is mx.nd.array
    assert names["use_np"] is mx.util.use_np and names["getenv"] is mx.util.getenv
    assert names["setenv"] is mx.util.setenv


def test_the_first_optimizer_of_a_comparison_updates_one_weight_in_a_call():
    class OneByOne(mx.optimizer.SGD):
        def update_multi_precision(self, index, weight, grad, state):
            assert isinstance(index, int)
            super().update_multi_precision(index, weight, grad, state)

    utils.compare_optimizer(OneByOne(), mx.optimizer.SGD(), [(2, 3), (4,)], np.float32, ntensors=2)
    with pytest.raises(AssertionError):
        utils.compare_optimizer(mx.optimizer.SGD(), OneByOne(), [(2, 3), (4,)], np.float32,
                                ntensors=2)


# -- comparisons ---------------------------------------------------------------------------------


def test_a_failed_comparison_names_the_worst_elements_first():
    x = np.zeros((2, 3))
    y = np.array([[0, 0, 0.5], [0, 2, 0]])
    with pytest.raises(AssertionError) as caught:
        utils.assert_almost_equal(x, y, rtol=0, atol=0.1, names=("mine", "yours"))
    lines = str(caught.value).splitlines()
    assert lines[1:5] == [
        "Items are not equal:",
        "Error 20.000000 exceeds tolerance rtol=0.000000e+00, atol=1.000000e-01 "
        "(mismatch 33.333333%: 2 of 6).",
        "Location of maximum error: (1, 1), mine=0.00000000, yours=2.00000000",
        "           5 times too far: Location of error: (0, 2), mine=0.00000000, yours=0.50000000",
    ]


def test_types_whose_tolerance_is_zero_must_be_equal():
    whole = np.arange(3, dtype=np.int32)
    utils.assert_almost_equal(whole, whole.copy())
    with pytest.raises(AssertionError, match=r"\(2,\), a=2.00000000, b=3.00000000"):
        utils.assert_almost_equal(whole, np.array([0, 1, 3], np.int32))
    assert utils.almost_equal(np.array([True]), np.array([True]))


def test_numeric_gradients_of_any_network_and_location():
    """Of several outputs too, which MXNet rejects, and of NDArrays, which it leaves unchanged."""
    a = mx.sym.Variable("a")
    utils.check_numeric_gradient(mx.sym.Group([a * a, mx.sym.exp(a)]), [np.array([[0.5, 1.5]])])
    executor = mx.sym.sum(a * a).bind(mx.cpu(), {"a": mx.nd.zeros((2,))})
    found = utils.numeric_grad(executor, {"a": mx.nd.array([1, 3])}, eps=1e-2)
    np.testing.assert_allclose(found["a"], [2, 6], rtol=1e-4)
    with pytest.raises(ValueError, match="location: the symbol has 1 .a., 2 are given"):
        utils.check_numeric_gradient(a * a, [1, 2])


def test_gradients_of_hidden_outputs_are_passed_over():
    net = mx.sym.LeakyReLU(mx.sym.Variable("x"), mx.sym.Variable("slope"), act_type="prelu")
    x, ones = np.float32([[1, -1]]), np.ones((1, 2), np.float32)
    slopes = np.float32([2, 3])
    utils.check_symbolic_backward(net, [x, slopes], [ones, slopes],
                                  [np.float32([[1, 3]]), np.float32([0, -1])])


def test_symbols_of_different_size_differ():
    """MXNet compares the first nodes only."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    for longer in (a * b * a, mx.sym.Group([a * b, a])):
        assert not utils.same_symbol_structure(a * b, longer)


# -- random values -------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic, freedom, tail", [
    (0, 3, 1), (2 * math.log(4), 2, 0.25), (100, 2, math.exp(-50)),  # exp(-x / 2) for 2
    (1, 1, math.erfc(math.sqrt(0.5))), (30, 1, math.erfc(math.sqrt(15))),  # erfc(sqrt(x / 2)) for 1
    (20, 20, None), (5, 150, None), (200, 150, None), (900, 150, None),
])  # fmt: skip
def test_chi_square_tails(statistic, freedom, tail):
    """Closed forms for 1 and 2; exp(-x / 2) sum((x / 2)^k / k!) for all even degrees of freedom."""
    if tail is None:
        half = statistic / 2
        tail = math.fsum(math.exp(k * math.log(half) - half - math.lgamma(k + 1))
                         for k in range(freedom // 2))
    assert math.isclose(chi_square_tail(statistic, freedom), tail, rel_tol=1e-12)


def test_generators_are_verified():
    rng = np.random.default_rng(0)
    buckets, probs = utils.gen_buckets_probs_with_ppf(lambda q: 2 * q, 5)
    good, wrong = (lambda n: rng.uniform(0, 2, n)), (lambda n: 2 * rng.uniform(0, 1, n) ** 1.1)
    assert max(utils.verify_generator(good, buckets, probs, nsamples=10000)) > 0.05
    with pytest.raises(AssertionError, match="generator failed"):
        utils.verify_generator(wrong, buckets, probs, nsamples=10000)
    dice = utils.verify_generator(lambda n: mx.nd.array(rng.integers(0, 6, n)), range(6),
                                  [1 / 6] * 6, nsamples=6000)
    assert len(dice) == 5 and max(dice) > 0.05
    assert utils.mean_check(good, 1, 1 / math.sqrt(3), 10000)
    assert not utils.mean_check(good, 1.1, 1 / math.sqrt(3), 10000)
    assert utils.var_check(lambda n: rng.normal(0, 2, n), 2, 10000)


def test_random_arrays_and_shapes():
    single, (first, second) = utils.random_arrays((2, 3)), utils.random_arrays((2,), (3, 1))
    assert single.dtype == np.float32 and (first.shape, second.shape) == ((2,), (3, 1))
    assert [a.dtype for a in utils.random_uniform_arrays((2,), low=3, high=4, dtype="float16")] == [
        np.float16]  # fmt: skip
    assert utils.random_sample([3, 1, 2], 3) == [3, 1, 2]
    assert utils.rand_ndarray((2, 3), dtype="float64").dtype == np.float64
    assert set(utils.rand_ndarray((9,), modifier_func=lambda v: 7).asnumpy()) == {7}
    with pytest.raises(MXNetError, match="stype is 'coo', expected 'csr' or 'row_sparse'"):
        utils.rand_ndarray((2, 3), "coo")
    for _ in range(20):
        assert 1 <= utils.rand_shape_nd(3, 2)[2] <= 2 and 1 <= utils.rand_shape_3d(4, 1, 1)[0] <= 4
        x, y = utils.rand_coord_2d(0, 2, 5, 6)
        assert 0 <= x < 2 and y == 5


def test_random_matrices_are_what_their_names_say():
    q = utils.new_orthonormal_matrix_2d(4)
    np.testing.assert_allclose(q @ q.T, np.identity(4), atol=1e-12)
    for make in (utils.new_matrix_with_real_eigvals_nd, utils.new_sym_matrix_with_real_eigvals_nd):
        values = np.linalg.eigvals(make((2, 3, 4, 4)))
        np.testing.assert_allclose(values.imag, 0, atol=1e-9)
        assert ((values.real > 1 - 1e-9) & (values.real < 2 + 1e-9)).all()


# -- process and files ---------------------------------------------------------------------------


def test_standard_error_can_be_discarded(capfd):
    with utils.discard_stderr():
        os.write(2, b"lost")
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"


def test_attempts(capsys):
    attempts = []

    @utils.retry(3)
    def fails(times):
        attempts.append(times)
        assert len(attempts) > times
        return "done"

    assert fails(2) == "done" and len(attempts) == 3
    with pytest.raises(AssertionError):
        fails(9)
    assert len(attempts) == 6
    assert capsys.readouterr().err.count("AssertionError") == 4


def test_equal_arrays_are_compared_without_wide_copies():
    """Arrays of MXNet's own tests have half a gigabyte."""
    x = np.ones(1 << 20, np.float32)
    tracemalloc.start()
    try:
        utils.assert_almost_equal(x, x.copy())
        assert utils.almost_equal(x, x.copy())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * x.nbytes


def test_the_default_context_is_set_and_seen(monkeypatch):
    monkeypatch.setattr(mx.Context._default, "value", None, raising=False)
    utils.set_default_context(mx.cpu(3))
    assert utils.default_context() == mx.nd.zeros((1,)).context == mx.cpu(3)


def write_mnist(folder, packed):
    rng = np.random.default_rng(0)
    for name, shape in zip(("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                            "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
                           ((20, 28, 28), (20,), (7, 28, 28), (7,)), strict=True):
        data = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(
            rng.integers(0, 10 if len(shape) == 1 else 256, math.prod(shape), dtype=np.uint8))
        path = folder / (name + ".gz" if packed else name)
        path.write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_is_read_where_it_is(tmp_path, monkeypatch, packed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "absent").as_uri())
    with pytest.raises(MXNetError, match="train-images-idx3-ubyte.gz could not be fetched to .*"
                                         "datasets.mnist"):
        utils.get_mnist()
    folder = tmp_path / "home" / "datasets" / "mnist" if packed else tmp_path / "data"
    folder.mkdir(parents=True, exist_ok=True)
    write_mnist(folder, packed)
    mnist = utils.get_mnist()
    assert mnist["train_data"].shape == (20, 1, 28, 28) and mnist["test_label"].shape == (7,)
    assert mnist["train_data"].dtype == np.float32 and 0.9 < mnist["train_data"].max() <= 1
    train, val = utils.get_mnist_iterator(4, (784,), num_parts=2, part_index=1)
    batches = list(train)
    assert [b.data[0].shape for b in batches] == [(4, 784)] * 2 and len(list(val)) == 1
    labels = np.concatenate([b.label[0].asnumpy() for b in batches])
    assert not set(map(tuple, np.concatenate([b.data[0].asnumpy() for b in batches]))) - set(
        map(tuple, mnist["train_data"][10:].reshape(10, -1) * np.float32(255) / 256))
    assert len(labels) == 8
    if not packed:
        utils.get_mnist_ubyte()


@pytest.mark.parametrize("data", [b"", b"\0\0\x08", b"PK\3\4", b"\0\0\x08\x01\0\0\0\x05ab",
                                  b"\0\0\x08\x02\0\0\0\x05", b"\x1f\x8bnot gzip"])  # fmt: skip
def test_damaged_files_are_named(tmp_path, data):
    path = tmp_path / "images"
    path.write_bytes(data)
    with pytest.raises(MXNetError, match="images: "):
        read_idx(path, 2 if data[3:4] == b"\x02" else 1)


def test_files_are_downloaded_once(tmp_path, monkeypatch):
    """A folder stands for the server; MXNet leaves a part of a file whose download fails."""
    (tmp_path / "file.bin").write_bytes(b"1")
    url, folder = (tmp_path / "file.bin").as_uri(), tmp_path / "a" / "b"
    assert utils.download(url, dirname=str(folder)) == str(folder / "file.bin")
    (tmp_path / "file.bin").write_bytes(b"2")
    utils.download(url, dirname=str(folder))
    assert (folder / "file.bin").read_bytes() == b"1"
    assert utils.download(url, str(folder / "file.bin"), overwrite=True, retries=0)
    assert (folder / "file.bin").read_bytes() == b"2"
    (tmp_path / "file.bin").unlink()
    with pytest.raises(MXNetError, match="file.bin could not be fetched to .*file.bin"):
        utils.download(url, dirname=str(folder), overwrite=True, retries=0)
    assert (folder / "file.bin").read_bytes() == b"2"
    with pytest.raises(MXNetError, match="load_checkpoint"):
        utils.download_model("resnet")


def test_archives_of_data_sets_are_unpacked_in_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {"mnist": ["train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
                "cifar10": ["cifar/train.rec", "cifar/test.rec"]}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist.pkl.gz").write_bytes(b"")
    utils.get_mnist_pkl()
    for (name, members), get in zip(contents.items(), (utils.get_mnist_ubyte, utils.get_cifar10),
                                    strict=True):
        with zipfile.ZipFile(tmp_path / "data" / f"{name}.zip", "w") as archive:
            for member in members:
                archive.writestr(member, member)
        get()
        (tmp_path / "data" / f"{name}.zip").unlink()
        get()
        assert all((tmp_path / "data" / member).read_text() == member for member in members)


def test_random_sparse_arrays():
    rows, (data, indices) = utils.rand_sparse_ndarray((50, 3), "row_sparse", 0.5, data_init=2,
                                                      modifier_func=lambda v: v + 1)
    assert rows.stype == "row_sparse" and 5 < len(indices) < 45
    assert set(data.ravel()) == {3} and rows.asnumpy()[indices].all()
    csr, (indptr, _, data) = utils.rand_sparse_ndarray((6, 5), "csr", 0.4, "float64")
    assert csr.dtype == np.float64 and len(data) == 12 and indptr.asnumpy()[-1] == 12
    csr.check_format()
    assert utils.rand_ndarray((4, 4), "csr", 1).asnumpy().all()
    given = utils.create_sparse_array_zd((5, 2), "row_sparse", 0, rsp_indices=np.array([3, 1]))
    assert given.indices.asnumpy().tolist() == [1, 3]
    with pytest.raises(AssertionError, match="expected rows below 5"):
        utils.create_sparse_array_zd((5, 2), "row_sparse", 0, rsp_indices=[5])


def test_rows_of_a_power_law_double():
    csr, _ = utils.rand_sparse_ndarray((6, 40), "csr", 0.3, distribution="powerlaw")
    assert np.diff(csr.indptr.asnumpy()).tolist() == [2, 4, 8, 16, 32, 10]
    for density, words in ((0.9, "fills 102 elements"), (0.01, "needs 12 elements")):
        with pytest.raises(ValueError, match=words):
            utils.rand_sparse_ndarray((6, 40), "csr", density, distribution="powerlaw")
    for stype, distribution in (("row_sparse", "powerlaw"), ("csr", "normal")):
        with pytest.raises(AssertionError, match="distribution"):
            utils.rand_sparse_ndarray((6, 40), stype, 0.3, distribution=distribution)
    with pytest.raises(ValueError, match="expected 0 to 1"):
        utils.rand_sparse_ndarray((6, 40), "csr", 2)


def test_shuffled_columns_are_the_same_matrix():
    np.random.seed(0)
    csr = utils.create_sparse_array((4, 30), "csr")
    before, indices = csr.asnumpy(), csr.indices.asnumpy()
    utils.shuffle_csr_column_indices(csr)
    assert (csr.indices.asnumpy() != indices).any()
    np.testing.assert_array_equal(csr.asnumpy(), before)


def test_checks_take_sparse_arrays(monkeypatch):
    """Arguments, head gradients and gradients are of the storage types that are asked for."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")
    x = utils.create_sparse_array((4, 3), "row_sparse", rsp_indices=np.array([1, 3]))
    net, heads = mx.sym.square(mx.sym.Variable("x")), x + x
    (out,) = utils.check_symbolic_forward(net, [x], [x.asnumpy() ** 2])
    assert out.stype == "row_sparse"
    for stype in ("row_sparse", "default"):
        grads = utils.check_symbolic_backward(net, [x], [heads], [4 * x.asnumpy() ** 2],
                                              grad_stypes={"x": stype})
        assert grads["x"].stype == stype
    with pytest.raises(AssertionError):
        utils.check_symbolic_backward(net, [x], [heads], [x.asnumpy()], grad_stypes={"x": "csr"})


def test_outputs_of_one_name_are_checked_one_by_one():
    x, one = mx.sym.var("x"), np.array([[1, 3]], np.float32)
    net, two = mx.sym.Group([mx.sym.relu(x * k, name="y") for k in (1, 2)]), 2 * one
    utils.check_symbolic_forward(net, [one], [one, two])
    for wrong in ([two, two], [one, one]):
        with pytest.raises(AssertionError, match="y_output"):
            utils.check_symbolic_forward(net, [one], wrong)
    utils.check_symbolic_backward(net, [one], [one, two], [one + 2 * two])
    contexts = [{"ctx": mx.cpu(i), "x": (1, 2), "type_dict": {"x": "float32"}} for i in range(2)]
    truth = utils.check_consistency(net, contexts, grad_req="write")
    np.testing.assert_allclose(truth["y_output[1]"], 2 * truth["y_output"])
