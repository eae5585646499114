"""Every reader of bytes from outside, and sound samples of what it reads."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np

import nbmod as mx
from nbmod.core.serialization import read_arrays
from nbmod.optimizer.states import load_states as read_states


@dataclass(frozen=True)
class Loader:
    """A reader: it loads a file or raises MXNetError, whatever the bytes are.

    Parameters
    ----------
    name : str
        What is read.
    samples : callable
        Sound contents.
    load : callable
        ``load(content, folder)`` reads the content; files are written into the folder.
    cost : int
        Trials of the fastest reader that take as long as one of this, roughly.
    """

    name: str
    samples: Callable[[], list[bytes]]
    load: Callable[[bytes, pathlib.Path], None]
    cost: int = 1


def saved(folder: pathlib.Path, name: str, content: bytes) -> str:
    """The path of a file with this content; it is written anew, not replaced."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def batches(iterator: mx.io.DataIter) -> None:
    """Read an iterator to its end, at most 100 batches."""
    for _, batch in zip(range(100), iterator, strict=False):
        batch.data[0].wait_to_read()


# ------------------------------------------------------------------------------------ parameters

def parameter_files() -> list[bytes]:
    from tests import test_serialization as made

    records = [bytes.fromhex(text) for text, _ in made.MXNET_RECORDS.values()]
    old = [made.file_of([content], ["a"]) for content, _ in made.OLD_RECORDS.values()]
    return [made.SAMPLE, made.file_of(records, [f"arg:{i}" for i in range(len(records))]), *old]


def load_parameters(content: bytes, _folder: pathlib.Path) -> None:
    read_arrays(content)


# --------------------------------------------------------------------------------------- symbols

@cache
def graphs() -> list[bytes]:
    from tests.symbol import test_symbol_json as made

    data = mx.sym.Variable("data", shape=(4, 5), init=mx.init.Xavier())
    cell = mx.rnn.LSTMCell(3, prefix="a_")
    unrolled, _ = cell.unroll(2, mx.sym.Reshape(data, shape=(4, 1, 5)).broadcast_to((4, 2, 5)),
                              merge_outputs=True)
    loop, _ = mx.sym.contrib.foreach(lambda x, s: (x + s, x * s), data, data.sum(axis=0))
    made_here = [mx.sym.SoftmaxOutput(unrolled.reshape((-1, 3)), name="softmax"), loop]
    return [made.SOUND.encode(), *(text.encode() for text in made.DIALECTS.values()),
            *(symbol.tojson().encode() for symbol in made_here)]


def load_graph(content: bytes, folder: pathlib.Path) -> None:
    net = mx.sym.load(saved(folder, "a.json", content))
    net.list_arguments()
    if "data" in net.list_arguments():
        net.infer_shape_partial(data=(4, 5))


# ------------------------------------------------------------------------------ optimizer states

STATES_OF = (("sgd", {"momentum": 0.9, "multi_precision": True}), ("adam", {}),
             ("rmsprop", {"centered": True}))


@cache
def state_files() -> list[bytes]:
    from tests.optimizer.test_states import SCHEDULE, SCHEDULERS
    from tests.programs import training

    found = []
    for (name, params), precision, scheduler in zip(
            STATES_OF, ("float16", "float32", "float32"), (SCHEDULE, SCHEDULERS[1], None),
            strict=True):
        run = training.optimizer_steps(mx, name, params, 2, precision, scheduler=scheduler)
        found += [run["states"], run["whole"]]
    return found


def load_states(content: bytes, _folder: pathlib.Path) -> None:
    """For each optimizer, because the file need not say whose states it holds."""
    read_states(content)
    for name, params in STATES_OF:
        with suppress(mx.MXNetError):
            mx.optimizer.get_updater(mx.optimizer.create(name, **params)).set_states(content)


def eight_samples() -> mx.io.NDArrayIter:
    data = np.arange(24, dtype=np.float32).reshape(8, 3)
    return mx.io.NDArrayIter(data, np.zeros(8), 4, shuffle=True)


@cache
def trained_module() -> tuple[mx.mod.Module, bytes]:
    """A module, and the training state that it has saved."""
    import tempfile

    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2),
                               name="softmax")
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "a")
        module = mx.mod.Module(net)
        module.fit(eight_samples(), num_epoch=1, kvstore=None, optimizer="adam",
                   epoch_end_callback=mx.callback.module_checkpoint(
                       module, prefix, save_optimizer_states=True))
        return module, pathlib.Path(f"{prefix}-0001.resume").read_bytes()


def resume_files() -> list[bytes]:
    return [trained_module()[1]]


def load_resume(content: bytes, folder: pathlib.Path) -> None:
    """The content, and the same with the checksum that it should have."""
    from nbmod.module import resume

    path = saved(folder, "a.resume", content)
    with suppress(mx.MXNetError):
        restore_training(path)
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict):
        text = json.dumps(resume.with_checksum(tree))
        restore_training(saved(folder, "a.resume", text.encode()))


def restore_training(path: str) -> None:
    module = trained_module()[0]
    module._updater.optimizer = mx.optimizer.create("adam")
    module.load_training_state(path, eight_samples())


# --------------------------------------------------------------------------------------- records

def record_files() -> list[bytes]:
    from tests.recordio.test_recordio import MAGIC, RECORDS, chain

    return [chain([b"first", b"ab" + MAGIC + b"cd", b""]), chain(RECORDS["magic within"]), chain([
        mx.recordio.pack(mx.recordio.IRHeader(0, 1.0, i, 0), b"x" * i) for i in range(3)])]


def load_records(content: bytes, folder: pathlib.Path) -> None:
    path = saved(folder, "a.rec", content)
    list(mx.recordio.MXRecordIO(path, "r", strict=False))
    for record in mx.recordio.MXRecordIO(path, "r"):
        with suppress(mx.MXNetError):  # not every record has the header of an image
            mx.recordio.unpack(record)


def index_files() -> list[bytes]:
    return [b"0\t0\n1\t32\n2\t68\n", b"5\t0\r\n"]


def load_index(content: bytes, folder: pathlib.Path) -> None:
    record = saved(folder, "a.rec", record_files()[2])
    reader = mx.recordio.MXIndexedRecordIO(saved(folder, "a.idx", content), record, "r")
    for key in reader.keys[:10]:
        with suppress(mx.MXNetError):  # the place of no record
            reader.read_idx(key)


def list_files() -> list[bytes]:
    return [b"0\t1.0\ta.jpg\n1\t0\tb/c.jpg\n", "7\t1\t2.5\t3\té.png\n".encode() * 5]


def load_list(content: bytes, folder: pathlib.Path) -> None:
    from nbmod.recordio.lists import read_list

    read_list(saved(folder, "a.lst", content))


# ---------------------------------------------------------------------------------------- images

@cache
def images() -> list[bytes]:
    from tests.io.test_image_headers import HONEST

    return list(HONEST.values())


def load_image(content: bytes, _folder: pathlib.Path) -> None:
    mx.image.imdecode(content).wait_to_read()


@cache
def image_records() -> list[bytes]:
    """Of both formats; the images are small, because kernels run as Python code."""
    from tests.recordio.test_recordio import chain

    pixels = (np.arange(54) * 3).astype(np.uint8).reshape(6, 3, 3)
    return [chain([mx.recordio.pack_img(mx.recordio.IRHeader(0, float(i), i, 0), pixels[i:],
                                        img_fmt=suffix) for i in range(2)])
            for suffix in (".jpg", ".png")]


def load_image_records(content: bytes, folder: pathlib.Path) -> None:
    batches(mx.io.ImageRecordIter(path_imgrec=saved(folder, "a.rec", content), batch_size=2,
                                  data_shape=(3, 2, 2), resize=2, preprocess_threads=1))


# ------------------------------------------------------------------------------------- iterators

def mnist_files() -> list[bytes]:
    images_file = struct.pack(">IIII", 2051, 6, 4, 5) + bytes(range(120))
    return [images_file, gzip.compress(images_file), struct.pack(">II", 2049, 6) + b"123456"]


def load_mnist(content: bytes, folder: pathlib.Path) -> None:
    whole = mnist_files()
    labels = content[2:4] == b"\x08\x01"
    names = {"image": saved(folder, "images", whole[0] if labels else content),
             "label": saved(folder, "labels", content if labels else whole[2])}
    batches(mx.io.MNISTIter(**names, batch_size=2, silent=True))


def csv_files() -> list[bytes]:
    return [b"1,2,3\n4,5,6\n-7.5e-3,nan,inf\n", b"1.25, 2,3\r\n\r\n4,5,6"]


def load_csv(content: bytes, folder: pathlib.Path) -> None:
    batches(mx.io.CSVIter(data_csv=saved(folder, "a.csv", content), data_shape=(3,), batch_size=2))


def libsvm_files() -> list[bytes]:
    return [b"1 0:2 3:1e-3\n-1 5:3\n0\n", b"# head\n1 0:2 # tail\n\n-1 5:3"]


def load_libsvm(content: bytes, folder: pathlib.Path) -> None:
    batches(mx.io.LibSVMIter(data_libsvm=saved(folder, "a.svm", content), data_shape=(6,),
                             batch_size=2))


def vector_files() -> list[bytes]:
    return [b"a 1 2 3\nb 4 5 6.5\n", "2 3\né 1 2 3\n<unk> 4 5 6\n".encode()]


def load_vectors(content: bytes, folder: pathlib.Path) -> None:
    mx.contrib.text.embedding.CustomEmbedding(saved(folder, "a.txt", content))


# --------------------------------------------------------------------------------- compile cache

@cache
def kernels() -> list[bytes]:
    from nbmod.ops.build import store

    return [store.packed(bytes(range(256)) * 40)]


def load_kernel(content: bytes, folder: pathlib.Path) -> None:
    """Damage is never loaded: the kernel is compiled again.

    A digest is no signature: guided by comparisons, a fuzzer finds that of other contents.
    """
    from nbmod.ops.build import store

    path = pathlib.Path(saved(folder, "a-kernel", content))
    path.chmod(0o600)
    found = store.read_kernel(path)
    if found is not None and content != store.MAGIC + hashlib.sha256(found).digest() + found:
        raise AssertionError("machine code was read that the digest does not cover")


@cache
def archives() -> list[bytes]:
    import tarfile

    from nbmod.ops.build import archive, store

    contents, found = {"compiler": store.compiler_of(), "kernels": []}, []
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode=mode) as made:
                archive._add(made, archive.CONTENTS, json.dumps(contents).encode())
                archive._add(made, "fill-" + "0" * 40 + store.SUFFIX, kernels()[0])
            found.append(file.getvalue())
    return found


def load_archive(content: bytes, folder: pathlib.Path) -> None:
    from nbmod.core.config import CONFIG
    from nbmod.ops.build import archive

    assert folder in CONFIG.cache_dir.parents, "installs into the cache of the user"
    archive.install(saved(folder, "a.tar", content))


# ----------------------------------------------------------------------------- compressed files

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@cache
def zip_files() -> list[bytes]:
    """Files with the arrays of an .npz file, by every compression."""
    arrays = {"arg:w.npy": np.arange(6, dtype=np.float32), "aux:b.npy": np.ones((2, 3), np.int8)}
    found = []
    for compression in COMPRESSIONS:
        with io.BytesIO() as file:
            with zipfile.ZipFile(file, "w", compression) as made:
                for name, array in arrays.items():
                    with made.open(name, "w") as member:
                        np.lib.format.write_array(member, array)
            found.append(file.getvalue())
    return found


def load_npz(content: bytes, folder: pathlib.Path) -> None:
    mx.convert.read_model(saved(folder, "a.npz", content))


def data_sets() -> list[bytes]:
    return [*zip_files(), bz2.compress(b"words " * 200)]


def load_data_set(content: bytes, folder: pathlib.Path) -> None:
    """An archive of the one kind or the other, by its first bytes."""
    name = os.path.basename(saved(folder, "a.archive", content))
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    shutil.move(folder / name, unpacked)
    if content[:1] == b"P":
        mx.test_utils.get_zip_data(str(unpacked), "of no use", name)
    else:
        mx.test_utils.get_bz2_data(str(unpacked), "words", "of no use", name)


LOADERS = (
    Loader("parameters", parameter_files, load_parameters),
    Loader("symbol JSON", graphs, load_graph, cost=5),
    Loader("optimizer states", state_files, load_states, cost=5),
    Loader("training state (.resume)", resume_files, load_resume),
    Loader("records", record_files, load_records, cost=2),
    Loader("record index", index_files, load_index, cost=2),
    Loader("image list", list_files, load_list),
    Loader("images", images, load_image, cost=2),
    Loader("image records", image_records, load_image_records, cost=50),
    Loader("MNIST", mnist_files, load_mnist, cost=10),
    Loader("CSV", csv_files, load_csv, cost=10),
    Loader("LibSVM", libsvm_files, load_libsvm, cost=10),
    Loader("word vectors", vector_files, load_vectors, cost=5),
    Loader("compiled kernel", kernels, load_kernel, cost=2),
    Loader("archive of kernels", archives, load_archive, cost=10),
    Loader("NumPy files (.npz)", zip_files, load_npz, cost=5),
    Loader("archives of data", data_sets, load_data_set, cost=5),
)


def chosen(names: list[str] | None) -> Iterator[Loader]:
    """Loaders with these names; all without names."""
    for loader in LOADERS:
        if not names or loader.name in names:
            yield loader
