"""Archives are read into memory, and hostile ones are refused by name; nothing is written."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.cli import main as cli
from nbmod.core import archive_members
from nbmod.core.archive_members import MEMBERS, is_archive, read_members
from tests.made_archives import tar, zipped

FILES = {"a/one.txt": b"one", "two": b"2" * 600, "empty": b""}


def contents(path):
    return {name: bytes(content) for name, content in read_members(path).items()}


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_files_are_read(tmp_path, mode, form):
    files = FILES | {f"long/{'n' * 90}/{'m' * 90}": b"name"}
    with tarfile.open(tmp_path / "model", mode, format=form) as archive:
        archive.addfile(_entry("./a", type=tarfile.DIRTYPE))
        for name, content in files.items():
            archive.addfile(_entry(f"./{name}", size=len(content)), io.BytesIO(content))
    assert is_archive(tmp_path / "model") and contents(tmp_path / "model") == files


def test_zip_files_are_read(tmp_path):
    path = tmp_path / "model.zip"
    path.write_bytes(zipped({"a/": b"", **FILES, "__MACOSX/a/._one.txt": b"attributes"}))
    assert contents(path) == FILES


def test_archives_in_archives_are_folders(tmp_path):
    inner = zipped({"net-symbol.json": b"{}"})
    path = tar(tmp_path / "model.tar.gz", {"model_algo-1": inner, "data.npz": inner,
                                           "b.tar": tar(tmp_path / "b", FILES).read_bytes()})
    assert {*contents(path)} == {"model_algo-1/net-symbol.json", "data.npz",
                                 *(f"b.tar/{name}" for name in FILES)}


def test_other_files_are_no_archives(tmp_path):
    for name, content in {"net.npz": zipped(FILES), "net-symbol.json": b"{}", "net": b"no",
                          "net.pth": zipped(FILES), "none": b""}.items():
        (tmp_path / name).write_bytes(content)
        assert not is_archive(tmp_path / name), name
    assert not is_archive(tmp_path) and not is_archive(tmp_path / "missing.zip")


# -- hostile archives ---------------------------------------------------------------------------


def _entry(name, size=0, **fields):
    member = tarfile.TarInfo(name)
    member.size = size
    for key, value in fields.items():
        setattr(member, key, value)
    return member


def _tarred(*members, mode="w:"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return stream.getvalue()


def _zip_entry(name, content=b"x", mode=stat.S_IFREG | 0o644, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("name")
        info.create_system, info.external_attr, info.compress_type = 3, mode << 16, method
        info.filename = name
        archive.writestr(info, content)
    return stream.getvalue()


def _encrypted():
    content = bytearray(_zip_entry("a.params", b"secret"))
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    return bytes(content)


def _twice_in_zip():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    return stream.getvalue()


def _overlapping():
    """A zip file whose entries all have the data of the first."""
    one = _zip_entry("a", b"\0" * 1_000_000, method=zipfile.ZIP_DEFLATED)
    start = one.index(b"PK\1\2")
    end = one.index(b"PK\5\6")
    entries = b"".join(one[start:end - 1] + bytes([48 + number % 75]) for number in range(2000))
    record = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2000, 2000, len(entries), start, 0)
    return one[:start] + entries + record


def _lying():
    """A zip file that declares one byte, and has millions."""
    content = bytearray(_zip_entry("a", b"\0" * (1 << 24), method=zipfile.ZIP_DEFLATED))
    for at in (22, content.index(b"PK\1\2") + 24):
        content[at:at + 4] = struct.pack("<I", 1)
    return bytes(content)


def _nested(depth):
    content = zipped({"net-symbol.json": b"{}"})
    for _ in range(depth - 1):
        content = zipped({"inner": content})
    return content


def _bomb():
    """A gzip file of a tar file of zeros, of a thousandth of its size."""
    size = 1 << 30
    head = _entry("net-0000.params", size).tobuf()
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(head)]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(64)]
    return b"".join([*parts, packer.flush()])


def _sparse():
    member = _entry("a", 512)
    member.type = tarfile.GNUTYPE_SPARSE
    return _tarred(member)


def _truncated(content, part=0.5):
    return content[:int(len(content) * part)]


SOUND_TAR = _tarred(_entry("a.params", 5000), _entry("b", 5000), mode="w:gz")
HOSTILE = {
    "absolute name": (lambda: _tarred(_entry("/etc/passwd", 3)), "'/etc/passwd'.*leads out"),
    "parent": (lambda: _tarred(_entry("a/../../b", 3)), "'a/../../b'.*leads out"),
    "parent by backslash": (lambda: _tarred(_entry("a\\..\\..\\b", 3)), "leads out"),
    "drive": (lambda: _tarred(_entry("C:\\b", 3)), "leads out"),
    "parent in zip": (lambda: _zip_entry("../b"), r"'\.\./b'.*leads out"),
    "absolute name in zip": (lambda: _zip_entry("/b"), "'/b'.*leads out"),
    "null byte in zip": (lambda: _zip_entry("name.json\0.txt"), "leads out"),
    "symbolic link": (lambda: _tarred(_entry("a", type=tarfile.SYMTYPE, linkname="/etc")),
                      "'a'.*a link to '/etc'"),
    "hard link": (lambda: _tarred(_entry("b", 1), _entry("a", type=tarfile.LNKTYPE, linkname="b")),
                  "'a'.*a link to 'b'"),
    "link in zip": (lambda: _zip_entry("a", b"/etc", stat.S_IFLNK | 0o777), "'a'.*a link or"),
    "device": (lambda: _tarred(_entry("a", type=tarfile.CHRTYPE)), "'a'.*a device"),
    "pipe": (lambda: _tarred(_entry("a", type=tarfile.FIFOTYPE)), "'a'.*a pipe"),
    "sparse file": (_sparse, "damaged|sparse"),
    "twice": (lambda: _tarred(_entry("a", 1), _entry("./a", 2)), "'a'.*there twice"),
    "twice in zip": (_twice_in_zip, "'a'.*there twice"),
    "too many members": (
        lambda: _entry("a", type=tarfile.DIRTYPE).tobuf() * 300, r"more than \d+ members"),
    "too many members in zip": (
        lambda: zipped({"a": b""}) + b"PK\1\2" * 300 + zipped({"a": b""}),
        r"more than \d+ members"),
    "bomb": (_bomb, "damaged or hostile"),
    "overlapping entries": (_overlapping, "damaged or hostile"),
    "declared size": (_lying, "damaged"),
    "bomb in zip": (lambda: zipped({"a.params": bytes(1 << 25)}), "damaged or hostile"),
    "bomb in an archive": (lambda: zipped({"model": zipped({"a": bytes(1 << 25)})}),
                           "damaged or hostile"),
    "depth": (lambda: _nested(4), "more than 3 archives are in one another"),
    "encrypted": (_encrypted, "'a.params'.*encrypted"),
    "lzma in zip": (lambda: _zip_entry("a", b"x", method=zipfile.ZIP_LZMA), "not deflate"),
    "truncated gzip": (lambda: _truncated(SOUND_TAR), "damaged"),
    "truncated tar": (lambda: _truncated(gzip.decompress(SOUND_TAR), 0.4), "damaged"),
    "truncated between members": (lambda: gzip.decompress(SOUND_TAR)[:512 + 5120], "damaged"),
    "truncated xz": (lambda: _truncated(lzma.compress(gzip.decompress(SOUND_TAR))), "damaged"),
    "truncated bzip2": (lambda: _truncated(bz2.compress(gzip.decompress(SOUND_TAR))), "damaged"),
    "truncated zip": (lambda: _truncated(zipped({"a": os.urandom(5000)})), "damaged"),
    "changed byte in zip": (
        lambda: zipped({"a": b"content"}).replace(b"PK\5\6", b"PK\5\7"), "damaged"),
    "other checksum": (lambda: _zip_entry("a", b"same size").replace(b"same", b"sane"), "damaged"),
    "negative size": (lambda: _negative(), "damaged"),
    "text": (lambda: b"no archive", "damaged, or cannot be read as a tar or zip archive"),
    "nothing": (lambda: b"", "damaged"),
    "long chain of headers": (
        lambda: _entry("././@LongLink", type=tarfile.GNUTYPE_LONGNAME).tobuf() * 5000, "damaged"),
}


def _negative():
    """A header whose size is below zero, with its checksum."""
    head = bytearray(_entry("a").tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"\xff" * 12
    head[148:156] = b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    return bytes(head) + bytes(1024)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(tmp_path, monkeypatch, capsys, kind):
    make, error = HOSTILE[kind]
    if "too many" in kind:
        monkeypatch.setattr(archive_members, "MEMBERS", 200)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = tmp_path / "model.tar.gz"
    path.write_bytes(make())
    with pytest.raises(MXNetError, match=error) as caught:
        read_members(path)
    assert str(path) in str(caught.value)
    for call in (mx.Predictor, mx.convert.read_model, lambda name: mx.mod.Module.load(name, 0)):
        with pytest.raises(MXNetError, match=error):
            call(str(path))
    assert cli.main(["convert", str(path), "-o", "net"]) == 1
    assert cli.main(["inspect", str(path)]) == 1
    assert cli.main(["predict", str(path), "a.png"]) == 1
    assert capsys.readouterr().err.count(str(path)) == 3
    assert [*folder.iterdir()] == [] and [each.name for each in tmp_path.iterdir()
                                          if each != folder] == ["model.tar.gz"]


SOUND = {"tar": gzip.decompress(SOUND_TAR), "tar.gz": SOUND_TAR,
         "zip": zipped({"a.params": b"a" * 300, "model": zipped({"b": b"content"})})}


@pytest.mark.parametrize("kind", SOUND)
@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6),
       st.integers(0, 3000))
@settings(deadline=None, max_examples=60,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_archives_are_read_or_refused(tmp_path, kind, changes, cut):
    """Bytes are changed, most of them near the beginning, and some are cut off."""
    content = bytearray(SOUND[kind])
    for at, value in changes:
        content[at % min(len(content), 1 << 6 + at % 10)] = value
    path = tmp_path / f"model.{kind}"
    path.write_bytes(content[:cut % len(content)] if cut else content)
    with contextlib.suppress(MXNetError):
        assert all(isinstance(name, str) for name in read_members(path))


def test_members_are_counted_before_objects_are_made(tmp_path, monkeypatch):
    """A zip file with a long list is refused before `zipfile` reads it."""
    path = tmp_path / "model.zip"
    path.write_bytes(b"PK\3\4" + b"PK\1\2" * (MEMBERS + 1))
    monkeypatch.setattr(archive_members.zipfile, "ZipFile", None)
    with pytest.raises(MXNetError, match="more than"):
        read_members(path)
