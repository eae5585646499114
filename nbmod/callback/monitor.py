"""`Monitor` prints a statistic of every output and parameter each `interval` batches.

`tic` before a forward pass starts recording if this batch is to be observed; the executor then
calls `stat_helper` with the outputs of its ops; `toc` adds the arguments and auxiliary states,
stops recording and returns what was recorded.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..base import ArgumentError, checks_numbers

if TYPE_CHECKING:
    from ..executor import Executor
    from ..ndarray import NDArray

__all__ = ["Monitor"]
__dir__ = __all__.copy


def _norm_over_root_size(array: NDArray) -> NDArray:
    return array.norm() / math.sqrt(array.size)


class Monitor:
    """Records a statistic of outputs, parameters and auxiliary states during training.

    Pass it as `monitor` of `fit`, or call `install`, `tic` and `toc`. An observed
    network runs op by op, without fusion, and is slower.

    Parameters
    ----------
    interval : int
        Observe every `interval`-th batch, beginning with the first.
    stat_func : callable, optional
        Statistic of an NDArray: an NDArray, a number, or a list of them. The default is the root
        mean square, ``norm(x) / sqrt(x.size)``.
    pattern : str, default '.*'
        Regular expression; arrays are observed if their name matches it from the beginning.
        Outputs are named ``<op's name>_output``.
    sort : bool, default False
        Sort the results of a batch by name instead of by time.
    monitor_all : bool, default False
        Observe inputs of ops, too, not only their outputs.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")
    >>> exe = net.bind(mx.cpu(), {"data": mx.nd.ones((1, 2)), "fc_weight": mx.nd.ones((1, 2))})
    >>> monitor = mx.mon.Monitor(interval=1, pattern="fc.*")
    >>> monitor.install(exe)
    >>> monitor.tic()
    >>> out = exe.forward()
    >>> for step, name, text in monitor.toc():
    ...     print(step, name, text.strip())
    1 fc_output 2.0
    1 fc_weight 1.0
    """

    @checks_numbers
    def __init__(self, interval: int, stat_func: Callable[[NDArray], object] | None = None,
                 pattern: str = ".*", sort: bool = False, monitor_all: bool = False):
        if not interval > 0:
            raise ArgumentError(f"Monitor: interval is {interval}, expected more than 0 batches")
        self.interval = interval
        self.stat_func = stat_func or _norm_over_root_size
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue: list[tuple[int, str, object]] = []
        self.step = 0
        self.exes: list[Executor] = []
        self.re_prog = re.compile(pattern)

    def stat_helper(self, name: str, array: NDArray) -> None:
        """Record the statistic of an array if this batch is observed; called by executors.

        Parameters
        ----------
        name : str
            Name of the array.
        array : NDArray
            The array.
        """
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Executor) -> None:
        """Observe an executor.

        Parameters
        ----------
        exe : Executor
            The executor; several may be observed.
        """
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def follow(self, old: Executor, new: Executor) -> None:
        """Replace an observed executor by a reshaped one of the same network.

        Parameters
        ----------
        old : Executor
            Not observed any more.
        new : Executor
            Observed from now on.
        """
        if old is not new:
            old.set_monitor_callback(None)
            self.exes = [exe for exe in self.exes if exe is not old]
            self.install(new)

    def tic(self) -> None:
        """Begin a batch: start recording if it is to be observed."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch: stop recording.

        Returns
        -------
        list of (int, str, str)
            Step, name of the array and its statistic as text; empty if the batch was not
            observed. Steps are counted by `tic` and are 1 for the first batch.
        """
        if not self.activated:
            return []
        for exe in self.exes:
            for arrays in (exe.arg_dict, exe.aux_dict):
                for name, array in arrays.items():
                    self.stat_helper(name, array)
        self.activated = False
        entries, self.queue = self.queue, []
        if self.sort:
            entries.sort(key=lambda item: item[1])
        return [(step, name, _text(value)) for step, name, value in entries]

    def toc_print(self) -> None:
        """End a batch and log what was recorded by ``logging.info``."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _text(value: object) -> str:
    """A statistic, or several, each followed by a tab; arrays of one element as a scalar."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return "".join(f"{_plain(one)}\t" for one in values)


def _plain(value: object) -> str:
    asnumpy = getattr(value, "asnumpy", None)
    if asnumpy is None:
        return str(value)
    array = asnumpy()
    return str(array[0] if array.shape == (1,) else array)
