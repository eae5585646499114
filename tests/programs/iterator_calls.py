"""Random sequences of calls of iterators, whose results must agree in nbmod and MXNet."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import warnings
from functools import partial
from typing import Any

import numpy as np

from tests.programs.calls import attempt, draw_names

Arguments = dict[str, Any]


def values(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-9, 9, shape).astype(np.float32)


# -- iterators ------------------------------------------------------------------------------------

def arrays(mx: Any, _folder: str, count: int, names: int, labels: str, library: str, seed: int,
           **options: Any) -> Any:
    """`NDArrayIter` over one or several arrays of NumPy or the library, csr ones or dense."""
    made = [values(count, 3, seed=seed + at) for at in range(names)]
    if library == "mx":
        made = [mx.nd.array(one) for one in made]
    elif library == "csr":
        made = [mx.nd.array(one).tostype("csr") for one in made]
    data = made[0] if names == 1 else {f"data{at}": one for at, one in enumerate(made)}
    label = {"none": None, "one": values(count, seed=seed + 5),
             "rows": values(count, 2, seed=seed + 5)}[labels]
    return mx.io.NDArrayIter(data, label, **options)


def csv(mx: Any, folder: str, count: int, labels: bool, seed: int, **options: Any) -> Any:
    for name, columns in (("data", 3), ("label", 1)):
        np.savetxt(os.path.join(folder, name), values(count, columns, seed=seed), "%g", ",")
    if labels:
        options["label_csv"] = os.path.join(folder, "label")
    return mx.io.CSVIter(data_csv=os.path.join(folder, "data"), data_shape=(3,), **options)


def libsvm(mx: Any, folder: str, count: int, seed: int, **options: Any) -> Any:
    path = os.path.join(folder, "data")
    with open(path, "w") as file:
        for row in values(count, 4, seed=seed):
            pairs = [f"{at}:{value:g}" for at, value in enumerate(row) if value]
            file.write(" ".join([f"{row[0]:g}", *pairs]) + "\n")
    return mx.io.LibSVMIter(data_libsvm=path, data_shape=(4,), **options)


def mnist(mx: Any, folder: str, count: int, seed: int, **options: Any) -> Any:
    pixels = np.random.default_rng([seed, count]).integers(0, 256, (count, 2, 3)).astype(np.uint8)
    paths = {}
    for name, head, content in (
            ("image", struct.pack(">IIII", 2051, count, 2, 3), pixels),
            ("label", struct.pack(">II", 2049, count), pixels[:, 0, 0])):
        paths[name] = os.path.join(folder, name)
        with open(paths[name], "wb") as file:
            file.write(head + content.tobytes())
    return mx.io.MNISTIter(**paths, shuffle=False, silent=True, **options)


MAKERS = {"arrays": arrays, "csv": csv, "libsvm": libsvm, "mnist": mnist}


# -- calls ----------------------------------------------------------------------------------------

def _batch(batch: Any) -> Any:
    index = None if batch.index is None else np.asarray(batch.index).tolist()
    return [[_dense(one) for one in batch.data or []], [_dense(one) for one in batch.label or []],
            batch.pad, index]


def _dense(array: Any) -> np.ndarray:
    return array.asnumpy()


def _described(descriptions: Any) -> Any:
    return [[name, list(shape)] for name, shape in descriptions]


def _several(result: Any) -> Any:
    return [_dense(one) for one in result] if isinstance(result, (list, tuple)) else _dense(result)


def _epoch(iterator: Any) -> Any:
    return [_batch(batch) for _, batch in zip(range(20), iterator)]  # noqa: B905 (Python 3.9)


CALLS = {
    "next": (8, lambda iterator: _batch(iterator.next())),
    "getdata": (1, lambda iterator: _several(iterator.getdata())),
    "getlabel": (1, lambda iterator: _several(iterator.getlabel())),
    "getpad": (1, lambda iterator: int(iterator.getpad())),
    "reset": (2, lambda iterator: iterator.reset()),
    "epoch": (2, _epoch),
    "provide_data": (0.5, lambda iterator: _described(iterator.provide_data)),
    "provide_label": (0.5, lambda iterator: _described(iterator.provide_label)),
    "batch_size": (0.3, lambda iterator: iterator.batch_size),
}
"""Weight and function of a call."""
OF_A_BATCH = ("getdata", "getlabel", "getpad")


def draw(seed: int) -> tuple[str, Arguments, list[tuple[str, int]], list[str]]:
    """Which iterator, its arguments, iterators around it with their sizes, and calls."""
    rng = random.Random(seed)
    kind = rng.choice(("arrays", "arrays", *MAKERS))
    count, size = rng.randrange(1, 14), rng.randrange(1, 6)
    options: Arguments = {"count": count, "batch_size": size, "seed": rng.randrange(100)}
    if kind == "arrays":
        options |= {"names": rng.choice((1, 1, 2)), "labels": rng.choice(("none", "one", "rows")),
                    "library": rng.choice(("np", "mx", "csr")),
                    "last_batch_handle": rng.choice(("pad", "discard", "roll_over"))}
        if options["library"] == "csr":     # in MXNet the only way
            options["last_batch_handle"] = "discard"
    rolls = options.get("last_batch_handle") == "roll_over"
    if rolls or kind != "arrays":       # MXNet fails with fewer samples than a batch has
        options["count"] = max(count, size)
    if kind == "csv":
        options["round_batch"] = rng.random() < 0.5
        options["labels"] = rng.random() < 0.6
    if kind == "mnist":
        options["flat"] = rng.random() < 0.5
    around = []
    if rng.random() < 0.2 and kind in ("arrays", "mnist"):  # others: as for reset
        around.append(("ResizeIter", rng.randrange(1, 6)))
    if rng.random() < 0.2 and not rolls:    # in MXNet, a reset keeps what a thread has come to
        around.append(("PrefetchingIter", 0))
    calls = draw_names(rng, CALLS, rng.randrange(5, 25))
    return kind, options, around, calls


def run(mx: Any, seed: int) -> list[Any]:
    """What each call gave, or "error" where it raised."""
    kind, options, around, calls = draw(seed)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            iterator = MAKERS[kind](mx, folder, **options)
            for name, size in around:
                wrap = getattr(mx.io, name)
                iterator = wrap(iterator, size) if size else wrap(iterator)
        except Exception:
            return ["error"]
        found: list[Any] = []
        for at, call in enumerate(calls):
            after = at > 0 and calls[at - 1] == "next" and isinstance(found[-1], list)
            rolled = options.get("last_batch_handle") == "roll_over"    # MXNet's getdata fails
            if call in OF_A_BATCH and (rolled or not after):
                found.append(None)      # there is no batch, or one that depends on the iterator
            else:
                if call == "reset" and kind in ("csv", "libsvm"):
                    attempt(partial(_epoch, iterator))  # MXNet goes on where threads have come to
                found.append(attempt(partial(CALLS[call][1], iterator)))
        return found
