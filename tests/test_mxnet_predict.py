"""`mxnet_predict.Predictor`: inference from the contents of a checkpoint's files."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.mxnet_predict import Predictor, load_ndarray_file
from tests.execution.test_startup import run


@pytest.fixture
def files(tmp_path):
    """A symbol's text and the bytes of its parameters."""
    net = mx.sym.FullyConnected(mx.sym.BatchNorm(mx.sym.var("data"), name="bn"), num_hidden=2,
                                name="fc")
    module = mx.mod.Module(mx.sym.softmax(net), label_names=None)
    module.bind([("data", (4, 3))], for_training=False)
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(tmp_path / "net"), 1)
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
    return ((tmp_path / "net-symbol.json").read_text(), (tmp_path / "net-0001.params").read_bytes(),
            data, module.get_outputs()[0].asnumpy())


def test_predictions_are_the_modules(files):
    symbol, parameters, data, expected = files
    predictor = Predictor(symbol, parameters, {"data": (4, 3)})
    predictor.forward(data=data)
    np.testing.assert_allclose(predictor.get_output(0), expected, rtol=1e-6)
    predictor.reshape({"data": (2, 3)})
    predictor.forward(data=data[:2].tolist())
    np.testing.assert_allclose(predictor.get_output(0), expected[:2], rtol=1e-6)
    assert set(load_ndarray_file(parameters)) >= {"arg:fc_weight", "aux:bn_moving_mean"}


def test_mistakes_are_named(files, tmp_path):
    symbol, parameters, data, _ = files
    with pytest.raises(MXNetError, match="no input 'dat'; inputs are .'data'"):
        Predictor(symbol, parameters, {"data": (4, 3)}).forward(dat=data)
    mx.nd.save(str(tmp_path / "list.params"), [mx.nd.ones(1)])
    with pytest.raises(MXNetError, match="have no names"):
        Predictor(symbol, (tmp_path / "list.params").read_bytes(), {"data": (4, 3)})


def test_scripts_find_it_beside_mxnet():
    run("import sys, nbmod; nbmod.as_mxnet(); import mxnet_predict; "
        "assert mxnet_predict is sys.modules['nbmod.mxnet_predict']")
