"""Tables and diagrams of networks: identical to MXNet's, except where its counts are wrong."""

from __future__ import annotations

import sys

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import duplicate_names, visualization_programs

SHAPES = {"perceptron": {"data": (5, 20)}, "lenet": {"data": (2, 1, 28, 28)},
          "resnet": {"data": (2, 3, 16, 16)}, "mixed": {"words": (2, 8)}}
NARROW = {"line_length": 70, "positions": [25, 40, 55, 70]}
FRACTIONS = {"line_length": 90, "positions": [0.3, 0.5, 0.7, 1.0]}
LOOKS = {
    "plain": {},
    "shapes": {"shape": True, "title": "it", "save_format": "svg"},
    "types": {"shape": True, "dtype": {}},
    "weights": {"hide_weights": False, "node_attrs": {"fixedsize": "false", "color": "red"}},
}  # fmt: skip


def of(name, options):
    """Options with symbols replaced by the network's own shapes and types."""
    own = {"shape": SHAPES[name], "dtype": dict.fromkeys(SHAPES[name], "float64")}
    return {key: own.get(key, value) for key, value in options.items()}


@pytest.mark.parametrize("layout", [{}, NARROW, FRACTIONS], ids=["usual", "narrow", "fractions"])
@pytest.mark.parametrize("name", ["perceptron", "lenet", "resnet"])
def test_tables_are_mxnets(oracle, name, layout):
    options = {"shape": SHAPES[name], **layout}
    want = oracle.call("mx_scripts.run", "visualization_programs", "summary", name, options)
    assert visualization_programs.summary(mx, name, options) == want


def test_tables_of_other_networks_are_mxnets_but_for_their_counts(oracle):
    """MXNet leaves out the shape of a node with several outputs, and counts weights by axis 1."""
    options = {"shape": SHAPES["mixed"]}
    ours = visualization_programs.summary(mx, "mixed", options).splitlines()
    theirs = oracle.call("mx_scripts.run", "visualization_programs", "summary", "mixed",
                         options).splitlines()
    differ = [mine.split()[:3] for mine, other in zip(ours, theirs, strict=True) if mine != other]
    assert differ == [["halves(SliceChannel)", "8x3", "0"]]


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("name", visualization_programs.NETWORKS)
def test_diagrams_are_mxnets(oracle, name, looks):
    options = of(name, LOOKS[looks])
    want = oracle.call("mx_scripts.run", "visualization_programs", "dot_calls", name, options)
    assert visualization_programs.dot_calls(mx, name, options) == want


x = mx.sym.Variable("x")
w = mx.sym.Variable("w")
COUNTED = {
    "dense layer on an image": (mx.sym.FullyConnected(x, num_hidden=3), (1, 2, 4, 4), [99]),
    "channels last": (mx.sym.BatchNorm(x, axis=3), (1, 8, 8, 5), [10]),
    "deconvolution": (mx.sym.Deconvolution(x, num_filter=3, kernel=(2, 2)), (1, 2, 4, 4), [24]),
    "learned slope": (mx.sym.LeakyReLU(x, act_type="prelu"), (1, 7), [7]),
    "shared weight": (mx.sym.FullyConnected(mx.sym.FullyConnected(x, w, num_hidden=4, no_bias=True),
                                            w, num_hidden=4, no_bias=True), (1, 4), [16, 0]),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_every_parameter_is_counted_once(case):
    net, shape, counts = COUNTED[case]
    text = visualization_programs.printed(mx, net, {"shape": {"x": shape}})
    lines = [line.split() for line in text.splitlines()]
    assert [int(line[2]) for line in lines if len(line) == 4 and line[2].isdigit()] == counts
    assert lines[-2] == ["Total", "params:", str(sum(counts))]


def test_without_shapes_the_table_has_names_only(capsys):
    mx.viz.print_summary(visualization_programs.network(mx, "perceptron"))
    printed = capsys.readouterr().out
    assert "fc1(FullyConnected)" in printed and "Total params: 0" in printed


def test_wrong_use_is_named():
    net = visualization_programs.network(mx, "lenet")
    for function in (mx.viz.print_summary, mx.viz.plot_network, mx.viz.network_dot):
        with pytest.raises(TypeError, match="symbol must be a Symbol, given a int"):
            function(5)
        with pytest.raises(ValueError, match="shape is incomplete.*given: {}"), pytest.warns():
            function(net, shape={})


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    net = visualization_programs.network(mx, "lenet")
    with pytest.raises(MXNetError, match=r"pip install 'nbmod\[viz\]'.*network_dot"):
        mx.viz.plot_network(net)
    text = mx.viz.network_dot(net, shape=SHAPES["lenet"])
    assert text.startswith('digraph "plot" {\n\t"data" [label="data" shape="oval"')
    assert '"conv1" [label="Convolution\\n5x5/1, 6"' in text
    assert '"conv1" -> "data" [label="1x28x28" dir="back" arrowtail="open"]' in text
    assert text.count("->") == len(visualization_programs.dot_calls(mx, "lenet", {})[1:]) // 2


def test_graphviz_takes_it():
    pytest.importorskip("graphviz")
    source = mx.viz.plot_network(visualization_programs.network(mx, "resnet"), title="net").source
    assert source.startswith("digraph net") and "fillcolor" in source


def test_nodes_of_one_name_are_warned_of():
    pytest.importorskip("graphviz")
    net = mx.sym.relu(mx.sym.relu(mx.sym.var("x"), name="twice"), name="twice")
    with pytest.warns(RuntimeWarning, match="with the same name in your graph.*twice"):
        mx.viz.plot_network(net)


def test_nodes_of_one_name_are_nodes_of_their_own(capsys):
    """In the drawing and in the table; the second layer has the parameters of the first one."""
    net = duplicate_names.layers_inside(mx.sym)
    with pytest.warns(RuntimeWarning, match="same name in your graph.*numbers in the drawing: fc$"):
        text = mx.viz.network_dot(net)
    assert text.count('\t"fc" [') == text.count('\t"fc_1" [') == 1
    assert '"fc" -> "data"' in text and '"fc_1" -> "_plusscalar' in text
    product = next(line.split('"')[1] for line in text.splitlines() if '-> "fc_1"' in line)
    assert f'"{product}" -> "fc" ' in text
    mx.viz.print_summary(net, {"data": (6, 4)})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in rows if row and row[0] == "fc(FullyConnected)"] == ["15", "0"]
    assert ["Total", "params:", "15"] in rows
