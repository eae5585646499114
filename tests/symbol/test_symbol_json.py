"""Symbol JSON: every dialect, MXNet's bytes, and damage that only raises MXNetError."""

from __future__ import annotations

import copy
import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbmod import sym
from nbmod.base import MXNetError
from nbmod.ops import OPS
from nbmod.symbol import json_text
from tests.call_counts import calls_of

CURRENT = {"mxnet_version": ["int", 10901]}


def version(number):
    return {"mxnet_version": ["int", number]}


def variable(name, **fields):
    return {"op": "null", "name": name, "inputs": [], **fields}


def node(op, inputs, name="n", **fields):
    return {"op": op, "name": name, "inputs": inputs, **fields}


def graph(*nodes, attrs=CURRENT, heads=None, **fields):
    record = {"nodes": list(nodes),
              "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"],
              "heads": heads or [[len(nodes) - 1, 0, 0]], **fields}  # fmt: skip
    return json.dumps(record if attrs is None else {**record, "attrs": attrs})


X, W, B = variable("x"), variable("w"), variable("b")
STATS = [variable("g"), variable("be"), variable("mm"), variable("mv")]
FC_IN, BN_IN = [[0, 0], [1, 0], [2, 0]], [[i, 0] for i in range(5)]

# Files that MXNet reads; what it writes again is what nbmod must write.
DIALECTS = {
    "plain": graph(X, node("exp", [[0, 0, 0]])),
    "0.8": graph(X, node("exp", [[0, 0]], backward_source_id=-1), attrs=None),
    "1.5": graph(X, node("exp", [[0, 0, 0]]), attrs=version(10500)),
    "alias": graph(X, node("identity", [[0, 0, 0]])),
    "another order": graph(B, W, node("elemwise_add", [[1, 0, 0], [0, 0, 0]])),
    "unreachable": graph(X, W, node("exp", [[0, 0, 0]])),
    "equal names": graph(X, X, node("elemwise_add", [[0, 0, 0], [1, 0, 0]])),
    "several heads": graph(X, node("exp", [[0, 0]]), heads=[[1, 0, 0], [1, 0, 0], [0, 0, 0]]),
    "control": graph(X, node("exp", [[0, 0]], "c"), node("sin", [[0, 0]], control_deps=[1])),
    "attribute of an op without parameters": graph(X, node("exp", [[0, 0]], attrs={"zz": "1"})),
    "junk in hidden attributes": graph(
        variable("x", attrs={"__init__": "<mxnet.Xavier object>", "__shape__": "zzz"}),
        node("exp", [[0, 0]])),
    "param and attr": graph(
        X, W, B, node("FullyConnected", FC_IN, param={"num_hidden": "2"},
                      attr={"ctx_group": "d", "weight_lr_mult": "3", "bias_wd_mult": "5"}),
        attrs=None),
    "attr": graph(X, variable("w", attr={"lr_mult": "2"}), B,
                  node("FullyConnected", FC_IN, attr={"num_hidden": "2", "weight_lr_mult": "3",
                                                      "lr_mult": "7"}), attrs=version(901)),
    "a variable's legacy attributes": graph(
        variable("w", attr={"weight_lr_mult": "2", "wd_mult": "0", "__lr_mult__": "9",
                            "lr_mult": "3"}), node("exp", [[0, 0]]), attrs=None),
    "missing states": graph(
        X, *STATS[:2], node("BatchNorm", BN_IN[:3], "bn", param={"eps": "0.001"},
                            attr={"ctx_group": "q", "__z__": "1"}), attrs=None),
    "missing weights": graph(
        X, node("FullyConnected", [[0, 0]], "fc", param={"num_hidden": "2"}), attrs=None),
    "initializers of 0.9.3": graph(
        X, *STATS[:3], variable("mv", attr={"__init__": "mine"}),
        node("BatchNorm", BN_IN, "bn", attr={"eps": "0.1"}), attrs=version(903)),
    "prelu of 0.8": graph(X, W, node("LeakyReLU", [[0, 0], [1, 0]], param={"act_type": "prelu"}),
                          attrs=None),
    "prelu of 0.9.4": graph(X, W, node("LeakyReLU", [[0, 0], [1, 0]], attr={"act_type": "prelu"}),
                            attrs=version(904)),
    **{f"argmax of {v}": graph(X, node("argmax", [[0, 0]], attr={"axis": "-1"}), attrs=version(v))
       for v in (904, 905, 10901)},
    "long integers": graph(X, node("Reshape", [[0, 0]], attr={"shape": "(2L, -1L)"}), attrs=None),
    "numpy shapes": graph(X, node("exp", [[0, 0]]), attrs={**CURRENT, "is_np_shape": ["int", 1]}),
}  # fmt: skip


@pytest.fixture(scope="module")
def rewritten(oracle):
    return dict(zip(DIALECTS, oracle.call("mx_symbol.rewrite_all", list(DIALECTS.values())),
                    strict=True))  # fmt: skip


def without_versions(text):
    """Entries without the write counts, which MXNet keeps as they are in an old file."""
    record = json.loads(text)
    for n in record["nodes"]:
        n["inputs"] = [entry[:2] for entry in n["inputs"]]
    return record


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(dialect, rewritten):
    ours = sym.load_json(DIALECTS[dialect]).tojson()
    assert without_versions(ours) == without_versions(rewritten[dialect])
    assert sym.load_json(ours).tojson() == ours
    if "BatchNorm" not in ours:
        assert ours == rewritten[dialect]


def test_mxnet_reads_what_is_written(oracle):
    written = [sym.load_json(text).tojson() for text in DIALECTS.values()]
    assert oracle.call("mx_symbol.rewrite_all", written) == written


def test_a_later_version_is_read_with_a_warning():
    with pytest.warns(UserWarning, match="20000"):
        sym.load_json(graph(X, node("exp", [[0, 0]]), attrs=version(20000)))


@pytest.mark.filterwarnings("ignore:symbol JSON was written by a later MXNet")
def test_a_later_version_may_mean_something_by_an_attribute():
    with pytest.raises(MXNetError, match="node 1 e .exp.: .*unknown parameter 'zz'"):
        sym.load_json(graph(X, node("exp", [[0, 0]], "e", attrs={"zz": "1"}), attrs=version(20000)))


def test_files(tmp_path):
    net = sym.FullyConnected(sym.Variable("x\u20ac"), num_hidden=2, name="fc")
    net.save(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == net.tojson()
    assert sym.load(str(tmp_path / "a.json")).tojson() == net.tojson()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(MXNetError, match=r"b\.json"):
        sym.load(tmp_path / "b.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(MXNetError, match=r"a\.json.*line 1"):
        sym.load(tmp_path / "a.json")


def test_amp_casts_are_left_out_unless_asked_for():
    text = graph(X, node("amp_cast", [[0, 0, 0]], "c", attrs={"dtype": "float16"}),
                 node("exp", [[1, 0, 0]]))  # fmt: skip
    if "amp_cast" not in OPS:
        pytest.skip("amp_cast is not in the table yet")
    net = sym.load_json(text)
    assert "amp_cast" not in net.tojson() and "amp_cast" in net.tojson(remove_amp_cast=False)


# -- damage ------------------------------------------------------------------------------------

SOUND = graph(
    X, W, B, node("FullyConnected", FC_IN, "fc", attrs={"num_hidden": "2", "__lr_mult__": "1"}),
    node("SliceChannel", [[3, 0, 0]], "s", attrs={"num_outputs": "2"}),
    node("Concat", [[4, 0, 0], [4, 1, 0]], "c", attrs={"num_args": "2", "dim": "1"}))  # fmt: skip

FC = node("FullyConnected", FC_IN, "fc", attrs={"num_hidden": "2"})

HOSTILE = {
    "empty": ("", ["not JSON"]),
    "garbage": ("garbage", ["not JSON", "line 1"]),
    "a list": ("[]", ["list", "object"]),
    "cycle": (graph(X, node("elemwise_add", [[0, 0], [2, 0]], "a"), node("exp", [[1, 0]], "b")),
              ["node 1 a (elemwise_add)", "inputs[1]", "[2, 0]"]),
    "self": (graph(node("exp", [[0, 0]], "e")), ["node 0 e (exp)", "inputs[0]"]),
    "node out of range": (graph(X, node("exp", [[7, 0]], "e")), ["node 1 e (exp)", "[7, 0]"]),
    "negative": (graph(X, node("exp", [[-1, 0]], "e")), ["node 1 e (exp)", "[-1, 0]"]),
    "output out of range": (graph(X, node("exp", [[0, 5]], "e")), ["node 1", "x", "1 output"]),
    "head out of range": (graph(X, heads=[[3, 0, 0]]), ["heads[0]", "[3, 0, 0]"]),
    "head's output": (graph(X, heads=[[0, 3, 0]]), ["heads[0]", "x", "1 output"]),
    "no heads": (json.dumps({"nodes": [X], "arg_nodes": [0], "heads": []}), ["heads"]),
    "heads missing": (json.dumps({"nodes": [X], "arg_nodes": [0]}), ["heads", "missing"]),
    "arg_nodes missing": (json.dumps({"nodes": [X], "heads": [[0, 0]]}), ["arg_nodes", "missing"]),
    "arg_nodes out of range": (graph(X, arg_nodes=[3]), ["arg_nodes", "3"]),
    "unknown op": (graph(X, node("Convolutoin", [[0, 0]], "e")),
                   ["node 1 e (Convolutoin)", "did you mean 'Convolution'"]),
    "unknown ops": (graph(X, node("Convolutoin", [[0, 0]], "e"), node("exp", [[1, 0]], "f"),
                          *[node(f"Own{i}", [[0, 0]], f"n{i}") for i in range(900)]),
                    ["901 unknown operators: Convolutoin (node 1), Own0 (node 3)", "register_op"]),
    "unknown parameter": (graph(X, W, B, node("FullyConnected", FC_IN, "fc",
                                              attrs={"num_hiden": "2"})),
                          ["node 3 fc (FullyConnected)", "num_hiden", "num_hidden"]),
    "parameter's type": (graph(X, W, B, {**FC, "attrs": {"num_hidden": 2}}),
                         ["node 3 fc", "num_hidden", "2", "text"]),
    "unreadable": (graph(X, W, B, {**FC, "attrs": {"num_hidden": "9" * 5000}}),
                   ["node 3 fc", "num_hidden", "integer"]),
    "too few inputs": (graph(X, W, {**FC, "inputs": FC_IN[:2]}), ["node 2 fc", "2 inputs", "3"]),
    "too many inputs": (graph(X, node("exp", [[0, 0], [0, 0]], "e")), ["node 1 e", "2 inputs"]),
    "a variable's inputs": (graph(X, variable("v") | {"inputs": [[0, 0]]}), ["node 1 v", "none"]),
    "computed state": (graph(X, *STATS[:2], node("exp", [[0, 0]], "e"), STATS[3],
                             node("BatchNorm", BN_IN, "bn")), ["node 5 bn", "moving_mean", "e"]),
    "short entry": (graph(X, node("exp", [[0]], "e")), ["node 1 e", "inputs[0]", "[0]"]),
    "truth as index": (graph(X, node("exp", [[False, 0]], "e")), ["node 1 e", "inputs[0]"]),
    "fraction": (graph(X, node("exp", [[0.0, 0]], "e")), ["'0.0'", "integers"]),
    "not a number": (SOUND.replace("[3, 0, 0]", "[NaN, 0, 0]"), ["'NaN'"]),
    "long number": (SOUND.replace("[3, 0, 0]", "[" + "9" * 100_000 + ", 0, 0]"), ["100000 digits"]),
    "many inputs": (graph(X, node("Concat", [[0, 0]], "c", attrs={"num_args": "1000000000"})),
                    ["node 1 c", "num_args", "1000000000"]),
    "many outputs": (graph(X, node("SliceChannel", [[0, 0]], "s", attrs={"num_outputs": "9" * 9})),
                     ["node 1 s", "num_outputs"]),
    "no op": (json.dumps({"nodes": [{"name": "x"}]}), ["node 0", "'op'", "missing"]),
    "a node that is none": (json.dumps({"nodes": [3]}), ["node 0", "number", "object"]),
    "version": (graph(X, attrs={"mxnet_version": "1"}), ["mxnet_version"]),
    "half a character": (graph(variable("\ud800")), ["surrogate"]),
    "deep lists": ("[" * 200_000, ["100 levels"]),
    "deep objects": ('{"nodes":' * 200_000, ["100 levels"]),
    "deep in an attribute": (SOUND.replace('"2"', "[" * 200_000 + "]" * 200_000), ["100 levels"]),
    "brackets in a text are no depth": (graph(variable("[" * 1000), heads=[[9, 0]]), ["heads[0]"]),
    "tiny parts": ('{"nodes":[' + "[]," * 4_000_000 + "[]]}", ["tiny parts"]),
    "tiny texts": ('{"nodes":[' + '"a",' * 4_000_000 + '""]}', ["tiny parts"]),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_damage_is_named_quickly_and_cheaply(case):
    text, words = HOSTILE[case]

    def load():
        with pytest.raises(MXNetError) as caught:
            sym.load_json(text)
        return str(caught.value)

    sym.load_json(SOUND)
    tracemalloc.start()
    message = load()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    for word in words:
        assert word in message, message[:1000]
    assert len(message) < 2000
    assert peak < 2 * len(text) + (64 << 20), peak
    assert calls_of(load) < 50_000  # names are compared with those of all ops to suggest one


MANY_OUTPUTS = {
    "nodes": [node("SliceChannel", [[0, 0]], f"n{i}", attrs={"num_outputs": "65536"})
              for i in range(60)],
    "references": [node("Custom", [[0, 0], *[[i, 65535]][:i]], f"n{i}",
                        attrs={"op_type": "unknown"}) for i in range(60)],
    "missing inputs of old nodes": [node("Concat", [], f"n{i}", attrs={"num_args": "65536"})
                                    for i in range(60)],
}


@pytest.mark.parametrize("case", MANY_OUTPUTS)
def test_outputs_are_limited_for_the_whole_graph(case):
    """Each node is within the limit of one."""
    text = graph(X, *MANY_OUTPUTS[case], attrs=None if "old" in case else CURRENT)
    tracemalloc.start()
    with pytest.raises(MXNetError, match="node [23] n[12].*more than 6.* outputs"):
        sym.load_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(text) + (64 << 20)


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_long_graphs_are_within_the_bound_of_memory(monkeypatch, separators):
    """The part of it that grows with the text."""
    monkeypatch.setattr(json_text, "MEMORY", 0)
    net = sym.Variable("x")
    for _ in range(100):
        net = net + 1
    text = json.dumps(json.loads(net.tojson()), separators=separators)
    assert len(sym.load_json(text).get_internals()) == 101


def test_every_truncation_is_an_error():
    for end in range(0, len(SOUND) - 1, 7):
        with pytest.raises(MXNetError):
            sym.load_json(SOUND[:end])


WORDS = st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.integers() | st.floats() | WORDS
    | st.sampled_from(["null", "exp", "Concat", "num_args", "(1, 2)", "2", "-1", "__shape__"]),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part, max_size=3),
    max_leaves=6)  # fmt: skip


def places(value, path=()):
    """Paths to everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield (*path, key)
        if isinstance(part, (dict, list)):
            yield from places(part, (*path, key))


def damage(data):
    """`SOUND` with one to three parts replaced, removed, or exchanged for other parts of it."""
    record = json.loads(SOUND)
    for _ in range(data.draw(st.integers(1, 3))):
        all_places = list(places(record))
        path = data.draw(st.sampled_from(all_places))
        owner = record
        for key in path[:-1]:
            owner = owner[key]
        action = data.draw(st.sampled_from(["replace", "remove", "exchange"]))
        if action == "remove":
            del owner[path[-1]]
        elif action == "replace":
            owner[path[-1]] = data.draw(VALUES)
        else:
            other = record
            for key in data.draw(st.sampled_from(all_places)):
                other = other[key]
            owner[path[-1]] = copy.deepcopy(other)
    return json.dumps(record)


fuzz = settings(max_examples=300, deadline=None, derandomize=True,
                suppress_health_check=list(HealthCheck))  # fmt: skip


def check_survives(text):
    try:
        net = sym.load_json(text)
    except MXNetError:
        return
    again = net.tojson()
    assert sym.load_json(again).tojson() == again


@fuzz
@given(st.data())
@pytest.mark.filterwarnings("ignore:symbol JSON was written by a later MXNet")
def test_damaged_structure_raises_only_mxnet_errors(data):
    check_survives(damage(data))


@fuzz
@given(st.integers(0, len(SOUND)), st.integers(0, 4), st.text(max_size=3))
def test_damaged_text_raises_only_mxnet_errors(at, removed, inserted):
    check_survives(SOUND[:at] + inserted + SOUND[at + removed:])
