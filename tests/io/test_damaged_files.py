"""Damaged and forged files of every kind: only MXNetError, termination, bounded memory.

Damaged files of recordio and of the text readers are in their own tests; here are images by every
library, lists and indexes, and the memory that all of them take.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.cli import main as cli
from nbmod.imgproc import codecs
from nbmod.imgproc.image_headers import _jpeg_frame
from tests.programs.image_record_programs import smooth

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ["simplejpeg", "cv2", "PIL.Image"]
quick = settings(deadline=None, max_examples=60,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])
changes = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6)


def changed(content, changes, cut):
    """`content` with some bytes changed, most of them near its beginning, and perhaps truncated."""
    data = bytearray(content)
    for at, value in changes:
        data[at % min(len(data), 1 << 6 + at % 10)] = value
    return bytes(data[:cut % len(data)] if cut else data)


def decodes(library):
    """Only this library is available."""
    there = codecs._library
    return mock.patch.object(codecs, "_library",
                             lambda name: there(name) if name == library else None)


# -------------------------------------------------------------------------------------- images

IMAGES = {name: codecs.encode(smooth(40, 30, 1), *how) for name, how in {
    "jpg": ("jpg",), "png": ("png", 3), "bmp": ("bmp",), "gif": ("gif",), "tiff": ("tiff",)
}.items()} | {"gray": codecs.encode(smooth(40, 30, 1)[..., 0], "jpg")}


@pytest.mark.parametrize("library", LIBRARIES)
@given(st.sampled_from(sorted(IMAGES)), changes, st.integers(0, 3000), st.sampled_from([3, 1, 0]))
@quick
def test_changed_images_are_read_or_refused(library, kind, changes, cut, channels):
    pytest.importorskip(library)
    data = changed(IMAGES[kind], changes, cut)
    with decodes(library), contextlib.suppress(MXNetError):
        image = codecs.decode(data, channels)
        assert image.dtype == np.uint8
        assert image.shape[2] == channels if channels else image.shape[2] in (1, 3, 4)


@given(st.sampled_from(sorted(IMAGES)), changes, st.integers(0, 3000))
@quick
def test_iterators_read_or_refuse_changed_images(tmp_path, kind, changes, cut):
    path = str(tmp_path / "a.rec")
    record = mx.recordio.pack((0, 1.0, 0, 0), IMAGES[kind])
    record = record[:24] + changed(record[24:], changes, cut)
    with mx.recordio.MXRecordIO(path, "w") as writer:
        writer.write(record)
    for call in (lambda: mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 8, 8),
                                               batch_size=1, verbose=False).next(),
                 lambda: mx.image.ImageIter(1, (3, 8, 8), path_imgrec=path).next(),
                 lambda: mx.image.imdecode(record[24:]),
                 lambda: mx.recordio.unpack_img(record)):
        with contextlib.suppress(MXNetError):
            call()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind, options", [
    ("1", {}), ("L", {}), ("RGB", {}), ("P", {}), ("jpeg", {"quality": 1, "optimize": True}),
    ("jpeg", {"quality": 1, "progressive": True})])
def test_images_that_are_packed_as_closely_as_can_be(library, kind, options):
    """Of one color and with more pixels than any header may declare."""
    pytest.importorskip(library)
    if library == "simplejpeg" and kind != "jpeg":
        pytest.skip("knows JPEG alone")
    image = pytest.importorskip("PIL.Image").new("L" if kind == "jpeg" else kind, (2200, 2000))
    file = io.BytesIO()
    image.save(file, "JPEG" if kind == "jpeg" else "PNG", **options)
    with decodes(library):
        assert codecs.decode(file.getvalue()).shape == (2000, 2200, 3)


@pytest.mark.parametrize("between", [b"", b"\xff\xff\xff", b"noise\xff\x00", b"\xff\xd0\xff\x01"])
def test_sizes_are_found_behind_anything(between):
    data = IMAGES["jpg"]
    at = data.index(b"\xff\xdb")
    assert _jpeg_frame(data[:at] + between + data[at:])[1:] == (30, 40)
    assert _jpeg_frame(data[:at]) == _jpeg_frame(b"\xff\xd8\xff") == (0, 0, 0)


# ------------------------------------------------------------------------------ lists and indexes

LIST = b"0\t1.5\ta.png\n1\t2\tfolder/b.png\n2\t-3\tc.png\n"
LISTS = [b"0\t1\ta\x00b\n", b"nan\t1\ta\n", b"1e300\t1\ta\n", b"0\t1e400\ta\n", b"\xff\t1\t\xff",
         b"0\t1\t\xff\xfe\n", b"0\t1\t\n", b"0\t1\t.\n", b"0\t1\t/\n", b"-1\t1\ta\n", b"", b"\n\n",
         b"0\t" + b"1\t" * 1000 + b"a"]
INDEX = b"0\t0\n1\t156\n2\t312\n"
INDEXES = [b"0\t%d\n" % 2**62, b"0\t%d\n" % 2**63, b"0\t%d\n" % 10**30, b"0\t" + b"9" * 5000,
           b"\xff\xfe0\t0\n", b"0\t0\x00\n", b"%d\t0\n" % 10**30, b"", "0\t²".encode()]


def three_images(folder):
    path = str(folder / "a.rec")
    with mx.recordio.MXRecordIO(path, "w") as writer:
        for number in range(3):
            writer.write(mx.recordio.pack((0, 1.0, number, 0), IMAGES["png"]))
    (folder / "a.png").write_bytes(IMAGES["png"])
    return path


def use_list(folder, content):
    """All readers of a list."""
    record, path = three_images(folder), str(folder / "a.lst")
    Path(path).write_bytes(content)
    for call in (lambda: mx.image.ImageIter(1, (3, 8, 8), path_imglist=path,
                                            path_root=str(folder)).next(),
                 lambda: mx.image.ImageIter(3, (3, 8, 8), path_imglist=path, path_imgrec=record
                                            ).next(),
                 lambda: mx.io.ImageRecordIter(path_imgrec=record, path_imglist=path, batch_size=3,
                                               data_shape=(3, 8, 8), verbose=False).next()):
        with contextlib.suppress(MXNetError):
            call()
    assert cli.main(["im2rec", "--num-thread", "1", path[:-4], str(folder)]) in (0, 1)


def use_index(folder, content):
    """All readers of an index."""
    record, path = three_images(folder), str(folder / "a.idx")
    Path(path).write_bytes(content)
    for call in (lambda: [reader.read_idx(key) for reader in
                          [mx.recordio.MXIndexedRecordIO(path, record, "r")]
                          for key in reader.keys],
                 lambda: mx.image.ImageIter(3, (3, 8, 8), path_imgidx=path, path_imgrec=record
                                            ).next(),
                 lambda: mx.io.ImageRecordIter(path_imgrec=record, path_imgidx=path, batch_size=3,
                                               data_shape=(3, 8, 8), verbose=False).next()):
        with contextlib.suppress(MXNetError):
            call()


@pytest.mark.parametrize("content", LISTS, ids=range(len(LISTS)))
def test_lists(tmp_path, content):
    use_list(tmp_path, content)


@pytest.mark.parametrize("content", INDEXES, ids=range(len(INDEXES)))
def test_indexes(tmp_path, content):
    use_index(tmp_path, content)


@given(changes, st.integers(0, 60))
@quick
def test_changed_lists_and_indexes_are_read_or_refused(tmp_path, changes, cut):
    use_list(tmp_path, changed(LIST, changes, cut))
    use_index(tmp_path, changed(INDEX, changes, cut))


# ----------------------------------------------------------------------------------------- memory

@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux measures it")
def test_memory_is_at_most_twice_the_file_and_64_mib():
    ran = subprocess.run([sys.executable, "-m", "tests.programs.forged_files"],
                         cwd=ROOT, check=True,
                         capture_output=True, text=True, timeout=300)
    for name, (size, taken, outcome) in json.loads(ran.stdout).items():
        assert taken <= 2 * size / 2**20 + 64, name
        assert outcome in ("read", "MXNetError", "DamagedRecord"), name


def test_headers_that_claim_too_much():
    data = IMAGES["jpg"]
    at = data.index(b"\xff\xc0") + 5
    forged = data[:at] + struct.pack(">HH", 65500, 65500) + data[at + 4:]
    with pytest.raises(MXNetError, match=r"65500 x 65500 pixels, which .* bytes cannot hold"):
        codecs.decode(forged)


@pytest.mark.parametrize("left", [0, 20])
def test_a_file_that_was_cut_since_it_was_opened_is_named(tmp_path, left):
    """The search for the end of its last line never ended."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2,3\n" * 9)
    iterator = mx.io.CSVIter(data_csv=str(path), data_shape=(3,), batch_size=3)
    next(iterator)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(mx.MXNetError, match=f"rows.csv: the file has {left} bytes.*at least 54"):
        iterator.reset()
        list(iterator)
