"""Gluon's data sets, samplers and loaders: programs that MXNet and nbmod run with equal results."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

SAMPLES = {
    "integers": [1, 2], "numbers": [1.5, 2], "scalars": [np.float32(1), np.float32(2)],
    "arrays": [np.zeros(2), np.ones(2)], "bytes": [np.zeros(2, np.uint8)] * 2,
    "pairs": [(1, 2.0), (3, 4.0)], "lists": [[1, 2], [3, 4]], "nested": [((1, 2), 3)] * 2,
    "booleans": [True, False], "vector": np.arange(3), "uneven": [(1,), (2, 3)],
}


def plain(value: Any) -> Any:
    """A value in lists and numbers; an array with its type and context."""
    if hasattr(value, "asnumpy"):
        return [str(np.dtype(value.dtype)), str(value.context), value.asnumpy().tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    return value.item() if isinstance(value, np.generic) else value


def datasets(mx: Any) -> dict[str, Any]:
    """The samples of data sets."""
    data = mx.gluon.data
    ten, pairs = data.SimpleDataset(list(range(10))), data.ArrayDataset([1, 2], [3, 4])
    vector, column = data.ArrayDataset(mx.nd.ones(3)), data.ArrayDataset(mx.nd.ones((3, 1)))
    found = {
        "shards": [list(ten.shard(3, index)) for index in range(3)],
        "take": [list(ten.take(count)) for count in (None, 30, 2, 0)],
        "sample": list(ten.sample(data.SequentialSampler(3, 2))),
        "filter": list(ten.filter(lambda x: x % 3 == 0)), "last": ten[-1],
        "transform": list(ten.transform(lambda x: 2 * x)),
        "of tuples": list(pairs.transform(lambda x, y: x + y)),
        "of lists": data.SimpleDataset([[1, 2]]).transform(len)[0],
        "eager": type(ten.transform(float, lazy=False)).__name__,
        "first": list(pairs.transform_first(lambda x: 10 * x)),
        "only": list(data.ArrayDataset([1, 2]).transform_first(lambda x: 10 * x)),
        "array": pairs[1], "scalar": type(vector[0]).__name__, "row": plain(column[0]),
        "of programs": of_programs(mx),
    }
    return {name: plain(value) for name, value in found.items()}


def of_programs(mx: Any) -> list[Any]:
    """Samples of data sets whose programs read the files themselves."""
    bases, found = mx.gluon.data.vision, []
    with tempfile.TemporaryDirectory() as folder:
        for base, args in ((mx.gluon.data.dataset._DownloadedDataset, ()), (bases.MNIST, (False,)),
                           (bases.CIFAR10, (True,)), (bases.CIFAR100, (False, True))):

            class Own(base):  # type: ignore[misc]
                def _get_data(self) -> None:
                    assert (self._data, self._label) == (None, None)
                    self._data, self._label = [1, 2, 3], [4, 5, 6]

            root = os.path.join(folder, base.__name__)
            sums = Own(root, *args, lambda data, label: data + label)
            found += [Own(root, *args, None)[1], sums[0], len(sums), os.listdir(root),
                      os.path.basename(sums._root)]
    return found


def epochs(mx: Any) -> dict[str, Any]:
    """Lengths and batches of several epochs, for each handling of the last batch, and shuffled."""
    data = mx.gluon.data
    found: dict[str, Any] = {}
    for last in ("keep", "discard", "rollover"):
        loader = data.DataLoader(data.SimpleDataset(list(range(10))), 4, last_batch=last)
        found[last] = [[len(loader), *map(plain, loader)] for _ in range(4)]
    np.random.seed(3)
    loader = data.DataLoader(mx.nd.arange(10), 5, shuffle=True)
    found["shuffled"] = [[plain(batch) for batch in loader] for _ in range(2)]
    found["after"] = np.random.rand()
    found["filtered"] = list(data.FilterSampler(lambda x: x > 3, list(range(6))))
    return found


def batches(mx: Any) -> dict[str, Any]:
    """Batches of samples of many kinds, made here and as workers do."""
    functions = [getattr(mx.gluon.data.dataloader, name)
                 for name in ("default_batchify_fn", "default_mp_batchify_fn")]
    samples = {**SAMPLES, "ndarrays": [mx.nd.ones(2), mx.nd.zeros(2)],
               "doubles": [mx.nd.ones(1, dtype="float64")] * 2,
               "mixed": [(np.zeros(2, np.int8), mx.nd.ones(1))] * 2}
    return {name: [plain(function(value)) for function in functions]
            for name, value in samples.items()}


class Faulty:
    """A data set that cannot be read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> None:
        raise KeyError(f"sample {index}")


def errors(mx: Any) -> dict[str, tuple[str, str]]:
    """Builtin class and text of errors."""
    data = mx.gluon.data
    ten, order = data.SimpleDataset(list(range(10))), data.SequentialSampler(4)
    calls = {
        "no size": lambda: data.DataLoader(ten),
        "order and shuffle": lambda: data.DataLoader(ten, 2, True, sampler=order),
        "size and batches": lambda: data.DataLoader(
            ten, 2, batch_sampler=data.BatchSampler(order, 2)),
        "last batch": lambda: len(data.DataLoader(ten, 3, last_batch="all")),
        "last batches": lambda: list(data.DataLoader(ten, 3, last_batch="all")),
        "timeout": lambda: data.DataLoader(ten, 3, timeout=0),
        "no array": lambda: data.ArrayDataset(),
        "no shard": lambda: ten.shard(3, 3), "no sampler": lambda: ten.sample([1, 2]),
        "sample": lambda: list(data.DataLoader(Faulty(), 2)),
        "in a thread": lambda: list(data.DataLoader(Faulty(), 2, num_workers=1, thread_pool=True)),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins"
                        and each is not RuntimeError)
            found[name] = (kind.__name__, str(error).replace(mx.__name__, "mx"))
    return found
