"""Archives as models: what is found in them, for everything that loads a network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.model_archive import archive_at, beside, read_labels
from tests import made_archives as made
from tests.made_archives import checkpoint, classifier, linear, tar, zipped

NET = checkpoint("net", linear(), data=(1, 4))


def shapes_of(path, **more):
    return mx.Predictor(str(path), **more).input_shapes


# -- which network, which parameters --------------------------------------------------------------


def test_everything_that_loads_a_network_takes_an_archive(tmp_path):
    path = str(made.image_classification(tmp_path))
    symbol, args, auxs = mx.model.load_checkpoint(path, 10)
    assert symbol.list_outputs() == ["softmax_output"] and {*auxs} == {
        "bn_data_moving_mean", "bn_data_moving_var"}
    x = np.random.RandomState(0).uniform(0, 255, (1, 3, 32, 32)).astype(np.float32)
    answers = []
    for module in (mx.mod.Module.load(path, 10), mx.mod.Module.load(path, None),
                   mx.mod.Module.load(f"{path}/image-classification", 10)):
        module.bind([("data", x.shape)], for_training=False)
        answers.append(module.predict(mx.nd.array(x)).asnumpy())
    model = mx.convert.read_model(path)
    answers += [mx.Predictor(path)(x)[0], mx.Predictor(path, epoch=10)(x)[0],
                mx.Predictor((model.symbol, model.arg_params, model.aux_params),
                             {"data": x.shape})(x)[0]]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    with pytest.warns(DeprecationWarning):
        assert mx.model.FeedForward.load(path, 10).begin_epoch == 10
    loaded = mx.model.load_params(path, None)
    assert [{*part} for part in loaded] == [{*args}, {*auxs}]


def epochs(*numbers):
    """A network with parameters whose bias is the number of the epoch."""
    files = {}
    for number in numbers:
        found = checkpoint("net", linear(), number, data=(1, 4))
        found[f"net-{number:04d}.params"] = made.params({
            "arg:fc0_weight": mx.nd.zeros((1, 4)), "arg:fc0_bias": mx.nd.array([number])})
        files |= found
    return files


def bias(path, epoch=None):
    return float(mx.model.load_checkpoint(str(path), epoch)[1]["fc0_bias"].asnumpy()[0])


def test_the_newest_epoch_unless_one_is_named(tmp_path):
    path = tar(tmp_path / "model.tar", epochs(9, 10000, 12), "w")
    assert bias(path) == 10000 and bias(path, 12) == 12
    with pytest.raises(MXNetError, match=r"no parameters of epoch 3;.*holds net-symbol.json, net-"):
        mx.model.load_checkpoint(str(path), 3)
    for name in epochs(1, 4):
        (tmp_path / name).write_bytes(epochs(1, 4)[name])
    assert bias(tmp_path / "net") == 4    # files, too


def test_a_name_may_lead_into_an_archive(tmp_path):
    files = {f"{folder}/{name}": content for folder in ("a", "b/c")
             for name, content in NET.items()}
    path = tmp_path / "models.zip"
    path.write_bytes(zipped(files))
    with pytest.raises(MXNetError, match=r"2 networks: a/net-symbol.json, b/c/net-symbol.json; "
                                         r"name one of them, such as .*models\.zip/a/net;"):
        mx.Predictor(str(path))
    for inner in ("a", "a/net", "b", "b/c", "b/c/net", "a/net-symbol.json"):
        assert shapes_of(path / inner) == {"data": (1, 4)}
    with pytest.raises(MXNetError, match=r"models\.zip/d: no member begins so.*holds a/net-symbol"):
        mx.Predictor(str(path / "d"))


@pytest.mark.parametrize(("files", "found"), [
    ({"net-symbol.json": "symbol", "best.params": "params"}, True),
    ({"model.json": "symbol", "weights": "params"}, True),
    ({"symbol.json": "symbol", "params": "params", "meta.json": "{}"}, True),
    ({"a/net-symbol.json": "symbol", "a/x-0000.params": "params", "other.params": "params"}, True),
    ({"net-symbol.json": "symbol", "old-symbol.json": "symbol", "net-0001.params": "params",
      "sub/x.params": "params"}, True),
    ({"net-symbol.json": "symbol", "one.params": "params", "two.params": "params"},
     "parameters in 2 files: one.params, two.params"),
    ({"net-symbol.json": "symbol"}, "there are no parameters"),
    ({"net-0000.params": "params"}, "there is no network .*nbmod convert"),
    ({"readme.txt": "text"}, r"there is neither a network.*holds readme\.txt"),
    ({}, "holds nothing")])
def test_members_are_paired_or_listed(tmp_path, files, found):
    kinds = dict(zip(("symbol", "params"), NET.values(), strict=True))
    path = tar(tmp_path / "model.tgz", {name: kinds.get(kind, kind.encode())
                                        for name, kind in files.items()})
    if found is True:
        assert shapes_of(path) == {"data": (1, 4)}
    else:
        with pytest.raises(MXNetError, match=found):
            mx.Predictor(str(path))


def test_long_lists_are_cut(tmp_path):
    path = tar(tmp_path / "model.tar", {f"{number}.txt": b"" for number in range(30)}, "w")
    with pytest.raises(MXNetError, match=r"19\.txt and 10 more"):
        mx.Predictor(str(path))


def test_damaged_members_are_named(tmp_path):
    for name, content in NET.items():
        path = tar(tmp_path / "model.tar.gz", NET | {name: content[:60]})
        with pytest.raises(MXNetError, match=rf"model\.tar\.gz/{name}: "):
            mx.Predictor(str(path))


def test_a_checkpoint_comes_before_an_archive_of_its_name(tmp_path):
    """`model_algo-1` may be unpacked beside itself."""
    (tmp_path / "net").write_bytes(zipped(checkpoint("net", classifier(), data=(1, 3, 8, 8))))
    assert archive_at(tmp_path / "net") is not None
    for name, content in NET.items():
        (tmp_path / name).write_bytes(content)
    assert archive_at(tmp_path / "net") is None and shapes_of(tmp_path / "net")["data"] == (1, 4)


def test_what_archives_do_not_have(tmp_path):
    path = str(made.linear_learner(tmp_path))
    with pytest.raises(MXNetError, match="verify=True compares the files"):
        mx.model.load_checkpoint(path, 0, verify=True)
    with pytest.raises(MXNetError, match="needs the number of an epoch"):
        mx.mod.Module.load(path, None, load_optimizer_states=True, label_names=["out_label"])
    with pytest.raises(MXNetError, match="an archive is a whole model, given 2 files"):
        mx.convert.read_model([path, "other.params"])


# -- what lies beside a network -------------------------------------------------------------------


@pytest.mark.parametrize(("files", "shapes"), [
    ({"model-shapes.json": '[{"shape": [16, 3, 24, 24], "name": "data"}]'}, (16, 3, 24, 24)),
    ({"signature.json": '{"inputs": [{"data_name": "data", "data_shape": [0, 3, 24, 24]}]}'},
     (1, 3, 24, 24)),
    ({"hyperparams.json": '{"image_shape": "3,24,25"}'}, (1, 3, 24, 25)),
    ({"hyperparams.json": '{"image_shape": "24"}', "model-shapes.json": "[]"}, (1, 3, 24, 24))])
@pytest.mark.parametrize("packed", [True, False])
def test_shapes_of_inputs_are_read(tmp_path, files, shapes, packed):
    stored = {name: text.encode() for name, text in files.items()} | checkpoint(
        "net", classifier(), data=(1, 3, 24, 24))
    path = tar(tmp_path / "model.tar.gz", stored) if packed else tmp_path / "net"
    if not packed:
        for name, content in stored.items():
            (tmp_path / name).write_bytes(content)
    assert shapes_of(path) == {"data": shapes}
    assert shapes_of(path, shapes={"data": (2, 3, 30, 30)}) == {"data": (2, 3, 30, 30)}


@pytest.mark.parametrize("text", ["", "no JSON", "[" * 100_000, "{}", '[{"name": "data"}]', "[1]",
                                  '[{"name": "data", "shape": ["a"]}]', '{"image_shape": "a"}',
                                  '[{"name": "data", "shape": [-1, 3]}]', '{"inputs": 3}'])
def test_what_says_nothing_is_passed_over(tmp_path, text):
    for name in ("model-shapes.json", "hyperparams.json", "labels.json"):
        (tmp_path / name).write_text(text)
    found = beside(str(tmp_path / "net"))
    assert found.shapes == {} and found.labels in ([], ["1"], *([str(one)] for one in (
        json.loads(text) if text.startswith("[{") else [])))


def test_the_name_that_matters_is_said(tmp_path):
    path = tar(tmp_path / "model.tar.gz", checkpoint("net", classifier(), data=(1, 3, 24, 24)))
    with pytest.raises(MXNetError, match=r"shape of the input 'data' is not known; give it: "
                                         r"shapes=\{'data': \(batch size, 3, height, width\)\}"):
        mx.Predictor(str(path))


@pytest.mark.parametrize(("name", "text", "labels"), [
    ("synset.txt", "n01440764 tench, Tinca tinca\nn01443537 goldfish\n", ["tench, Tinca tinca",
                                                                          "goldfish"]),
    ("labels.txt", "cat\r\ndog\n\n", ["cat", "dog"]), ("classes.names", "b c", ["b c"]),
    ("labels.json", '["x", "y"]', ["x", "y"]), ("index_to_name.json", '{"1": "y", "0": "x"}',
                                                ["x", "y"])])
def test_names_of_classes_are_read(tmp_path, name, text, labels):
    path = tar(tmp_path / "model.tar.gz", NET | {f"extra/{name}": text.encode()})
    archive = archive_at(path)
    assert archive is not None and archive.metadata.labels == labels
    Path(tmp_path, name).write_text(text, newline="")
    assert read_labels(tmp_path / name) == labels
    with pytest.raises(MXNetError, match="no names of classes"):
        read_labels(Path(tmp_path, "empty.txt").write_text("\n") and tmp_path / "empty.txt")
