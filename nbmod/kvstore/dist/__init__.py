"""Distributed key-value stores: several processes, on one host or many, that exchange by MPI.

`store` is the synchronous store, `row_ranges` which rank owns which rows, `bucket` the exchange of
dense arrays, `sparse_rows` that of rows, `gathered_states` optimizer states of all ranks, and
`communicator` what is asked of MPI.
"""

from __future__ import annotations

import os

from ...base import MXNetError, warn_user
from ..base import KVStoreBase
from .communicator import Communicator, MPICommunicator, SingleRank

__all__ = ["create_store", "world"]


def create_store(kind: str) -> KVStoreBase:
    """Create the distributed store of a kind, for the processes that were launched together.

    Parameters
    ----------
    kind : str
        As for `mx.kv.create`.

    Returns
    -------
    KVStoreBase

    Raises
    ------
    MXNetError
        If the process was started by MPI and mpi4py is not installed.
    """
    from .store import DistributedStore

    return DistributedStore(kind, world(kind))


LAUNCHERS = {"OMPI_COMM_WORLD_SIZE": "Open MPI", "PMI_SIZE": "MPICH or Slurm's PMI",
             "PMIX_RANK": "PMIx", "MPI_LOCALNRANKS": "MPI"}
"""Environment variables by which launchers of MPI tell a process that it is one of several."""


def world(kind: str) -> Communicator:
    """Return a communicator of all processes that were launched together.

    Parameters
    ----------
    kind : str
        Kind of the store, for messages.

    Returns
    -------
    Communicator
        That of a single rank, with a warning, if the process was not started by MPI.

    Raises
    ------
    MXNetError
        If the process was started by MPI and mpi4py is not installed.
    """
    if not any(name in os.environ for name in LAUNCHERS):
        warn_user(f"kvstore {kind!r}: this process was started alone, so it is the only worker; "
                  "python -m nbmod launch -n 2 SCRIPT starts several")
        return SingleRank()
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MXNetError(f"kvstore {kind!r} needs mpi4py ({error}): pip install 'nbmod[mpi]'"
                         ) from None
    return MPICommunicator(MPI.COMM_WORLD.Dup())
