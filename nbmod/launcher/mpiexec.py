"""MPI's program that starts ranks: where it is, which one it is, and its command line."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..base import MXNetError

__all__ = ["Ranks", "command", "environment", "find", "kind_of", "memory_folder",
           "session_folder", "shared_memory"]

FOLDERS = ("bin", "Scripts", "Library/bin")
"""Where wheels put programs, below the folder of an environment."""
MEMORY_FOLDER = "OMPI_MCA_btl_sm_backing_directory"
"""Open MPI's variable for it."""
FORWARDED = ("NBMOD_", "MXNET_", "DMLC_", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON", "PATH",
             "LD_LIBRARY_PATH", "CUDA_")
"""Beginnings of the names of variables that ranks on other hosts get, too."""


@dataclass(frozen=True)
class Ranks:
    """Processes to start: how many ranks, on the hosts in a file or on this one, with variables."""

    count: int
    hostfile: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


def find() -> str:
    """The path of `mpiexec`: of this Python's environment if it has one, else on the PATH.

    Raises MXNetError, which names the extra, if there is none.
    """
    prefix = Path(sys.prefix)
    places = [Path(sys.executable).parent, *(prefix / folder for folder in FOLDERS)]
    for place in [*map(str, places), None]:
        program = shutil.which("mpiexec", path=place) or shutil.which("mpirun", path=place)
        if program:
            return program
    raise MXNetError("launch: there is no mpiexec, the program that starts the ranks, beside "
                     f"{sys.executable} nor on the PATH; pip install 'nbmod[mpi]' installs one, or "
                     "load the MPI of your cluster")


def kind_of(program: str) -> str:
    """Tell the MPI of an `mpiexec`: 'openmpi4' (up to version 4), 'openmpi', or 'other'.

    Others are MPICH, Intel MPI and Microsoft MPI.
    """
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60,
                          env=environment(), stdin=subprocess.DEVNULL)
    first = (told.stdout + told.stderr).partition("\n")[0]
    if "Open MPI" not in first and "OpenRTE" not in first and "PRRTE" not in first:
        return "other"
    number = first.split()[-1].partition(".")[0]
    return "openmpi4" if number.isdigit() and int(number) < 5 else "openmpi"


def environment() -> dict[str, str]:
    """The variables of this process, and those without which Open MPI does not run for root."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return {**os.environ, **(allowed if is_root else {})}


def command(program: str, kind: str, ranks: Ranks, arguments: Sequence[str]) -> list[str]:
    """The command line that starts ranks, by an `mpiexec` of a kind (see `kind_of`).

    Examples
    --------
    >>> command("mpiexec", "other", Ranks(2, "hosts"), ["python", "train.py"])
    ['mpiexec', '-n', '2', '-hostfile', 'hosts', 'python', 'train.py']
    """
    line = [program, "-n", str(ranks.count)]
    if kind == "other":
        hosts = ["-hostfile", ranks.hostfile] if ranks.hostfile else []
        flags = [part for name, value in ranks.variables.items() for part in ("-env", name, value)]
        return [*line, *hosts, *flags, *arguments]
    # Threads of a rank may use all cores of its share: nothing is bound to one core.
    line += ["--bind-to", "none"]
    by_host = "node" if ranks.hostfile else ""
    if kind == "openmpi4":
        line += ["--oversubscribe", *(["--map-by", by_host] if by_host else [])]
    else:
        line += ["--map-by", f"{by_host}:OVERSUBSCRIBE"]
    if ranks.hostfile:
        line += ["--hostfile", ranks.hostfile]
        names = {name for name in os.environ if name.startswith(FORWARDED)}
        line += [part for name in sorted(names - ranks.variables.keys()) for part in ("-x", name)]
    line += [part for name, value in ranks.variables.items() for part in ("-x", f"{name}={value}")]
    return [*line, *arguments]


@contextmanager
def shared_memory(kind: str) -> Iterator[dict[str, str]]:
    """A block in which ranks run, with a folder for the files by which they share memory.

    It yields the variable that tells the ranks.  Some files of Open MPI's stay when ranks are
    killed.
    """
    if kind == "other" or MEMORY_FOLDER in os.environ or not os.path.isdir("/dev/shm"):
        yield {}
        return
    folder = f"/dev/shm/nbmod-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        yield {MEMORY_FOLDER: folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def memory_folder(environ: Mapping[str, str]) -> str:
    """The folder of `shared_memory`; empty for other MPIs, and where users chose their own."""
    folder = environ.get(MEMORY_FOLDER, "")
    return folder if re.fullmatch(r"/dev/shm/nbmod-\d+-[0-9a-f]{12}", folder) else ""


def session_folder(environ: Mapping[str, str]) -> str:
    """The folder in which `mpiexec` of Open MPI has temporary files; empty for other MPIs."""
    folder = environ.get("PMIX_SERVER_TMPDIR", "")
    return folder if re.match(r"(ompi|prte)\.", os.path.basename(folder)) else ""
