"""The MXNet side: `python -m tests.oracle.worker` answers calls until its input ends.

A request is `{"call": "module.function", "args": [...], "kwargs": {...}}`; `module` is a file of
this package, or of the one that the command line names, and is imported on first use. The answer is
`{"result": value}` or `{"error": "Type: message", "traceback": text}`.

MXNet writes to file descriptor 1 at any time, so the answers use a duplicate of it and descriptor 1
itself is redirected to standard error.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any

from . import wire

PACKAGE = sys.argv[1] if len(sys.argv) > 1 else __package__


def main() -> None:
    """Serve calls until standard input is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = wire.receive(sys.stdin.buffer)
        except EOFError:
            return
        wire.send(answers, answer(request))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Call the function that the request names; an exception becomes part of the answer."""
    try:
        module, function = request["call"].rsplit(".", 1)
        called = getattr(importlib.import_module("." + module, PACKAGE), function)
        return {"result": called(*request["args"], **request["kwargs"])}
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return {"error": text, "traceback": traceback.format_exc()}


if __name__ == "__main__":
    main()
