"""Errors about files of other formats name them, and those about missing epochs list the others."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError


def zip_of(name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, bytes(100))
    return stream.getvalue()


def npy():
    stream = io.BytesIO()
    np.save(stream, np.ones(3))
    return stream.getvalue()


FOREIGN = {
    "HTML page": b"\n<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>",
    "HTML page, as servers send with errors": b"<html>404</html>",
    "answer of a server, 404": b"404: Not Found",
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64,
    "zip file": zip_of("weights.params"),
    r"torch\.save \(zip\)": zip_of("archive/data.pkl"),
    r"torch\.save$": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03." + bytes(9),
    r"NumPy file \(\.npz\)": zip_of("x.npy"),
    r"NumPy file \(\.npy\)": npy(),
    "safetensors file": b"\x40" + bytes(7) + b'{"w":{"dtype":"F32","shape":[1]}}' + bytes(40),
    "gzip file": b"\x1f\x8b\x08" + bytes(30),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("suffix", ["params", "json", "rec"])
def test_foreign_files_are_named(kind, suffix, tmp_path):
    path = str(tmp_path / f"x.{suffix}")
    (tmp_path / f"x.{suffix}").write_bytes(FOREIGN[kind])
    with pytest.raises(MXNetError, match=rf"x\.{suffix}.*the file is an? .*{kind.rstrip('$')}"):
        if suffix == "params":
            mx.nd.load(path)
        elif suffix == "json":
            mx.sym.load(path)
        else:
            mx.recordio.MXRecordIO(path, "r").read()


@pytest.mark.parametrize("kind", ["HTML page", "answer of a server, 404"])
def test_what_is_no_image_is_named(kind):
    with pytest.raises(MXNetError, match=f"no image .*the file is an {kind}"):
        mx.image.imdecode(FOREIGN[kind])


def test_own_formats_are_named_where_another_is_expected(tmp_path):
    params, symbol, record = (str(tmp_path / name) for name in ("x.params", "x.json", "x.rec"))
    mx.nd.save(params, [mx.nd.ones(3)])
    mx.sym.var("a").save(symbol)
    with mx.recordio.MXRecordIO(record, "w") as file:
        file.write(bytes(40))
    for read, path, found in ((mx.nd.load, symbol, "JSON text"),
                              (mx.sym.load, params, r"a \.params file"),
                              (mx.nd.load, record, "a record file")):
        with pytest.raises(MXNetError, match=f"the file is {found}"):
            read(path)


def test_epochs_that_exist_are_listed(tmp_path):
    prefix = str(tmp_path / "net")
    for epoch in (1, 3, 10000):
        mx.model.save_checkpoint(prefix, epoch, mx.sym.var("a"), {"a": mx.nd.ones(1)}, {})
    mx.nd.save(str(tmp_path / "net2-0007.params"), {"arg:a": mx.nd.ones(1)})
    with pytest.raises(MXNetError, match=r"net-0002\.params.*epochs that exist: 1, 3, 10000$"):
        mx.model.load_checkpoint(prefix, 2)
    with pytest.raises(MXNetError, match="there are no parameters of prefix"):
        mx.model.load_params(str(tmp_path / "other"), 2)


def trained():
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2),
                               name="softmax")
    module = mx.mod.Module(net)
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params()
    module.init_optimizer()
    return module


WRITERS = {
    ".params": lambda path: mx.nd.save(path, [mx.nd.ones((1,))]),
    ".json": lambda path: mx.sym.Variable("x").save(path),
    ".states": lambda path: trained().save_optimizer_states(path),
}


@pytest.mark.parametrize("own", WRITERS)
def test_nothing_is_written_under_the_suffix_of_another_format(own, tmp_path):
    for suffix in (".params", ".json", ".states", ".npz", ".PT"):
        if suffix != own:
            with pytest.raises(MXNetError, match=f"{suffix.lower()} is the suffix of .*{own}$"):
                WRITERS[own](str(tmp_path / f"net{suffix}"))
    assert not list(tmp_path.iterdir())
    for suffix in (own, "", ".backup"):
        WRITERS[own](str(tmp_path / f"net{suffix}"))
    assert len(list(tmp_path.iterdir())) == 3
