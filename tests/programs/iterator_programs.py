"""Programs over native iterators of either package: files in, all batches of epochs out."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any

import numpy as np

UNDYING: list[Any] = []
"""MXNet's iterators: ended while its thread reads ahead, one segfaults in two runs of five."""


def batches(mx: Any, files: dict[str, bytes], name: str, options: dict[str, Any], epochs: int = 3,
            limit: int = 1000) -> list[Any]:
    """Descriptions, then the contents of each batch, up to `limit` in an epoch, between resets.

    Options that name a file are replaced by its path in a temporary folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            with open(os.path.join(folder, file), "wb") as opened:
                opened.write(content)
        paths = {key: ";".join(os.path.join(folder, part) for part in value.split(";"))
                 if isinstance(value, str) and value.split(";")[0] in (*files, "folder") else value
                 for key, value in options.items()}
        iterator = getattr(mx.io, name)(**paths)
        if mx.__name__ == "mxnet":
            UNDYING.append(iterator)
        answers: list[Any] = [described(iterator.provide_data), described(iterator.provide_label)]
        for epoch in range(epochs):
            for number, batch in enumerate(iterator):
                if number == limit:
                    break
                answers.append([epoch, *map(array, batch.data + batch.label), batch.pad,
                                np.asarray(batch.index)])
            iterator.reset()
        return answers


def described(descriptions: list[Any]) -> list[Any]:
    return [[desc.name, tuple(desc.shape), np.dtype(desc.dtype).name, desc.layout]
            for desc in descriptions]


def array(value: Any) -> list[Any]:
    """Storage type, elements, and the parts of compressed rows."""
    parts = ([value.data, value.indices, value.indptr] if value.stype == "csr" else [])
    return [value.stype, value.asnumpy(), *(part.asnumpy() for part in parts)]


def prefetched(mx: Any, renames: bool) -> list[Any]:
    """Two iterators joined, for two epochs."""
    iterators = [mx.io.NDArrayIter(np.arange(10.) * k, np.arange(10.), batch_size=4)
                 for k in (1, 2)]
    names = ({"rename_data": [{"data": "a"}, {"data": "b"}],
              "rename_label": [{"softmax_label": "c"}, {"softmax_label": "d"}]} if renames else {})
    joined = mx.io.PrefetchingIter(iterators, **names)
    answers: list[Any] = [described(joined.provide_data), described(joined.provide_label),
                          joined.batch_size]
    for _ in range(2):
        answers += [[*(a.asnumpy() for a in batch.data + batch.label), batch.pad]
                    for batch in joined]
        joined.reset()
    assert joined.iter_next()
    return [*answers, joined.getdata()[0].asnumpy(), joined.getpad()]


def documented(mx: Any, name: str) -> dict[str, str]:
    """The parameters of MXNet's iterator by its documentation, each with its kind and default."""
    return dict(re.findall(r"^(\w+) : (.*)$", getattr(mx.io, name).__doc__, re.MULTILINE))
