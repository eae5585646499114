"""Data sets that MXNet fetches and nbmod reads: nothing is ever downloaded.

A file is looked for where MXNet would have put it: in `data/`, here, and below `$MXNET_HOME`
(default `~/.mxnet`) in `datasets/mnist`.  If it is nowhere, an MXNetError says where to put it.
For a first try without any file, `nbmod.cli.demo.load_digits()` has 1,797 real digits.
"""

from __future__ import annotations

import bz2
import gzip
import os
import pathlib
import struct
import zipfile
from typing import Any, BinaryIO

import numpy as np

from ..base import MXNetError
from ..config import CONFIG
from ..io import NDArrayIter

__all__ = ["download", "download_model", "get_bz2_data", "get_cifar10", "get_mnist",
           "get_mnist_iterator", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data"]

MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
         "t10k-labels-idx1-ubyte")


def download(url: str, fname: str | None = None, dirname: str | None = None,
             overwrite: bool = False, retries: int = 5) -> str:
    """The path of a file that is there already, named `fname` or as in `url`, in `dirname`.

    MXNetError if it is not, or if it were to be fetched again: fetch it by other means.
    """
    path = pathlib.Path(fname or url.rpartition("/")[2])
    path = pathlib.Path(dirname) / path if dirname else path
    if overwrite or not path.is_file():
        raise MXNetError(f"download: nbmod fetches nothing; put {url} at {path.absolute()}")
    return str(path)


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> Any:
    """Always an MXNetError: `load_checkpoint` reads what is on this machine."""
    raise MXNetError(f"download_model: nbmod fetches nothing; put {model_name}-symbol.json and "
                     f"{model_name}-0000.params into {os.path.abspath(dst_dir)} and load them with "
                     "mx.model.load_checkpoint")


def _find(*names: str, folders: tuple[str, ...] = ("data", ".")) -> list[pathlib.Path]:
    """Paths of files that all lie in one folder, packed by gzip or not."""
    places = [*map(pathlib.Path, folders), CONFIG.home / "datasets" / "mnist"]
    for place in places:
        found = [path for name in names for path in (place / name, place / f"{name}.gz")
                 if path.is_file()]
        if {path.name.removesuffix(".gz") for path in found} >= set(names):
            return [next(p for p in found if p.name.removesuffix(".gz") == name) for name in names]
    raise MXNetError(f"nbmod fetches nothing; put {', '.join(names)} (.gz or not) into one of "
                     + ", ".join(str(place.absolute()) for place in places))


def read_idx(path: str | pathlib.Path) -> np.ndarray:
    """The array in a file of MNIST's format, packed by gzip or not.

    Two zeros, a byte for the type, one for the rank; then each dimension in four bytes and the
    elements, all big-endian (http://yann.lecun.com/exdb/mnist).  MXNetError for anything else.
    """
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    opener: Any = gzip.open if packed else open
    try:
        with opener(path, "rb") as stream:
            return _read_idx(stream, path)
    except (OSError, EOFError) as error:
        raise MXNetError(f"{path}: cannot be read: {error}") from None


def _read_idx(stream: BinaryIO, path: str | pathlib.Path) -> np.ndarray:
    types = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in types:
        raise MXNetError(f"{path}: starts with {head!r}, which is no MNIST file")
    dims = stream.read(4 * head[3])
    if len(dims) < 4 * head[3]:
        raise MXNetError(f"{path}: ends in its dimensions")
    shape = struct.unpack(f">{head[3]}I", dims)
    data = stream.read()
    dtype = np.dtype(types[head[2]])
    expected = dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise MXNetError(f"{path}: has {len(data)} bytes of elements, expected {expected} for "
                         f"shape {shape}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def get_mnist() -> dict[str, np.ndarray]:
    """MNIST as a dict of arrays.

    `train_data` and `test_data` (N, 1, 28, 28) float32 in 0..1, `train_label`, `test_label` (N,).
    """
    train, train_label, test, test_label = map(read_idx, _find(*MNIST))
    return {"train_data": _images(train), "train_label": train_label,
            "test_data": _images(test), "test_label": test_label}


def _images(pixels: np.ndarray) -> np.ndarray:
    return pixels[:, None].astype(np.float32) / 255


def get_mnist_ubyte() -> None:
    """See that MNIST's files are in `data/`, unpacked, where scripts open them by name."""
    _find(*MNIST, folders=("data",))
    missing = [name for name in MNIST if not pathlib.Path("data", name).is_file()]
    if missing:
        raise MXNetError(f"unpack {', '.join(missing)} into {pathlib.Path('data').absolute()}")


def get_mnist_pkl() -> None:
    """See that `data/mnist.pkl.gz` is there."""
    _find("mnist.pkl", folders=("data",))


def get_cifar10() -> None:
    """See that `data/cifar/train.rec` and `test.rec` are there."""
    _find("train.rec", "test.rec", folders=("data/cifar",))


def get_mnist_iterator(batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1,
                       part_index: int = 0) -> tuple[NDArrayIter, NDArrayIter]:
    """(training, validation) iterators over MNIST: pixels over 256, shaped (batch, *input_shape).

    Each of `num_parts` workers gets a part of the training data, shuffled.  Images beyond the last
    whole batch are left out.
    """
    pixels, labels, test, test_labels = map(read_idx, _find(*MNIST))
    size = len(pixels) // num_parts
    part = slice(part_index * size, (part_index + 1) * size)

    def iterator(images: np.ndarray, numbers: np.ndarray, shuffle: bool) -> NDArrayIter:
        return NDArrayIter(images.reshape(-1, *input_shape).astype(np.float32) / 256,
                           numbers.astype(np.float32), batch_size, shuffle=shuffle,
                           last_batch_handle="discard")

    return iterator(pixels[part], labels[part], True), iterator(test, test_labels, False)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Unpack `data_dir/data_origin_name`, which must be there, into `data_dir`."""
    with zipfile.ZipFile(download(url, data_origin_name, data_dir)) as archive:
        archive.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Unpack `data_dir/data_origin_name`, which must be there, to `data_dir/data_name`."""
    target = pathlib.Path(data_dir, data_name)
    if not target.is_file():
        with bz2.open(download(url, data_origin_name, data_dir)) as packed:
            target.write_bytes(packed.read())
