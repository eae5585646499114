"""Archives of compiled kernels: what is exported in one place is loaded in another."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile

import pytest

import nbmod as mx
from nbmod.cli import main as cli
from nbmod.core.config import CONFIG
from nbmod.ops.build import archive, levels, store

NAME = "double-" + 40 * "a" + store.SUFFIX


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache of this process."""
    monkeypatch.setattr(CONFIG, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(CONFIG, "cache", True)
    for each in (store.cache_folder, store._delete_old):
        each.cache_clear()
    yield store.cache_folder()
    for each in (store.cache_folder, store._delete_old):
        each.cache_clear()


def tar(path, members):
    """An archive of any content."""
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            archive._add(file, name, data)
    return str(path)


def contents(*names, **changes):
    """A table of contents."""
    return {archive.CONTENTS: json.dumps({"compiler": store.compiler_of() | changes,
                                          "kernels": names}).encode()}


GOOD = {"good-" + 40 * "c" + store.SUFFIX: store.packed(b"code")}


@pytest.mark.parametrize(("members", "message"), [
    (GOOD, "cannot be read as an archive .*contents.json"),
    (contents(*GOOD, NAME) | GOOD | {NAME: b"code"}, "1 of 2 kernels are damaged or missing"),
    (contents(*GOOD, NAME) | GOOD | {NAME: store.packed(b"code")[:-1]}, "1 of 2 .* such as double"),
    (contents(*GOOD, NAME) | GOOD, "1 of 2 .* such as double"),
    (contents(*GOOD) | GOOD | {"../" + NAME: store.packed(b"")}, "is no compiled kernel"),
    (contents(*GOOD) | GOOD | {"setup.py": b""}, "is no compiled kernel"),
    (contents(*GOOD, numba="0.1") | GOOD, "numba: 0.1 in the archive"),
    (contents(*GOOD, **{"instruction sets": "+avx9"}) | GOOD, r"\+avx9 in the archive"),
    ({archive.CONTENTS: b"{"} | GOOD, "cannot be read"),
    ({archive.CONTENTS: b"[]"} | GOOD, "cannot be read"),
], ids=["bare", "format", "cut", "missing", "path", "name", "version", "level", "json", "list"])
def test_what_does_not_fit_is_refused_whole(folder, tmp_path, members, message):
    with pytest.raises(mx.MXNetError, match=message):
        archive.install(tar(tmp_path / "kernels.tar", members))
    assert not list(folder.glob("*"))


def test_links_and_other_files_are_refused(folder, tmp_path):
    path = tmp_path / "kernels.tar"
    with tarfile.open(path, "w") as file:
        for name, data in contents().items():
            archive._add(file, name, data)
        link = tarfile.TarInfo(NAME)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)
    with pytest.raises(mx.MXNetError, match="is no compiled kernel"):
        archive.install(str(path))
    path.write_bytes(b"text")
    with pytest.raises(mx.MXNetError, match="cannot be read as an archive"):
        archive.install(str(path))
    with pytest.raises(mx.MXNetError, match="cannot be read as an archive"):
        archive.install(str(tmp_path / "absent.tar"))


def test_a_cut_archive_is_refused(folder, tmp_path):
    store.write_kernel(folder / NAME, bytes(3000))
    archive.export(str(tmp_path / "kernels.tar.gz"))
    data = (tmp_path / "kernels.tar.gz").read_bytes()
    (folder / NAME).unlink()
    (tmp_path / "cut.tar").write_bytes(data[:len(data) // 2])
    with pytest.raises(mx.MXNetError, match="cannot be read as an archive"):
        archive.install(str(tmp_path / "cut.tar"))
    assert not list(folder.glob("*"))


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_archives_of_which_one_byte_is_another(folder, tmp_path, suffix):
    """Any byte: the archive is refused, by an error that names it, or all of it is installed."""
    content = random.Random(0).randbytes(30_000)    # more than decompressors read at once
    store.write_kernel(folder / NAME, content)
    path = tmp_path / f"kernels.{suffix}"
    archive.export(str(path))
    sound, refused = path.read_bytes(), 0
    for at in range(0, len(sound), max(1, len(sound) // 200)):
        (folder / NAME).unlink(missing_ok=True)
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1:])
        try:
            archive.install(str(path))
        except mx.MXNetError as error:
            assert str(path) in str(error) and not (folder / NAME).exists()
            refused += 1
        else:
            assert store.read_kernel(folder / NAME) == content
    assert refused > 20


def test_an_archive_of_two_streams_is_read(folder, tmp_path):
    """As `cat` and parallel compressors write them."""
    store.write_kernel(folder / NAME, bytes(30_000))
    archive.export(str(tmp_path / "kernels.tar"))
    plain = (tmp_path / "kernels.tar").read_bytes()
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        (folder / NAME).unlink(missing_ok=True)
        (tmp_path / "kernels.two").write_bytes(compress(plain[:20_000]) + compress(plain[20_000:]))
        assert archive.install(str(tmp_path / "kernels.two")) == 1
        assert store.read_kernel(folder / NAME) == bytes(30_000)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_an_archive_that_unpacks_to_far_more_than_it_is(folder, tmp_path, compress):
    path = tmp_path / "bomb.tar"
    path.write_bytes(compress(bytes(1 << 24)))
    with pytest.raises(mx.MXNetError, match=r"bomb.tar: damaged or hostile: \d+ bytes would"):
        archive.install(str(path))


def test_the_number_of_kernels_and_their_names_are_limited(folder, tmp_path, monkeypatch):
    many = {f"k{number}-" + 40 * "c" + store.SUFFIX: store.packed(b"") for number in range(9)}
    monkeypatch.setattr(archive, "MOST_KERNELS", 9)
    assert archive.install(tar(tmp_path / "kernels.tar", contents(*many) | many)) == 9
    monkeypatch.setattr(archive, "MOST_KERNELS", 8)
    with pytest.raises(mx.MXNetError, match="kernels.tar: more than 8 kernels; nothing is inst"):
        archive.install(str(tmp_path / "kernels.tar"))
    for name in ("k" * 300 + "-" + 40 * "c" + store.SUFFIX, "é-" + 40 * "c" + store.SUFFIX):
        with pytest.raises(mx.MXNetError, match="is no compiled kernel"):
            archive.install(tar(tmp_path / "kernels.tar", {name: b""}))


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
@pytest.mark.parametrize("level", ["", *levels.supported()[-1:]])
def test_another_home_compiles_nothing(level, tmp_path):
    """The two commands that a container uses, for this host or any of a level."""
    net = mx.sym.tanh(mx.sym.Variable("data"))
    net.save(str(tmp_path / "net-symbol.json"))
    warm = ["warmup", str(tmp_path / "net-symbol.json"), "--shape", "data=100,300"]

    def run(home, *words):
        environment = os.environ | {"NBMOD_CACHE_DIR": str(tmp_path / home)}
        environment |= {"NBMOD_CPU_LEVEL": level} if level else {}
        done = subprocess.run([sys.executable, "-m", "nbmod", *words], env=environment,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kernels = str(tmp_path / "kernels.tar")
    assert f"kernels are in {kernels}" in run("first", *warm, "--export", kernels)
    assert f"kernels of {kernels} are kept in" in run("second", "warmup", "--install", kernels)
    assert run("second", *warm).startswith("0 kernels compiled")


def test_the_command_names_what_it_cannot_read(capsys, tmp_path):
    assert cli.main(["warmup", "--install", str(tmp_path / "none.tar")]) == 1
    assert "cannot be read as an archive" in capsys.readouterr().err
