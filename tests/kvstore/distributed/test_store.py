"""Distributed stores compute what a store of one process with as many devices computes.

Ranks are threads here (`threads`); `test_mpi` runs processes.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.kvstore.compression import TwoBit
from nbmod.kvstore.distributed import bucket, row_ranges
from nbmod.kvstore.distributed.row_ranges import OwnerChoice, even_bounds, whole_bounds

from .threads import on_ranks

SHAPES = {"small": (4, 3), "cut": (130, 20), "vector": (7,), "large": (2048, 2)}
OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}, "nag": {"momentum": 0.9},
    "adam": {"learning_rate": 0.05}, "adagrad": {}, "rmsprop": {"centered": True}, "ftrl": {},
    "adadelta": {}, "signum": {}, "adamax": {}, "ftml": {}, "dcasgd": {},
    "lamb": {}, "lars": {"momentum": 0.9}, "test": {},
}


@pytest.fixture(autouse=True)
def _bound(monkeypatch):
    """Divide arrays of more than 1,000 elements; let optimizers without a sparse form be quiet."""
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "1000")
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


def gradient(name, rank, step, dtype="float32"):
    seed = [ord(letter) for letter in name] + [rank, step]
    return mx.nd.array(np.random.RandomState(seed).randn(*SHAPES[name]), dtype=dtype)


def one_process(ranks, optimizer=None, steps=3, dtype="float32", **options):
    """The values and states after some pushes of a store with `ranks` devices."""
    store = mx.kv.create("local")
    return pushed(store, lambda name, step: [gradient(name, rank, step, dtype)
                                             for rank in range(ranks)],
                  optimizer, steps, dtype, **options)


def pushed(store, gradients, optimizer, steps, dtype="float32", **options):
    for name, shape in SHAPES.items():
        store.init(name, mx.nd.ones(shape, dtype=dtype) * (1 + store.rank))
    if optimizer is not None:
        store.set_optimizer(mx.optimizer.create(optimizer, **options))
    out = {name: mx.nd.zeros(shape, dtype=dtype) for name, shape in SHAPES.items()}
    for step in range(steps):
        store.pushpull([*SHAPES], [gradients(name, step) for name in SHAPES], out=[*out.values()])
    return {name: array.asnumpy() for name, array in out.items()}


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("optimizer", [None, *OPTIMIZERS])
def test_bits_are_those_of_one_process(ranks, optimizer):
    options = OPTIMIZERS.get(optimizer, {})
    expected = one_process(ranks, optimizer, **options)
    found = on_ranks(ranks, lambda store: pushed(
        store, lambda name, step: gradient(name, store.rank, step), optimizer, 3, **options))
    for of_rank in found:
        for name, array in expected.items():
            np.testing.assert_array_equal(of_rank[name], array, err_msg=name)


def test_float16_with_master_copies():
    options = {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}
    expected = one_process(3, "sgd", dtype="float16", **options)
    found = on_ranks(3, lambda store: pushed(
        store, lambda name, step: gradient(name, store.rank, step, "float16"), "sgd", 3,
        "float16", **options))
    for of_rank in found:
        for name, array in expected.items():
            np.testing.assert_array_equal(of_rank[name], array, err_msg=name)


def test_each_state_is_stored_by_its_owner_only():
    def sizes(store):
        pushed(store, lambda name, step: gradient(name, store.rank, step), "adam", 1)
        return {name: state[0].shape for name, state in store._updater.states.items()}

    found = on_ranks(2, sizes)
    assert found[0] == {"small": (4, 3), "cut": (65, 20), "large": (1024, 2)}
    assert found[1] == {"cut": (65, 20), "vector": (7,), "large": (1024, 2)}


def test_optimizers_of_layers_have_whole_arrays():
    def sizes(store):
        pushed(store, lambda name, step: gradient(name, store.rank, step), "lamb", 1)
        return {name: state[0].shape for name, state in store._updater.states.items()}

    first, second = on_ranks(2, sizes)
    assert {**first, **second} == SHAPES and not first.keys() & second.keys()


def test_several_devices_in_each_rank():
    """Sums are formed per rank first, so they are those of one process up to rounding."""
    expected = one_process(4)
    found = on_ranks(2, lambda store: pushed(
        store, lambda name, step: [gradient(name, 2 * store.rank + device, step)
                                   for device in range(2)], None, 3))
    for of_rank in found:
        for name, array in expected.items():    # 4 terms of about 1
            np.testing.assert_allclose(of_rank[name], array, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ranks", [2, 3])
def test_states_are_saved_and_loaded_whole(ranks, tmp_path):
    file = str(tmp_path / "x.states")
    alone, again = tmp_path / "alone.states", tmp_path / "again.states"

    def train(store):
        pushed(store, lambda name, step: gradient(name, store.rank, step), "adam", 2)
        store.save_optimizer_states(file)
        before = {name: [part.asnumpy() for part in state]
                  for name, state in store._updater.states.items()}
        store.load_optimizer_states(file)
        for name, parts in before.items():
            for part, array in zip(store._updater.states[name], parts, strict=True):
                np.testing.assert_array_equal(part.asnumpy(), array)
        assert store._updater.states.keys() == before.keys()
        store.save_optimizer_states(str(again))

    on_ranks(ranks, train)
    store = mx.kv.create("local")
    pushed(store, lambda name, step: [gradient(name, rank, step) for rank in range(ranks)],
           "adam", 2)
    store.save_optimizer_states(str(alone))
    found = mx.optimizer.get_updater(mx.optimizer.Adam())
    found.set_states((tmp_path / "x.states").read_bytes())
    for name, state in store._updater.states.items():
        for part, expected in zip(found.states[name], state, strict=True):
            np.testing.assert_array_equal(part.asnumpy(), expected.asnumpy())
    assert again.read_bytes() == (tmp_path / "x.states").read_bytes()


def test_counts_of_updates_are_equal_on_all_ranks():
    def counts(store):
        pushed(store, lambda name, step: gradient(name, store.rank, step), "sgd", 3)
        optimizer = store._updater.optimizer
        return optimizer.num_update, dict(sorted(optimizer._index_update_count.items()))

    assert on_ranks(3, counts) == [(3, dict.fromkeys(sorted(SHAPES), 3))] * 3


# -- rows -------------------------------------------------------------------------------------


def rows_of(rank, step):
    chosen = np.random.RandomState([rank, step]).rand(11) < 0.4
    dense = np.random.RandomState([step, rank]).randn(11, 3).astype("f4") * chosen[:, None]
    return mx.nd.array(dense).tostype("row_sparse")


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("optimizer", [None, "sgd", "adam", "adagrad", "ftrl", "test"])
@pytest.mark.parametrize("stype", ["row_sparse", "default"])
def test_gradients_of_rows(ranks, optimizer, stype):
    """What is pulled of a key is what one process has, whatever rows each rank pushes and asks
    for."""
    shape = (11, 3)

    def run(store, gradients):
        store.init("w", mx.nd.ones(shape).tostype(stype))
        if optimizer is not None:
            store.set_optimizer(mx.optimizer.create(optimizer))
        for step in range(3):
            store.push("w", gradients(step))
        wanted = mx.nd.array([(store.rank + 3) % 11, 10, 0, 10])
        out = mx.nd.sparse.zeros("row_sparse", shape)
        store.row_sparse_pull("w", out=out, row_ids=wanted)
        whole = mx.nd.zeros(shape)
        store.pull("w", out=whole, ignore_sparse=False)
        expected = np.zeros(shape, "f4")
        picked = wanted.asnumpy().astype(int)
        expected[picked] = whole.asnumpy()[picked]
        np.testing.assert_array_equal(out.asnumpy(), expected)
        return whole.asnumpy()

    local = run(mx.kv.create("local"), lambda step: [rows_of(rank, step) for rank in range(ranks)])
    for found in on_ranks(ranks, lambda store: run(store, lambda step: rows_of(store.rank, step))):
        np.testing.assert_array_equal(found, local)


def test_rows_are_stored_by_their_owners_only():
    def owned(store):
        store.init("w", mx.nd.arange(30).reshape((10, 3)).tostype("row_sparse"))
        return store._shards["w"].asnumpy()

    first, second, third = on_ranks(3, owned)
    np.testing.assert_array_equal(np.concatenate([first, second, third]),
                                  np.arange(30).reshape(10, 3))
    assert first.shape == (3, 3)


def test_rows_move_when_the_optimizer_needs_them_together():
    def owned(store):
        store.init("w", mx.nd.ones((10, 3)).tostype("row_sparse"))
        before = store._shards["w"].shape
        store.set_optimizer(mx.optimizer.create("test"))
        store.push("w", mx.nd.ones((10, 3)).tostype("row_sparse"))
        out = mx.nd.zeros((10, 3))
        store.pull("w", out=out, ignore_sparse=False)
        assert (out.asnumpy() == 3).all()
        return before, store._shards["w"].shape

    assert on_ranks(2, owned) == [((5, 3), (10, 3)), ((5, 3), (0, 3))]


# -- compression ------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([-0.25, 0.0, 0.25]), max_size=50))
def test_two_bits_hold_three_values(values):
    values = np.array(values, np.float32)
    found, compression = np.empty_like(values), TwoBit(0.25)
    codes = compression.encode(values)
    assert len(codes) == compression.length(len(values)) == -(-len(values) // 4)
    compression.decode(codes, found)
    np.testing.assert_array_equal(found, values)


def test_compressed_gradients_are_those_of_a_device_store():
    params = {"type": "2bit", "threshold": 0.5}
    local = mx.kv.create("device")
    local.set_gradient_compression(params)
    expected = pushed(local, lambda name, step: [gradient(name, rank, step) for rank in range(3)],
                      "sgd", 4)

    def train(store):
        store.set_gradient_compression(params)
        return pushed(store, lambda name, step: gradient(name, store.rank, step), "sgd", 4)

    for found in on_ranks(3, train):
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)


# -- agreement --------------------------------------------------------------------------------


def test_other_calls_are_an_error_on_all_ranks():
    def differ(store):
        store.init(["a", "b"], [mx.nd.ones((2, 2))] * 2)
        with pytest.raises(mx.MXNetError, match=r"rank 0 \(here\) is in push of key 'a'.*"
                                                r"rank 1 \(here\) is in push of key 'b'"):
            store.push("ab"[store.rank], mx.nd.ones((2, 2)))
        with pytest.raises(mx.MXNetError, match="rank 0 .* is in barrier; rank 1 .* is in init"):
            if store.rank:
                store.init("c", mx.nd.ones((2, 2)))
            else:
                store._barrier()
        store.push("a", mx.nd.ones((2, 2)))     # they go on
        return True

    assert on_ranks(2, differ) == [True, True]


def test_other_shapes_are_an_error():
    def differ(store):
        with pytest.raises(mx.MXNetError, match=r"\(2, 2\).*\(3, 2\)"):
            store.init("a", mx.nd.ones((2 + store.rank, 2)))
        return True

    assert on_ranks(2, differ) == [True, True]


# -- owners -----------------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(1, 9))
def test_even_bounds_are_even(rows, ranks):
    bounds = even_bounds(rows, ranks)
    sizes = np.diff(bounds)
    assert bounds[0] == 0 and bounds[-1] == rows and sizes.max() - sizes.min() <= 1


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=30),
       st.integers(1, 5), st.booleans())
def test_every_row_has_one_owner_and_small_arrays_are_spread(shapes, ranks, whole):
    choose = OwnerChoice(ranks, bound=400)
    load = np.zeros(ranks, int)
    for shape in shapes:
        bounds = choose(shape, whole)
        assert len(bounds) == ranks + 1 and (np.diff(bounds) >= 0).all()
        assert (bounds[0], bounds[-1]) == (0, shape[0])
        if whole or shape[0] * shape[1] <= 800 // max(ranks, 2):
            assert set(bounds) == {0, shape[0]}
            load += row_ranges.elements_by_rank(bounds, shape)
    assert load.max() - load.min() <= max(rows * columns for rows, columns in shapes)


@given(st.tuples(st.integers(2, 3000), st.integers(1, 3000)), st.integers(2, 1000))
def test_what_an_owner_receives_does_not_grow_with_the_number_of_ranks(shape, ranks):
    bounds = OwnerChoice(ranks, bound=10_000)(shape, False)
    largest = max(row_ranges.elements_by_rank(bounds, shape))
    rows_of_a_part = -(-shape[0] // ranks) * shape[1]
    assert largest * ranks <= max(20_000, rows_of_a_part * ranks)


def test_small_keys_that_are_cut_share_a_bucket():
    cut, whole = even_bounds(8, 4), whole_bounds(8, 4, 1)
    keys = [bucket.BucketKey(name, (8, columns), bounds) for name, columns, bounds in [
        ("a", 10, cut), ("large", 200, cut), ("b", 10, whole), ("c", 10, cut), ("d", 10, cut)]]
    found = bucket.buckets_of(keys, 4, [8000])
    assert [[key.name for key in part] for part in found] == [["large"], ["a", "b", "c", "d"]]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_buckets_reduce_and_gather(data):
    """For random shapes and owners: sums of all ranks' gradients, and everybody's new rows."""
    ranks = data.draw(st.integers(1, 4))
    keys = []
    for number in range(data.draw(st.integers(1, 5))):
        shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 4)))
        bounds = data.draw(st.one_of(
            st.just(even_bounds(shape[0], ranks)),
            st.integers(0, ranks - 1).map(lambda owner, rows=shape[0]:
                                          whole_bounds(rows, ranks, owner))))
        keys.append(bucket.BucketKey(number, shape, bounds))

    def run(store):
        rank, communicator = store.rank, store.communicator
        found = bucket.Bucket(communicator, keys, np.dtype("f4"), bucket.Scratch())
        gradients = [np.random.RandomState([key.name, rank]).randint(0, 100, key.shape)
                     .astype("f4") for key in keys]
        found.reduce_scatter(gradients)
        arrays = [np.full(key.shape, -1, "f4") for key in keys]
        for index, total in zip(found.owned, found.sums, strict=True):
            arrays[index][slice(*keys[index].bounds[rank:rank + 2])] = total.asnumpy()
        found.all_gather(arrays)
        return arrays

    for arrays in on_ranks(ranks, run):
        for key, array in zip(keys, arrays, strict=True):
            expected = sum(np.random.RandomState([key.name, rank]).randint(0, 100, key.shape)
                           for rank in range(ranks))
            np.testing.assert_array_equal(array, expected)
