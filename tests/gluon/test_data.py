"""`mx.gluon.data`: data sets and samplers are MXNet's."""

from __future__ import annotations

import pickle

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import gluon_data

DATA = mx.gluon.data


def theirs_of(oracle, function):
    return oracle.call("mx_scripts.run", "gluon_data", function)


def test_data_sets_are_mxnets(oracle):
    assert gluon_data.datasets(mx) == theirs_of(oracle, "datasets")


def test_errors_are_mxnets(oracle):
    found, theirs = gluon_data.errors(mx), theirs_of(oracle, "errors")
    assert found.keys() == theirs.keys()
    for name, expected in theirs.items():
        assert tuple(found[name]) == tuple(expected), name


@pytest.mark.parametrize("base", [DATA.Dataset, DATA.Sampler])
def test_bases_ask_for_methods(base):
    class Mine(base):
        pass

    with pytest.raises(NotImplementedError, match="Mine does not define __len__"):
        len(Mine())
    with pytest.raises(NotImplementedError, match="Mine does not define __(iter|getitem)__"):
        next(iter(Mine()))


def test_arrays_of_other_lengths_are_counted_from_0():
    with pytest.raises(AssertionError, match=r"array\[0\] has length 1 while array\[1\] has 2"):
        DATA.ArrayDataset([1], [1, 2])


@pytest.mark.parametrize("call, message", [
    (lambda: DATA.SimpleDataset([1]).take(-1), "count is -1"),
    (lambda: DATA.SimpleDataset([1]).shard(0, 0), "0 out of 0"),
    (lambda: DATA.SimpleDataset([1]).shard(1, -1), "non-negative"),
    (lambda: list(DATA.BatchSampler([1], 1, "all")), "but got all")])
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(MXNetError, match=message):
        call()


def test_a_record_file_is_a_data_set(tmp_path):
    path = str(tmp_path / "some.rec")
    with mx.recordio.MXIndexedRecordIO(str(tmp_path / "some.idx"), path, "w") as writer:
        for key in (5, 3, 8):
            writer.write_idx(key, str(key).encode())
    records = DATA.RecordFileDataset(path)
    assert len(records) == 3 and list(records) == [b"5", b"3", b"8"]
    assert list(pickle.loads(pickle.dumps(records.take(2)))) == [b"5", b"3"]


def test_data_sets_of_plain_functions_are_pickled():
    own = DATA.ArrayDataset([1, 2, 3], [4, 5, 6]).transform_first(float).shard(2, 0)
    assert list(pickle.loads(pickle.dumps(own))) == [(1.0, 4), (2.0, 5)]
