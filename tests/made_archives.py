"""Archives with the layouts and names of real ones, and networks of a few numbers."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import nbmod as mx
from nbmod.imgproc import codecs

Files = dict[str, bytes]


def tar(path: Path, files: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    """An archive of files by name."""
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The content of a zip file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def params(arrays: Mapping[str, mx.nd.NDArray]) -> bytes:
    """The content of a `.params` file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.params")
        mx.nd.save(str(path), dict(arrays))
        return path.read_bytes()


def checkpoint(prefix: str, symbol: mx.sym.Symbol, epoch: int = 0, seed: int = 0,
               **shapes: tuple[int, ...]) -> Files:
    """The two files of a network with random parameters; `shapes` are those of its inputs."""
    numbers = np.random.RandomState(seed)
    of_args, _, of_auxs = symbol.infer_shape(**shapes)
    arrays = {f"{kind}:{name}": mx.nd.array(numbers.uniform(0.1, 0.3, shape)
                                            * numbers.choice([-1, 1] if kind == "arg" else [1]))
              for kind, names, found in (("arg", symbol.list_arguments(), of_args),
                                         ("aux", symbol.list_auxiliary_states(), of_auxs))
              for name, shape in zip(names, found, strict=True)
              if name not in shapes and not name.endswith("label")}
    return {f"{prefix}-symbol.json": symbol.tojson().encode(),
            f"{prefix}-{epoch:04d}.params": params(arrays)}


# -- networks -----------------------------------------------------------------------------------


def classifier() -> mx.sym.Symbol:
    x = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=True, name="bn_data")
    x = mx.sym.Convolution(x, kernel=(3, 3), stride=(4, 4), num_filter=4, name="conv0")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(7, 7), name="pool1")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3, name="fc1")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def detector() -> mx.sym.Symbol:
    """SSD for training, as MXNet's example/ssd builds it, on one layer."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), stride=(8, 8), num_filter=4,
                           name="conv1")
    anchors = mx.sym.contrib.MultiBoxPrior(x, sizes=(0.3, 0.6), ratios=(1, 2), name="anchors")
    moves = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=12, name="loc_pred_conv")
    moves = mx.sym.Flatten(mx.sym.transpose(moves, axes=(0, 2, 3, 1)), name="multibox_loc_pred")
    scores = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=9, name="cls_pred_conv")
    scores = mx.sym.Reshape(mx.sym.Flatten(mx.sym.transpose(scores, axes=(0, 2, 3, 1))),
                            shape=(0, -1, 3))
    scores = mx.sym.transpose(scores, axes=(0, 2, 1), name="multibox_cls_pred")
    target = mx.sym.contrib.MultiBoxTarget(
        anchors, mx.sym.Variable("label"), scores, overlap_threshold=0.5, ignore_label=-1,
        negative_mining_ratio=3, name="multibox_target")
    chances = mx.sym.SoftmaxOutput(scores, target[2], ignore_label=-1, use_ignore=True,
                                   multi_output=True, normalization="valid", name="cls_prob")
    loss = mx.sym.smooth_l1(target[1] * (moves - target[0]), scalar=1.0, name="loc_loss_")
    found = mx.sym.contrib.MultiBoxDetection(chances, moves, anchors, nms_threshold=0.5,
                                             name="detection")
    return mx.sym.Group([
        chances, mx.sym.MakeLoss(loss, normalization="valid", name="loc_loss"),
        mx.sym.MakeLoss(target[2], grad_scale=0, name="cls_label"),
        mx.sym.MakeLoss(found, grad_scale=0, name="det_out")])


def linear() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc0")
    return mx.sym.LogisticRegressionOutput(x, mx.sym.Variable("out_label"), name="out")


def recognizer() -> mx.sym.Symbol:
    """InsightFace's: it scales pixels itself, and ends in `fc1`."""
    x = mx.sym.identity(mx.sym.Variable("data"), name="id")
    x = (x - 127.5) * 0.0078125
    x = mx.sym.Convolution(x, kernel=(3, 3), stride=(16, 16), num_filter=4, no_bias=True,
                           name="conv0")
    x = mx.sym.LeakyReLU(mx.sym.BatchNorm(x, fix_gamma=False, name="bn0"), act_type="prelu",
                         name="relu0")
    x = mx.sym.FullyConnected(x, num_hidden=8, name="pre_fc1")
    return mx.sym.BatchNorm(x, fix_gamma=True, eps=2e-5, name="fc1")


def recognizer_for_training() -> mx.sym.Symbol:
    """With the margin that is computed from the label."""
    embedding = recognizer()
    label = mx.sym.Variable("softmax_label")
    scores = mx.sym.FullyConnected(mx.sym.L2Normalization(embedding), num_hidden=5, no_bias=True,
                                   name="fc7")
    scores = scores - 0.5 * mx.sym.one_hot(label, depth=5)
    return mx.sym.Group([mx.sym.BlockGrad(embedding),
                         mx.sym.SoftmaxOutput(scores, label, name="softmax")])


def face_detector() -> mx.sym.Symbol:
    """The heads of RetinaFace, of three strides."""
    x, heads = mx.sym.Variable("data"), []
    for stride, step in ((8, 8), (16, 2), (32, 2)):
        x = mx.sym.Convolution(x, kernel=(3, 3), stride=(step, step), pad=(1, 1), num_filter=4,
                               name=f"conv{stride}")
        scores = mx.sym.Convolution(x, kernel=(1, 1), num_filter=4,
                                    name=f"face_rpn_cls_score_stride{stride}")
        scores = mx.sym.SoftmaxActivation(mx.sym.Reshape(scores, shape=(0, 2, -1, 0)),
                                          mode="channel", name=f"face_rpn_cls_prob_stride{stride}")
        own = [mx.sym.Reshape(scores, shape=(0, 4, -1, 0),
                              name=f"face_rpn_cls_prob_reshape_stride{stride}")]
        own += [mx.sym.Convolution(x * 1e-3, kernel=(1, 1), num_filter=count,
                                   name=f"face_rpn_{name}_stride{stride}")
                for name, count in (("bbox_pred", 8), ("landmark_pred", 20))]
        heads = own + heads
    return mx.sym.Group(heads)


# -- archives -----------------------------------------------------------------------------------


def image_classification(folder: Path) -> Path:
    return tar(folder / "model.tar.gz", {
        **checkpoint("image-classification", classifier(), 10, data=(1, 3, 32, 32)),
        "model-shapes.json": json.dumps([{"shape": [1, 3, 32, 32], "name": "data"}]).encode()})


def object_detection(folder: Path) -> Path:
    return tar(folder / "model.tar.gz", {
        **checkpoint("model_algo_1", detector(), data=(1, 3, 32, 32), label=(1, 2, 5)),
        "hyperparams.json": json.dumps({"base_network": "resnet-50", "image_shape": "32",
                                        "num_classes": "2", "nms_threshold": "0.45"}).encode()})


def semantic_segmentation(folder: Path) -> Path:
    """GluonCV's parameters, by the names of `Block.save_parameters`; no network."""
    arrays = {name: mx.nd.ones(shape) for name, shape in {
        "pretrained.conv1.0.weight": (2, 3, 3, 3), "head.block.0.weight": (2, 2, 3, 3),
        "head.block.4.weight": (3, 2, 1, 1), "head.block.4.bias": (3,)}.items()}
    return tar(folder / "model.tar.gz", {
        "model_algo-1": params(arrays), "model_best.params": params(arrays),
        "hyperparams.json": json.dumps({"algorithm": "fcn", "backbone": "resnet-50",
                                        "num_classes": "3", "crop_size": "240"}).encode()})


def linear_learner(folder: Path) -> Path:
    """A zip file in a tar."""
    inner = zipped({"additional-params.json": b"{}", "manifest.json": b"{}",
                    **checkpoint("mx-mod", linear(), data=(1, 4))})
    return tar(folder / "model.tar.gz", {"model_algo-1": inner})


def insightface_recognition(folder: Path) -> Path:
    path = folder / "model-r100-ii.zip"
    path.write_bytes(zipped(checkpoint("model-r100-ii/model", recognizer(), data=(1, 3, 112, 112))))
    return path


def insightface_detection(folder: Path) -> Path:
    path = folder / "retinaface_r50_v1.zip"
    path.write_bytes(zipped(checkpoint("R50", face_detector(), data=(1, 3, 640, 640))))
    return path


def compreface(folder: Path) -> Path:
    path = folder / "arcface_mobilefacenet.zip"
    path.write_bytes(zipped(checkpoint("model", recognizer(), data=(1, 3, 112, 112))))
    return path


MAKERS = {maker.__name__: maker for maker in (
    image_classification, object_detection, semantic_segmentation, linear_learner,
    insightface_recognition, insightface_detection, compreface)}


def picture(path: Path, height: int = 48, width: int = 64, seed: int = 0) -> Path:
    """An image file of colors that change slowly."""
    rows, columns = np.mgrid[:height, :width]
    planes = [rows * 255 // height, columns * 255 // width, (rows * (seed + 2) + columns) % 256]
    path.write_bytes(codecs.encode(np.stack(planes, -1).astype(np.uint8), path.suffix))
    return path
