"""Drawings of networks: what is drawn, where it stands, and the files that it is written to.

Letters are measured as DejaVu Sans Mono has them, the widest of the fonts that a drawing names:
1,233 units of 2,048 (0.602 of the size), 0.93 above and 0.24 below the base line.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.cli.demo import lenet
from nbmod.diagram.layered import Item, place
from nbmod.diagram.repeats import Layers, RepeatedBlock, find_repeats
from nbmod.diagram.symbol_picture import HIDDEN, MOST_BOXES, MOST_NODES
from nbmod.graph import topological_order
from nbmod.imgproc.codecs import decode
from tests.programs import ssd, visualization_programs

sym = mx.sym
SVG = "{http://www.w3.org/2000/svg}"


def unrolled(length: int = 20) -> mx.sym.Symbol:
    """An LSTM of two layers; each step reads a slice of one array."""
    cells = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        cells.add(mx.rnn.LSTMCell(20, prefix=f"lstm_l{layer}_"))
    words = sym.Embedding(sym.Variable("data"), input_dim=50, output_dim=10, name="embed")
    outputs, _ = cells.unroll(length, inputs=words, merge_outputs=True)
    return sym.FullyConnected(outputs, num_hidden=50, name="pred")


def loops() -> mx.sym.Symbol:
    """A loop in a loop, and a choice."""
    data, state = sym.Variable("data"), sym.Variable("state")

    def step(row, total):
        inner, _ = sym.contrib.while_loop(lambda s: sym.sum(s) < 9, lambda s: (s * 2, s + 1),
                                          [total], max_iterations=3)
        return sym.tanh(row) + sym.sum(inner[0]), total + 1

    rows, _ = sym.contrib.foreach(step, data, state)
    return sym.contrib.cond(sym.sum(rows) > 0, lambda: sym.relu(rows), lambda: sym.sigmoid(rows))


def u_shaped() -> mx.sym.Symbol:
    """Arrows over many rows, and labels that are read at the end."""
    x, kept = sym.Variable("data"), []
    for level in range(5):
        x = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4 + level, name=f"down{level}")
        kept.append(sym.relu(x, name=f"kept{level}"))
        x = sym.Pooling(kept[-1], kernel=(2, 2), stride=(2, 2), pool_type="max")
    for level in reversed(range(5)):
        x = sym.Concat(sym.UpSampling(x, scale=2, sample_type="nearest"), kept[level])
        x = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=9 - level, name=f"up{level}")
    return sym.SoftmaxOutput(x, sym.Reshape(sym.Variable("label"), shape=(0, -1)), name="out")


def hostile() -> mx.sym.Symbol:
    """Names that are long, wide, empty, or text of XML, Graphviz or matplotlib."""
    x = sym.Variable("<data a='1'>&amp;")
    for name in ("", "]]>", 'quote"d', "\u5c42\u6b21" * 30, "W" * 300, "$\\frac{$", "a\x00\x1b\nb",
                 "\udc80", "word " * 30):
        x = sym.Convolution(x, kernel=(1, 1), num_filter=1 + len(name), name=name)
    return x


NETWORKS = {"lenet": lenet, "unrolled": unrolled, "loops": loops, "u-shaped": u_shaped,
            "hostile": hostile, "ssd": lambda: ssd.network(mx),
            "variable": lambda: sym.Variable("alone"),
            "resnet50": lambda: visualization_programs.resnet50(mx),
            "mixed": lambda: visualization_programs.network(mx, "mixed")}
SHAPES = {"lenet": {"data": (60, 1, 28, 28)}, "unrolled": {"data": (32, 20)},
          "ssd": {"data": (2, 3, 64, 64), "label": (2, 4, 5)},
          "resnet50": {"data": (1, 3, 224, 224)}, "mixed": {"words": (2, 8)}}


class Rectangle:
    """A box or a text in a drawing."""

    def __init__(self, left, top, right, bottom, what, names=()):
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.what, self.names = what, names

    def holds(self, other):
        slack = 0.06  # coordinates have one digit after the point
        return (self.left - slack <= other.left and self.top - slack <= other.top
                and self.right + slack >= other.right and self.bottom + slack >= other.bottom)

    def meets(self, other):
        slack = 0.11  # that of both
        return (self.left + slack < other.right and other.left + slack < self.right
                and self.top + slack < other.bottom and other.top + slack < self.bottom)


def read(text):
    """The paper, frames, boxes, texts, and the points of lines."""
    root = ElementTree.fromstring(text)
    paper = Rectangle(0, 0, float(root.get("width")), float(root.get("height")), "paper")
    boxes, texts, points = [], [], []
    for part in root:
        if part.tag == SVG + "rect" and part.get("class") != "paper":
            x, y, width, height = (float(part.get(key)) for key in ("x", "y", "width", "height"))
            boxes.append(Rectangle(x, y, x + width, y + height, part.get("class"),
                                   part.find(SVG + "title").text.split("\n")))
        elif part.tag == SVG + "text":
            x, y, size = (float(part.get(key)) for key in ("x", "y", "font-size"))
            texts.append(Rectangle(x, y - 0.93 * size, x + 0.602 * size * len(part.text),
                                   y + 0.24 * size, part.text))
        elif part.get("class") == "line":
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", part.get("d"))]
            points += zip(numbers[::2], numbers[1::2], strict=True)
    frames = [box for box in boxes if box.what == "frame"]
    return paper, frames, [box for box in boxes if box.what != "frame"], texts, points


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_overlaps_or_is_cut(name):
    drawing = mx.viz.plot_network(NETWORKS[name](), shape=SHAPES.get(name))
    paper, frames, boxes, texts, points = read(drawing.svg)
    assert all(paper.holds(part) for part in (*frames, *boxes, *texts))
    assert all(paper.left <= x <= paper.right and paper.top <= y <= paper.bottom
               for x, y in points)
    for number, box in enumerate(boxes):
        assert not any(box.meets(other) for other in boxes[:number])
        assert all(frame.holds(box) or not frame.meets(box) for frame in frames)
    for number, text in enumerate(texts):
        assert any(part.holds(text) for part in (*boxes, *frames)), text.what
        assert not any(text.meets(other) for other in texts[:number]), text.what
    titles = [text for text in texts if not any(box.holds(text) for box in boxes)]
    assert len(titles) >= len(frames) and not any(
        text.meets(box) for text in titles for box in boxes)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_drawn_once_or_folded(name):
    net = NETWORKS[name]()
    _, frames, boxes, _, _ = read(mx.viz.plot_network(net, shape=SHAPES.get(name)).svg)
    drawn = [each for box in boxes for each in box.names]
    folded = [each for frame in frames for each in frame.names]
    names = [re.sub("[\x00-\x1f\ud800-\udfff]", "?", " ".join(node.name.split()))
             for node in topological_order(net.entries)
             if not (node.is_variable and node.name.endswith(HIDDEN))]
    assert {*names} <= {*drawn, *folded}
    assert all(drawn.count(each) <= names.count(each) for each in names)
    assert not {*drawn} - {*names} or "loops" in name  # whose bodies have variables of their own


def test_bodies_of_loops_are_drawn_inside():
    _, frames, boxes, texts, _ = read(mx.viz.plot_network(loops()).svg)
    outer, inner = (next(frame for frame in frames if kind in frame.names[0])
                    for kind in ("foreach", "while_loop"))
    assert outer.holds(inner) and not inner.holds(outer)
    tanh = next(box for box in boxes if box.names[0].startswith("tanh"))
    assert outer.holds(tanh) and not inner.meets(tanh)
    assert {"foreach", "while_loop", "cond"} <= {word for text in texts for word in
                                                  text.what.split()}


def titles(net, shape=None):
    """Of folded blocks: title and number of layers."""
    _, frames, _, texts, _ = read(mx.viz.plot_network(net, shape=shape).svg)
    return [(text.what, len(frame.names)) for text in texts if text.what.startswith("\u00d7")
            for frame in frames if frame.holds(text)]


def test_repeated_blocks_are_counted():
    """A unit of ResNet-50 has 3 convolutions with normalizations, 3 activations and a sum."""
    assert titles(visualization_programs.resnet50(mx), SHAPES["resnet50"]) == [
        (f"\u00d7 {count} stage{stage}_unit2 \u2026 stage{stage}_unit{count + 1}", 10 * count)
        for stage, count in enumerate((2, 3, 5, 2), 1)]
    steps = titles(unrolled(), {"data": (32, 20)})
    assert steps == [("\u00d7 20 lstm_l0_t0_i2h \u2026 lstm_l0_t19_i2h", 27 * 20)]


def test_blocks_of_other_sizes_or_readers_are_not_folded():
    x = y = sym.Variable("data")
    kept = []
    for number in range(6):
        x = sym.relu(sym.Convolution(x, kernel=(1, 1), num_filter=2 + number))
        y = sym.relu(sym.Convolution(y, kernel=(1, 1), num_filter=2))
        kept += [y] * (number in (0, 3))
    assert titles(x) == []
    assert [title[:3] for title, _ in titles(y)] == ["\u00d7 6"]
    assert titles(sym.Group([sym.exp(each) for each in (y, *kept)])) == []


def test_each_step_has_its_own_input():
    """Drawn once in the block; one that all steps share stands outside."""
    state, shared = sym.Variable("start"), sym.Variable("shared")
    for step in range(5):
        state = sym.tanh((sym.Variable(f"x{step}") + state) * shared)
    _, (frame,), boxes, _, _ = read(mx.viz.plot_network(state).svg)
    place = {box.names[0]: box for box in boxes}
    assert {"x0", "x4"} <= {*frame.names} and "x1" not in place
    assert frame.holds(place["x0"])
    assert not frame.meets(place["shared"]) and not frame.meets(place["start"])


def test_inputs_of_two_steps_stand_outside():
    state, inputs = sym.Variable("start"), [sym.Variable(f"x{step}") for step in range(6)]
    for one, other in zip(inputs, inputs[1:], strict=False):
        state = sym.tanh(one * other + state)
    _, (frame,), boxes, _, _ = read(mx.viz.plot_network(state).svg)
    place = {box.names[0]: box for box in boxes}
    assert not any(frame.meets(place[f"x{step}"]) for step in range(1, 5))


def test_shapes_and_types_are_said():
    net = sym.SliceChannel(sym.Variable("data"), num_outputs=2, axis=1, name="halves")
    text = mx.viz.plot_network(net, shape={"data": (3, 4)}, dtype={"data": "float16"}).svg
    assert "\u2192 3\u00d74 float16<" in text and "\u2192 3\u00d72 float16<" in text
    assert "num_outputs=2" in text
    assert "\u2192 5\u00d77<" in mx.viz.plot_network(sym.zeros((5, 7))).svg


def test_a_network_of_contradictory_shapes_is_drawn():
    a, b = sym.Variable("a", shape=(2, 3)), sym.Variable("b", shape=(4, 5))
    assert ">elemwise_add<" in mx.viz.plot_network(a + b).svg
    with pytest.raises(MXNetError):
        mx.viz.plot_network(a + b, shape={"a": (2, 3)})


def test_weights_are_drawn_on_demand():
    def names(**options):
        return {box.names[0] for box in read(mx.viz.plot_network(lenet(), **options).svg)[2]}

    assert names(hide_weights=False) - names() == {
        f"{layer}_{kind}" for layer in ("conv1", "conv2", "fc1", "fc2")
        for kind in ("weight", "bias")}


def test_graphs_of_any_depth_are_drawn():
    chain = sym.Variable("data")
    for number in range(20_000):
        chain = sym.relu(chain, name=f"r{number}")
    (title, count), = titles(chain)
    assert (title, count) == ("\u00d7 20000 r0 \u2026 r19999", 20_000)


def test_tall_networks_have_columns_and_far_arrows_are_told():
    """A column of 400 boxes would be 60 times as high as wide."""
    first = x = sym.relu(sym.Variable("data"), name="first")
    for number in range(400):
        x = sym.Convolution(x, kernel=(1, 1), num_filter=1 + number, name=f"conv{number}")
    drawing = mx.viz.plot_network(x + first)
    paper, _, boxes, _, _ = read(drawing.svg)
    assert 0.5 < paper.right / paper.bottom < 3 and len({box.left for box in boxes}) > 10
    assert ">also reads first<" in drawing.svg


def test_every_kind_has_a_colour_for_dark_screens():
    text = mx.viz.plot_network(loops()).svg + mx.viz.plot_network(lenet()).svg
    style = text[text.index("@media (prefers-color-scheme: dark)"):text.index("</style>")]
    kinds = set(re.findall(r'<(?:rect|text|path) class="([\w-]+)"', text))
    assert len(kinds) > 8 and all(f".nbmod-net .{kind}{{" in style for kind in kinds)


# -- files ------------------------------------------------------------------------------------


def test_files_have_the_names_that_graphviz_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawing = mx.viz.plot_network(lenet(), title="net", save_format="svg")
    assert drawing.render() == "net.gv.svg" and drawing.save() == "net.gv"
    assert (tmp_path / "net.gv").read_text(encoding="utf-8") == drawing.source
    written = drawing.render("my.net", directory="a/b")
    assert tmp_path / written == tmp_path / "a" / "b" / "my.net.svg"
    assert (tmp_path / written).read_text(encoding="utf-8") == drawing.svg == drawing._repr_svg_()
    drawing.format = "dot"
    assert drawing.render("x") == "x.dot" and (tmp_path / "x.dot").read_bytes()[:7] == b"digraph"
    assert (drawing.pipe("svg").decode(), drawing.pipe().decode()) == (drawing.svg, drawing.source)
    assert "net" in repr(drawing)


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats_are_drawn_by_matplotlib(tmp_path, kind, start):
    pytest.importorskip("matplotlib")
    drawing = mx.viz.plot_network(loops(), save_format=kind)
    assert Path(drawing.render(tmp_path / "net")).read_bytes().startswith(start)
    with pytest.raises(MXNetError, match=r"net\.bmq: not written: .*expected one of .*png"):
        drawing.render(tmp_path / "net", format="bmq")


def test_pictures_of_pixels_are_not_larger_than_matplotlib_can(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawing = mx.viz.plot_network(lenet())
    monkeypatch.setattr("nbmod.diagram.rendering.LARGEST", 200)
    height, width, _ = decode(Path(drawing.render(tmp_path / "a", format="png")).read_bytes()).shape
    assert height == 250 and 100 < width < 200  # matplotlib's 120 dots for 96 pixels


def test_view_opens_the_file(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = mx.viz.plot_network(lenet(), save_format="svg").view(tmp_path / "net")
    assert opened == [(tmp_path / "net.svg").as_uri()] and path == str(tmp_path / "net.svg")


# -- notebooks --------------------------------------------------------------------------------


def test_notebooks_draw_symbols_that_fit(monkeypatch):
    assert lenet()._repr_svg_().startswith("<svg ") and ">conv1<" in lenet()._repr_svg_()
    wide = sym.Group([sym.Variable(f"x{number}") for number in range(MOST_BOXES + 1)])
    assert wide._repr_svg_() is None
    many = sym.Group([sym.Variable("x")] * 2 + [sym.Variable(f"fc{number}_weight")
                                                for number in range(MOST_NODES)])
    assert many._repr_svg_() is None
    monkeypatch.setattr("nbmod.diagram.symbol_picture.draw_graph", lambda *args: 1 // 0)
    assert lenet()._repr_svg_() is None


# -- places and repeats -----------------------------------------------------------------------


def test_blocks_with_shortcuts_stand_below_each_other():
    """A box of one block does not push the next block aside."""
    items, edges = [Item(100.0, 30.0, 50.0)], []
    for at in range(0, 80, 2):
        items += [Item(200.0, 40.0, 100.0), Item(80.0, 20.0, 40.0)]
        edges += [(at, at + 1), (at + 1, at + 2), (at, at + 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbmod.diagram.layered.TALL", float("inf"))
        placed = place(items, edges)
    assert placed.width < 300 and placed.height > 80 * 50
    joins = [x + items[at].enter for at, (x, _) in enumerate(placed.corners) if at % 2 == 0]
    assert max(joins) - min(joins) < 20


def test_what_labels_go_through_stands_above_their_reader():
    """data -> three boxes -> loss <- reshape <- label."""
    items, edges = [Item(50.0, 20.0, 25.0)] * 7, [(0, 2), (2, 3), (3, 4), (1, 5), (4, 6), (5, 6)]
    rows = [y for _, y in place(items, edges).corners]
    assert rows[1] == rows[3] and rows[5] == rows[4] < rows[6] and rows[0] == min(rows)


def test_repeats_begin_where_least_is_read_across():
    """Two layers before and one after are alike to those in blocks `a b c`."""
    kinds = "xbcabcabcabcay"
    chain = Layers([f"n{at}" for at in range(len(kinds))], kinds,
                   [[at - 1] if at else [] for at in range(len(kinds))])
    repeat, = find_repeats(chain)
    assert (repeat.period, repeat.copies) == (3, 4) and repeat.stop <= len(kinds) - 1
    # every c is also read by the next c: a block ends with it
    reads = [[at - 1, at - 3] if kind == "c" and at > 2 else [at - 1] if at else []
             for at, kind in enumerate(kinds)]
    assert find_repeats(chain._replace(reads=reads)) == [RepeatedBlock(3, 3, 3)]


def test_the_longer_part_of_overlapping_repeats_is_folded():
    """`abc` three times, then `cd` five times: the c between belongs to one of them only."""
    kinds = "abcabcabcdcdcdcdcd"
    layers = Layers(kinds, kinds, [[at - 1] if at else [] for at in range(len(kinds))])
    found = find_repeats(layers)
    assert [(one.period, one.copies) for one in found] in ([(3, 2), (2, 5)], [(3, 3), (2, 4)])
    covered = [at for one in found for at in range(one.start, one.stop)]
    assert len(covered) == len({*covered})
