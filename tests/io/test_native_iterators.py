"""CSVIter, LibSVMIter, MNISTIter and PrefetchingIter against MXNet; damaged files; resume."""

from __future__ import annotations

import gzip
import struct
import traceback
import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.io import text_kernels, text_rows
from nbmod.io.text_rows import ByteRange, CSVParser, RowStream, blocks_of
from tests.programs import iterator_programs


def csv(values, line="\n"):
    return "".join(",".join(f"{v:g}" for v in np.atleast_1d(row)) + line for row in values).encode()


SEVEN = np.arange(21.).reshape(7, 3)
SVM = b"1.5 0:1 3:4\n-2 1:5\n3 \n4 2:1.5 5:-1\n5 0:1\n"
LABELS = b"0 0:1\n1 1:1\n2 2:2\n0 0:1 1:1\n1 2:3\n"
MNIST = {"images": struct.pack(">IIII", 2051, 10, 4, 5) + bytes(range(200)),
         "labels": struct.pack(">II", 2049, 10) + bytes(range(10))}
FILES = {"seven": csv(SEVEN), "labels7": csv(np.arange(7) * 10), "pairs7": csv(SEVEN[:, :2] / 8),
         "spaces": b"1, 2,\t3\r\n 4,5e1,-6 \n+1,.5,2.\n1E-2,-0,0012",
         "folder/a": csv(SEVEN[:2]), "wide": csv(np.arange(12) - 6.),
         "large": csv(np.random.RandomState(0).randn(3000, 3)), "svm": SVM, "svm labels": LABELS,
         **MNIST}
CASES = {
    "csv": ("CSVIter", dict(data_csv="seven", data_shape=(3,), label_csv="labels7", batch_size=3)),
    "csv not round": ("CSVIter", dict(data_csv="seven", data_shape=(3,), label_csv="labels7",
                                      batch_size=3, round_batch=False)),
    "csv one batch": ("CSVIter", dict(data_csv="seven", data_shape=(3,), batch_size=7)),
    "csv of larger labels": ("CSVIter", dict(data_csv="seven", data_shape="(3, 1)", batch_size="2",
                                             label_csv="pairs7", label_shape=(2,))),
    "csv with spaces": ("CSVIter", dict(data_csv="spaces", data_shape=(3,), batch_size=2)),
    "csv as int32": ("CSVIter", dict(data_csv="seven", data_shape=(3,), batch_size=2,
                                     dtype="int32")),
    "csv as int64": ("CSVIter", dict(data_csv="wide", data_shape=(1,), batch_size=5, dtype="int64",
                                     data_name="x", label_name="y")),
    "csv folder": ("CSVIter", dict(data_csv="folder", data_shape=(3,), batch_size=2)),
    "csv of several": ("CSVIter", dict(data_csv="seven;spaces", data_shape=(3,), batch_size=4)),
    "large csv": ("CSVIter", dict(data_csv="large", data_shape=(3,), batch_size=512)),
    "svm": ("LibSVMIter", dict(data_libsvm="svm", data_shape=(6,), batch_size=2)),
    "svm with labels": ("LibSVMIter", dict(data_libsvm="svm", data_shape=(6,), batch_size=3,
                                           label_libsvm="svm labels", label_shape=(3,))),
    **{f"svm part {k}": ("LibSVMIter", dict(data_libsvm="svm", data_shape=6, batch_size=1,
                                            num_parts=3, part_index=k)) for k in range(3)},
    "mnist": ("MNISTIter", dict(image="images", label="labels", batch_size=3, shuffle=0, silent=1)),
    "mnist flat": ("MNISTIter", dict(image="images", label="labels", batch_size=5, shuffle=False,
                                     flat=True, silent=True, unheard_of=1)),
    **{f"mnist part {k}": ("MNISTIter", dict(
        image="images", label="labels", batch_size=2, shuffle=0, silent=1, num_parts=3,
        part_index=k)) for k in range(3)},
}


NOT_IN_MXNET = {
    "svm not round": ("LibSVMIter", dict(data_libsvm="svm", data_shape=(6,), batch_size=2,
                                         round_batch=0)),
}


@pytest.mark.parametrize("name", CASES)
def test_batches_are_mxnets(oracle, name, monkeypatch):
    """In blocks of 64 bytes here, so that batches and lines cross their boundaries."""
    monkeypatch.setattr(text_rows, "BLOCK_BYTES", 64 if name != "large csv" else 5000)
    iterator, options = CASES[name]
    ours = iterator_programs.batches(mx, FILES, iterator, options)
    theirs = oracle.call("mx_scripts.run", "iterator_programs", "batches", FILES, iterator, options)
    if name == "large csv":  # MXNet's decimals differ by an ulp in places
        assert len(ours) == len(theirs)
        for one, other in zip(ours[2:], theirs[2:], strict=True):
            np.testing.assert_allclose(one[1][1], other[1][1], rtol=2e-7)
            np.testing.assert_equal(one[2:], other[2:])
    else:
        np.testing.assert_equal(ours, theirs)


@pytest.mark.parametrize("renames", [False, True])
def test_prefetching_is_mxnets(oracle, renames):
    np.testing.assert_equal(
        iterator_programs.prefetched(mx, renames),
        oracle.call("mx_scripts.run", "iterator_programs", "prefetched", renames))


def save(folder, **files):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in files}


def csv_of(folder, text, columns=3, **options):
    paths = save(folder, data=text)
    options = {"batch_size": 1} | options
    return mx.io.CSVIter(data_csv=paths["data"], data_shape=(columns,), **options)


# ------------------------------------------------------------------- parsing of numbers and lines

def parsed(texts):
    """The kernel's float64 of each."""
    text = bytearray("\n".join(texts).encode() + b"\n" * text_kernels.PADDING)
    read, status = np.zeros((len(texts), 1)), np.zeros(3, np.int64)
    text_kernels.parse_csv(np.frombuffer(text, np.uint8), False, read, status)
    assert status[:2].tolist() == [len(texts), text_kernels.OK]
    return read[:, 0]


@given(st.lists(st.floats(width=64), min_size=1), st.booleans())
@settings(deadline=None)
def test_decimals_are_read(values, exponent):
    """2 ulp is the error bound of a rounded product with a rounded power of ten."""
    read = parsed([f"{v:.17e}" if exponent else repr(v) for v in values])
    np.testing.assert_allclose(read, values, rtol=5e-16, atol=5e-323)


def test_long_decimals_are_read():
    """7 to 30 digits after the point, more than a double holds, and any form of the exponent."""
    digits = ("314159265358979323846264338327", "000000000000000001234567890123",
              "012345678901234567890123456789", "999999999999999999999999999999", "0" * 30)
    texts = [sign + first + "." + some[:count] + power for some in digits for count in range(7, 31)
             for sign in ("", "-") for first in ("0", "7", "10", "")
             for power in ("", "e+00", "E-07", "e5", "e-123", "e+1", "e012")]
    np.testing.assert_allclose(parsed(texts), list(map(float, texts)), rtol=5e-16, atol=0)


def test_decimals_of_any_length_are_read(tmp_path):
    """0 to 10 digits before and after a point: short numbers are parsed eight bytes at a time."""
    digits = "9876543210"
    texts = [sign + digits[:before] + point + digits[:after] + power
             for sign in ("", "-", "+") for before in range(11) for point in ("", ".")
             for after in range(11 if point else 1) for power in ("", "e3", "E-11")
             if before + after]
    values = np.array(list(map(float, texts)))
    wide = csv_of(tmp_path, ",".join(texts).encode(), len(texts)).next().data[0].asnumpy()[0]
    np.testing.assert_array_equal(wide, values.astype(np.float32))
    narrow = csv_of(tmp_path, "\n".join(texts).encode(), 1, batch_size=len(texts)).next()
    np.testing.assert_array_equal(narrow.data[0].asnumpy()[:, 0], values.astype(np.float32))
    pairs = " ".join(f"{k}:{text}" for k, text in enumerate(texts)).encode()
    path = save(tmp_path, svm=b"1 " + pairs)["svm"]
    row = mx.io.LibSVMIter(data_libsvm=path, data_shape=(len(texts),), batch_size=1).next().data[0]
    np.testing.assert_array_equal(row.asnumpy()[0], values.astype(np.float32))


def test_decimals_of_19_digits_are_the_nearest_float32(tmp_path):
    """As programs print them without loss: 2 ulp of a float64 are far from the middle between two
    float32."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-30, 30, 2000)
    texts = [form.format(value) for value in values.tolist()
             for form in ("{:.18e}", "{:.17g}", "{:.25f}")]
    exact = np.array(list(map(float, texts))).astype(np.float32)
    column = csv_of(tmp_path, "\n".join(texts).encode(), 1, batch_size=len(texts)).next().data[0]
    np.testing.assert_array_equal(column.asnumpy()[:, 0], exact)


@pytest.mark.parametrize("line, count", [(b"1\n", 100_000), (b"3" + 99 * b" 1:2" + b"\n", 3000)])
def test_short_lines_and_pairs_are_read(tmp_path, line, count):
    """More of them in a block than memory is reserved for."""
    path = save(tmp_path, svm=line * count)["svm"]
    read = mx.io.LibSVMIter(data_libsvm=path, data_shape=(5,), batch_size=count).next()
    assert (read.label[0].asnumpy() == float(line[:1])).all()
    assert (read.data[0].indptr.asnumpy() == line.count(b":") * np.arange(count + 1)).all()
    assert (read.data[0].data.asnumpy() == 2).all()


@pytest.mark.parametrize("name", ["short", "wrong"])
def test_threads_change_nothing(tmp_path, monkeypatch, name):
    """Neither rows nor the error depend on it; at most the number of kernels' threads, and four."""
    monkeypatch.setattr(text_rows, "BLOCK_BYTES", 700)
    lines = [b"%d %d:%d.%d" % (k, k % 9, k, k % 7) for k in range(4000)]
    if name == "wrong":
        lines[3210] = lines[3456] = b"1 2:x"
    path = save(tmp_path, svm=b"\n".join(lines))["svm"]
    found = []
    for threads in (1, 2, 9):
        monkeypatch.setattr(text_rows, "num_threads", lambda threads=threads: threads)
        iterator = mx.io.LibSVMIter(data_libsvm=path, data_shape=(9,), batch_size=64)
        assert iterator._streams[0]._pipeline.threads == min(threads, 4)
        batches, end = [], ""
        try:
            batches += [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.index) for b in iterator]
        except MXNetError as error:
            end = str(error)
        assert ("line 3211: expected a number" in end) == (name == "wrong")
        found.append((batches, end))
    np.testing.assert_equal(found[1:], found[:1] * 2)


@pytest.mark.parametrize("text, message", [("1 0:1 12345678:1", "index below 5"),
                                           ("1 123456789012345678901:1", "pair index:value")])
def test_long_indices_are_told(tmp_path, text, message):
    path = save(tmp_path, svm=text.encode())["svm"]
    with pytest.raises(MXNetError, match=message):
        mx.io.LibSVMIter(data_libsvm=path, data_shape=(5,), batch_size=1).next()


@pytest.mark.parametrize("text, value", [("inf", np.inf), ("-Infinity", -np.inf), ("NaN", np.nan)])
def test_words_are_read(tmp_path, text, value):
    batch = csv_of(tmp_path, f"{text},1\n2,{text}".encode(), 2, batch_size=2).next()
    np.testing.assert_array_equal(batch.data[0].asnumpy(), [[value, 1], [2, value]])
    with pytest.raises(MXNetError, match="line 1"):
        csv_of(tmp_path, b"infi\n1\n1\n", 1).next()


@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 5), st.booleans(),
       st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.integers(1, 9))
@settings(deadline=None)
def test_every_line_is_read_once(tmp_path_factory, count, size, parts, ends, newline, search):
    """Any number of lines in a block, any number of bytes looked ahead."""
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    lines = [b"%d" % (10 ** (k % 7) + k) for k in range(count)]
    path.write_bytes(newline.join(lines) + (newline if ends else b""))
    with mock.patch.multiple(text_rows, BLOCK_BYTES=size, _SEARCH=search):
        blocks = [b for part in range(parts) for b in blocks_of([str(path)], parts, part)]
        found = [CSVParser(1, np.int64)(block).columns[0][:, 0] for block in blocks]
    assert np.concatenate(found).tolist() == list(map(int, lines))


def test_streams_give_what_is_asked_for(tmp_path):
    path = save(tmp_path, a=csv(np.arange(1000)))["a"]
    blocks = [ByteRange(path, k, min(k + 100, 3890)) for k in range(0, 3890, 100)]
    stream = RowStream(blocks, CSVParser(1, np.float32), 3)
    taken = [len(stream.read(n)) for n in (1, 300, 0, 698, 5, 1)]
    assert taken == [1, 300, 0, 698, 1, 0] and stream.position == 1000
    stream.restart(500)
    assert stream.read(2).columns[0].tolist() == [[500], [501]]
    with pytest.raises(MXNetError, match="row 2000, and there are only 1000"):
        stream.restart(2000)
    stream.close()


# ---------------------------------------------------------------------------------------- errors

BAD_CSV = [
    (b"1,2,3\n4,5\n", "line 2: expected 3 numbers"), (b"1,2,3,4\n", "line 1: expected 3 num"),
    (b"1,,3", "line 1: expected a number, found ',3'"), (b"\n\n1,2,x", "line 3: .* found 'x'"),
    (b"1,2,3 4\n", "line 1"), (b"1;2;3\n", "line 1"), (b"\x00", "line 1"), (b"-,1,2", "found '-")]


@pytest.mark.parametrize("text, words", BAD_CSV)
def test_damaged_csv(tmp_path, text, words):
    with pytest.raises(MXNetError, match=words) as raised:
        list(csv_of(tmp_path, text))
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize("number", [b"1.5", b"1e3", b"nan", b"1234567890123456789"])
def test_integers_are_whole(tmp_path, number):
    with pytest.raises(MXNetError, match="expected a whole number"):
        list(csv_of(tmp_path, number, 1, dtype="int64"))


@pytest.mark.parametrize("text, words", [
    (b"1 6:1\n", "index below 6"), (b"1 0:1\n2 x:1\n", "line 2: expected a pair"),
    (b"1 1\n", "a pair"), (b"x 0:1\n", "a number"), (b"1 0:x\n", "a number, found 'x'"),
    (b"1 0:\n", "a number"), (b"1 -1:2\n", "a pair"), (b"1 99999999999999999999:2\n", "a pair")])
def test_damaged_libsvm(tmp_path, text, words):
    paths = save(tmp_path, data=text)
    with pytest.raises(MXNetError, match=words):
        list(mx.io.LibSVMIter(data_libsvm=paths["data"], data_shape=(6,), batch_size=1))


def test_comments_in_libsvm(tmp_path):
    paths = save(tmp_path, data=b"# head\n1 0:2 # tail\n\n-1 5:3")
    batch, = mx.io.LibSVMIter(data_libsvm=paths["data"], data_shape=(6,), batch_size=2)
    assert batch.data[0].asnumpy().tolist() == [[2, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 3]]
    assert batch.label[0].asnumpy().tolist() == [1, -1]


@pytest.mark.parametrize("images, labels, words", [
    (MNIST["images"][:-1], MNIST["labels"], "expected 200 bytes"),
    (b"", MNIST["labels"], "nothing"),
    (MNIST["labels"], MNIST["labels"], "3 dimension"), (MNIST["images"], MNIST["images"], "1 dim"),
    (MNIST["images"], struct.pack(">II", 2049, 2) + b"12", "10 images .* 2 labels"),
    (gzip.compress(MNIST["images"])[:-9], MNIST["labels"], "cannot be read"),
    (struct.pack(">IIII", 2051, 2**32 - 1, 4, 5), MNIST["labels"], "bytes for shape"),
    *((struct.pack(">IIII", 2051, count, *[2**32 - 1] * 2), MNIST["labels"],
       "images of 1 to 268,435,456 pixels") for count in (0, 1, 2**32 - 1))])
def test_damaged_mnist(tmp_path, images, labels, words):
    paths = save(tmp_path, images=images, labels=labels)
    with pytest.raises(MXNetError, match=words):
        mx.io.MNISTIter(image=paths["images"], label=paths["labels"], silent=True)


@pytest.mark.parametrize("name, options, words", [
    ("CSVIter", dict(data_csv="none", data_shape=(3,), batch_size=1), "no such file: 'none'"),
    ("CSVIter", dict(data_csv="x", batch_size=1), "data_shape is not given"),
    ("CSVIter", dict(data_csv="x", data_shape=(3,), batch_size=1, dtype="float64"), "dtype"),
    ("LibSVMIter", dict(data_libsvm="x", data_shape=(3, 4), batch_size=1), "expected .columns,"),
    ("LibSVMIter", dict(data_libsvm="x", data_shape=(3,), batch_size=1, num_parts=2, part_index=2),
     "part_index is 2 of num_parts 2"),
    ("MNISTIter", dict(image="none", label="none"), "cannot be read")])
def test_wrong_options(name, options, words):
    with pytest.raises(MXNetError, match=words):
        getattr(mx.io, name)(**options)


@pytest.mark.parametrize("shape, words", [
    ((0,), "at least one element in a row"),
    ((2**24, 2**24), "rows of 281,474,976,710,656 numbers"),
    ((2**40, 2**40), "rows of 1,2")])
def test_rows_of_no_length_and_of_any(tmp_path, shape, words):
    paths = save(tmp_path, data=b"1\n2\n")
    with pytest.raises(MXNetError, match=words):
        mx.io.CSVIter(data_csv=paths["data"], data_shape=shape, batch_size=1).next()


def test_a_batch_must_not_be_empty(tmp_path):
    with pytest.raises(MXNetError, match="batch_size is 0"):
        csv_of(tmp_path, b"1,2,3", batch_size=0)


def test_labels_of_another_length(tmp_path):
    paths = save(tmp_path, data=csv(SEVEN), label=csv(np.arange(5)))
    with pytest.raises(MXNetError, match="different numbers of rows: 6 and 5"):
        list(mx.io.CSVIter(data_csv=paths["data"], data_shape=(3,), label_csv=paths["label"],
                           batch_size=3))


def test_unknown_options_are_ignored_as_in_mxnet(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        csv_of(tmp_path, b"1,2,3", round_batches=1)


@given(st.binary(max_size=60), st.sampled_from(["CSVIter", "LibSVMIter", "MNISTIter"]))
@settings(deadline=None, max_examples=150)
def test_any_bytes_are_read_or_refused(tmp_path_factory, content, name):
    folder = tmp_path_factory.mktemp("fuzz")
    path = save(folder, a=content)["a"]
    options = {"CSVIter": {"data_csv": path, "data_shape": (2,), "batch_size": 2},
               "LibSVMIter": {"data_libsvm": path, "data_shape": (9,), "batch_size": 2},
               "MNISTIter": {"image": path, "label": path, "silent": True}}[name]
    try:
        for _ in zip(range(100), getattr(mx.io, name)(**options), strict=False):
            pass
    except MXNetError:
        pass


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=6),
       st.sampled_from(["seven", "svm", "images"]))
@settings(deadline=None, max_examples=150)
def test_changed_bytes_are_read_or_refused(tmp_path_factory, changes, name):
    content = bytearray(FILES[name])
    for at, value in changes:
        content[at % len(content)] = value
    test_any_bytes_are_read_or_refused.hypothesis.inner_test(
        tmp_path_factory, bytes(content),
        {"seven": "CSVIter", "svm": "LibSVMIter", "images": "MNISTIter"}[name])


# ---------------------------------------------------------------------------------------- resume

def values(batch):
    return [*(a.asnumpy().tolist() for a in batch.data + batch.label), batch.pad]


def many(iterator, count):
    """The next batches, across the ends of epochs."""
    found = []
    while len(found) < count:
        try:
            found.append(values(iterator.next()))
        except StopIteration:
            found.append("end")
            iterator.reset()
    return found


@pytest.mark.parametrize("name", ["csv", "csv not round", "csv one batch", "svm", "svm not round",
                                  "mnist"])
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5, 6])
def test_resume(tmp_path, name, prefetch, before):
    kind, options = (CASES | NOT_IN_MXNET)[name]
    paths = save(tmp_path, **{key: FILES[key] for key in FILES if "/" not in key})
    options = {key: paths.get(value, value) if isinstance(value, str) else value
               for key, value in options.items()}

    def make():
        iterator = getattr(mx.io, kind)(**options)
        return mx.io.PrefetchingIter(iterator) if prefetch else iterator

    one, other = make(), make()
    many(one, before)
    other.load_state_dict(one.state_dict())
    assert many(other, 9) == many(one, 9)


def test_mnist_is_shuffled_by_its_seed(tmp_path):
    paths = save(tmp_path, images=gzip.compress(MNIST["images"]), labels=MNIST["labels"])

    def labels(seed):
        iterator = mx.io.MNISTIter(image=paths["images"], label=paths["labels"], batch_size=10,
                                   seed=seed, silent=True)
        return iterator.next().label[0].asnumpy().tolist()

    assert labels(1) == labels(1) != labels(2)
    assert sorted(labels(1)) == list(range(10)) != labels(1)


def test_loading_can_be_skipped(tmp_path):
    iterator = csv_of(tmp_path, csv(SEVEN), batch_size=5)
    iterator.debug_skip_load()
    first, *others = (values(iterator.next()) for _ in range(9))
    assert all(other == first for other in others) and first[0][0] == [0, 1, 2]


def test_prefetching_passes_errors_on(tmp_path):
    iterator = mx.io.PrefetchingIter(csv_of(tmp_path, b"1,2,3\n4,5,x\n"))
    with pytest.raises(MXNetError, match="line 2"):
        iterator.next()


def test_errors_of_threads_show_where_they_come_from(tmp_path):
    class Broken(mx.io.NDArrayIter):
        def next(self):
            raise KeyError("the broken iterator")

    for make, kind, function in (
            (lambda: csv_of(tmp_path, b"1,2,x\n"), MXNetError, "__call__"),
            (lambda: mx.io.PrefetchingIter(Broken(np.zeros(9))), KeyError, "next")):
        with pytest.raises(kind) as raised:
            make().next()
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert "_run_tasks" in [frame.name for frame in frames] and frames[-1].name == function


def test_folders_are_read_in_order(tmp_path):
    for name, part in (("b", SEVEN[2:]), ("a", SEVEN[:2])):
        (tmp_path / name).write_bytes(csv(part))
    batch = mx.io.CSVIter(data_csv=str(tmp_path), data_shape=(3,), batch_size=7).next()
    np.testing.assert_equal(batch.data[0].asnumpy(), SEVEN)


def test_iterators_that_do_not_fit_together(tmp_path):
    first, second = (mx.io.NDArrayIter(np.arange(n), batch_size=2) for n in (4, 6))
    with pytest.raises(MXNetError, match="different numbers of batches"):
        list(mx.io.PrefetchingIter([first, second]))


# ------------------------------------------------------------------------------- compressed rows

def test_compressed_rows(tmp_path):
    batch = mx.io.LibSVMIter(data_libsvm=save(tmp_path, a=SVM)["a"], data_shape=(6,),
                             batch_size=5).next()
    matrix, dense = batch.data[0], np.zeros((5, 6), np.float32)
    for row, column, value in ((0, 0, 1), (0, 3, 4), (1, 1, 5), (3, 2, 1.5), (3, 5, -1), (4, 0, 1)):
        dense[row, column] = value
    assert isinstance(matrix, mx.nd.sparse.CSRNDArray) and isinstance(matrix, mx.nd.NDArray)
    assert (matrix.stype, matrix.shape, len(matrix)) == ("csr", (5, 6), 5)
    np.testing.assert_equal(matrix.asnumpy(), dense)
    np.testing.assert_equal(matrix[1:4].asnumpy(), dense[1:4])
    np.testing.assert_equal(matrix[-1].asnumpy(), dense[-1:])
    np.testing.assert_equal((matrix * 2).asnumpy(), dense * 2)
    product = mx.nd.dot(matrix, mx.nd.ones((6, 2)))
    np.testing.assert_equal(product.asnumpy(), dense @ np.ones((6, 2)))
    np.testing.assert_equal(matrix.tostype("default").asnumpy(), dense)
    target = mx.nd.zeros((5, 6))
    matrix.astype("float64").copyto(target)
    np.testing.assert_equal(target.asnumpy(), dense)
    with pytest.raises(MXNetError, match="only supports"):
        matrix[0] = 1
    with pytest.raises(ValueError, match="Multi-dimension"):
        matrix[0, 1]


def test_a_module_trains_on_compressed_rows(tmp_path):
    """Rows whose label is the sign of their first column."""
    lines = [b"%d 0:%d 3:1" % (k % 2, 2 * (k % 2) - 1) for k in range(32)]
    data = mx.io.LibSVMIter(data_libsvm=save(tmp_path, a=b"\n".join(lines))["a"], data_shape=(6,),
                            batch_size=8)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    module.fit(data, num_epoch=3, optimizer_params={"learning_rate": 1.0})
    assert module.score(data, "acc")[0][1] == 1.0


def test_mnist_images_without_rows(tmp_path):
    image, label = tmp_path / "images", tmp_path / "labels"
    image.write_bytes(struct.pack(">4I", 0x803, 3, 0, 5))
    label.write_bytes(struct.pack(">2I", 0x801, 3) + bytes(3))
    with pytest.raises(MXNetError, match=r"images: expected images of 1 to .*\(3, 0, 5\)"):
        mx.io.MNISTIter(image=str(image), label=str(label), batch_size=1)
