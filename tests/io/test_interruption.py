"""Ctrl-C ends all work and leaves nothing behind; so does the end of a process.

All programs run concurrently, each in a process and a session of its own.  In some a thread hangs
for ten minutes, in an iterator that a user wrote: waiting for it would exceed the time limit.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from tests.io.test_native_iterators import csv
from tests.programs import image_record_programs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = {
    "ImageRecordIter": "over(mx.io.ImageRecordIter(**record))",
    "CSVIter": "over(mx.io.CSVIter(data_csv='a.csv', data_shape=(3,), batch_size=3))",
    "ImageIter": "over(mx.image.ImageIter(3, (3, 8, 8), path_imgrec='a.rec'))",
    "PrefetchingIter": "over(mx.io.PrefetchingIter(mx.io.ImageRecordIter(**record)))",
    "PrefetchingIter that hangs": "over(mx.io.PrefetchingIter(Hanging()))",
    "fit": "fit(mx.io.ImageRecordIter(**record))",
    "fit that hangs": "fit(mx.io.PrefetchingIter(Hanging()))",
    "im2rec": "im2rec(0.01)",
    "hanging im2rec": "im2rec(600)",
}
PRELUDE = """
    import os, signal, sys, time
    import numpy as np
    import nbmod as mx

    # Who runs the tests in the background may have taught its children to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    record = dict(path_imgrec='a.rec', data_shape=(3, 8, 8), batch_size=3, verbose=False,
                  preprocess_threads=3)

    def ready():
        os.write(1, b'ready\\n')    # in one piece, whatever other threads write

    def over(iterator):
        while True:
            for batch in iterator:
                ready()
            iterator.reset()

    class Hanging(mx.io.NDArrayIter):
        def __init__(self):
            super().__init__(np.zeros((30, 3, 8, 8)), np.zeros(30), 3)

        def next(self):
            if self.cursor > 6:
                ready()
                time.sleep(600)
            return super().next()

    def fit(iterator):
        net = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=7)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name='softmax'))
        module.fit(iterator, num_epoch=10 ** 6, batch_end_callback=lambda parameters: ready())

    def im2rec(seconds):
        from nbmod.cli import main as cli
        from nbmod.cli import im2rec
        im2rec._recoded = lambda data, options: ready() or time.sleep(seconds) or data
        sys.exit(cli.main(['im2rec', '--num-thread', '2', name, '.']))
"""


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Every program, while it is working."""
    folder = tmp_path_factory.mktemp("interrupted")
    image_record_programs.write(mx, str(folder), [(16, 20)] * 7, list(range(7)))
    (folder / "a.csv").write_bytes(csv(np.arange(21.).reshape(7, 3)))
    (folder / "none.png").write_bytes(b"image")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    started = {}
    for name, program in PROGRAMS.items():
        (folder / f"{name}.lst").write_text("0\t0\tnone.png\n" * 100_000)
        code = f"name = {name!r}\n{textwrap.dedent(PRELUDE)}{program}"
        started[name] = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    yield started
    for process in started.values():
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_ends_everything(processes, name):
    process = processes[name]
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if "im2rec" in name:
        assert process.returncode == 130 and "interrupted" in errors
    else:
        assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize("name", ["ImageRecordIter", "CSVIter", "PrefetchingIter"])
def test_threads_end_with_an_iterator_that_is_let_go_of_in_mid_epoch(tmp_path, name):
    image_record_programs.write(mx, str(tmp_path), [(16, 20)] * 7, list(range(7)))
    (tmp_path / "a.csv").write_bytes(csv(np.arange(21.).reshape(7, 3)))
    before = set(threading.enumerate())
    iterator = {
        "ImageRecordIter": lambda: mx.io.ImageRecordIter(
            path_imgrec=str(tmp_path / "a.rec"), data_shape=(3, 8, 8), batch_size=2,
            verbose=False),
        "CSVIter": lambda: mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(3,),
                                         batch_size=2),
        "PrefetchingIter": lambda: mx.io.PrefetchingIter(
            mx.io.NDArrayIter(np.zeros((9, 2)), batch_size=2))}[name]()
    iterator.next()
    started = set(threading.enumerate()) - before
    assert started
    del iterator
    deadline = time.monotonic() + 60
    while any(thread.is_alive() for thread in started) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not any(thread.is_alive() for thread in started)
