"""Contents of an image's record: a header with its label, then the encoded image.

The header is an `IRHeader` in 24 bytes: flag (32-bit), label (float32), id, id2 (64-bit).  A label
that is a list or an array follows the header as float32; flag is then its number of elements, and
the label in the header itself 0.
"""

from __future__ import annotations

import struct
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError

__all__ = ["HEADER_SIZE", "IRHeader", "pack", "pack_img", "read_header", "unpack", "unpack_img"]


class IRHeader(NamedTuple):
    """Header of an image's record.

    Parameters
    ----------
    flag : int
        Number of elements of a label that follows the header; 0: the label is in the header.
    label : float or array_like
        Label.
    id : int
        Identifier of the record, usually its key in the index.
    id2 : int
        Second identifier, usually 0.
    """

    flag: int
    label: Any
    id: int
    id2: int


_HEADER = struct.Struct("<IfQQ")
HEADER_SIZE = _HEADER.size


def pack(header: IRHeader | tuple[Any, ...], s: bytes) -> bytes:
    """Return a record with a header and data.

    Parameters
    ----------
    header : IRHeader or tuple
        Header; `flag` follows from the label.  An array is stored as float32, flattened.
    s : bytes
        Data.

    Raises
    ------
    MXNetError
        If a value does not fit into its field.

    Examples
    --------
    >>> record = mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2], 5, 0), b"data")
    >>> header, data = mx.recordio.unpack(record)
    >>> header.flag, header.label.tolist(), header.id, data
    (2, [1.0, 2.0], 5, b'data')
    """
    header = IRHeader(*header)
    elements = b""
    if isinstance(header.label, Number):
        header = header._replace(flag=0)
    else:
        label = np.asarray(header.label, "<f4")
        header = header._replace(flag=label.size, label=0)
        elements = label.tobytes()
    try:
        return b"".join((_HEADER.pack(*header), elements, s))
    except (struct.error, OverflowError) as error:
        raise MXNetError(f"pack: {header} does not fit: flag takes 32 bits, label a float32, id "
                         f"and id2 64 bits each ({error})") from None


def read_header(s: bytes) -> IRHeader:
    """Return the header of a record, without a label that follows it.

    Parameters
    ----------
    s : bytes
        The record.

    Raises
    ------
    MXNetError
        If the record is too short.
    """
    if len(s) < HEADER_SIZE:
        raise MXNetError(f"unpack: a record of {len(s)} bytes, expected a header of {HEADER_SIZE} "
                         "at least")
    return IRHeader(*_HEADER.unpack_from(s))


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Return the header and the data of a record.

    Parameters
    ----------
    s : bytes
        The record.

    Returns
    -------
    IRHeader
        Header; a label of several elements is a float32 array.
    bytes
        Data.

    Raises
    ------
    MXNetError
        If the record is too short for its header.
    """
    header, start = read_header(s), HEADER_SIZE
    if header.flag > 0:
        if len(s) - start < 4 * header.flag:
            raise MXNetError(f"unpack: the header declares {header.flag:,} elements in the label, "
                             f"the record has {len(s) - start:,} bytes after it")
        label = np.frombuffer(s, "<f4", header.flag, start).astype(np.float32)
        header = header._replace(label=label)
        start += 4 * header.flag
    return header, s[start:]


def pack_img(header: IRHeader | tuple[Any, ...], img: np.ndarray, quality: int = 95,
             img_fmt: str = ".jpg") -> bytes:
    """Encode an image, and return a record with it; needs the extra `[image]`.

    Parameters
    ----------
    header : IRHeader or tuple
        Header, see `pack`.
    img : numpy.ndarray
        uint8 image: (height, width, 3) with the channels blue, green, red, as in OpenCV, or
        (height, width).
    quality : int, default 95
        Quality of JPEG, 1 to 100, or compression level of PNG, 0 to 9.
    img_fmt : {'.jpg', '.png'}, default '.jpg'
        Format.
    """
    from ..imgproc.codecs import encode

    return pack(header, encode(_swapped(np.asarray(img)), img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray]:
    """Return the header and the decoded image of a record; needs the extra `[image]`.

    Parameters
    ----------
    s : bytes
        The record.
    iscolor : {-1, 0, 1}, default -1
        1: three channels; 0: gray; -1: as in the file.

    Returns
    -------
    IRHeader
        Header.
    numpy.ndarray
        uint8 image: (height, width, channels) with the channels blue, green, red, as in OpenCV, or
        (height, width) if it is gray.

    Raises
    ------
    MXNetError
        If the data is not an image.
    """
    from ..imgproc.codecs import decode

    header, data = unpack(s)
    image = decode(data, {1: 3, 0: 1}.get(iscolor, 0))
    return header, image[..., 0] if image.shape[2] == 1 else _swapped(image)


def _swapped(image: np.ndarray) -> np.ndarray:
    """Swap red and blue."""
    if image.ndim < 3 or image.shape[2] < 3:
        return image
    return np.ascontiguousarray(image[..., [2, 1, 0, *range(3, image.shape[2])]])
