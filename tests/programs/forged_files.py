"""Files that declare more than they hold, or could make readers allocate too much memory.

    python -m tests.programs.forged_files    JSON: name -> bytes, MiB of reading, result
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

import nbmod as mx
from nbmod.imgproc import codecs
from tests.programs.image_record_programs import smooth

MAGIC = struct.pack("<I", 0xCED7230A)


def jpeg(width: int, height: int) -> bytes:
    """A small image whose header declares another size."""
    data = codecs.encode(smooth(37, 50, 0), "jpg")
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4:]


def png(width: int, height: int) -> bytes:
    """The same, with a correct checksum of the header."""
    data = codecs.encode(smooth(37, 50, 0), "png")
    head = data[12:16] + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def png_chunk() -> bytes:
    """A PNG file whose pixels declare 2 GiB."""
    data = png(50, 37)
    at = data.index(b"IDAT")
    return data[:at - 4] + struct.pack(">I", 2**31 - 1) + data[at:at + 24]


def bmp() -> bytes:
    """A BMP file of 270 bytes that declares 132 MB."""
    data = codecs.encode(smooth(37, 50, 0), "bmp")
    return data[:18] + struct.pack("<ii", 8000, 5500) + data[26:270]


def record(image: bytes) -> bytes:
    """A record file with one image."""
    content = mx.recordio.pack((0, 1.0, 0, 0), image)
    return MAGIC + struct.pack("<I", len(content)) + content + bytes(-len(content) % 4)


def by(library: str) -> Callable[[str], Any]:
    """Decode with one library alone."""
    def read(path: str) -> Any:
        there = codecs._library
        codecs._library = lambda name: there(name) if name == library else None
        try:
            with open(path, "rb") as file:
                return codecs.decode(file.read()).shape
        finally:
            codecs._library = there

    return read


def records(path: str) -> Any:
    return len(list(mx.recordio.MXRecordIO(path, "r")))


def intact(path: str) -> Any:
    return len(list(mx.recordio.MXRecordIO(path, "r", strict=False)))


def images(path: str) -> Any:
    return mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 8, 8), batch_size=1,
                                 verbose=False).next()


def csv(path: str) -> Any:
    return next(mx.io.CSVIter(data_csv=path, data_shape=(3, 224, 224), batch_size=1), None)


def libsvm(path: str) -> Any:
    return next(mx.io.LibSVMIter(data_libsvm=path, data_shape=(9,), batch_size=1))


def digits(path: str) -> Any:
    return mx.io.MNISTIter(image=path, label=path, silent=True)


PART = MAGIC + struct.pack("<I", 1 << 29 | 8) + bytes(8)
FORGED: dict[str, tuple[Callable[[str], Any], bytes]] = {
    **{f"{kind} of {width} x {height} by {library}": (by(library), make(width, height))
       for library in ("simplejpeg", "cv2", "PIL.Image")
       for kind, make in (("jpeg", jpeg), ("png", png))
       for width, height in ((65500, 65500), (2000, 2000), (50, 65500))},
    **{f"{name} by {library}": (by(library), make()) for library in ("cv2", "PIL.Image")
       for name, make in (("png: a chunk", png_chunk), ("bmp: a size", bmp))},
    "images: a chunk of a png": (images, record(png_chunk())),
    "images: a size of a bmp": (images, record(bmp())),
    "records: a length": (records, MAGIC + struct.pack("<I", (1 << 29) - 1)),
    "records: a chain without an end": (records, PART * 50_000),
    "intact records: a chain without an end": (intact, PART * 50_000),
    "intact records: heads": (intact, (MAGIC + struct.pack("<I", 1 << 29 | 4096)) * 50_000),
    "images: labels": (images, MAGIC + struct.pack("<IIfQQ", 24, 2**32 - 1, 0, 0, 0)),
    "csv: empty lines": (csv, b"\n" * 3_000_000),
    "csv: short lines": (csv, b"1\n" * 1_500_000),
    "csv: a line": (csv, b"1," * 1_500_000),
    "libsvm: colons": (libsvm, b":" * 3_000_000),
    "libsvm: pairs": (libsvm, b"1" + b" 0:1" * 750_000),
    "libsvm: lines": (libsvm, b"1\n" * 1_500_000),
    "digits: sizes": (digits, struct.pack(">IIII", 2051, *[2**32 - 1] * 3)),
    "params: arrays": (mx.nd.load, struct.pack("<QQQ", 0x112, 0, 2**60)),
    "params: a shape": (mx.nd.load, struct.pack("<QQQIiI3Q", 0x112, 0, 1, 0xF993FAC9, 0, 3,
                                                *[2**20] * 3)),
}


def forget() -> None:
    """Reset the peak: Linux reports the largest memory of a process since the last reset."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def held(what: str) -> float:
    """Present ("VmRSS") or peak ("VmHWM") memory of the process in MiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024


def main() -> None:
    """Read every file twice: its beginning, which loads code and libraries, and then all of it."""
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        for part in (slice(100), slice(None)):
            for name, (read, content) in FORGED.items():
                with open(path, "wb") as file:
                    file.write(content[part])
                forget()
                before = held("VmRSS")
                found = outcome(read, path)
                answers[name] = len(content), held("VmHWM") - before, found
    print(json.dumps(answers))


def outcome(read: Callable[[str], Any], path: str) -> str:
    """The result "read", or the name of the exception."""
    try:
        read(path)
        return "read"
    except Exception as error:
        return type(error).__name__


if __name__ == "__main__":
    main()
