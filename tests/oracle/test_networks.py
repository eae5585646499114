"""Whole networks: checkpoints exchanged with MXNet in both directions, and parallel training."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests import made_archives as made
from tests.programs import networks

pytestmark = pytest.mark.oracle

each_network = pytest.mark.parametrize("name", networks.NETWORKS)


@each_network
def test_checkpoints_are_exchanged_both_ways(oracle, name):
    params = networks.start(mx, name)
    data = networks.batches(name, 1)[0][0]
    ours = networks.write_checkpoint(mx, name, params)
    theirs = oracle.call("mx_scripts.run", "networks", "write_checkpoint", name, params)
    assert sorted(ours) == sorted(theirs) == ["net-0003.params", "net-symbol.json"]
    assert ours["net-0003.params"] == theirs["net-0003.params"]
    assert ours["net-symbol.json"] == theirs["net-symbol.json"]
    here = networks.run_checkpoint(mx, theirs, data)
    there = oracle.call("mx_scripts.run", "networks", "run_checkpoint", ours, data)
    np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-7)


@each_network
@pytest.mark.parametrize("optimizer, options", [
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
    ("adam", {"learning_rate": 0.001})])
def test_ten_training_steps_agree(oracle, name, optimizer, options):
    params = networks.start(mx, name)
    ours = networks.train(mx, name, params, 10, optimizer, options)
    theirs = oracle.call("mx_scripts.run", "networks", "train", name, params, 10, optimizer,
                         options)
    assert ours.keys() == theirs.keys()
    for key in ours:
        # A parameter near 0 is as accurate as the largest of its array. More steps, larger rates or
        # batches do not agree so well, nor does MXNet with itself: at some step a ReLU's input is
        # rounded to the other side of 0, and Adam turns the sign of a tiny gradient into a step.
        scale = np.abs(theirs[key]).max()
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-4, atol=1e-4 * scale,
                                   err_msg=f"{name} {key}")


@pytest.mark.parametrize(("network", "label", "kept"), [
    (made.detector, {"label": np.array([[[1, 0.1, 0.2, 0.6, 0.9]]] * 2, np.float32)},
     ["cls_prob_output", "det_out_output"]),
    (made.recognizer_for_training, {"softmax_label": np.array([3, 0], np.float32)}, None),
    (made.linear, {"out_label": np.zeros((2, 1), np.float32)}, ["out_output"])])
def test_training_symbols_answer_without_labels_what_mxnet_answers_with_them(
        oracle, tmp_path, network, label, kept):
    shape = {"linear": (2, 4), "detector": (2, 3, 32, 32)}.get(network.__name__, (2, 3, 112, 112))
    files = made.checkpoint("net", network(), 1, data=shape,
                            **{name: one.shape for name, one in label.items()})
    data = np.random.RandomState(0).uniform(0, 1, shape).astype(np.float32)
    theirs = oracle.call("mx_scripts.run", "networks", "outputs_with_labels", files, "net", 1, data,
                         label)
    predictor = mx.Predictor(str(made.tar(tmp_path / "a.tar", files, "w")), {"data": shape})
    ours = dict(zip(predictor.output_names, predictor(data), strict=True))
    assert kept is None or [*ours] == kept
    for name, value in ours.items():
        # Sums of products in another order.
        np.testing.assert_allclose(value, theirs[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_what_variables_say_of_themselves_reaches_training(oracle):
    ours = networks.train_marked(mx)
    theirs = oracle.call("mx_scripts.run", "networks", "train_marked")
    for mine, want in zip(ours, theirs, strict=True):
        assert mine.keys() == want.keys()
        for name, value in want.items():
            np.testing.assert_allclose(mine[name], value, 1e-5, 1e-6, err_msg=name)
    np.testing.assert_array_equal(ours[1]["frozen_weight"], 0.5)


@pytest.mark.parametrize("contexts, loads, store, dtype, batch_size", [
    (2, None, "local", "float32", 7), (2, [0.3, 0.7], None, "float32", 10),
    (3, [1, 2, 1], "device", "float32", 8), (3, None, "local", "float64", 10),
    (1, None, "local", "float64", 23)])
def test_modules_on_several_devices_agree(oracle, contexts, loads, store, dtype, batch_size):
    setup = (contexts, loads, store, dtype, batch_size)
    ours = networks.fit(mx, *setup)
    theirs = oracle.call("mx_scripts.run", "networks", "fit", *setup)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert value.dtype == theirs[key].dtype and value.shape == theirs[key].shape
        tolerance = 1e-11 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(value, theirs[key], tolerance, tolerance / 10, err_msg=key)
