"""Serve a checkpoint over HTTP: python examples/serve.py net 3,224,224   (nbmod[serve])."""

import io
import json
import sys
from collections.abc import Callable, Iterable
from tokenize import TokenError
from typing import Any

import numpy as np
import waitress

import nbmod as mx

BODY_LIMIT = 64 * 2 ** 20
"""Bytes of a request; more is refused."""


class Refused(Exception):
    """A request that is not answered: (status, what is wrong with it)."""


def application(predictor: mx.Predictor) -> Callable[..., Iterable[bytes]]:
    """POST {"data": [sample, ...]}, or a .npy file, returns {"<output>": [result, ...]}.

    A request that is wrong gets a status of 4xx and {"error": "..."}.
    """
    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            body = _body(environ)
            outputs = (predictor(np.load(io.BytesIO(body))) if body.startswith(b"\x93NUMPY")
                       else predictor(**_inputs(body)))
            status, reply = "200 OK", _reply(predictor.output_names, outputs)
        except Refused as refused:
            status, error = refused.args
            reply = {"error": error}
        except MemoryError:     # such as for the shape that the head of a .npy file tells
            status, reply = "413 Content Too Large", {"error": "the arrays do not fit in memory"}
        except (RecursionError, TokenError):    # of JSON, or of the head of a .npy file
            status, reply = "400 Bad Request", {"error": "lists are nested too deeply"}
        except (ValueError, TypeError, EOFError, OverflowError, mx.MXNetError) as error:
            status, reply = "400 Bad Request", {"error": str(error)}
        start_response(status, [("Content-Type", "application/json"), ("Allow", "POST")])
        return [json.dumps(reply).encode()]

    return answer


def _body(environ: dict[str, Any]) -> bytes:
    if environ["REQUEST_METHOD"] != "POST":
        raise Refused("405 Method Not Allowed", "expected POST")
    text = environ.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit()):
        raise Refused("400 Bad Request", f"Content-Length is {text!r}, expected a number")
    length = int(text)
    if length > BODY_LIMIT:
        raise Refused("413 Content Too Large", f"the body has {length} bytes, at most "
                      f"{BODY_LIMIT} are accepted; send fewer samples at a time")
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) < length:
        raise Refused("400 Bad Request", f"the body ends after {len(body)} of {length} bytes")
    return body


def _inputs(body: bytes) -> dict[str, Any]:
    """The object of a JSON text; ValueError for any other text, and for a name that is repeated."""
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"a name is given twice: {[name for name, _ in pairs]}")
        return found

    def constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    found = json.loads(body, object_pairs_hook=once, parse_constant=constant)
    if not isinstance(found, dict):
        raise ValueError('expected {"data": [sample, ...]}')
    return found


def _reply(names: list[str], outputs: list[np.ndarray]) -> dict[str, Any]:
    """The outputs as lists, if JSON has all of their numbers."""
    for name, output in zip(names, outputs, strict=True):
        if not np.isfinite(output).all():
            raise Refused("422 Unprocessable Content", f"{name} is not finite for these samples")
    return {name: output.tolist() for name, output in zip(names, outputs, strict=True)}


def main(args: list[str]) -> None:
    """Serve the checkpoint of a prefix, for samples of a shape, until Ctrl-C."""
    prefix, shape = args
    shapes = {"data": (8, *map(int, shape.split(",")))}
    # waitress receives requests before it calls the application, so that slow clients occupy no
    # thread; what is even larger than twice the limit it refuses by itself, without JSON.
    waitress.serve(application(mx.Predictor(prefix, shapes, workers=4)), listen="127.0.0.1:8080",
                   threads=8, max_request_body_size=2 * BODY_LIMIT)


if __name__ == "__main__":
    main(sys.argv[1:])
