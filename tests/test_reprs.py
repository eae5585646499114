"""Texts by which objects present themselves: short, without computing, and never an error."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

import nbmod as mx
from nbmod import history, mxnet_predict
from nbmod.core import reprs
from nbmod.executor import Executor
from nbmod.module.base_module import BaseModule
from tests.callback import runs

pytestmark = pytest.mark.filterwarnings("ignore:.*FeedForward has been deprecated")


def kinds_of(base):
    found = [base]
    for kind in found:
        found += [one for one in kind.__subclasses__() if one not in found]
    return [kind for kind in found if kind.__module__.startswith("nbmod.")]


def text_of(one) -> str:
    text = repr(one)
    assert text.startswith("<") and text.endswith(">") and text.count("\n") <= 2
    assert "incomplete" not in text
    return text


def modules():
    yield runs.module()
    yield mx.mod.BucketingModule(lambda key: (runs.network(), ["data"], ["softmax_label"]), 10)
    yield mx.mod.SequentialModule().add(runs.module(), take_labels=True)
    yield mx.mod.PythonLossModule()
    yield mx.contrib.svrg_optimization.svrg_module.SVRGModule(runs.network(), update_freq=1)
    yield mx.mod.Module(mx.sym.Group([runs.network(), mx.sym.Variable("other")]))


@pytest.mark.parametrize("module", [*modules()], ids=lambda module: type(module).__name__)
def test_modules_in_every_state(module, monkeypatch):
    """Nothing is fetched from devices either."""
    data = runs.data()
    assert "not bound" in text_of(module)
    if isinstance(module, mx.mod.PythonLossModule) or len(getattr(module, "output_names", ())) > 1:
        return
    module.bind(data.provide_data, data.provide_label)
    assert "data (4, 3), softmax_label (4,)" in text_of(module) or isinstance(
        module, mx.mod.SequentialModule)
    with pytest.raises(mx.MXNetError):
        module.update()
    assert "bound for training" in text_of(module) and "SGD" not in text_of(module)
    module.fit(data, num_epoch=2)
    monkeypatch.setattr(type(module), "get_params", None)
    assert "trained up to epoch 2" in text_of(module)


def test_a_module_says_what_it_has():
    module = runs.module()
    module.fit(runs.data(), num_epoch=1, optimizer="adam")
    assert repr(module) == ("<Module softmax on cpu(0)\n data (4, 3), softmax_label (4,) -> "
                            "softmax_output\n bound for training, 26 parameters, Adam, trained up "
                            "to epoch 1>")
    model = mx.model.FeedForward(runs.network(), num_epoch=3)
    assert text_of(model) == "<FeedForward softmax on cpu(0): epochs 0 to 3, no parameters>"


def test_executors_and_plans():
    executor = runs.network().simple_bind(mx.cpu(), data=(4, 3))
    assert text_of(executor).startswith("<Executor softmax on cpu(0): data (4, 3), first_weight ("
                                        "4, 3), first_bias (4,), last_weight (2, 4) and 2 more -> "
                                        "softmax_output (4, 2)\n ")
    for one in (executor.compiled, executor.compiled.plan, executor.plan_chart()):
        assert "bytes" in text_of(one)
    chart = executor.plan_chart()
    assert chart._repr_svg_().startswith("<svg") and type(chart._repr_svg_()) is str
    executor.release()
    text_of(executor)
    sparse = mx.sym.dot(mx.sym.Variable("x", stype="csr"), mx.sym.Variable("w")).simple_bind(
        mx.cpu(), x=(2, 3), w=(3, 4))
    assert "x (2, 3), w (3, 4)" in text_of(sparse)


def test_a_chain_of_many_nodes_has_a_short_text():
    x = mx.sym.Variable("x")
    for _ in range(2000):
        x = x + 1
    assert len(text_of(x.simple_bind(mx.cpu(), x=(2,)))) < 200


def test_iterators(tmp_path):
    np.savetxt(tmp_path / "data.csv", np.ones((6, 3)), delimiter=",")
    data = runs.data()
    for one in (data, mx.io.ResizeIter(data, 3), mx.io.PrefetchingIter(runs.data())):
        assert "data (4, 3), softmax_label (4,)" in text_of(one)
    assert text_of(data) == "<NDArrayIter: data (4, 3), softmax_label (4,), 16 samples>"
    assert "(2, 3)" in text_of(mx.io.CSVIter(data_csv=str(tmp_path / "data.csv"), data_shape=(3,),
                                             batch_size=2))

    class Mine(mx.io.DataIter):
        @property
        def provide_data(self):
            raise AssertionError("it would be computed")

    assert repr(Mine(8)) == "<Mine: batches of 8 samples>"


def test_predictors():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    predictor = mx.Predictor((net, params, {}), {"data": (8, 3)})
    assert text_of(predictor) == ("<Predictor: data (samples, 3) float32 -> fc_output; up to 8 "
                                  "samples at once>")
    assert "(8, 3)" in text_of(mx.Predictor((net, params, {}), {"data": (8, 3)}, fixed=True))


@pytest.mark.parametrize("kind", [
    *kinds_of(BaseModule), *kinds_of(mx.io.DataIter), *kinds_of(Executor), mx.Predictor,
    mxnet_predict.Predictor, mx.model.FeedForward], ids=lambda kind: kind.__qualname__)
def test_objects_that_are_not_complete(kind):
    """As in a debugger within the constructor."""
    assert repr(kind.__new__(kind)).startswith(f"<{kind.__name__}")


def test_histories_are_plain_lists_that_present_themselves():
    found = runs.module()
    assert repr(found.history) == "<History of 0 epochs>"
    found.fit(runs.data(), runs.data(), num_epoch=2)
    past = found.history
    assert text_of(past).startswith("<History of 2 epochs: accuracy=")
    assert str(past) == str([*past]) and json.loads(json.dumps(past)) == past == [*past]
    assert pickle.loads(pickle.dumps(past)) == past
    table = past._repr_html_()
    assert re.findall(r"<th>(.*?)</th>", table) == ["epoch", "accuracy", "validation-accuracy",
                                                    "seconds"]
    assert re.findall(r"<tr><td>(\d)</td>", table) == ["1", "2"]
    odd = history.History([{"anything": 1}])
    assert repr(odd) == "<History, incomplete>" and str(odd) == "[{'anything': 1}]"


def test_lists_are_cut():
    assert reprs.listed("abcdefg") == "a, b, c, d and 3 more"
    assert reprs.shaped([("x", [2, 3])]) == "x (2, 3)"
