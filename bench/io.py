"""Input pipelines: images, text and records as a training loop gets them, interleaved with MXNet.

    python -m bench.io [name ...]           tables: items per second, ratio
    python -m pytest bench/io.py            nbmod's rows by pytest-benchmark, MXNet's beside them

Names are prefixes of rows' names.  Files are generated, and in the page cache.  An epoch is timed
from the reset on; kernels are compiled before.  Ratios are medians over pairs of epochs, one of
each package in succession: nbmod's items per second over MXNet's, so nbmod is faster above 1.  The
last column is the same per second of processor time of all threads, which does not depend on other
load.

Records are compared with a copy of their file from the page cache into one buffer of 1 MB.  The
next column is the upper bound for records that are `bytes` objects: the faster of two loops over
slices of their known length that parse nothing.  One calls `os.pread` for each; the other reads 512
KB into one buffer, and makes `bytes` of its slices.  `results/io-cpu.md` holds such tables.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import nbmod as mx
from nbmod.imgproc import codecs
from tests.oracle.client import Oracle
from tests.programs import throughput_programs as programs

from .io_files import RECORD_SIZES, make
from .peers import mxnet_worker

ROUNDS = 7
Times = list[list[float]]
"""[items, seconds, processor seconds] of each repeat."""


@dataclass(frozen=True)
class Case:
    """A program of `tests.programs.throughput_programs`, an iterator, its options, what it reads.

    Options that begin with `@` are names of files.
    """

    program: str
    iterator: str
    options: dict[str, Any]
    unit: str = "rows"
    libraries: tuple[str, ...] = field(default=("simplejpeg", "cv2", "PIL.Image"))
    """Image decoders that nbmod can use."""

    def arguments(self, folder: Path) -> tuple[Any, ...]:
        options = {key: str(folder / value[1:]) if str(value).startswith("@") else value
                   for key, value in self.options.items()}
        return self.iterator, options, 1


NORMAL = {"mean_r": 123.0, "mean_g": 117.0, "mean_b": 104.0, "std_r": 58.0, "std_g": 57.0,
          "std_b": 57.0}
IMAGES = {"path_imgrec": "@images.rec", "path_imgidx": "@images.idx", "verbose": False,
            "data_shape": (3, 224, 224), "batch_size": 64, "rand_crop": True, "rand_mirror": True,
            "preprocess_threads": 1}
TWO = {"preprocess_threads": 2}
CSV, SVM = {"batch_size": 128, "data_shape": (100,)}, {"batch_size": 128, "data_shape": (100_000,)}
IMAGE, BYTES = "ImageRecordIter", "ImageRecordUInt8Iter"
MNIST = {"image": "@images", "label": "@labels", "batch_size": 128, "silent": True}
MEMORY = {"shape": (20_000, 784), "batch_size": 128}

CASES = {
    "JPEG, 1 thread": Case("epochs", IMAGE, IMAGES | NORMAL, "images"),
    "JPEG, 2 threads": Case("epochs", IMAGE, IMAGES | NORMAL | TWO, "images"),
    "JPEG as uint8, 1 thread": Case("epochs", BYTES, IMAGES, "images"),
    "JPEG as uint8, 2 threads": Case("epochs", BYTES, IMAGES | TWO, "images"),
    "JPEG by OpenCV, 1 thread": Case("epochs", IMAGE, IMAGES | NORMAL, "images", ("cv2",)),
    "JPEG by Pillow, 1 thread": Case("epochs", IMAGE, IMAGES | NORMAL, "images",
                                     ("PIL.Image",)),
    "CSV, 6 digits": Case("epochs", "CSVIter", {"data_csv": "@short.csv", **CSV}),
    "CSV, 19 digits": Case("epochs", "CSVIter", {"data_csv": "@long.csv", **CSV}),
    "CSV, pixels": Case("epochs", "CSVIter", CSV | {"data_csv": "@whole.csv",
                                                    "data_shape": (784,)}),
    "LibSVM, 6 digits": Case("epochs", "LibSVMIter", {"data_libsvm": "@short.svm", **SVM}),
    "LibSVM, ones": Case("epochs", "LibSVMIter", {"data_libsvm": "@ones.svm", **SVM}),
    "MNISTIter": Case("epochs", "MNISTIter", MNIST),
    "NDArrayIter": Case("epochs", "NDArrayIter", MEMORY),
    "NDArrayIter, shuffled": Case("epochs", "NDArrayIter", MEMORY | {"shuffle": True}),
    "Module from JPEG, 2 threads": Case("trained", IMAGE, IMAGES | NORMAL | TWO, "images"),
    "Module from MNISTIter": Case("trained", "MNISTIter", MNIST),
}


# ---------------------------------------------------------------------------------------- measuring

@contextlib.contextmanager
def decoding(libraries: tuple[str, ...]) -> Iterator[None]:
    """Restrict nbmod to these libraries."""
    there = codecs._library
    with mock.patch.object(codecs, "_library",
                           lambda name: there(name) if name in libraries else None):
        yield


def ours(case: Case, folder: Path) -> Times:
    with decoding(case.libraries):
        return getattr(programs, case.program)(mx, *case.arguments(folder))


def theirs(worker: Oracle | None, case: Case, folder: Path) -> Times:
    """MXNet's times; NaN without it."""
    if worker is None:
        return [[np.nan] * 3]
    return worker.call("mx_scripts.run", "throughput_programs", case.program,
                       *case.arguments(folder))


def interleaved(*runs: Callable[[], Times]) -> np.ndarray:
    """(runs, ROUNDS, 3) times of each, in turn, after a warm-up round."""
    rounds = [[run()[0] for run in runs] for _ in range(ROUNDS + 1)]
    return np.array(rounds[1:]).swapaxes(0, 1)


def rates(times: np.ndarray) -> np.ndarray:
    """Items per second, and per processor second: (..., 2)."""
    return times[..., :1] / times[..., 1:]


def row(times: np.ndarray, scale: float = 1) -> str:
    """The cells of nbmod and of MXNet: rates, and the medians of their ratios."""
    mine, peer = rates(times)
    ratio, of_cores = np.median(mine / peer, axis=0)
    return (f"{np.median(mine[:, 0]) / scale:,.0f} | {np.median(peer[:, 0]) / scale:,.0f} | "
            f"{ratio:.2f} | {of_cores:.2f} |")


# ------------------------------------------------------------------------------------------ records

def copied(path: str) -> int:
    """The bytes of a file, read into one buffer."""
    piece, count = bytearray(1 << 20), 0
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(piece):
            count += size
    return count


def cut(path: str, length: int) -> int:
    """The same as `bytes` of a known length, by a system call for each."""
    file, count = os.open(path, os.O_RDONLY), 0
    while piece := os.pread(file, length, count):
        count += len(piece)
    os.close(file)
    return count


def cut_twice(path: str, length: int) -> int:
    """The same `bytes`, sliced from a buffer that one call fills with many of them."""
    memory, count = memoryview(bytearray(max((1 << 19) // length, 1) * length)), 0
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(memory):
            for start in range(0, size, length):
                count += len(bytes(memory[start:start + length]))
    return count


def record_rows(worker: Oracle | None, folder: Path, name: str) -> Iterator[str]:
    """Records of a size, read sequentially and by key: MB/s, and their ratios to the copy's."""
    path, index, length = f"{folder / name}.rec", f"{folder / name}.idx", RECORD_SIZES[name] + 8
    for how, key in (("in turn", ""), ("by key", index)):
        def peer(key: str = key) -> Times:
            return worker.call("mx_scripts.run", "throughput_programs", "records", path, key,
                               1) if worker else [[np.nan] * 3]
        times = interleaved(lambda key=key: programs.records(mx, path, key, 1), peer,
                            lambda: programs.timed(lambda: copied(path), 1),
                            lambda: programs.timed(lambda: cut(path, length), 1),
                            lambda: programs.timed(lambda: cut_twice(path, length), 1))
        mine, other, copy, *pieces = rates(times)
        most = np.maximum(*pieces)
        shown = " | ".join(f"{np.median(rate[:, 0]) / 1e6:,.0f}"
                           for rate in (mine, other, most, copy))
        ratios = " | ".join(f"{np.median((one / rate)[:, k]):.2f}" for one, rate, k in (
            (mine, other, 0), (mine, most, 0), (mine, copy, 0), (most, copy, 0), (mine, copy, 1),
            (most, copy, 1)))
        yield f"| {name} {how} | {shown} | {ratios} |"


# ------------------------------------------------------------------------------------------- im2rec

def packed(command: list[str], folder: Path) -> Times:
    """Images of 500x375 resized to a height of 256 and packed by a program, start-up included."""
    for path in folder.glob("made.*"):
        path.unlink()
    (folder / "made.lst").write_text((folder / "photographs.lst").read_text())
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, str(folder / "made"), str(folder / "photographs"), "--resize", "256",
                    "--num-thread", "2"], check=True, capture_output=True)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [[len(os.listdir(folder / "photographs")), seconds, cores]]


def im2rec_times(worker: Oracle | None, folder: Path) -> np.ndarray:
    def peer() -> Times:
        if worker is None:
            return [[np.nan] * 3]
        script = Path(worker.call("mx_scripts.run", "throughput_programs", "place"),
                      "tools", "im2rec.py")
        return packed([str(worker.python), str(script)], folder)

    return interleaved(lambda: packed([sys.executable, "-m", "nbmod", "im2rec"], folder), peer)


# ------------------------------------------------------------------------------------------- tables

def main(names: list[str]) -> None:
    worker = mxnet_worker()
    version = worker.call("mx_ops.version") if worker else "absent"
    print(f"{date.today()}, nbmod {mx.__version__}, MXNet {version}, "
          f"{os.cpu_count()} threads, {platform.machine()}: `python -m bench.io`")

    def wanted(name: str) -> bool:
        return not names or name.startswith(tuple(names))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder)
        print("\n| | of | nbmod /s | MXNet /s | ratio | by cores |\n|---|---|--:|--:|--:|--:|")
        for name in filter(wanted, CASES):
            case = CASES[name]
            times = interleaved(lambda case=case: ours(case, folder),
                                lambda case=case: theirs(worker, case, folder))
            print(f"| {name} | {case.unit} | {row(times)}", flush=True)
        if wanted("im2rec"):
            print(f"| im2rec, 2 threads | images | {row(im2rec_times(worker, folder))}", flush=True)
        print("\n| records of | nbmod MB/s | MXNet MB/s | the most MB/s | copy MB/s | to MXNet | "
              "to the most | to the copy | the most to the copy | by cores | the most by cores |\n"
              "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name in filter(wanted, RECORD_SIZES):
            for line in record_rows(worker, folder, name):
                print(line, flush=True)
        if worker:
            worker.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("io")
    make(made)
    return made


@pytest.mark.parametrize("name", CASES)
def test_iterator(benchmark: Any, worker: Oracle | None, folder: Path, name: str) -> None:
    """One row per iterator: an epoch."""
    ours(CASES[name], folder)
    benchmark(ours, CASES[name], folder)
    theirs(worker, CASES[name], folder)
    benchmark.extra_info["mxnet_seconds"] = theirs(worker, CASES[name], folder)[0][1]


@pytest.mark.parametrize("name", RECORD_SIZES)
def test_records(benchmark: Any, worker: Oracle | None, folder: Path, name: str) -> None:
    """One row per size: a file of 64 MB read sequentially, beside the time of a copy."""
    path = f"{folder / name}.rec"
    benchmark(programs.records, mx, path, "", 1)
    benchmark.extra_info["copy_seconds"] = programs.timed(lambda: copied(path), 3)[-1][1]


if __name__ == "__main__":
    main(sys.argv[1:])
