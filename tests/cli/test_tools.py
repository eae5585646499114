"""The command-line tools: lists and records of images; inspection and repair of record files."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import im2rec
from nbmod.cli import main as cli
from nbmod.imgproc import codecs
from nbmod.recordio import MXIndexedRecordIO, MXRecordIO, pack
from nbmod.recordio.lists import read_list
from tests.programs import iterator_programs, recordio_programs


@pytest.fixture
def images(tmp_path):
    """Two classes of three images, 20 by 30 pixels of one color each."""
    for number in range(6):
        folder = tmp_path / "images" / ("cats", "dogs")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image = np.full((20, 30, 3), 40 * number, np.uint8)
        image[:, :, 1] = 200
        (folder / f"{number}.png").write_bytes(codecs.encode(image, "png"))
    (tmp_path / "images" / "notes.txt").write_text("none")
    return tmp_path / "images"


def nbmod(*words):
    return cli.main([str(word) for word in words])


def records(prefix):
    reader = MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    return {key: mx.recordio.unpack(reader.read_idx(key)) for key in reader.keys}


def test_lists(images, tmp_path, capsys):
    prefix = tmp_path / "all"
    assert nbmod("im2rec", "--list", "--recursive", "--no-shuffle", prefix, images) == 0
    assert capsys.readouterr().out == f"{prefix}.lst\n"
    assert Path(f"{prefix}.lst").read_text().splitlines() == [
        "0\t0.000000\tcats/0.png", "1\t0.000000\tcats/2.png", "2\t0.000000\tcats/4.png",
        "3\t1.000000\tdogs/1.png", "4\t1.000000\tdogs/3.png", "5\t1.000000\tdogs/5.png"]
    assert nbmod("im2rec", "--list", "--recursive", prefix, images) == 0
    shuffled = read_list(f"{prefix}.lst")
    assert sorted(entry.number for entry in shuffled) == list(range(6))
    assert [entry.number for entry in shuffled] != list(range(6))


@pytest.mark.parametrize("options, sizes", [
    (["--train-ratio", "0.5"], {"_train": 3, "_val": 3}),
    (["--train-ratio", "0.5", "--test-ratio", "0.5"], {"_test": 3, "_train": 3}),
    (["--train-ratio", "0.5", "--test-ratio", "0.2"], {"_test": 1, "_train": 3, "_val": 2}),
    (["--chunks", "2"], {"_0": 3, "_1": 3})])
def test_lists_in_parts(images, tmp_path, options, sizes):
    assert nbmod("im2rec", "--list", "--recursive", *options, tmp_path / "a", images) == 0
    lists = {path.stem[1:]: read_list(path) for path in tmp_path.glob("a*.lst")}
    assert {name: len(entries) for name, entries in lists.items()} == sizes
    assert sorted(e.number for entries in lists.values() for e in entries) == list(range(6))


NAMES = ["a b.png", "é.png", b"\xff\xfe.png", "-1.png", "#.png", '"a".png', "a\\b.png"]
REFUSED = ["a\tb.png", "a\n9\t9\tb.png", "a\rb.png", " a.png", "\xa0.png", "\x1c.png"]
"""Where a name has a line break, the rest would be a line of its choice."""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_any_name_that_a_line_can_hold_is_listed_and_packed(images, tmp_path, name):
    name = os.fsdecode(name)
    (images / "cats" / "0.png").rename(images / "cats" / name)
    assert nbmod("im2rec", "--list", "--recursive", "--no-shuffle", tmp_path / "a", images) == 0
    assert f"cats/{name}" in {entry.path for entry in read_list(tmp_path / "a.lst")}
    assert nbmod("im2rec", "--pass-through", tmp_path / "a", images) == 0
    assert len(records(tmp_path / "a")) == 6


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("name", REFUSED, ids=repr)
@pytest.mark.parametrize("options", [[], ["--chunks", "3"]], ids=["one list", "three lists"])
def test_a_name_that_a_line_cannot_hold_is_refused(images, tmp_path, capsys, name, options):
    folder = images / name[:-4]
    folder.mkdir()
    (images / "cats" / "0.png").rename(folder / "0.png" if name != "\xa0.png" else images / name)
    (tmp_path / "a.lst").write_text("old")
    assert nbmod("im2rec", "--list", "--recursive", *options, tmp_path / "a", images) == 1
    assert f"{name[:-4]!r}"[1:-1] in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path != images] == ["a.lst"]
    assert (tmp_path / "a.lst").read_text() == "old"


def make(images, prefix, *options):
    assert nbmod("im2rec", "--list", "--recursive", prefix, images) == 0
    return nbmod("im2rec", *options, prefix, images)


@pytest.mark.parametrize("options, shape", [
    ([], (20, 30, 3)), (["--encoding", ".png", "--quality", "3"], (20, 30, 3)),
    (["--resize", "10"], (10, 15, 3)), (["--center-crop", "--num-thread", "1"], (20, 20, 3)),
    (["--center-crop", "--resize", "8"], (8, 8, 3)), (["--color", "0"], (20, 30, 1)),
    (["--pass-through"], (20, 30, 3))])
def test_records_of_images(images, tmp_path, options, shape):
    prefix = tmp_path / "a"
    assert make(images, prefix, *options) == 0
    entries = {entry.number: entry for entry in read_list(f"{prefix}.lst")}
    found = records(prefix)
    assert list(found) == list(entries)
    for number, (header, data) in found.items():
        source = codecs.decode((images / entries[number].path).read_bytes())
        image = codecs.decode(data, 0)
        assert (header.id, header.label) == (number, entries[number].labels[0])
        assert image.shape == shape
        if shape[2] == 3:
            assert np.abs(image.astype(int) - source[0, 0]).max() <= 3  # JPEG of one color
    assert {path.name for path in tmp_path.glob("a.*")} == {"a.lst", "a.rec", "a.idx"}


def test_mxnet_reads_our_records(oracle, images, tmp_path):
    prefix = tmp_path / "a"
    assert make(images, prefix, "--encoding", ".png", "--quality", "3") == 0
    files = [Path(f"{prefix}.{kind}").read_bytes() for kind in ("rec", "idx")]
    keys = [entry.number for entry in read_list(f"{prefix}.lst")]
    arguments = (*files, keys, "int")
    assert recordio_programs.read(mx, *arguments) == oracle.call(
        "mx_scripts.run", "recordio_programs", "read", *arguments)


@pytest.mark.parametrize("options, label", [([], {}), (["--pack-label"], {"label_width": 2})])
def test_mxnet_trains_on_our_records(oracle, images, tmp_path, options, label):
    """ImageRecordIter of either package on the output of im2rec."""
    prefix = tmp_path / "a"
    (tmp_path / "a.lst").write_text("".join(
        f"{k}\t{k}\t{-k}\t{('cats', 'dogs')[k % 2]}/{k}.png\n" for k in range(6)))
    assert nbmod("im2rec", "--encoding", ".png", *options, prefix, images) == 0
    arguments = ({f"a.{kind}": Path(f"{prefix}.{kind}").read_bytes() for kind in ("rec", "idx")},
                 "ImageRecordIter", {"path_imgrec": "a.rec", "path_imgidx": "a.idx", "verbose": 0,
                                     "data_shape": (3, 20, 30), "batch_size": 6, **label}, 1)
    ours = iterator_programs.batches(mx, *arguments)
    theirs = oracle.call("mx_scripts.run", "iterator_programs", "batches", *arguments)
    np.testing.assert_equal(ours[2][:4], theirs[2][:4])


def test_all_labels_of_a_line(images, tmp_path):
    (tmp_path / "a.lst").write_text("7\t1\t2.5\t-3\tcats/0.png\n")
    assert nbmod("im2rec", "--pack-label", tmp_path / "a", images) == 0
    assert records(tmp_path / "a")[7][0].label.tolist() == [1, 2.5, -3]
    assert nbmod("im2rec", tmp_path / "a", images) == 0
    assert records(tmp_path / "a")[7][0].label == 1


def test_what_is_no_image_is_left_out_and_told(images, tmp_path, capsys):
    (images / "cats" / "2.png").write_bytes(b"no image")
    (images / "cats" / "4.png").unlink()
    (tmp_path / "a.lst").write_text("".join(f"{k}\t0\tcats/{k}.png\n" for k in (0, 2, 4)))
    assert nbmod("im2rec", tmp_path / "a", images) == 1
    errors = capsys.readouterr().err
    assert list(records(tmp_path / "a")) == [0] and "2 of 3 images left out" in errors
    assert "2.png: decode: no image" in errors and "4.png: [Errno 2]" in errors


@pytest.mark.parametrize("stop", range(6))
@pytest.mark.parametrize("damage", [b"", b"half a record"])
def test_an_interrupted_run_is_taken_up(images, tmp_path, monkeypatch, stop, damage):
    """Stopped before the image `stop`: the second run packs it and those after it."""
    whole = tmp_path / "whole"
    assert make(images, whole) == 0
    pack_one, packed = im2rec._pack, []

    def interrupted(entry, path, options):
        if len(packed) == stop:
            raise KeyboardInterrupt
        packed.append(path)
        return pack_one(entry, path, options)

    monkeypatch.setattr(im2rec, "_CHUNK", 1)
    monkeypatch.setattr(im2rec, "_pack", interrupted)
    assert make(images, tmp_path / "a", "--num-thread", "1") == 130
    assert not (tmp_path / "a.rec").exists()
    part = tmp_path / "a.rec.part"
    part.write_bytes(part.read_bytes() + damage)
    monkeypatch.setattr(im2rec, "_pack", lambda *args: packed.append(args[1]) or pack_one(*args))
    assert nbmod("im2rec", tmp_path / "a", images) == 0
    assert len(packed) == 6 and len(set(packed)) == 6
    for kind in ("rec", "idx"):
        assert Path(f"{whole}.{kind}").read_bytes() == (tmp_path / f"a.{kind}").read_bytes()


@pytest.mark.parametrize("damage", [b"x", b"7 x\n", b"\xff\xff\n", b"9 -5\n", b"1 2 3\n"])
def test_a_damaged_journal_is_taken_up_as_far_as_it_is_sound(images, tmp_path, monkeypatch, damage):
    whole, pack_one, packed = tmp_path / "whole", im2rec._pack, []
    assert make(images, whole) == 0

    def interrupted(*arguments):
        if len(packed) == 3:
            raise KeyboardInterrupt
        packed.append(arguments)
        return pack_one(*arguments)

    monkeypatch.setattr(im2rec, "_CHUNK", 1)
    monkeypatch.setattr(im2rec, "_pack", interrupted)
    assert make(images, tmp_path / "a", "--num-thread", "1") == 130
    monkeypatch.setattr(im2rec, "_pack", pack_one)
    journal = tmp_path / "a.rec.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], damage, *lines[2:]]))
    assert nbmod("im2rec", tmp_path / "a", images) == 0
    for kind in ("rec", "idx"):
        assert Path(f"{whole}.{kind}").read_bytes() == (tmp_path / f"a.{kind}").read_bytes()


def test_other_options_begin_anew(images, tmp_path, monkeypatch):
    prefix, pack_one, packed = tmp_path / "a", im2rec._pack, []

    def interrupted(entry, path, options):
        if len(packed) == 3:
            raise KeyboardInterrupt
        packed.append(path)
        return pack_one(entry, path, options)

    monkeypatch.setattr(im2rec, "_CHUNK", 1)
    monkeypatch.setattr(im2rec, "_pack", interrupted)
    assert make(images, prefix, "--num-thread", "1") == 130
    monkeypatch.setattr(im2rec, "_pack", pack_one)
    assert nbmod("im2rec", "--resize", "10", prefix, images) == 0
    assert {codecs.decode(data).shape for _, data in records(prefix).values()} == {(10, 15, 3)}


@pytest.mark.parametrize("line", ["x\t0\ta.png", "1\ta.png", "1 0 a.png", "1\tx\ta", "inf\t0\ta",
                                  "1\t0\ta\r2\t0\tb"])
def test_damaged_lists(tmp_path, capsys, line):
    (tmp_path / "a.lst").write_text(f"0\t0\tb.png\n\n{line}\n")
    assert nbmod("im2rec", tmp_path / "a", tmp_path) == 1
    assert "a.lst, line 3: expected a number, labels and a path" in capsys.readouterr().err


@pytest.mark.parametrize("words, error", [
    (["im2rec", "--list", "a", "no folder"], "no folder 'no folder'"),
    (["im2rec", "a", "no folder"], "no folder 'no folder'"),
    (["im2rec", "none", "."], "there is no list none*.lst"),
    (["im2rec", "--list", "--train-ratio", "2", "a", "."], "sum up to 1"),
    (["im2rec", "--list", "a", "."], "no images"),
    (["rec2idx", "none.rec"], "none.rec: cannot be read"),
    (["rec", "slice", "a", "b", "--start", "3", "--stop", "1"], "0 <= start <= stop"),
    (["rec", "merge", "a", "a"], "is read here")])
def test_complaints(tmp_path, monkeypatch, capsys, words, error):
    monkeypatch.chdir(tmp_path)
    assert nbmod(*words) == 1
    assert error in capsys.readouterr().err


# ---------------------------------------------------------------------------------- record files

@pytest.fixture
def ten(tmp_path):
    """A file of ten images, whose index is lost."""
    path = tmp_path / "ten.rec"
    with MXRecordIO(path, "w") as writer:
        for number in range(10):
            image = codecs.encode(np.full((4 + number, 8, 3), 20 * number, np.uint8), "png")
            writer.write(pack((0, number % 3, 100 + number, 0), image))
    return path


def content(path):
    return list(MXRecordIO(path, "r"))


def test_indexes(ten, tmp_path, capsys):
    assert nbmod("rec2idx", ten) == 0
    assert "ten.idx: 10 records" in capsys.readouterr().out
    reader = MXIndexedRecordIO(tmp_path / "ten.idx", ten, "r")
    assert reader.keys == list(range(10))
    assert [reader.read_idx(key) for key in reader.keys] == content(ten)
    assert nbmod("rec2idx", "--ids", ten, tmp_path / "other.idx") == 0
    assert MXIndexedRecordIO(tmp_path / "other.idx", ten, "r").keys == list(range(100, 110))


def test_inspect(ten, capsys):
    assert nbmod("rec", "inspect", "--first", "2", ten) == 0
    out = capsys.readouterr().out
    assert "10 records" in out and "content: PNG (10)" in out
    assert "labels: 3 different ones from 0 to 2" in out
    assert "  1: id 101, label 1, " in out and "id 102" not in out


def damaged(ten):
    """The fourth record's magic number is damaged."""
    with MXRecordIO(ten, "r") as reader:
        for _ in range(3):
            reader.read()
        at = reader.tell()
    data = bytearray(ten.read_bytes())
    data[at:at + 4] = bytes(4)
    ten.write_bytes(data)
    return at


def test_verify_and_repair(ten, tmp_path, capsys):
    whole = content(ten)
    assert nbmod("rec", "verify", "--decode", ten) == 0
    out = capsys.readouterr().out
    assert "10 intact records, 0 damaged stretches, 0 that are no images" in out
    at = damaged(ten)
    assert nbmod("rec", "verify", ten) == 1
    out = capsys.readouterr().out
    assert f"offset {at}" in out and "9 intact records, 1 damaged stretches" in out
    target = tmp_path / "mended.rec"
    assert nbmod("rec", "repair", ten, target) == 0
    assert content(target) == whole[:3] + whole[4:] and (tmp_path / "mended.idx").exists()
    capsys.readouterr()
    there = sorted(tmp_path.iterdir())
    assert nbmod("rec", "merge", tmp_path / "all.rec", target, ten) == 1
    assert "rec repair" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == there, "nothing half written is left"


def test_verify_images(tmp_path, capsys):
    path = tmp_path / "a.rec"
    with MXRecordIO(path, "w") as writer:
        writer.write(pack((0, 1.0, 0, 0), b"no image"))
    assert nbmod("rec", "verify", "--decode", path) == 1
    assert "record 0: decode: no image" in capsys.readouterr().out
    assert nbmod("rec", "repair", "--decode", path, tmp_path / "b.rec") == 0
    assert content(tmp_path / "b.rec") == [] and len(content(path)) == 1


@pytest.mark.parametrize("options, chosen", [
    ([], slice(None)), (["--start", "4"], slice(4, None)), (["--stop", "3"], slice(0, 3)),
    (["--start", "1", "--stop", "8", "--step", "3"], slice(1, 8, 3)),
    (["--start", "99"], slice(0))])
def test_slice(ten, tmp_path, options, chosen):
    target = tmp_path / "some.rec"
    assert nbmod("rec", "slice", ten, target, *options) == 0
    assert content(target) == content(ten)[chosen]


def test_merge_and_checksum(ten, tmp_path, capsys):
    parts = [tmp_path / f"{k}.rec" for k in range(2)]
    assert nbmod("rec", "slice", ten, parts[0], "--stop", "4") == 0
    assert nbmod("rec", "slice", ten, parts[1], "--start", "4") == 0
    joined = tmp_path / "joined.rec"
    assert nbmod("rec", "merge", joined, *parts) == 0
    assert content(joined) == content(ten)
    capsys.readouterr()
    assert nbmod("rec", "checksum", ten, joined, parts[0]) == 0
    sums = [line.split("  ")[:3] for line in capsys.readouterr().out.splitlines()]
    assert sums[0] == sums[1] != sums[2] and sums[0][1] == "10 records"


def test_sheet(ten, tmp_path):
    target = tmp_path / "sheet.png"
    assert nbmod("rec", "sheet", "--count", "5", "--size", "20", ten, target) == 0
    sheet = codecs.decode(target.read_bytes())
    assert sheet.shape == (40, 60, 3)
    for number in range(5):
        row, column = divmod(number, 3)
        assert (sheet[20 * row + 10, 20 * column + 10] == 20 * number).all()
    assert (sheet[30, 50] == 255).all()
    assert os.path.getsize(target) < 5000


def test_a_sheet_has_captions(ten, tmp_path, monkeypatch, capsys):
    """Below each image, where there is room, in black on white, within its width."""
    def drawn(*options):
        assert nbmod("rec", "sheet", "--count", "4", *options, ten, tmp_path / "sheet.png") == 0
        return codecs.decode((tmp_path / "sheet.png").read_bytes()).astype(int)

    assert drawn("--size", "47").shape == (94, 94, 3)
    sheet = drawn("--size", "64")
    height = sheet.shape[0] // 2
    assert sheet.shape == (2 * height, 128, 3) and height > 64 + 20
    for number in range(4):
        row, column = divmod(number, 2)
        caption = sheet[row * height + 64:(row + 1) * height, 64 * column:64 * (column + 1)]
        assert caption.min() < 64 and (caption[:, [0, 1, 2, 61, 62, 63]] == 255).all()
    first, second = (sheet[64:height, 64 * column:64 * (column + 1)] for column in range(2))
    assert (first != second).any()
    monkeypatch.setitem(sys.modules, "PIL.ImageDraw", None)
    monkeypatch.delattr("PIL.ImageDraw")
    capsys.readouterr()
    assert nbmod("rec", "sheet", ten, tmp_path / "other.png") == 1
    assert "nbmod[image]" in capsys.readouterr().err


def test_captions_say_id_and_label(ten, tmp_path, monkeypatch):
    from PIL import ImageDraw

    said = []
    write = ImageDraw.ImageDraw.text
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda self, place, text, **options: (
        said.append(text), write(self, place, text, **options)))
    path = str(tmp_path / "some.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    for label, number in ((3.0, 17), ([2, .25] * 9, 18)):
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, label, number, 0), b"no image"))
    writer.write(b"short")
    writer.close()
    assert nbmod("rec", "sheet", path, tmp_path / "sheet.png") == 0
    assert said[:2] == ["id 17", "label 3"] and said[2] == "id 18" and said[4:] == ["no header"]
    assert re.fullmatch(r"label 2, 0\.25, .*\.\.\.", said[3])
