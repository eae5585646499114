"""`.safetensors` files: both ways with the package `safetensors`; networks; hostile files."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbmod as mx
from nbmod.base import DTYPE_FLAGS, MXNetError
from nbmod.safetensors import SafetensorsError, read_tensors, write_tensors

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda name: name != "__metadata__")
ARRAYS = st.sampled_from([*DTYPE_FLAGS.values(), np.dtype("uint32"), np.dtype("uint64")]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)))


def file_of(header, data=b""):
    """The content of a file whose header is a dict, JSON text or bytes."""
    text = json.dumps(header) if isinstance(header, dict) else header
    content = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(content)) + content + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@settings(max_examples=50, deadline=None)
@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=4),
       metadata=st.dictionaries(NAMES, st.text(st.characters(codec="utf-8")), max_size=2))
def test_what_is_written_is_read(tmp_path_factory, arrays, metadata):
    path = str(tmp_path_factory.getbasetemp() / "round.safetensors")
    write_tensors(path, arrays, metadata)
    found, texts = read_tensors(path)
    assert list(found) == list(arrays) and texts == metadata
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()  # NaNs of any kind, too


def test_the_package_reads_and_writes_the_same_files(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy", reason="needs the package safetensors")
    package = pytest.importorskip("safetensors")
    arrays = {f"arg:{dtype}": np.arange(6).reshape(2, 3).astype(dtype)
              for dtype in DTYPE_FLAGS.values()}
    arrays["aux:empty"], arrays["scalar"] = np.zeros((0, 2), np.float16), np.float32(3)
    ours, theirs = str(tmp_path / "ours.safetensors"), str(tmp_path / "theirs.safetensors")
    write_tensors(ours, arrays, {"licence": "Apache-2.0"})
    with package.safe_open(ours, "np") as file:
        assert file.metadata() == {"licence": "Apache-2.0"}
        for name in arrays:
            np.testing.assert_array_equal(file.get_tensor(name), arrays[name], strict=True)
    numpy_files.save_file({name: np.asarray(array) for name, array in arrays.items()}, theirs,
                          {"licence": "Apache-2.0"})
    found, metadata = read_tensors(theirs)
    assert metadata == {"licence": "Apache-2.0"} and found.keys() == arrays.keys()
    for name in arrays:
        np.testing.assert_array_equal(found[name], arrays[name], strict=True)


def test_elements_are_aligned_to_their_types(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": np.ones(3, np.int8), "b": np.ones(1), "c": np.ones(1, np.float16)})
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    assert length % 8 == 0 and list(header) == ["a", "b", "c"]
    assert [header[name]["data_offsets"][0] for name in "abc"] == [10, 0, 8]


def test_bfloat16_is_widened_exactly():
    bits = np.array([0x3FC0, 0xC000, 0x7F80, 1], "<u2")
    found, _ = read_tensors(file_of({"w": entry("BF16", (2, 2))}, bits.tobytes()))
    np.testing.assert_array_equal(
        found["w"], np.array([[1.5, -2], [np.inf, 2.0 ** -133]], np.float32), strict=True)


# -- arrays and networks ------------------------------------------------------------------------


def test_ndarrays_keep_their_types(tmp_path):
    path = str(tmp_path / "a.safetensors")
    arrays = {str(dtype): mx.nd.array(np.arange(4).reshape(2, 2), dtype=dtype)
              for dtype in DTYPE_FLAGS.values()}
    mx.safetensors.save(path, arrays, {"note": "ä"})
    found = mx.safetensors.load(path)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy(), strict=True)


def test_what_no_ndarray_can_be_is_said(tmp_path):
    path = str(tmp_path / "a.safetensors")
    write_tensors(path, {"w": np.ones(2, np.uint32)})
    with pytest.raises(MXNetError, match=r"a\.safetensors: array 'w'.*uint32.*float32"):
        mx.safetensors.load(path)
    with pytest.raises(SafetensorsError, match="dict of arrays by name, given a list"):
        mx.safetensors.save(path, [mx.nd.ones(1)])
    with pytest.raises(SafetensorsError, match="complex64"):
        mx.safetensors.save(path, {"w": np.ones(2, np.complex64)})
    with pytest.raises(SafetensorsError, match="'__metadata__'"):
        mx.safetensors.save(path, {"__metadata__": mx.nd.ones(1)})
    with pytest.raises(SafetensorsError, match="texts"):
        mx.safetensors.save(path, {"w": mx.nd.ones(1)}, {"epoch": 3})
    with pytest.raises(SafetensorsError, match="utf-8"):
        mx.safetensors.save(path, {"\ud800": mx.nd.ones(1)})
    with pytest.raises(MXNetError, match=r"\.params is the suffix"):
        mx.safetensors.save(str(tmp_path / "a.params"), {})
    assert os.listdir(tmp_path) == ["a.safetensors"] and "w" in read_tensors(path)[0]


def network():
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=2, kernel=(3, 3), name="conv")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name="bn")
    return mx.sym.softmax(mx.sym.FullyConnected(net, num_hidden=3, name="fc"), name="out")


def parameters(net, **shapes):
    """Random parameters and states of a network."""
    rng = np.random.default_rng(0)
    args, _, auxs = net.infer_shape(**shapes)
    draw = lambda names, found: {name: mx.nd.array(rng.random(shape)) for name, shape  # noqa: E731
                                 in zip(names, found, strict=True) if name not in shapes}
    return draw(net.list_arguments(), args), draw(net.list_auxiliary_states(), auxs)


def test_one_file_is_a_model(tmp_path):
    path, net = str(tmp_path / "net.safetensors"), network()
    args, auxs = parameters(net, data=(1, 1, 6, 6))
    mx.safetensors.save_model(path, net, args, auxs, {"licence": "mine"})
    symbol, found_args, found_auxs = mx.safetensors.load_model(path)
    assert symbol.tojson() == net.tojson() and read_tensors(path)[1]["licence"] == "mine"
    assert "arg:conv_weight" in mx.safetensors.load(path)
    for found, given_params in ((found_args, args), (found_auxs, auxs)):
        assert list(found) == list(given_params)
        for name, array in given_params.items():
            np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy())


def test_names_without_prefix_are_sorted_by_the_network(tmp_path):
    path, net = str(tmp_path / "net.safetensors"), network()
    args, auxs = parameters(net, data=(1, 1, 6, 6))
    mx.safetensors.save(path, {**args, **auxs}, {"mxnet_symbol": net.tojson()})
    _, found_args, found_auxs = mx.safetensors.load_model(path)
    assert found_args.keys() == args.keys() and found_auxs.keys() == auxs.keys()


def test_files_without_or_with_a_damaged_network_are_named(tmp_path):
    path = str(tmp_path / "net.safetensors")
    mx.safetensors.save(path, {"w": mx.nd.ones(1)})
    with pytest.raises(SafetensorsError, match=r"net\.safetensors: there is no network"):
        mx.safetensors.load_model(path)
    for text in ("", "{", "[]", "{\"nodes\": 3}", network().tojson()[:-9], "[" * 100_000):
        mx.safetensors.save(path, {"w": mx.nd.ones(1)}, {"mxnet_symbol": text})
        with pytest.raises(SafetensorsError, match=r"net\.safetensors: metadata 'mxnet_symbol'"):
            mx.safetensors.load_model(path)
    with pytest.raises(MXNetError, match="cannot be read: No such file"):
        mx.safetensors.load(str(tmp_path / "none.safetensors"))


# -- damaged and hostile files ------------------------------------------------------------------

EIGHT = bytes(8)
HOSTILE = {
    "empty": (b"", "length of a header.*found 0"),
    "no header": (bytes(4), "length of a header"),
    "length beyond the file": (struct.pack("<Q", 100) + b"{}", "found 100"),
    "absurd length": (struct.pack("<Q", 2 ** 63) + b"{}", f"found {2 ** 63}"),
    "another format": (b"PK\3\4" + bytes(40), "zip file"),
    "not utf-8": (file_of(b'{"\xff": 1}'), "damaged header"),
    "no JSON": (file_of("{w}"), "damaged header"),
    "spaces before": (file_of("  {}"), "does not begin"),
    "a list": (file_of("[1]"), "does not begin"),
    "NaN": (file_of('{"w": NaN}'), "NaN is not JSON"),
    "nested": (file_of('{"w":' + "[" * 100_000), "damaged header"),
    "half a character": (file_of(r'{"\ud800": 1}'), "damaged header"),
    "many digits": (file_of('{"w": ' + "1" * 5000 + "}"), "damaged header|expected dtype"),
    "name twice": (file_of('{"w": %s, "w": %s}' % ((json.dumps(entry()),) * 2), EIGHT),
                   "'w' is there twice"),
    "field twice": (file_of('{"w": {"dtype": "F32", "dtype": "F32", "shape": [2], '
                            '"data_offsets": [0, 8]}}', EIGHT), "'dtype' is there twice"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "other values than texts"),
    "metadata as list": (file_of({"__metadata__": ["a"]}), "other values than texts"),
    "entry as list": (file_of({"w": [1]}), "'w'.*expected dtype, shape and data_offsets"),
    "field missing": (file_of({"w": {"dtype": "F32", "shape": [2]}}), "'w'.*expected dtype"),
    "field more": (file_of({"w": {**entry(), "x": 1}}, EIGHT), "'w'.*expected dtype"),
    "unknown type": (file_of({"w": entry("F8_E4M3")}, EIGHT), "'w': the type is 'F8_E4M3'"),
    "type as list": (file_of({"w": entry(["F32"])}, EIGHT), "'w': the type is"),
    "negative dim": (file_of({"w": entry(shape=(-1,))}, EIGHT), "'w'.*no shape"),
    "float dim": (file_of({"w": entry(shape=(2.0,))}, EIGHT), "'w'.*no shape"),
    "boolean dim": (file_of({"w": entry("F64", (True,))}, EIGHT), "'w'.*no shape"),
    "dims that overflow": (file_of({"w": entry(shape=(2 ** 32, 2 ** 32, 2))}, EIGHT), "no shape"),
    "empty but overflowing": (file_of({"w": entry(shape=(0, 2 ** 62), offsets=(0, 0))}),
                              "no shape"),
    "33 dims": (file_of({"w": entry("U8", (1,) * 33, (0, 1))}, b"1"), "no shape"),
    "offsets of another size": (file_of({"w": entry(offsets=(0, 4))}, EIGHT), "distance of 8"),
    "offsets reversed": (file_of({"w": entry(offsets=(8, 0))}, EIGHT), "distance of 8"),
    "offsets negative": (file_of({"w": entry(offsets=(-8, 0))}, EIGHT), "distance of 8"),
    "three offsets": (file_of({"w": entry(offsets=(0, 8, 8))}, EIGHT), "distance of 8"),
    "beyond the end": (file_of({"w": entry("F32", (2 ** 40,), (0, 2 ** 42))}, EIGHT),
                       "arrays have 4398046511104 bytes, and the file has 8"),
    "truncated": (file_of({"w": entry()}, bytes(7)), "arrays have 8 bytes.*has 7"),
    "bytes left": (file_of({"w": entry()}, bytes(9)), "arrays have 8 bytes.*has 9"),
    "overlap": (file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)), "'b'.*overlap"),
    "gap": (file_of({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)), "'b'.*leave a gap"),
    "begins late": (file_of({"a": entry(offsets=(8, 16))}, bytes(16)), "'a'.*leave a gap"),
    "bad boolean": (file_of({"w": entry("BOOL", (2,), (0, 2))}, b"\1\2"), "'w'.*bytes 0 and 1"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_errors_that_name_the_file(kind, tmp_path):
    content, told = HOSTILE[kind]
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(SafetensorsError, match=rf"x\.safetensors: .*({told})"):
            read_tensors(str(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(content) + 1_000_000


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_mutated_files_are_read_or_refused(data):
    header = {"__metadata__": {"mxnet_symbol": "{}"}, "b": entry("I8", (2, 3), (8, 14)),
              "a": entry()}
    content = bytearray(file_of(header, bytes(range(14))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["byte", "cut", "insert"]))
        if kind == "byte":
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "cut" and len(content) > 1:
            del content[at:at + data.draw(st.integers(1, 3))]
        else:
            content[at:at] = data.draw(st.binary(max_size=3))
        if not content:
            break
    try:
        arrays, metadata = read_tensors(bytes(content))
    except SafetensorsError:
        return
    assert sum(array.nbytes for array in arrays.values()) <= 2 * len(content)
    assert all(isinstance(text, str) for text in metadata.values())
