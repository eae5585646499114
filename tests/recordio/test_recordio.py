"""Record files: exchanged with MXNet; damage; threads, processes, pickles."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError, UnwritableFile
from nbmod.imgproc import codecs
from nbmod.recordio import DamagedRecord, MXIndexedRecordIO, MXRecordIO, frames
from tests.programs import recordio_programs

MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = {
    "plain": [b"abc", b"", b"0123", b"x" * 1001],
    "magic alone": [MAGIC, MAGIC * 2, MAGIC * 5],
    "magic within": [b"abcd" + MAGIC + b"e", b"abc" + MAGIC, MAGIC + b"1", b"1234" + MAGIC],
    "magic off step": [b"a" + MAGIC + b"bcd", b"ab" + MAGIC * 3, b"\n\x23\xd7" + MAGIC],
    "large": [bytes(300_000), b"y" * 1_100_000, b"end"],
    "many": [bytes([i % 251]) * (i % 97) for i in range(3000)],
    "none": [],
}
pieces = st.lists(st.sampled_from([b"", b"a", b"bc", b"def", b"0123", MAGIC, MAGIC[:2]]))
records = st.lists(pieces.map(b"".join), min_size=1, max_size=8)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.rec")


def save(path, data):
    with open(path, "wb") as file:
        file.write(data)


def tolerant(path):
    reader = MXRecordIO(path, "r", strict=False)
    found = list(reader)
    return found, reader.lost


# ------------------------------------------------------------------------ exchange with MXNet

@pytest.mark.parametrize("name", RECORDS)
def test_files_are_mxnets(oracle, name):
    written = recordio_programs.write(mx, RECORDS[name])
    assert written == oracle.call("mx_scripts.run", "recordio_programs", "write", RECORDS[name])
    ours = recordio_programs.read(mx, written[0])
    assert ours[1:] == RECORDS[name]
    assert ours == oracle.call("mx_scripts.run", "recordio_programs", "read", written[0])


@pytest.mark.parametrize("keys", [[3, 1, 2**40, 0], ["b", "a b", "ä", "7"]], ids=["int", "str"])
def test_indexes_are_mxnets(oracle, keys):
    written = recordio_programs.write(mx, RECORDS["magic within"], keys)
    assert written == oracle.call("mx_scripts.run", "recordio_programs", "write",
                                  RECORDS["magic within"], keys)
    arguments = (*written, [keys[2], keys[0], keys[1]], type(keys[0]).__name__)
    assert recordio_programs.read(mx, *arguments) == oracle.call(
        "mx_scripts.run", "recordio_programs", "read", *arguments)


def test_headers_are_mxnets(oracle):
    headers = [(0, 4.0, 7, 0), (0, [1, 2.5], 7, 1), (5, np.array([1.5, 2]), 2**40, 9), (3, 2, 1, 1),
               (0, np.float64(0.1), 2**64 - 1, 0), (0, np.array(3), 1, 0), (1, [], 1, 0),
               (0, np.ones((2, 3)), 1, 0), (0, True, 1, 0)]
    ours = recordio_programs.packed(mx, headers)
    np.testing.assert_equal(
        ours, oracle.call("mx_scripts.run", "recordio_programs", "packed", headers))


def drawing(size=(37, 50, 3)):
    """Smooth, so that JPEG preserves it well."""
    y, x = np.mgrid[:size[0], :size[1]]
    planes = [127 + 120 * np.sin(x / 9 + k) * np.cos(y / 7 - k) for k in range(3)]
    image = np.stack(planes, -1).astype(np.uint8)
    return image if len(size) == 3 else image[..., 0]


@pytest.mark.parametrize("format", [".jpg", ".png", ".JPEG"])
def test_images_cross_over(oracle, format):
    """PNG is exact; decoders of JPEG may differ by 2 levels, encoders by the loss of quality 95."""
    images = [drawing(), drawing((16, 16)), drawing((1, 1, 3))]
    quality = 4 if format == ".png" else 95
    ours = recordio_programs.pack_images(mx, images, format, quality)
    theirs = oracle.call("mx_scripts.run", "recordio_programs", "pack_images", images, format,
                         quality)
    for records in (ours, theirs):
        read = recordio_programs.decoded(mx, records)
        known = oracle.call("mx_scripts.run", "recordio_programs", "decoded", records)
        for image, one, other in zip(images, read, known, strict=True):
            for a, b in zip(one, other, strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype
                assert np.abs(a.astype(int) - b).max() <= (0 if format == ".png" else 2)
            unchanged = one[2].astype(int) - image
            assert np.abs(unchanged).max() <= (0 if format == ".png" else 12)


@pytest.mark.parametrize("library", ["simplejpeg", "cv2", "PIL.Image"])
def test_libraries_agree(library, monkeypatch):
    pytest.importorskip(library)
    data = codecs.encode(drawing(), "jpg")
    expected = codecs.decode(data), codecs.decode(data, 1)
    there = codecs._library
    monkeypatch.setattr(codecs, "_library", lambda name: there(name) if name == library else None)
    for image, channels in zip(expected, (3, 1), strict=True):
        assert np.abs(codecs.decode(data, channels).astype(int) - image).max() <= 2


def test_without_a_library_the_extra_is_named(monkeypatch):
    data = codecs.encode(drawing(), "png")
    monkeypatch.setattr(codecs, "_library", lambda name: None)
    for call in (lambda: codecs.decode(data), lambda: codecs.encode(drawing(), "png")):
        with pytest.raises(MXNetError, match=r"nbmod\[image\]"):
            call()


# --------------------------------------------------------------------------------- nbmod alone

@given(records)
@settings(deadline=None)
def test_any_records_come_back(tmp_path_factory, given_records):
    path = str(tmp_path_factory.mktemp("rec") / "a.rec")
    with MXRecordIO(path, "w") as writer:
        for record in given_records:
            writer.write(record)
    assert list(MXRecordIO(path, "r")) == given_records
    assert tolerant(path) == (given_records, 0)


def test_offsets_have_64_bits(path):
    """A record after 5 GiB of a sparse file."""
    start = 5 << 30
    with open(path, "wb") as file:
        try:
            file.seek(start)
            file.write(b"".join(frames.frames(b"far away")))
        except OSError:
            pytest.skip("the file system keeps no file of that size")
    index = path + ".idx"
    save(index, b"7\t%d\n" % start)
    reader = MXIndexedRecordIO(index, path, "r")
    assert reader.read_idx(7) == b"far away" and reader.tell() == start + 16


def test_mxnet_reads_far_away_too(oracle, path):
    with open(path, "wb") as file:
        try:
            file.truncate(5 << 30)
            file.seek(5 << 30)
        except OSError:
            pytest.skip("the file system keeps no file of that size")
        for record in (b"far away", b"ab" * 50 + MAGIC, b"the last"):
            file.write(b"".join(frames.frames(record)))
    save(path + ".idx", b"0\t%d\n1\t%d\n" % (5 << 30, (5 << 30) + 16))
    arguments = (path, path + ".idx", [1, 0, 1])
    ours = recordio_programs.by_key(mx, *arguments)
    assert ours == oracle.call("mx_scripts.run", "recordio_programs", "by_key", *arguments)
    assert ours == [b"ab" * 50 + MAGIC, b"far away", b"ab" * 50 + MAGIC, b"the last"]


def test_a_reader_sees_what_is_written_while_it_reads(path):
    with MXRecordIO(path, "w") as writer:
        writer.write(b"one")
        writer.handle.flush()
        reader = MXRecordIO(path, "r")
        assert [reader.read(), reader.read()] == [b"one", None]
        writer.write(b"two")
    assert [reader.read(), reader.read()] == [b"two", None]


def write_indexed(path, count):
    writer = MXIndexedRecordIO(path + ".idx", path, "w")
    for key in range(count):
        writer.write_idx(key, key.to_bytes(4, "little") * (key % 50))
    writer.close()
    return [key.to_bytes(4, "little") * (key % 50) for key in range(count)]


def test_threads_share_a_reader(path):
    expected = write_indexed(path, 2000)
    reader = MXIndexedRecordIO(path + ".idx", path, "r")
    found, wrong = [], []

    def work(first):
        found.extend(iter(reader.read, None))
        wrong.extend(key for key in range(first, 2000, 8) if reader.read_idx(key) != expected[key])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    reader.reset()
    assert sorted(reader) == sorted(expected)


def test_eight_threads_read_the_set_that_one_reads(path):
    expected = write_indexed(path, 5000)
    reader, parts = MXRecordIO(path, "r"), [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda p=part: p.extend(iter(reader.read, None)))
               for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(parts, [])) == sorted(expected)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="cannot fork")
def test_a_forked_process_reads_on_but_does_not_write(path):
    expected = write_indexed(path, 300)
    reader, writer = MXRecordIO(path, "r"), MXRecordIO(path + "2", "w")
    assert reader.read() == expected[0]
    child = os.fork()
    if child == 0:
        right = list(reader) == expected[1:]
        try:
            writer.write(b"")
        except MXNetError:
            right = right and True
        else:
            right = False
        os._exit(0 if right else 1)
    assert list(reader) == expected[1:]
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_share_a_file(path, method):
    """Processes that receive a reader by pickling read a part each, and together all records."""
    expected = write_indexed(path, 200)
    reader = MXIndexedRecordIO(path + ".idx", path, "r")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(reader.read_idx, range(200), chunksize=7) == expected


def test_pickles(path):
    write_indexed(path, 3)
    reader = MXIndexedRecordIO(path + ".idx", path, "r")
    assert pickle.loads(pickle.dumps(reader)).read_idx(2) == reader.read_idx(2)
    with pytest.raises(MXNetError, match="cannot be pickled"), MXRecordIO(path, "w") as writer:
        pickle.dumps(writer)


def test_recordio_needs_numpy_alone(path):
    """Nothing else is loaded, and it works where nothing else is importable."""
    code = f"""
import sys
absent = ["numba", "llvmlite", "PIL", "cv2", "simplejpeg"]
sys.modules.update(dict.fromkeys(absent))
from nbmod.recordio import *
with MXIndexedRecordIO({path + ".idx"!r}, {path!r}, "w") as writer:
    writer.write_idx(7, pack(IRHeader(0, [1, 2], 7, 0), b"data"))
header, data = unpack(MXIndexedRecordIO({path + ".idx"!r}, {path!r}, "r").read_idx(7))
assert data == b"data" and header.label.tolist() == [1, 2]
print(*(name for name in sys.modules if name not in absent))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            timeout=60, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("nbmod.")} <= {
        "nbmod.base", "nbmod.context", "nbmod.core", "nbmod.core.atomic", "nbmod.core.config",
        "nbmod.core.fork", "nbmod.core.import_paths", "nbmod.core.interrupts",
        "nbmod.core.locks", "nbmod.core.scope", "nbmod.core.short_tracebacks", "nbmod.recordio",
        "nbmod.recordio.files", "nbmod.recordio.frames", "nbmod.recordio.record_headers",
        "nbmod.recordio.record_reader"}


# -------------------------------------------------------------------------------------- damage

def chain(parts):
    return b"".join(b"".join(frames.frames(part)) for part in parts)


PARTS = [b"first", b"ab" * 50 + MAGIC + b"cd" * 50, b"third" * 7, b"", b"last one"]
STARTS = [len(chain(PARTS[:i])) for i in range(6)]


def changed(offset, new):
    data = chain(PARTS)
    return data[:offset] + new + data[offset + len(new):]


DAMAGES = {  # the file, the records that are left, stretches lost, offset and words of the error
    "magic": (changed(STARTS[2], b"\0"), [0, 1, 3, 4], 1, STARTS[2], "expected the magic"),
    "first magic": (changed(0, b"zzzz"), [1, 2, 3, 4], 1, 0, "0x7a7a7a7a"),
    "too long": (changed(STARTS[2] + 4, b"\x30"), [0, 1, 3, 4], 1, None, "after the part of 48"),
    "far too long": (changed(STARTS[2] + 6, b"\xff"), [0, 1, 3, 4], 1, STARTS[2], "end of the f"),
    "too short": (changed(STARTS[2] + 4, b"\x09"), [0, 1, 3, 4], 1, None, "after the part of 9"),
    "kind": (changed(STARTS[2] + 7, b"\x60"), [0, 1, 3, 4], 1, STARTS[2], "start of a record"),
    "within several parts": (changed(STARTS[1] + 108, b"!"), [0, 2, 3, 4], 1, None, "the magic"),
    "a part gone": (chain(PARTS[:1]) + chain(PARTS)[STARTS[1] + 108:], [0, 2, 3, 4], 1,
                    STARTS[1], "a part of kind 3"),
    "cut": (chain(PARTS)[:-3], [0, 1, 2, 3], 1, STARTS[4], "of 8 bytes"),
    "cut head": (chain(PARTS)[:STARTS[4] + 5], [0, 1, 2, 3], 1, STARTS[4], "5 bytes and the end"),
    "bytes gone": (chain(PARTS)[:STARTS[2] + 11] + chain(PARTS)[STARTS[2] + 17:], [0, 1, 3, 4], 1,
                   None, "expected"),
    "zeros": (changed(STARTS[2], bytes(24)), [0, 1, 3, 4], 1, STARTS[2], "the magic"),
    "nothing right": (b"\x0a#no record file at all" * 99, [], 1, 0, "the magic"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(path, name):
    data, left, lost, offset, words = DAMAGES[name]
    save(path, data)
    with pytest.raises(DamagedRecord, match=words) as raised:
        list(MXRecordIO(path, "r"))
    assert path in str(raised.value) and (offset is None or raised.value.offset == offset)
    assert pickle.loads(pickle.dumps(raised.value)).args == raised.value.args
    assert tolerant(path) == ([PARTS[i] for i in left], lost)


@given(st.lists(st.tuples(st.integers(0, STARTS[5] - 1), st.integers(0, 255)), max_size=12),
       st.integers(0, STARTS[5]), st.booleans())
@example([(4, 221)], 0, False)
@settings(deadline=None, max_examples=300)
def test_any_damage_is_an_error_and_ends(tmp_path_factory, changes, end, cut):
    data = bytearray(chain(PARTS))
    for offset, value in changes:
        data[offset] = value
    path = str(tmp_path_factory.mktemp("rec") / "a.rec")
    save(path, data[:end] if cut else data)
    try:
        found = list(MXRecordIO(path, "r"))
    except DamagedRecord:
        assert tolerant(path)[1] > 0
    else:
        # A wrong length that ends where a later record does is a valid file of one record with
        # heads inside; a tolerant reader finds the records that it covers.
        covers = any(MAGIC in record[i:i + 4] for record in found if record != PARTS[1]
                     for i in range(0, len(record), 4))
        assert covers or tolerant(path)[1] == 0


@pytest.mark.parametrize("claims_the_rest", [True, False])
def test_recovery_takes_linear_time(path, claims_the_rest):
    """A file of headers of first parts, without a second: work is counted, not timed."""
    size = 1 << 19
    heads = b"".join(MAGIC + struct.pack("<I", 1 << 29 | claims_the_rest * (size - at - 8))
                     for at in range(0, size, 8))
    save(path, heads)
    reader = MXRecordIO(path, "r", strict=False)
    fetched = []
    fetch = reader.handle.chain.fetch
    reader.handle.chain.fetch = lambda at, n: fetched.append(n) or fetch(at, n)
    list(reader)
    assert len(fetched) < 40 * size // 8 and sum(fetched) < 5000 * size and reader.lost > 0


@pytest.mark.parametrize("large", [False, True], ids=["in a window", "larger than a window"])
def test_a_wrong_length_that_ends_on_a_later_record_costs_one_record(path, large):
    """Those between were lost, because something valid followed the part."""
    contents = [bytes([65 + i]) * (90_000 * large + 4 * i + 1) for i in range(5)]
    parts = [chain([content]) for content in contents]
    starts = [sum(map(len, parts[:i])) for i in range(6)]
    for damaged in range(4):
        for follower in range(damaged + 2, 6):
            whole = bytearray(b"".join(parts))
            at = starts[damaged] + 4
            whole[at:at + 4] = struct.pack("<I", starts[follower] - starts[damaged] - 8)
            save(path, whole)
            assert tolerant(path) == ([*contents[:damaged], *contents[damaged + 1:]], 1)


@pytest.mark.parametrize("inserted", [1, 2, 3])
def test_bytes_that_are_inserted_before_a_record_do_not_hide_it(path, inserted):
    """The length of the record before still fits, and the next head is less than a word after."""
    contents = [b"one!", b"two", b"three"]
    first, *others = (chain([content]) for content in contents)
    save(path, first[:10] + b"x" * inserted + first[10:] + b"".join(others))
    assert tolerant(path)[0][1:] == contents[1:]


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")


@FULL
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    writer = MXRecordIO("/dev/full", "w")
    with pytest.raises(UnwritableFile, match="/dev/full: cannot be written: No space"):
        for _ in range(100):
            writer.write(bytes(100_000))
    with pytest.raises(UnwritableFile, match="/dev/full"):
        writer.close()
    for index, record in (("/dev/full", tmp_path / "a.rec"), (tmp_path / "a.idx", "/dev/full")):
        writer = MXIndexedRecordIO(index, record, "w")
        writer.write_idx(0, b"abc")
        with pytest.raises(UnwritableFile, match="/dev/full"):
            writer.close()
        writer.close()


@FULL
def test_a_writer_that_is_forgotten_on_a_full_disk_is_logged(caplog):
    writer = MXRecordIO("/dev/full", "w")
    writer.write(b"abc")
    del writer
    gc.collect()
    assert "/dev/full: cannot be written" in caplog.text


def test_lengths_are_checked_before_memory_is_taken(path):
    save(path, MAGIC + struct.pack("<I", (1 << 29) - 1))
    with pytest.raises(DamagedRecord, match="536,870,911 bytes"):
        MXRecordIO(path, "r").read()


# -------------------------------------------------------------------------------------- errors

def test_misuse(path, tmp_path):
    reader_of = {"r": MXRecordIO, "w": MXRecordIO}
    with pytest.raises(ValueError, match="Invalid flag 'a'"):
        MXRecordIO(path, "a")
    with pytest.raises(MXNetError, match="No such file"):
        MXRecordIO(path, "r")
    with pytest.raises(MXNetError, match="cannot be read"):
        MXRecordIO(tmp_path, "r")
    writer = reader_of["w"](path, "w")
    with pytest.raises(TypeError, match="got str"):
        writer.write("text")
    with pytest.raises(MXNetError, match="cannot be read, it was opened with flag 'w'"):
        writer.read()
    writer.write(bytearray(b"one"))
    writer.close()
    writer.close()
    with pytest.raises(MXNetError, match="closed"):
        writer.write(b"")
    reader = reader_of["r"](path, "r")
    with pytest.raises(MXNetError, match="cannot be written"):
        reader.write(b"")
    assert reader.read() == b"one"


@pytest.mark.parametrize("text, words", [
    ("0\t0\n1 16\n", "line 2: expected a key, a tab"), ("x\t0\n", "line 1"), ("0\t-4\n", "line 1"),
    ("0\t0\n1\tx\n", "line 2")])
def test_damaged_indexes(path, text, words):
    save(path, chain(PARTS))
    save(path + ".idx", text.encode())
    with pytest.raises(MXNetError, match=words):
        MXIndexedRecordIO(path + ".idx", path, "r")


def test_a_missing_index_says_what_makes_it(path):
    save(path, chain(PARTS))
    with pytest.raises(FileNotFoundError, match="nbmod rec2idx") as caught:
        MXIndexedRecordIO(path + ".idx", path, "r")
    assert isinstance(caught.value, MXNetError) and path + ".idx" in str(caught.value)


def test_turns_and_keys_in_any_order(path):
    """Records of one window, of several, and of several parts: the position is that of the last
    `read`, `read_idx` or `seek`."""
    rng = random.Random(0)
    records = [rng.randbytes(rng.choice((0, 3, 900, 20_000, 65_530, 70_000)))
               + MAGIC * rng.randrange(2) + bytes(k % 4) for k in range(200)]
    with MXIndexedRecordIO(path + ".idx", path, "w") as writer:
        for key, record in enumerate(records):
            writer.write_idx(key, record)
    reader, turn = MXIndexedRecordIO(path + ".idx", path, "r"), 0
    for _ in range(2000):
        kind, key = rng.choice(("read", "read", "read", "seek", "key")), rng.randrange(200)
        if kind == "read":
            assert reader.read() == (records[turn] if turn < 200 else None)
            turn = min(turn + 1, 200)
        elif kind == "seek":
            reader.seek(key)
            turn = key
        else:
            assert reader.read_idx(key) == records[key]
            turn = key + 1
        assert reader.tell() == (reader.idx[turn] if turn < 200 else reader.size())


def test_indexes_with_blank_lines_and_windows_ends(path):
    save(path, chain(PARTS))
    save(path + ".idx", b"0\t0\r\n\r\n1\t%d\r\n" % STARTS[1])
    assert MXIndexedRecordIO(path + ".idx", path, "r").read_idx(1) == PARTS[1]


def test_wrong_keys_and_offsets(path):
    save(path, chain(PARTS))
    save(path + ".idx", b"0\t4\n1\t%d\n" % STARTS[5])
    reader = MXIndexedRecordIO(path + ".idx", path, "r")
    with pytest.raises(KeyError, match="has no key 9; it has keys 0 to 1"):
        reader.read_idx(9)
    with pytest.raises(DamagedRecord, match="offset 4"):
        reader.read_idx(0)
    with pytest.raises(MXNetError, match="rec2idx"):
        reader.read_idx(1)


@pytest.mark.parametrize("index, words", [
    (b"1\t0\n2\t%d\n" % STARTS[1], "it has keys 1 to 2$"), (b"3\t0\n", "it has key 3$"),
    (b"1\t0\n9\t%d\n" % STARTS[1], "it has keys 1 to 9, 2 of them"), (b"", "it has no keys")])
def test_the_keys_that_exist_are_named(path, index, words):
    save(path, chain(PARTS))
    save(path + ".idx", index)
    with pytest.raises(KeyError, match=f"has no key 0; {words}"):
        MXIndexedRecordIO(path + ".idx", path, "r").read_idx(0)


@pytest.mark.parametrize("header", [(0, 1.0, -1, 0), (0, 1.0, 2**64, 0), (0, 1.0, "a", 0),
                                    (0, 1e300, 1, 0)])
def test_headers_that_do_not_fit(header):
    with pytest.raises(MXNetError, match="does not fit"):
        mx.recordio.pack(header, b"")


@pytest.mark.parametrize("record", [b"", bytes(23), struct.pack("<IfQQ", 2**32 - 1, 0, 0, 0)])
def test_records_that_are_no_images(record):
    with pytest.raises(MXNetError, match="unpack"):
        mx.recordio.unpack(record)


@pytest.mark.parametrize(("data", "words"), [
    (b"", "no image in these 0 bytes"), (b"no image", "no image in these 8 bytes"),
    (b"\xff\xd8\xff", "JPEG header has no frame"),
    (b"\x89PNG\r\n\x1a\n", "PNG header is incomplete")])
def test_data_that_is_no_image(data, words):
    with pytest.raises(MXNetError, match=words):
        codecs.decode(data)


@pytest.mark.parametrize("strict", [True, False])
def test_no_record_takes_the_place_of_a_damaged_one(tmp_path, strict):
    """Tolerant readers gave the record after it, under its key."""
    names = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    with MXIndexedRecordIO(*names, "w") as writer:
        for key in range(3):
            writer.write_idx(key, bytes([65 + key]) * 40)
    with open(names[1], "r+b") as file:
        file.seek(48)
        file.write(b"damage")
    with MXIndexedRecordIO(*names, "r", strict=strict) as reader:
        with pytest.raises(DamagedRecord, match="offset 48"):
            reader.read_idx(1)
        assert reader.read_idx(2) == b"C" * 40
