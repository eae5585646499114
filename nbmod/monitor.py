"""`Monitor` prints a statistic of every output and parameter each `interval` batches.

`tic` before a forward pass opens the queue if this batch's turn has come; the executor then reports
its outputs to `stat_helper`; `toc` adds the arguments and auxiliary states and empties the queue.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

__all__ = ["Monitor"]


def _norm_over_root_size(array: Any) -> Any:
    return array.norm() / math.sqrt(array.size)


class Monitor:
    """Collects `stat_func(array)` (default |x| / sqrt(size)) of arrays whose name fits `pattern`.

    `sort`: results in order of names.  `monitor_all`: the executor reports inputs of ops too.
    """

    def __init__(self, interval: int, stat_func: Callable[[Any], Any] | None = None,
                 pattern: str = ".*", sort: bool = False, monitor_all: bool = False):
        self.interval = interval
        self.stat_func = stat_func or _norm_over_root_size
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []
        self.re_prog = re.compile(pattern)

    def stat_helper(self, name: str, array: Any) -> None:
        """What executors call with each array: note its statistic, if this batch is observed."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Observe an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def follow(self, old: Any, new: Any) -> None:
        """Observe executor `new` from now on instead of `old`: the same network, reshaped."""
        if old is not new:
            old.set_monitor_callback(None)
            self.exes = [exe for exe in self.exes if exe is not old]
            self.install(new)

    def tic(self) -> None:
        """A batch begins."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """A batch ended: [(step, name, statistic as text), ...], empty if it was not observed."""
        if not self.activated:
            return []
        for exe in self.exes:
            for arrays in (exe.arg_dict, exe.aux_dict):
                for name, array in arrays.items():
                    self.stat_helper(name, array)
        self.activated = False
        found, self.queue = self.queue, []
        if self.sort:
            found.sort(key=lambda item: item[1])
        return [(step, name, _text(value)) for step, name, value in found]

    def toc_print(self) -> None:
        """`toc`, logged."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _text(value: Any) -> str:
    """A statistic, or several, each followed by a tab; arrays of one element as their number."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return "".join(f"{_plain(one)}\t" for one in values)


def _plain(value: Any) -> str:
    if not hasattr(value, "asnumpy"):
        return str(value)
    return str(value.asscalar() if value.shape == (1,) else value.asnumpy())
