"""Metrics: MXNet's local and global values batch by batch, and their configuration."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest

import nbmod as mx
from nbmod import metric
from nbmod.base import MXNetError
from tests.programs import training

RNG = np.random.default_rng(7)


def scores(*shape: int) -> np.ndarray:
    raw = RNG.random(shape).astype(np.float32)
    return raw / raw.sum(-1, keepdims=True)


def classes(count: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, count, shape).astype(np.float32)


def batches_of(labels: np.ndarray, preds: np.ndarray) -> list:
    """Three batches with a local reset after the second."""
    cuts = [(labels[a:b], preds[a:b]) for a, b in ((0, 8), (8, 12), (12, 20))]
    first, second, third = ([[label], [pred]] for label, pred in cuts)
    return [first, second, None, third]


MULTI = batches_of(classes(4, 20), scores(20, 4))
BINARY = batches_of(classes(2, 20), scores(20, 2))
NUMBERS = batches_of(RNG.standard_normal(20).astype(np.float32),
                     RNG.standard_normal((20, 1)).astype(np.float32))
VECTORS = batches_of(*RNG.standard_normal((2, 20, 3)).astype(np.float32))
ONE_CLASS = [[[np.ones(4, np.float32)], [np.tile(np.float32([0.2, 0.8]), (4, 1))]]]
NO_POSITIVE = [[[np.zeros(4, np.float32)], [np.tile(np.float32([0.8, 0.2]), (4, 1))]]]
SEQUENCE = [[[classes(5, 3, 2)], [scores(6, 5)]]]
OUTSIDE = [[[np.float32([9, -3])], [scores(2, 4)]]]
TWO_OUTPUTS = [[[classes(2, 5), classes(2, 4)], [scores(5, 2), scores(4, 2)]]]

# name, parameters, batches
CASES = {
    "acc": ("acc", {}, MULTI),
    "acc of classes": ("acc", {}, [[[classes(3, 9)], [classes(3, 9)]]]),
    "acc of a column": ("acc", {}, [[[classes(3, 9, 1)], [scores(9, 3)]]]),
    "acc along another axis": ("acc", {"axis": -1}, [[[classes(3, 2, 5)], [scores(2, 5, 3)]]]),
    "acc of images": ("acc", {}, [[[classes(3, 2, 4)], [scores(2, 3, 4)]]]),
    "acc of two outputs": ("acc", {}, TWO_OUTPUTS),
    "top 2": ("top_k_accuracy", {"top_k": 2}, MULTI),
    "top 3": ("top_k_acc", {"top_k": 3}, MULTI),
    "f1": ("f1", {}, BINARY),
    "f1 micro": ("f1", {"average": "micro"}, BINARY),
    "f1 of two outputs": ("f1", {}, TWO_OUTPUTS),
    "f1 without positives": ("f1", {}, NO_POSITIVE),
    "mcc": ("mcc", {}, BINARY),
    "mcc micro": ("mcc", {"average": "micro"}, BINARY),
    "mcc of one class": ("mcc", {}, ONE_CLASS),
    "pcc": ("pcc", {}, MULTI),
    "pcc of one class": ("pcc", {}, ONE_CLASS),
    "ce": ("ce", {}, MULTI),
    "ce eps": ("ce", {"eps": 0.5}, MULTI),
    "nll": ("nll_loss", {}, MULTI),
    "perplexity": ("perplexity", {"ignore_label": None}, MULTI),
    "perplexity ignoring": ("perplexity", {"ignore_label": 0}, MULTI),
    "perplexity of sequences": ("perplexity", {"ignore_label": 1}, SEQUENCE),
    "perplexity of odd labels": ("perplexity", {"ignore_label": None}, OUTSIDE),
    "perplexity of nothing": ("perplexity", {"ignore_label": 1}, ONE_CLASS),
    "mae": ("mae", {}, NUMBERS),
    "mse": ("mse", {}, NUMBERS),
    "rmse": ("rmse", {}, NUMBERS),
    "mae of vectors": ("mae", {}, VECTORS),
    "rmse of vectors": ("rmse", {}, VECTORS),
    "mae broadcast": ("mae", {}, [[[classes(4, 5)], [scores(5, 3)]]]),
    "pearsonr": ("pearsonr", {}, VECTORS),
    "ce of columns": ("ce", {}, [[[classes(3, 6)], [scores(6, 3).reshape(6, 3, 1)]]]),
    "loss": ("loss", {}, NUMBERS),
    "torch": ("torch", {}, NUMBERS),
    "caffe": ("caffe", {}, NUMBERS),
    "composite": (["acc", "ce"], {}, MULTI),
    "composite of composites": (["acc", ["ce", ["mse"]]], {}, [MULTI[0]]),
    "composite with options": (["mae", "mse"], {"output_names": ["x"]}, NUMBERS),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_mxnets(oracle, case):
    name, params, batches = CASES[case]
    want = oracle.call("mx_scripts.run", "training", "metric_values", name, params, batches)
    got = training.metric_values(mx, name, params, batches)
    assert [[[n for n, _ in pairs] for pairs in both] for both in got] == [
        [[n for n, _ in pairs] for pairs in both] for both in want]
    # MXNet sums some float32 batches in float32
    np.testing.assert_allclose(_numbers(got), _numbers(want), rtol=1e-5)


def _numbers(values: list) -> np.ndarray:
    return np.array([[[value for _, value in pairs] for pairs in both] for both in values])


# How labels and predictions can be passed, as code over `label`, `pred`; the metrics that MXNet
# rejects or computes wrongly there, and nbmod does not (or the other way round).
FORMS = {
    "label, pred": "", "(label,), (pred,)": "", "[label, label], [pred, pred]": "",
    "[label.reshape((6, 1))], [pred]": "f1 mcc", "[label.reshape((1, 6))], [pred]": "f1 mcc pcc",
    "[label.astype('int32')], [pred.astype('float16')]": "", "[label], [pred, pred]": "",
    "[label, label], [pred]": "", "[label[:3]], [pred]": "pcc", "[label], [pred[:3]]": "pcc",
    "[], []": "", "[pred], [pred]": "", "[label], [label]": "top_k_acc",
    "[label], [pred.reshape((6, -1, 1))]": "", "[label - 1], [pred]": "", "[label + 5], [pred]": "",
    "[label.reshape((2, 3))], [pred.reshape((2, 3, -1))]": "perplexity",
    "[label], [pred[:, 0]]": "top_k_acc", "[label], [pred[:, :1]]": "top_k_acc",
}
NAMES = {"top_k_acc": {"top_k": 2}, "perplexity": {"ignore_label": None}, **dict.fromkeys(
    "acc f1 mcc pcc ce nll_loss mae mse rmse pearsonr loss".split(), {})}


@pytest.mark.parametrize("name", NAMES)
def test_forms_of_arguments(oracle, name):
    """The same value, or an error on both sides: a ValueError where MXNet raises one."""
    binary = name in ("f1", "mcc")
    arrays = (BINARY if binary else MULTI)[0]
    label, pred = arrays[0][0][:6], arrays[1][0][:6]
    forms = [form for form, other in FORMS.items() if name not in other.split()]
    call = (name, NAMES[name], label, pred, forms)
    theirs = oracle.call("mx_scripts.run", "training", "metric_forms", *call)
    for form, got, want in zip(forms, training.metric_forms(mx, *call), theirs, strict=True):
        if isinstance(want, str):
            assert got in ("error", "ValueError") and (want != "ValueError" or got == want), form
        else:
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=form)


def test_micro_pearson_is_that_of_all_batches():
    """MXNet agrees on the local value and returns 0 for the global one."""
    label, pred = np.random.standard_normal((2, 30)).astype(np.float32)
    found = metric.create("pearsonr", average="micro")
    for part in np.split(np.arange(30), [4, 17]):
        found.update([label[part]], [pred[part]])
    expected = pytest.approx(np.corrcoef(label, pred)[0, 1], rel=1e-6)
    assert found.get()[1] == found.get_global()[1] == expected


@pytest.mark.parametrize("what, name", [
    ("acc", "accuracy"), ("ACC", "accuracy"), ('["acc", {}]', "accuracy"),
    ('{"metric": "acc"}', "accuracy"), ({"metric": "mse"}, "mse"), (metric.MAE(), "mae"),
    (["acc", "mse"], ["accuracy", "mse"]), (lambda label, pred: 1.0, "custom(<lambda>)"),
    (metric.np(max, name="largest"), "largest"), (metric.np(max), "max"),
])
def test_create(what, name):
    assert metric.create(what).get()[0] == name


@pytest.mark.parametrize("what, message", [
    ("acuracy", "did you mean 'accuracy'"), (5, "given 5"), ("[1", "not JSON"), ("[1]", "given"),
])
def test_create_refuses(what, message):
    with pytest.raises(MXNetError, match=message):
        metric.create(what)


def test_a_misspelt_argument_is_named():
    with pytest.raises(TypeError, match="TopKAccuracy has no argument 'topk'.* mean 'top_k'"):
        metric.create("top_k_accuracy", topk=3)


PAIR = [np.float32([1, 0])], [np.float32([[0.2, 0.8], [0.3, 0.7]])]
WRONG = [
    (metric.Accuracy(), [np.ones(3)], PAIR[1], "labels 3 does not match"),
    (metric.Accuracy(), PAIR[0], PAIR[1] * 2, "labels 1 does not match"),
    (metric.Accuracy(), [], PAIR[1], "there are no labels: name them in label_names"),
    (metric.TopKAccuracy(2), PAIR[0], [np.ones((2, 3, 4))], "expected \\(N, classes\\)"),
    (metric.F1(), [np.arange(3)], [np.ones((3, 3))], "two classes"),
    (metric.CrossEntropy(), [np.ones(3)], PAIR[1], "3 labels"),
    (metric.Perplexity(None), [np.ones(3)], PAIR[1], "3 labels for 2"),
    (metric.PearsonCorrelation(), [np.ones(3)], [np.ones(4)], "expected the same"),
    (metric.CustomMetric(max), PAIR[0], PAIR[1] * 2, "labels 1 does not match"),
]


@pytest.mark.parametrize("found, labels, preds, message", WRONG)
def test_wrong_shapes_are_named(found, labels, preds, message):
    with pytest.raises(MXNetError, match=message):
        found.update(labels, preds)


def test_check_label_shapes():
    assert metric.check_label_shapes(np.ones(2), np.ones((2, 3)), wrap=True)[0][0].shape == (2,)
    with pytest.raises(MXNetError, match=r"\(2,\) does not match"):
        metric.check_label_shapes(np.ones(2), np.ones((2, 3)), shape=True)


def test_custom_metric_may_count():
    found = metric.CustomMetric(lambda label, pred: (3, 2), allow_extra_outputs=True)
    found.update(PAIR[0], PAIR[1] * 2)
    assert found.get()[1] == 1.5


def test_update_dict_chooses_by_name():
    labels = OrderedDict(label=np.ones(2), other=np.zeros(3))
    outputs = OrderedDict(out=PAIR[1][0], more=np.zeros(3))
    found = metric.create("acc", output_names=["out"], label_names=["label"])
    found.update_dict(labels, outputs)
    assert found.get()[1] == 1
    composite = metric.CompositeEvalMetric(["acc"], output_names=["out"], label_names=["label"])
    composite.update_dict(labels, outputs)
    assert composite.get() == (["accuracy"], [1])
    with pytest.raises(MXNetError, match="output names \\['gone'\\]"):
        metric.create("acc", output_names=["gone"]).update_dict(labels, outputs)


def test_composite():
    found = metric.CompositeEvalMetric([metric.Accuracy(), "mse"])
    found.add("mae")
    assert found.get()[0] == ["accuracy", "mse", "mae"]
    assert isinstance(found.get_metric(1), metric.MSE)
    with pytest.raises(MXNetError, match="index 7 is out of range"):
        found.get_metric(7)


def test_config_makes_the_metric_again():
    config = metric.TopKAccuracy(3, name="best").get_config()
    assert metric.create(metric.create(["acc", "mse"]).get_config()).get()[0] == ["accuracy", "mse"]
    assert config["top_k"] == 3


class Listed(metric.EvalMetric):
    """A metric as in code written before there were global sums."""

    def __init__(self):
        super().__init__(["a", "b"], num=2)

    def reset(self):
        self.sum_metric, self.num_inst = [0, 0], 0

    def update(self, labels, preds):
        self.sum_metric = [total + 1 for total in self.sum_metric]
        self.num_inst += 1

    def get(self):
        return self.name, list(self.sum_metric)


def test_metrics_without_global_sums():
    found = metric.create(["acc", Listed()])
    found.update(*PAIR)
    assert found.get_global_name_value()[1:] == [("a", 1), ("b", 1)]
    found.reset_local()
    assert found.get_name_value()[1:] == [("a", 0), ("b", 0)]
    assert math.isnan(found.get()[1][0])
    assert str(Listed()) == "EvalMetric: {'a': 0, 'b': 0}"
