"""`.params` files: MXNet's bytes, every dialect, and damaged files, which raise only MXNetError."""

from __future__ import annotations

import itertools
import struct
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbmod as mx
from bench.real_graphs import FOLDER
from nbmod.base import DTYPE_FLAGS, MXNetError
from nbmod.core import serialization
from nbmod.core.atomic import atomic_write
from nbmod.core.serialization import array_from_record, read_arrays, record_bytes, write_arrays
from nbmod.ops.device import ALIGNMENT
from nbmod.ops.sparse.formats import CSR, RowSparse

CONTEXT = struct.pack("<ii", 1, 0)
ONE_TWO = np.array([1, 2], np.float32).tobytes()

# Records written by MXNet 1.9.1 (hex), and what they hold.
MXNET_RECORDS = {
    "float32": ("c9fa93f90000000001000000020000000000000001000000000000000000000000"
                "00803f00000040", np.array([1, 2], np.float32)),
    "float16": ("c9fa93f90000000001000000020000000000000001000000000000000200000000"
                "3c0040", np.array([1, 2], np.float16)),
    "bool": ("c9fa93f900000000010000000200000000000000010000000000000007000000"
             "0101", np.array([True, True])),
    "int64": ("c9fa93f900000000010000000200000000000000010000000000000006000000"
              "01000000000000000200000000000000", np.array([1, 2], np.int64)),
    "empty": ("c9fa93f9000000000200000000000000000000000300000000000000"
              "010000000000000000000000", np.zeros((0, 3), np.float32)),
    "row_sparse": ("c9fa93f90100000002000000020000000000000002000000000000000200000003000000"
                   "0000000002000000000000000100000000000000000000000600000001000000"
                   "0200000000000000000000000000803f00000040000000000000000000000000"
                   "0200000000000000",
                   RowSparse(np.array([0, 2]), np.array([[0, 1], [2, 0]], np.float32), (3, 2))),
    "no rows": ("c9fa93f90100000002000000000000000000000002000000000000000200000004000000"
                "0000000002000000000000000100000000000000000000000600000001000000"
                "0000000000000000",
                RowSparse.empty((4, 2), np.dtype(np.float32))),
    "csr": ("c9fa93f9020000000100000002000000000000000200000003000000000000000200000000000000"
            "01000000000000000000000006000000010000000400000000000000060000000100000002000000"
            "000000000000803f0000004000000000000000000100000000000000020000000000000002000000"
            "0000000001000000000000000000000000000000",
            CSR(np.array([0, 1, 2, 2]), np.array([1, 0]), np.array([1, 2], np.float32), (3, 2))),
}

# Dialects only read: (bytes, what they hold).
OLD_RECORDS = {
    "V0": (struct.pack("<II", 1, 2) + CONTEXT + struct.pack("<i", 0) + ONE_TWO,
           np.array([1, 2], np.float32)),
    "V0 none": (struct.pack("<I", 0), None),
    "V1": (struct.pack("<Iiq", 0xF993FAC8, 1, 2) + CONTEXT + struct.pack("<i", 0) + ONE_TWO,
           np.array([1, 2], np.float32)),
    "V1 none": (struct.pack("<Ii", 0xF993FAC8, 0), None),
    "V2 none": (struct.pack("<Iii", 0xF993FAC9, 0, 0), None),
    "V2 saved from a GPU": (struct.pack("<Iiiqiii", 0xF993FAC9, 0, 1, 2, 2, 3, 0) + ONE_TWO,
                            np.array([1, 2], np.float32)),
    "V2 bfloat16": (struct.pack("<Iiiq", 0xF993FAC9, 0, 1, 3) + CONTEXT
                    + struct.pack("<iHHH", 12, 0x3FC0, 0xC000, 0x7F80),
                    np.array([1.5, -2, np.inf], np.float32)),
    "V3 scalar": (struct.pack("<Iii", 0xF993FACA, 0, 0) + CONTEXT + struct.pack("<if", 0, 3.5),
                  np.array(3.5, np.float32)),
    "V3 none": (struct.pack("<Iii", 0xF993FACA, 0, -1), None),
}


def same(left, right) -> None:
    if isinstance(right, (CSR, RowSparse)):
        assert (left.stype, left.shape) == (right.stype, right.shape)
        for got, want in zip((left.data, *left.aux), (right.data, *right.aux), strict=True):
            same(got, want)
    elif right is None:
        assert left is None
    else:
        assert (left.shape, left.dtype) == (right.shape, right.dtype)
        assert left.tobytes() == right.tobytes()


def file_of(records: list[bytes], names: list[str] = (), count: int | None = None) -> bytes:
    head = struct.pack("<QQQ", 0x112, 0, len(records) if count is None else count)
    encoded = [name.encode() for name in names]
    return (head + b"".join(records) + struct.pack("<Q", len(encoded))
            + b"".join(struct.pack("<Q", len(name)) + name for name in encoded))


SAMPLE = file_of([record_bytes(np.arange(6, dtype=np.float32).reshape(2, 3)),
                  bytes.fromhex(MXNET_RECORDS["csr"][0]), OLD_RECORDS["V0"][0],
                  bytes.fromhex(MXNET_RECORDS["bool"][0])], ["arg:w", "arg:s", "aux:m", "b"])


@pytest.mark.parametrize("kind", MXNET_RECORDS)
def test_mxnet_record(kind):
    content, value = MXNET_RECORDS[kind]
    same(array_from_record(bytes.fromhex(content)), value)
    assert record_bytes(value).hex() == content


@pytest.mark.parametrize("kind", OLD_RECORDS)
def test_old_record(kind):
    content, value = OLD_RECORDS[kind]
    same(array_from_record(content), value)


def test_mxnet_file(tmp_path):
    content = bytes.fromhex(
        "120100000000000000000000000000000200000000000000c9fa93f90000000001000000010000000000000001000000"
        "00000000000000000000803fc9fa93f9000000000100000001000000000000000100000000000000000000000000803f"
        "02000000000000000100000000000000610200000000000000c3a9")
    path = tmp_path / "a.params"
    write_arrays(path, [np.ones(1, np.float32)] * 2, ["a", "é"])
    assert path.read_bytes() == content
    for source in (path, str(path), content, bytearray(content), memoryview(content)):
        arrays, names = read_arrays(source)
        assert names == ["a", "é"]
        same(arrays[1], np.ones(1, np.float32))


@pytest.mark.parametrize("name, count",
                         [("LeNet-0010", 10), ("det1-0001", 13), ("go_test-0001", 2)])
def test_public_file(name, count):
    path = FOLDER / "public" / f"{name}.params"
    if not path.exists():
        pytest.skip(f"public model file {path} is not here: nothing was checked")
    arrays, names = read_arrays(path)
    assert len(arrays) == len(names) == count
    assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays)
    assert all(text.startswith(("arg:", "aux:")) for text in names)


dtypes = st.sampled_from(sorted(map(str, DTYPE_FLAGS.values())))
shapes = hnp.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=4)
stored = st.one_of(st.none(), st.builds(lambda a, t: a.T if t else a,
                                        hnp.arrays(dtypes, shapes), st.booleans()))


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=60, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays=st.lists(stored, max_size=4), named=st.booleans(),
       names=st.lists(texts, min_size=4, max_size=4, unique=True))
def test_round_trip(tmp_path, arrays, names, named):
    names = names[:len(arrays)] if named else []
    write_arrays(tmp_path / "x.params", arrays, names)
    got, got_names = read_arrays(tmp_path / "x.params")
    assert got_names == names
    for left, right in zip(got, arrays, strict=True):
        same(left, right)


def test_big_endian_is_written_little():
    same(array_from_record(record_bytes(np.array([1, 2], ">i4"))), np.array([1, 2], np.int32))


@pytest.mark.parametrize("arrays, names, message", [
    ([np.float32(1).reshape(())], [], "reshape it to (1,)"),
    ([np.ones(1, np.complex64)], [], "complex64"),
    ([np.ones(1)], ["a", "b"], "2 names for 1 arrays"),
    ([np.ones(1)] * 2, ["a", "a"], "must differ"),
    ([np.ones(1)], ["a\0"], "NUL"),
])
def test_unwritable(tmp_path, arrays, names, message):
    with pytest.raises(MXNetError) as error:
        write_arrays(tmp_path / "x.params", arrays, names)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def v2(stype=0, dims=(2,), device=1, flag=0, data=ONE_TWO) -> bytes:
    return (struct.pack(f"<Iii{len(dims)}q", 0xF993FAC9, stype, len(dims), *dims)
            + struct.pack("<iii", device, 0, flag) + data)


DAMAGED = {
    "empty file": (b"", "byte 0", "24 bytes of file head"),
    "magic": (b"\x89PNG" + SAMPLE[4:], "byte 0", "magic 0x112"),
    "count": (file_of([], count=1 << 60), "byte 16", "1152921504606846976"),
    "dimensions": (file_of([struct.pack("<I", 77)]), "byte 24", "0x4d"),
    "negative dimension": (file_of([v2(dims=(2, -1))]), "byte 36", "(2, -1)"),
    "absurd dimension": (file_of([v2(dims=(1 << 40, 1 << 18))]), "byte 64", "to the end"),
    "overflowing shape": (file_of([v2(dims=(0, 1 << 62, 1 << 62))]), "byte 36", "dimensions"),
    "storage type": (file_of([v2(stype=7)]), "byte 28", "storage type"),
    "device": (file_of([v2(device=99)]), "byte 44", "99"),
    "dtype": (file_of([v2(flag=55)]), "byte 52", "55"),
    "boolean": (file_of([v2(flag=7, data=b"\x01\x02")]), "byte 56", "booleans"),
    "data": (file_of([v2(data=b"")])[:-8], "byte 56", "8 bytes of float32 data of shape (2,)"),
    "number of names": (file_of([v2(), v2()], ["a"]), "0 or 2 names", "1"),
    "name": (file_of([v2()], ["a"])[:-1] + b"\xff", "utf-8", "byte 72"),
    "long name": (file_of([v2()])[:-8] + struct.pack("<QQ", 1, 1 << 50), "a name", "byte 80"),
    "same name": (file_of([v2(), v2()], ["a", "a"]), "'a' twice", "differ"),
    "trailing bytes": (SAMPLE + b"x", "the end of the file", "1 more bytes"),
    "csr index": (file_of([bytes.fromhex(MXNET_RECORDS["csr"][0])[:-8] + struct.pack("<q", 9)]),
                  "indices inside shape (3, 2)", "byte 116"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_named(kind, tmp_path):
    content, *parts = DAMAGED[kind]
    path = tmp_path / "broken.params"
    path.write_bytes(content)
    with pytest.raises(MXNetError) as error:
        read_arrays(path)
    for part in (str(path), "expected", "found", *parts):
        assert part in str(error.value)


def test_every_truncation_is_an_error():
    for end in range(len(SAMPLE)):
        with pytest.raises(MXNetError):
            read_arrays(SAMPLE[:end])


@settings(max_examples=300, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)),
                        min_size=1, max_size=4), end=st.integers(0, len(SAMPLE)))
def test_mutations_raise_only_mxnet_errors(changes, end):
    content = bytearray(SAMPLE)
    for at, value in changes:
        content[at] = value
    for damaged in (content, content[:end]):
        try:
            read_arrays(damaged)
        except MXNetError:
            pass


HOSTILE = {
    "zeros with a huge count": struct.pack("<QQQ", 0x112, 0, 4_000_000) + bytes(16_000_000),
    "half the data": file_of([v2(dims=(2_000_000,), data=bytes(4_000_000))]),
    "bfloat16, then damage": file_of([v2(dims=(4_000_000,), flag=12, data=bytes(8_000_000))],
                                     ["a"])[:-1],
    "most empty arrays": file_of([v2(dims=(0,), data=b"")] * serialization.MAX_ARRAYS) + b"x",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_file_is_cheap(kind):
    content, calls = HOSTILE[kind], itertools.count()
    sys.setprofile(lambda *_: next(calls))
    try:
        with pytest.raises(MXNetError):
            read_arrays(content)
    finally:
        sys.setprofile(None)
    arrays = serialization.MAX_ARRAYS if kind.startswith("most") else 1
    assert next(calls) < 1000 + 200 * arrays  # calls and returns: a clock would see other threads
    if arrays > 1:
        return  # tracemalloc itself makes small allocations slow
    tracemalloc.start()
    with pytest.raises(MXNetError):
        read_arrays(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(content) + (64 << 20)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_arrays_are_read_into_their_memory(tmp_path, stype):
    """Once, at a multiple of a cache line; a second copy of one would take another 4 MB."""
    array = mx.nd.ones((1 << 16, 16)).tostype(stype)
    mx.nd.save(str(tmp_path / "x.params"), [array])
    tracemalloc.start()
    loaded, = mx.nd.load(str(tmp_path / "x.params"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(loaded.asnumpy(), array.asnumpy())
    data = loaded.handle if stype == "default" else loaded.handle.data
    assert data.ctypes.data % ALIGNMENT == 0
    assert peak < 1.2 * (tmp_path / "x.params").stat().st_size


def test_too_many_arrays_names_the_limit(monkeypatch):
    monkeypatch.setattr(serialization, "MAX_ARRAYS", 3)
    with pytest.raises(MXNetError, match="MAX_ARRAYS"):
        read_arrays(SAMPLE)


def full_disk(_):
    raise OSError("disk full")


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.params"
    write_arrays(path, [np.ones(3)], ["old"])
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), atomic_write(path) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(MXNetError, match="disk full"):
        write_arrays(path, [np.zeros(3)], ["new"])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_missing_paths(tmp_path):
    with pytest.raises(MXNetError, match="cannot be read"):
        read_arrays(tmp_path / "none.params")
    with pytest.raises(MXNetError, match="cannot be written"):
        write_arrays(tmp_path / "no" / "folder.params", [])


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "uint8", "int32", "int8",
                                  "int64", "bool"])
def test_files_change_sides(oracle, tmp_path, kind):
    """MXNet writes the same bytes as nbmod, and each reads the other's files."""
    values = np.arange(-3, 3).reshape(2, 3).astype(kind)
    arrays = {"arg:é": values, "aux:m": values[0]}
    written = oracle.call("mx_ops.save_arrays", arrays)
    write_arrays(tmp_path / "x.params", list(arrays.values()), list(arrays))
    assert (tmp_path / "x.params").read_bytes() == written
    np.testing.assert_equal(oracle.call("mx_ops.load_arrays", written), arrays)
    found, names = read_arrays(written)
    assert names == list(arrays)
    for array, value in zip(found, arrays.values(), strict=True):
        same(array, value)


@pytest.mark.parametrize("kind", ["V0", "V1"])
def test_old_records_are_read_as_mxnet_does(oracle, kind):
    content, value = OLD_RECORDS[kind]
    same(oracle.call("mx_ops.load_arrays", file_of([content], ["a"]))["a"], value)
