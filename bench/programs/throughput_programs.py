"""Subjects that read data, for `bench.io`; the function to time returns the number of items."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

_kept: dict[str, Any] = {}
"""Iterators and trainers by what they are made of: a native iterator of MXNet must not be ended
(`iterator_programs.UNDYING`), and compiling counts for nobody."""


def epochs(mx: Any, name: str, options: dict[str, Any]) -> Callable[[], int]:
    """Samples of an epoch, from the reset on, so that nothing has been prefetched."""
    iterator = _iterator(mx, name, options)

    def run() -> int:
        iterator.reset()
        count = 0
        for batch in iterator:
            for array in batch.data + batch.label:
                array.wait_to_read()
            count += batch.data[0].shape[0] - (batch.pad or 0)
        return count

    return run


def trained(mx: Any, name: str, options: dict[str, Any]) -> Callable[[], int]:
    """Samples of an epoch with which a Module trains a network of negligible cost."""
    iterator = _iterator(mx, name, options)
    module = _once(f"module {name} {sorted(options.items())}", lambda: _module(mx, iterator))

    def run() -> int:
        iterator.reset()
        count = 0
        for batch in iterator:
            module.forward_backward(batch)
            module.update()
            count += batch.data[0].shape[0] - (batch.pad or 0)
        module.get_outputs()[0].wait_to_read()
        return count

    return run


def records(mx: Any, path: str, index: str) -> Callable[[], int]:
    """Bytes of all records, read in order, or by key where there is an index."""
    def run() -> int:
        if index:
            reader = mx.recordio.MXIndexedRecordIO(index, path, "r")
            count = sum(len(reader.read_idx(key)) for key in reader.keys)
        else:
            reader, count = mx.recordio.MXRecordIO(path, "r"), 0
            while (record := reader.read()) is not None:
                count += len(record)
        reader.close()
        return count

    return run


def _iterator(mx: Any, name: str, options: dict[str, Any]) -> Any:
    """Created once; NDArrayIter over zeros of a `shape`."""
    given = dict(options)
    if "shape" in given:
        shape = given.pop("shape")
        given |= {"data": np.zeros(shape, np.float32), "label": np.zeros(shape[:1], np.float32)}
    return _once(f"{name} {sorted(options.items())}", lambda: getattr(mx.io, name)(**given))


def _once(key: str, make: Callable[[], Any]) -> Any:
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]


def _module(mx: Any, iterator: Any) -> Any:
    net = mx.sym.Flatten(mx.sym.Pooling(mx.sym.Variable("data"), global_pool=True, kernel=(1, 1),
                                        pool_type="avg"))
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10), name="softmax")
    module = mx.mod.Module(net)
    module.bind(iterator.provide_data, iterator.provide_label)
    module.init_params()
    module.init_optimizer()
    return module


def place(mx: Any) -> str:
    """The folder of the package, where its tools are."""
    return os.path.dirname(mx.__file__)
