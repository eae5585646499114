"""Charts of the kernel bench: what stands in them, and that no label hides another."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import numpy as np
import pytest

from nbmod import bench
from nbmod.bench import charts, roofline_chart
from nbmod.bench.charts import THEME, Bar
from nbmod.bench.roofs import Roofs, share_of_roof
from nbmod.diagram.picture import SIZES

SVG = "{http://www.w3.org/2000/svg}"
ROOFS = Roofs(2, {"float32": 155e9, "float64": 77e9, "int8": 1.2e12, "float32 128 bits": 6e10},
              {"L1": 890e9, "L2": 890e9, "L3": 151e9, "memory": 24e9, "copy": 15e9},
              {"L1": 96 << 10, "L2": 4 << 20, "L3": 32 << 20}, "2026-01-01",
              spread={"memory": 0.3, "L3": 0.05})


def row(name, operations, nbytes, seconds):
    share = share_of_roof(seconds, operations, nbytes, roofs=ROOFS)
    return {"name": name, "seconds": seconds, "operations": operations, "nbytes": nbytes,
            "share": {"value": share.value, "roof": share.roof}}


def areas(svg):
    """Left, top, right and bottom of every text, whose letters take 0.6 of its size."""
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        size = SIZES[text.get("class")]
        width = 0.6 * size * len(text.text)
        left = float(text.get("x")) - {None: 0, "middle": 0.5, "end": 1}[
            text.get("text-anchor")] * width
        y = float(text.get("y"))
        yield text.text, (left, y - 0.75 * size, left + width, y + 0.2 * size)


def assert_readable(svg):
    """All texts are in the picture, and none covers another."""
    root = ElementTree.fromstring(svg)
    texts = list(areas(svg))
    for text, (left, top, right, bottom) in texts:
        assert left >= 0 and top >= 0, text
        assert right <= float(root.get("width")) and bottom <= float(root.get("height")), text
    for (one, a), (other, b) in combinations(texts, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one, other)


def test_bars_have_names_values_and_whiskers():
    rows = [{"name": "axpy", "seconds": 3.4e-6, "baseline": "old", "ratio": 0.871,
             "interval": [0.86, 0.88], "verdict": "FASTER"},
            {"name": "a_test_with_a_very_long_name[parameter]", "seconds": 1.0, "baseline": "old",
             "ratio": 1.5, "interval": [0.0, float("inf")], "verdict": "UNDECIDED"},
            {"name": "alone", "seconds": 1.0, "ratio": None}]
    svg = charts.of_results(rows)
    assert_readable(svg)
    assert "0.871 FASTER, 3.40 us" in svg and "alone" not in svg and "inf" not in svg
    root = ElementTree.fromstring(svg)
    assert len([line for line in root.iter(f"{SVG}path") if line.get("class") == "whisker"]) == 3
    widths = {box.find(f"{SVG}title").text: float(box.get("width"))
              for box in root.iter(f"{SVG}rect") if box.get("class") in ("first", "second")}
    assert widths["axpy: 0.871 FASTER, 3.40 us"] == pytest.approx(0.871 * widths["old: 1"], abs=0.1)


def test_a_series_has_one_colour():
    svg = charts.comparison("title", [("a", [Bar("x", 1.0), Bar("y", 2.0)]),
                                      ("b", [Bar("y", 1.0), Bar("z", 0.0)])], "axis")
    assert_readable(svg)
    kinds = [box.get("class") for box in ElementTree.fromstring(svg).iter(f"{SVG}rect")
             if box.get("class") != "paper"]
    assert kinds == ["first", "second", "second", "third"]
    assert_readable(charts.comparison("nothing", [], "axis"))


@pytest.mark.parametrize("count, seed", [(1, 0), (12, 1), (60, 2)])
def test_kernels_stand_under_the_roofs(count, seed):
    generator = np.random.default_rng(seed)
    rows = [row(f"stage{k % 4}_unit{k // 4}_convolution", 10 ** generator.uniform(6, 9),
                10 ** generator.uniform(5, 7), 10 ** generator.uniform(-2.5, -1))
            for k in range(count)]
    svg = roofline_chart.roofline(rows, ROOFS)
    assert_readable(svg)
    points = [box for box in ElementTree.fromstring(svg).iter(f"{SVG}rect")
              if box.get("class") == "point"]
    assert len(points) == count
    labels = [text for text, _ in areas(svg) if "_convolution" in text]
    assert len(labels) == count, "every kernel has a name, at its point or in the list"
    texts = [text for text, _ in areas(svg)]
    assert {"L1, L2 890 GB/s", "L3 151 GB/s", "memory ~24.0 GB/s", "float32 155",
            "float64 77.0"} <= {*texts} and not any("int8" in text for text in texts)


def test_kernels_without_operations_are_listed():
    svg = roofline_chart.roofline([row("copy", 0, 8e7, 4e-3), row("dot", 1e9, 1e6, 1e-2)], ROOFS)
    assert_readable(svg)
    assert "Without operations: copy 20.0 GB/s, 83% of memory" in svg
    assert "dot 100, 65%" in svg
    assert_readable(roofline_chart.roofline([row("copy", 0, 8e7, 4e-3)], ROOFS))


def test_a_result_has_a_chart(monkeypatch):
    monkeypatch.setattr(sys.modules[bench.Result.__module__], "measured_roofs", lambda: ROOFS)
    assert ">absolute</text>" in bench.compare(np.negative, np.abs, np.ones(9), seconds=0.01).svg()
    assert ">memory ~24.0 GB/s</text>" in bench.measure(np.abs, np.ones(9), seconds=0.01).svg()


def luminance(colour):
    """As WCAG 2 defines it."""
    parts = np.array([int(colour[k:k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.dot(np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4),
                  [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colours", [THEME.light, THEME.dark], ids=["light", "dark"])
def test_texts_and_bars_stand_out(colours):
    """WCAG 2 asks for a contrast of 4.5 between a text and its ground, and 3 for shapes."""
    for kind, colour in colours.items():
        light, dark = sorted(map(luminance, (colour, colours["paper"])), reverse=True)
        least = {"paper": 0, "outline": 0, "grid": 0}.get(kind, 4.5 if kind in SIZES else 3)
        assert (light + 0.05) / (dark + 0.05) >= least, kind
    svg = charts.comparison("title", [], "axis")
    assert "@media (prefers-color-scheme: dark)" in svg and THEME.dark.keys() == THEME.light.keys()
