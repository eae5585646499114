"""Data sets that MXNet downloads; nbmod only reads existing files and never downloads.

A file is searched where MXNet would have stored it: in `data/`, in the working directory, and in
`datasets/mnist` under `$MXNET_HOME` (default `~/.mxnet`).  If there is none, an MXNetError says
where to put it.  `nbmod.cli.demo.load_digits()` has 1,797 real digits without any file.
"""

from __future__ import annotations

import bz2
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.atomic import atomic_write
from ..core.compressed import most_unpacked, refusing, require_plausible
from ..core.config import CONFIG
from ..io import NDArrayIter
from ..io.mnist import read_idx

__all__ = ["download", "download_model", "get_bz2_data", "get_cifar10", "get_mnist",
           "get_mnist_iterator", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data"]

UNPACKED = 1 << 30
"""Bytes that data sets may have, besides 64 times those of the file."""
MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
         "t10k-labels-idx1-ubyte")


def download(url: str, fname: str | None = None, dirname: str | None = None,
             overwrite: bool = False, retries: int = 5) -> str:
    """Return the path of an existing file instead of downloading it.

    Parameters
    ----------
    url : str
        Address, whose last part is the default name of the file.
    fname : str, optional
        Name of the file.
    dirname : str, optional
        Folder of the file.
    overwrite : bool, default False
        Whether to download again, which is an error.
    retries : int, default 5
        Accepted for compatibility and ignored.

    Raises
    ------
    MXNetError
        If the file does not exist, or `overwrite` is set; the message says where to put it.
    """
    path = pathlib.Path(fname or url.rpartition("/")[2])
    path = pathlib.Path(dirname) / path if dirname else path
    if overwrite or not path.is_file():
        raise MXNetError(f"download: nbmod fetches nothing; put {url} at {path.absolute()}")
    return str(path)


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> Any:
    """Not supported: nbmod downloads nothing; `load_checkpoint` reads existing files.

    Parameters
    ----------
    model_name : str
        Name of the model.
    dst_dir : str, default './'
        Folder of its files.
    meta_info : optional
        Accepted for compatibility and ignored.
    """
    raise MXNetError(f"download_model: nbmod fetches nothing; put {model_name}-symbol.json and "
                     f"{model_name}-0000.params into {os.path.abspath(dst_dir)} and load them with "
                     "mx.model.load_checkpoint")


def _find(*names: str, folders: tuple[str, ...] = ("data", ".")) -> list[pathlib.Path]:
    """Paths of files that are all in one folder, compressed by gzip or not."""
    searched = [*map(pathlib.Path, folders), CONFIG.home / "datasets" / "mnist"]
    for folder in searched:
        paths = [path for name in names for path in (folder / name, folder / f"{name}.gz")
                 if path.is_file()]
        if {path.name.removesuffix(".gz") for path in paths} >= set(names):
            return [next(p for p in paths if p.name.removesuffix(".gz") == name) for name in names]
    raise MXNetError(f"nbmod fetches nothing; put {', '.join(names)} (.gz or not) into one of "
                     + ", ".join(str(folder.absolute()) for folder in searched))


def _read_mnist() -> list[np.ndarray]:
    """Images and labels for training, images and labels for testing, uint8."""
    return [read_idx(path, dimensions) for path, dimensions in zip(_find(*MNIST), (3, 1, 3, 1),
                                                                   strict=True)]


def get_mnist() -> dict[str, np.ndarray]:
    """Read MNIST.

    Returns
    -------
    dict of str to numpy.ndarray
        `train_data` and `test_data`, float32 of shape (N, 1, 28, 28) from 0 to 1, `train_label` and
        `test_label` of shape (N,).

    Raises
    ------
    MXNetError
        If the files do not exist; the message says where to put them.
    """
    train, train_label, test, test_label = _read_mnist()
    return {"train_data": _images(train), "train_label": train_label.copy(),
            "test_data": _images(test), "test_label": test_label.copy()}


def _images(pixels: np.ndarray) -> np.ndarray:
    return pixels[:, None].astype(np.float32) / 255


def get_mnist_ubyte() -> None:
    """Check that the uncompressed files of MNIST exist in `data/`; MXNetError if not."""
    _find(*MNIST, folders=("data",))
    missing = [name for name in MNIST if not pathlib.Path("data", name).is_file()]
    if missing:
        raise MXNetError(f"decompress {', '.join(missing)} into {pathlib.Path('data').absolute()}")


def get_mnist_pkl() -> None:
    """Check that `data/mnist.pkl.gz` exists; MXNetError if not."""
    _find("mnist.pkl", folders=("data",))


def get_cifar10() -> None:
    """Check that `data/cifar/train.rec` and `test.rec` exist; MXNetError if not."""
    _find("train.rec", "test.rec", folders=("data/cifar",))


def get_mnist_iterator(batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1,
                       part_index: int = 0) -> tuple[NDArrayIter, NDArrayIter]:
    """Make iterators over MNIST: shuffled training, validation; pixels are 0 to 255/256.

    Parameters
    ----------
    batch_size : int
        Number of images in a batch; an incomplete last batch is discarded.
    input_shape : tuple of int
        Shape of an image.
    num_parts : int, default 1
        Number of parts that the training data are divided into, one for each worker.
    part_index : int, default 0
        Part that is read, from 0.
    """
    pixels, labels, test, test_labels = _read_mnist()
    size = len(pixels) // num_parts
    part = slice(part_index * size, (part_index + 1) * size)

    def iterator(images: np.ndarray, labels: np.ndarray, shuffle: bool) -> NDArrayIter:
        return NDArrayIter(images.reshape(-1, *input_shape).astype(np.float32) / 256,
                           labels.astype(np.float32), batch_size, shuffle=shuffle,
                           last_batch_handle="discard")

    return iterator(pixels[part], labels[part], True), iterator(test, test_labels, False)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Extract an existing zip archive into its folder.

    Parameters
    ----------
    data_dir : str
        Folder of the archive.
    url : str
        Address that a message names.
    data_origin_name : str
        Name of the archive.

    Raises
    ------
    MXNetError
        If the archive does not exist or is damaged; nothing is unpacked then.
    """
    path = download(url, data_origin_name, data_dir)
    with refusing(path, "a zip file"), zipfile.ZipFile(path) as archive:
        require_plausible(path, sum(entry.file_size for entry in archive.infolist()),
                          most_unpacked(path, UNPACKED))
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"the content of {damaged!r} has another checksum")
        archive.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Decompress an existing bz2 file, unless that has been done.

    Parameters
    ----------
    data_dir : str
        Folder of both files.
    data_name : str
        Name of the decompressed file.
    url : str
        Address that a message names.
    data_origin_name : str
        Name of the compressed file.

    Raises
    ------
    MXNetError
        If the compressed file does not exist or is damaged.
    """
    target = pathlib.Path(data_dir, data_name)
    if not target.is_file():
        path = download(url, data_origin_name, data_dir)
        most = most_unpacked(path, UNPACKED)
        with refusing(path, "a bz2 file"), bz2.open(path) as compressed:
            content = compressed.read(most + 1)
        require_plausible(path, len(content), most)
        with atomic_write(target) as file:
            file.write(content)
