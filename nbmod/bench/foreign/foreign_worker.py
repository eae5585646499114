"""The other side of a `WorkerProcess`: answers calls until its input ends.

    python foreign_worker.py ROOT PACKAGE

Runs by its path in a Python that need not have nbmod, so it imports nothing of nbmod, and works
with Python 3.8 and NumPy 1.23.

A request is `{"call": "module.function", "args": [...], "kwargs": {...}}`; `module` is a file of
the package, and is imported on first use.  "file.py:function" and "module:function" are functions
of any file and of any module, and ":function" is one of `prepare_arm`, `time_arm`, `forget_arm`.
The answer is `{"result": value}` or `{"error": "Type:
message", "traceback": text}`.  Libraries write to file descriptor 1 at any time, so the answers use
a duplicate of it, and descriptor 1 itself is redirected to standard error.

A frame is `u32 header length | header | array 0 | array 1 | ...`, little-endian, each array as
`u64 byte count | .npy bytes`.  The header is `{"message": tree, "arrays": n}`; in the tree an array
is written as `{"~array": i}`, bytes as `{"~bytes": i}`, a tuple as `{"~tuple": [...]}`, so
everything else is restored as it was sent.  Nothing is pickled: a frame can only build data.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

__all__ = ["receive", "seconds_of", "send"]

_arms: dict[int, tuple[Callable[[], object] | None, Callable[[], object]]] = {}
"""By number: a function whose time does not count, and the one that is timed."""


def main(root: str, package: str) -> None:
    """Serve calls until standard input is closed.

    Parameters
    ----------
    root : str
        The folder of `package`.
    package : str
        Whose modules have the functions.
    """
    sys.path[0] = root      # in place of the folder of this file
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, answer(request, package))


def answer(request: dict[str, Any], package: str) -> dict[str, Any]:
    """Call the function that the request names; an exception becomes part of the answer."""
    try:
        called = function_of(request["call"], package)
        return {"result": called(*request["args"], **request["kwargs"])}
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return {"error": text, "traceback": traceback.format_exc()}


def function_of(name: str, package: str) -> Callable[..., Any]:
    """The function of a request."""
    module, colon, function = name.rpartition(":")
    if not colon:
        module, function = name.rsplit(".", 1)
        return getattr(importlib.import_module("." + module, package), function)
    if not module:
        return {each.__name__: each for each in (prepare_arm, time_arm, forget_arm)}[function]
    if module.endswith(".py"):
        folder, file = os.path.split(os.path.abspath(module))
        if folder not in sys.path:
            sys.path.insert(0, folder)
        module = file[:-3]
    return getattr(importlib.import_module(module), function)


def prepare_arm(number: int, source: str, package: str, args: Sequence[Any],
                options: dict[str, Any]) -> float:
    """Call `source`, keep the function that it returns as an arm, and call that, too.

    Returns the seconds of this first call.
    """
    subject = function_of(source, package)(*args, **options)
    _arms[number] = subject if isinstance(subject, tuple) else (None, subject)
    return time_arm(number, 1)


def time_arm(number: int, calls: int, warm: bool = False, processor: bool = False) -> float:
    """Seconds of one of some calls of an arm, after an untimed one if it is to be warm."""
    before, function = _arms[number]
    if warm:
        seconds_of(function, [()], before=before)
    return seconds_of(function, [()] * calls, time.process_time if processor
                      else time.perf_counter, before)


def forget_arm(number: int) -> None:
    """Drop an arm and what it holds."""
    _arms.pop(number, None)


def seconds_of(function: Callable[..., object], inputs: Sequence[Sequence[Any]],
               clock: Callable[[], float] = time.perf_counter,
               before: Callable[..., object] | None = None) -> float:
    """The mean seconds of calls in a row.

    Parameters
    ----------
    function : callable
        What is timed.
    inputs : sequence of sequence
        The arguments of each call.
    clock : callable
        Seconds of some clock.
    before : callable, optional
        Called before every call with its arguments; its time does not count.
    """
    if before is None:
        began = clock()
        for args in inputs:
            function(*args)
        return (clock() - began) / len(inputs)
    taken = 0.0
    for args in inputs:
        before(*args)
        began = clock()
        function(*args)
        taken += clock() - began
    return taken / len(inputs)


def send(stream: IO[bytes], message: Any) -> None:
    """Write one frame; `message` is any nesting of JSON values, tuples, bytes and arrays."""
    arrays: list[np.ndarray] = []
    header = json.dumps({"message": _pack(message, arrays), "arrays": len(arrays)}).encode()
    stream.write(struct.pack("<I", len(header)) + header)
    for array in arrays:
        blob = io.BytesIO()
        np.lib.format.write_array(blob, array, allow_pickle=False)
        stream.write(struct.pack("<Q", blob.tell()) + blob.getvalue())
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame and return its message; EOFError when the other side has closed."""
    (length,) = struct.unpack("<I", _read(stream, 4))
    header = json.loads(_read(stream, length).decode())
    arrays = []
    for _ in range(header["arrays"]):
        (size,) = struct.unpack("<Q", _read(stream, 8))
        blob = io.BytesIO(_read(stream, size))
        arrays.append(np.lib.format.read_array(blob, allow_pickle=False))
    return _unpack(header["message"], arrays)


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if data is None or len(data) < size:
        raise EOFError("the other side of the pipe is gone")
    return data


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"~array": len(arrays) - 1}
    if isinstance(value, (bytes, bytearray)):
        arrays.append(np.frombuffer(bytes(value), np.uint8))
        return {"~bytes": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"~tuple": [_pack(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"only string keys can be sent, not {list(value)}")
        return {key: _pack(item, arrays) for key, item in value.items()}
    return value


def _unpack(tree: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {"~array"}:
        return arrays[tree["~array"]]
    if set(tree) == {"~bytes"}:
        return arrays[tree["~bytes"]].tobytes()
    if set(tree) == {"~tuple"}:
        return tuple(_unpack(item, arrays) for item in tree["~tuple"])
    return {key: _unpack(item, arrays) for key, item in tree.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
