"""`mx.gluon.contrib`: layers, cells, samplers and texts are MXNet's."""

from __future__ import annotations

import copy
import pickle
import zipfile

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon import contrib, nn, rnn
from nbmod.gluon.contrib.data import text
from nbmod.gluon.contrib.rnn.rnn_cell import dynamic_unroll
from nbmod.gluon.data import published_files
from tests.compare import assert_like, assert_same
from tests.programs import gluon_contrib
from tests.programs.gluon_layers import numbers

TOLERANCE = 1e-4
"""Three steps of sums over up to 60 products in float32, in another order than MXNet's."""
dropped = contrib.rnn.VariationalDropoutCell


def theirs_of(oracle, function, *arguments):
    return oracle.call("mx_scripts.run", "gluon_contrib", function, *arguments)


@pytest.mark.parametrize("function", ["descriptions", "cell_descriptions", "loop_graphs", "warned"])
def test_texts_parameters_and_graphs_are_mxnets(oracle, function):
    theirs, ours = theirs_of(oracle, function), getattr(gluon_contrib, function)(mx)
    names = theirs if isinstance(theirs, dict) else range(len(theirs))
    assert len(names) == len(ours) > 0
    for name in names:
        assert ours[name] == theirs[name], name


@pytest.mark.filterwarnings("ignore:All children of this Sequential")
@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("function", ["values", "cell_values"])
def test_values_and_gradients_are_mxnets(oracle, function, hybridized):
    assert_like(getattr(gluon_contrib, function)(mx, hybridized), theirs_of(oracle, function),
                TOLERANCE)


@pytest.mark.parametrize("function", ["sparse_embedding", "loop_values"])
def test_programs_are_mxnets(oracle, function):
    assert_like(getattr(gluon_contrib, function)(mx), theirs_of(oracle, function), TOLERANCE)


def test_every_class_has_a_case():
    cases = {case[0] for case in gluon_contrib.LAYERS} | {"Concurrent", "HybridConcurrent",
                                                          "SparseEmbedding"}
    assert cases - {"concurrent"} == {*contrib.nn.__all__, *contrib.cnn.__all__}
    cells = {type(make()).__name__ for make, _ in gluon_contrib.cells(mx).values()}
    assert cells == {*contrib.rnn.__all__}


@pytest.mark.parametrize("name", gluon_contrib.cells(mx))
def test_cells_are_copied_and_pickled(name):
    cell = gluon_contrib.cells(mx)[name][0]()
    for twin in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        assert type(twin) is type(cell) and repr(twin) == repr(cell)
        assert [*twin.collect_params()] == [*cell.collect_params()]


def test_errors_are_mxnets(oracle, tmp_path):
    assert gluon_contrib.errors(mx, str(tmp_path)) == [
        tuple(each) for each in theirs_of(oracle, "errors", str(tmp_path))]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: contrib.nn.PixelShuffle1D(None), "PixelShuffle1D: factor is None, expected an int"),
    (lambda: contrib.cnn.DeformableConvolution(2, layout="NHWC"), "Only supports 'NCHW' layout"),
    (lambda: contrib.cnn.DeformableConvolution(2, adj=1), "adj is 1, but a convolution has no"),
    (lambda: contrib.cnn.DeformableConvolution(2, 3, (1,)), "strides must be a number or a list"),
    (lambda: contrib.rnn.Conv1DRNNCell((3, 8, 8), 4, 3, 3), r"expected the 2 axes of CW"),
    (lambda: contrib.rnn.Conv1DRNNCell((3, 8), 4, 3, 3, conv_layout="NCHW"), "'NCW' and 'NWC'"),
    (lambda: contrib.rnn.Conv1DGRUCell((3, 2), 4, 5, 3), r"i2h_kernel \(5,\) .* is larger than"),
    (lambda: contrib.rnn.Conv1DGRUCell((3, 8), 4, 3.0, 3), "i2h_kernel of .* is 3.0"),
    (lambda: contrib.data.IntervalSampler(3, 0), "at least 1"),
    (lambda: text.WikiText2(seq_len=0), "seq_len is 0"),
])
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(MXNetError, match=message):
        call()


# -- layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Concurrent", "HybridConcurrent"])
def test_a_part_of_concurrent_layers_keeps_its_axis(kind):
    net = getattr(contrib.nn, kind)(axis=1)
    net.add(nn.Activation("relu"), contrib.nn.Identity(), contrib.nn.Identity())
    part = net[1:]
    assert type(part) is type(net) and net[1] is part[0]
    assert part(mx.nd.ones((2, 3, 4))).shape == (2, 6, 4)


def test_more_devices_are_warned_of():
    with pytest.warns(UserWarning, match="num_devices is 2, but .* each device's own samples"):
        contrib.nn.SyncBatchNorm(num_devices=2)


def test_networks_of_these_layers_are_exported(tmp_path):
    net = contrib.nn.HybridConcurrent(axis=1, prefix="net_")
    with net.name_scope():
        net.add(contrib.cnn.DeformableConvolution(3, 3, padding=1, prefix="deformable_"),
                contrib.nn.PixelShuffle2D(1), contrib.nn.SyncBatchNorm(num_devices=1))
    net.initialize()
    net.hybridize()
    x = mx.nd.array(numbers((1, 4, 5, 5), 1))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                         str(tmp_path / "net-0000.params"))
    assert_same(block(x).asnumpy(), expected, 1e-6, "output")


# -- cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_channels_may_be_last(kind):
    """MXNet has no such convolutions for CPUs."""
    make = getattr(contrib.rnn, f"Conv2D{kind}Cell")
    first = make((2, 5, 4), 3, (2, 3), 3, (0, 1), prefix="a_")
    last = make((5, 4, 2), 3, (2, 3), 3, (0, 1), conv_layout="NHWC", prefix="a_")
    for cell in (first, last):
        cell.initialize()
    for name, each in last.collect_params().items():
        values = numbers(first.params[name].shape, 3)
        first.params[name].set_data(mx.nd.array(values))
        each.set_data(mx.nd.array(np.moveaxis(values, 1, -1) if values.ndim > 1 else values))
    x = numbers((3, 2, 2, 5, 4), 1)
    outputs = [cell.unroll(2, mx.nd.array(data), merge_outputs=True)[0].asnumpy()
               for cell, data in ((first, x), (last, np.moveaxis(x, 2, -1)))]
    assert outputs[0].shape == (3, 2, 3, 4, 4)
    assert_same(np.moveaxis(outputs[1], -1, 2), outputs[0], 1e-5, kind)


def test_activations_may_be_blocks():
    """MXNet cannot unroll such a cell."""
    cell = contrib.rnn.Conv1DRNNCell((1, 4), 1, 1, 1, activation=nn.LeakyReLU(0.5))
    cell.initialize()
    cell.i2h_weight.set_data(mx.nd.ones((1, 1, 1)))
    outputs, _ = cell.unroll(1, mx.nd.array([[[[-2, 0, 1, 2]]]]), merge_outputs=True)
    assert outputs.asnumpy().reshape(-1).tolist() == [-1, 0, 1, 2]
    assert repr(cell) == "Conv1DRNNCell(1 -> 1, LeakyReLU(0.5), NCW)"


class Steps(mx.gluon.HybridBlock):
    """The cell, stepped twice on equal inputs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def hybrid_forward(self, F, x, state):
        self.cell.reset()
        output, states = self.cell(x, [state])
        return output, self.cell(x, [state])[0]


class Shown(rnn.HybridRecurrentCell):
    """Its output shows its inputs and its state, which is 1 after each step."""

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, 50), "__layout__": "NC"}]

    def hybrid_forward(self, F, inputs, states):
        return F.concat(inputs, states[0]), [F.ones_like(states[0])]


@pytest.mark.parametrize("hybridized", ["nothing", "cell", "outer"])
def test_all_steps_share_what_is_dropped(hybridized):
    """Also hybridized, where MXNet draws anew for every step."""
    cell = dropped(Shown(), 0.5, 0.5, 0.5)
    net = Steps(cell)
    {"nothing": lambda: None, "cell": cell.hybridize, "outer": net.hybridize}[hybridized]()
    ones = mx.nd.ones((3, 50))
    draws = []
    for _ in range(3):
        with mx.autograd.record():
            first, second = net(ones, ones)
        assert (first == second).asnumpy().all()
        assert 0.05 < (first != 0).mean().asscalar() < 0.5     # twice a half: a quarter
        draws.append(first.asnumpy())
    assert not (draws[0] == draws[1]).all() and (net(ones, ones)[0] == 1).asnumpy().all()


@pytest.mark.parametrize("rates", [(0.5, 0, 0.5), (0.5, 0.5, 0.5)])
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_unrolled_steps_share_what_is_dropped(layout, rates):
    cell = dropped(Shown(), *rates)
    with mx.autograd.train_mode():
        outputs, _ = cell.unroll(4, mx.nd.ones((4, 4, 50)), begin_state=[mx.nd.ones((4, 50))],
                                 layout=layout, merge_outputs=True)
    steps = np.moveaxis(outputs.asnumpy(), layout.find("T"), 0)
    assert (steps == steps[0]).all() and len({*map(bytes, steps[0])}) > 1


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_loops_share_what_is_dropped(layout):
    """In MXNet, samples of NTC share it instead."""
    with mx.autograd.train_mode():
        outputs, _ = dynamic_unroll(Shown(), mx.nd.ones((4, 4, 50)), mx.nd.ones((4, 50)), 0.5, 0.5,
                                    layout)
    steps = np.moveaxis(outputs.asnumpy(), layout.find("T"), 0)
    assert (steps == steps[0]).all() and len({*map(bytes, steps[0])}) > 1


def test_a_draw_of_another_shape_is_refused():
    cell = dropped(Shown(), 0.5)
    with mx.autograd.train_mode():
        cell(mx.nd.ones((1, 50)), [mx.nd.ones((1, 50))])
        with pytest.raises(AssertionError, match=r"drop_inputs was drawn for shape \(1, 50\), but "
                                                 r".* \(2, 50\); call reset\(\)"):
            cell(mx.nd.ones((2, 50)), [mx.nd.ones((2, 50))])
        cell.reset()
        assert cell(mx.nd.ones((2, 50)), [mx.nd.ones((2, 50))])[0].shape == (2, 100)


def test_loops_take_lists_of_steps_and_single_states():
    cell = rnn.RNNCell(3, input_size=4)
    cell.initialize()
    x, begin = mx.nd.array(numbers((3, 2, 4), 1)), mx.nd.array(numbers((2, 3), 2))
    expected, states = cell.unroll(3, x, [begin], "TNC", True)
    for inputs in (x, [*x]):
        outputs, after = dynamic_unroll(cell, inputs, begin)
        assert_same(outputs.asnumpy(), expected.asnumpy(), 1e-6, "outputs")
        assert_same(after[0].asnumpy(), states[0].asnumpy(), 1e-6, "states")


# -- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("length, interval", [(13, 3), (4, 4), (5, 1)])
@pytest.mark.parametrize("rollover", [True, False])
def test_intervals_are_mxnets(oracle, length, interval, rollover):
    """But for the length of those that leave indices out."""
    sampler = contrib.data.IntervalSampler(length, interval, rollover)
    expression = f"list(mx.gluon.contrib.data.IntervalSampler({length}, {interval}, {rollover}))"
    assert list(sampler) == oracle.call("mx_scripts.evaluate", expression, {})
    assert len(sampler) == len(list(sampler))


def write_texts(folder, kind=text.WikiText2):
    for segment, content in gluon_contrib.TEXTS.items():
        (folder / kind._data_file[segment][0]).write_text(content, encoding="utf-8")


def test_texts_are_mxnets(oracle, tmp_path):
    write_texts(tmp_path)
    theirs = theirs_of(oracle, "texts", str(tmp_path))
    assert [tuple(each) for each in gluon_contrib.texts(mx, str(tmp_path))] == [
        tuple(each) for each in theirs]


def archive(folder, name, **files):
    with zipfile.ZipFile(folder / name, "w") as written:
        for file, content in files.items():
            written.writestr(f"wiki/wiki.{file}.tokens", content)


def test_an_archive_is_unpacked_into_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(published_files, "download", lambda url, path, sha1_hash: str(
        tmp_path / url.rpartition("/")[2]))
    archive(tmp_path, "wikitext-2-v1.zip", train="a b c", valid="d")
    words = text.WikiText2(str(tmp_path), seq_len=3)
    assert words[0][0].asnumpy().tolist() == [2, 3, 4] and words[0][1][-1].asscalar() == 1
    assert {each.name for each in tmp_path.iterdir()} == {"wikitext-2-v1.zip", "wiki.train.tokens"}
    with pytest.raises(MXNetError, match="there is no wiki.test.tokens in the archive"):
        text.WikiText2(str(tmp_path), "test")
    (tmp_path / "wikitext-103-v1.zip").write_bytes(b"no archive")
    with pytest.raises(MXNetError, match="wikitext-103-v1.zip: damaged"):
        text.WikiText103(str(tmp_path))


def test_files_that_are_nowhere_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "nowhere").as_uri())
    with pytest.raises(MXNetError, match="WikiText2: .* copy wikitext-2-v1.zip, or the files in it,"
                                         " to .*here, or name their folder by root="):
        text.WikiText2(str(tmp_path / "here"))


def test_texts_are_loaded_by_intervals(tmp_path, monkeypatch):
    """Rows of a batch go on where those of the last batch end."""
    monkeypatch.setattr(published_files, "check_sha1", lambda path, sha1: True)
    (tmp_path / "wiki.train.tokens").write_text(" ".join(map(str, range(100, 113))))
    words = text.WikiText2(str(tmp_path), seq_len=2)
    order = contrib.data.IntervalSampler(len(words), 3)
    batches = [data.asnumpy() for data, _ in mx.gluon.data.DataLoader(words, 2, sampler=order)]
    assert [batch[:, 0].tolist() for batch in batches] == [[2, 8], [4, 10], [6, 12]]
    assert len(pickle.loads(pickle.dumps(words))) == 6
