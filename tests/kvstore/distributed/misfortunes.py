"""A script whose ranks push and pull, until something happens to one of them.

    nbmod launch -n 3 misfortunes.py WHAT RANK [BATCH]
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NoReturn

import mxnet as mx

BATCHES = 8


def raise_an_error() -> NoReturn:
    raise ValueError("a label of 11\nis no class")


def exit_with_a_status() -> NoReturn:
    sys.exit(7)


def exit_with_words() -> NoReturn:
    sys.exit("no data here")


def end_early() -> NoReturn:
    sys.exit(0)


def vanish() -> NoReturn:
    """As C's `exit` in a library does."""
    os._exit(0)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def never_return() -> NoReturn:
    while True:
        pass


def sleep_long() -> None:
    time.sleep(1000)


def nothing() -> None:
    pass


def main(what: str, rank: str, batch: str = "3") -> None:
    from nbmod.launcher import position

    store = mx.kv.create("dist_sync")
    store.init("w", mx.nd.zeros((4,)))
    value = mx.nd.zeros((4,))
    for number in range(BATCHES):
        position.tell(0, number)
        if (store.rank, number) == (int(rank), int(batch)):
            print("now", flush=True)
            globals()[what]()
        store.push("w", mx.nd.ones((4,)) * (store.rank + 1))
        store.pull("w", out=value)
    print(f"rank {store.rank} of {store.num_workers} has {value.asnumpy()[0]:g}, "
          f"{os.environ['NUMBA_NUM_THREADS']} threads, {os.environ.get('COLOR')}")
    sys.stderr.write("a line without an end")


if __name__ == "__main__":
    main(*sys.argv[1:])
