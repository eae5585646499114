"""Decoding and encoding of images with the installed libraries.

simplejpeg, a direct binding of libjpeg-turbo, decodes baseline and progressive JPEG; OpenCV if
installed, or else Pillow, decodes everything else.  simplejpeg and Pillow are the extra `[image]`.
All three use the accurate DCT for JPEG, so that they agree with MXNet's OpenCV.  As there, the Exif
orientation is ignored, alpha is dropped, 16 bits are reduced to 8, and a truncated file is decoded
as far as it goes.

Invariant: before a library gets an image, its header is checked against the length of the data
(`image_headers.check_header`).  Formats without such a check are refused.

Arrays are uint8 of shape (height, width, channels), channels in the order red, green, blue.
"""

from __future__ import annotations

import functools
import importlib
import io
import threading
from typing import Any

import numpy as np

from ..base import MXNetError, wrong_type
from ..core.fork import fresh
from ..core.interrupts import from_handler
from .image_headers import Header, check_header

__all__ = ["decode", "encode"]

_truncation = fresh(threading.Lock())


def decode(data: bytes | memoryview, channels: int = 3) -> np.ndarray:
    """Decode an image to (height, width, 3), or to gray (height, width, 1).

    channels: 3, 1, or 0 for those of the file (1, 3, or 4 with alpha).
    Raises MXNetError if no library can decode it, or if its header declares more pixels than the
    data can hold or than OPENCV_IO_MAX_IMAGE_PIXELS.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise wrong_type("decode: an image", data, "bytes")
    data = bytes(data)
    header = check_header(data)
    jpeg = _library("simplejpeg") if header.format == "JPEG" else None
    readers = [(_from_simplejpeg, jpeg), (_from_opencv, _library("cv2")),
               (_from_pillow, _library("PIL.Image"))]
    for reader, library in readers:
        if library is not None:
            image = reader(library, data, channels, header)
            if image is not None:
                return image
    if not any(library for _, library in readers):
        raise _missing_library("decode")
    start = data[:16].hex(" ") or "nothing"
    raise MXNetError(f"decode: no image in these {len(data):,} bytes, or it is damaged or of a "
                     f"kind of {header.format} that is not supported; they start with {start}")


def encode(image: np.ndarray, format: str, quality: int = 95) -> bytes:
    """Encode an image to the bytes of a file.

    image: uint8 (height, width), or (height, width, channels) with 1 or 3 channels.
    format: "jpg", "jpeg", "png" or another one that Pillow writes.  quality: of JPEG, 1 to 100; the
    compression level of PNG, 0 to 9.
    """
    image = np.ascontiguousarray(image)
    planar = image.ndim in (2, 3) and image.shape[2:] in ((), (1,), (3,))
    if image.dtype != np.uint8 or not planar:
        raise MXNetError(f"encode: an array of {image.dtype} and shape {image.shape}, expected "
                         "uint8 (height, width), or (height, width, 1 or 3)")
    format = format.lower().lstrip(".")
    jpeg = format in ("jpg", "jpeg")
    pillow, simplejpeg = _library("PIL.Image"), _library("simplejpeg")
    if jpeg and simplejpeg is not None:
        gray = image.ndim == 2 or image.shape[2] == 1
        return simplejpeg.encode_jpeg(image.reshape(*image.shape[:2], -1), quality,
                                      "GRAY" if gray else "RGB", "420", False)
    if pillow is None:
        raise _missing_library("encode")
    options = {"quality": quality} if jpeg else {"compress_level": min(quality, 9)}
    pil_image = pillow.fromarray(image[..., 0] if image.shape[2:] == (1,) else image)
    file = io.BytesIO()
    try:
        pil_image.save(file, "JPEG" if jpeg else format.upper(), **options)
    except KeyError:
        raise MXNetError(f"encode: unknown format {format!r}, try jpg or png") from None
    return file.getvalue()


# -------------------------------------------------------------------------------------- libraries

@functools.cache
def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _missing_library(what: str) -> MXNetError:
    return MXNetError(f"{what}: images need a library that is not installed: "
                      "pip install 'nbmod[image]'")


def _from_simplejpeg(library: Any, data: bytes, channels: int, header: Header
                    ) -> np.ndarray | None:
    """None for formats that it does not support, such as CMYK: the other libraries do."""
    try:
        height, width, space, _ = library.decode_jpeg_header(data)
        if space == "CMYK" or space == "YCCK" or width * height > header.width * header.height:
            return None
        gray = channels == 1 or channels == 0 and space.upper() == "GRAY"
        return library.decode_jpeg(data, "GRAY" if gray else "RGB", strict=False)
    except ValueError:
        return None


def _from_opencv(library: Any, data: bytes, channels: int, header: Header
                ) -> np.ndarray | None:
    flag = {3: library.IMREAD_COLOR, 1: library.IMREAD_GRAYSCALE, 0: library.IMREAD_UNCHANGED}
    ignore = library.IMREAD_IGNORE_ORIENTATION if channels else 0
    try:
        image = library.imdecode(np.frombuffer(data, np.uint8), flag[channels] | ignore)
    except library.error:
        return None
    if image is None or image.dtype not in (np.uint8, np.uint16):
        return None
    if image.dtype != np.uint8:
        image = (image >> 8).astype(np.uint8)
    if image.ndim == 2:
        return image[..., None]
    order = {3: [2, 1, 0], 4: [2, 1, 0, 3]}[image.shape[2]]
    return np.ascontiguousarray(image[..., order])


def _from_pillow(library: Any, data: bytes, channels: int, header: Header
                ) -> np.ndarray | None:
    try:
        pil_image = library.open(io.BytesIO(data), formats=(header.format,))
        if pil_image.width * pil_image.height > header.width * header.height:
            return None
        format_name = pil_image.format
        if channels == 1 and pil_image.format == "JPEG":
            pil_image.draft("L", pil_image.size)
        _load(pil_image)
    except library.DecompressionBombError as error:
        raise MXNetError(f"decode: {error}; PIL.Image.MAX_IMAGE_PIXELS sets the limit") from None
    except Exception as error:  # its decoders raise arbitrary exceptions for damaged files
        if from_handler(error):
            raise
        return None
    if pil_image.mode.startswith("I") or pil_image.mode == "F":
        array = np.asarray(pil_image)
        pil_image = library.fromarray((array >> 8 if array.dtype != np.uint8 else array
                                     ).astype(np.uint8))
    has_alpha = "A" in pil_image.getbands() or "transparency" in pil_image.info
    mode = {3: "RGB", 1: "L"}.get(channels) or (
        "RGBA" if has_alpha else "L" if pil_image.mode in ("1", "L") else "RGB")
    if has_alpha and channels:
        pil_image = pil_image.convert("RGBA").convert("RGB")
    if mode == "L" and pil_image.mode not in ("1", "L", "CMYK"):
        rgb = np.asarray(pil_image.convert("RGB"))
        if (pil_image.format or format_name) == "PNG":  # in 15 bits and truncated, as by libpng
            return (rgb @ np.array([[9797], [19234], [3737]]) >> 15).astype(np.uint8)
        return (rgb @ np.array([[4899], [9617], [1868]]) + 8192 >> 14).astype(np.uint8)
    array = np.asarray(pil_image.convert(mode))
    return array if array.ndim == 3 else array[..., None]


def _load(pil_image: Any) -> None:
    """Read the pixels; a truncated JPEG is decoded as far as it goes."""
    if pil_image.format != "JPEG":
        pil_image.load()
        return
    try:
        pil_image.load()
    except OSError:
        from PIL import ImageFile

        with _truncation:
            before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
            try:
                pil_image.load()
            finally:
                ImageFile.LOAD_TRUNCATED_IMAGES = before
