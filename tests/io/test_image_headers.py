"""Headers of images: honest files of every format are read, forged ones take no memory."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.config import CONFIG
from nbmod.imgproc import codecs, image_headers
from tests.programs.image_record_programs import smooth

pillow = pytest.importorskip("PIL.Image")
ROOT = Path(__file__).resolve().parents[2]


def saved(kind: str, mode: str = "RGB", size: tuple[int, int] = (37, 50), **options) -> bytes:
    image = pillow.fromarray(smooth(*size, 0)).convert("L" if mode.startswith("I;") else mode)
    if mode == "I;16":
        image = pillow.fromarray(np.asarray(image).astype(np.uint16) * 257)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(*chunks: tuple[bytes, bytes, int | None], width: int = 4, height: int = 4,
        interlaced: int = 0) -> bytes:
    """A PNG file; the third of a chunk is the length that it declares, None for the true one."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, interlaced)
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, content, length in ((b"IHDR", head, None), *chunks, (b"IEND", b"", None)):
        declared = len(content) if length is None else length
        parts.append(struct.pack(">I", declared) + name + content
                     + struct.pack(">I", zlib.crc32(name + content)))
    return b"".join(parts)


def bmp(bits: int, height: int, packing: int = 0, header: int = 40) -> bytes:
    """A BMP file of 20 columns."""
    head = struct.pack("<IiiHHIIIIII", 40, 20, height, 1, bits, packing, 0, 0, 0, 0, 0)
    head = head if header == 40 else struct.pack("<IHHHH", 12, 20, height, 1, bits)
    table = (bytes(range(256)) * 4)[:(4 if header == 40 else 3) << bits] if bits <= 8 else b""
    row = bytes(range(-(-20 * bits // 32) * 4))
    pixels = b"\x14\x07\0\0" * abs(height) + b"\0\1" if packing else row * abs(height)
    offset = 14 + len(head) + len(table)
    total = offset + len(pixels)
    return b"BM" + struct.pack("<IHHI", total, 0, 0, offset) + head + table + pixels


PIXELS = (b"IDAT", zlib.compress(bytes(52)), None)
HONEST = {
    **{f"png {mode}": saved("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")},
    "png of 2 bits": saved("PNG", "P", bits=2),
    "png with text": png((b"tEXt", b"a\0" + bytes(9000), None), PIXELS),
    "png, interlaced": png((b"IDAT", zlib.compress(bytes(63)), None), interlaced=1),
    **{f"jpeg {mode}": saved("JPEG", mode) for mode in ("L", "RGB", "CMYK")},
    "jpeg, progressive": saved("JPEG", progressive=True),
    "jpeg with restarts": saved("JPEG", restart_marker_blocks=1),
    "jpeg with comments": saved("JPEG", comment=b"\xff\xda" * 3000, progressive=True),
    "jpeg with exif": saved("JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"),
    **{f"bmp {mode}": saved("BMP", mode) for mode in ("1", "L", "P", "RGB", "RGBA")},
    **{f"bmp of {bits} bits, {height} rows": bmp(bits, height)
       for bits in (1, 4, 8, 16, 24, 32) for height in (8, -8)},
    "bmp of os/2": bmp(24, 8, header=12),
    "bmp, packed": bmp(8, 8, packing=1),
    **{f"tiff {mode}": saved("TIFF", mode) for mode in ("1", "L", "P", "RGB", "RGBA", "I;16")},
    **{f"tiff {packing}": saved("TIFF", compression=packing)
       for packing in ("tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg")},
    "tiff group4": saved("TIFF", "1", compression="group4"),
    "tiff group3": saved("TIFF", "1", compression="group3"),
    "tiff, big": saved("TIFF", big_tiff=True),
    "gif": saved("GIF", "P"), "gif with a comment": saved("GIF", "P", comment=b"a" * 3000),
    "webp": saved("WEBP"), "webp, lossless": saved("WEBP", lossless=True),
    "webp with alpha": saved("WEBP", "RGBA"),
    "pbm": saved("PPM", "1"), "pgm": saved("PPM", "L"), "ppm": saved("PPM"),
    "ppm with a comment": b"P6 # a\n2 # b\n1\n255\n" + bytes(6), "pbm text": b"P1\n2 2\n1 0\n01\n",
    "pgm text": b"P2\n2 2\n255\n1 2\n3 4\n", "ppm text": b"P3\n1 1\n255\n1 2 3\n",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_images_are_read(name):
    data = HONEST[name]
    declared = image_headers.check_header(data)
    with pillow.open(io.BytesIO(data)) as image:
        size = image.size
    assert declared[1:] == size
    assert mx.image.imdecode(data).shape == (*size[::-1], 3)


@pytest.mark.parametrize(("kind", "mode", "options"), [
    ("PNG", "1", {}), ("GIF", "P", {}), ("WEBP", "RGB", {"lossless": True}), ("WEBP", "RGB", {}),
    ("JPEG", "L", {"quality": 1, "progressive": True, "optimize": True}),
    ("TIFF", "1", {"compression": "group4"}), ("TIFF", "L", {"compression": "tiff_lzw"}),
    ("TIFF", "L", {"compression": "tiff_adobe_deflate"}),
    ("TIFF", "L", {"compression": "packbits"})])
def test_pages_of_one_color_are_accepted(kind, mode, options):
    """A page of A4 at 600 dpi, which some formats pack into a kilobyte."""
    file = io.BytesIO()
    pillow.new(mode, (4960, 7016), 0).save(file, kind, **options)
    assert image_headers.check_header(file.getvalue()) == (kind, 4960, 7016)


GIANT = 65000
FORGED = {
    "png: a length": png((b"IDAT", zlib.compress(bytes(52)), 0xFFFFFFFF)),
    "png: a length of text": png((b"tEXt", b"a\0b", 0x7FFFFFFF), PIXELS),
    "png: a size": png(PIXELS, width=GIANT, height=GIANT),
    "bmp: a size": saved("BMP")[:18] + struct.pack("<ii", 8000, 5500) + saved("BMP")[26:270],
    "bmp: a size, packed": bmp(8, 8, 1)[:18] + struct.pack("<ii", 9000, -9000)
    + bmp(8, 8, 1)[26:],
    "gif: a screen": b"GIF89a" + struct.pack("<HH", GIANT, GIANT) + saved("GIF", "P")[10:],
    "webp: a canvas": b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\xff\xff\0\xff\xff\0",
    "webp: a length": saved("WEBP")[:100],
    "pgm: a size": b"P5 65000 65000 255\n" + bytes(100),
    "ppm: a size of text": b"P3 65000 65000 255\n" + b"1 " * 100,
    "pam: a size": b"P7\nWIDTH 65000\nHEIGHT 65000\nDEPTH 3\nMAXVAL 255\nENDHDR\n" + bytes(100),
    "jpeg: scans": saved("JPEG", progressive=True).replace(
        b"\xff\xda", b"\xff\xda\0\x08\1\1\0\1\5\0" * 600 + b"\xff\xda", 1),
}


def tiff(changes: dict[int, int], compression: str) -> bytes:
    """A TIFF file whose first directory has other values for these tags."""
    data = bytearray(saved("TIFF", compression=compression))
    start = struct.unpack_from("<I", data, 4)[0]
    for at in range(start + 2, start + 2 + 12 * struct.unpack_from("<H", data, start)[0], 12):
        tag = struct.unpack_from("<H", data, at)[0]
        if tag in changes:
            struct.pack_into("<HII", data, at + 2, 4, 1, changes[tag])
    return bytes(data)


FORGED |= {f"tiff: {tags}, {packing}": tiff(tags, packing)
           for packing in ("raw", "tiff_lzw", "packbits")
           for tags in ({256: GIANT, 257: GIANT}, {256: 1 << 31}, {277: 1 << 31})}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers_are_refused(name):
    with pytest.raises(MXNetError, match=r"decode: the \w+ header .* damaged or truncated"):
        image_headers.check_header(FORGED[name])


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
@pytest.mark.parametrize("library", ["cv2", "PIL.Image"])
def test_forged_headers_take_no_memory(library):
    """In a process that may take 100 MB more than it has."""
    pytest.importorskip(library)
    ran = subprocess.run([sys.executable, "-c", PROGRAM, library], cwd=ROOT, text=True,
                         capture_output=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]


PROGRAM = """
import resource, sys
from tests.io import test_image_headers as tests
there = tests.codecs._library
tests.codecs._library = lambda name: there(name) if name == sys.argv[1] else None
tests.mx.image.imdecode(tests.HONEST["png RGB"])
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 100_000_000, -1))
for data in tests.FORGED.values():
    for read in (tests.mx.image.imdecode, tests.mx.nd.imdecode):
        try:
            read(data)
        except tests.MXNetError:
            pass
"""


def test_changed_headers_are_read_or_refused():
    """One or two bytes near the beginning are changed, 30 times for every file."""
    draw = random.Random(0)
    for data in HONEST.values():
        for _ in range(30):
            changed = bytearray(data)
            for _ in range(draw.choice((1, 2))):
                changed[draw.randrange(2, min(len(data), 64))] = draw.choice((0, 1, 127, 128, 255))
            try:
                _, width, height = image_headers.check_header(bytes(changed))
                image = codecs.decode(bytes(changed))
            except MXNetError:
                continue
            assert image.shape[0] * image.shape[1] <= width * height


def test_limit_of_pixels(monkeypatch):
    monkeypatch.setattr(CONFIG, "max_image_pixels", 37 * 50 - 1)
    with pytest.raises(MXNetError, match=r"50 x 37 pixels, expected at most 1,849; .*"
                                         r"OPENCV_IO_MAX_IMAGE_PIXELS raises"):
        codecs.decode(HONEST["png RGB"])


@pytest.mark.parametrize("kind", ["JPEG2000", "ICO", "TGA", "SGI", "PCX"])
def test_formats_without_a_check_are_refused(kind):
    with pytest.raises(MXNetError, match="expected JPEG, PNG, BMP, TIFF, GIF, WebP or PNM"):
        codecs.decode(saved(kind))
