"""Programs that fork, each in a process of its own: `python -m tests.programs.forks NAME`.

They print the results of every child beside those of the parent. A child that hangs is killed by an
alarm after `SECONDS`, and counts as failed. `PROGRAM_PACKAGE` names another package than nbmod.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

mx: Any = importlib.import_module(os.environ.get("PROGRAM_PACKAGE", "nbmod"))

SECONDS = 100
SIZE = 300_000
"""Elements of arrays, so many that kernels run in parallel."""


def data() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32) % 97


def eager() -> float:
    """Indices of sorted rows, by parallel kernels."""
    array = mx.nd.array(data().reshape(300, -1))
    return float((mx.nd.sqrt(mx.nd.argsort(array)) * 2 + array).sum().asscalar())


def network() -> mx.mod.Module:
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=16, kernel=(3, 3), name="conv")
    net = mx.sym.BatchNorm(mx.sym.relu(net), name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc")
    return mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))


def samples() -> mx.io.NDArrayIter:
    rng = np.random.RandomState(3)
    images = rng.rand(96, 3, 20, 20).astype(np.float32)
    return mx.io.NDArrayIter(images, rng.randint(0, 10, 96), 32)


def trained() -> float:
    """Train for two epochs from fixed parameters; a checksum of the result."""
    mx.random.seed(1)
    module = network()
    module.fit(samples(), num_epoch=2, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.1})
    return float(sum(np.abs(array.asnumpy()).astype(np.float64).sum()
                     for array in module.get_params()[0].values()))


def work() -> list[float]:
    return [eager(), trained()]


def child(task: Callable[[], object], end: Callable[[], None] = lambda: None) -> str:
    """What a forked process says: the result of the task, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(SECONDS)
        try:
            os.write(writer, repr(task()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode()
    end()
    _, status = os.waitpid(pid, 0)
    return said if status == 0 else f"status {status}"


def in_background(function: Callable[[], object], run: Callable[[], None]) -> None:
    """Run something while a thread repeats the function."""
    over, begun = threading.Event(), threading.Event()

    def repeat() -> None:
        while not over.is_set():
            function()
            begun.set()

    thread = threading.Thread(target=repeat)
    thread.start()
    begun.wait()
    try:
        run()
    finally:
        over.set()
        thread.join()


def after_use(count: int) -> tuple[object, list[object]]:
    """Children of a process whose parallel kernels have run."""
    expected = work()
    return expected, [child(work) for _ in range(count)]


def while_training(count: int) -> tuple[object, list[object]]:
    """Children of a process of which another thread trains."""
    expected, said = work(), []

    def fork() -> None:
        for number in range(count):
            time.sleep(0.003 * (number % 5))
            said.append(child(work))

    in_background(trained, fork)
    return expected, said


def while_compiling(count: int) -> tuple[object, list[object]]:
    """Children of a process of which another thread compiles, each time another kernel."""
    expected, said, left = work(), [], iter(range(10 ** 6))

    def compile_one() -> None:
        number = next(left)
        array = mx.sym.Variable("x")
        for step in range(number % 7 + 1):
            array = mx.sym.sin(array * (number + 2 + step)) + step
        array.bind(mx.cpu(), {"x": mx.nd.ones((5, 5))}).forward()

    def fork() -> None:
        for number in range(count):
            time.sleep(0.1 * (number % 7))
            said.append(child(work))

    in_background(compile_one, fork)
    return expected, said


def grandchildren(count: int) -> tuple[object, list[object]]:
    """Children of children."""
    expected = work()

    def nested() -> object:
        return work(), child(work)

    return (expected, repr(expected)), [child(nested) for _ in range(count)]


def _loaded(index: int) -> float:
    array = mx.nd.array(np.roll(data(), index).reshape(300, -1))
    return float(mx.nd.argsort(array).sum().asscalar())


def pool(count: int) -> tuple[object, list[object]]:
    """A pool of loaders, as multiprocessing forks it."""
    work()
    expected = [_loaded(index) for index in range(count)]
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return None, [repr(None) if value == wanted else f"{value}, not {wanted}" for value, wanted
                      in zip(workers.map_async(_loaded, range(count)).get(SECONDS), expected,
                             strict=True)]


class _Rows:
    """A data set of torch whose samples are computed by parallel kernels."""

    def __init__(self, count: int):
        rows = np.random.RandomState(1).rand(count, SIZE // 1000, 1000)
        self._rows = mx.nd.array(rows, dtype="float32")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> np.ndarray:
        row = self._rows[index:index + 1]
        return mx.nd.broadcast_add(mx.nd.sort(row), mx.nd.argsort(row)).asnumpy()[0]


def torch_loader(count: int) -> tuple[object, list[object]]:
    """Workers of torch's DataLoader, while the process trains on their batches."""
    import torch

    rows = _Rows(count)
    expected = [rows[index] for index in range(count)]
    loader = torch.utils.data.DataLoader(rows, batch_size=2, num_workers=2, timeout=SECONDS,
                                         multiprocessing_context="fork")
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1), mx.sym.Variable("label")),
        label_names=["label"])
    module.bind([("data", (2, SIZE // 1000, 1000))], [("label", (2, 1))])
    module.init_params()
    module.init_optimizer(optimizer_params={"learning_rate": 0})
    said = []
    for _ in range(2):
        for number, batch in enumerate(loader):
            module.forward_backward(mx.io.DataBatch([batch.numpy()], [np.zeros((2, 1))]))
            module.update()
            same = np.array_equal(batch.numpy(), expected[2 * number:2 * number + 2])
            said.append(repr(None) if same else f"batch {number} differs")
    return None, said


PROGRAMS = {"after use": after_use, "while a thread trains": while_training,
            "while a thread compiles": while_compiling, "children of children": grandchildren,
            "a pool of loaders": pool, "workers of torch": torch_loader}


def main() -> None:
    warnings.simplefilter("ignore")
    expected, said = PROGRAMS[sys.argv[1]](int(sys.argv[2]))
    for number, words in enumerate(said):
        if words != repr(expected):
            print(f"child {number}: {words or 'nothing'}, expected {expected}")
    print("over", len(said))


if __name__ == "__main__":
    main()
