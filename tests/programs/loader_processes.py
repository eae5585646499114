"""Data sets of loaders with worker processes, which import this module where they are not forked.

Run as a program, it loads from processes until it is interrupted or killed, and prints their ids.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np

import nbmod as mx

DataLoader, Dataset = mx.gluon.data.DataLoader, mx.gluon.data.Dataset


class Numbers(Dataset):
    """The numbers from 0 to 11."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, idx: int) -> Any:
        return idx


class Random(Numbers):
    """Numbers with draws of all generators."""

    def __getitem__(self, idx: int) -> Any:
        return int(idx), random.random(), np.random.rand(), mx.nd.random.uniform(shape=1)


class Killed(Numbers):
    """Number 5 kills its process."""

    def __getitem__(self, idx: int) -> Any:
        if idx == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return idx


class Exits(Numbers):
    """Number 5 ends its process."""

    def __getitem__(self, idx: int) -> Any:
        if idx == 5:
            os._exit(7)
        return idx


class Raises(Numbers):
    """Number 5 is an error."""

    def __getitem__(self, idx: int) -> Any:
        if idx == 5:
            raise KeyError("number 5")
        return idx


class Unpicklable(Numbers):
    """Number 5 is an error that cannot be pickled."""

    def __getitem__(self, idx: int) -> Any:
        if idx == 5:
            raise type("Local", (Exception,), {})("number 5")
        return idx


class Slow(Numbers):
    """Numbers of which those from 4 on never come."""

    def __getitem__(self, idx: int) -> Any:
        if idx >= 4:
            time.sleep(1000)
        return idx


def epochs(workers: int) -> list[Any]:
    """All batches of two epochs with draws."""
    random.seed(1)
    np.random.seed(2)
    mx.random.seed(3)
    loader = DataLoader(Random(), 4, shuffle=True, num_workers=workers)
    return [[array.asnumpy().tolist() for array in batch] for _ in range(2) for batch in loader]


def main(what: str) -> None:
    """Load; what: the start method, 'interrupt' or 'kill'."""
    if what in ("spawn", "forkserver"):
        multiprocessing.set_start_method(what)
        print(epochs(2) == epochs(1))
        loader = DataLoader(Numbers().transform(lambda x: x), 4, num_workers=1)
        try:
            list(loader)
        except mx.MXNetError as error:
            print("thread_pool=True" in str(error))
        return
    # What runs in the background of a shell without job control starts with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loader = DataLoader(Slow(), 4, num_workers=2)
    epoch = iter(loader)
    try:
        loader.refresh()
        first = next(epoch)    # its memory is shared with a worker
        print(*(each.pid for each in multiprocessing.active_children()), flush=True)
        next(epoch)
        del first
    except KeyboardInterrupt:
        print(len(multiprocessing.active_children()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
