"""`nbmod predict`, and `inspect` and `convert` of archives: for every algorithm that is known."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import answers
from nbmod.cli import main as cli
from nbmod.cli.answers import Reading, answer
from nbmod.cli.face_boxes import _rows, face_boxes
from nbmod.imgproc import codecs
from tests import made_archives as made
from tests.made_archives import MAKERS, checkpoint, classifier, picture, tar

ALGORITHMS = {
    "image_classification": "image classification of SageMaker",
    "object_detection": "object detection of SageMaker",
    "semantic_segmentation": "semantic segmentation of SageMaker",
    "linear_learner": "linear learner of SageMaker",
    "insightface_recognition": "face recognition of InsightFace",
    "insightface_detection": "face detection of InsightFace (RetinaFace)",
    "compreface": "face recognition of InsightFace, of CompreFace"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with an image and rows of numbers."""
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "image.jpg")
    (tmp_path / "rows.csv").write_text("1,2,3,4\n-1,0,0,0.5\n")
    return tmp_path


def ran(capsys, *words):
    """What a command prints, which succeeds."""
    status = cli.main([*map(str, words)])
    told = capsys.readouterr()
    assert status == 0, told.err
    return told.out


@pytest.mark.parametrize("kind", MAKERS)
def test_archives_tell_what_they_are_and_what_comes_next(folder, capsys, kind):
    path = MAKERS[kind](folder)
    report = json.loads(ran(capsys, "inspect", path.name, "--json"))
    assert report["algorithm"] == ALGORITHMS[kind] and report["damage"] == []
    assert len(report["members"]) >= 2 and all(one["bytes"] for one in report["members"])
    text = ran(capsys, "inspect", path.name)
    assert f"algorithm: {ALGORITHMS[kind]}\n" in text and "damage" not in text
    commands = [line.removeprefix("next: ") for line in text.splitlines() if "next: " in line]
    assert len(commands) == 2 and commands == report["next"]
    for command in commands:
        if command.startswith("nbmod"):
            assert ran(capsys, *shlex.split(command)[1:])
    if kind == "semantic_segmentation":
        assert "head.block.4.bias" in mx.nd.load("model.params")
        program, = shlex.split(commands[1])[2:]
        assert 'model_zoo.FCN(3, backbone="resnet50", ' in program and compile(program, "", "exec")
    else:
        assert [one for one in folder.iterdir() if one.suffix == ".onnx"]


@pytest.mark.parametrize("packed", [True, False])
def test_arrays_without_names_are_no_damage(folder, capsys, packed):
    """K-means and PCA of the training service have such."""
    mx.nd.save("a.params", [mx.nd.ones((2, 3)), mx.nd.zeros(4)])
    if packed:
        tar(folder / "model.tar.gz", {"model_algo-1": (folder / "a.params").read_bytes()})
    report = json.loads(ran(capsys, "inspect", "model.tar.gz" if packed else "a.params", "--json"))
    assert report["damage"] == [] and report["algorithm"] == "parameters without a network"
    assert [(row["name"], row["shape"]) for row in report["parameters"]] == [
        ("0", [2, 3]), ("1", [4])]


@pytest.mark.parametrize("kind", ["object_detection", "linear_learner", "image_classification",
                                  "insightface_recognition"])
def test_layers_of_archives_are_listed(folder, capsys, kind):
    """Those that predict, with the shapes that the archive tells."""
    text = ran(capsys, "inspect", MAKERS[kind](folder).name, "--layers")
    assert "Total params: " in text


def test_layers_without_shapes_are_listed(folder, capsys):
    for name, content in checkpoint("net", made.detector(), data=(1, 3, 32, 32),
                                    label=(1, 2, 5)).items():
        (folder / name).write_bytes(content)
    assert "Total params: " in ran(capsys, "inspect", "net", "--layers")
    assert "Total params: " in ran(capsys, "inspect", "net", "--layers", "--shape",
                                   "data=1,3,32,32")


def test_damage_in_an_archive_is_told(folder, capsys):
    files = checkpoint("net", classifier(), data=(1, 3, 32, 32))
    tar(folder / "a.tar.gz", files | {"net-0000.params": files["net-0000.params"][:200]})
    assert cli.main(["inspect", "a.tar.gz"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^damage: a\.tar\.gz/net-0000\.params: damaged at byte", out, re.M)
    assert "operators: BatchNorm (1)" in out and "algorithm: a network of MXNet" in out


def test_a_plain_checkpoint_and_a_folder_in_an_archive(folder, capsys):
    files = checkpoint("deep/net", classifier(), 3, data=(1, 3, 32, 32))
    path = tar(folder / "a.tar.gz", files | {"deep/synset.txt": b"n01440764 tench\nshark\nray\n"})
    report = json.loads(ran(capsys, "inspect", f"{path.name}/deep", "--json"))
    assert report["algorithm"] == "a network of MXNet" and report["labels"] == 3
    shape = ("--shape", "data=1,3,32,32")
    inside = ran(capsys, "predict", f"{path.name}/deep", "image.jpg", *shape)
    for name, content in files.items():
        (folder / os.path.basename(name)).write_bytes(content)
    outside = ran(capsys, "predict", "net", "image.jpg", *shape)
    assert inside.replace("tench", "class 0").replace("shark", "class 1").replace(
        "ray", "class 2") == outside


def test_classes_are_those_of_module(folder, capsys):
    path = made.image_classification(folder)
    (folder / "labels.txt").write_text("cat\ndog\nowl\n")
    words = ("predict", path.name, "image.jpg", "--labels", "labels.txt", "--json", "--top", 2)
    cli.main([*map(str, words)])
    told = capsys.readouterr()
    assert told.err == ("nbmod: predict: pixels: RGB from 0 to 255, as they are (as the service's "
                        "own container does)\n")
    found = json.loads(told.out)["classes"]
    image = mx.image.imresize(mx.image.imread("image.jpg"), 32, 32).asnumpy()
    module = mx.mod.Module.load(path.name, 10)
    module.bind([("data", (1, 3, 32, 32))], for_training=False)
    scores = module.predict(mx.nd.array(image.transpose(2, 0, 1)[None])).asnumpy()[0]
    best = np.argsort(-scores)[:2]
    assert [one["class"] for one in found] == best.tolist()
    assert [one["label"] for one in found] == [["cat", "dog", "owl"][at] for at in best]
    assert [one["score"] for one in found] == scores[best].tolist()


def test_boxes_are_drawn(folder, capsys):
    path = made.object_detection(folder)
    (folder / "classes.txt").write_text("cat\ndog\n")
    text = ran(capsys, "predict", path.name, "image.jpg", "--threshold", 0.3, "--out", "drawn",
               "--labels", "classes.txt")
    assert text.startswith("image.jpg:\n") and ("  cat  " in text or "  dog  " in text)
    drawn = codecs.decode((folder / "drawn" / "image.png").read_bytes())
    before = codecs.decode((folder / "image.jpg").read_bytes())
    assert drawn.shape == before.shape and (drawn != before).any()
    found = json.loads(ran(capsys, "predict", path.name, "image.jpg", "--json", "--threshold", 0.3))
    scores = [box["score"] for box in found["boxes"]]
    assert scores == sorted(scores, reverse=True) and min(scores) >= 0.3
    x0, y0, x1, y1 = np.array([box["box"] for box in found["boxes"]]).T
    assert (0 <= x0).all() and (x0 <= x1).all() and x1.max() <= 64 and y1.max() <= 48
    assert json.loads(ran(capsys, "predict", path.name, "image.jpg", "--json", "--threshold", 2)
                      )["boxes"] == []
    assert "no boxes" in ran(capsys, "predict", path.name, "image.jpg", "--threshold", 2)
    chosen = json.loads(ran(capsys, "predict", path.name, "image.jpg", "--json", "--outputs",
                            "multibox_loc_pred"))
    assert len(chosen["classes"]) == 5


def test_vectors_are_compared(folder, capsys):
    path = made.insightface_recognition(folder)
    picture(folder / "other.png", 112, 112, seed=3)
    text = ran(capsys, "predict", path.name, "image.jpg", "other.png", "image.jpg")
    assert text.count("a vector of 8 numbers") == 3
    assert "1.0000  similarity with image.jpg" in text
    training = tar(folder / "t.tar", checkpoint("model", made.recognizer_for_training(), 1,
                                                data=(1, 3, 112, 112)), "w")
    assert len(json.loads(ran(capsys, "predict", training.name, "image.jpg", "--json"))[
        "vector"]) == 8


def test_faces_are_boxes(folder, capsys):
    """Of all strides, in pixels of the image."""
    path = made.insightface_detection(folder)
    words = ("predict", path.name, "image.jpg", "--shape", "data=1,3,64,96", "--json")
    found = json.loads(ran(capsys, *words, "--threshold", 0.01))["boxes"]
    assert found and {box["label"] for box in found} == {"face"}
    x0, y0, x1, y1 = np.array([box["box"] for box in found]).T
    assert (0 <= x0).all() and (x0 <= x1).all() and x1.max() <= 64 and y1.max() <= 48
    outputs = ran(capsys, *words, "--outputs", "face_rpn_bbox_pred_stride16")
    assert "segments" in outputs or "outputs" in outputs


def test_of_faces_that_overlap_the_best_is_kept():
    """Two anchors of 32 pixels overlap by 24 x 32 of 40 x 32, those of 16 pixels by a third."""
    for anchor, count in ((0, 1), (1, 2)):
        scores = np.zeros((1, 4, 2, 2), np.float32)
        scores[0, 2 + anchor, 0] = 0.8, 0.9
        found = face_boxes({"face_rpn_cls_prob_reshape_stride8_output": scores,
                            "face_rpn_bbox_pred_stride8_output": np.zeros((1, 8, 2, 2))},
                           (16, 32), 0.5)
        kept = found[0][found[0][:, 0] >= 0]
        assert len(kept) == count and kept[0, 1] == np.float32(0.9)
        assert kept[0, 2:].tolist() == [[0, -0.5, 31 / 32, 23 / 16], [0.25, 0, 23 / 32, 15 / 16]][
            anchor]


def test_anchors_of_faces_are_those_of_proposals():
    """`MultiProposal` decodes stride 16 alike; the other strides have the same formula."""
    numbers = np.random.RandomState(0)
    scores = numbers.permutation(np.linspace(0, 1, 2 * 5 * 7)).astype(np.float32).reshape(2, 5, 7)
    moves = numbers.normal(0, 0.3, (8, 5, 7)).astype(np.float32)
    rows = _rows(np.concatenate([1 - scores, scores]), moves, 16)
    rows = rows[np.argsort(-rows[:, 1], kind="stable")]
    want, chances = mx.nd.contrib.MultiProposal(
        mx.nd.array(np.concatenate([1 - scores, scores])[None]), mx.nd.array(moves[None]),
        mx.nd.array([[80, 112, 1]]), scales=(8, 4), ratios=(1,), feature_stride=16,
        rpn_pre_nms_top_n=-1, rpn_post_nms_top_n=len(rows), threshold=1.0, rpn_min_size=0,
        output_score=True)
    np.testing.assert_array_equal(rows[:, 1], chances.asnumpy()[:, 0])
    edges = np.array([111, 79, 111, 79])
    # Products of some hundred pixels in another order.
    np.testing.assert_allclose(rows[:, 2:].clip(0, edges), want.asnumpy()[:, 1:], atol=1e-3)
    eight = _rows(np.full((4, 1, 2), 0.5, np.float32), np.zeros((8, 1, 2), np.float32), 8)
    assert eight[:, 2:].tolist() == [[-8, -8, 23, 23], [0, -8, 31, 23], [0, 0, 15, 15],
                                     [8, 0, 23, 15]]


def test_a_file_of_images_tells_their_shape(folder, capsys):
    for name, content in checkpoint("net", classifier(), 3, data=(1, 3, 32, 32)).items():
        (folder / name).write_bytes(content)
    np.save("images.npy", np.random.RandomState(0).rand(2, 3, 32, 32))
    np.save("rows.npy", np.ones((2, 3)))
    stated = ran(capsys, "predict", "net", "images.npy", "--shape", "data=1,3,32,32")
    assert ran(capsys, "predict", "net", "images.npy") == stated and "images.npy:2:" in stated
    assert cli.main(["predict", "net", "rows.npy"]) == 1
    assert "--shape data=1,3,HEIGHT,WIDTH" in capsys.readouterr().err


def test_rows_of_numbers_are_samples(folder, capsys):
    path = made.linear_learner(folder)
    found = [json.loads(line) for line in ran(capsys, "predict", path.name, "rows.csv", "--json"
                                              ).splitlines()]
    np.save("rows.npy", np.loadtxt("rows.csv", delimiter=","))
    text = ran(capsys, "predict", path.name, "rows.npy").splitlines()
    assert [one["file"] for one in found] == ["rows.csv:1", "rows.csv:2"]
    want = mx.Predictor(path.name)(np.load("rows.npy"))[0].ravel()
    assert [one["value"] for one in found] == pytest.approx(want.tolist())
    assert text[1::2] == [f"  {one['value']:.6g}" for one in found]


def test_pixels_are_scaled_as_options_say(folder, capsys):
    """The network returns its input."""
    net = mx.sym.Group([mx.sym.identity(mx.sym.Variable("data"), name="copy")])
    tar(folder / "net.tar", checkpoint("net", net, data=(1, 3, 2, 2)), "w")
    flat = np.full((5, 5, 3), (10, 20, 30), np.uint8)
    (folder / "flat.png").write_bytes(codecs.encode(flat, "png", 3))
    words = ("predict", "net.tar", "flat.png", "--shape", "data=1,3,1,1", "--json")

    def first(*options):
        found = json.loads(ran(capsys, *words, *options))["segments"]
        return found[0]["class"]    # of the channel with the greatest number

    assert first() == 2 and first("--bgr") == 0
    assert first("--mean", "0,0,29") == 1 and first("--std", "1,20,20") == 0
    assert first("--scale", "-1") == 0 and first("--mean", "5", "--std", "2") == 2


@pytest.mark.parametrize(("words", "error"), [
    ("model.tar.gz none.jpg", "none.jpg: cannot be read"),
    ("model.tar.gz rows.txt", "rows.txt: decode: no image"),
    ("model.tar.gz rows.csv", "data has the shape"),
    ("model.tar.gz image.jpg --labels none", "none: cannot be read"),
    ("model.tar.gz image.jpg --outputs nope", "no outputs are called 'nope'"),
    ("model.tar.gz image.jpg --epoch 3", "no parameters of epoch 3"),
    ("model.tar.gz image.jpg image.jpg image/image.jpg --out drawn", "is the same file as"),
    ("none image.jpg", "neither such a file nor a checkpoint"),
    ("two.tar image.jpg --shape a=1,3,1,1 --shape b=1,3,1,1", r"has the inputs \['a', 'b'\]"),
    ("plain.tar image.jpg", "'data' is not known; give it: --shape data=1,3,HEIGHT,WIDTH$"),
    ("linear.tar image.jpg", "images do not have; give rows of numbers"),
    ("segments.tar image.jpg", "semantic-segmentation.md says how to build it")])
def test_mistakes_are_named(folder, capsys, words, error):
    made.linear_learner(folder).rename(folder / "linear.tar")
    made.semantic_segmentation(folder).rename(folder / "segments.tar")
    made.image_classification(folder)
    tar(folder / "two.tar", checkpoint("net", mx.sym.Variable("a") + mx.sym.Variable("b"),
                                       a=(1, 3, 1, 1)), "w")
    tar(folder / "plain.tar", checkpoint("net", classifier(), data=(1, 3, 32, 32)), "w")
    (folder / "rows.txt").write_text("no image")
    assert cli.main(["predict", *words.split()]) == 1
    told = capsys.readouterr().err
    assert re.search(error, told) and told.count("\n") <= 2, told


def test_pictures_do_not_replace_images(folder, capsys):
    path = made.image_classification(folder)
    picture(folder / "image.png")
    assert cli.main(["predict", path.name, "image.png", "--out", "."]) == 1
    assert "image.png: not written" in capsys.readouterr().err


def test_answers_of_every_form():
    """Detectors of GluonCV have three outputs, in pixels; networks for segments have planes."""
    ids, scores = np.array([[[1], [0], [-1]]]), np.array([[[0.9], [0.2], [-1]]])
    boxes = np.array([[[1, 2, 3, 4], [0, 0, 1, 1], [-1, -1, -1, -1]]])
    found = answer([ids, scores, boxes], (10, 10), Reading(["a", "b"], threshold=0.1,
                                                           input_size=(10, 10)))
    assert found == {"boxes": [
        {"class": 1, "label": "b", "score": 0.9, "box": [1.0, 2.0, 3.0, 4.0]},
        {"class": 0, "label": "a", "score": 0.2, "box": [0.0, 0.0, 1.0, 1.0]}]}
    found = answer([ids, scores, boxes], (30, 40), Reading(threshold=0.5, input_size=(20, 10)))
    assert found["boxes"][0]["box"] == [4.0, 3.0, 12.0, 6.0]    # pixels of the image
    planes = np.zeros((1, 3, 2, 2), np.float32)
    planes[0, 2], planes[0, 1, 0, 0] = 1, 2
    found = answer([planes], (8, 8), Reading())
    assert found == {"segments": [{"class": 2, "share": 0.75}, {"class": 1, "share": 0.25}]}
    assert answers.lines(found) == [" 75.00%  class 2", " 25.00%  class 1"]
    image = np.full((8, 8, 3), 100, np.uint8)
    drawn = codecs.decode(answers.picture(image, found, [planes]))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) == 2
    other = answer([np.zeros((1, 2, 3), np.float32)], (1, 1), Reading())
    assert other == {"outputs": [{"shape": [1, 2, 3], "min": 0, "max": 0, "mean": 0}]}
    assert answers.lines(other) == ["(1, 2, 3): from 0 to 0, mean 0"]


OPERATORS = """
from dataclasses import dataclass

import nbmod as mx
from nbmod.ops.elementwise.formula_op import FormulaOp


@mx.register_op("own_double")
@dataclass(frozen=True)
class OwnDouble(FormulaOp):
    "y = 2 x, element by element."

    formula = "x + x"
    gradients = {"x": "gy + gy"}
"""


def test_modules_with_operators_are_imported(folder, capsys, monkeypatch):
    """By inspect, convert and predict: a network that has one opens."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "own_operators.py").write_text(OPERATORS)
    net = mx.sym.relu(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc"))
    for name, content in checkpoint("net", net, data=(1, 4)).items():
        (folder / name).write_bytes(content.replace(b'"relu"', b'"own_double"'))
    commands = (["inspect", "net", "--shape", "data=1,4"], ["convert", "net", "-o", "b"],
                ["predict", "net", "rows.csv"])
    for command in commands[1:]:
        assert cli.main(command) == 1 and "own_double" in capsys.readouterr().err
    assert "missing operators: own_double" in ran(capsys, *commands[0])
    try:
        for command in commands:
            assert "missing" not in ran(capsys, *command, "--import", "own_operators")
    finally:
        mx.unregister_op("own_double")
        del sys.modules["own_operators"]
    assert cli.main([*commands[0], "--import", "no_such_module"]) == 1
    assert "there is no module 'no_such_module'" in capsys.readouterr().err
