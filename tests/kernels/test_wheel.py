"""The wheel of `nbmod-kernels`: built by one command, and enough for the networks in it.

A wheel of one suite is built here; NBMOD_KERNELS_WHEEL names a whole one, for the test of all
suites at all levels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nbmod
from bench.workloads import SUITES
from kernels import rehearsal, wheel
from nbmod.ops.build import levels, shipped

ROOT = Path(__file__).parents[2]
LEVEL = (levels.supported() or [""])[0]
pytestmark = [
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"),
    pytest.mark.skipif(not LEVEL, reason="no level for this CPU"),
]
WHOLE = os.environ.get("NBMOD_KERNELS_WHEEL", "")
RUN = """
import sys
from bench.workloads import SUITES
from nbmod import cpu
from nbmod.ops.jit import kept_files
for workload in (one for suite in sys.argv[1:] for one in SUITES[suite]()):
    executor = workload.build().simple_bind(
        cpu(), "write" if workload.training else "null", **workload.shapes)
    executor.forward(is_train=workload.training)
    if workload.training:
        executor.backward(executor.outputs)
    print(workload.name, kept_files())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed wheel, which has the kernels of the small networks."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "kernels", "--level", LEVEL, "--program", "small", "--out", str(folder)]
    printed = python(*command)
    assert f"{LEVEL}: " in printed and " MB" in printed
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as file:
        file.extractall(folder / "site")
    return folder / "site"


def python(*words, **settings):
    done = subprocess.run([sys.executable, *words], cwd=ROOT, check=False, timeout=900,
                          env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_networks_compile_nothing(site, tmp_path):
    path = os.pathsep.join([str(site), str(ROOT)])
    printed = python("-c", RUN, "small", PYTHONPATH=path, NBMOD_CACHE_DIR=str(tmp_path),
                     NBMOD_SHIPPED="1").splitlines()
    assert len(printed) == 6 and all(line.endswith(" 0") for line in printed), printed


@pytest.mark.skipif(not WHOLE, reason="NBMOD_KERNELS_WHEEL names no wheel")
@pytest.mark.parametrize("level", levels.supported())
def test_no_suite_compiles_anything(level, tmp_path):
    with zipfile.ZipFile(WHOLE) as file:
        file.extractall(tmp_path / "site")
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    printed = python("-c", RUN, *SUITES, PYTHONPATH=path, NBMOD_CACHE_DIR=str(tmp_path / "cache"),
                     NBMOD_SHIPPED="1", NBMOD_CPU_LEVEL=level).splitlines()
    assert len(printed) > 100 and all(line.endswith(" 0") for line in printed), printed


def test_it_is_for_this_version_and_these_libraries(site):
    (folder,) = site.glob("*.dist-info")
    metadata = (folder / "METADATA").read_text()
    assert f"Requires-Dist: nbmod=={nbmod.__version__}" in metadata
    assert "Requires-Dist: numba==" in metadata and "Requires-Dist: numpy==" in metadata
    tag = f"Tag: cp{sys.version_info[0]}{sys.version_info[1]}-none-{wheel.platform_tag(LEVEL)}"
    assert tag in (folder / "WHEEL").read_text()
    assert {path.name for path in (site / shipped.PACKAGE).iterdir()} == {"__init__.py", LEVEL}


def test_jobs_of_a_program_are_recorded_and_not_run(monkeypatch):
    threads: list[int] = []
    monkeypatch.setattr(rehearsal, "set_num_threads", threads.append)
    found = rehearsal.jobs(["rnn"])
    assert set(threads) == set(rehearsal.THREADS)
    names = {kernel.__name__ for kernel, _ in found}
    assert {"switch_pool", "forward_layer", "backward_layer"} <= names
    assert len(found) == len(set(found))


def test_only_examples_that_end_are_rehearsed():
    files = rehearsal.training_examples()
    names = {file.name for file in files}
    assert names.isdisjoint({"serve.py", "distributed.py"})
    assert {"lenet.py", "sparse_linear.py"} <= names
    assert all(map(callable, map(rehearsal.main_of, files)))     # each can be imported alone
