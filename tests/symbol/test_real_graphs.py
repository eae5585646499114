"""Graphs of real models: each loads, is written as it was, and infers MXNet's shapes.

They are stored beside the checkout, not in it; without them everything here is skipped. A graph
with ops that nbmod does not have is skipped and named, but only for ops known to come later.
"""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from bench.real_graphs import ARCHIVES, FOLDER, PUBLIC, records, texts
from nbmod import MXNetError, sym
from nbmod.ops import OPS

# Ops that may be missing: the channelwise convolution is of a fork, unknown to MXNet, too.
LATER = re.compile(r"ChannelwiseConvolution")

IMAGES = [(1, 3, 224, 224), (1, 3, 480, 480), (1, 3, 512, 512), (1, 3, 32, 32), (1, 3, 300, 300),
          (1, 3, 600, 800), (1, 3, 1024, 1024), (1, 3, 8, 224, 224), (1, 3, 32, 224, 224),
          (1, 3, 64, 224, 224), (1, 3, 80, 224, 224)]  # fmt: skip
SEQUENCES = [(4, 35), (4, 5), (35, 4)]
CANDIDATES = [{"data": shape, "data0": shape, "label": (1, 8, 5), "im_info": (1, 3)}
              for shape in IMAGES + SEQUENCES]  # fmt: skip


MISSING: dict[str, list[str]] = {}


@pytest.fixture(scope="module", autouse=True)
def missing_ops(pytestconfig):
    """Report at the end which graphs lack which ops."""
    yield
    plugin = pytestconfig.pluginmanager.get_plugin
    with plugin("capturemanager").global_and_fixture_disabled():
        for ops, names in sorted(MISSING.items()):
            plugin("terminalreporter").write_line(
                f"\n{len(names)} graphs wait for {ops}: {', '.join(names)}")  # fmt: skip


@cache
def loaded(name):
    missing = {node["op"] for node in records(name)["nodes"]} - {"null"} - set(OPS)
    surprising = sorted(op for op in missing if not LATER.match(op))
    assert not surprising, f"nbmod should have {surprising}"
    if missing:
        ops = ", ".join(sorted(missing))
        if name not in MISSING.setdefault(ops, []):
            MISSING[ops].append(name)
        pytest.skip(f"the graph needs ops that nbmod does not have: {ops}")
    return sym.load_json(texts()[name])


def is_current(name):
    return records(name).get("attrs", {}).get("mxnet_version", ["int", 800])[1] >= 10901


every_graph = pytest.mark.parametrize("name", sorted(texts()) or [None])
pytestmark = pytest.mark.skipif(not ARCHIVES, reason=f"NO REAL GRAPHS in {FOLDER}")


def structure(record):
    """Everything but write counts and the version of the file."""
    nodes = [(n["op"], n["name"], n.get("attrs", {}), [entry[:2] for entry in n["inputs"]])
             for n in record["nodes"]]  # fmt: skip
    return nodes, [head[:2] for head in record["heads"]], record.get("node_row_ptr")


@every_graph
def test_round_trip(name):
    written = loaded(name).tojson()
    if is_current(name):
        assert structure(json.loads(written)) == structure(records(name))
    else:
        assert sym.load_json(written).tojson() == written


@every_graph
def test_shapes_are_mxnets(name, oracle):
    internals = loaded(name).get_internals()
    if any(node["op"] == "Custom" for node in records(name)["nodes"]):
        with pytest.raises(MXNetError, match="no custom operator is registered as"):
            internals.infer_shape_partial(data=(1, 3, 600, 800))
        return  # MXNet does not load it either
    want = oracle.call("mx_symbol.shapes", texts()[name], CANDIDATES)
    if want is None:
        pytest.fail("MXNet infers nothing from these shapes: add some that fit to CANDIDATES")
    shapes = internals.infer_shape_partial(**want["known"])
    got = dict(zip(("arguments", "internals", "aux"), shapes, strict=True))
    names = {"arguments": internals.list_arguments(), "aux": internals.list_auxiliary_states(),
             "internals": internals.list_outputs()}  # fmt: skip
    for part in got:
        wrong = [(n, g, w) for n, g, w in zip(names[part], got[part], want[part], strict=True)
                 if g != tuple(w)]  # fmt: skip
        assert not wrong, f"{part}: {len(wrong)} differ, (name, nbmod, MXNet): {wrong[:5]}"


def old_files():
    return [path.name for path in PUBLIC]


@pytest.mark.parametrize("name", old_files() or [None])
def test_old_files_become_what_mxnet_makes_of_them(name, oracle):
    ours = loaded(name).tojson()
    theirs = oracle.call("mx_symbol.rewrite", texts()[name])
    assert structure(json.loads(ours)) == structure(json.loads(theirs))
