"""Data sets that are downloaded, unless their files are there.

MNIST is searched where MXNet would have stored it: in `data/`, in the working directory, and in
`datasets/mnist` under `$MXNET_HOME` (default `~/.mxnet`), where it is downloaded.
`nbmod.cli.demo.load_digits()` has 1,797 real digits without any file.
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
    """Download a file, unless it is there; return its path.

    Parameters
    ----------
    url : str
        Address, whose last part is the default name of the file.
    fname : str, optional
        Name of the file.
    dirname : str, optional
        Folder of the file, which is made.
    overwrite : bool, default False
        Whether to download again.
    retries : int, default 5
        Attempts after the first.

    Raises
    ------
    MXNetError
        If the file cannot be downloaded; a file that was there is as before.
    """
    from ..gluon import utils
    path = os.path.join(dirname or "", fname or url.rpartition("/")[2])
    return utils.download(url, path, overwrite, retries=retries)


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> Any:
    """Not supported: `load_checkpoint` reads the files of models.

    Parameters
    ----------
    model_name : str
        Name of the model.
    dst_dir : str, default './'
        Folder of its files.
    meta_info : optional
        Accepted for compatibility and ignored.
    """
    raise MXNetError(f"download_model is not supported; put {model_name}-symbol.json and "
                     f"{model_name}-0000.params into {os.path.abspath(dst_dir)} and load them with "
                     "mx.model.load_checkpoint")


def _find_mnist() -> list[pathlib.Path]:
    """Paths of the files, compressed by gzip or not, if all are in one folder."""
    for folder in (pathlib.Path("data"), pathlib.Path(), CONFIG.home / "datasets" / "mnist"):
        paths = {name: path for name in MNIST for path in (folder / f"{name}.gz", folder / name)
                 if path.is_file()}
        if len(paths) == len(MNIST):
            return list(paths.values())
    return []


def _read_mnist() -> list[np.ndarray]:
    """Images and labels for training, images and labels for testing, uint8."""
    if not _find_mnist():
        from ..gluon.data import vision
        for train in (True, False):
            vision.MNIST(train=train)
    return [read_idx(path, dimensions) for path, dimensions in zip(_find_mnist(), (3, 1, 3, 1),
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
        If the files are neither there nor can be downloaded; the message says where to put them.
    """
    train, train_label, test, test_label = _read_mnist()
    return {"train_data": _images(train), "train_label": train_label.copy(),
            "test_data": _images(test), "test_label": test_label.copy()}


def _images(pixels: np.ndarray) -> np.ndarray:
    return pixels[:, None].astype(np.float32) / 255


def get_mnist_ubyte() -> None:
    """Download the uncompressed files of MNIST to `data/`, unless they are there."""
    _unpack_once("mnist.zip", *MNIST)


def get_mnist_pkl() -> None:
    """Download `data/mnist.pkl.gz`, unless it is there."""
    download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_cifar10() -> None:
    """Download `train.rec` and `test.rec` of CIFAR-10 to `data/cifar/`, unless they are there."""
    _unpack_once("cifar10.zip", "cifar/train.rec", "cifar/test.rec")


def _unpack_once(archive: str, *names: str) -> None:
    if not all(pathlib.Path("data", name).is_file() for name in names):
        get_zip_data("data", f"http://data.mxnet.io/mxnet/data/{archive}", archive)


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
    """Extract a zip archive into its folder, after a download if it is not there.

    Parameters
    ----------
    data_dir : str
        Folder of the archive.
    url : str
        Address.
    data_origin_name : str
        Name of the archive.

    Raises
    ------
    MXNetError
        If the archive cannot be downloaded or is damaged; nothing is unpacked then.
    """
    path = download(url, data_origin_name, data_dir)
    with refusing(path, "a zip file"), zipfile.ZipFile(path) as archive:
        require_plausible(path, sum(entry.file_size for entry in archive.infolist()),
                          most_unpacked(path, UNPACKED))
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"the content of {damaged!r} has another checksum")
        archive.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Decompress a bz2 file, which is downloaded if it is not there, unless that has been done.

    Parameters
    ----------
    data_dir : str
        Folder of both files.
    data_name : str
        Name of the decompressed file.
    url : str
        Address.
    data_origin_name : str
        Name of the compressed file.

    Raises
    ------
    MXNetError
        If the compressed file cannot be downloaded or is damaged.
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
