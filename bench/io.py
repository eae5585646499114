"""Input pipelines: images, text and records as a training loop gets them, interleaved with MXNet.

    python -m bench.io [name ...]           tables: items per second, ratio
    python -m pytest bench/io.py            epochs by the fixture `kernel_benchmark`

Names are prefixes of rows' names.  Files are generated, and in the page cache.  An epoch is timed
from the reset on; kernels are compiled before.  Ratios are of nbmod's items per second over
MXNet's, so nbmod is faster above 1.  The last column is the same per second of processor time of
all threads, which does not depend on other load.

Records are compared with a copy of their file from the page cache into one buffer of 1 MB.  The
next column is the upper bound for records that are `bytes` objects: the faster of two loops over
slices of their known length that parse nothing.  One calls `os.pread` for each; the other reads 512
KB into one buffer, and makes `bytes` of its slices.  `results/io-cpu.md` holds such tables.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import nbmod as mx
from nbmod.bench.foreign.worker_process import WorkerProcess
from nbmod.bench.side_by_side import ArmTime
from nbmod.bench.subjects import CallableArm, InputSets
from nbmod.imgproc import codecs

from .io_files import RECORD_SIZES, make
from .peers import SECONDS, arm_of, arms_of, interval, mxnet_worker, timed
from .programs import throughput_programs as programs

Times = dict[str, ArmTime]


@dataclass(frozen=True)
class Case:
    """A subject of `bench.programs.throughput_programs`, an iterator, its options, what it reads.

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
        return self.iterator, options


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


def both_clocks(arms: Callable[[bool], dict[str, Any]]) -> tuple[Times, Times]:
    """Times by the clock, and of all processors; `arms` makes arms for the one or the other."""
    by_clock, of_cores = timed(arms(False)), timed(arms(True))
    return by_clock, of_cores


def row(count: float, by_clock: Times, of_cores: Times) -> str:
    """The cells of nbmod and of MXNet: rates, and their ratios."""
    (mine, peer), cores = (by_clock["nbmod"], by_clock["MXNet"]), of_cores["MXNet"].ratio
    return (f"{count / mine.seconds:,.0f} | {count / peer.seconds:,.0f} | "
            f"{1 / peer.ratio.median:.2f} | {interval(peer.ratio.inverse())} | "
            f"{1 / cores.median:.2f} |")


def case_row(worker: WorkerProcess | None, case: Case, folder: Path) -> str:
    """The cells of an iterator."""
    program, arguments = getattr(programs, case.program), case.arguments(folder)
    with decoding(case.libraries):
        count = program(mx, *arguments)()
        return row(count, *both_clocks(lambda processor: arms_of(
            worker, program, *arguments, processor=processor)))


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


def record_rows(worker: WorkerProcess | None, folder: Path, name: str) -> Iterator[str]:
    """Records of a size, read sequentially and by key: MB/s, and their ratios to the copy's."""
    path, index, length = f"{folder / name}.rec", f"{folder / name}.idx", RECORD_SIZES[name] + 8
    size = copied(path)
    for how, key in (("in turn", ""), ("by key", index)):
        def arms(processor: bool, key: str = key) -> dict[str, Any]:
            more = {"copy": lambda: copied(path), "cut": lambda: cut(path, length),
                    "cut twice": lambda: cut_twice(path, length)}
            return arms_of(worker, programs.records, path, key, processor=processor) | {
                each: arm_of(run, each, processor) for each, run in more.items()}

        seconds, cores = ({each: found.seconds for each, found in times.items()}
                          for times in both_clocks(arms))
        for times in (seconds, cores):
            times["most"] = min(times["cut"], times["cut twice"])
        shown = " | ".join(f"{size / seconds[each] / 1e6:,.0f}"
                           for each in ("nbmod", "MXNet", "most", "copy"))
        ratios = " | ".join(f"{times[other] / times[one]:.2f}" for times, one, other in (
            (seconds, "nbmod", "MXNet"), (seconds, "nbmod", "most"), (seconds, "nbmod", "copy"),
            (seconds, "most", "copy"), (cores, "nbmod", "copy"), (cores, "most", "copy")))
        yield f"| {name} {how} | {shown} | {ratios} |"


# ------------------------------------------------------------------------------------------- im2rec

def packing(command: list[str], folder: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Images of 500x375 resized to a height of 256 and packed by a program, start-up included."""
    def begin() -> None:
        for path in folder.glob("made.*"):
            path.unlink()
        (folder / "made.lst").write_text((folder / "photographs.lst").read_text())

    return begin, lambda: subprocess.run(
        [*command, str(folder / "made"), str(folder / "photographs"), "--resize", "256",
         "--num-thread", "2"], check=True, capture_output=True)


def children() -> float:
    """Processor time of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def im2rec_row(worker: WorkerProcess | None, folder: Path) -> str:
    commands = {"nbmod": [sys.executable, "-m", "nbmod", "im2rec"]}
    if worker is not None:
        script = Path(worker.call("in_mxnet.run", "throughput_programs", "place"), "tools",
                      "im2rec.py")
        commands["MXNet"] = [str(worker.python), str(script)]

    def arms(processor: bool) -> dict[str, Any]:
        found = {name: packing(command, folder) for name, command in commands.items()}
        return {name: CallableArm(name, run, InputSets(), begin, children) if processor
                else arm_of((begin, run), name) for name, (begin, run) in found.items()}

    return row(len(os.listdir(folder / "photographs")), *both_clocks(arms))


# ------------------------------------------------------------------------------------------- tables

def main(names: list[str]) -> None:
    worker = mxnet_worker()
    version = worker.call("in_mxnet.version") if worker else "absent"
    print(f"{date.today()}, nbmod {mx.__version__}, MXNet {version}, "
          f"{os.cpu_count()} threads, {platform.machine()}: `python -m bench.io`")

    def wanted(name: str) -> bool:
        return not names or name.startswith(tuple(names))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder)
        print("\n| | of | nbmod /s | MXNet /s | ratio | 99% interval | by cores |\n"
              "|---|---|--:|--:|--:|--:|--:|")
        for name in filter(wanted, CASES):
            case = CASES[name]
            print(f"| {name} | {case.unit} | {case_row(worker, case, folder)}", flush=True)
        if wanted("im2rec"):
            print(f"| im2rec, 2 threads | images | {im2rec_row(worker, folder)}", flush=True)
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
def test_iterator(beside: Any, folder: Path, name: str) -> None:
    """One row per iterator: an epoch."""
    case = CASES[name]
    with decoding(case.libraries):
        beside(getattr(programs, case.program), *case.arguments(folder))


@pytest.mark.parametrize("name", RECORD_SIZES)
def test_records(kernel_benchmark: Any, folder: Path, name: str) -> None:
    """One row per size: a file of 64 MB read sequentially, beside a copy."""
    path = f"{folder / name}.rec"
    kernel_benchmark(programs.records(mx, path, ""), baseline=lambda: copied(path),
                     seconds=SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
