"""Networks of several kinds, exported and verified: recurrent, detecting, quantised, looping."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import sym
from nbmod.contrib.quantization import quantize_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.verification import verify_export  # noqa: E402


def random_parameters(symbol: sym.Symbol, **shapes) -> dict[str, mx.nd.NDArray]:
    rng = np.random.default_rng(1)
    arguments, _, states = symbol.infer_shape(**shapes)
    named = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                     [*arguments, *states], strict=True))
    return {name: mx.nd.array(rng.uniform(0.1, 0.6, shape) if name.endswith(("var", "gamma"))
                              else rng.standard_normal(shape) * 0.4)
            for name, shape in named.items() if name not in shapes and "label" not in name}


def verified(tmp_path, symbol, params, shapes, **options) -> list[str]:
    """Kinds of the nodes of an exported and verified model."""
    model = build_model(symbol, params, shapes, **options)
    path = tmp_path / "model.onnx"
    proto = model.model()
    path.write_bytes(proto.SerializeToString())
    onnx.checker.check_model(proto)
    report = verify_export(model, str(path))
    assert all(each.passed for each in report.comparisons) and not report.amplified
    return [node.op_type for node in proto.graph.node]


@pytest.mark.parametrize("mode, kind", [("lstm", "LSTM"), ("gru", "GRU"), ("rnn_tanh", "RNN")])
def test_a_language_model(tmp_path, mode, kind):
    words = sym.Variable("data")
    x = sym.Embedding(words, input_dim=11, output_dim=6, name="embed")
    cell = mx.rnn.FusedRNNCell(5, 2, mode, bidirectional=True, prefix="rnn_")
    x, _ = cell.unroll(4, sym.transpose(x, axes=(1, 0, 2)), layout="TNC", merge_outputs=True)
    x = sym.FullyConnected(sym.Reshape(x, shape=(-1, 10)), num_hidden=11, name="scores")
    net = sym.SoftmaxOutput(x, name="softmax")
    params = random_parameters(net, data=(3, 4))
    assert verified(tmp_path, net, params, [(3, 4)]).count(kind) == 2


def test_states_follow_the_batch(tmp_path):
    """Zeros have no inputs that their size could be read from."""
    cell = mx.rnn.GRUCell(6, prefix="gru_")
    outputs, _ = cell.unroll(3, sym.Variable("data"), merge_outputs=True)
    params = random_parameters(outputs, data=(2, 3, 4))
    kinds = verified(tmp_path, outputs, params, [(2, 3, 4)], dynamic=True,
                     dynamic_shapes=[("batch", 3, 4)])
    assert "ConstantOfShape" in kinds
    dims = onnx.load(tmp_path / "model.onnx").graph.output[0].type.tensor_type.shape.dim
    assert [each.dim_param or each.dim_value for each in dims] == ["batch", 3, 6]


def detector() -> dict[str, sym.Symbol]:
    """Anchors, chances of classes and offsets of boxes that an SSD predicts."""
    x = sym.Convolution(sym.Variable("data"), num_filter=8, kernel=(3, 3), stride=(2, 2),
                        name="body")
    anchors = sym.contrib.MultiBoxPrior(x, sizes=(0.3, 0.5), ratios=(1, 2), name="anchors")
    scores = sym.Convolution(x, num_filter=3 * 3, kernel=(1, 1), name="scores")
    boxes = sym.Convolution(x, num_filter=3 * 4, kernel=(1, 1), name="boxes")
    scores = sym.Reshape(sym.transpose(scores, axes=(0, 2, 3, 1)), shape=(0, -1, 3))
    return {"anchor": anchors, "cls_pred": sym.transpose(scores, axes=(0, 2, 1)),
            "loc_pred": sym.Flatten(sym.transpose(boxes, axes=(0, 2, 3, 1)))}


def test_a_detector(tmp_path):
    found = detector()
    chances = sym.SoftmaxActivation(found["cls_pred"], mode="channel")
    net = sym.contrib.MultiBoxDetection(chances, found["loc_pred"], found["anchor"], nms_topk=20,
                                        name="found")
    params = random_parameters(net, data=(2, 3, 13, 13))
    kinds = verified(tmp_path, net, params, [(2, 3, 13, 13)])
    assert kinds.count("NonMaxSuppression") == 1
    verified(tmp_path, net, params, [(2, 3, 13, 13)], dynamic=True,
             dynamic_shapes=[("batch", 3, 13, 13)])
    with pytest.raises(mx.MXNetError, match="make only the batch dynamic"):
        build_model(net, params, [(2, 3, 13, 13)], dynamic=True)


def test_a_detector_for_training(tmp_path, caplog):
    """Outputs that need labels are left out."""
    found = detector()
    moves, mask, classes = sym.contrib.MultiBoxTarget(
        found["anchor"], sym.Variable("label"), found["cls_pred"], name="target")
    chances = sym.SoftmaxOutput(found["cls_pred"], classes, multi_output=True, name="cls_prob")
    losses = sym.MakeLoss(sym.smooth_l1(mask * (found["loc_pred"] - moves)), name="loc_loss")
    boxes = sym.contrib.MultiBoxDetection(chances, found["loc_pred"], found["anchor"], name="found")
    net = sym.Group([chances, losses, sym.MakeLoss(classes, name="cls_label"), boxes])
    params = random_parameters(net, data=(2, 3, 13, 13), label=(2, 2, 5))
    kinds = verified(tmp_path, net, params, {"data": (2, 3, 13, 13), "label": (2, 2, 5)})
    assert kinds.count("Softmax") == kinds.count("NonMaxSuppression") == 1
    proto = onnx.load(tmp_path / "model.onnx")
    assert [each.name for each in proto.graph.input] == ["data"]
    assert [each.name for each in proto.graph.output] == ["cls_prob", "found"]
    assert "cls_label_output, loc_loss_output not exported" in caplog.text
    with pytest.raises(mx.MXNetError, match="target: _contrib_MultiBoxTarget"):
        build_model(net, params, {"data": (2, 3, 13, 13), "label": (2, 2, 5)}, until="loc_loss")


def test_proposals(tmp_path):
    prob, pred, info = (sym.Variable(name) for name in ("prob", "pred", "info"))
    net = sym.contrib.MultiProposal(prob, pred, info, scales=(2, 4), ratios=(1,), rpn_min_size=4,
                                    rpn_pre_nms_top_n=50, rpn_post_nms_top_n=8, output_score=True,
                                    feature_stride=8, name="rois")
    shapes = {"prob": (2, 4, 5, 6), "pred": (2, 8, 5, 6), "info": (2, 3)}
    model = build_model(net, {"info": mx.nd.array([[40, 48, 1], [33, 48, 1]])},
                        {name: shape for name, shape in shapes.items() if name != "info"})
    (tmp_path / "model.onnx").write_bytes(model.model().SerializeToString())
    report = verify_export(model, str(tmp_path / "model.onnx"))
    assert all(each.passed for each in report.comparisons)


@pytest.mark.parametrize("pool", [sym.ROIPooling, sym.contrib.ROIAlign])
def test_regions_of_no_image(tmp_path, pool):
    """What pads lists of regions has the number -1; runtimes refuse it."""
    rois = mx.nd.array([[1, 0, 0, 4, 4], [-1, 0, 0, 0, 0], [2, 0, 0, 5, 5], [0, 1, 1, 5, 3]])
    net = pool(sym.Variable("data"), sym.Variable("rois"), pooled_size=(2, 2), spatial_scale=1.0)
    verified(tmp_path, net, {"rois": rois}, {"data": (2, 3, 6, 8)})


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(8, 9), (9, 8)])
def test_images_of_any_size(tmp_path, kind, size):
    """The convention 'full' of poolings has windows that end after the image."""
    net = sym.Pooling(sym.Variable("data"), kernel=(3, 2), stride=(2, 2), pool_type=kind,
                      pooling_convention="full")
    shape = (1, 2, *size)
    verified(tmp_path, net, {}, [shape], dynamic=True, dynamic_shapes=[(1, 2, None, None)])
    net = sym.Pooling(sym.Variable("data"), kernel=(3, 2), stride=(3, 2), pad=(1, 0),
                      pool_type=kind, pooling_convention="full")
    with pytest.raises(mx.MXNetError, match="needs the size of a dynamic axis"):
        build_model(net, {}, [shape], dynamic=True, dynamic_shapes=[(1, 2, None, None)])


def small_classifier() -> sym.Symbol:
    x = sym.Convolution(sym.Variable("data"), num_filter=8, kernel=(3, 3), name="conv")
    x = sym.Activation(x, act_type="relu", name="relu")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    return sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=5, name="fc")


@pytest.mark.parametrize("mode", ["naive", "none"])
def test_8_bit_layers(tmp_path, mode):
    net, shape = small_classifier(), (4, 3, 8, 8)
    params = random_parameters(net, data=shape)
    data = mx.io.NDArrayIter(np.random.default_rng(0).standard_normal(shape), batch_size=4)
    quantized, arguments, states = quantize_model(net, params, {}, calib_mode=mode,
                                                  calib_data=data, quantized_dtype="int8",
                                                  num_calib_examples=4)
    model = build_model(quantized, [arguments, states], [shape])
    (tmp_path / "model.onnx").write_bytes(model.model().SerializeToString())
    kinds = [node.op_type for node in model.model().graph.node]
    assert kinds.count("ConvInteger") == kinds.count("MatMulInteger") == 1
    report = verify_export(model, str(tmp_path / "model.onnx"), ["random", "negative"])
    assert all(each.passed for each in report.comparisons)


def test_loops_and_branches(tmp_path):
    data, state = sym.Variable("data"), sym.Variable("state")
    rows, last = sym.contrib.foreach(lambda x, s: (x * s, s + x), data, state)
    counted, total = sym.contrib.while_loop(
        lambda i, x: i < 3, lambda i, x: (x, [i + 1, x * 2]),
        [sym.zeros((1,)), last], max_iterations=5)
    chosen = sym.contrib.cond(sym.sum(total[1]) > 0, lambda: last * 2, lambda: last - 1)
    net = sym.Group([rows, counted[0] if isinstance(counted, list) else counted, chosen])
    kinds = verified(tmp_path, net, {}, {"data": (4, 2), "state": (2,)})
    assert [kind for kind in kinds if kind in ("Scan", "Loop", "If")] == ["Scan", "Loop", "If"]


def test_random_numbers(tmp_path):
    """Of their distributions; verification compares shapes and types only."""
    data, normal = sym.Variable("data"), sym.random.normal(2, 3, shape=(4000,), name="normal")
    categories = sym.random.multinomial(data, shape=(4000,), name="categories")
    net = sym.Group([normal, sym.random.uniform(-1, 5, shape=(40, 100), name="uniform"),
                     sym.random.normal_like(data, name="alike"), sym.exp(normal, name="exp"),
                     sym.random.uniform_like(data, low=2, high=4), categories, sym.square(data)])
    verified(tmp_path, net, {}, [(2, 4)])
    onnxruntime.set_seed(1)
    rows = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.2, 0.0]], np.float32)
    found = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"data": rows})
    # Four standard errors of 4000 samples.
    assert abs(found[0].mean() - 2) < 0.2 and abs(found[0].std() - 3) < 0.15
    assert -1 <= found[1].min() < -0.9 and 4.9 < found[1].max() < 5
    assert found[2].shape == (2, 4) and 2 <= found[4].min() and found[4].max() <= 4
    np.testing.assert_allclose(found[3], np.exp(found[0]), rtol=1e-6)
    for row, drawn, logs in zip(rows, found[5], found[6], strict=True):
        shares = np.bincount(drawn, minlength=4) / 4000
        np.testing.assert_allclose(shares, row, atol=0.035)
        np.testing.assert_allclose(logs, np.log(row[drawn]), rtol=1e-5)


def test_refusals_inside_bodies_are_reported(tmp_path):
    rows, _ = sym.contrib.foreach(lambda x, s: (sym.erfinv(x, name="odd"), s + x),
                                  sym.Variable("data"), sym.Variable("state"))
    with pytest.raises(mx.MXNetError, match="its body has nodes.*odd: erfinv"):
        build_model(rows, {}, {"data": (4, 2), "state": (2,)})


def test_attention(tmp_path):
    words = sym.Variable("data")
    x = sym.FullyConnected(words, num_hidden=24, flatten=False, name="projected")
    scores = sym.contrib.interleaved_matmul_selfatt_qk(x, heads=2)
    attention = sym.softmax(scores, axis=-1)
    x = sym.contrib.interleaved_matmul_selfatt_valatt(x, attention, heads=2)
    net = sym.LayerNorm(x, name="norm")
    params = random_parameters(net, data=(5, 2, 8))
    verified(tmp_path, net, params, [(5, 2, 8)])
