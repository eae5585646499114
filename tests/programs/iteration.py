"""Programs over iterators of either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def samples(count: int, width: int = 2) -> np.ndarray:
    """Rows that encode their position: row i holds i and i + 0.5."""
    return np.arange(count, dtype=np.float32)[:, None] + np.arange(width, dtype=np.float32) / 2


def source(mx: Any, kind: str, count: int) -> tuple[Any, Any]:
    """(data, label) of an iterator, in one of the forms that it takes."""
    data, label = samples(count), np.arange(count)
    if kind == "numpy":
        return data, label
    if kind == "ndarray":
        return mx.nd.array(data, dtype="float16"), mx.nd.array(label, dtype="int32")
    if kind == "list":
        return [data, mx.nd.array(-data)], [label, label * 2]
    if kind == "dict":
        return {"b": data, "a": mx.nd.array(-data)}, {"lab": label}
    return data, None


def epochs(mx: Any, kind: str, count: int, options: dict[str, Any], stops: list[Any]
           ) -> dict[str, Any]:
    """The descriptions of an NDArrayIter, and its batches in each epoch.

    An epoch per item of `stops`: None runs to the end, a number stops after as many batches,
    "hard" calls `hard_reset` first.
    """
    iterator = mx.io.NDArrayIter(*source(mx, kind, count), **options)
    told = [[(d.name, tuple(d.shape), np.dtype(d.dtype).name, d.layout) for d in described]
            for described in (iterator.provide_data, iterator.provide_label)]
    seen = []
    for stop in stops:
        iterator.hard_reset() if stop == "hard" else iterator.reset()
        batches = []
        for batch in iterator:
            batches.append(([d.asnumpy() for d in batch.data], [x.asnumpy() for x in batch.label],
                            batch.pad))
            if len(batches) == stop:
                break
        seen.append(batches)
    return {"told": told, "epochs": seen, "batch_size": iterator.batch_size,
            "num_data": iterator.num_data}


def longer(mx: Any, handle: str) -> list[Any]:
    """Batches of five samples whose labels are eight."""
    iterator = mx.io.NDArrayIter(np.arange(5.), np.arange(8.), 2, last_batch_handle=handle)
    return [[batch.data[0].asnumpy(), batch.label[0].asnumpy()] for batch in iterator]


def resized(mx: Any, count: int, size: int, reset_internal: bool) -> list[Any]:
    """First samples and padding of three epochs of a ResizeIter over batches of 3."""
    inner = mx.io.NDArrayIter(samples(count), batch_size=3)
    iterator = mx.io.ResizeIter(inner, size, reset_internal)
    seen = []
    for _ in range(3):
        iterator.reset()
        seen.append([(float(batch.data[0].asnumpy()[0, 0]), batch.pad) for batch in iterator])
    return seen


def descriptions(mx: Any) -> list[str]:
    """How descriptions and batches print and compare."""
    desc = mx.io.DataDesc("data", (2, 3), layout="NTC")
    batch = mx.io.DataBatch([mx.nd.zeros((2, 3))], None, pad=1)
    axis = mx.io.DataDesc.get_batch_axis
    return [str(desc), str(desc == ("data", (2, 3))), str(dict([desc])), str(batch),
            str([axis(layout) for layout in (None, "NCHW", "TNC", "CHW")]),
            str(mx.io.DataDesc.get_list([("a", (1,))], [("a", "int32")])),
            str(mx.io.DataDesc.get_list([("a", (1,))], None))]


def split(mx: Any, batch_size: int, loads: list[float]) -> list[tuple[int, int]] | str:
    """Begin and end of each device's slice of a batch, or "ValueError"."""
    try:
        return [(part.start, part.stop) for part in
                mx.executor_manager._split_input_slice(batch_size, loads)]
    except ValueError:
        return "ValueError"
