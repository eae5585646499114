"""Sizes in the headers of images, checked before a library decodes them.

A few bytes can declare an image of gigabytes, and a chunk that is longer than the file; libraries
allocate memory for both before they look further.  `check_header` refuses an image whose header
declares more pixels than its bytes can hold in its format, or more than the limit of a process.

A reader of a format returns width, height, and the number of pixels that the data can hold: exact
where pixels are stored as they are, and elsewhere by the largest ratio of the compression, but at
least `ALWAYS_ALLOWED`.

Pillow's lazy `Image.open` does not replace this: Pillow is optional, it opens fewer formats than
OpenCV decodes, and it does not tell how many pixels the data can hold.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from ..base import MXNetError
from ..core.config import CONFIG
from ..core.foreign import HEAD_SIZE, foreign_format

__all__ = ["Header", "check_header"]

ALWAYS_ALLOWED = 1 << 22
"""Pixels of up to 8 bytes that the header of any compressed image may declare."""
MAX_SCANS = 500
"""Scans of a JPEG: each takes time for all pixels, even if it is empty."""
DEFLATE, LZW, PACKBITS, ANY_CODEC = 1032, 2731, 64, 1 << 15
"""Largest ratios of compression: bytes that one byte can become."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_NO_SEGMENT = frozenset((0x00, 0x01, 0xFF, *range(0xD0, 0xD9)))
_PNM_TOKEN = re.compile(rb"(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})(?!\d)")
_PAM_FIELD = re.compile(rb"^(WIDTH|HEIGHT|DEPTH|MAXVAL)[ \t]+(\d{1,9})\s*$", re.MULTILINE)
_TIFF_TYPES = {1: "B", 3: "H", 4: "I", 16: "Q"}


class Header(NamedTuple):
    """Name of the format as in Pillow, and the size that the header declares."""

    format: str
    width: int
    height: int


def check_header(data: bytes) -> Header:
    """The header of an image.

    Raises MXNetError for formats without a reader, and if the header declares more
    pixels than the data can hold or than CONFIG.max_image_pixels.
    """
    name, signatures, read = _READERS.get(data[:2], _NO_READER)
    if not data.startswith(signatures):
        start = data[:16].hex(" ") or "nothing"
        raise MXNetError(f"decode: no image in these {len(data):,} bytes, expected "
                         f"JPEG, PNG, BMP, TIFF, GIF, WebP or PNM; they start with {start}"
                         f"{foreign_format(data[:HEAD_SIZE])}")
    try:
        width, height, capacity = read(data)
    except (struct.error, IndexError):
        raise _damaged(name, "is incomplete", data) from None
    if width <= 0 or height <= 0:
        raise _damaged(name, f"declares {width} x {height} pixels", data)
    if width * height > capacity:
        raise _damaged(name, f"declares {width} x {height} pixels, which {len(data):,} bytes "
                       f"cannot hold (at most {capacity:,})", data)
    if width * height > CONFIG.max_image_pixels:
        raise MXNetError(f"decode: the {name} header declares {width} x {height} pixels, expected "
                         f"at most {CONFIG.max_image_pixels:,}; the environment variable "
                         "OPENCV_IO_MAX_IMAGE_PIXELS raises this limit")
    return Header(name, width, height)


def _damaged(name: str, what: str, data: bytes) -> MXNetError:
    return MXNetError(f"decode: the {name} header {what}; the file of {len(data):,} bytes is "
                      "damaged or truncated")


def _compressed(data: bytes, ratio: int, bits: int) -> int:
    """Pixels of `bits` that the data can hold if one byte becomes at most `ratio` bytes."""
    bits = max(bits, 1)
    return max(8 * ratio * len(data) // bits, min(ALWAYS_ALLOWED, 64 * ALWAYS_ALLOWED // bits))


# ---------------------------------------------------------------------------------------- readers

def _jpeg(data: bytes) -> tuple[int, int, int]:
    """A block of 64 pixels takes at least a bit."""
    at, width, height = _jpeg_frame(data)
    if not at:
        raise _damaged("JPEG", "has no frame", data)
    scan = data.find(b"\xff\xda", at)
    several = scan >= 0 and data[scan + 4:scan + 5] != data[at + 9:at + 10]
    if several or data[at + 1] & 3 == 2:
        scans = data.count(b"\xff\xda", at)
        if scans > MAX_SCANS:
            raise _damaged("JPEG", f"has {scans:,} scans, expected at most {MAX_SCANS}", data)
    return width, height, max(512 * len(data), ALWAYS_ALLOWED)


def _jpeg_frame(data: bytes) -> tuple[int, int, int]:
    """Position, width and height of the frame header (ITU T.81, B.2.2); zeros if there is none."""
    at, last = 2, len(data) - 9
    while 0 <= at <= last:
        if data[at] != 0xFF:
            at = data.find(b"\xff", at)
            continue
        marker = data[at + 1]
        if marker in _FRAMES:
            return at, data[at + 7] << 8 | data[at + 8], data[at + 5] << 8 | data[at + 6]
        at += 1 if marker in _NO_SEGMENT else 2 + (data[at + 2] << 8 | data[at + 3])
    return 0, 0, 0


def _png(data: bytes) -> tuple[int, int, int]:
    """Every chunk must end in the data."""
    length, kind, width, height, depth, color = struct.unpack_from(">I4sIIBB", data, 8)
    if length != 13 or kind != b"IHDR":
        raise _damaged("PNG", "is not the first chunk", data)
    at = 8
    while at + 8 <= len(data) and kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        at += 8 + length
        if at > len(data):
            raise _damaged("PNG", f"is followed by a chunk {kind!r} of {length:,} bytes, expected "
                           f"at most {len(data) - at + length:,}", data)
        at += 4  # the checksum
    return width, height, _compressed(data, DEFLATE, depth * {2: 3, 4: 2, 6: 4}.get(color, 1))


def _bmp(data: bytes) -> tuple[int, int, int]:
    """Top-down images have a negative height; two bytes of RLE become at most 255 pixels."""
    size, = struct.unpack_from("<I", data, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        packing = 0
    else:
        width, height, _, bits, packing = struct.unpack_from("<iiHHI", data, 18)
    stored = packing not in (1, 2)
    capacity = 8 * len(data) // max(bits, 1) if stored else _compressed(data, 128, 8)
    return width, abs(height), capacity


def _gif(data: bytes) -> tuple[int, int, int]:
    """The screen and the first frame, which may be larger."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while data[at] != 0x2C:
        if data[at] == 0x3B:
            raise _damaged("GIF", "is not followed by a frame", data)
        if data[at] == 0x21:  # an extension: its kind, and blocks that begin with their lengths
            at += 2
            while data[at]:
                at += 1 + data[at]
        at += 1
    left, top, columns, rows = struct.unpack_from("<HHHH", data, at + 1)
    return max(width, left + columns), max(height, top + rows), _compressed(data, LZW, 8)


def _webp(data: bytes) -> tuple[int, int, int]:
    """Size in the first chunk: lossy, lossless or extended."""
    length, webp, kind = struct.unpack_from("<I4s4s", data, 4)
    if webp != b"WEBP" or length > len(data) - 7:
        raise _damaged("WEBP", f"declares {length:,} bytes of {webp!r}, expected at most "
                       f"{len(data) - 8:,} of b'WEBP'", data)
    if kind == b"VP8 ":
        size = struct.unpack_from("<HH", data, 26)
        width, height = size[0] & 0x3FFF, size[1] & 0x3FFF
    elif kind == b"VP8L":
        bits, = struct.unpack_from("<I", data, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8X" and len(data) >= 30:
        width, height = (int.from_bytes(data[at:at + 3], "little") + 1 for at in (24, 27))
    else:
        raise _damaged("WEBP", f"is followed by {kind!r}", data)
    return width, height, _compressed(data, ANY_CODEC, 8)


def _pnm(data: bytes) -> tuple[int, int, int]:
    """Text takes a digit for a bit, and a digit and a space for another number."""
    kind = data[1:2]
    if kind == b"7":
        fields = {name: int(value) for name, value in _PAM_FIELD.findall(data[:1024])}
        width, height, channels, maximum = (fields.get(name, 1) for name in (
            b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL"))
    else:
        numbers: list[int] = []
        at = 2
        while len(numbers) < (2 if kind in b"14" else 3):
            token = _PNM_TOKEN.match(data, at)
            if token is None:
                raise _damaged("PPM", "has no size", data)
            numbers.append(int(token[1]))
            at = token.end()
        width, height, maximum = (*numbers, 1)[:3]
        channels = 3 if kind in b"36" else 1
    if kind in b"14":
        bits = 8 if kind == b"1" else 1
    else:
        bits = channels * (16 if maximum > 255 or kind in b"23" else 8)
    return width, height, 8 * len(data) // max(bits, 1)


def _tiff(data: bytes) -> tuple[int, int, int]:
    """Size in the first directory; tiles may be larger than the image."""
    tags = _tiff_tags(data)
    width, height = tags.get(256, 0), tags.get(257, 0)
    bits = tags.get(258, 1) * tags.get(277, 1)
    compression = tags.get(259, 1)
    if compression == 1:
        subsampled = tags.get(262) == 6
        capacity = 8 * len(data) * (3 if subsampled else 1) // max(bits, 1)
    elif compression in (2, 3, 4):  # a white row takes a bit
        capacity = max(8 * len(data) * min(width, 1 << 16), ALWAYS_ALLOWED)
    else:
        ratio = {5: LZW, 6: 512, 7: 512, 8: DEFLATE, 32946: DEFLATE, 32773: PACKBITS}
        capacity = _compressed(data, ratio.get(compression, ANY_CODEC), bits)
    tile = max(width, tags.get(322, 0)) * max(height, tags.get(323, 0))
    if tile > max(capacity, 64 * ALWAYS_ALLOWED // max(bits, 1)):
        raise _damaged("TIFF", f"declares tiles of {tags.get(322)} x {tags.get(323)} pixels", data)
    return width, height, capacity


def _tiff_tags(data: bytes) -> dict[int, int]:
    """The first value of every integer tag of the first directory, of a TIFF or BigTIFF."""
    order = "<" if data.startswith(b"I") else ">"
    version, = struct.unpack_from(order + "H", data, 2)
    where, count, entry, field = ((8, "Q", "HHQ", 8) if version == 43 else (4, "H", "HHI", 4))
    start, = struct.unpack_from(order + ("Q" if version == 43 else "I"), data, where)
    start = min(start, len(data))
    entries, = struct.unpack_from(order + count, data, start)
    start += struct.calcsize(order + count)
    head = struct.calcsize(order + entry)
    if entries * (head + field) > len(data) - start:
        raise _damaged("TIFF", f"declares {entries:,} tags", data)
    tags: dict[int, int] = {}
    for at in range(start, start + min(entries, 1 << 12) * (head + field), head + field):
        tag, kind, values = struct.unpack_from(order + entry, data, at)
        code = _TIFF_TYPES.get(kind)
        if code is None or not values:
            continue
        at += head
        if values * struct.calcsize(order + code) > field:
            at, = struct.unpack_from(order + ("Q" if field == 8 else "I"), data, at)
            if not 0 <= at < len(data) - 8:
                continue
        value, = struct.unpack_from(order + code, data, at)
        tags[tag] = max(value, tags.get(tag, 0))
    return tags


def _unknown(data: bytes) -> tuple[int, int, int]:
    return 0, 0, 0


_Reader = tuple[str, tuple[bytes, ...], Callable[[bytes], tuple[int, int, int]]]
_NO_READER: _Reader = ("", (), _unknown)
_TIFF: _Reader = ("TIFF", (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _tiff)
_READERS: dict[bytes, _Reader] = {
    b"\xff\xd8": ("JPEG", (b"\xff\xd8\xff",), _jpeg),
    b"\x89P": ("PNG", (b"\x89PNG\r\n\x1a\n",), _png),
    b"BM": ("BMP", (b"BM",), _bmp),
    b"GI": ("GIF", (b"GIF87a", b"GIF89a"), _gif),
    b"RI": ("WEBP", (b"RIFF",), _webp),
    **dict.fromkeys((b"II", b"MM"), _TIFF),
    **{b"P%d" % kind: ("PPM", (b"P",), _pnm) for kind in range(1, 8)},
}
"""By the first two bytes: the format, the beginnings of its files, and the reader."""
