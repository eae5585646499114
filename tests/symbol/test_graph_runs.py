"""Real graphs, one or two of every architecture family, give MXNet's results.

`python -m tests.programs.graph_runs --all` runs all of them and describes the comparison.
"""

from __future__ import annotations

from functools import partial

import pytest

import nbmod as mx
from bench.real_graphs import texts
from tests.programs import graph_runs

FACES = ["det1-symbol.json", "iface/m1", "iface/mnas",
         "1996scarlet+faster-mobile-retinaface__weights__16-symbol.json",
         "tornadomeet+mxnet-face__model__lightened_cnn__lightened_cnn-symbol.json"]
IMAGES = ["squeezenet1.1", "mobilenet0.25", "mobilenetv2_0.25", "mobilenetv3_small",
          "shufflenet_v1", "resnet18_v1b", "resnet18_v2", "se_resnet18_v1", "resnest14",
          "resnext50_32x4d", "densenet121", "ic/googlenet", "inceptionv3", "dla34",
          "miraclewkf+MXNet-Deep-Learning-in-Action__chapter8-classification__model"
          "__resnet-18-symbol.json"]
DETECTION = ["ssd_300_mobilenet0.25_custom", "yolo3_mobilenet0.25_voc", "rcnn/resnet_test"]
PIXELS = ["icnet_resnet50_citys", "mobile_pose_mobilenet1.0", "simple_pose_resnet18_v1b",
          "monodepth2_resnet18_posenet_kitti_mono_640x192"]
FILMS = ["r2plus1d_resnet18_kinetics400"]
TEXTS = ["rnn/RNNCell", "rnn/GRUCell", "rnn/cudnn"]

TRAINING = ["ic/mlp", "ic/lenet", *TEXTS, "squeezenet1.1", "resnet18_v2"]

pytestmark = pytest.mark.skipif(not texts(), reason="NO REAL GRAPHS beside the checkout")


SEEDS = range(3)
FLIPS = 1e-2
"""In norm.  The draws tried had up to 3e-3; a wrong formula changes a gradient by its size."""


@pytest.fixture
def judge_of(oracle):
    """A function of a graph's name (and a seed) that compares its results."""
    def theirs(text, values, **options):
        return oracle.call("mx_scripts.run", "graph_runs", "run", text, values, timeout=120,
                           **options)

    return partial(graph_runs.Judge, mx, theirs)


@pytest.mark.parametrize("name", FACES + IMAGES + DETECTION + PIXELS + FILMS + TEXTS)
def test_outputs_are_mxnets(judge_of, name):
    assert agrees(found := judge_of(name).compare(False)), found


@pytest.mark.parametrize("name", TRAINING)
def test_gradients_are_mxnets(judge_of, name, monkeypatch):
    """For all draws of the values, and without Winograd's tiles: in float32; or in float64, and in
    float32 except the few gradients that take another path (see `graph_runs`)."""
    monkeypatch.setattr(mx.core.config.CONFIG, "winograd", False)
    for seed in SEEDS:
        found = judge_of(name, seed).compare(True)
        assert found["error"] <= graph_runs.TOLERANCE, (seed, found)
        if found["how"] == "double":
            assert not found["refused"], (seed, found)
            assert found["outputs"] <= graph_runs.TOLERANCE, (seed, found)
            assert found["flips"] <= FLIPS, (seed, found)


def agrees(found):
    """float32 agrees; or float64 does, and float32 is as near to it as MXNet's."""
    if found["error"] > graph_runs.TOLERANCE:
        return False
    return (found["how"] != "double"
            or found["ours"] <= max(graph_runs.TOLERANCE, 3 * found["theirs"]))
