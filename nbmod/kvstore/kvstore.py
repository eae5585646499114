"""The in-process key-value store: `local`, `device` and `nccl`.

The kinds differ in where sums are formed and arrays stored: on the CPU, or on the devices of the
values, each of which keeps its share of the keys (and in gradient compression, which is for the
latter).  All `cpu(i)` share one memory: values are summed in place.  A store of the kind `nccl` is
a `device` store whose GPUs exchange values by NVIDIA's library (see `kvstore.nccl`).

Invariant: keys are all integers or all strings.  A call first checks all of its arguments, every
key of a list, and changes nothing if it raises; if an updater raises, the keys before it remain
updated, as by separate calls.  Optimizers step all keys of a call together where they can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeGuard

import numpy as np

from ..base import CheckError, MXNetError, warn_user
from ..context import Context, cpu
from ..ndarray import NDArray
from ..ndarray.sparse_array import share_rows
from ..ops.device import Device, device_of
from ..optimizer import Optimizer, Updater, get_updater
from ..optimizer.state_files import load_states_file, save_states_file
from ..optimizer.updater import is_fusible
from .base import BUILT_IN, KVStoreBase, check_capability
from .compression import Key, TwoBit
from .key_values import Keys, Pairs, Values, _pairs, _row_lists, _targets
from .nccl import reduction_class
from .row_pull import Rows, require_rows, write_rows
from .sums import Job, PreparedSums, _copied, _copy, _sum, by_device

__all__ = ["KVStore", "takes_lists"]

UpdateFunction = Callable[[Key, NDArray, NDArray], None]
"""Changes a stored array: `update(key, pushed sum, stored)`."""


class KVStore(KVStoreBase):
    """A key-value store of one process, as created by `mx.kv.create`.

    It maps keys, all integers or all strings, to NDArrays. Gradients of several devices are summed
    in it, from left to right, so that results are reproducible; with `set_optimizer` it updates
    parameters, too. Methods take one key with its value (or a list of values, one per device), or
    lists of keys and values of equal length. All work is finished when a call returns.

    Parameters
    ----------
    kind : str, default 'local'
        Where values are summed and stored: 'local' on the CPU; 'device' on the devices of the
        values; 'nccl' like 'device', with NVIDIA's NCCL between GPUs. 'local_update_cpu' and
        'local_allreduce_cpu' work like 'local', 'local_allreduce_device' like 'device'.

    Examples
    --------
    >>> store = mx.kv.create("local")
    >>> store.init("w", mx.nd.zeros((2,)))
    >>> store.push("w", [mx.nd.array([1, 2]), mx.nd.array([10, 20])])
    >>> out = mx.nd.empty((2,))
    >>> store.pull("w", out=out)
    >>> out.asnumpy().tolist()
    [11.0, 22.0]
    """

    def __init__(self, kind: str = "local"):
        self._kind = kind
        self._stored: dict[Key, NDArray] = {}
        self._sums: dict[Key, NDArray] = {}
        self._load: dict[Device, int] = {}
        self._reduction: type[PreparedSums] = reduction_class(kind)
        self._prepared: dict[tuple[str, tuple[Key, ...]], PreparedSums] = {}
        self._order: dict[Key, int] = {}
        self._updater: UpdateFunction | None = None
        self._compression: TwoBit | None = None

    @property
    def type(self) -> str:
        return self._kind

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 1

    @staticmethod
    def is_capable(capability: str) -> bool:
        check_capability(capability)
        return True

    # -- values -----------------------------------------------------------------------------

    def init(self, key: Keys, value: Values) -> None:
        """Create keys, all integers or all strings, each with a copy of its value.

        Parameters
        ----------
        key : int, str or list
            New keys.
        value : NDArray or list of NDArray
            One value for each key.
        """
        pairs = _pairs(key, value, "value")
        self._check_new(pairs)
        for name, (array,) in pairs:
            self._stored[name] = _copied(array, cpu())
            self._order[name] = name if isinstance(name, int) else len(self._order)

    def _check_new(self, pairs: Pairs) -> None:
        seen: set[Key] = set()
        for name, values in pairs:
            if name in self._stored or name in seen:
                raise MXNetError(f"kvstore: key {name!r} is already initialised")
            if len(values) != 1:
                raise MXNetError(f"kvstore: {len(values)} values to initialise key {name!r} with, "
                                 "expected one")
            if self._stored:
                self._check_type(name)
            seen.add(name)

    def _check_type(self, name: Key) -> None:
        known = next(iter(self._stored))
        if type(known) is not type(name):
            raise MXNetError(f"kvstore: key {name!r} is a {type(name).__name__}, but other keys "
                             f"of this store are not, such as {known!r}; do not mix ints and "
                             "strings")

    def _check(self, pairs: Pairs) -> None:
        """MXNetError unless all keys are known and arrays have the shapes of the stored ones."""
        for name, arrays in pairs:
            if name not in self._stored:
                if self._stored:
                    self._check_type(name)
                raise MXNetError(f"kvstore: key {name!r} has not been initialised; call init "
                                 "first")
            expected = self._stored[name].shape
            for array in arrays:
                if array.shape != expected:
                    raise MXNetError(f"kvstore: an array for key {name!r} has shape {array.shape}, "
                                     f"expected {expected}")

    def push(self, key: Keys, value: Values, priority: int = 0) -> None:
        """Sum the values of each key; store the sum, or update the stored array by the optimizer.

        Keys are processed in the order in which they were created, integers in ascending order;
        all values of a key that is listed twice are summed.

        Parameters
        ----------
        key : int, str or list
            Keys.
        value : NDArray or list
            For each key a value, or a list with one for each device.
        priority : int, default 0
            Accepted for compatibility; has no effect.
        """
        pairs = _pairs(key, value, "value")
        self._check_pushed(pairs)
        self._push(pairs)

    def _check_pushed(self, pairs: Pairs) -> None:
        self._check(pairs)
        for name, values in pairs:
            if any(array.stype == "csr" for array in values):
                raise MXNetError(f"kvstore: key {name!r} is given a csr array, expected dense or "
                                 "row_sparse ones")
        for name, values in pairs if self._compression else ():
            for array in values:
                if array.dtype != np.float32 or array.is_sparse:
                    raise MXNetError("kvstore: gradient compression takes dense float32 arrays, "
                                     f"key {name!r} is given {np.dtype(array.dtype)} in storage "
                                     f"type {array.stype!r}")

    def _push(self, pairs: Pairs) -> None:
        grouped = self._in_order(pairs)
        names = list(grouped)
        if self._updater is not None and not isinstance(self._updater, Updater):
            for name in names:
                values, stored = self._prepare_values(name, grouped[name])
                self._update([name], [_sum(values, stored.context)], [stored])
            return
        jobs = [self._job(name, grouped[name]) for name in names]
        self._reduce("push", names, [job for job in jobs if job[0][0] is not job[1]])
        if self._updater is not None:
            self._update(names, [total for _, total in jobs],
                         [self._stored[name] for name in names])

    def _in_order(self, pairs: Pairs) -> dict[Key, list[NDArray]]:
        """The values of each key, in the order in which keys are processed."""
        grouped: dict[Key, list[NDArray]] = {}
        for name, values in pairs:
            grouped.setdefault(name, []).extend(values)
        return {name: grouped[name] for name in sorted(grouped, key=self._order.__getitem__)
                if grouped[name]}

    def _update(self, names: Sequence[Key], totals: Sequence[NDArray], stored: Sequence[NDArray]
                ) -> None:
        """Let the updater merge sums into stored arrays: all at once where the optimizer can."""
        updater = self._updater
        assert updater is not None
        if not isinstance(updater, Updater):
            for name, total, array in zip(names, totals, stored, strict=True):
                updater(name, total, array)
            return
        groups: Iterable[Sequence[int]] = [[i] for i in range(len(names))]
        if is_fusible(type(updater.optimizer)):
            groups = by_device(stored)
        for group in groups:
            updater([names[i] for i in group], [totals[i] for i in group],
                    [stored[i] for i in group], aggregate=False)

    def _job(self, name: Key, values: Sequence[NDArray]) -> Job:
        """The values to sum, and the target: the stored array, or with an optimizer a buffer.

        A single value on the device of the stored array is its own sum.
        """
        values, stored = self._prepare_values(name, values)
        if any(array.is_sparse for array in (stored, *values)):
            total = _sum(values, stored.context, None if self._updater else stored)
            return [total], total
        if self._updater is None:
            return values, stored
        if len(values) == 1 and device_of(values[0].context) is device_of(stored.context):
            return values, values[0]
        known = self._sums.get(name)
        if known is None or known.context != stored.context or known.dtype != stored.dtype:
            known = self._sums[name] = NDArray(device_of(stored.context).empty(
                stored.shape, stored.dtype), stored.context)
        return values, known

    def _reduce(self, what: str, names: Sequence[Key], jobs: Sequence[Job]) -> None:
        """Form the sums of jobs; those between GPUs stay prepared for the next equal call."""
        key = what, tuple(names)
        known = self._prepared.get(key)
        if known is None or not known.fits(jobs):
            remaining: list[Job] = []
            for values, out in jobs:
                if self._compression is None and self._reduction.possible(values, out):
                    remaining.append((values, out))
                else:
                    _sum(values, out.context, out)
            if not remaining:
                return
            if known is None or not known.fits(remaining):
                known = self._prepared[key] = self._reduction(remaining)
        known()

    def _prepare_values(self, name: Key, values: Sequence[NDArray]
                        ) -> tuple[list[NDArray], NDArray]:
        """The pushed value, compressed and of the stored array's type, and that array."""
        if self._compression is not None:
            values = self._compression(name, list(values))
        stored = self._stored_near(name, values)
        return [value.astype(stored.dtype, copy=False) for value in values], stored

    def _stored_near(self, name: Key, values: Sequence[NDArray]) -> NDArray:
        """The stored array; 'device' stores move it to the device of a value, the least loaded."""
        stored = self._stored[name]
        if "device" in self._kind or self._kind == "nccl":
            if device_of(stored.context) not in {device_of(value.context) for value in values}:
                stored = self._stored[name] = _copied(
                    stored, self._least_loaded(values, stored.size))
        return stored

    def _least_loaded(self, values: Sequence[NDArray], size: int) -> Context:
        """The context of a value whose device has the fewest elements so far; it gets `size`."""
        context = min((value.context for value in values),
                      key=lambda one: self._load.get(device_of(one), 0))
        device = device_of(context)
        if self._kind != "nccl":    # where one GPU stores all keys: fewer calls
            self._load[device] = self._load.get(device, 0) + size
        return context

    def pull(self, key: Keys, out: Values | None = None, priority: int = 0,
             ignore_sparse: bool = True) -> None:
        """Copy the stored array of each key.

        Parameters
        ----------
        key, priority
            As for `push`.
        out : NDArray or list
            For each key the array to copy into, or a list with one for each device; required.
        ignore_sparse : bool, default True
            Whether sparse arrays of `out` are left alone, with a warning: `row_sparse_pull` is for
            them.
        """
        pairs = _targets("pull", key, out)
        self._check(pairs)
        ignored = [name for name, targets in pairs if any(out.is_sparse for out in targets)]
        if ignored and ignore_sparse:
            warn_user(f"kvstore.pull: out for {ignored} is sparse, and left alone; row_sparse_pull "
                      "copies rows, ignore_sparse=False everything")
        self._pull(pairs, ignore_sparse)

    def _pull(self, pairs: Pairs, ignore_sparse: bool = True) -> None:
        self._reduce("pull", [name for name, _ in pairs],
                     [([self._stored[name]], target) for name, targets in pairs
                      for target in targets if not (ignore_sparse and target.is_sparse)])

    def pushpull(self, key: Keys, value: Values, out: Values | None = None, priority: int = 0
                 ) -> None:
        """Call `push`, then `pull`, with a key or a list of keys.

        Examples
        --------
        >>> store = mx.kv.create("device")
        >>> store.init(0, mx.nd.zeros((1,)))
        >>> grads = [mx.nd.array([1]), mx.nd.array([2])]
        >>> store.pushpull(0, grads)
        >>> [grad.asscalar().item() for grad in grads]
        [3.0, 3.0]
        """
        pairs = _pairs(key, value, "value")
        targets = pairs if out is None else _pairs(key, out, "out")
        self._check_pushed(pairs)
        self._check(targets)
        self._push(pairs)
        self._pull(targets)

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Create keys and copy their values: `init`, then `pull`.

        `out` has for each key the array to copy into, or a list with one for each device.
        """
        pairs, targets = _pairs(key, value, "value"), _targets("broadcast", key, out)
        self._check_new(pairs)
        for (name, (array,)), (_, arrays) in zip(pairs, targets, strict=True):
            for target in arrays:
                if target.shape != array.shape:
                    raise MXNetError(f"kvstore: out for key {name!r} has shape {target.shape}, "
                                     f"expected {array.shape}")
        self.init(key, value)
        self._pull(targets)

    def assign(self, key: Key, value: NDArray) -> None:
        """Replace a stored array, without an update; nothing happens for an unknown key.

        Parameters
        ----------
        key : int or str
            The key.
        value : NDArray
            Its new value.
        """
        if key in self._stored:
            self._check([(key, [value])])
            if not share_rows(value, self._stored[key]):
                _copy(value, self._stored[key])
            tell = getattr(self._updater, "weight_was_set", None)
            if tell is not None:
                tell(key, self._stored[key])

    def row_sparse_pull(self, key: Keys, out: Values | None = None, priority: int = 0,
                        row_ids: Values | None = None) -> None:
        """Copy some rows of the stored array of each key.

        A row_sparse array of `out` has these rows then; in a dense one all others become 0.

        Parameters
        ----------
        key, out, priority
            As for `pull`.
        row_ids : NDArray or list of NDArray
            Indices of the rows, in any order; they may repeat. One array for all of `out`, or a
            list with one for each; required.
        """
        pairs = _targets("row_sparse_pull", key, out)
        self._check(pairs)
        if row_ids is None:
            raise CheckError("kvstore.row_sparse_pull: row_ids is not given")
        plan = [(name, target, rows) for (name, targets), ids in
                zip(pairs, _row_lists(row_ids, key, pairs), strict=True)
                for target, rows in zip(targets, ids, strict=True)]
        for name, target, rows in plan:
            require_rows(name, self._stored[name], target, rows)
        for name, target, rows in plan:
            write_rows(self._with_rows(name, rows), target, rows)

    def share(self, key: Key, *arrays: NDArray) -> bool:
        """Let row_sparse arrays have the stored rows themselves, which may be too many for copies.

        Parameters
        ----------
        key : int or str
            A key.
        *arrays : NDArray
            Arrays of its shape.  They change with the stored one until they are assigned to.

        Returns
        -------
        bool
            False, and nothing is done, if no one place has such rows of the key.
        """
        self._check([(key, list(arrays))])
        return share_rows(self._stored[key], *arrays)

    def _with_rows(self, name: Key, rows: Rows) -> NDArray:
        """An array of the stored one's shape that has these rows."""
        return self._stored[name]

    # -- updates ----------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored arrays at every push from now on, with the pushed sum as gradient.

        Examples
        --------
        >>> store = mx.kv.create("local")
        >>> store.init("w", mx.nd.array([1]))
        >>> store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
        >>> w = mx.nd.empty((1,))
        >>> store.pushpull("w", mx.nd.array([1]), out=w)
        >>> w.asscalar().item()
        0.5
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"kvstore.set_optimizer: given a {type(optimizer).__name__}, expected "
                            "an mx.optimizer.Optimizer")
        self._set_updater(get_updater(optimizer))

    def _set_updater(self, updater: UpdateFunction) -> None:
        """Call `updater(key, pushed sum, stored)` at every push; it changes `stored` in place."""
        self._updater = updater

    def set_gradient_compression(self, compression_params: Mapping[str, object]) -> None:
        """Compress what is pushed from now on.

        Each element is replaced by ``-threshold``, 0 or ``threshold``; the difference is added to
        the next value of the same key and device (see `kvstore.compression`).  Only stores of the
        kind 'device' do so.
        """
        if "device" not in self._kind:
            raise MXNetError("Gradient compression is not supported for this type of kvstore: it "
                             f"is {self._kind!r}, use 'device'")
        self._compression = TwoBit.from_params(compression_params)

    def _require_updater(self) -> Updater:
        if self._updater is None or not hasattr(self._updater, "get_states"):
            raise CheckError("kvstore: there are no optimizer states; call set_optimizer first")
        return self._updater  # type: ignore[return-value]  # as it has `get_states`

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the states of the optimizer; the file is replaced as a whole or not at all."""
        save_states_file(self._require_updater(), fname, dump_optimizer)

    def load_optimizer_states(self, fname: str) -> None:
        load_states_file(self._require_updater(), fname)

    def state_dict(self) -> dict[str, object]:
        return {"residuals": {} if self._compression is None else dict(self._compression.residuals)}

    def load_state_dict(self, state: dict[str, object]) -> None:
        if self._compression is not None:
            self._compression.restore(state["residuals"], {
                name: value.shape for name, value in self._stored.items()})

    # -- methods for stores over several machines --------------------------------------------

    def _barrier(self) -> None:
        """Wait for all workers: there is one."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Send a command to the servers: there are none."""


BUILT_IN.update({kind: partial(KVStore, kind) for kind in (
    "local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device",
    "nccl")})


def _distributed(kind: str) -> KVStoreBase:
    from .distributed import create_store

    return create_store(kind)


BUILT_IN.update({kind: partial(_distributed, kind) for kind in (
    "dist_sync", "dist_device_sync", "dist_sync_device", "dist_async", "dist")})


def takes_lists(store: KVStoreBase) -> TypeGuard[KVStore]:
    """Return whether `pushpull` may be given several keys, as in this module.

    Users' subclasses may override it for one key.

    Parameters
    ----------
    store : KVStoreBase
        The store.
    """
    return isinstance(store, KVStore) and type(store).pushpull is KVStore.pushpull
