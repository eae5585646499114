"""Distributed key-value stores: several processes, on one host or many, that exchange by MPI.

Each row of a key has one owner, the rank that updates it.  Only buffers travel between
ranks, of numbers and JSON: nothing is pickled.

    row_ranges.py         which rank owns which rows of a key
    communicator.py       `Communicator`: the collective operations, by MPI or of a single rank
    bucket.py             dense keys that are exchanged together: reduce-scatter and all-gather
    sparse_rows.py        the exchange of rows, by their indices
    gathered_states.py    optimizer states of all ranks as one, for files
    distributed_store.py  `DistributedStore`: the synchronous store
    overlap.py            its exchange during the backward and the next forward pass
    wire.py               messages of plain data and arrays as bytes
    async_store.py        `AsynchronousStore`: each rank applies gradients as they arrive
    watchdog.py           a thread that names the rank which all others wait for
    watched.py            a communicator whose operations a watchdog sees
    script_end.py         ends all ranks when an exception ends the script of one

Begin with `row_ranges.py`.  Imports `base`, `context`, `core.config`, `execution.pipeline`,
`execution.steps`, `executor`, `kvstore`, `launcher.placement`, `launcher.position`, `ndarray`,
`ops` and `optimizer`.
"""

from __future__ import annotations

from functools import cache

from ...base import MXNetError, warn_user
from ...launcher.placement import Placement, launch_command, launcher_of, refuse_roles, require_size
from ..base import KVStoreBase
from . import script_end
from .communicator import Communicator, MPICommunicator, SingleRank
from .watchdog import MPIMessages, Watchdog
from .watched import WatchedCommunicator

__all__ = ["create_store", "world"]


def create_store(kind: str) -> KVStoreBase:
    """Create the distributed store of a kind, for the processes that were launched together.

    MXNetError if the process was started by MPI and mpi4py is not installed.
    """
    communicator = world(kind)
    if "_async" in kind and communicator.size > 1:
        from mpi4py import MPI

        from .async_store import AsynchronousStore

        return AsynchronousStore(kind, communicator, MPIMessages(MPI.COMM_WORLD.Dup()),
                                 MPIMessages(MPI.COMM_WORLD.Dup()))
    from .distributed_store import DistributedStore

    return DistributedStore(kind, communicator)


def world(kind: str) -> Communicator:
    """Return a communicator of all processes that were launched together, for a kind of store.

    From the first one on, a watchdog ends all processes when one of them hangs, and so does an
    error that ends the script of one.  A process that MPI did not start gets a single rank, with a
    warning.  MXNetError if MPI started it and mpi4py is not installed, or is of another MPI, or if
    MXNet's launcher started it as a worker; SystemExit if as a server or scheduler.
    """
    refuse_roles()
    if launcher_of() is None:
        warn_user(f"kvstore {kind!r}: this process was started alone, so it is the only worker; "
                  f"{launch_command()} starts several")
        return SingleRank()
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MXNetError(f"kvstore {kind!r} needs mpi4py ({error}): pip install 'nbmod[mpi]'"
                         ) from None
    require_size(MPI.COMM_WORLD.Get_size())
    communicator = MPICommunicator(MPI.COMM_WORLD.Dup())
    if communicator.size == 1:
        return communicator
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        warn_user(f"kvstore {kind!r}: this MPI does not let several threads call it, so that a "
                  "rank that hangs will not be named")
        return communicator
    return WatchedCommunicator(communicator, _watchdog())


@cache
def _watchdog() -> Watchdog:
    """The watchdog of this process."""
    from mpi4py import MPI

    hosts = MPICommunicator(MPI.COMM_WORLD).hosts
    watchdog = Watchdog(MPIMessages(MPI.COMM_WORLD.Dup()), hosts)
    rank = MPI.COMM_WORLD.Get_rank()
    script_end.install(watchdog, str(Placement(rank, len(hosts), host=hosts[rank])))
    return watchdog
