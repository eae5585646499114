"""Names of file formats that are not MXNet's, for errors about files that cannot be read."""

from __future__ import annotations

import posixpath
import struct

from ..base import MXNetError

__all__ = ["HEAD_SIZE", "foreign_format", "refuse_suffix"]

HEAD_SIZE = 512
"""How many bytes of a file are enough."""
_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer in place of the file: fetch that by "
                                 "`git lfs pull`"),
    (b"404: Not Found", "an answer of a server, 404: Not Found: check the address and download "
                        "the file again"),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "a file of torch.save"),
    (b"\x1f\x8b", "a gzip file: decompress it, or pass an archive to "
                  "mx.model.load_checkpoint"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file (.npy)"),
    (b"\x12\x01\0\0\0\0\0\0", "a .params file: mx.nd.load reads it"),
    (b"\x0a\x23\xd7\xce", "a record file: mx.recordio reads it"),
)


SUFFIXES = {
    ".params": "arrays, which mx.nd.save writes", ".json": "symbols, which Symbol.save writes",
    ".states": "optimizer states", ".rec": "records", ".idx": "indexes of records",
    ".lst": "lists of images", ".npy": "NumPy", ".npz": "NumPy", ".pt": "PyTorch",
    ".pth": "PyTorch", ".safetensors": "safetensors", ".onnx": "ONNX", ".h5": "HDF5",
    ".hdf5": "HDF5", ".tar": "archives of kernels",
}
"""Formats by the suffixes of their files."""


def refuse_suffix(path: str, own: str) -> None:
    """Raise MXNetError for a file name that is about to be written and names another format.

    `own` is the suffix of the format that is written; suffixes that mean nothing are allowed.
    """
    suffix = posixpath.splitext(path)[1].lower()
    if suffix != own and suffix in SUFFIXES:
        raise MXNetError(f"{path}: not written, as {suffix} is the suffix of {SUFFIXES[suffix]}, "
                         f"and the contents are {SUFFIXES[own].split(',')[0]}; name the file "
                         f"{own}")


def foreign_format(head: bytes) -> str:
    """Name the format of a file by its first `HEAD_SIZE` bytes.

    The result ends an error message, such as ``"; the file is an HTML page"``; it is empty if the
    format is not known.
    """
    kind = next((name for start, name in _STARTS if head.startswith(start)), "")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not kind and text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml")):
        kind = "an HTML page, as servers send with errors: download the file again"
    elif head.startswith(b"PK\x03\x04"):
        kind = _zip_format(head)
    elif not kind and _is_safetensors(head):
        kind = "a safetensors file: mx.safetensors.load reads it"
    elif not kind and text.startswith((b"{", b"[")):
        kind = "JSON text, such as a symbol: mx.sym.load reads that"
    return f"; the file is {kind}" if kind else ""


def _zip_format(head: bytes) -> str:
    """Which zip file, by the name of its first member."""
    name = head[30:30 + int.from_bytes(head[26:28], "little")]
    if name.endswith((b"/data.pkl", b"/version", b"/byteorder", b"/.format_version")):
        return "a file of torch.save (zip)"
    return "a NumPy file (.npz)" if name.endswith(b".npy") else (
        "a zip file: unpack it, or pass it to mx.model.load_checkpoint")


def _is_safetensors(head: bytes) -> bool:
    """Whether the length of a JSON header is followed by one."""
    if len(head) < 10 or head[8:9] != b"{":
        return False
    return 2 <= struct.unpack_from("<Q", head)[0] < 1 << 32
