"""Forks: children compute as their parent does, on the default threading layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks after threads have run")
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name, children", [
    ("after use", 3), ("while a thread trains", 6), ("while a thread compiles", 3),
    ("children of children", 2), ("a pool of loaders", 6)])
def test_children_compute_the_same(name, children):
    """A child that hangs ends by an alarm of its own; the time limit is for the parent."""
    done = subprocess.run([sys.executable, "-m", "tests.programs.forks", name, str(children)],
                          cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout == f"over {children}\n", done.stderr


def test_workers_of_torch_load_what_kernels_compute():
    pytest.importorskip("torch")
    test_children_compute_the_same("workers of torch", 8)


IMPORTED = """
import os
registered = []
os.register_at_fork = lambda **functions: registered.append(functions)
import nbmod as mx
assert not [each for each in registered if "nbmod" in str(each)], registered
"""


def test_nothing_is_registered_at_import():
    subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, check=True, timeout=100)


LOCKS = """
import os, threading
from nbmod.core import fork
theirs, ours = (fork.fresh(threading.RLock()) for _ in range(2))
entered = threading.Event()
fork.prepare()

def hold():
    with theirs:
        entered.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
entered.wait()
assert not theirs.acquire(blocking=False)
with ours:
    child = os.fork()
    if not child:
        os._exit(0 if theirs.acquire(blocking=False) and ours._is_owned() else 1)
assert os.waitpid(child, 0)[1] == 0
assert not theirs.acquire(blocking=False)
"""


def test_locks_of_other_threads_are_free_in_the_child_and_its_own_are_not():
    subprocess.run([sys.executable, "-W", "ignore", "-c", LOCKS], cwd=ROOT, check=True, timeout=100)


PROPERTIES = """
import os, threading
from nbmod.core import fork
from nbmod.graph import Graph
lock, entered = vars(Graph)["variables"].lock, threading.Event()
fork.prepare()

def hold():
    with lock:
        entered.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
entered.wait()
child = os.fork()
if not child:
    os._exit(0 if lock.acquire(blocking=False) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached_property has no lock")
def test_locks_of_properties_are_free_in_the_child():
    """A child would wait for ever for a value that a thread of the parent was computing."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROPERTIES], cwd=ROOT, check=True,
                   timeout=100)
