"""The compile cache on disk: compilation ahead, concurrent processes, unwritable folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import main as cli
from nbmod.core import locks
from nbmod.execution import compile_ahead, steps
from nbmod.ops import jit
from nbmod.ops.build import progress
from tests.terminals import Terminal, screen

LATER = """
import sys
from nbmod import sym
from nbmod.ops.jit import kept_files
from nbmod.cli.warmup import warm
before = kept_files()
warm(sym.load(sys.argv[1]), {"data": (256, 300)}, training=False)
print(before, kept_files())
"""


@pytest.fixture(autouse=True)
def _compiling(monkeypatch):
    """Processes compile kernels that may be installed, too."""
    monkeypatch.setenv("NBMOD_SHIPPED", "0")


@pytest.fixture
def saved(tmp_path):
    """A small network in a file."""
    net = mx.sym.softmax(mx.sym.tanh(mx.sym.Variable("data")))
    net.save(str(tmp_path / "net-symbol.json"))
    return str(tmp_path / "net-symbol.json")


def begin(folder, *words):
    """A process with compiled code in `folder`."""
    return subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"NBMOD_CACHE_DIR": str(folder)})


def end(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_two_processes_warm_an_empty_cache_and_a_third_compiles_nothing(saved, tmp_path):
    words = "-m", "nbmod", "warmup", saved, "--shape", "data=256,300"
    both = [begin(tmp_path / "kept", *words) for _ in range(2)]
    for process in both:
        out, err = end(process)
        assert " kernels compiled in " in out and str(tmp_path / "kept") in out and not err
    out, err = end(begin(tmp_path / "kept", "-c", LATER, saved))
    before, after = map(int, out.split())
    assert before == after >= 2 and not err


def test_ten_processes_share_an_empty_cache(saved, tmp_path):
    """All results are there, and every kernel is compiled once."""
    running = [begin(tmp_path / "kept", "-c", LATER, saved) for _ in range(10)]
    counts = [tuple(map(int, end(process)[0].split())) for process in running]
    assert max(after for _, after in counts) == len(list((tmp_path / "kept").rglob("*.kernel")))
    assert not list((tmp_path / "kept" / "kernels").glob("*.kernel.*"))


def test_a_reinstalled_package_compiles_nothing(saved, tmp_path):
    """Other paths and times of the same files."""
    out, _ = end(begin(tmp_path / "kept", "-c", LATER, saved))
    package = Path(mx.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "nbmod", copy_function=shutil.copyfile,
                    ignore=shutil.ignore_patterns("__pycache__"))
    moved = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n" + LATER + (
        "import nbmod; print(nbmod.__file__, file=sys.stderr)")
    again, path = end(begin(tmp_path / "kept", "-c", moved, saved))
    assert path.startswith(str(tmp_path))
    assert again.split() == [out.split()[1]] * 2


HELPED = """
import sys
from nbmod.execution import compile_ahead as ahead
from nbmod import cpu, nd, sym
from nbmod.ops import jit
jit.num_threads = ahead.num_threads = lambda: 2
ahead.MIN_NEW_KINDS = 3
if len(sys.argv) > 2:
    ahead.CHILD = sys.argv[2]
before = jit.kept_files()
net = sym.load(sys.argv[1]).simple_bind(cpu(), a=(80, 100), b=(90, 100), c=(70, 100))
print(net.forward()[2].asnumpy().max(), len(ahead._current.helpers), jit.kept_files() - before)
if len(sys.argv) == 2 and ahead._current.helpers:
    print(ahead._current.helpers[0].wait())
"""


@pytest.fixture
def several(tmp_path):
    """A network of three kernels."""
    net = mx.sym.Group([getattr(mx.sym, op)(mx.sym.Variable(name))
                        for op, name in (("sin", "a"), ("tanh", "b"), ("cos", "c"))])
    net.save(str(tmp_path / "several-symbol.json"))
    return str(tmp_path / "several-symbol.json")


def test_another_process_helps_to_compile(several, tmp_path):
    out, err = end(begin(tmp_path / "kept", "-c", HELPED, several))
    value, helpers, compiled, status = out.split()
    assert (value, helpers, status) == ("1.0", "1", "0") and int(compiled) >= 3 and not err


@pytest.mark.parametrize("child", ["import os; os._exit(1)", "import time; time.sleep(600)"])
def test_no_help_does_no_harm(several, tmp_path, child):
    """A process that ends at once, one that does nothing."""
    out, _ = end(begin(tmp_path / "kept", "-c", HELPED, several, child))
    assert out.split()[:2] == ["1.0", "1"]


def other(several, folder, code):
    """A process that was started to compile for the network."""
    bound = mx.sym.load(several).simple_bind(mx.cpu(), a=(80, 100), b=(90, 100), c=(70, 100))
    process = begin(folder, "-c", code)
    request = compile_ahead._request(bound.planned) | {"begin": 1.0, "idle": False}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return process


def test_the_other_process_compiles_all_and_runs_nothing(several, tmp_path):
    code = compile_ahead.CHILD + "from nbmod.ops.jit import kept_files; print(kept_files())"
    with other(several, tmp_path / "kept", code) as process:
        told, kept = process.stdout.read().splitlines()
        errors = process.stderr.read()
    assert process.returncode == 0 and int(kept) >= 3, errors
    assert all(Path(name).exists() for name in json.loads(told)) and len(json.loads(told)) >= 3
    out, _ = end(begin(tmp_path / "kept", "-c", HELPED, several))
    # none but the one that sets the mode of threads, which no step of the network requires
    assert out.split()[:2] in (["1.0", "0"], ["1.0", "1"]) and int(out.split()[2]) <= 1


def test_the_other_process_ends_with_this_one(several, tmp_path):
    process = other(several, tmp_path / "kept", compile_ahead.CHILD)
    process.communicate(timeout=60)
    assert not list((tmp_path / "kept").rglob("*.kernel"))


INTERRUPTED = """
import sys, threading, time, signal, os
import numpy as np
import nbmod as mx
from nbmod.ops.build import store
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
x = mx.sym.Variable("data")
for number, op in enumerate(["sin", "tanh", "cos", "exp", "sqrt", "square", "cosh", "arctan"]):
    x = getattr(mx.sym, op)(mx.sym.Convolution(x, kernel=(3, 3), num_filter=3 + number))
net = x.simple_bind(mx.cpu(), data=(2, 3, 40, 40))
while True:
    net.forward(is_train=True)
    net.backward()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals between processes")
@pytest.mark.parametrize("delay", ["0.3", "1.7", "3.1"])
def test_an_interrupt_ends_compilation_and_leaves_nothing(tmp_path, delay):
    process = begin(tmp_path / "kept", "-c", INTERRUPTED, delay)
    err = process.communicate(timeout=120)[1]
    assert process.returncode != 0 and err.rstrip().endswith("KeyboardInterrupt"), err
    assert not list((tmp_path / "kept").rglob("*.kernel.*"))


def test_a_locked_file_is_waited_for(tmp_path):
    with locks.locked(tmp_path / "folder" / "lock", 0) as first:
        with locks.locked(tmp_path / "folder" / "lock", 0.1) as second:
            assert first and not second
    with locks.locked(tmp_path / "folder" / "lock", 0) as third:
        assert third
    (tmp_path / "file").write_text("")
    with locks.locked(tmp_path / "file" / "lock", 0) as free:
        assert free  # no file can exist there


def test_a_dry_run_runs_no_kernel():
    x, y = np.ones(5, "f"), np.zeros(5, "f")
    with jit.dry_run() as found:
        copied(x, y)
        copied(x, y)
    assert [(kernel.__name__, len(types)) for kernel, types in found] == [("copied", 2)]
    assert not y.any()
    copied(x, y)
    assert y.all()


@jit.kernel
def copied(x, y):
    for i in range(len(x)):
        y[i] = x[i]


def test_common_layers_are_warmed(capsys):
    assert cli.main(["warmup"]) == 0
    assert capsys.readouterr().out.endswith(f"kept in {jit.cache_folder()}\n")


def test_what_is_missing_is_said(saved, capsys, monkeypatch):
    assert cli.main(["warmup", saved]) == 1
    assert "--shape data=1,3,224,224" in capsys.readouterr().err
    monkeypatch.setattr(progress.CONFIG, "cache", False)
    assert cli.main(["warmup"]) == 1
    assert "NBMOD_CACHE=0" in capsys.readouterr().err


def test_where_nothing_can_be_written_one_warning_says_so(saved, tmp_path):
    """The folder's path is that of a file."""
    (tmp_path / "file").write_text("")
    out, err = end(begin(tmp_path / "file" / "kept", "-c", LATER, saved))
    assert out.split() == ["0", "0"]
    assert err.count("UserWarning: compiled kernels cannot be kept in") == 1
    assert "NBMOD_CACHE_DIR" in err


def events(listener, *starts, name="_gemm"):
    """Send starts and ends of compilations."""
    data = {"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__name__=name))}
    for is_start in starts:
        listener.notify(SimpleNamespace(is_start=is_start, data=data))


def test_long_compilation_is_explained_once(capsys, monkeypatch):
    """Nested compilations do not count twice, and nothing is printed to stdout."""
    clock = iter([0, 0.2, 0.5, 0.6, 10, 10.3, 10.7, 20, 21, 29])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    listener, told = progress.CompileListener(1.0), []
    for start in (True, True, False, False, True, True, False, False, True, False):
        events(listener, start)
        told.append(capsys.readouterr())
    assert [each.err.count("compiling kernels") for each in told] == [
        0, 0, 0, 0, 0, 0, 1, 0, 0, 0]     # while the second kernel is compiled
    assert not any(each.out for each in told)


def shown_line(terminal):
    return [part for part in terminal.getvalue().split("\r") if part.strip()][-1].rstrip()


def test_a_terminal_shows_what_is_compiled_and_how_much_is_left(monkeypatch, tmp_path, caplog):
    """By 3 kernels of 2 s, and those that have been compiled."""
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_locate", lambda: ("a_layer", 5))
    listener = progress.CompileListener(1.0)
    caplog.set_level("INFO", "nbmod")
    files = [tmp_path / name for name in "abcd"]
    progress.expect(files, 2)
    try:
        events(listener, True)
        assert shown_line(terminal) == "nbmod: compiling a_layer, once on this machine: 4 s left"
        clock[0] = 2.4
        events(listener, True)      # a helper of the kernel
        assert shown_line(terminal) == "nbmod: compiling a_layer, once on this machine: 2 s left"
        clock[0] = 6.0
        events(listener, False, False)
        assert screen(terminal.getvalue()) == ([""], 0) and "write" not in vars(terminal)
        files[0].touch()
        monkeypatch.setattr(progress, "_locate", lambda: ("long_" * 30, 5))
        events(listener, True, name="_pool")
        line = shown_line(terminal)
        assert len(line) == 79 and line.startswith("nbmod: compiling long_long_")
        assert line.endswith("..., once on this machine: 4 s left")
    finally:
        progress.expect([])
        events(listener, False)
    assert screen(terminal.getvalue()) == ([""], 0)
    assert caplog.messages == ["compiling kernel _gemm, 0 done, 4 left",
                               "compiling kernel _pool, 1 done, 3 left"]


def test_the_line_names_layers_of_the_user():
    """A pass inserts reorderings of the data between them, and there is a backward pass."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=16, name="first")
    net = mx.sym.Activation(net, act_type="tanh", name="second")
    executor = mx.sym.make_loss(mx.sym.Pooling(net, kernel=(2, 2), name="third"),
                                name="fourth").simple_bind(mx.cpu(), data=(2, 3, 8, 8))
    places = []
    found = executor.planned.bound

    class Calls:
        def __getitem__(self, index):
            places.append(compile_ahead._running_layer())

    steps.run_steps(SimpleNamespace(compiled=found.compiled, calls=Calls()), 0,
                    len(found.compiled.nodes))
    assert {name for name, _ in places} <= {"data", "first", "second", "third", "fourth"}
    assert {"first", "second", "third"} <= {name for name, _ in places}
    kinds = [left for _, left in places]
    assert kinds == sorted(kinds, reverse=True) and kinds[-1] == 0
    assert compile_ahead._running_layer() is None


def test_who_does_not_watch_is_told_of_long_compilations_only(tmp_path, monkeypatch):
    code = """
from nbmod.ops import jit
from nbmod.ops.build import progress
import numpy as np
progress.LONG = 0
progress.PATIENCE *= PATIENCE
@jit.kernel
def double(x):
    for i in range(len(x)):
        x[i] *= 2
double(np.ones(3))
"""
    def told(patience, **variables):
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.py"
        path.write_text(code.replace("PATIENCE\n", f"{patience}\n"))
        with monkeypatch.context() as changed:
            for name, value in variables.items():
                changed.setenv(name, value)
            out, err = end(begin(path.with_suffix(""), path))
        assert not out
        return err.count("nbmod: compiling kernels") if err else 0

    assert [told(9), told(0), told(0, NBMOD_PROGRESS="0"), told(9, NBMOD_DEBUG="1")] == [0, 1, 0, 1]
