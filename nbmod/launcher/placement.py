"""The rank of a process, as the environment says that `mpiexec` and its like leave.

Also the environment of MXNet's launcher (`DMLC_ROLE`), under which processes of other roles end.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from typing import NamedTuple

from ..base import MXNetError

__all__ = ["Placement", "cores", "launcher_of", "placement_of", "refuse_roles", "require_size"]

LAUNCHERS = {"OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec", "SLURM_STEP_NUM_TASKS": "Slurm's srun",
             "PMI_SIZE": "mpiexec of MPICH, Intel MPI or Microsoft MPI",
             "PMIX_RANK": "a launcher that speaks PMIx"}
"""Variables that only ranks have, and who sets them; the first that is found counts."""
RANKS = "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"
SIZES = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"
LOCAL_SIZES = "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"


class Placement(NamedTuple):
    """A rank among all.

    `size` and `local_size` (ranks on this host) are None where the environment does not tell.
    """

    rank: int = 0
    size: int | None = None
    local_size: int | None = None
    host: str = platform.node()

    def __str__(self) -> str:
        of_all = "" if self.size is None else f" of {self.size}"
        return f"rank {self.rank}{of_all} (host {self.host})"


def launcher_of(environ: Mapping[str, str] = os.environ) -> str | None:
    """The program that started this process as one of several ranks, in words, or None.

    Examples
    --------
    >>> launcher_of({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"})
    "Slurm's srun"
    """
    return next((name for variable, name in LAUNCHERS.items() if variable in environ), None)


def placement_of(environ: Mapping[str, str] = os.environ) -> Placement:
    """The rank of this process as its environment tells: rank 0 where it tells nothing."""
    return Placement(_number(environ, RANKS) or 0, _number(environ, SIZES),
                     _number(environ, LOCAL_SIZES))


def _number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """The first variable that begins with a number; Slurm writes `2(x3)` for three hosts."""
    for name in names:
        if digits := re.match(r"\d+", environ.get(name, "")):
            return int(digits[0])
    return None


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def refuse_roles(environ: Mapping[str, str] = os.environ) -> None:
    """End processes that MXNet's launcher started as a server or scheduler: nbmod has neither.

    These exit with status 0, after one line on stderr.  A worker that is no rank of MPI gets an
    MXNetError, which names the command that starts ranks.
    """
    role = environ.get("DMLC_ROLE", "")
    if role in ("server", "scheduler"):
        print(f"nbmod: this process is a {role} (DMLC_ROLE), of which distributed stores need "
              "none, as every worker keeps its share of the parameters: it ends here",
              file=sys.stderr, flush=True)
        raise SystemExit(0)
    if role == "worker" and launcher_of(environ) is None:
        raise MXNetError(
            "kvstore: this process is a worker of MXNet's launcher (DMLC_ROLE), which does not "
            "start ranks of MPI; start all workers by\n    "
            f"{launch_command(environ.get('DMLC_NUM_WORKER', 'N'))}\n"
            "which takes the options of MXNet's tools/launch.py, too")


def launch_command(workers: str = "4") -> str:
    """The shell command that starts this program as several ranks."""
    program = shlex.join(sys.argv) if sys.argv and sys.argv[0].endswith(".py") else "train.py"
    return f"nbmod launch -n {workers} {program}"


def require_size(size: int, environ: Mapping[str, str] = os.environ) -> None:
    """MXNetError unless MPI has as many ranks as were started.

    Else mpi4py has loaded another MPI than that of `mpiexec`.
    """
    expected = placement_of(environ).size
    if expected is not None and expected != size:
        raise MXNetError(
            f"kvstore: {launcher_of(environ)} has started {expected} ranks, but mpi4py sees "
            f"{size}: it uses another MPI than this launcher's. Install one of the two in this "
            "environment (pip install 'nbmod[mpi]'), or build mpi4py with the launcher's MPI")
