"""Requests per second that a `Predictor` answers, called by threads and over HTTP.

    python -m bench.serving [--seconds 3] [--out bench/results/serving-cpu.md]

Each client sends one request after another, of one sample or eight; every answer is compared with
that of a Module.  HTTP is `examples/serve.py` on waitress, with .npy files as requests and with
clients in the same process, whose work it includes.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import io
import json
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import waitress.server
import waitress.wasyncore

import nbmod as mx
from nbmod.cli.demo import lenet

from .networks import resnet

ROOT = pathlib.Path(__file__).parent.parent
NETWORKS = {"LeNet": (lenet, (1, 28, 28)),
            "ResNet-18": (lambda: resnet([2, 2, 2, 2], False), (3, 224, 224))}
Ask = Callable[[np.ndarray], np.ndarray]


def network(name: str) -> tuple[mx.mod.Module, tuple[int, ...]]:
    build, shape = NETWORKS[name]
    symbol = build()
    module = mx.mod.Module(symbol, label_names=[one for one in symbol.list_arguments()
                                                if one.endswith("label")])
    module.bind([("data", (1, *shape))], for_training=False)
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    return module, shape


def rate(ask: Callable[[], Ask], clients: int, data: np.ndarray, expected: np.ndarray,
         seconds: float) -> float:
    """Requests per second of all clients together; AssertionError for a wrong answer."""
    counts, wrong, until = [0] * clients, [], time.perf_counter() + seconds

    def work(number: int) -> None:
        try:
            send = ask()
            while time.perf_counter() < until:
                # Other batch sizes add in another order.
                np.testing.assert_allclose(send(data), expected, rtol=1e-3, atol=1e-5)
                counts[number] += 1
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return sum(counts) / (time.perf_counter() - began)


@contextmanager
def served(predictor: mx.Predictor) -> Iterator[Callable[[], http.client.HTTPConnection]]:
    """A server in this process: a function that connects a client to it."""
    spec = importlib.util.spec_from_file_location("serve", ROOT / "examples" / "serve.py")
    assert spec is not None and spec.loader is not None
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    sockets: dict[int, object] = {}
    server = waitress.server.create_server(serve.application(predictor), sockets,
                                           host="127.0.0.1", port=0, threads=8)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            waitress.wasyncore.loop(0.05, map=sockets, count=1)

    thread = threading.Thread(target=run)
    thread.start()
    connections: list[http.client.HTTPConnection] = []

    def connect() -> http.client.HTTPConnection:
        connections.append(http.client.HTTPConnection("127.0.0.1", server.effective_port,
                                                      timeout=60))
        return connections[-1]

    try:
        yield connect
    finally:
        for connection in connections:
            connection.close()
        ended.set()
        thread.join()
        server.task_dispatcher.shutdown()
        waitress.wasyncore.close_all(sockets)


def client(connect: Callable[[], http.client.HTTPConnection], output: str) -> Ask:
    """A client with a connection of its own, which sends .npy files."""
    connection = connect()

    def send(data: np.ndarray) -> np.ndarray:
        body = io.BytesIO()
        np.save(body, data)
        connection.request("POST", "/", body.getvalue())
        return np.array(json.load(connection.getresponse())[output])

    return send


def rows(name: str, seconds: float) -> Iterator[tuple[object, ...]]:
    module, shape = network(name)
    params = module.get_params()
    for workers in (1, 2):
        predictor = mx.Predictor((module.symbol, *params), {"data": (8, *shape)}, workers=workers)
        for samples in (1, 8):
            data = np.random.RandomState(0).normal(size=(samples, *shape)).astype(np.float32)
            expected = module.predict(mx.nd.array(data)).asnumpy()
            for clients in (1, 8):
                called = rate(lambda: lambda x: predictor(x)[0],  # noqa: B023
                              clients, data, expected, seconds)
                with served(predictor) as connect:
                    over_http = rate(lambda: client(connect,  # noqa: B023
                                                    predictor.output_names[0]),  # noqa: B023
                                     clients, data, expected, seconds)
                yield name, workers, samples, clients, called, over_http


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    lines = ["| network | workers | samples in a request | clients | requests per second, called | "
             "over HTTP |", "|---|--:|--:|--:|--:|--:|"]
    for name in NETWORKS:
        for *facts, called, over_http in rows(name, options.seconds):
            lines.append(f"| {' | '.join(map(str, facts))} | {called:,.1f} | {over_http:,.1f} |")
            print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("# Requests per second of `Predictor`\n\n"
                               f"`python -m bench.serving --seconds {options.seconds:g}`\n\n"
                               + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
