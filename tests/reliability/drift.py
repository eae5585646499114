"""Memory over long runs: training steps, buckets, binds; and the truth table of special values."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.reliability import special_values
from tests.reliability.figures import Effort, Figure, Promise

STEPS, BUCKETS, BINDS = 30_000, 50, 1000

ALLOWED = 8 << 20
"""Bytes that a process may grow by in the second half of a run: Python's allocator and the C
library return memory late, and a leak of one small array in a step would be three times as much."""


def resident() -> int:
    """Bytes of memory that the process has."""
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) << 10


def network(mx: Any) -> Any:
    """A small network with the usual layers."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="first")
    net = mx.sym.Dropout(mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu")), p=0.2)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="last"),
                                name="softmax")


def steps(mx: Any, count: int) -> Iterator[None]:
    """Training steps with a metric."""
    data = mx.io.NDArrayIter(np.random.rand(64, 5), np.zeros(64), 8, shuffle=True)
    module = mx.mod.Module(network(mx))
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    module.init_optimizer(optimizer="adam")
    metric = mx.metric.create(["acc", "ce"])
    done = 0
    while done < count:
        data.reset()
        for batch in data:
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
            done += 1
            yield


def buckets(mx: Any, count: int) -> Iterator[None]:
    """Modules with some buckets, one after the other."""
    def generate(length: int) -> tuple[Any, tuple[str], tuple[str]]:
        words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4)
        net = mx.sym.FullyConnected(mx.sym.mean(words, axis=1), num_hidden=3)
        return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)

    for _ in range(count):
        module = mx.mod.BucketingModule(generate, default_bucket_key=40)
        module.bind([("data", (4, 40))], [("softmax_label", (4,))])
        module.init_params()
        module.init_optimizer()
        for length in range(2, 40, 4):
            batch = mx.io.DataBatch(
                [mx.nd.ones((4, length))], [mx.nd.zeros((4,))], bucket_key=length,
                provide_data=[("data", (4, length))], provide_label=[("softmax_label", (4,))])
            module.forward_backward(batch)
            module.update()
        yield


def binds(mx: Any, count: int) -> Iterator[None]:
    """Executors of one symbol in changing shapes, run and forgotten."""
    net = network(mx)
    for index in range(count):
        executor = net.simple_bind(mx.cpu(), data=(1 + index % 7, 5))
        executor.forward(is_train=True)
        executor.backward()
        yield


def growth(run: Callable[[Any, int], Iterator[None]], mx: Any, count: int) -> int:
    """Bytes by which the process is larger at the end than half way."""
    middle = 0
    for index, _ in enumerate(run(mx, count), 1):
        if index == count // 2:
            middle = resident()
    return resident() - middle


RUNS = {"training steps": (steps, STEPS), "modules of ten buckets": (buckets, BUCKETS),
        "binds": (binds, BINDS)}


def measure_by(python: str, effort: Effort, package: str) -> list[Figure]:
    """Each run in a process of its own, of another interpreter perhaps."""
    figures = []
    for name, (_, published) in RUNS.items():
        count = effort.trials(published, at_least=10)
        done = subprocess.run([python, "-m", "tests.reliability.drift", package, name, str(count)],
                              capture_output=True, text=True, check=True)
        grown = int(done.stdout.split()[-1])
        failures = (f"{grown:,} bytes more at the end of the second half",) * (grown > ALLOWED)
        figures.append(Figure(f"Memory over {name}", count, failures,
                              f"{grown / 1e6:+.1f} MB in the second half"))
    return figures


def measure(effort: Effort) -> list[Figure]:
    """Long runs, where there is a /proc, and the truth table."""
    figures = [special_values.table()]
    if os.path.exists("/proc/self/status"):
        figures += measure_by(sys.executable, effort, "nbmod")
    return figures


def measure_mxnet(effort: Effort) -> list[Figure]:
    """The same runs in MXNet."""
    from tests.reliability import real_mxnet

    return measure_by(real_mxnet.python(), effort, "mxnet")


PROMISE = Promise(12, "No drift; special values",
                  "The second half of a long run takes at most 8 MB more memory; operators treat "
                  "NaN, infinities and zeros as MXNet does, or as documented", measure,
                  measure_mxnet)


def main() -> None:
    """Print the growth of a run."""
    package, name, count = sys.argv[1:]
    if package == "mxnet":
        import mxnet as mx
    else:
        import nbmod as mx
    print(growth(RUNS[name][0], mx, int(count)))


if __name__ == "__main__":
    main()
