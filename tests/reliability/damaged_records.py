"""Damaged record files: records that the damage has not touched are read (`strict=False`)."""

from __future__ import annotations

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from tests.reliability.figures import Effort, Figure, Promise

PUBLISHED = 20_000
"""Damaged files."""

MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = 50


def contents(rng: random.Random) -> list[bytes]:
    """Records of all sizes, some with the magic word within; each says which it is."""
    made = []
    for index in range(RECORDS):
        size = rng.choice((0, 3, 40, 700, 5000, 70_000 if rng.random() < 0.1 else 9))
        inner = MAGIC * (rng.random() < 0.1)
        made.append(b"%04d" % index + rng.randbytes(size) + inner + rng.randbytes(size % 7))
    return made


def written(records: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """A file, and where its records start."""
    from nbmod.recordio.frames import frames

    content, starts = bytearray(), []
    for record in records:
        starts.append(len(content))
        content += b"".join(frames(record))
    return bytes(content), starts


def damaged(content: bytes, starts: list[int], rng: random.Random) -> tuple[bytes, range]:
    """The file after one kind of damage, and the bytes of it that were touched."""
    kind = rng.choice(("bit", "bytes", "zeros", "noise", "remove", "insert", "cut", "length"))
    at, size = rng.randrange(len(content)), rng.choice((1, 4, 64, 512, 4096))
    if kind == "length":  # a head whose length is any other, such as one that ends on a later head
        at, end = rng.choice(starts) + 4, rng.choice([*starts, len(content)])
        length = (end - at - 4) % (1 << 29) if rng.random() < 0.5 else rng.randrange(1 << 29)
        return content[:at] + struct.pack("<I", length) + content[at + 4:], range(at, at + 4)
    if kind == "cut":
        return content[:at], range(at, len(content))
    if kind == "insert":
        return content[:at] + rng.randbytes(size) + content[at:], range(at, at + 1)
    if kind == "remove":
        return content[:at] + content[at + size:], range(at, at + size)
    size = 1 if kind in ("bit", "bytes") else size
    new = {"bit": bytes([content[at] ^ 1 << rng.randrange(8)]), "bytes": rng.randbytes(1),
           "zeros": bytes(size), "noise": rng.randbytes(size)}[kind]
    new = new[:len(content) - at]
    return content[:at] + new + content[at + len(new):], range(at, at + len(new))


def untouched(starts: list[int], end: int, touched: range) -> list[int]:
    """Numbers of the records none of whose bytes were touched."""
    ends = [*starts[1:], end]
    return [number for number, (start, stop) in enumerate(zip(starts, ends, strict=True))
            if stop <= touched.start or start >= touched.stop]


def work(effort: Effort, package: str) -> None:
    """Print, as JSON, how many untouched records there were, and those that were not read."""
    if package == "mxnet":
        import mxnet as mx
    else:
        import nbmod as mx
    options = {} if package == "mxnet" else {"strict": False}
    intact, failures = 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.rec")
        for trial in range(effort.trials(PUBLISHED, at_least=40)):
            rng = random.Random(f"{effort.seed} {trial}")
            records = contents(rng)
            content, starts = written(records)
            broken, touched = damaged(content, starts, rng)
            path.write_bytes(broken)
            found = set(_read(mx.recordio.MXRecordIO(str(path), "r", **options)))
            numbers = untouched(starts, len(content), touched)
            intact += len(numbers)
            failures += [f"trial {trial}, seed {effort.seed}: record {number} was not read"
                         for number in numbers if records[number] not in found]
    print(json.dumps({"trials": intact, "failures": failures}))


def _read(reader: object) -> Iterable[bytes]:
    """The records, up to the first error."""
    while True:
        try:
            record = reader.read()  # type: ignore[attr-defined]  # of either package
        except Exception:  # of MXNet, which goes no further
            return
        if record is None:
            return
        yield record


def measure_by(python: str, effort: Effort, package: str) -> list[Figure]:
    """Run `work` in another interpreter."""
    done = subprocess.run(
        [python, "-m", "tests.reliability.damaged_records", str(effort.share), str(effort.seed),
         package], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    lost = len(found["failures"]) / found["trials"]
    # The goal allows one record in 10,000.
    failures = tuple(found["failures"]) if lost > 1e-4 or package == "mxnet" else ()
    return [Figure("Records that the damage has not touched", found["trials"], failures,
                   f"{100 * (1 - lost):.4g} % read")]


def measure(effort: Effort) -> list[Figure]:
    """Damage files in every way."""
    return measure_by(sys.executable, effort, "nbmod")


def measure_mxnet(effort: Effort) -> list[Figure]:
    """The same files in MXNet, which has no reader that goes on."""
    from tests.reliability import real_mxnet

    return measure_by(real_mxnet.python(), Effort(effort.share / 10, effort.seed), "mxnet")


PROMISE = Promise(9, "Recovery of damaged record files",
                  "Of the records that the damage has not touched, 99.99 % are read", measure,
                  measure_mxnet)

if __name__ == "__main__":
    work(Effort(float(sys.argv[1]), int(sys.argv[2])), sys.argv[3])
