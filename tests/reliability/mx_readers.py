"""MXNet's readers on files, for its own Python: `python mx_readers.py problem|memory FOLDER`.

FOLDER has a folder for each reader with one file for each trial.  Every file is read by a forked
process, because some end it; a line of JSON tells what happened to the files of a reader, or how
many bytes each took.
Imports neither nbmod nor the rest of the tests, which need a newer NumPy.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import resource
import signal
import sys
import warnings

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"    # children have no threads

import mxnet as mx

SECONDS = 10
MOST = 16 << 30
"""Bytes of memory that a child may take."""


def load_parameters(path: str) -> None:
    mx.nd.load(path)


def load_graph(path: str) -> None:
    net = mx.sym.load(path)
    if "data" in net.list_arguments():
        net.infer_shape_partial(data=(4, 5))


def load_records(path: str) -> None:
    reader = mx.recordio.MXRecordIO(path, "r")
    while reader.read() is not None:
        pass


def load_image(path: str) -> None:
    mx.image.imdecode(pathlib.Path(path).read_bytes()).wait_to_read()


def batches(iterator: mx.io.DataIter) -> None:
    for batch in itertools.islice(iterator, 100):
        batch.data[0].wait_to_read()


def load_csv(path: str) -> None:
    batches(mx.io.CSVIter(data_csv=path, data_shape=(3,), batch_size=2))


def load_libsvm(path: str) -> None:
    batches(mx.io.LibSVMIter(data_libsvm=path, data_shape=(6,), batch_size=2))


def load_image_records(path: str) -> None:
    batches(mx.io.ImageRecordIter(path_imgrec=path, batch_size=2, data_shape=(3, 4, 4), resize=4,
                                  preprocess_threads=1))


READERS = {"parameters": load_parameters, "symbol JSON": load_graph, "records": load_records,
           "images": load_image, "image records": load_image_records, "CSV": load_csv,
           "LibSVM": load_libsvm}


def taken(name: str, path: str) -> int:
    """Bytes at the peak of a process that reads a file, above those before it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is resident
        before = _status("VmRSS")
        _limit()
        _read(name, path)
        os.write(writer, str(_status("VmHWM") - before).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return int(said or 0)   # a crash tells nothing of memory


def _status(field: str) -> int:
    return int(re.search(rf"{field}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]
               ) << 10


def problem(name: str, path: str) -> str:
    """What was wrong with reading a file; empty: nothing."""
    child = os.fork()
    if not child:
        _limit()
        os._exit(_read(name, path))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return ("did not end" if number in (signal.SIGALRM, signal.SIGXCPU)
                else f"crashed ({signal.Signals(number).name})")
    return "raised another error" if os.WEXITSTATUS(status) else ""


def _limit() -> None:
    """In the child: end what takes too long or too much, in silence."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    signal.alarm(6 * SECONDS)


def _read(name: str, path: str) -> int:
    """0 if the file is read or refused by MXNetError, else 1."""
    try:
        READERS[name](path)
    except mx.base.MXNetError:
        return 0
    except BaseException:
        return 1
    return 0


def main() -> None:
    warnings.simplefilter("ignore")
    what, folder = sys.argv[1:]
    for name in READERS:
        files = sorted(pathlib.Path(folder, name).iterdir())
        if what == "memory":
            print(json.dumps({"reader": name, "taken": {path.name: taken(name, str(path))
                                                        for path in files}}), flush=True)
            continue
        failures = [f"{path.name}: {found}" for path in files
                    if (found := problem(name, str(path)))]
        print(json.dumps({"reader": name, "trials": len(files), "failures": failures}), flush=True)


if __name__ == "__main__":
    main()
