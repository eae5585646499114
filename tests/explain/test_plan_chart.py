"""The picture of a plan: every storage is in its place, in documents, notebooks and the page."""

from __future__ import annotations

import re
from functools import cache
from xml.etree import ElementTree

import pytest

import nbmod as mx
from nbmod.explain.plan_chart import boxes_of, page_chart, plan_chart
from tests.explain.networks import NETWORKS, planned

SVG = "{http://www.w3.org/2000/svg}"
plan_of = cache(planned)


def parts(box):
    """Left, top, right and bottom of an element, in parts of its area."""
    x, y, width, height = (float(box.get(side).rstrip("%")) / 100
                           for side in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


@pytest.mark.parametrize("name", NETWORKS)
def test_every_storage_is_drawn_where_it_is(name):
    plan = plan_of(name).facts.plan
    root = ElementTree.fromstring(page_chart(plan))
    drawn = {int(each.get("data-storage")): each for each in root.iter("rect")
             if each.get("data-storage")}
    assert drawn.keys() == {number for number, each in enumerate(plan.storages) if each.nbytes}
    steps, total = len(plan.steps), plan.memory.total
    sums = [parts(each) for group in root.iter("g") if group.get("class") == "summed"
            for each in group]
    bands = {int(each.get("data-storage")): band for band in root.iter("g")
             if band.get("class") == "band" for each in band.iter("rect")}
    for box in boxes_of(plan):
        storage = plan.storages[box.storage]
        left, top, right, bottom = parts(drawn[box.storage])
        # Places are written with five decimals of a percentage.
        near = {"abs": 2e-7}
        assert left == pytest.approx(storage.first / steps, **near)
        assert right == pytest.approx((steps if storage.held else storage.last + 1) / steps, **near)
        assert (bottom - top) * total == pytest.approx(storage.nbytes, abs=2e-7 * total)
        if storage.offset is not None:
            assert (1 - bottom) * total == pytest.approx(storage.offset, abs=2e-7 * total)
        middle = (top + bottom) / 2
        if box.storage in bands:
            assert any(one[0] <= left + 2e-7 and right <= one[2] + 2e-7
                       and one[1] - 2e-7 <= middle <= one[3] + 2e-7 for one in sums)
            start, size = (float(bands[box.storage].get(side).rstrip("%")) / 100
                           for side in ("y", "height"))
            assert start - 2e-7 <= top and bottom <= start + size + 2e-7
        title = drawn[box.storage].find("title").text
        assert f"{storage.nbytes:,} bytes" in title
        assert all(plan.entries[eid].name in title for eid in storage.entries)


def test_a_picture_stands_alone():
    """It is XML, whatever names there are, and defines every colour that it uses, twice."""
    name = 'a<b&c">'
    executor = mx.sym.exp(mx.sym.Variable("x"), name=name).simple_bind(mx.cpu(), x=(64, 64))
    text = executor.plan_chart()
    root = ElementTree.fromstring(text)
    assert name in root.get("aria-label") and name in repr(text).replace("&lt;", "<").replace(
        "&gt;", ">").replace("&amp;", "&")
    assert [each.text for each in root.iter(f"{SVG}text") if each.get("class") == "title"][
        0].startswith(name)
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert len(used) > 8 and all(text.count(f"{each}:#") == 2 for each in used)


def test_an_explanation_is_a_picture_and_a_table_in_notebooks():
    explanation = plan_of("residual")
    html = explanation._repr_html_()
    chart = plan_chart(explanation.facts.plan, explanation.facts.network.name)
    assert html.startswith(chart)
    table = ElementTree.fromstring(html.removeprefix(chart))
    passes = [[cell.text for cell in row] for row in table.findall("tr")][1:]
    assert [row[0] for row in passes] == [each.name for each in explanation.facts.passes]


def test_a_comparison_has_both_plans_on_one_scale():
    first, second = plan_of("residual"), planned("residual", "reuse_memory")
    answer = first.compare(second)
    root = ElementTree.fromstring(f"<div>{answer._repr_html_()}</div>")
    charts = list(root.iter(f"{SVG}svg"))
    scales = [[text.text for text in each.iter(f"{SVG}text")] for each in charts
              if each.get("class") == "addresses"]
    assert len(scales) == 2 and scales[0] == scales[1]
    rows = [[cell.text or "" for cell in row] for row in root.iter("tr")][1:]
    differences = [int(row[-1].replace(",", "")) for row in rows]
    assert differences[0] == sum(differences[1:]) == (
        second.facts.plan.memory.total - first.facts.plan.memory.total)
    assert answer.data["first"] in "".join(root.itertext())
    assert str(first.compare(first)) in first.compare(first)._repr_html_()


def test_why_there_is_no_plan_is_told_in_notebooks():
    data = mx.sym.Variable("data")
    net = mx.sym.elemwise_add(mx.sym.FullyConnected(data, num_hidden=3, name="a<b"), data)
    explanation = type(plan_of("lenet")).planned(net, {"data": (2, 4)})
    assert explanation.facts.failure is not None
    html = explanation._repr_html_()
    assert ElementTree.fromstring(html).text == str(explanation)
