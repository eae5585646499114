"""The asynchronous store: every push is applied once, by the owner, when it arrives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.kvstore.distributed.wire import decode, encode

from .threads import on_ranks

SHAPES = {"small": (4, 3), "cut": (130, 20), "vector": (7,)}


@pytest.fixture(autouse=True)
def _bound(monkeypatch):
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "1000")
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


def begin(store, stype="default", optimizer="sgd", **options):
    for name, shape in SHAPES.items():
        store.init(name, mx.nd.zeros(shape).tostype(stype))
    store.set_optimizer(mx.optimizer.create(optimizer, **options))


def pulled(store, name):
    out = mx.nd.zeros(SHAPES[name])
    store.pull(name, out=out, ignore_sparse=False)
    return out.asnumpy()


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_all_pushes_are_applied(ranks, stype):
    """SGD adds gradients, so after a barrier the order does not matter."""
    def run(store):
        begin(store, stype, learning_rate=1.0)
        for step in range(5):
            for name, shape in SHAPES.items():
                value = mx.nd.ones(shape) * (store.rank + 1) * 2 ** step
                store.push(name, value.tostype(stype))
        store._barrier()
        return {name: pulled(store, name) for name in SHAPES}

    total = -31 * sum(range(1, ranks + 1))
    for found in on_ranks(ranks, run, "dist_async"):
        for name, shape in SHAPES.items():
            np.testing.assert_array_equal(found[name], np.full(shape, total), err_msg=name)


def test_a_rank_sees_its_own_pushes_and_waits_for_nobody():
    """One rank trains alone while the other does nothing."""
    def run(store):
        begin(store, learning_rate=1.0)
        seen = []
        for step in range(20 if store.rank else 0):
            for name in SHAPES:
                store.push(name, mx.nd.ones(SHAPES[name]))
                seen.append((pulled(store, name) == -step - 1).all())
        return all(seen)

    assert on_ranks(2, run, "dist_async") == [True, True]


def test_optimizer_counts_every_push():
    def run(store):
        begin(store, optimizer="adam")
        for _ in range(4):
            store.push("small", mx.nd.ones((4, 3)))
        store._barrier()
        return store._updater.optimizer._index_update_count.get("small", 0)

    assert sorted(on_ranks(2, run, "dist_async")) == [0, 8]     # one of them is the owner


def test_without_an_optimizer_a_push_is_refused():
    def run(store):
        store.init("w", mx.nd.ones((2,)))
        with pytest.raises(mx.MXNetError, match="dist_async.*call set_optimizer first"):
            store.push("w", mx.nd.ones((2,)))
        return True

    assert on_ranks(2, run, "dist_async") == [True, True]


def test_rows_are_pulled_from_their_servers():
    def run(store):
        begin(store, "row_sparse", learning_rate=1.0)
        rows = mx.nd.sparse.row_sparse_array((np.ones((2, 20), "f4"), [1, 129]), shape=(130, 20))
        store.push("cut", rows)
        store._barrier()
        out = mx.nd.sparse.zeros("row_sparse", (130, 20))
        store.row_sparse_pull("cut", out=out, row_ids=mx.nd.array([129, 0, 1, 129]))
        return out.indices.asnumpy().tolist(), out.data.asnumpy()[:, 0].tolist()

    assert on_ranks(2, run, "dist_async") == [([0, 1, 129], [0.0, -2.0, -2.0])] * 2


def test_compressed_pushes():
    def run(store):
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        begin(store, learning_rate=1.0)
        store.push("cut", mx.nd.ones((130, 20)) * 0.7)
        store._barrier()
        return pulled(store, "cut")

    for found in on_ranks(2, run, "dist_async"):
        np.testing.assert_array_equal(found, np.full((130, 20), -1.0, "f4"))


def test_states_are_saved_by_rank_0_and_loaded_by_all(tmp_path):
    file = str(tmp_path / "x.states")

    def run(store):
        begin(store, optimizer="sgd", momentum=0.9)
        for name, shape in SHAPES.items():
            store.push(name, mx.nd.ones(shape) * (store.rank + 1))
        store._barrier()
        store.save_optimizer_states(file)
        store._barrier()
        before = {name: state.asnumpy() for name, state in store._updater.states.items()}
        store.load_optimizer_states(file)
        for name, state in before.items():
            np.testing.assert_array_equal(store._updater.states[name].asnumpy(), state)
        return True

    assert on_ranks(2, run, "dist_async") == [True, True]
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(momentum=0.9))
    updater.set_states((tmp_path / "x.states").read_bytes())
    assert {name: state.shape for name, state in updater.states.items()} == SHAPES


def test_fit_learns(tmp_path):
    """Workers with different numbers of batches train, and end."""
    rs = np.random.RandomState(0)
    data = rs.randn(120, 6).astype("f4")
    label = (data[:, 0] > data[:, 1]).astype("f4")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2,
                                                     name="fc"), name="softmax")

    def run(store):
        part = slice(0, 80) if store.rank else slice(80, 120)
        module = mx.mod.Module(net)
        module.fit(mx.io.NDArrayIter(data[part], label[part], 10, shuffle=False), num_epoch=20,
                   kvstore=store, optimizer_params={"learning_rate": 0.5})
        module.save_checkpoint(str(tmp_path / f"of{store.rank}"), 20, save_optimizer_states=True)
        return dict(module.score(mx.io.NDArrayIter(data, label, 10), "acc"))["accuracy"]

    assert min(on_ranks(2, run, "dist_async")) > 0.9
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "of0-0020.params", "of0-0020.resume", "of0-0020.states", "of0-symbol.json"]


# -- messages ---------------------------------------------------------------------------------


PLAIN = st.recursive(st.none() | st.booleans() | st.integers(-2**40, 2**40) | st.text(),
                     lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                     max_leaves=5)
DTYPES = st.sampled_from(["f2", "f4", "f8", "i1", "u1", "i4", "i8", "?"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text().filter(lambda name: name != "arrays"), PLAIN, max_size=4),
       st.lists(st.tuples(DTYPES, st.lists(st.integers(0, 4), max_size=3)), max_size=4))
def test_messages_come_back(message, kinds):
    arrays = [np.arange(int(np.prod(shape))).reshape(shape).astype(kind) for kind, shape in kinds]
    found, decoded = decode(encode(message, arrays))
    assert found == message and len(decoded) == len(arrays)
    for array, expected in zip(decoded, arrays, strict=True):
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_messages_are_refused(data):
    """A message with a byte changed or cut off is read, or is an MXNetError."""
    content = bytearray(encode({"push": "w"}, [np.ones((2, 3), "f4")]))
    if data.draw(st.booleans()):
        content = content[:data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(content))
    except mx.MXNetError as error:
        assert "damaged message" in str(error)
