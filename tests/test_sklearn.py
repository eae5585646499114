"""`nbmod.sklearn`: scikit-learn's own checks of estimators, and what they do not look at."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nbmod as mx
from nbmod.base import ArgumentError
from nbmod.sklearn import ModuleClassifier, ModuleRegressor

BATCHES_DIFFER = ("training in batches of random samples is not the same on repeated samples as on "
                  "weighted ones")


@parametrize_with_checks(
    [ModuleClassifier(epochs=20), ModuleRegressor(epochs=20)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": BATCHES_DIFFER})
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def moons(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.RandomState(0).normal(size=(count, 2))
    return x, np.where(x[:, 0] * x[:, 1] > 0, "same", "other")


def network(classes: int) -> mx.sym.Symbol:
    hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16)
    hidden = mx.sym.Dropout(mx.sym.Activation(hidden, act_type="tanh"), p=.1)
    return mx.sym.FullyConnected(hidden, num_hidden=classes, name="scores")


@pytest.mark.parametrize("net", [
    (16,), network, network(2),
    mx.sym.SoftmaxOutput(network(2), name="softmax")], ids=["sizes", "function", "scores", "loss"])
def test_networks(net):
    model = ModuleClassifier(net, epochs=60, random_state=0).fit(*moons())
    assert model.score(*moons()) > .9
    np.testing.assert_allclose(model.predict_proba(moons()[0]).sum(axis=1), 1, rtol=1e-5)


def test_images_keep_their_shape():
    x = np.random.RandomState(0).normal(size=(40, 1, 4, 4))
    net = mx.sym.Convolution(mx.sym.var("data"), kernel=(4, 4), num_filter=2)
    model = ModuleClassifier(mx.sym.Flatten(net), epochs=30, random_state=0)
    assert model.fit(x, x.mean(axis=(1, 2, 3)) > 0).predict(x).shape == (40,)
    assert model.module_.data_shapes[0].shape == (32, 1, 4, 4)


def test_networks_that_do_not_fit():
    with pytest.raises(ArgumentError, match="expected the input 'data' and one output"):
        ModuleClassifier(mx.sym.var("x") * 2).fit(*moons())
    with pytest.raises(ArgumentError, match="epochs is 0"):
        ModuleClassifier(epochs=0).fit(*moons())


def equal(one, other) -> bool:
    x, _ = moons(50)
    return bool((one.predict_proba(x) == other.predict_proba(x)).all())


def test_random_state_determines_every_bit_and_nothing_else_does():
    models = []
    for number in (1, 2):
        mx.random.seed(number)
        np.random.seed(number)
        models.append(ModuleClassifier(network, epochs=3, random_state=7).fit(*moons()))
        after = np.random.rand(), mx.nd.random.uniform(shape=1).asscalar()
        mx.random.seed(number)
        np.random.seed(number)
        assert after == (np.random.rand(), mx.nd.random.uniform(shape=1).asscalar())
    assert equal(*models)
    assert not equal(models[0], ModuleClassifier(network, epochs=3, random_state=8).fit(*moons()))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
                         ids=["deepcopy", "pickle"])
def test_training_goes_on_exactly_in_a_copy(copied):
    x, y = moons()
    model = ModuleClassifier(network, random_state=3)
    for _ in range(2):
        model.partial_fit(x, y, classes=["other", "same"])
    other = copied(model)
    assert equal(model, other) and other.n_iter_ == 2
    for _ in range(2):
        model.partial_fit(x, y)
        other.partial_fit(x, y)
    assert equal(model, other) and other.n_iter_ == 4


def test_partial_fit_knows_its_classes():
    x, y = moons()
    model = ModuleClassifier(epochs=1)
    with pytest.raises(ArgumentError, match="classes are required in the first call"):
        model.partial_fit(x, y)
    model.partial_fit(x[:1], ["same"], classes=["other", "same", "third"])
    assert model.predict_proba(x).shape == (200, 3)
    with pytest.raises(ArgumentError, match=r"labels \['fourth'\], which are not among"):
        model.partial_fit(x[:1], ["fourth"])
    assert clone(model).fit(x, y).classes_.tolist() == ["other", "same"]


def test_early_stopping_uses_the_best_parameters():
    x, y = moons()
    model = ModuleClassifier((64,), epochs=200, learning_rate=.05, early_stopping=True, patience=3,
                             random_state=0).fit(x, np.where(np.arange(200) % 7, y, "other"))
    losses = [past["validation"]["loss"] for past in model.history_]
    assert model.n_iter_ == len(losses) < 200
    assert int(np.argmin(losses)) == model.n_iter_ - 1 - 3


def test_weights_count():
    x = np.zeros((90, 1))
    y = np.repeat([0, 1], [60, 30])
    model = ModuleClassifier((), epochs=200, learning_rate=.05, random_state=0)
    for weights, share in ((None, 1 / 3), (np.where(y, 4.0, 1.0), 2 / 3)):
        found = model.fit(x, y, weights).predict_proba(x[:1])[0, 1]
        assert found == pytest.approx(share, abs=.06)  # the last batches pull it a little


def test_pipeline_and_grid_search():
    x, y = moons()
    steps = make_pipeline(StandardScaler(), ModuleClassifier(epochs=20, random_state=0))
    search = GridSearchCV(steps, {"moduleclassifier__network": [(1,), (32,)]}, cv=2)
    assert search.fit(x * 50, y).best_params_ == {"moduleclassifier__network": (32,)}


def test_several_outputs_and_contexts():
    x, _ = moons()
    targets = x @ [[1, 2, 0], [0, 1, -1]]
    model = ModuleRegressor((32,), context=[mx.cpu(0), mx.cpu(1)], random_state=0)
    assert model.fit(x, targets).score(x, targets) > .95
    assert model.predict(x[:3]).shape == (3, 3)
    with pytest.raises(ArgumentError, match=r"shape \(\), in earlier calls it had \(3,\)"):
        model.partial_fit(x, targets[:, 0])
    assert (pickle.loads(pickle.dumps(model)).predict(x) == model.predict(x)).all()


def test_without_scikit_learn_the_extra_is_named():
    code = "import sys; sys.modules['sklearn.base'] = None; import nbmod as mx; mx.sklearn"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'nbmod[sklearn]'" in found.stderr
