"""Networks with row-sparse parameters on several ranks: values, checkpoints, resume."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx

from .threads import on_ranks

FEATURES, BATCH, BATCHES = 40, 6, 4
RS = np.random.RandomState(2)
DATA = (RS.rand(2 * BATCH * BATCHES, FEATURES) * (RS.rand(2 * BATCH * BATCHES, FEATURES) < 0.1)
        ).astype("f4")
LABEL = (DATA[:, 0] > DATA[:, 1]).astype("f4")


def network(stype="row_sparse"):
    x = mx.sym.Variable("data", stype="csr")
    weight = mx.sym.Variable("weight", shape=(FEATURES, 2), stype=stype)
    bias = mx.sym.Variable("bias", shape=(2,))
    scores = mx.sym.broadcast_add(mx.sym.sparse.dot(x, weight), bias)
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def rows(batch):
    return {"weight": batch.data[0].indices}


def batches(store, ranks):
    """The part of this rank of every global batch; all of it in one process."""
    order = np.arange(len(DATA)).reshape(BATCHES, ranks, -1)
    chosen = (order[:, store.rank] if store.num_workers > 1 else order).reshape(-1)
    data = mx.nd.sparse.csr_matrix(DATA[chosen])
    return mx.io.NDArrayIter(data, mx.nd.array(LABEL[chosen]), len(chosen) // BATCHES,
                             last_batch_handle="discard")


def train(store, ranks, epochs=2, module=None, begin=0, stype="row_sparse", fixed=(), **options):
    module = module or mx.mod.Module(network(stype), fixed_param_names=fixed)
    values = np.random.RandomState(4).randn(FEATURES, 2).astype("f4")
    module.fit(batches(store, ranks), num_epoch=epochs, begin_epoch=begin, kvstore=store,
               optimizer="adam", optimizer_params={"learning_rate": 0.05},
               sparse_row_id_fn=rows if stype == "row_sparse" else None,
               arg_params=None if begin else {"weight": mx.nd.array(values).tostype(stype),
                                              "bias": mx.nd.zeros((2,))}, **options)
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


@pytest.mark.parametrize("stype, fixed", [("row_sparse", ()), ("default", ()),
                                          ("default", ["weight"])])
def test_training_is_that_of_one_process(stype, fixed):
    """Sums over two halves of a batch differ by rounding from those over the whole.

    Dense parameters of networks with csr data are exchanged after the backward pass.
    """
    expected = train(mx.kv.create("local"), 2, stype=stype, fixed=fixed)
    for found in on_ranks(2, lambda store: train(store, 2, stype=stype, fixed=fixed)):
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 3])
def test_training_is_resumed_exactly(ranks, tmp_path):
    prefix = str(tmp_path / "net")

    def whole(store):
        module = mx.mod.Module(network())
        return train(store, ranks, 3, module, epoch_end_callback=lambda epoch, *_: (
            module.save_checkpoint(prefix, epoch + 1, save_optimizer_states=True)))

    def resumed(store):
        module = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
        return train(store, ranks, 3, module, begin=1)

    expected = on_ranks(ranks, whole)
    for found, wanted in zip(on_ranks(ranks, resumed), expected, strict=True):
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    alone = mx.mod.Module.load(prefix, 3)
    np.testing.assert_array_equal(alone._arg_params["weight"].asnumpy(), expected[0]["weight"])
