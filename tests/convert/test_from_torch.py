"""State dicts of PyTorch: matched by structure; what is uncertain or does not fit is listed.

Without torch, state dicts are made by hand, and every array must arrive where the family says.
With torch, outputs are compared; CI has no torch, and these tests say that they are skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.convert import UnmatchedLayers, from_torch
from nbmod.convert.symbol_layers import layers_of
from tests.convert.torch_families import FAMILIES, conv, norm, pooled

SHARED = {"weight": "weight", "bias": "bias", "running_mean": "running_mean",
          "running_var": "running_var"}


def state_dict_of(family, rng=None):
    """A state dict as torch orders it, and the parameters of the symbol with the same arrays."""
    rng = rng or np.random.default_rng(0)
    symbol, shape, pairs = family
    layers = {layer.name: layer for layer in layers_of(symbol, {"data": shape})[0]}
    state, expected = {}, {}
    for module, node in pairs:
        layer = layers[node]
        for leaf in SHARED:
            if leaf in layer.names:
                array = rng.random(layer.shapes[leaf]).astype("f4")
                if layer.fix_gamma and leaf == "weight":
                    array[:] = 1
                state[f"{module}.{leaf}"] = expected[layer.names[leaf]] = array
        if layer.kind == "norm":
            state[f"{module}.num_batches_tracked"] = np.array(7)
    assert len(expected) == sum(len(layer.names) for layer in layers.values())
    return state, expected


def same(found, expected):
    params = {**found[0], **found[1]}
    assert params.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(params[name].asnumpy().ravel(), array.ravel(), name)
    return True


@pytest.mark.parametrize("shaped", [True, False], ids=["shapes", "no shapes"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_matched_by_structure(name, shaped):
    family = FAMILIES[name]()
    state, expected = state_dict_of(family)
    shapes = {"data": family.shape} if shaped else None
    found = from_torch(state, family.symbol, shapes=shapes)
    assert same(found, expected)
    assert list(found[1]) and set(found[1]) <= set(family.symbol.list_auxiliary_states()) or (
        name == "vgg")
    if shaped:
        args, _, auxs = family.symbol.infer_shape(data=family.shape)
        shapes = dict(zip(family.symbol.list_arguments(), args, strict=True))
        assert all(array.shape == shapes[key] for key, array in found[0].items())


@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_are_those_of_torch(name):
    pytest.importorskip("torch", reason="TORCH IS ABSENT: outputs are not compared with it")
    from tests.convert.torch_networks import torch_module

    family, module = FAMILIES[name](), torch_module(name)
    shapes = {"data": family.shape}
    args, _ = from_torch(module, family.symbol, shapes=shapes)    # compares outputs, to 1e-4
    assert args
    text = family.symbol.tojson().replace('"eps": "1e-05"', '"eps": "0.3"').replace(
        '"pool_type": "max"', '"pool_type": "avg"')
    other = mx.sym.load_json(text)    # with the same parameters
    with pytest.raises(MXNetError, match="from_torch: outputs differ by"):
        from_torch(module, other, shapes=shapes)
    assert from_torch(module, other, shapes=shapes, verify=False)[0].keys() == args.keys()


def test_files_and_tensors_of_several_kinds_are_read(tmp_path):
    path = str(tmp_path / "a.safetensors")
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="out")
    arrays = {"head.weight": np.ones((2, 3), np.float16), "head.bias": np.ones(2, np.float64)}
    mx.safetensors.save(path, arrays)
    for state in (path, arrays, {name: mx.nd.array(array, dtype=array.dtype)
                                 for name, array in arrays.items()}):
        args, auxs = from_torch(state, net)
        assert auxs == {} and args["out_weight"].dtype == np.float16
        assert args["out_bias"].dtype == np.float64
    with pytest.raises(MXNetError, match=r"'epoch' is a str.*checkpoint\['state_dict'\]"):
        from_torch({"epoch": "7"}, net)
    with pytest.raises(TypeError, match="expected a dict of tensors"):
        from_torch([1], net)


def test_what_torch_omits_gets_its_default():
    net = norm(conv(mx.sym.Variable("data"), "c", 4, 3, bias=True), "n")
    state = {"0.weight": np.full((4, 3, 3, 3), 2.0), "1.running_mean": np.full(4, 3.0),
             "1.running_var": np.full(4, 5.0)}    # no bias; affine=False
    args, auxs = from_torch(state, net, shapes={"data": (1, 3, 8, 8)})
    assert [args[name].asnumpy().tolist() for name in ("c_bias", "n_gamma", "n_beta")] == [
        [0] * 4, [1] * 4, [0] * 4]
    assert auxs["n_moving_var"].asnumpy().tolist() == [5] * 4
    net = mx.sym.LeakyReLU(mx.sym.Variable("data"), act_type="prelu", name="p")
    args, _ = from_torch({"act.weight": np.array([0.25])}, net, shapes={"data": (1, 3, 8, 8)})
    assert args["p_gamma"].asnumpy().tolist() == [0.25] * 3    # one slope for all channels


def test_fixed_gamma_is_noticed():
    family = FAMILIES["arcface"]()
    state, _ = state_dict_of(family)
    state["features.weight"] = state["features.weight"] * 2
    with pytest.raises(UnmatchedLayers, match=r"1 problem\(s\):\n  layer 'fc1' is a BatchNorm with "
                       r"fix_gamma=True, which ignores the weight of 'features'.*fix_gamma=False"):
        from_torch(state, family.symbol, shapes={"data": family.shape})


def test_all_problems_are_listed_at_once():
    family = FAMILIES["vgg_bn"]()
    state, _ = state_dict_of(family)
    state["head.weight"] = np.ones((7, 7))
    state["scale"] = np.ones(3)
    state["classifier.6.weight"] = np.ones((9, 24))
    state.pop("features.0.bias")
    with pytest.raises(UnmatchedLayers) as caught:
        from_torch(state, family.symbol, shapes={"data": family.shape})
    text = str(caught.value)
    for told in ("'head' (weight (7, 7)) fits no layer", "'' (scale (3,)) fits no layer",
                 "'classifier.6' (weight (9, 24), bias (5,)) fits no layer",
                 "layer 'fc8' (fc8_weight (5, 24), fc8_bias (5,)) fits no module"):
        assert told in text, text
    assert text.startswith("from_torch: 4 problem(s):\n  ")


def test_extra_modules_can_be_left_out_and_others_given():
    family = FAMILIES["resnet18"]()
    state, expected = state_dict_of(family)
    state["margin.weight"] = np.ones((1000, 5), np.float32)
    with pytest.raises(UnmatchedLayers, match=r"'margin' \(weight \(1000, 5\)\) fits no layer"):
        from_torch(state, family.symbol, shapes={"data": family.shape})
    mapping = {"margin": None, "fc.weight": "fc1_weight", "fc.bias": "fc1_bias",
               "layer1.0.conv1": "stage1_unit1_conv1"}
    assert same(from_torch(state, family.symbol, mapping, {"data": family.shape}), expected)
    with pytest.raises(UnmatchedLayers) as caught:
        from_torch(state, family.symbol, {"margins": None, "fc": "fc2"}, {"data": family.shape})
    assert "there is no 'margins'; did you mean 'margin'?" in str(caught.value)
    assert "there is no 'fc2'; did you mean 'fc1'?" in str(caught.value)


def test_shortcuts_may_be_constructed_first_if_their_names_say_so():
    family = FAMILIES["resnet50"]()
    first = sorted(family.pairs, key=lambda pair: (
        pair[0].rsplit(".", 2)[0] if "downsample" in pair[0] else pair[0].rsplit(".", 1)[0],
        "downsample" not in pair[0]) if "layer" in pair[0] else ("", False))
    family = family._replace(pairs=[*[pair for pair in first if pair[0] != "fc"],
                                    ("fc", "fc1")])
    assert family.pairs[2][0] == "layer1.0.downsample.0"
    state, expected = state_dict_of(family)
    assert same(from_torch(state, family.symbol, shapes={"data": family.shape}), expected)


def test_shortcuts_that_nothing_tells_apart_are_reported():
    """The third convolution of a bottleneck and that of its shortcut have one shape."""
    family = FAMILIES["resnet50"]()
    state, expected = state_dict_of(family)
    renamed = {name.replace("downsample", "branch"): array for name, array in state.items()}
    with pytest.raises(UnmatchedLayers) as caught:
        from_torch(renamed, family.symbol, shapes={"data": family.shape})
    text = str(caught.value)
    assert ("'layer1.0.conv3' and 'layer1.0.branch.0' are in branches that meet, and could be "
            "layers 'stage1_unit1_conv3' and 'stage1_unit1_sc' in either order") in text
    assert "'layer1.0.bn3' and 'layer1.0.branch.1'" in text
    mapping = {}
    for stage in (1, 2):
        mapping |= {f"layer{stage}.0.{theirs}": f"stage{stage}_unit1_{ours}" for theirs, ours in (
            ("conv3", "conv3"), ("bn3", "bn3"), ("branch.0", "sc"), ("branch.1", "scbn"))}
    assert same(from_torch(renamed, family.symbol, mapping, {"data": family.shape}), expected)


def test_where_orders_differ_only_unique_shapes_are_matched():
    family = FAMILIES["vgg"]()
    state, expected = state_dict_of(family)
    classifier = {name: array for name, array in state.items() if "classifier" in name}
    moved = {**classifier, **{name: array for name, array in state.items()
                              if name not in classifier}}
    assert same(from_torch(moved, family.symbol, shapes={"data": family.shape}), expected)
    x = mx.sym.Variable("data")
    for name in ("a", "b"):
        x = conv(norm(x, f"{name}n"), name, 3)
    state = {"x.weight": np.ones((3, 3, 1, 1)), "y.weight": np.ones((3, 3, 1, 1))}
    for name in ("u", "v"):
        state |= {f"{name}.{leaf}": np.ones(3) for leaf in SHARED}
    with pytest.raises(UnmatchedLayers) as caught:
        from_torch(state, x, shapes={"data": (1, 3, 4, 4)})
    assert "'x' (weight (3, 3, 1, 1)) could be 'a', 'b': the orders differ" in str(caught.value)
    mapping = {"x": "a", "y": "b", "u": "an", "v": "bn"}
    args, _ = from_torch(state, x, mapping, {"data": (1, 3, 4, 4)})
    assert len(args) == 6


def test_parameters_outside_of_layers_are_named():
    net = pooled(mx.sym.broadcast_mul(mx.sym.Variable("data"), mx.sym.Variable("gain")), "fc")
    state = {"fc.weight": np.ones((5, 3)), "fc.bias": np.ones(5), "gain": np.ones((1, 3, 1, 1))}
    with pytest.raises(UnmatchedLayers, match=r"'' \(gain \(1, 3, 1, 1\)\) fits no layer"):
        from_torch(state, net, shapes={"data": (1, 3, 4, 4)})
    args, _ = from_torch(state, net, {"gain": "gain"}, {"data": (1, 3, 4, 4)})
    assert args["gain"].shape == (1, 3, 1, 1)
    with pytest.raises(UnmatchedLayers, match="nothing is left for gain"):
        from_torch({name: state[name] for name in ("fc.weight", "fc.bias")}, net,
                   shapes={"data": (1, 3, 4, 4)})


def test_layers_of_one_name_are_told_apart():
    """By structure, by their parameters, and where branches meet; their name is ambiguous."""
    def layer(x, letter, size):
        return mx.sym.FullyConnected(x, mx.sym.var(f"{letter}_weight"), num_hidden=size,
                                     no_bias=True, name="fc")

    x = mx.sym.var("data")
    rng = np.random.default_rng(0)
    chain = layer(layer(x, "a", 4), "b", 3)
    state = {"one.weight": rng.random((4, 4)), "two.weight": rng.random((3, 4))}
    expected = {"a_weight": state["one.weight"], "b_weight": state["two.weight"]}
    by_array = {"one.weight": "a_weight", "two.weight": "b_weight"}
    for mapping in (None, by_array):
        assert same(from_torch(state, chain, mapping, {"data": (1, 4)}), expected)
    with pytest.raises(UnmatchedLayers, match="'fc': 2 layers have this name; map the module's"):
        from_torch(state, chain, {"one": "fc", "two": "fc"})
    branches = mx.sym.Concat(layer(mx.sym.relu(layer(x, "c", 4)), "a", 4), layer(x, "b", 4))
    state = {f"{name}.weight": rng.random((4, 4)) for name in ("one", "two", "three")}
    with pytest.raises(UnmatchedLayers, match="are in branches that meet"):
        from_torch(state, branches)
