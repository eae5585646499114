"""DatasetIter and GeneratorIter: inputs, order, errors, resume, training."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ops.random import rng

DatasetIter, GeneratorIter = mx.io.DatasetIter, mx.io.GeneratorIter

X = np.random.default_rng(0).random((11, 2, 3), np.float32)
Y = np.arange(11) % 3
PAIRS = list(zip(X, Y, strict=True))
XY = {"data": "x", "softmax_label": "y"}


def told(iterator, limit=None):
    return [(batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist(), batch.pad)
            for batch in itertools.islice(iterator, limit)]


# -------------------------------------------------------------- mocks of other libraries' data sets

class Tensor:
    """Like torch's tensor: it has a method `numpy()`."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def numpy(self):
        return self.values

    def __getitem__(self, index):
        return Tensor(self.values[index])


class TorchSet:
    """A map-style data set."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        if not 0 <= index < len(X):
            raise IndexError(index)
        return Tensor(X[index]), int(Y[index])


class TorchSubset(TorchSet):
    def __getitems__(self, indices):
        assert type(indices) is list
        return [self[index] for index in indices]


class HuggingFaceSet:
    """A row is a dict; several are a dict of lists, or, formatted, of arrays."""

    column_names, features = ["x", "y", "text"], {}

    def __init__(self, form):
        self.form = form

    def __len__(self):
        return len(X)

    def __getitem__(self, key):
        columns = {"x": self.form(X[key]), "y": self.form(Y[key])}
        return {**columns, "text": "a" if isinstance(key, int) else ["a"] * len(key)}

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class ArrowArray:
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def take(self, indices):
        return type(self)(self.values[indices])

    def to_numpy(self, zero_copy_only=True):
        if self.values.ndim == 1:
            return self.values
        if zero_copy_only:
            raise ValueError("needs a copy")
        lists = np.empty(len(self), object)
        lists[:] = [ArrowArray(value).to_numpy(False) for value in self.values]
        return lists


class ArrowTensors(ArrowArray):
    def to_numpy_ndarray(self):
        return self.values


class ArrowColumn:
    def __init__(self, values, kind, cuts):
        self.chunks = [kind(part) for part in np.split(values, cuts)]


class ArrowTable:
    """Its items are columns, not rows."""

    column_names = ["x", "y"]

    def __init__(self, kind=ArrowArray, cuts=()):
        self.columns_of = {"x": ArrowColumn(X, kind, cuts), "y": ArrowColumn(Y, ArrowArray, cuts)}

    def __len__(self):
        return len(X)

    def __getitem__(self, number):
        return self.columns_of[self.column_names[number]]

    def column(self, name):
        return self.columns_of[name]


class ArrowBatch(ArrowTable):
    """One record batch: a column is an array."""

    def column(self, name):
        return self.columns_of[name].chunks[0]


class Series:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class Frame:
    """As of pandas: its items are columns."""

    columns = ["a", "b", "y"]

    def __len__(self):
        return len(X)

    def __getitem__(self, name):
        return Series({"a": X[:, 0, 0], "b": X[:, 1, 2], "y": Y}[name])

    def to_numpy(self):
        return NotImplemented


SOURCES = {
    "list of tuples": (PAIRS, {}),
    "list of lists": ([[x, y] for x, y in PAIRS], {}),
    "list of numbers": ([(x.tolist(), int(y)) for x, y in PAIRS], {}),
    "list of dicts": ([{"softmax_label": y, "data": x} for x, y in PAIRS], {}),
    "NDArrays": ([(mx.nd.array(x), mx.nd.array([y]).reshape(())) for x, y in PAIRS], {}),
    "mapping of arrays": ({"data": X, "softmax_label": Y}, {}),
    "torch": (TorchSet(), {}),
    "torch, several at once": (TorchSubset(), {}),
    "Hugging Face": (HuggingFaceSet(lambda values: values.tolist()), {"columns": XY}),
    "Hugging Face, arrays": (HuggingFaceSet(np.asarray), {"columns": XY}),
    "Hugging Face, tensors": (HuggingFaceSet(Tensor), {"columns": XY}),
    "Arrow": (ArrowTable(), {"columns": XY}),
    "Arrow in chunks": (ArrowTable(cuts=(2, 2, 7)), {"columns": XY}),
    "Arrow tensors": (ArrowTable(ArrowTensors, (4,)), {"columns": XY}),
    "Arrow record batch": (ArrowBatch(), {"columns": XY}),
    "by position": ([("no number", y, x) for x, y in PAIRS],
                    {"columns": {"data": 2, "softmax_label": 1}}),
}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_all_kinds_of_data_sets_are_read(name, shuffle):
    dataset, options = SOURCES[name]
    iterator = DatasetIter(dataset, 4, shuffle, seed=2, preprocess_threads=2, **options)
    assert iterator.provide_data == [("data", (4, 2, 3))]
    assert iterator.provide_label == [("softmax_label", (4,))]
    for _ in range(2):
        seen = []
        for batch in iterator:
            np.testing.assert_array_equal(batch.data[0].asnumpy(), X[batch.index])
            np.testing.assert_array_equal(batch.label[0].asnumpy(), Y[batch.index])
            seen += batch.index[:len(batch.index) - batch.pad].tolist()
        assert sorted(seen) == list(range(11)) and (seen != sorted(seen)) == shuffle
        iterator.reset()


@pytest.mark.parametrize("dataset", [ArrowTable(cuts=(5,)), HuggingFaceSet(np.asarray),
                                     {"x": X, "y": Y}])
def test_rows_of_tables_come_to_a_transform_as_dicts(dataset):
    iterator = DatasetIter(dataset, 4, dtype=None, transform=lambda row: (
        (int(row["y"]), np.full((3, 1), row["y"])), {**row}.pop("y") + 1),
        data_names=["a", "b"], label_names="c")
    assert [desc.name for desc in iterator.provide_data + iterator.provide_label] == list("abc")
    for batch in iterator:
        expected = Y[batch.index]
        np.testing.assert_array_equal(batch.data[0].asnumpy(), expected)
        np.testing.assert_array_equal(batch.data[1].asnumpy(),
                                      np.tile(expected[:, None, None], (1, 3, 1)))
        np.testing.assert_array_equal(batch.label[0].asnumpy(), expected + 1)


def test_columns_side_by_side():
    columns = {"data": ["b", "a"], "softmax_label": "y"}
    rows = [{"a": x[0, 0], "b": x[1, 2], "y": y} for x, y in PAIRS]
    for dataset in (Frame(), rows):
        batch = DatasetIter(dataset, 11, columns=columns).next()
        np.testing.assert_array_equal(batch.data[0].asnumpy(), X[:, [1, 0], [2, 0]])
        np.testing.assert_array_equal(batch.label[0].asnumpy(), Y)


def test_images():
    image = pytest.importorskip("PIL.Image")
    pixels = (X[:, :, :, None] * [50, 100, 255]).astype(np.uint8)
    images = [(image.fromarray(pixel), k) for k, pixel in enumerate(pixels)]
    batch = DatasetIter(images, 11, dtype={"data": "uint8"}).next()
    np.testing.assert_array_equal(batch.data[0].asnumpy(), pixels)
    assert [array.dtype for array in batch.data + batch.label] == [np.uint8, np.float32]


@pytest.mark.parametrize("dtype, expected", [
    ("float32", (np.float32, np.float32)), (None, (np.float64, np.int64)),
    ({"softmax_label": "int32"}, (np.float32, np.int32)), (np.float16, (np.float16, np.float16))])
def test_types(dtype, expected):
    samples = [(np.ones(3), 7)] * 3
    for iterator in (DatasetIter(samples, 2, dtype=dtype), GeneratorIter(samples, 2, dtype=dtype)):
        batch = iterator.next()
        described = iterator.provide_data + iterator.provide_label
        assert tuple(desc.dtype for desc in described) == expected
        assert tuple(array.dtype for array in batch.data + batch.label) == expected


def test_samples_without_labels():
    for iterator in (DatasetIter(list(X), 11), GeneratorIter(list(X), 11),
                     DatasetIter({"data": X}, 11, label_names=()),
                     DatasetIter([(x,) for x in X], 11)):
        assert iterator.provide_label == [] and iterator.provide_data[0].shape == (11, 2, 3)
        np.testing.assert_array_equal(iterator.next().data[0].asnumpy(), X)


# ------------------------------------------------------------------------------------------- order

@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5), st.booleans(), st.integers(1, 3),
       st.sampled_from(["pad", "discard", "roll_over"]))
@settings(deadline=None, max_examples=60)
def test_every_sample_once_an_epoch(length, size, parts, shuffle, threads, handle):
    """Over all parts; except the rest, which 'discard' drops and 'roll_over' postpones."""
    parts = min(parts, length)
    turns = [[], [], []]
    for part in range(parts):
        iterator = DatasetIter(range(length), size, shuffle, handle, num_parts=parts, seed=part,
                               part_index=part, preprocess_threads=threads)
        count, seen = length * (part + 1) // parts - length * part // parts, []
        for epoch in range(3):
            before = len(seen)
            for batch in iterator:
                assert batch.data[0].asnumpy().tolist() == batch.index.tolist()
                seen += batch.index[:size - batch.pad].tolist()
            if handle == "discard":
                assert len(seen) - before == count // size * size
                turns[epoch] += seen[before:]
            iterator.reset()
        iterator.close()
        if handle == "roll_over":
            assert len(seen) == 3 * count // size * size
        if handle != "discard":
            for epoch, turn in enumerate(turns):
                turn += seen[epoch * count:(epoch + 1) * count]
    for turn in turns:
        assert len(set(turn)) == len(turn) and (handle != "pad" or len(turn) == length)


@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("count, size", [(11, 4), (12, 4), (3, 5), (2, 9), (5, 1)])
def test_last_batches_are_those_of_ndarray_iter(handle, count, size):
    ours = DatasetIter([(number, -number) for number in range(count)], size, False, handle)
    theirs = mx.io.NDArrayIter(np.arange(count), -np.arange(count), size, False, handle)
    for _ in range(6):
        expected = told(theirs)
        if handle == "roll_over":  # there pad refers to the beginning of the epoch
            expected = [(*batch[:2], 0) for batch in expected]
        assert told(ours) == expected
        ours.reset()
        theirs.reset()


def test_order_follows_from_the_seed_alone():
    def order(**options):
        iterator = DatasetIter(PAIRS, 3, True, transform=lambda pair: (pair[0], 0), **options)
        found = []
        for _ in range(2):
            found.append([batch.index.tolist() for batch in iterator])
            iterator.reset()
        return found

    first = order(seed=-1)
    assert first[0] != first[1] and first != order(seed=1)
    assert first == order(seed=-1, preprocess_threads=5, prefetch_buffer=1)
    mx.random.seed(1)
    drawn = order()
    assert drawn != order()
    mx.random.seed(1)
    assert drawn == order()
    before = rng.get_state()
    DatasetIter(PAIRS, 3)
    assert rng.get_state() == before


def test_no_more_is_read_than_asked_for():
    drawn = itertools.count()
    iterator = GeneratorIter(lambda: drawn, 4, prefetch_buffer=2)
    for batches in range(3):
        time.sleep(0.05)
        assert next(drawn) <= 4 * (batches + 2) + batches
        iterator.next()


def test_a_batch_that_is_kept_keeps_its_samples():
    for iterator in (DatasetIter(PAIRS, 2, prefetch_buffer=1), GeneratorIter(PAIRS, 2)):
        first = iterator.next()
        list(iterator)
        np.testing.assert_array_equal(first.data[0].asnumpy(), X[:2])


# -------------------------------------------------------------------------------------- generators

def pairs():
    yield from PAIRS


def test_generators():
    expected = told(DatasetIter(PAIRS, 4))
    expected[-1] = ((X[[8, 9, 10, 8]]).tolist(), [2, 0, 1, 2], 1)
    for samples in (pairs, lambda: PAIRS, PAIRS, TorchSetIterable()):
        iterator = GeneratorIter(samples, 4)
        iterator.reset()
        assert iterator.provide_data == [("data", (4, 2, 3))]
        for _ in range(2):
            assert told(iterator) == expected and told(iterator) == []
            iterator.reset()
        assert told(iterator, 2) == expected[:2]
        iterator.reset()
        assert told(iterator) == expected
    assert told(GeneratorIter(pairs, 4, "discard")) == expected[:2]


class TorchSetIterable:
    """Like a streamed data set, or a loader."""

    def __iter__(self):
        return pairs()


def test_one_thread_does_it_all():
    """A data set or a generator may own thread-bound objects, such as a database connection."""
    users = set()

    class Dataset(TorchSet):
        def __getitem__(self, index):
            users.add(threading.get_ident())
            return super().__getitem__(index)

    def generator():
        users.add(threading.get_ident())
        yield from PAIRS

    for make in (lambda: DatasetIter(Dataset(), 2), lambda: GeneratorIter(generator, 2)):
        users.clear()
        iterator = make()
        for _ in range(2):
            list(iterator)
            iterator.reset()
        iterator.close()
        assert len(users) == 1 and threading.get_ident() not in users


def test_a_generator_without_an_end():
    iterator = mx.io.ResizeIter(GeneratorIter(itertools.count(), 2), 3, reset_internal=False)
    for epoch in range(3):
        assert [batch.data[0].asnumpy()[0] for batch in iterator] == [
            6 * epoch, 6 * epoch + 2, 6 * epoch + 4]
        iterator.reset()


def test_a_generator_has_one_epoch():
    made = pairs()
    for samples in (pairs(), lambda: made):
        iterator = GeneratorIter(samples, 4)
        iterator.reset()
        assert len(told(iterator)) == 3
        iterator.reset()
        for _ in range(2):
            with pytest.raises(MXNetError, match="item 0: the generator is exhausted; pass a func"):
                iterator.next()
            iterator.reset()


def batches(sizes=(4, 4, 3)):
    ends = np.cumsum(sizes)
    return [[Tensor(X[end - size:end]), Y[end - size:end].tolist()]
            for size, end in zip(sizes, ends, strict=True)]


def test_ready_made_batches():
    expected = told(GeneratorIter(pairs, 4))
    iterator = GeneratorIter(batches)
    assert iterator.batch_size == 4 and iterator.provide_label == [("softmax_label", (4,))]
    for _ in range(2):
        assert told(iterator) == expected
        iterator.reset()
    assert told(GeneratorIter(lambda: batches((4, 3, 4)), None, "discard")) == [
        expected[0], (X[7:].tolist(), Y[7:].tolist(), 0)]
    with pytest.raises(MXNetError, match="item 1: a batch has {'data': 4, 'softmax_label': 4} sam"
                                         ".* from 1 to 3, which the first"):
        told(GeneratorIter(lambda: batches((3, 4))))


# -------------------------------------------------------------------------------------- composition

def test_under_other_iterators():
    def joined():
        return mx.io.PrefetchingIter([DatasetIter(PAIRS, 4), GeneratorIter(pairs, 4)],
                                     [{}, {"data": "b"}], [{}, {"softmax_label": "c"}])

    both, other = joined(), joined()
    assert [desc.name for desc in both.provide_data + both.provide_label] == [
        "data", "b", "softmax_label", "c"]
    for _ in range(2):
        found = list(both)
        assert [batch.pad for batch in found] == [0, 0, 1]
        for batch in found:
            for one, two in (batch.data, batch.label):
                np.testing.assert_array_equal(one.asnumpy()[:3], two.asnumpy()[:3])
        both.reset()
    told(both, 1)
    other.load_state_dict(json.loads(json.dumps(both.state_dict())))
    assert told(other) == told(both)
    assert len(told(mx.io.ResizeIter(GeneratorIter(pairs, 4), 5))) == 5


def test_a_batch_can_be_asked_for_piece_by_piece():
    for iterator in (DatasetIter(PAIRS, 4), GeneratorIter(pairs, 4)):
        assert iterator.getdata() is None
        assert iterator.iter_next() and iterator.getpad() == 0
        np.testing.assert_array_equal(iterator.getdata()[0].asnumpy(), X[:4])
        np.testing.assert_array_equal(iterator.getlabel()[0].asnumpy(), Y[:4])
    assert iterator.getindex() is None
    assert DatasetIter(PAIRS, 4).next().index.tolist() == [0, 1, 2, 3]


def network():
    x = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


@pytest.mark.parametrize("make", [
    lambda: DatasetIter(TorchSet(), 4, True, seed=1, preprocess_threads=2),
    lambda: DatasetIter(ArrowTable(cuts=(6,)), 4, columns=XY), lambda: GeneratorIter(pairs, 4),
    lambda: GeneratorIter(batches)])
def test_modules_train_and_predict(make):
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    module.fit(make(), make(), num_epoch=2, eval_metric="ce")
    assert module.history[1]["train"] and np.isfinite(module.score(make(), "ce")[0][1])
    iterator = make()
    found = module.predict(iterator).asnumpy()
    assert found.shape == (11, 3)
    weights = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    scores = X.reshape(11, 6) @ weights["fc_weight"].T + weights["fc_bias"]
    scores = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    if make().next().index is not None:  # predict resets, so it has the order of epoch 1
        iterator = make()
        iterator.reset()
        scores = scores[np.concatenate([batch.index for batch in iterator])[:11]]
    np.testing.assert_allclose(found, scores, rtol=1e-5)  # sums of 6 products in float32


def test_one_epoch_of_a_generator_is_enough_for_fit():
    module = mx.mod.Module(network())
    module.fit(GeneratorIter(pairs(), 4), num_epoch=1)
    with pytest.raises(MXNetError, match="exhausted"):
        mx.mod.Module(network()).fit(GeneratorIter(pairs(), 4), num_epoch=2)


# ------------------------------------------------------------------------------------------ resume

RESUMED = {
    **{f"{handle}, {'shuffled' if shuffle else 'in order'}": lambda handle=handle, shuffle=shuffle:
       DatasetIter(PAIRS, 4, shuffle, handle, num_parts=2, part_index=1)
       for handle in ("pad", "discard", "roll_over") for shuffle in (False, True)},
    "larger than its samples": lambda: DatasetIter(PAIRS, 24, True, "roll_over"),
    "generator": lambda: GeneratorIter(pairs, 4),
    "generator, discard": lambda: GeneratorIter(pairs, 3, "discard"),
    "ready-made": lambda: GeneratorIter(batches),
}


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("epochs", [0, 2])
def test_iterators_go_on_from_any_place(name, epochs):
    for count in range(5):
        first, second = RESUMED[name](), RESUMED[name]()
        for _ in range(epochs):
            list(first)
            first.reset()
        told(first, count)
        told(second, 1)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for _ in range(3):
            assert told(second) == told(first)
            first.reset()
            second.reset()


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_training_goes_on_exactly(tmp_path):
    def fit(module, begin, end):
        module.fit(DatasetIter(TorchSet(), 4, True, seed=7), begin_epoch=begin, num_epoch=end,
                   optimizer_params={"momentum": 0.9})
        return module

    def new():
        mx.random.seed(3)
        return mx.mod.Module(network())

    prefix = str(tmp_path / "net")
    whole = fit(new(), 0, 4)
    fit(new(), 0, 2).save_checkpoint(prefix, 2, save_optimizer_states=True)
    rest = fit(mx.mod.Module.load(prefix, 2, load_optimizer_states=True), 2, 4)
    for name, value in whole.get_params()[0].items():
        np.testing.assert_array_equal(rest.get_params()[0][name].asnumpy(), value.asnumpy())


def test_states_of_others():
    state = DatasetIter(PAIRS, 4, True, seed=1).state_dict()
    for options, words in (({"seed": 2}, "seed=1, this one has 2"), ({"batch_size": 3}, "batch_si"),
                           ({"shuffle": False}, "shuffle"), ({"num_parts": 2}, "count=11"),
                           ({"last_batch_handle": "discard"}, "last_batch_handle")):
        with pytest.raises(MXNetError, match=words):
            DatasetIter(PAIRS, **{"batch_size": 4, "shuffle": True} | options
                        ).load_state_dict(state)
    generator = GeneratorIter(pairs, 4)
    list(generator)
    shorter = GeneratorIter(PAIRS[:5], 4)
    with pytest.raises(MXNetError, match="at item 11, and there are only 5"):
        shorter.load_state_dict(generator.state_dict())
    assert len(told(shorter)) == 2
    with pytest.raises(MXNetError, match="batch_size"):
        GeneratorIter(pairs, 3).load_state_dict(generator.state_dict())


# ------------------------------------------------------------------------------------------ errors

class Broken(TorchSubset):
    """Reads of several samples fail as a whole."""

    def __getitem__(self, index):
        if index == 6:
            raise KeyError("the broken sample")
        return super().__getitem__(index)


def broken():
    for number in range(7):
        yield Broken()[number]


class BrokenOneByOne(Broken):
    __getitems__ = property()  # hasattr returns False


@pytest.mark.parametrize("make, words", [
    (lambda: DatasetIter(Broken(), 2), "DatasetIter: sample 6: KeyError: 'the broken sample'"),
    (lambda: DatasetIter(BrokenOneByOne(), 2, preprocess_threads=3), "DatasetIter: sample 6: KeyE"),
    (lambda: GeneratorIter(broken, 2), "GeneratorIter: item 6: KeyError: 'the broken sample'")])
def test_errors_come_in_turn_with_their_sample_and_traceback(make, words):
    iterator = make()
    assert len(told(iterator, 3)) == 3
    with pytest.raises(MXNetError, match=words) as raised:
        iterator.next()
    cause = raised.value.__cause__
    assert isinstance(cause, KeyError)
    assert "in __getitem__" in "".join(traceback.format_tb(cause.__traceback__))
    iterator.reset()
    assert len(told(iterator, 3)) == 3


class Lying(TorchSet):
    def __len__(self):
        return 13


class Short(TorchSubset):
    def __getitems__(self, indices):
        return super().__getitems__(indices)[:1]


class ShortTable(HuggingFaceSet):
    def __getitem__(self, key):
        return {**super().__getitem__(key), "y": [1]}


SHAPES = [(x[:, :3 - (k == 5)], k) for k, x in enumerate(X)]


@pytest.mark.parametrize("dataset, options, words", [
    (SHAPES, {}, r"sample 5: 'data' has shape \(2, 2\), expected \(2, 3\)"),
    ({"data": np.array([[1, 2], [3, 4], [5, 6, 7]], object)}, {"label_names": ()},
     r"sample 2: 'data' has shape \(3,\), expected \(2,\)"),
    (Lying(), {}, "sample 11: IndexError: 11"),
    (Short(), {}, "sample 0, 1: there are 1 of them"),
    (ShortTable(np.asarray), {"columns": XY},
     "sample 0: 'softmax_label' has 1 values for 2 samples"),
    ([(1, "cat")], {}, "sample 0: 'softmax_label' is a str, expected numbers; a transform"),
    ([(1, None)], {}, "'softmax_label' is a NoneType"),
    ([(1, {"a": 1})], {}, "'softmax_label' is a dict"),
    ([([1, [2, 3]], 1)], {}, "sample 0: ValueError: .*inhomogeneous"),
    (PAIRS, {"transform": lambda pair: 1 // int(pair[1])}, "sample 0: ZeroDivisionError"),
    ([(1, 2, 3)], {}, "has 3 fields, expected 2: .'data', 'softmax_label'.; give data_names"),
    ([{"image": 1, "label": 2}], {}, "no field 'data' for 'data', only .'image', 'label'"),
    ({"data": X, "label": Y}, {}, "no field 'softmax_label' .* label_names=.. for no labels"),
    (PAIRS, {"columns": {"dat": 1}}, "'dat' is neither .* did you mean 'data'"),
    (PAIRS, {"dtype": {"label": "int32"}}, "dtype: 'label' is neither in data_names"),
    (PAIRS, {"columns": {"softmax_label": 5}}, "no field 5 for 'softmax_label', only .0, 1"),
    (pairs(), {}, "a generator has no length or no items, .* GeneratorIter"),
    ({"data": X, "softmax_label": Y[:4]}, {}, "equal length .* {'data': 11, 'softmax_label': 4}"),
    ([], {}, "part 0 of 1 of 0 samples is empty"),
    (PAIRS, {"num_parts": 12, "part_index": 0}, "part 0 of 12 of 11 samples is empty"),
    (PAIRS, {"part_index": 1}, "part_index is 1 of num_parts 1"),
    (PAIRS, {"batch_size": 0}, "batch_size is 0"), (PAIRS, {"dtype": "text"}, "dtype text is not"),
    (PAIRS, {"last_batch_handle": "keep"}, "last_batch_handle is 'keep', expected one of .'pad',"),
    (PAIRS, {"preprocess_threads": 0}, "threads is 0"),
    (PAIRS, {"prefetch_buffer": 0}, "ahead is 0")])
def test_wrong_data_sets_and_options(dataset, options, words):
    with pytest.raises(MXNetError, match=words):
        list(DatasetIter(dataset, **{"batch_size": 2} | options))


@pytest.mark.parametrize("samples, options, words", [
    (SHAPES, {}, r"item 5: 'data' has shape \(2, 2\), expected \(2, 3\)"),
    ([], {}, "item 0: there is none"), (5, {}, "TypeError: 'int' object is not iterable"),
    (lambda: None, {}, "TypeError: 'NoneType' object is not iterable"),
    (PAIRS, {"batch_size": None}, "item 0: without a batch_size an item is a whole batch"),
    ([(X, Y), (X, Y[:3])], {"batch_size": None}, "item 1: a batch has .* as many of each"),
    ([(X[:2], Y[:2]), (X[:2, 1:], Y[:2])], {"batch_size": None}, "item 1: 'data' has shape"),
    ([(X[:2], Y[:2]), (X[:0], Y[:0])], {"batch_size": None}, "'softmax_label': 0} samples"),
    (PAIRS, {"last_batch_handle": "roll_over"}, "one of .'pad', 'discard'"),
    (PAIRS, {"batch_size": -1}, "batch_size is -1")])
def test_wrong_generators(samples, options, words):
    with pytest.raises(MXNetError, match=words):
        list(GeneratorIter(samples, **{"batch_size": 2} | options))


# -------------------------------------------------------------------------------------- termination

def test_close_ends_the_threads():
    for iterator in (DatasetIter(PAIRS, 2, preprocess_threads=3), GeneratorIter(pairs, 2)):
        iterator.next()
        before = threading.active_count()
        iterator.close()
        assert threading.active_count() < before


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_process():
    """While waiting for a batch, and while not; the work in progress would take minutes.

    The program sleeps only briefly: Python notices a signal that arrives just before it falls
    asleep when it wakes up, and that is when the signal arrives here, after the program's output.
    """
    code = textwrap.dedent("""
        import signal
        import time
        import nbmod as mx

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have ignored it

        class Slow:
            def __len__(self):
                return 10000

            def __getitem__(self, index):
                time.sleep(0.01)
                return index

        slow = Slow()
        iterators = [mx.io.DatasetIter(slow, 2000, preprocess_threads=2),
                     mx.io.GeneratorIter(lambda: (slow[k] for k in range(10000)), 2000)]
        for iterator in iterators:
            try:
                print("waits", flush=True)
                iterator.next()
            except KeyboardInterrupt:
                iterator.reset()
        print("works", flush=True)
        while True:
            time.sleep(0.01)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        for said in ("waits", "waits", "works"):
            assert process.stdout.readline() == f"{said}\n"
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


# ---------------------------------------------------------------------------- sparse matrices

ROWS = np.where(np.random.default_rng(1).random((11, 5)) < 0.4, np.arange(55).reshape(11, 5), 0)


def sparse_rows(kind):
    """`ROWS` as a matrix of scipy, or a CSRNDArray."""
    if kind == "CSRNDArray":
        return mx.nd.array(ROWS).tostype("csr")
    return pytest.importorskip("scipy.sparse").csr_matrix(ROWS).asformat(kind)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "CSRNDArray"])
@pytest.mark.parametrize("options", [
    {}, {"shuffle": True, "seed": 3}, {"last_batch_handle": "discard"}, {"preprocess_threads": 3},
    {"num_parts": 2, "part_index": 1}, {"transform": lambda sample: sample}],
    ids=lambda options: "-".join(options) or "plain")
def test_sparse_matrices_give_csr_batches(kind, options):
    sparse, dense = (told_sparse(DatasetIter({"data": rows, "softmax_label": Y}, 4, **options))
                     for rows in (sparse_rows(kind), ROWS))
    assert {stype for stype, *_ in sparse} == {"csr"}
    assert [batch[1:] for batch in sparse] == [batch[1:] for batch in dense]


def told_sparse(batches):
    return [(batch.data[0].stype, batch.data[0].asnumpy().tolist(), batch.data[0].dtype,
             batch.label[0].asnumpy().tolist(), batch.pad, batch.index.tolist())
            for batch in batches]


def test_a_sparse_matrix_is_a_data_set_without_labels():
    batches = DatasetIter(sparse_rows("csr"), 3, dtype="float64")
    assert batches.provide_data[0].shape == (3, 5) and not batches.provide_label
    batch = batches.next()
    batch.data[0].check_format()
    assert batch.data[0].dtype == np.float64 and batch.label == []
    np.testing.assert_array_equal(batch.data[0].asnumpy(), ROWS[:3])
    batches.next()
    resumed = DatasetIter(sparse_rows("csr"), 3, dtype="float64")
    resumed.load_state_dict(batches.state_dict())
    np.testing.assert_array_equal(resumed.next().data[0].asnumpy(), ROWS[6:9])


@pytest.mark.parametrize("batch_size", [None, 4])
def test_generators_of_sparse_rows(batch_size):
    matrix = sparse_rows("csr")
    items = ([(matrix[row], Y[row]) for row in range(11)] if batch_size else
             [(matrix[row:row + 4], Y[row:row + 4]) for row in range(0, 11, 4)])
    batches = [*GeneratorIter(lambda: iter(items), batch_size=batch_size)]
    assert [batch.pad for batch in batches] == [0, 0, 1]
    found = np.concatenate([batch.data[0].asnumpy() for batch in batches])
    np.testing.assert_array_equal(found, ROWS[[*range(11), 8]])


def test_sparse_samples_of_other_kinds_are_errors():
    matrix = sparse_rows("csr")
    for change, words in ((lambda row: row[:, :3], r"shape \(1, 3\), expected \(1, 5\)"),
                          (lambda row: row.toarray()[0], "expected a sparse row")):
        items = [(matrix[0], 0), (change(matrix[1]), 1)]
        with pytest.raises(MXNetError, match=words):
            DatasetIter(items, 2).next()
    wrong = mx.nd.sparse.csr_matrix(([1], [7], [0, 1]), shape=(1, 5))
    with pytest.raises(MXNetError, match="not from 0 to 4"):
        DatasetIter(wrong)
