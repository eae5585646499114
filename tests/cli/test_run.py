"""`nbmod run`: programs cannot tell it from Python, and what they start has nbmod as `mxnet`."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nbmod.startup import set_up_children
from tests.notebooks import NOTEBOOK

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import atexit, json, sys
me = sys.modules[__name__]
atexit.register(lambda: print("at exit", sys.modules["__main__"] is me, kept))
kept = type("Local", (), {}).__module__
def told(name):
    value = globals().get(name, "none")
    return value if value is None or isinstance(value, str) else (
        getattr(value, "name", None) or getattr(type(value), "__name__"))
names = ["__name__", "__file__", "__package__", "__spec__", "__loader__", "__doc__"]
print(json.dumps([{name: told(name) for name in names}, sys.argv, sys.path[:2], __debug__,
                  str(sys.flags), told.__code__.co_filename, told.__code__.co_flags]))
"""
WAYS = {"a file": ["probe.py", "-m", "x"], "a file elsewhere": ["package/part.py"],
        "a link": ["link.py"], "a module": ["-m", "probe", "-c", "--lr=1"],
        "a module of a package": ["-m", "package.part", "x"], "a package": ["-m", "package", "x"],
        "code": ["-c", PROBE, "-m", "y"], "input": ["-", "x"], "input alone": [],
        "a folder": ["package", "x"], "an archive": ["archive.zip"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a program as a file, a link, a package and an archive."""
    folder = tmp_path_factory.mktemp("run") / "project"
    (folder / "package").mkdir(parents=True)
    for name in ("probe.py", "package/part.py", "package/__main__.py"):
        (folder / name).write_text(PROBE)
    (folder / "package/__init__.py").touch()
    (folder / "link.py").symlink_to(folder / "package/part.py")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", PROBE)
    return folder


def start(folder, *words, text="", flags=(), **environment):
    """A program under `nbmod run`."""
    return python(folder, *flags, "-m", "nbmod", "run", *words, text=text, **environment)


def python(folder, *words, text="", **environment):
    variables = {name: value for name, value in os.environ.items()
                 if name not in ("NBMOD_GPU_TO_CPU", "NBMOD_RUN")}
    variables |= {"PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, *words], cwd=folder, input=text, capture_output=True,
                          text=True, timeout=120, check=False, env=variables)


@pytest.mark.parametrize("way", WAYS)
def test_programs_cannot_tell_it_from_python(project, way):
    if way == "a link" and os.name == "nt":
        pytest.skip("links need rights on Windows")
    text = PROBE if way.startswith("input") else ""
    flags = ["-O", "-B"]    # the program and `sys.flags` shall have them
    expected = python(project, *flags, *WAYS[way], text=text)
    assert expected.returncode == 0 and "at exit True __main__" in expected.stdout
    ran = start(project, *WAYS[way], text=text, flags=flags)
    assert (ran.stdout, ran.stderr) == (expected.stdout, "")


ENDINGS = {
    "an error": "def f():\n    1 / 0\nf()", "text": "raise SystemExit('the reason')",
    "status": "raise SystemExit(3)", "an interrupt": "raise KeyboardInterrupt",
    "syntax": "x = (1,\n", "an error of a thread": "import threading\n"
    "def f():\n    raise ValueError\nt = threading.Thread(target=f)\nt.start()\nt.join()"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_programs_end_as_under_python(project, ending):
    """Exit status and traceback, without the frames of what runs the program."""
    (project / "ending.py").write_text(ENDINGS[ending])
    expected, ran = python(project, "ending.py"), start(project, "ending.py")
    assert (ran.returncode, ran.stderr) == (expected.returncode, expected.stderr)
    assert ending in ("an error of a thread", "an interrupt") or ran.returncode in (1, 3)


@pytest.mark.parametrize("words, text", [
    (["pytest"], "no file 'pytest'; a tool is started by -m pytest"),
    (["-m", "none"], "no module 'none'"), (["-c"], "code"),
    (["-m", "none.part"], "no module 'none.part'"), (["-m"], "a module"), (["--lr"], "'--lr'"),
    (["-m", "data"], "'data' has no __main__.py"), (["data"], "'data' has no __main__.py")])
def test_what_is_no_program_is_one_line(project, words, text):
    (project / "data").mkdir(exist_ok=True)
    ran = start(project, *words)
    assert ran.returncode == 2 and ran.stdout == "" and ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("nbmod: run: ") and text in ran.stderr


WORKERS = """
import multiprocessing, subprocess, sys
import numpy as np
from collections import Mapping
import mxnet as mx
from mxnet.io import DataBatch

CHILD = "import numpy as np, sys; x = np.int; import mxnet; print(mxnet.nd.ones(2, mxnet.gpu(1)))"

def work(queue, method, depth):
    array = mx.nd.ones((2,), ctx=mx.gpu(1)) * np.int(3)
    queue.put((depth, array, str(array.context), mx.mod.Module.__module__, isinstance({}, Mapping),
               isinstance(DataBatch([array]), mx.io.DataBatch), sys.argv,
               any("startup" in folder for folder in sys.path)))
    if depth:
        nested = multiprocessing.get_context(method).Process(target=work, args=(queue, method, 0))
        nested.start()
        nested.join()

if __name__ == "__main__":
    method = sys.argv[1]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, method, 1))
    process.start()
    for _ in range(2):
        depth, array, *rest = queue.get(timeout=30)
        print(depth, array.asnumpy().tolist(), *rest)
    process.join()
    print(process.exitcode)
    print(subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True).stdout)
"""
TOLD = "[3.0, 3.0] cpu(1) nbmod.module.module True True ['{}', '{}'] False"
METHODS = [method for method in ("spawn", "forkserver", "fork")
           if method in multiprocessing.get_all_start_methods()]


def workers_output(method, script):
    lines = [f"{depth} {TOLD.format(script, method)}" for depth in (1, 0)]
    return "\n".join([*lines, "0", "", "[1. 1.]", "<NDArray 2 @cpu(1)>", "", ""])


@pytest.mark.parametrize("method", METHODS)
def test_workers_have_what_the_program_has(project, method):
    """MXNet, old names and devices: in workers, in their own, and in other Pythons."""
    (project / "workers.py").write_text(WORKERS)
    ran = start(project, "workers.py", method)
    assert ran.stdout == workers_output(method, "workers.py"), ran.stderr


def test_modules_start_workers(project):
    (project / "package/workers.py").write_text(WORKERS)
    ran = start(project, "-m", "package.workers", "spawn")
    script = str(project / "package/workers.py")
    assert ran.stdout == workers_output("spawn", script), ran.stderr


CHILDREN = """
import os, subprocess, sys
def child(code, **environment):
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment})
idle = "import sys; print(sorted({'nbmod', 'numpy', 'mxnet'} & sys.modules.keys()), path)"
child(idle.replace("path", "[p for p in sys.path if 'startup' in p]"))
child("import mxnet, mxnet_predict; from mxnet.gluon.nn import basic_layers; print(mxnet.__doc__)")
child("import numpy; print(mxnet_of_site, numpy.float_)")
child("import mxnet, collections; print(mxnet.real, hasattr(collections, 'Mapping'))",
      NBMOD_RUN="3.9 /usr")
import mxnet
print(mxnet.__doc__, os.environ["NBMOD_GPU_TO_CPU"])
"""


def test_children_keep_what_their_environment_has(project):
    """Its `sitecustomize`, quick starts, and the real MXNet in another Python's children."""
    site = project / "site"
    (site / "mxnet").mkdir(parents=True)
    (site / "mxnet/__init__.py").write_text("real = 'real'")
    (site / "sitecustomize.py").write_text("import builtins; builtins.mxnet_of_site = 'own'")
    (project / "children.py").write_text(CHILDREN)
    ran = start(project, "children.py", PYTHONPATH=os.pathsep.join([str(site), str(ROOT)]),
                NBMOD_GPU_TO_CPU="0", PYTHONUNBUFFERED="1")
    name = "nbmod under the name of MXNet 1.9.1"
    assert ran.stdout.splitlines() == [
        "[] []", name, "own <class 'numpy.float64'>", "real False", f"{name} 0"], ran.stderr


USES = """
import multiprocessing, urllib, xml, numpy
import mxnet
from numpy.lib.arraysetops import union1d
print(multiprocessing.pool.ThreadPool(1).map(abs, [-1]))
print(urllib.request.__name__, xml.etree.__name__)
print(numpy.lib.arraysetops.union1d is union1d, numpy.lib.function_base.__name__ > "")
print(hasattr(multiprocessing, "absent"), hasattr(multiprocessing, "_absent"))
"""


def test_modules_are_there_that_programs_do_not_import(project):
    """`import mxnet` imports them there; NumPy 2 has renamed those of `numpy.lib`."""
    assert start(project, "-c", USES).stdout == (
        "[1]\nurllib.request xml.etree\nTrue True\nFalse False\n")


def test_the_path_of_children_keeps_its_entries(monkeypatch):
    for name in ("NBMOD_RUN", "NBMOD_GPU_TO_CPU"):
        monkeypatch.setenv(name, "0")
    here, own = str(ROOT / "nbmod/startup"), os.pathsep.join(["a", "", "b"])
    monkeypatch.setenv("PYTHONPATH", own)
    for _ in range(2):    # a program under `run` may start another one by it
        set_up_children()
        assert os.environ["PYTHONPATH"] == os.pathsep.join([here, own])
    monkeypatch.setenv("PYTHONPATH", "")    # without any: an empty entry is the current folder
    set_up_children()
    assert os.environ["PYTHONPATH"] == here


def test_a_mapping_that_is_switched_off_stays_off(project):
    ran = start(project, "-c", "import mxnet; mxnet.nd.ones(1, mxnet.gpu())", NBMOD_GPU_TO_CPU="0")
    assert ran.returncode == 1 and "MXNetError: gpu(0) was asked for" in ran.stderr


def test_notebook_kernels_have_mxnet(project):
    """Of a program that starts them, as `jupyter` does under `nbmod run -m jupyter`."""
    for package in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} IS NOT INSTALLED: kernels of notebooks are not tested")
    ran = start(project, "-c", NOTEBOOK)
    assert ran.stdout == "[1. 1.]\n\n", ran.stderr
