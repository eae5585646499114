"""What stands in the record of an image: a header with its label, then the encoded picture.

The header is `IRHeader` in 24 bytes: flag (32-bit), label (float32), id, id2 (64-bit).  A label
that is a list or an array follows the header as float32 numbers; flag is then how many, and the
label in the header itself 0.
"""

from __future__ import annotations

import struct
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError

__all__ = ["HEADER_SIZE", "IRHeader", "pack", "pack_img", "read_header", "unpack", "unpack_img"]


class IRHeader(NamedTuple):
    """flag: how many numbers the label has, 0 for one in the header itself; label: a number or an
    array; id, id2: numbers for the user, id as a rule the key in the index."""

    flag: int
    label: Any
    id: int
    id2: int


_HEADER = struct.Struct("<IfQQ")
HEADER_SIZE = _HEADER.size


def pack(header: IRHeader | tuple, s: bytes) -> bytes:
    """A record of a header and data.  Raises MXNetError where the header does not fit its format.

    header: `IRHeader` or a tuple like it; a label that is no plain number is kept as float32
    numbers, whatever its shape.
    """
    header = IRHeader(*header)
    numbers = b""
    if isinstance(header.label, Number):
        header = header._replace(flag=0)
    else:
        label = np.asarray(header.label, "<f4")
        header = header._replace(flag=label.size, label=0)
        numbers = label.tobytes()
    try:
        return b"".join((_HEADER.pack(*header), numbers, s))
    except (struct.error, OverflowError) as error:
        raise MXNetError(f"pack: {header} does not fit: flag takes 32 bits, label a float32, id "
                         f"and id2 64 bits each ({error})") from None


def read_header(s: bytes) -> IRHeader:
    """The header that a record starts with; a label of several numbers is not read."""
    if len(s) < HEADER_SIZE:
        raise MXNetError(f"unpack: a record of {len(s)} bytes, expected a header of {HEADER_SIZE} "
                         "at least")
    return IRHeader(*_HEADER.unpack_from(s))


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Header and data of a record; a label of several numbers is a float32 array.

    Raises MXNetError if the record is too short for its header.
    """
    header, start = read_header(s), HEADER_SIZE
    if header.flag > 0:
        if len(s) - start < 4 * header.flag:
            raise MXNetError(f"unpack: the header tells of {header.flag:,} numbers in the label, "
                             f"the record has {len(s) - start:,} bytes behind it")
        label = np.frombuffer(s, "<f4", header.flag, start).astype(np.float32)
        header = header._replace(label=label)
        start += 4 * header.flag
    return header, s[start:]


def pack_img(header: IRHeader | tuple, img: np.ndarray, quality: int = 95,
             img_fmt: str = ".jpg") -> bytes:
    """A record of a header and a picture, which is encoded here.

    img: uint8 (height, width, 3) with the channels blue, green, red as in OpenCV, or
    (height, width).  quality: of JPEG, 1 to 100; of PNG the strength of compression, 0 to 9.
    img_fmt: ".jpg" or ".png".
    """
    from ..pictures.codecs import encode

    return pack(header, encode(_swapped(np.asarray(img)), img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray]:
    """Header and picture of a record: uint8 (height, width, channels), or (height, width) if gray.

    The channels are blue, green, red as in OpenCV.  iscolor: 1 for three of them, 0 for gray, -1
    for those of the file.  Raises MXNetError if the data is no picture.
    """
    from ..pictures.codecs import decode

    header, data = unpack(s)
    image = decode(data, {1: 3, 0: 1}.get(iscolor, 0))
    return header, image[..., 0] if image.shape[2] == 1 else _swapped(image)


def _swapped(image: np.ndarray) -> np.ndarray:
    """Red and blue exchanged."""
    if image.ndim < 3 or image.shape[2] < 3:
        return image
    return np.ascontiguousarray(image[..., [2, 1, 0, *range(3, image.shape[2])]])
