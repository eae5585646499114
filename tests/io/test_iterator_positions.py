"""The position of every iterator, saved after any number of batches and restored in another one."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.module.json_codec import decode, encode
from tests.io.test_native_iterators import FILES, many
from tests.programs import image_record_programs
from tests.reliability.changed_resume import changed

IMAGES = {"path_imgrec": "a.rec", "data_shape": (3, 8, 8), "batch_size": 3}
AUGMENTED = {**IMAGES, "shuffle": True, "rand_crop": True, "rand_mirror": True}


def arrays(**options):
    return mx.io.NDArrayIter(np.arange(23), np.arange(23), 5, shuffle=True, **options)


ITERATORS = {
    "NDArrayIter": lambda: arrays(),
    "NDArrayIter, roll_over": lambda: arrays(last_batch_handle="roll_over"),
    "CSVIter": lambda: mx.io.CSVIter(data_csv="seven", data_shape=(3,), batch_size=3),
    "CSVIter, not round": lambda: mx.io.CSVIter(data_csv="seven", data_shape=(3,), batch_size=3,
                                                round_batch=False),
    "LibSVMIter": lambda: mx.io.LibSVMIter(data_libsvm="svm", data_shape=(6,), batch_size=2),
    "MNISTIter": lambda: mx.io.MNISTIter(image="images", label="labels", batch_size=3, silent=1),
    "ImageRecordIter": lambda: mx.io.ImageRecordIter(**AUGMENTED, verbose=False, seed=5),
    "ImageIter": lambda: mx.image.ImageIter(**AUGMENTED, brightness=0.3),
    "ImageIter, roll_over": lambda: mx.image.ImageIter(**AUGMENTED, last_batch_handle="roll_over"),
    "ImageIter, in order": lambda: mx.image.ImageIter(**IMAGES),
    "ResizeIter": lambda: mx.io.ResizeIter(ITERATORS["ImageRecordIter"](), 4, False),
    "ResizeIter of ImageIter": lambda: mx.io.ResizeIter(ITERATORS["ImageIter"](), 4),
    "PrefetchingIter": lambda: mx.io.PrefetchingIter(
        [ITERATORS["CSVIter"](), ITERATORS["CSVIter"]()],
        rename_data=[{"data": "a"}, {"data": "b"}],
        rename_label=[{"softmax_label": "c"}, {"softmax_label": "d"}]),
    "PrefetchingIter of ImageRecordIter": lambda: mx.io.PrefetchingIter(
        ITERATORS["ImageRecordIter"]()),
    "PrefetchingIter of ImageIter": lambda: mx.io.PrefetchingIter(
        ITERATORS["ImageIter, in order"]()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions")
    for name in ("seven", "svm", "images", "labels"):
        (path / name).write_bytes(FILES[name])
    image_record_programs.write(mx, str(path), [(16, 20)] * 7, list(range(7)))
    return path


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5, 8])
def test_the_rest_is_the_same(folder, monkeypatch, name, before):
    """States pass through JSON, as in the files of checkpoints.  `mx.image` draws from the global
    generators, whose states are saved separately."""
    monkeypatch.chdir(folder)
    random.seed(7)
    one = ITERATORS[name]()
    many(one, before)
    state, common = json.dumps(encode(one.state_dict())), random.getstate()
    rest = many(one, 9)
    random.seed(8)
    other = ITERATORS[name]()
    many(other, 3)
    random.setstate(common)
    other.load_state_dict(decode(json.loads(state)))
    assert many(other, 9) == rest


@pytest.mark.parametrize("one, other", [
    pair for pair in itertools.permutations(ITERATORS, 2)
    if pair[0].split(",")[0] != pair[1].split(",")[0]])
def test_states_of_other_iterators_are_refused(folder, monkeypatch, one, other):
    monkeypatch.chdir(folder)
    with pytest.raises(MXNetError, match="the saved state is of an iterator with"):
        ITERATORS[one]().load_state_dict(ITERATORS[other]().state_dict())


@pytest.mark.parametrize("name", ["CSVIter", "LibSVMIter", "MNISTIter", "ImageRecordIter",
                                  "ImageIter", "PrefetchingIter"])
def test_states_of_other_files_are_refused(folder, tmp_path, monkeypatch, name):
    """And of files that have changed; not of files that have only moved."""
    monkeypatch.chdir(folder)
    state = ITERATORS[name]().state_dict()
    monkeypatch.chdir(tmp_path)
    for file in ("seven", "svm", "images", "labels"):
        (tmp_path / file).write_bytes(FILES[file])
    image_record_programs.write(mx, str(tmp_path), [(16, 20)] * 7, list(range(7)))
    ITERATORS[name]().load_state_dict(state)
    (tmp_path / "seven").write_bytes(FILES["seven"] + b"1,2,3\n")
    (tmp_path / "svm").write_bytes(FILES["svm"] + b"1 0:1\n")
    for file, size in (("images", 20), ("labels", 1)):
        data = FILES[file]
        (tmp_path / file).write_bytes(data[:7] + b"\x09" + data[8:-size])
    image_record_programs.write(mx, str(tmp_path), [(16, 20)] * 6 + [(15, 20)], list(range(7)))
    with pytest.raises(MXNetError, match="bytes_of_files?=|images="):
        ITERATORS[name]().load_state_dict(state)


def samples():
    return [(np.full(3, i, np.float32), np.float32(i)) for i in range(11)]


CHANGED = {
    **ITERATORS,
    "NDArrayIter, in order": lambda: mx.io.NDArrayIter(np.arange(23), np.arange(23), 5),
    "DatasetIter": lambda: mx.io.DatasetIter(samples(), 3, shuffle=True),
    "DatasetIter, roll_over": lambda: mx.io.DatasetIter(samples(), 3, shuffle=True, seed=3,
                                                        last_batch_handle="roll_over"),
    "GeneratorIter": lambda: mx.io.GeneratorIter(lambda: iter(samples()), 3),
    "BucketSentenceIter": lambda: mx.rnn.BucketSentenceIter(
        [[word] * length for length in (3, 5) for word in range(1, 9)], 4, invalid_label=0),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_states_are_refused_or_are_positions(folder, monkeypatch, name):
    """Values of 150 states are changed, as damage and forgery do it.  Before, most were accepted,
    and batches failed later, were of the wrong size, or of memory beyond the data."""
    monkeypatch.chdir(folder)
    made = CHANGED[name]()
    many(made, 2)
    states = [encode(made.state_dict())]
    many(made, 9)
    states.append(encode(made.state_dict()))
    iterator, rng = CHANGED[name](), random.Random(name)
    for _ in range(150):
        state = changed(rng.choice(states), rng)
        try:
            state = decode(state)
        except (KeyError, TypeError, ValueError):
            continue
        with suppress(MXNetError):
            iterator.load_state_dict(state)
        for _ in range(2):
            with suppress(MXNetError):  # joined iterators may be at different places
                for _, batch in zip(range(30), iterator, strict=False):
                    assert [array.shape for array in batch.data] == [
                        tuple(desc[1]) for desc in batch.provide_data or iterator.provide_data]
            iterator.reset()
