"""Serve a checkpoint over HTTP: python examples/serve.py net 3,224,224   (nbmod[serve])."""

import io
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import waitress

import nbmod as mx


def application(predictor: mx.Predictor) -> Callable[..., Iterable[bytes]]:
    """POST {"data": [sample, ...]}, or a .npy file, returns {"<output>": [result, ...]}."""
    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        try:
            outputs = (predictor(np.load(io.BytesIO(body))) if body.startswith(b"\x93NUMPY")
                       else predictor(**json.loads(body)))
            status, reply = "200 OK", {name: output.tolist() for name, output in
                                       zip(predictor.output_names, outputs, strict=True)}
        except (ValueError, TypeError, mx.MXNetError) as error:
            status, reply = "400 Bad Request", {"error": str(error)}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(reply).encode()]

    return answer


def main(args: list[str]) -> None:
    """Serve the checkpoint of a prefix, for samples of a shape, until Ctrl-C."""
    prefix, shape = args
    shapes = {"data": (8, *map(int, shape.split(",")))}
    waitress.serve(application(mx.Predictor(prefix, shapes, workers=4)), listen="127.0.0.1:8080",
                   threads=8)


if __name__ == "__main__":
    main(sys.argv[1:])
