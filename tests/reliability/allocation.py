"""Memory that a file can make its reader take: at most twice the file and 64 MB.

Each reader runs in a process of its own, whose peak the kernel of Linux measures anew for each file
(`/proc/self/clear_refs`), the memory of libraries included; elsewhere `tracemalloc` measures that
of Python and NumPy.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from tests.reliability.figures import Effort, Figure, Promise
from tests.reliability.mutation import mutated

if TYPE_CHECKING:
    from tests.reliability.loaders import Loader

PUBLISHED = 2000
"""Mutated files of a reader of cost 1."""

ALLOWED = 64 << 20
FACTOR = 2
FACTOR_OF = {"symbol JSON": 16}
"""Nodes are Python objects: a graph takes more than its text."""

CLEAR, STATUS = "/proc/self/clear_refs", "/proc/self/status"


def taken_by(action: Callable[[], None]) -> int:
    """Bytes at the peak of an action, above those before it."""
    gc.collect()
    if not os.access(CLEAR, os.W_OK):
        tracemalloc.start()
        action()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak
    with open(CLEAR, "w") as file:
        file.write("5")  # the peak becomes what is resident now
    before = _status("VmRSS")
    action()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", pathlib.Path(STATUS).read_text())
    assert found
    return int(found[1]) << 10


def large_files() -> dict[str, list[bytes]]:
    """Sound files of many megabytes, by reader."""
    import numpy as np

    import nbmod as mx
    from nbmod.core.serialization import write_arrays
    from nbmod.optimizer.states import dump_states
    from nbmod.recordio.frames import frames

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        write_arrays(path, [np.zeros((4 << 20,), np.float32)] * 3, ["a", "b", "c"])
        parameters = pathlib.Path(path).read_bytes()
    net = mx.sym.Variable("x")
    for _ in range(20_000):
        net = net + 1
    records = b"".join(piece for _ in range(30) for piece in frames(bytes(1 << 20)))
    rows = b"1,2,3\n" * (4 << 20)
    return {"parameters": [parameters], "symbol JSON": [net.tojson().encode()],
            "optimizer states": [dump_states({0: mx.nd.ones((1 << 23, 4))})], "records": [records],
            "CSV": [rows], "LibSVM": [b"1 0:2 3:1\n" * (1 << 20)], "word vectors": [
                b"".join(b"w%d 1 2 3 4 5 6 7 8\n" % i for i in range(200_000))]}


def forged_files(name: str) -> list[bytes]:
    """Small files that declare much, of a reader."""
    from tests.io.test_image_headers import FORGED
    from tests.symbol.test_symbol_json import HOSTILE, MANY_OUTPUTS, X, graph

    if name == "images":
        return list(FORGED.values())
    if name == "symbol JSON":
        return [*(text.encode("utf-8", "surrogatepass") for text, _ in HOSTILE.values()),
                *(graph(X, *nodes).encode() for nodes in MANY_OUTPUTS.values())]
    return {"archive of kernels": forged_archives, "NumPy files (.npz)": forged_npz}.get(
        name, list)()


def forged_archives() -> list[bytes]:
    """Archives of a few kilobytes that unpack to many megabytes."""
    from nbmod.ops.build.archive import CONTENTS
    from nbmod.ops.build.store import SUFFIX

    kernel, much = "fill-" + "0" * 40 + SUFFIX, 1 << 25
    members: list[tuple[list[tuple[str, int]], dict[str, str]]] = [
        ([(kernel, much)] * 3, {}), ([(kernel, 0)] * 30_000, {}), ([(CONTENTS, much)], {}),
        ([("x" * much, 0)], {}), ([("x", 0)], {"comment": "x" * much})]
    found = []
    for compress in (partial(gzip.compress, compresslevel=1), partial(lzma.compress, preset=0)):
        for sizes, headers in members:
            with io.BytesIO() as file:
                with tarfile.open(fileobj=file, mode="w", pax_headers=headers,
                                  format=tarfile.PAX_FORMAT) as made:
                    for name, size in sizes:
                        member = tarfile.TarInfo(name)
                        member.size = size
                        made.addfile(member, io.BytesIO(bytes(size)))
                found.append(compress(file.getvalue()))
    return found


def forged_npz() -> list[bytes]:
    """Arrays whose headers declare more than there is."""
    found = []
    for count in (1 << 31, 1 << 44, 1 << 62):
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % count
        with io.BytesIO() as file:
            with zipfile.ZipFile(file, "w") as made:
                made.writestr("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
            found.append(file.getvalue())
    return found


def files_of(loader: Loader, effort: Effort, large: bool) -> Iterator[tuple[str, bytes]]:
    """What a reader has to read, and what it is; with large files or without."""
    samples = loader.samples()
    for index, content in enumerate(forged_files(loader.name)):
        yield f"forged file {index}", content
    if large:
        for content in large_files().get(loader.name, []):
            yield "a large file", content
    for trial in range(effort.trials(PUBLISHED // loader.cost, at_least=4)):
        rng = random.Random(f"{loader.name} {effort.seed} {trial}")
        yield f"trial {trial}, seed {effort.seed}", mutated(rng.choice(samples), samples, rng)


def work(effort: Effort, name: str) -> None:
    """Print a line of JSON of one reader."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = pathlib.Path(folder_name)
        os.environ["NBMOD_CACHE_DIR"] = str(folder / "cache")  # for archives that are installed
        from nbmod.base import MXNetError
        from tests.reliability import loaders

        loader, = loaders.chosen([name])

        def read(content: bytes) -> None:
            try:
                loader.load(content, folder)
            except MXNetError:
                pass

        failures, trials, most = [], 0, 0
        for content in loader.samples()[:3]:
            read(content)  # imports, and compiles what the reader needs
        for what, content in files_of(loader, effort, effort.share >= 0.1):
            trials += 1
            taken = taken_by(partial(read, content))
            most = max(most, taken - FACTOR * len(content))
            if _is_much(name, len(content), taken):
                failures.append(f"{what}: {len(content):,} bytes took {taken:,}")
        print(json.dumps({"trials": trials, "failures": failures, "most": most}))


def measure_mxnet(effort: Effort) -> list[Figure]:
    """A tenth of the same files in MXNet's readers, each in a process of its own."""
    from tests.reliability import loaders, real_mxnet

    few, sizes, figures = Effort(effort.share / 10, effort.seed), {}, []
    with tempfile.TemporaryDirectory() as folder:
        for loader in loaders.LOADERS:
            part = pathlib.Path(folder, loader.name)
            part.mkdir()
            for index, (_, content) in enumerate(files_of(loader, few, effort.share >= 0.1)):
                (part / f"{index:05d}").write_bytes(content)
                sizes[loader.name, f"{index:05d}"] = len(content)
        found = real_mxnet.lines("mx_readers.py", "memory", folder)
    for line in found:
        name = line["reader"]
        more = {file: taken - FACTOR * sizes[name, file] for file, taken in line["taken"].items()}
        failures = [f"{file}: {taken:,} bytes for {sizes[name, file]:,}"
                    for file, taken in line["taken"].items() if _is_much(name, sizes[name, file],
                                                                         taken)]
        figures.append(_figure(name, len(more), failures, max(more.values())))
    return figures


def _is_much(name: str, size: int, taken: int) -> bool:
    return taken > FACTOR_OF.get(name, FACTOR) * size + ALLOWED


def _figure(name: str, trials: int, failures: list[str], most: int) -> Figure:
    return Figure(f"Memory: {name}", trials, tuple(failures),
                  f"at most {max(most, 0) / 1e6:.0f} MB above twice the file")


def measure(effort: Effort) -> list[Figure]:
    """All readers, each in a process."""
    from tests.reliability import loaders

    return [_measured(loader.name, effort) for loader in loaders.LOADERS]


def _measured(name: str, effort: Effort) -> Figure:
    done = subprocess.run([sys.executable, "-m", "tests.reliability.allocation", name,
                           str(effort.share), str(effort.seed)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return Figure(f"Memory: {name}", 1, (f"the process ended: {done.stderr[-300:]}",))
    found = json.loads(done.stdout.splitlines()[-1])
    return _figure(name, found["trials"], found["failures"], found["most"])


def measure_short(effort: Effort) -> list[Figure]:
    """Readers whose formats declare sizes."""
    return [_measured(name, effort) for name in ("parameters", "symbol JSON", "images")]


PROMISE = Promise(3, "Memory that a file can take",
                  "At most twice the file and 64 MB; graphs at most 16 times the file and 64 MB",
                  measure, measure_mxnet, measure_short)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    work(Effort(float(sys.argv[2]), int(sys.argv[3])), sys.argv[1])
