"""`mx.gluon.data.vision`: data sets of images and transformations are MXNet's."""

from __future__ import annotations

import gzip
import io
import os
import tarfile

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon.data import published_files
from nbmod.gluon.data.vision import datasets, transforms
from nbmod.imgproc.codecs import encode
from tests.compare import assert_same
from tests.programs import gluon_vision

TOLERANCE = 1e-6
"""Bilinear sums of four float32 numbers up to 1, in another order than MXNet's."""


def theirs_of(oracle, function, *arguments):
    return oracle.call("mx_scripts.run", "gluon_vision", function, *arguments)


def test_transformations_are_mxnets(oracle):
    """Resized bytes may be rounded to the neighbour."""
    theirs, ours = theirs_of(oracle, "transformed"), gluon_vision.transformed(mx)
    names = [case for case in gluon_vision.TRANSFORMS for _ in range(3)]
    for case, expected, found in zip(names, theirs, ours, strict=True):
        tolerance = 1 if expected.dtype == np.uint8 else TOLERANCE
        assert found.dtype == expected.dtype and found.shape == expected.shape, case
        assert abs(found.astype(np.float64) - expected.astype(np.float64)).max() <= tolerance, case


@pytest.mark.parametrize("function", ["draws", "structures", "shapes", "errors"])
def test_blocks_are_mxnets(oracle, function):
    theirs = theirs_of(oracle, function)
    for expected, found in zip(theirs, getattr(gluon_vision, function)(mx), strict=True):
        assert list(found) == list(expected) if isinstance(expected, (list, tuple)) else (
            found == expected)


def test_every_transformation_has_a_case():
    cases = {case[0] for case in (*gluon_vision.TRANSFORMS, *gluon_vision.RANDOM)}
    assert cases == {*transforms.__all__} - {"Compose", "RandomApply"}


def test_random_transformations_follow_the_seed():
    image = gluon_vision.arrays(mx)["image"]
    for name, arguments in gluon_vision.RANDOM:
        transform = getattr(transforms, name)(*arguments)
        results = []
        for seed in (1, 1, 2, 3, 4, 5, 6, 7):
            mx.random.seed(seed)
            results.append(transform(image).asnumpy().tobytes())
        assert results[0] == results[1] and len({*results}) > 1, name


def write_images(folder):
    """Folders of images and a record file."""
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
    content = encode(image, ".png")
    for name in ("b/2.png", "b/1.PNG", "a/first.png", "c/other.txt"):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "images" / "file.txt").write_text("")
    with mx.recordio.MXIndexedRecordIO(str(folder / "a.idx"), str(folder / "a.rec"), "w") as writer:
        for key, label in enumerate((0.0, 1.0, [1.0, 2.0])):
            writer.write_idx(key, mx.recordio.pack(
                mx.recordio.IRHeader(0, label, key, 0), content))


@pytest.mark.filterwarnings("ignore:Ignoring")
def test_files_of_images_are_read_as_by_mxnet(oracle, tmp_path):
    write_images(tmp_path)
    theirs = theirs_of(oracle, "image_files", str(tmp_path))
    assert gluon_vision.image_files(mx, str(tmp_path)) == theirs


def test_other_files_are_named(tmp_path):
    write_images(tmp_path)
    with pytest.warns(UserWarning) as caught:
        mx.gluon.data.vision.ImageFolderDataset(str(tmp_path / "images"))
    assert [str(each.message).replace(str(tmp_path), "") for each in caught] == [
        f"Ignoring {os.path.join('', os.sep + 'images', 'c', 'other.txt')} of type .txt. Only "
        "support .jpg, .jpeg, .png",
        f"Ignoring {os.path.join('', os.sep + 'images', 'file.txt')}, which is not a directory."]


def rows(count, labels):
    """Images of CIFAR as rows of bytes."""
    return np.random.default_rng(count).integers(0, 10, (count, labels + 3072)).astype(np.uint8)


def write_small(folder):
    """Files of few images, named and laid out as those of MNIST and CIFAR."""
    for name in ("MNIST", "FashionMNIST"):
        (folder / name).mkdir()
        for part, count in (("train", 3), ("t10k", 2)):
            images = np.arange(count * 784).reshape(count, 28, 28).astype(np.uint8)
            head = b"\0\0\x08\x03" + np.array(images.shape, ">u4").tobytes()
            (folder / name / f"{part}-images-idx3-ubyte.gz").write_bytes(
                gzip.compress(head + images.tobytes()))
            head = b"\0\0\x08\x01" + np.array([count], ">u4").tobytes()
            (folder / name / f"{part}-labels-idx1-ubyte.gz").write_bytes(
                gzip.compress(head + bytes(range(count))))
    for name, labels in (("CIFAR10", 1), ("CIFAR100", 2)):
        (folder / name).mkdir()
        kind = getattr(datasets, name)
        for count, (file, _) in enumerate((*kind._train_data, *kind._test_data), 1):
            rows(count, labels).tofile(folder / name / file)


def test_small_images_are_read_as_by_mxnet(oracle, tmp_path):
    write_small(tmp_path)
    theirs = theirs_of(oracle, "small_files", str(tmp_path))
    assert gluon_vision.small_files(mx, str(tmp_path)) == theirs


def archive(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as written:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar/{name}")
            member.size = len(data)
            written.addfile(member, io.BytesIO(data))
    return content.getvalue()


@pytest.mark.parametrize("files, message", [
    ({"train.bin": rows(4, 2).tobytes()}, None),
    ({"train.bin": b"1234"}, "expected images of 3074 bytes, found 4 bytes"),
    ({"other.bin": b""}, "there is no train.bin"), (None, "damaged"),
    ({"../train.bin": b""}, "its name leads out of the archive")],
    ids=["right", "short", "other", "no archive", "outside"])   # archives have the time in them
def test_an_archive_is_unpacked_into_its_folder(tmp_path, monkeypatch, files, message):
    path = tmp_path / "cifar-100-binary.tar.gz"
    path.write_bytes(b"no archive" if files is None else archive(files))
    monkeypatch.setattr(published_files, "download", lambda url, path, sha1_hash: os.path.join(
        path, url.rpartition("/")[2]))
    if message:
        with pytest.raises(MXNetError, match=message):
            datasets.CIFAR100(str(tmp_path))
        return
    images = datasets.CIFAR100(str(tmp_path), fine_label=True)
    assert len(images) == 4 and sorted(os.listdir(tmp_path)) == [path.name, "train.bin"]
    assert_same(images[3][0].asnumpy(), rows(4, 2)[3, 2:].reshape(3, 32, 32).transpose(1, 2, 0), 0,
                "image")


def test_transformed_images_are_loaded_by_threads(tmp_path):
    write_images(tmp_path)
    images = mx.gluon.data.vision.ImageRecordDataset(str(tmp_path / "a.rec")).take(2)
    prepare = transforms.Compose([transforms.Resize(3), transforms.ToTensor()])
    loader = mx.gluon.data.DataLoader(images.transform_first(prepare), 2, num_workers=2,
                                      thread_pool=True)
    ((data, label),) = loader
    assert data.shape == (2, 3, 3, 3) and label.asnumpy().tolist() == [0, 1]
