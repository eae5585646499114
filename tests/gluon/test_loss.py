"""`mx.gluon.loss`: names, texts and graphs are MXNet's, and so are values and gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import loss
from tests.compare import assert_same
from tests.programs import gluon_losses

TOLERANCE = 1e-5
"""Means of up to 24 terms in float32, in another order than MXNet's."""


@pytest.mark.parametrize("hybridized", [False, True])
def test_losses_are_mxnets(oracle, hybridized):
    theirs, ours = oracle.call("mx_gluon.losses"), gluon_losses.answers(mx, hybridized)
    for case, expected, found in zip(gluon_losses.CASES, theirs, ours, strict=True):
        for key in expected:
            assert_same(found[key], expected[key], TOLERANCE, f"{case}: {key}")


def test_texts_and_graphs_are_mxnets(oracle):
    """But for the cosine, whose constants in MXNet are float32 whatever the inputs are."""
    theirs = oracle.call("mx_scripts.run", "gluon_losses", "graphs")
    for case, (text, graph), expected in zip(gluon_losses.CASES, gluon_losses.graphs(mx), theirs,
                                             strict=True):
        assert text == expected[0]
        if case[0] != "CosineEmbeddingLoss":
            assert graph == expected[1], case


def test_every_loss_has_a_case():
    names = {*loss.__all__} - {"Loss", "SoftmaxCELoss", "SigmoidBCELoss"}
    assert names <= {case[0] for case in gluon_losses.CASES}


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_losses_keep_the_type_of_their_inputs(dtype):
    for name, settings, arguments in gluon_losses.CASES:
        if name == "CTCLoss" and dtype == "float16":
            continue    # its operator has none
        inputs = [key and mx.nd.array(gluon_losses.arrays()[key], dtype=dtype)
                  for key in arguments]
        value = getattr(loss, name)(**settings)(*inputs)
        assert np.dtype(value.dtype) == dtype, name


def test_losses_of_symbols_are_those_of_arrays():
    data, label = gluon_losses.arrays()["real"], gluon_losses.arrays()["classes"]
    own = loss.SoftmaxCELoss()
    net = own(mx.sym.var("data"), mx.sym.var("label"))
    executor = net.simple_bind(mx.cpu(), data=data.shape, label=label.shape)
    found = executor.forward(data=mx.nd.array(data), label=mx.nd.array(label))[0].asnumpy()
    assert_same(found, own(mx.nd.array(data), mx.nd.array(label)).asnumpy(), 1e-6, "loss")


def test_a_loss_is_exported_copied_and_pickled(tmp_path):
    own, x, y = loss.L1Loss(weight=2), mx.nd.array([[1, 2]]), mx.nd.array([[3, 2]])
    own.hybridize()
    expected = own(x, y)
    own.export(str(tmp_path / "loss"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "loss-symbol.json"), ["data0", "data1"])
    for twin in (again, copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert_same(twin(x, y).asnumpy(), expected.asnumpy(), 0, "loss")


class Summed(loss.Loss):
    """A loss of users."""

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        difference = loss._reshape_like(F, label, pred) - pred
        return loss._apply_weighting(F, difference.sum(axis=1), self._weight, sample_weight)


def test_losses_of_users_weight_and_reshape():
    own = Summed(weight=3, batch_axis=0)
    found = own(mx.nd.ones((2, 2)), mx.nd.array([1, 2, 3, 4]), mx.nd.array([1, 2]))
    assert found.asnumpy().tolist() == [3, 30] and repr(own) == "Summed(batch_axis=0, w=3)"


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: loss.LogisticLoss(label_format="x"), ValueError, "can only be signed or binary"),
    (lambda: loss.CTCLoss(layout="x"), AssertionError, "'NTC' and 'TNC' layouts"),
    (lambda: loss.CTCLoss(label_layout="x"), AssertionError, "'NT' and 'TN' layouts"),
    (lambda: loss.L1Loss(wieght=2), TypeError, "wieght"),
    (lambda: loss.L1Loss()(mx.nd.ones(2)), TypeError, "label"),
    (lambda: loss.Loss(1, 0)(mx.nd.ones(2)), NotImplementedError, "hybrid_forward"),
])
def test_wrong_arguments(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
