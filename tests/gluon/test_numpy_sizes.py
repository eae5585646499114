"""Sizes may be NumPy's numbers: layers, graphs and files are those of Python's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import gluon, nd
from nbmod.gluon import contrib, nn, rnn

# Each entry makes a block of numbers `i(...)` and `f(...)`, and tells the shape of its input.
LAYERS = {
    "Dense": (lambda i, f: nn.Dense(i(2)), (2, 3)),
    "Dense, in_units": (lambda i, f: nn.Dense(i(2), in_units=i(3)), (2, 3)),
    "Conv2D": (lambda i, f: nn.Conv2D(i(2), i(3), i(2), i(1), i(1), i(1)), (1, 3, 8, 8)),
    "Conv2D, tuples": (lambda i, f: nn.Conv2D(i(2), (i(3), i(1)), [i(2), i(1)], in_channels=i(3)),
                       (1, 3, 8, 8)),
    "Conv2DTranspose": (lambda i, f: nn.Conv2DTranspose(i(2), i(3), i(2), output_padding=i(1)),
                        (1, 3, 8, 8)),
    "MaxPool2D": (lambda i, f: nn.MaxPool2D(i(3), i(2), i(1)), (1, 3, 8, 8)),
    "ReflectionPad2D": (lambda i, f: nn.ReflectionPad2D(i(1)), (1, 1, 4, 4)),
    "BatchNorm": (lambda i, f: nn.BatchNorm(i(1), f(0.5), f(0.5), in_channels=i(3)), (2, 3)),
    "Dropout": (lambda i, f: nn.Dropout(f(0.5), axes=(i(1),)), (2, 3)),
    "Embedding": (lambda i, f: nn.Embedding(i(5), i(2)), (2, 3)),
    "Constant": (lambda i, f: nn.Dense(2, bias_initializer=mx.init.Constant(f(0.5))), (2, 3)),
    "LSTM": (lambda i, f: rnn.LSTM(i(4), i(2), dropout=f(0.5), input_size=i(3)), (5, 2, 3)),
    "GRU": (lambda i, f: rnn.GRU(i(4)), (5, 2, 3)),
    "PixelShuffle2D": (lambda i, f: contrib.nn.PixelShuffle2D(i(2)), (1, 4, 2, 2)),
    "DeformableConvolution": (lambda i, f: contrib.cnn.DeformableConvolution(i(2), i(3)),
                              (1, 3, 8, 8)),
}
CELLS = {
    "LSTMCell": (lambda i, f: rnn.LSTMCell(i(4), input_size=i(3)), (2, 5, 3)),
    "DropoutCell": (lambda i, f: rnn.DropoutCell(f(0.5)), (2, 5, 3)),
    "Conv2DLSTMCell": (lambda i, f: contrib.rnn.Conv2DLSTMCell(
        (i(3), i(8), i(8)), i(4), i(3), [i(3), i(3)], i2h_pad=i(1)), (2, 5, 3, 8, 8)),
}
OTHERS = {
    "Variable": lambda i, f: mx.sym.var("x", shape=(i(2), i(3))).tojson(),
    "Variable, a list": lambda i, f: mx.sym.var("x", shape=[i(2), i(3)]).tojson(),
    "Parameter": lambda i, f: gluon.Parameter("w", shape=(i(2), i(0))),
    "Parameter, a number": lambda i, f: gluon.Parameter("w", shape=i(2)),
    "ParameterDict": lambda i, f: [params.get("w", shape=[i(2), i(0)]) and params.get(
        "w", shape=(i(2), i(3))) for params in [gluon.ParameterDict()]],
    "set_data": lambda i, f: [setattr(w, "shape", (i(2),)) or w for w in [gluon.Parameter("w")]],
    "PolyScheduler": lambda i, f: float(mx.lr_scheduler.PolyScheduler(
        i(10), f(0.5), warmup_steps=i(2))(i(4))),
    "nd.split_v2": lambda i, f: [x.shape for x in nd.split_v2(nd.ones((4, 2)), i(2))],
    "sym.split_v2": lambda i, f: len(mx.sym.split_v2(mx.sym.var("x"), i(2))),
    "sym.histogram": lambda i, f: mx.sym.histogram(
        mx.sym.var("x"), i(2), (0, 1), name="h").tojson(),
    "broadcast_to": lambda i, f: nd.ones((1,)).broadcast_to(i(3)).shape,
    "Resize": lambda i, f: gluon.data.vision.transforms.Resize(i(4))(
        nd.zeros((8, 8, 3), dtype="uint8")).shape,
    "RandomResizedCrop": lambda i, f: gluon.data.vision.transforms.RandomResizedCrop(i(4))(
        nd.zeros((8, 8, 3), dtype="uint8")).shape,
    "LoggingHandler": lambda i, f: int(contrib.estimator.LoggingHandler(i(2)).log_interval),
}


def described(make, shape, i, f):
    """Text of a block and of its graph."""
    with mx.name.NameManager():
        block = make(i, f)
        block.initialize()
        if isinstance(block, rnn.RecurrentCell):
            block.unroll(i(shape[1]), nd.ones(shape))
            output = block.unroll(i(shape[1]), mx.sym.var("data"), merge_outputs=True)[0]
        else:
            block(nd.ones(shape))
            output = block(mx.sym.var("data"))
        return repr(block), [repr(each) for each in block.collect_params().values()], \
            output.tojson()


@pytest.mark.parametrize("name", [*LAYERS, *CELLS])
def test_layers_take_numpy_numbers(name):
    make, shape = {**LAYERS, **CELLS}[name]
    assert described(make, shape, np.int64, np.float32) == described(make, shape, int, float)


@pytest.mark.parametrize("name", OTHERS)
def test_arguments_take_numpy_numbers(name):
    assert repr(OTHERS[name](np.int64, np.float32)) == repr(OTHERS[name](int, float))


def test_exported_files_of_numpy_sizes_load(tmp_path):
    block = nn.Dense(np.int64(2))
    block.initialize()
    block.hybridize()
    expected = block(nd.ones((2, 3)))
    block.export(tmp_path / "net")
    loaded = gluon.SymbolBlock.imports(tmp_path / "net-symbol.json", ["data"],
                                       tmp_path / "net-0000.params")
    assert (loaded(nd.ones((2, 3))).asnumpy() == expected.asnumpy()).all()
