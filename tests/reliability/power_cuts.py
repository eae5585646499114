"""The order in which a save reaches the disk, of which a power cut may leave any beginning.

A disk keeps what was synced (`fsync`), and may keep renames before the data that were written
earlier.  So a file must be synced after its last write and before it gets its name, and the folder
after the last rename: then a cut at any system call leaves the old content or the new one.
`strace` tells the system calls.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests.reliability.figures import Effort, Figure

WHAT = "Renames of synced files, for power cuts"
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAVES = """
import pathlib, sys
from tests.reliability.killed_saves import Saver
saver = Saver(pathlib.Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    saver.save(number, 1 + number % 3)
"""
"""New epochs and, from the fourth save on, old ones again."""
TRACE = ["strace", "-f", "-y", "-s", "0", "-e",
         "trace=write,pwrite64,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2"]
CALL = re.compile(r"^\d+ +(\w+)\((?:\d+<(.*?)>)?")
QUOTED = re.compile(r'"(.*?)"')


def order(effort: Effort) -> Figure:
    """Renames of saves of which a power cut could leave neither the old content nor the new one."""
    if shutil.which("strace") is None:
        return Figure(WHAT, 0, detail="not measured: strace is not installed")
    saves = effort.trials(100, at_least=4)
    with tempfile.TemporaryDirectory() as name:
        folder = os.path.realpath(name)
        log = pathlib.Path(folder, "strace.log")
        subprocess.run([*TRACE, "-o", str(log), sys.executable, "-c", SAVES, folder, str(saves)],
                       cwd=ROOT, check=True, capture_output=True, timeout=60 + 10 * saves)
        return judged(calls(log.read_text().splitlines(), folder))


def calls(lines: list[str], folder: str) -> Iterator[tuple[str, list[str]]]:
    """Name and paths of each system call that concerns the folder."""
    for line in lines:
        if match := CALL.match(line):
            name, opened = match.groups()
            paths = QUOTED.findall(line) if name.startswith("rename") else [opened or ""]
            if any(path.startswith(folder) for path in paths):
                yield name, paths


def judged(found: Iterator[tuple[str, list[str]]]) -> Figure:
    """The figure of a sequence of system calls."""
    unsynced: set[str] = set()
    folders: set[str] = set()
    renames, failures = 0, []
    for name, paths in found:
        if name.startswith("rename"):
            renames += 1
            folders.add(os.path.dirname(paths[-1]))
            if paths[0] in unsynced:
                failures.append(f"{os.path.basename(paths[-1])} got its name before its content")
        elif "sync" in name:
            unsynced.discard(paths[0])
            folders.discard(paths[0])
        else:
            unsynced.add(paths[0])
    failures += [f"renames in {folder} are not synced" for folder in sorted(folders)]
    return Figure(WHAT, renames, tuple(failures))
