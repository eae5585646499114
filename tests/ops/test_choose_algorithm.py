"""Which algorithm computes a convolution."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.core.config import CONFIG, tuning
from nbmod.ops.blocked import autotune, choose_algorithm
from nbmod.ops.blocked.address_tables import Sliding
from nbmod.ops.blocked.layout import LANES

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
SAME = Sliding((3, 3), pad=(1, 1))
WIDE = max(LANES, 8)
"""Filters that are worth blocks of channels."""


def layer(batch, channels, size, fresh=False, slide=SAME):
    return choose_algorithm.Layer(slide, batch, channels, (size, size), channels, (size, size),
                                  fresh)


@pytest.fixture(autouse=True)
def all_tiles(monkeypatch):
    """The tiles that the environment allows, for all others."""
    monkeypatch.delenv("NBMOD_WINOGRAD", raising=False)
    monkeypatch.setattr(CONFIG, "winograd", 4)


@pytest.mark.parametrize("slide", [
    Sliding((1, 1)), Sliding((3, 3), (2, 2), (1, 1)), Sliding((3, 3), pad=(2, 2), dilate=(2, 2)),
    Sliding((3, 3), pad=(1, 1), groups=2), Sliding((3, 3), pad=(3, 3)), Sliding((5, 5))])
def test_other_geometries_are_computed_directly(slide):
    given = layer(2, 64, 28, slide=slide)
    assert choose_algorithm.candidates(given) == [choose_algorithm.DIRECT]
    assert choose_algorithm.choose(given) == (choose_algorithm.DIRECT, "")


@pytest.mark.parametrize("most, expected", [(0, [0]), (2, [0, 2]), (4, [0, 2, 4])])
def test_what_the_environment_allows(most, expected, monkeypatch):
    monkeypatch.setattr(CONFIG, "winograd", most)
    assert choose_algorithm.candidates(layer(2, 64, 28)) == expected
    assert choose_algorithm.estimated(layer(16, 64, 56)).algorithm == expected[-1]


@pytest.mark.skipif(LANES != 16, reason="the sizes are those of 16 lanes")
@pytest.mark.parametrize("batch, channels, size, fresh, expected", [
    (16, 64, 56, False, 4), (16, 64, 56, True, 4), (16, 512, 7, False, 4), (16, 512, 7, True, 4),
    (1, 64, 224, False, 4), (1, 512, 28, False, 4), (1, 512, 28, True, 4),
    (1, 512, 14, False, 2), (1, 512, 7, False, 0), (1, 512, 7, True, 0), (1, 16, 3, False, 0)])
def test_tiles_pay_where_images_are_large_beside_filters(batch, channels, size, fresh, expected):
    """The choices that are the fastest where the constants were measured."""
    assert choose_algorithm.estimated(layer(batch, channels, size, fresh)).algorithm == expected


# -- autotuning ----------------------------------------------------------------------------------

@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of its own, without measurements."""
    monkeypatch.setattr(CONFIG, "cache_dir", tmp_path / "kept")
    monkeypatch.setattr(autotune, "_measured", {})
    return tmp_path / "kept"


def forget():
    """Forget the measurements, as in a new process."""
    autotune._measured.clear()


def write(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / autotune.FILE).write_bytes(text if isinstance(text, bytes) else text.encode())


def stored(folder, **times):
    """Times of a small layer, as if they had been measured."""
    small = layer(1, LANES, 5)
    write(folder, json.dumps({autotune.machine(): {small.key: times}}))
    return small


DIRECT_WINS = {"direct": 1.0, "F(2x2)": 2.0, "F(4x4)": 3}
SMALL_WINS = {"direct": 2.0, "F(2x2)": 1.0, "F(4x4)": 3.0}
LARGE_WINS = {"direct": 3.0, "F(2x2)": 2.0, "F(4x4)": 1.0}


@pytest.mark.parametrize("times, expected", [(DIRECT_WINS, 0), (SMALL_WINS, 2), (LARGE_WINS, 4)])
def test_the_fastest_is_chosen(times, expected, folder):
    found = choose_algorithm.choose(stored(folder, **times))
    assert found.algorithm == expected
    assert found.why.startswith("measured: direct ")


def test_only_what_is_allowed_is_chosen(folder, monkeypatch):
    small = stored(folder, **LARGE_WINS)
    for most in (2, 0):
        monkeypatch.setattr(CONFIG, "winograd", most)
        assert choose_algorithm.choose(small).algorithm == most


@pytest.mark.parametrize("fresh", [False, True])
def test_measured_once(fresh, folder, monkeypatch):
    small = layer(1, LANES, 5, fresh)
    with tuning():
        first = choose_algorithm.choose(small)
    assert first.why.startswith("measured: ")
    kept = json.loads((folder / autotune.FILE).read_text())
    assert list(kept) == [autotune.machine()] and list(kept[autotune.machine()]) == [small.key]
    times = kept[autotune.machine()][small.key]
    assert set(times) == {"direct", "F(2x2)", "F(4x4)"} and all(map(math.isfinite, times.values()))
    forget()
    monkeypatch.setattr(autotune, "measure", None)
    with tuning():
        assert choose_algorithm.choose(small) == first
    assert choose_algorithm.choose(small) == first
    assert choose_algorithm.choose(layer(2, LANES, 5, fresh)).why != first.why


def convolution(data="data", name="conv"):
    return mx.sym.Convolution(mx.sym.Variable(data), kernel=(3, 3), pad=(1, 1), num_filter=WIDE,
                              name=name)


def buckets(tune, shape):
    """Two buckets, of which the second is bound when its batch comes."""
    def draw(size):
        x = mx.sym.Pooling(convolution(), global_pool=True, kernel=(1, 1), pool_type="avg")
        return mx.sym.MakeLoss(x), ["data"], None

    module = mx.mod.BucketingModule(draw, 8)
    module.bind([("data", shape(8))], tune=tune)
    module.init_params()
    module.switch_bucket(4, [("data", shape(4))])


def sequence(tune, shape):
    """Two modules, and one without convolutions."""
    row = mx.mod.SequentialModule()
    row.add(mx.mod.Module(convolution(), label_names=None))
    row.add(mx.mod.Module(convolution(name="two"), label_names=None), auto_wiring=True)
    row.add(mx.mod.PythonLossModule(data_names=["two_output"]), take_labels=True)
    row.bind([("data", shape(8))], [("softmax_label", (2,))], tune=tune)


@pytest.mark.parametrize("bind, expected", [(buckets, [8, 4]), (sequence, [8])])
def test_modules_of_modules_measure(bind, expected, folder, monkeypatch):
    """A shape is measured once for all modules."""
    measured = []

    def measure(key, runs):
        measured.append(key)
        autotune._measured[autotune.machine(), key] = dict.fromkeys(runs, 1.0)
        return autotune._measured[autotune.machine(), key]

    def shape(size):
        return 2, WIDE, size, size

    monkeypatch.setattr(autotune, "measure", measure)
    bind(False, shape)
    assert measured == []
    bind(True, shape)
    assert measured == [layer(2, WIDE, size, True).key for size in expected]


def test_what_others_have_found_is_kept(folder):
    write(folder, json.dumps({"another machine": {"a layer": {"direct": 1.0}},
                              autotune.machine(): {"a layer": {"direct": 2.0}}}))
    autotune.measure("mine", {"direct": lambda: None})
    kept = json.loads((folder / autotune.FILE).read_text())
    assert kept["another machine"] == {"a layer": {"direct": 1.0}}
    assert set(kept[autotune.machine()]) == {"a layer", "mine"}
    files = [path for path in folder.iterdir() if path.is_file()]  # kernels are in folders
    assert {path.suffix for path in files} <= {".json", ".lock"}


def damaged():
    """Files without measurements, malformed at every depth."""
    leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
    some = st.recursive(leaf, lambda of: st.one_of(st.lists(of, max_size=3), st.dictionaries(
        st.sampled_from(["direct", "F(2x2)", "F(4x4)", "x"]), of, max_size=4)), max_leaves=8)
    key = layer(1, LANES, 5).key
    return st.one_of(
        st.binary(max_size=60), st.just(b"[" * 100_000),
        some.map(lambda it: json.dumps(it).encode()),
        some.map(lambda it: json.dumps({autotune.machine(): it}).encode()),
        some.map(lambda it: json.dumps({autotune.machine(): {key: it}}).encode()),
        st.integers(0, 200).map(lambda n: json.dumps({autotune.machine(): {key: SMALL_WINS}}
                                                     ).encode()[:n]))


@given(damaged())
@settings(deadline=None, max_examples=200,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_as_good_as_none(folder, text):
    """Its numbers may be misread as times; there is no other effect, and measuring repairs it."""
    small = layer(1, LANES, 5)
    write(folder, text)
    forget()
    assert choose_algorithm.choose(small).algorithm in (0, 2, 4)
    autotune.measure(small.key, dict.fromkeys(SMALL_WINS, lambda: None))
    forget()
    assert set(autotune.recall(small.key)) == set(SMALL_WINS)


@pytest.mark.parametrize("obstacle", ["a file", "a folder in its place", "nothing is kept"])
def test_where_nothing_can_be_written(obstacle, folder, monkeypatch):
    """Measurements remain valid in this process."""
    if obstacle == "a file":
        folder.write_text("not a folder")
    elif obstacle == "a folder in its place":
        (folder / autotune.FILE).mkdir(parents=True)
    else:
        monkeypatch.setattr(CONFIG, "cache", False)
    small = layer(1, LANES, 5)
    with tuning():
        found = choose_algorithm.choose(small)
    assert found.why.startswith("measured: ") and choose_algorithm.choose(small) == found
    if folder.is_dir():
        assert not [path for path in folder.iterdir() if path.is_file() and path.stat().st_size]
    forget()
    assert not choose_algorithm.choose(small).why.startswith("measured")


KEEPER = """
import sys
from nbmod.ops.blocked import autotune
for k in range(20):
    autotune._store(f"{sys.argv[1]} {k}", {"direct": 1.0})
"""


def test_processes_that_write_at_once_lose_nothing(folder):
    environment = os.environ | {"NBMOD_CACHE_DIR": str(folder)}
    running = [subprocess.Popen([sys.executable, "-c", KEEPER, str(n)], env=environment)
               for n in range(3)]
    assert [process.wait(timeout=120) for process in running] == [0] * 3
    assert len(autotune._read()[autotune.machine()]) == 60


def network():
    x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=16, kernel=(3, 3), pad=(1, 1),
                           name="first")
    return mx.sym.Convolution(mx.sym.relu(x), num_filter=20, kernel=(3, 3), name="second")


def bound(symbol, how, tune, shape=(2, 16, 9, 9)):
    """An executor, bound in one of three ways."""
    if how == "module":
        module = mx.mod.Module(symbol, label_names=None, context=mx.cpu())
        module.bind([("data", shape)], for_training=False, tune=tune)
        return module._exec_group.execs[0]
    if how == "simple_bind":
        return symbol.simple_bind(mx.cpu(), grad_req="null", tune=tune, data=shape)
    names, shapes = symbol.list_arguments(), symbol.infer_shape(data=shape)[0]
    arrays = {name: mx.nd.zeros(size) for name, size in zip(names, shapes, strict=True)}
    return symbol.bind(mx.cpu(), arrays, tune=tune)


@pytest.mark.parametrize("how", ["bind", "simple_bind", "module", "environment"])
def test_who_asks_for_it_gets_what_was_measured(how, folder, monkeypatch):
    symbol, way = network(), "bind" if how == "environment" else how
    assert "measured" not in bound(symbol, way, False).debug_str()
    monkeypatch.setattr(CONFIG, "tune", how == "environment")
    text = bound(symbol, way, how != "environment").debug_str()
    assert text.count("(measured: direct ") == 2
    monkeypatch.setattr(CONFIG, "tune", False)
    forget()
    assert bound(symbol, way, False).debug_str().count("(measured: direct ") == 2
    with mx.exact():
        assert "measured" not in bound(symbol, way, True).debug_str()


@pytest.mark.parametrize("times", [DIRECT_WINS, SMALL_WINS, LARGE_WINS])
def test_whatever_is_chosen_gives_the_same(times, folder, monkeypatch):
    """To 4e-5 of the largest element, as in test_blocked_layout."""
    monkeypatch.setattr(autotune, "recall", lambda layer: times)
    symbol, random = network(), np.random.RandomState(3)
    found = bound(symbol, "simple_bind", False)
    with mx.exact():
        expected = bound(symbol, "simple_bind", False)
    for name, array in found.arg_dict.items():
        array[:] = random.randn(*array.shape)
        expected.arg_dict[name][:] = array
    mine, other = (each.forward()[0].asnumpy() for each in (found, expected))
    np.testing.assert_allclose(mine, other, rtol=0, atol=4e-5 * abs(other).max())
