"""All kinds of files, written by nbmod and by MXNet, and read by both."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import gluon_blocks


def test_files_are_written_as_by_mxnet_and_read_by_it_and_from_it(oracle, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir(exist_ok=True)
    ours.mkdir(exist_ok=True)
    written = oracle.call("mx_gluon.write_files", str(theirs))
    assert_like(gluon_blocks.write_files(mx, str(ours)), written)
    answers = oracle.call("mx_gluon.read_files", str(theirs))
    assert_like(gluon_blocks.read_files(mx, str(theirs)), answers)
    assert_like(oracle.call("mx_gluon.read_files", str(ours)), answers)


def test_a_file_that_does_not_fit_changes_nothing(tmp_path):
    net = gluon_blocks.made(mx)
    path = str(tmp_path / "file")
    arrays = {name: each.data() + 1 for name, each in net._collect_params_with_prefix().items()}
    mx.nd.save(path, {**arrays, "last.bias": mx.nd.ones(3)})
    before = net(mx.nd.array(gluon_blocks.data())).asnumpy()
    with pytest.raises(AssertionError, match=r"'net_last_bias' .* expected \(2,\) vs saved \(3,"):
        net.load_parameters(path)
    assert (net(mx.nd.array(gluon_blocks.data())).asnumpy() == before).all()


def test_names_with_the_whole_prefix_are_read_too(tmp_path):
    """MXNet adds the prefix a second time."""
    net, x = gluon_blocks.made(mx), mx.nd.array(gluon_blocks.data())
    net.hybridize()
    output = net(x).asnumpy()
    net.collect_params().save(str(tmp_path / "names"))
    net.export(str(tmp_path / "net"))
    for name in ("names", "net-0000.params"):
        other = gluon_blocks.made(mx)
        other.first.weight.set_data(mx.nd.zeros((3, 4)))
        other.load_parameters(str(tmp_path / name))
        assert (other(x).asnumpy() == output).all()


def test_element_types_of_files_are_kept_or_taken(tmp_path):
    path = str(tmp_path / "file")
    net = gluon_blocks.made(mx)
    mx.nd.save(path, {"last.bias": mx.nd.array([0.5, 2]).astype("float16")})
    types = []
    for source in ("current", "saved"):
        net.load_parameters(path, allow_missing=True, cast_dtype=True, dtype_source=source)
        types.append(np.dtype(net.last.bias.data().dtype).name)
        assert net.last.bias.data().asnumpy().tolist() == [0.5, 2]
    assert types == ["float32", "float16"]


def test_children_have_the_names_of_the_file(oracle, tmp_path):
    """The file of arrays begins with these; a network that counts its blocks has others."""
    theirs = oracle.call("mx_scripts.run", "gluon_blocks", "renamed_children", str(tmp_path / "a"))
    assert_like(gluon_blocks.renamed_children(mx, str(tmp_path / "b")), theirs, 0)


def test_a_child_under_two_names_keeps_them(tmp_path):
    def network():
        net = mx.gluon.nn.Sequential(prefix="net_")
        layer = mx.gluon.nn.Dense(2, in_units=2, prefix="net_layer_")
        net.add(layer, layer)
        return net

    net, other = network(), network()
    net.initialize()
    net.save(str(tmp_path / "net"))
    other.load(str(tmp_path / "net"))
    x = mx.nd.ones((1, 2))
    assert list(other._children) == ["0", "1"] and (net(x) == other(x)).asnumpy().all()


def test_blocks_of_another_structure_are_refused(tmp_path):
    gluon_blocks.made(mx).save(str(tmp_path / "net"))
    with pytest.raises(mx.MXNetError, match="has 3 children, but .* has 2"):
        net = gluon_blocks.made(mx)
        del net._children["norm"]
        net.load(str(tmp_path / "net"))
    with pytest.raises(mx.MXNetError, match="'net0' is in the place of net, a outer"):
        gluon_blocks.made(mx, "Outer").load(str(tmp_path / "net"))
