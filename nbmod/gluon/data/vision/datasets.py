"""Data sets of images: MNIST and CIFAR, record files, folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ....base import MXNetError, warn_user
from ....image import image as image_module
from ....image import imdecode, imread
from ....io.mnist import read_idx
from ....ndarray import array
from ....recordio import unpack
from ..dataset import Dataset, RecordFileDataset
from ..published_files import File, PublishedDataset, default_root

__all__ = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset",
           "MNIST"]
__dir__ = __all__.copy

globals()["image"] = image_module  # programs take it from here; in this file, images are `image`
Transform = Callable[[Any, Any], Any]


class _PublishedImages(PublishedDataset):
    """Images and labels in published files."""

    def __init__(self, root: str, train: bool, transform: Transform | None):
        self._train = train
        super().__init__(root, transform)

    def _keep(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._data, self._label = array(images, dtype=np.uint8), labels.astype(np.int32)


class MNIST(_PublishedImages):
    """Handwritten digits: uint8 images (28, 28, 1), and labels from 0 to 9.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/mnist'
        Folder of the four files, which are downloaded if they are not there; `MXNET_HOME` replaces
        `~/.mxnet`.
    train : bool, default True
        Whether to read the 60,000 images for training, or the 10,000 for tests.
    transform : callable, optional
        Function of an image and its label that makes the sample.

    Raises
    ------
    MXNetError
        If the files are neither there nor can be downloaded, or are damaged.
    """

    _namespace = "mnist"
    _train_files: ClassVar[tuple[File, File]] = (
        ("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d"),
        ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc"))
    _test_files: ClassVar[tuple[File, File]] = (
        ("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48"),
        ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17"))

    def __init__(self, root: str = default_root("mnist"), train: bool = True,
                 transform: Transform | None = None):
        super().__init__(root, train, transform)

    def _get_data(self) -> None:
        images, labels = map(self._fetch, self._train_files if self._train else self._test_files)
        self._keep(read_idx(images, 3)[..., None], read_idx(labels, 1))


class FashionMNIST(MNIST):
    """Clothes: uint8 images (28, 28, 1), and labels from 0 to 9.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/fashion-mnist'
        Folder of the files, as for `MNIST`.
    train, transform
        As for `MNIST`.
    """

    _namespace = "fashion-mnist"
    _train_files = (
        ("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d"),
        ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b"))
    _test_files = (
        ("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863"),
        ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701"))

    def __init__(self, root: str = default_root("fashion-mnist"), train: bool = True,
                 transform: Transform | None = None):
        super().__init__(root, train, transform)


class CIFAR10(_PublishedImages):
    """Small photographs: uint8 images (32, 32, 3), and labels from 0 to 9.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/cifar10'
        Folder of the binary files, or of their archive, which is downloaded if neither is there;
        `MXNET_HOME` replaces `~/.mxnet`.
    train : bool, default True
        Whether to read the 50,000 images for training, or the 10,000 for tests.
    transform : callable, optional
        Function of an image and its label that makes the sample.

    Raises
    ------
    MXNetError
        If the files are neither there nor can be downloaded, or are damaged.
    """

    _namespace = "cifar10"
    _archive_file: ClassVar[File] = ("cifar-10-binary.tar.gz",
                                     "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _train_data: ClassVar[Sequence[File]] = (
        ("data_batch_1.bin", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
        ("data_batch_2.bin", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
        ("data_batch_3.bin", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
        ("data_batch_4.bin", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
        ("data_batch_5.bin", "26e2849e66a845b7f1e4614ae70f4889ae604628"))
    _test_data: ClassVar[Sequence[File]] = (
        ("test_batch.bin", "67eb016db431130d61cd03c7ad570b013799c88c"),)
    _labels, _label_column = 1, 0

    def __init__(self, root: str = default_root("cifar10"), train: bool = True,
                 transform: Transform | None = None):
        super().__init__(root, train, transform)

    def _get_data(self) -> None:
        files = self._train_data if self._train else self._test_data
        rows = np.concatenate([*map(self._rows, self._unpacked(files, self._archive_file))])
        images = rows[:, self._labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self._keep(images, rows[:, self._label_column])

    def _rows(self, path: str) -> np.ndarray:
        """Labels and channels of each image in a file."""
        data, length = np.fromfile(path, np.uint8), self._labels + 3 * 32 * 32
        if len(data) % length:
            raise MXNetError(f"{path}: expected images of {length} bytes, found {len(data):,} "
                             "bytes")
        return data.reshape(-1, length)


class CIFAR100(CIFAR10):
    """Small photographs: uint8 images (32, 32, 3), and labels of 20 or 100 classes.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/cifar100'
        Folder of the files, as for `CIFAR10`.
    fine_label : bool, default False
        Whether there are 100 classes, or 20.
    train, transform
        As for `CIFAR10`.
    """

    _namespace = "cifar100"
    _archive_file = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _train_data = (("train.bin", "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),)
    _test_data = (("test.bin", "8fb6623e830365ff53cf14adec797474f5478006"),)
    _labels = 2

    def __init__(self, root: str = default_root("cifar100"), fine_label: bool = False,
                 train: bool = True, transform: Transform | None = None):
        self._label_column = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(RecordFileDataset):
    """The images of a record file, with their labels.

    Parameters
    ----------
    filename : str
        Path of the record file; its index is beside it and ends with `.idx`.
    flag : {1, 0}, default 1
        1: three channels; 0: gray, one channel.
    transform : callable, optional
        Function of an image and its label that makes the sample.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Transform | None = None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        header, content = unpack(super().__getitem__(idx))
        image = imdecode(content, self._flag)
        return (image, header.label) if self._transform is None else (
            self._transform(image, header.label))


class ImageFolderDataset(Dataset):
    """Images in folders, one for each class, in the order of their names.

    Parameters
    ----------
    root : str
        Folder of the folders; other entries are left out with a warning.
    flag : {1, 0}, default 1
        1: three channels; 0: gray, one channel.
    transform : callable, optional
        Function of an image and its label that makes the sample.

    Attributes
    ----------
    synsets : list of str
        Names of the classes.
    items : list of tuple
        Path and class of each image.
    """

    _exts: ClassVar = (".jpg", ".jpeg", ".png")

    def __init__(self, root: str, flag: int = 1, transform: Transform | None = None):
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for name in sorted(os.listdir(self._root)):
            folder = os.path.join(self._root, name)
            if not os.path.isdir(folder):
                warn_user(f"Ignoring {folder}, which is not a directory.")
                continue
            self._list(folder, len(self.synsets))
            self.synsets.append(name)

    def _list(self, folder: str, label: int) -> None:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            extension = os.path.splitext(name)[1]
            if extension.lower() in self._exts:
                self.items.append((path, label))
            else:
                warn_user(f"Ignoring {path} of type {extension}. Only support "
                          f"{', '.join(self._exts)}")

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        image = imread(path, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self.items)
