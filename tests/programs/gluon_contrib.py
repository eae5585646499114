"""`gluon.contrib`: layers, cells, samplers and texts, as programs with equal results.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.programs import gluon_cells, gluon_layers
from tests.programs.gluon_data import plain
from tests.programs.gluon_layers import Case, numbers

IMAGES = (2, 4, 7, 6)
EAGER: tuple[Case, ...] = (("concurrent", ("Concurrent", 1), {}, (IMAGES,)),)
"""Layers that MXNet calls on arrays only."""
LAYERS: tuple[Case, ...] = (
    ("concurrent", ("HybridConcurrent", 1), {"prefix": "side_"}, (IMAGES,)),
    ("Identity", (), {}, ((2, 3),)),
    ("PixelShuffle1D", (2,), {}, ((2, 6, 4),)),
    ("PixelShuffle2D", (2,), {}, ((2, 8, 3, 2),)),
    ("PixelShuffle2D", ((2, 3),), {}, ((2, 12, 3, 2),)),
    ("PixelShuffle3D", (2,), {}, ((2, 16, 3, 2, 4),)),
    ("PixelShuffle3D", ((2, 3, 4),), {}, ((1, 48, 3, 2, 4),)),
    ("SyncBatchNorm", (), {"num_devices": 1}, (IMAGES,)),
    ("SyncBatchNorm", (4, 1, 0.8, 1e-3), {"scale": False, "prefix": "norm_"}, (IMAGES,)),
    ("SyncBatchNorm", (0, 1), {"use_global_stats": True, "center": False}, ((5, 3),)),
    *((name, args, kwargs, (IMAGES,))
      for name in ("DeformableConvolution", "ModulatedDeformableConvolution")
      for args, kwargs in (
          ((3,), {}), ((3, 3), {"padding": 1, "in_channels": 4}),
          ((4, (3, 2), (2, 1), (1, 0)), {"activation": "relu", "use_bias": False, "groups": 2}),
          ((2, 3), {"padding": 2, "num_deformable_group": 2, "prefix": "d_",
                    "offset_use_bias": False, "weight_initializer": "ones"}))),
)
TRACED: tuple[Case, ...] = (
    ("DeformableConvolution", (2, 3), {"dilation": 2}, (IMAGES,)),
    ("ModulatedDeformableConvolution", (2, 3), {"dilation": (2, 1)}, (IMAGES,)),
)
"""Layers that MXNet does not run on a CPU."""


def layers(mx: Any) -> Any:
    """A module of all layers, and of a function that makes concurrent ones."""
    def concurrent(kind: str, axis: int, prefix: str | None = None) -> Any:
        nn, net = mx.gluon.nn, getattr(mx.gluon.contrib.nn, kind)(axis, prefix=prefix)
        with net.name_scope():
            net.add(nn.Conv2D(3, 1), mx.gluon.contrib.nn.Identity(), nn.Conv2D(2, 3, padding=1))
        return net

    contrib = mx.gluon.contrib
    return SimpleNamespace(**vars(contrib.nn.basic_layers) | vars(contrib.cnn.conv_layers),
                           concurrent=concurrent)


def descriptions(mx: Any) -> list[Any]:
    """Texts, parameters and graphs of layers."""
    found = [gluon_layers.describe(mx, case, layers(mx)) for case in LAYERS + TRACED]
    for facts in found:
        for node in facts["graph"]["nodes"]:
            node["attrs"] = gluon_layers.with_tuple(node.get("attrs", {}))
    return found


def values(mx: Any, hybridized: bool = False) -> list[Any]:
    """Outputs, gradients and statistics of layers."""
    return [gluon_layers.answers(mx, case, hybridized, layers(mx)) for case in EAGER + LAYERS]


def sparse_embedding(mx: Any) -> list[Any]:
    """Rows of a sparse weight before and after steps of a trainer, and its gradient."""
    layer = mx.gluon.contrib.nn.SparseEmbedding(7, 3, weight_initializer="ones", prefix="e_")
    layer.initialize()
    found = [repr(layer), gluon_layers.parameters(layer)]
    trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 0.5})
    x = mx.nd.array([[1, 2], [2, 5]])
    for _ in range(2):
        with mx.autograd.record():
            output = layer(x)
        output.backward(mx.nd.array(numbers(output.shape, 1)))
        gradient = layer.weight.list_grad()[0]
        trainer.step(1)
        found += [plain(output), gradient.stype, plain(gradient.indices), plain(gradient.data)]
    return [*found, plain(layer.weight.row_sparse_data(mx.nd.arange(7)))]


# -- cells ------------------------------------------------------------------------------------


def cells(mx: Any) -> dict[str, tuple[Callable[[], Any], tuple[int, ...]]]:
    """Makers of cells, and shapes of their inputs, by name."""
    own, rnn = mx.gluon.contrib.rnn, mx.gluon.rnn
    dropped = own.VariationalDropoutCell

    def row(*inner: Any) -> Any:
        outer = rnn.HybridSequentialRNNCell()
        for cell in inner:
            outer.add(cell)
        return outer

    found: dict[str, Any] = {
        "lstmp": (lambda: own.LSTMPCell(3, 2), (4,)),
        "lstmp of a size": (lambda: own.LSTMPCell(3, 2, "ones", h2r_weight_initializer="zeros",
                                                  input_size=4, prefix="p_"), (4,)),
        "dropped": (lambda: dropped(rnn.LSTMCell(3), 0.1, 0.2, 0.3), (4,)),
        "dropped states": (lambda: dropped(rnn.GRUCell(3), drop_states=0.2), (4,)),
        "dropped sequences": (lambda: dropped(row(rnn.RNNCell(3), rnn.GRUCell(2)),
                                              drop_inputs=0.2, drop_outputs=0.3), (4,)),
        "dropped directions": (lambda: dropped(rnn.BidirectionalCell(
            rnn.RNNCell(3, prefix="l_"), rnn.RNNCell(3, prefix="r_")), 0.1, 0, 0.2), (4,)),
    }
    for kind in ("RNN", "LSTM", "GRU"):
        for rank, size in ((1, (5,)), (2, (5, 4)), (3, (4, 5, 3))):
            make = getattr(own, f"Conv{rank}D{kind}Cell")
            found[make.__name__] = (
                lambda make=make, size=size: make((2, *size), 3, 3, 3, i2h_pad=1), (2, *size))
        make = getattr(own, f"Conv2D{kind}Cell")
        found[f"{kind} of settings"] = (
            lambda make=make: make((2, 5, 4), 3, (2, 3), (3, 1), (0, 1), (1, 1), 1, "ones",
                                   i2h_bias_initializer="ones", activation="softrelu",
                                   prefix="c_"), (2, 5, 4))
        found[f"{kind}: channels last"] = (
            lambda make=make: make((5, 4, 2), 3, (2, 3), (3, 1), (0, 1), (2, 1), (2, 1),
                                   conv_layout="NHWC", activation="relu"), (5, 4, 2))
    return found


def is_trained(name: str) -> bool:
    """Whether MXNet runs a cell on a CPU."""
    return not name.endswith("channels last")


def cell_descriptions(mx: Any) -> dict[str, Any]:
    """Of each cell: text, parameters, and the graphs of a step and of unrolling."""
    found = {}
    for name, (make, _) in cells(mx).items():
        if name != "dropped directions":    # has no steps
            found[name] = gluon_cells._describe_cell(mx, make)
    return found


def cell_values(mx: Any, hybridized: bool = False) -> dict[str, Any]:
    """Of each cell: outputs, states and gradients of unrolled steps, with lengths up to 1D."""
    return {f"{name} {lengths}": gluon_cells._cell_values(mx, make, lengths, hybridized, shape)
            for name, (make, shape) in cells(mx).items() if is_trained(name)
            for lengths in (False, True)[:1 + (len(shape) < 3)]}


LOOPS = [(layout, lengths, drops) for layout in ("TNC", "NTC") for lengths in (False, True)
         for drops in ((), (0.2, 0.3)) if layout == "TNC" or not drops]
"""Arguments of `dynamic_unroll`; in the other layout MXNet draws anew for every step."""


def loop_graphs(mx: Any) -> list[Any]:
    """Graphs of `dynamic_unroll`, without the numbers of loops, which a process counts."""
    found = []
    for layout, lengths, drops in LOOPS:
        with mx.name.NameManager():
            cell = mx.gluon.rnn.LSTMCell(3, input_size=4)
            valid = mx.sym.var("lengths") if lengths else None
            outputs = mx.gluon.contrib.rnn.rnn_cell.dynamic_unroll(
                cell, mx.sym.var("x"), [mx.sym.var("h"), mx.sym.var("c")], *drops, layout=layout,
                valid_length=valid)
            graph = json.dumps(gluon_cells._graph(mx, outputs))
            found.append(json.loads(re.sub(r'"foreach\d+"', '"foreach"', graph)))
    return found


def loop_values(mx: Any) -> list[Any]:
    """Outputs, states and gradients of `dynamic_unroll` in inference."""
    found = []
    for layout, lengths, drops in LOOPS:
        cell = mx.gluon.rnn.LSTMCell(3, input_size=4)
        cell.initialize()
        gluon_cells._set(mx, cell)
        inputs = mx.nd.array(numbers((3, 3, 4), 1))
        inputs.attach_grad()
        begin = [mx.nd.array(numbers((3, 3), seed)) for seed in (2, 3)]
        valid = mx.nd.array(gluon_cells.LENGTHS) if lengths else None
        with mx.autograd.record(train_mode=False):
            outputs, states = mx.gluon.contrib.rnn.rnn_cell.dynamic_unroll(
                cell, inputs, begin, *drops, layout=layout, valid_length=valid)
            total = (outputs * mx.nd.array(numbers(outputs.shape, 7))).sum()
        total.backward(train_mode=False)
        found.append([outputs.asnumpy(), *(each.asnumpy() for each in states),
                      inputs.grad.asnumpy(), *gluon_cells._gradients(cell)])
    return found


# -- data and errors --------------------------------------------------------------------------

TEXTS = {"train": " a b  a \n\n = x y = \n a <unk> c <eos> \n", "test": "a",
         "validation": "five words of one line\x0c and more"}


def texts(mx: Any, folder: str) -> list[Any]:
    """Samples, vocabularies and counts of the files of texts in a folder."""
    module = mx.gluon.contrib.data.text
    files = getattr(mx.gluon.data, "published_files", module)    # nbmod's, MXNet's
    check, files.check_sha1 = files.check_sha1, lambda path, sha1: True
    try:
        found = []
        for kind, length in ((module.WikiText2, 2), (module.WikiText103, 5)):
            for segment in TEXTS:
                for vocab in (None, mx.contrib.text.vocab.Vocabulary(Counter("abac"))):
                    data = kind(folder, segment, vocab, length)
                    samples = [plain(data[index]) for index in range(len(data))]
                    found.append((samples, data.vocabulary.idx_to_token, dict(data.frequencies)))
        return found
    finally:
        files.check_sha1 = check


def errors(mx: Any, folder: str) -> list[tuple[str, str]]:
    """Builtin class of errors, and how their texts begin."""
    contrib, rnn = mx.gluon.contrib, mx.gluon.rnn
    cell, dropped = contrib.rnn.Conv2DRNNCell, contrib.rnn.VariationalDropoutCell
    both = rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))
    untrained = contrib.nn.SparseEmbedding(3, 2, prefix="e_")
    untrained.initialize()
    base = rnn.RNNCell(2, prefix="used_")
    rnn.ResidualCell(base)
    calls: list[Callable[[], object]] = [
        lambda: contrib.nn.PixelShuffle2D((2,)), lambda: contrib.nn.PixelShuffle3D((2, 3)),
        lambda: contrib.cnn.DeformableConvolution(2, layout="NCW"),
        lambda: cell((3, 8, 8), 4, 3, 2), lambda: cell((3, 8, 8), 4, (3,), 3),
        lambda: cell((3, 8, 8), 4, 3, 3, h2h_dilate=(1, 1, 1)),
        lambda: dropped(both, drop_states=0.1), lambda: dropped(base),
        lambda: contrib.data.IntervalSampler(3, 4),
        lambda: contrib.data.text.WikiText2(folder, "all"),
        lambda: untrained(mx.nd.ones(1)),
    ]
    found = []
    for call in calls:
        try:
            call()
        except Exception as error:
            kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins"
                        and each is not RuntimeError)
            found.append((kind.__name__, str(error)[:14] * (kind is not KeyError)))
    return found


def warned(mx: Any) -> list[str]:
    """Warnings of layers for several devices."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mx.gluon.contrib.nn.SyncBatchNorm()
    return [str(each.message)[:60] for each in caught]
