"""Runs in the MXNet worker: values of index expressions, and which results share memory."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np

from tests.programs import array_answers


def pick(shape: list[int], keys: list[str]) -> list[dict[str, Any]]:
    """For each key, as text after `a`: the values of `a[key]`, and whether it is a view of `a`.

    `a` counts up from 0. An error is reported by its type.
    """
    return [_pick(shape, key) for key in keys]


def _pick(shape: list[int], key: str) -> dict[str, Any]:
    a = mx.nd.array(np.arange(np.prod(shape)).reshape(shape))
    try:
        picked = eval(key, {"a": a, "mx": mx, "np": np})
        values = picked.asnumpy()
    except Exception as error:
        return {"error": type(error).__name__}
    a[:] = -1
    return {"values": values, "view": bool(values.size and (picked.asnumpy() == -1).all())}


def assign(shape: list[int], statements: list[str], dtype: str = "float32") -> list[Any]:
    """For each statement on `a`: the array afterwards, or the type of the error."""
    results: list[Any] = []
    for statement in statements:
        a = mx.nd.array(np.arange(np.prod(shape)).reshape(shape), dtype=dtype)
        try:
            exec(statement, {"a": a, "mx": mx, "np": np})
            results.append(a.asnumpy())
        except Exception as error:
            results.append(type(error).__name__)
    return results


def answers(expressions: list[str]) -> list[Any]:
    """See `tests.programs.array_answers`."""
    return array_answers.answers(mx, expressions)


def public_names() -> list[str]:
    """Names of NDArray's public attributes."""
    return [name for name in dir(mx.nd.NDArray) if not name.startswith("_")]


def pickled_state(array: np.ndarray) -> bytes:
    """The bytes that a pickle of this NDArray holds."""
    return bytes(mx.nd.array(array, dtype=array.dtype).__getstate__()["handle"])


def sparse_answers(expressions: list[str]) -> list[Any]:
    """`tests.programs.sparse_arrays.answers` of MXNet."""
    import os

    os.environ["MXNET_STORAGE_FALLBACK_LOG_VERBOSE"] = "0"
    from tests.programs import sparse_arrays

    return sparse_arrays.answers(mx, expressions)


def sparse_file(dense: np.ndarray, stype: str) -> bytes:
    """The file that holds this array, of a storage type."""
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.params")
        array = mx.nd.array(dense, dtype=dense.dtype).tostype(stype)
        array.wait_to_read()    # saving does not: the number of elements could still be 0
        mx.nd.save(str(path), {"a": array})
        return path.read_bytes()
