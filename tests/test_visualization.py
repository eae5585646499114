"""Tables and diagrams of networks.

With MXNet's widths, tables are MXNet's, except where its counts are wrong; `.source` of drawings
is what MXNet tells Graphviz.
"""

from __future__ import annotations

import re
import sys

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.diagram.picture import cells_of
from tests.programs import duplicate_names, visualization_programs

SHAPES = {"perceptron": {"data": (5, 20)}, "lenet": {"data": (2, 1, 28, 28)},
          "resnet": {"data": (2, 3, 16, 16)}, "mixed": {"words": (2, 8)}}
WIDE = {"line_length": 120}
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


@pytest.mark.parametrize("layout", [WIDE, NARROW, FRACTIONS], ids=["wide", "narrow", "fractions"])
@pytest.mark.parametrize("name", ["perceptron", "lenet", "resnet"])
def test_tables_are_mxnets(oracle, name, layout):
    options = {"shape": SHAPES[name], **layout}
    want = oracle.call("mx_scripts.run", "visualization_programs", "summary", name, options)
    assert visualization_programs.summary(mx, name, options) == want


def test_tables_of_other_networks_are_mxnets_but_for_their_counts(oracle):
    """MXNet leaves out the shape of a node with several outputs, and counts weights by axis 1."""
    options = {"shape": SHAPES["mixed"], **WIDE}
    ours = visualization_programs.summary(mx, "mixed", options).splitlines()
    theirs = oracle.call("mx_scripts.run", "visualization_programs", "summary", "mixed",
                         options).splitlines()
    differ = [mine.split()[:3] for mine, other in zip(ours, theirs, strict=True) if mine != other]
    assert differ == [["halves(SliceChannel)", "8x3", "0"]]


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("name", visualization_programs.NETWORKS)
def test_diagrams_are_mxnets(oracle, name, looks):
    options = of(name, LOOKS[looks])
    begin, *calls = oracle.call("mx_scripts.run", "visualization_programs", "dot_calls", name,
                                options)
    drawing = mx.viz.plot_network(visualization_programs.network(mx, name), **options)
    assert begin == {"name": drawing.name, "format": drawing.format}
    assert [*statements(drawing.source)] == [dict(call) for call in calls]


def statements(source):
    """Nodes and edges of a graph in Graphviz's language, as keywords of graphviz.Digraph."""
    string = r'"((?:[^"\\]|\\.)*)"'
    for line in source.splitlines()[1:-1]:
        head, _, rest = line.partition(" [")
        found = {key: value.encode().decode("unicode_escape")
                 for key, value in re.findall(rf"(\w+)={string}", rest)}
        names = re.findall(string, head)
        yield found | dict(zip(["name"] if len(names) == 1 else ["tail_name", "head_name"], names,
                               strict=True))


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
def test_every_parameter_is_counted_once(case, capsys):
    net, shape, counts = COUNTED[case]
    summary = mx.viz.print_summary(net, {"x": shape})
    assert [layer.parameters for layer in summary.layers if layer.op != "null"] == counts
    assert f"\nTotal params: {sum(counts)}\n" in capsys.readouterr().out


def test_without_shapes_the_table_has_names_only(capsys):
    summary = mx.viz.print_summary(visualization_programs.network(mx, "perceptron"))
    printed = capsys.readouterr().out
    assert "\nfc1 (FullyConnected) " in printed and "Total params: 0\n" in printed
    assert "MACs:" not in printed and (summary.macs, summary.nbytes) == (None, None)


def test_wrong_use_is_named():
    net = visualization_programs.network(mx, "lenet")
    for function in (mx.viz.print_summary, mx.viz.plot_network, mx.viz.network_dot):
        with pytest.raises(TypeError, match="symbol must be a Symbol, given a int"):
            function(5)
        with pytest.raises(ValueError, match="shape is incomplete.*given: {}"), pytest.warns():
            function(net, shape={})


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    drawing = mx.viz.plot_network(visualization_programs.network(mx, "lenet"))
    with pytest.raises(MXNetError, match=r"pip install 'nbmod\[viz\]'.*format='svg'"):
        drawing.render(tmp_path / "net")
    assert not [*tmp_path.iterdir()]
    assert drawing.render(tmp_path / "net", format="svg") == str(tmp_path / "net.svg")


def test_the_source_is_that_of_network_dot():
    net = visualization_programs.network(mx, "lenet")
    text = mx.viz.network_dot(net, shape=SHAPES["lenet"])
    assert text.startswith('digraph "plot" {\n\t"data" [label="data" shape="oval"')
    assert '"conv1" [label="Convolution\\n5x5/1, 6"' in text
    assert '"conv1" -> "data" [label="1x28x28" dir="back" arrowtail="open"]' in text
    assert text == mx.viz.plot_network(net, shape=SHAPES["lenet"]).source


def test_nodes_of_one_name_are_warned_of():
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
    summary = mx.viz.print_summary(net, {"data": (6, 4)})
    assert [layer.parameters for layer in summary.layers if layer.name == "fc"] == [15, 0]
    assert "\nTotal params: 15\n" in capsys.readouterr().out


# -- the summary ------------------------------------------------------------------------------


def test_macs_and_parameters_are_those_of_the_literature(capsys):
    """torchvision says 4.09 GMACs and 25.6 million parameters of its ResNet-50."""
    summary = mx.viz.print_summary(visualization_programs.resnet50(mx), {"data": (1, 3, 224, 224)})
    assert (summary.macs, summary.parameters) == (4_089_184_256, 25_557_032)
    layer = next(layer for layer in summary.layers if layer.name == "stem_conv")
    assert (layer.op, layer.shape, layer.inputs) == ("Convolution", (1, 64, 112, 112), ("data",))
    assert (layer.parameters, layer.macs) == (64 * 3 * 49, 64 * 112 * 112 * 3 * 49)
    assert layer.nbytes == 4 * 64 * 112 * 112
    assert "4.09 G" in capsys.readouterr().out and "4.09 G multiply-adds" in repr(summary)


@pytest.mark.parametrize("name", ["perceptron", "lenet", "resnet"])
def test_parameters_are_as_many_as_arrays_have(name, capsys):
    net = visualization_programs.network(mx, name)
    executor = net.simple_bind(mx.cpu(), **SHAPES[name])
    summary = mx.viz.print_summary(net, SHAPES[name])
    assert summary.parameters == sum(array.size for name, array in executor.arg_dict.items()
                                     if name not in ("data", "softmax_label"))


def test_macs_of_loops_are_those_of_all_iterations(capsys):
    """3 rows times a 4 x 4 weight: 7 rows of `foreach`, at most 9 times, and the larger branch."""
    data, state, weight = mx.sym.var("data"), mx.sym.var("state"), mx.sym.var("w")

    def dense(x):
        return mx.sym.FullyConnected(x, weight, num_hidden=4, no_bias=True)

    rows, _ = mx.sym.contrib.foreach(lambda x, s: (dense(x), s), data, state)
    steps, _ = mx.sym.contrib.while_loop(lambda s: mx.sym.sum(s) < 9, lambda s: (dense(s), s + 1),
                                         [state], max_iterations=9)
    branch = mx.sym.contrib.cond(mx.sym.sum(state) > 0, lambda: dense(state),
                                 lambda: dense(dense(state)))
    assert mx.viz.print_summary(rows, {"data": (7, 3, 4), "state": (1,)}).macs == 7 * 3 * 4 * 4
    assert mx.viz.print_summary(steps[0], {"state": (3, 4)}).macs == 9 * 3 * 4 * 4
    assert mx.viz.print_summary(branch, {"state": (3, 4)}).macs == 2 * 3 * 4 * 4


def test_the_summary_has_80_columns_and_every_letter(capsys):
    names = [f"layer{number}_" + "abc" * (number % 40) for number in range(300)]
    net = mx.sym.var("data")
    for name in names:
        net = mx.sym.relu(net, name=name)
    net = mx.sym.FullyConnected(net, num_hidden=1 << 22, no_bias=True, flatten=False,
                                name="\u5c42" * 30 + "\x1b[2J\n")
    shape = (1 << 10, *[1] * 8, 1 << 12)
    summary = mx.viz.print_summary(net, {"data": shape})
    printed = capsys.readouterr().out
    assert printed == f"{summary}\n" and "\x1b" not in printed
    assert max(map(cells_of, printed.splitlines())) == 80
    cells = "".join(line[:32].strip() for line in printed.splitlines())
    assert all(name in cells for name in names) and str(1 << 34) in printed


def test_notebooks_show_the_summary_escaped(capsys):
    net = mx.sym.relu(mx.sym.var("data"), name="<b>")
    shown = mx.viz.print_summary(net, {"data": (2, 3)})._repr_html_()
    assert "<td>&lt;b&gt; (relu)</td><td>2x3</td>" in shown and "<b>" not in shown
