"""Installed kernels: found by CPU level, refused where others may write, compiled better later."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbmod.base import ArgumentError
from nbmod.core.config import CONFIG
from nbmod.ops.build import levels, shipped, trust

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")
pytestmark = [
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"),
    pytest.mark.skipif(not levels.supported(), reason="no level for this CPU"),
    pytest.mark.skipif(importlib.util.find_spec(shipped.PACKAGE) is not None,
                       reason="those made here are not seen beside installed ones"),
]
LEVEL = (levels.supported() or [""])[0]

RUN = """
import sys
import numpy as np
from nbmod import cpu, sym
from nbmod.ops.build import store
from nbmod.ops.jit import kept_files
loaded, read = [], store.read_kernel
def note(path, installed=False):
    content = read(path, installed)
    loaded.append(installed) if content is not None else None
    return content
store.read_kernel = note
before = kept_files()
net = sym.softmax(sym.tanh(sym.Variable("data"))).simple_bind(cpu(), data=(256, 300))
net.arg_dict["data"][:] = np.linspace(-3, 3, 256 * 300).reshape(256, 300)
digits = net.forward(is_train=True)[0].asnumpy().tobytes()
import hashlib
print(loaded.count(True), loaded.count(False), kept_files() - before,
      hashlib.sha256(digits).hexdigest())
"""
LATER = """
import sys, time
from nbmod.execution import compile_ahead
from nbmod.ops.build import levels, shipped
levels.supported = shipped.supported = lambda: ["a better level", sys.argv[1]]
compile_ahead.IMPROVE_DELAY = 0
exec(sys.argv[2])
while not compile_ahead._improving.helpers:
    time.sleep(0.01)
compile_ahead._improving.helpers[0].wait(300)
print(kept_files())
"""


def run(cache, site="", code=RUN, words=(), **settings):
    """Kernels that a process loads from the installed folder and from the user's, those that it
    compiles, and a digest of its result; with what it prints on stderr."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NBMOD_")}
    env |= {"NBMOD_CACHE_DIR": str(cache), "NBMOD_COMPILERS": "1", **settings,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(site), env.get("PYTHONPATH", "")]))}
    done = subprocess.run([sys.executable, "-c", code, *words], env=env, timeout=300, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return *done.stdout.split(), done.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache compiled for the level, and the digest of the result."""
    cache = tmp_path_factory.mktemp("level")
    _, _, count, digest, errors = run(cache, NBMOD_CPU_LEVEL=LEVEL, NBMOD_SHIPPED="0")
    assert int(count) >= 3 and not errors
    return cache / "kernels", int(count), digest


@pytest.fixture
def site(compiled, tmp_path):
    """A folder on Python's path with these kernels as an installed package."""
    folder = tmp_path / "site" / shipped.PACKAGE / LEVEL
    folder.mkdir(parents=True, mode=0o755)
    for file in compiled[0].glob("*.kernel"):
        (folder / file.name).write_bytes(file.read_bytes())
    return tmp_path / "site"


def folder_of(site):
    return site / shipped.PACKAGE / LEVEL


def test_installed_kernels_are_loaded_and_nothing_is_compiled(compiled, site, tmp_path):
    _, count, digest = compiled
    for settings in ({}, {"NBMOD_CPU_LEVEL": LEVEL}):
        assert run(tmp_path / "empty", site, **settings) == (str(count), "0", "0", digest, "")


def test_the_switch_turns_them_off(compiled, site, tmp_path):
    loaded, own, count, *_ = run(tmp_path / "empty", site, NBMOD_SHIPPED="0")
    assert (loaded, own, int(count)) == ("0", "0", compiled[1])


def test_what_the_user_has_compiled_comes_first(compiled, site, tmp_path):
    run(tmp_path / "own", site, NBMOD_SHIPPED="0")
    assert run(tmp_path / "own", site)[:3] == ("0", str(compiled[1]), "0")


@pytest.mark.parametrize("settings", [{"NBMOD_SIMD_LANES": "4"}, {"NUMBA_OPT": "1"},
                                      {"NBMOD_CACHE": "0"}])
def test_kernels_of_other_settings_do_not_fit(site, tmp_path, settings):
    assert run(tmp_path / "empty", site, **settings)[0] == "0"


@posix
def test_without_a_folder_of_the_user_they_are_loaded(compiled, site, tmp_path):
    (tmp_path / "file").touch()
    loaded, _, _, digest, errors = run(tmp_path / "file" / "folder", site)
    assert (loaded, digest) == (str(compiled[1]), compiled[2])
    assert "cannot be kept" in errors


def test_another_version_of_nbmod_finds_none(site, tmp_path):
    """Names are digests of the sources; files of other names are not looked at."""
    for number, file in enumerate(folder_of(site).iterdir()):
        file.rename(file.with_name(f"other-{number:040x}.kernel"))
    loaded, _, count, _, errors = run(tmp_path / "empty", site)
    assert loaded == "0" and int(count) >= 3 and not errors


def test_damaged_ones_are_compiled(compiled, site, tmp_path):
    file = next(folder_of(site).glob("tanh*"))
    file.write_bytes(file.read_bytes()[:-1])
    loaded, _, count, *_ = run(tmp_path / "empty", site)
    assert (int(loaded), count) == (compiled[1] - 1, "1")


@posix
def test_folders_and_files_that_everyone_may_write_are_refused(compiled, site, tmp_path):
    file = next(folder_of(site).glob("tanh*"))
    file.chmod(0o666)
    loaded, _, count, _, errors = run(tmp_path / "empty", site)
    assert (int(loaded), count) == (compiled[1] - 1, "1")
    assert "because another user may have written it" in errors
    folder_of(site).chmod(0o777)
    loaded, _, _, _, errors = run(tmp_path / "other", site)
    assert loaded == "0" and "because other users may write there" in errors


@posix
def test_links_are_not_followed(site, tmp_path):
    folder_of(site).rename(tmp_path / "elsewhere")
    folder_of(site).symlink_to(tmp_path / "elsewhere")
    assert run(tmp_path / "empty", site)[0] == "0"


@posix
@pytest.mark.parametrize(("mode", "sources", "allowed"), [
    (0o644, 0o644, True), (0o664, 0o664, True), (0o664, 0o644, False), (0o666, 0o666, False)])
def test_installed_files_may_be_as_open_to_a_group_as_the_sources(monkeypatch, mode, sources,
                                                                  allowed):
    status = os.stat(trust.__file__)
    monkeypatch.setattr(trust.os, "stat", lambda _: os.stat_result([sources, *status[1:]]))
    assert trust.is_private(os.stat_result([mode, *status[1:]]), installed=True) is allowed


def test_the_best_installed_level_is_used(monkeypatch):
    monkeypatch.setattr(shipped, "supported", lambda: ["best", "good", "fair"])
    for names, found, below in ((["fair", "good", "other"], "good", True),
                                (["best", "fair"], "best", False), (["other"], "", False)):
        monkeypatch.setattr(shipped, "folders", lambda names=names: dict.fromkeys(names, Path()))
        shipped.level.cache_clear()
        assert (shipped.level(), shipped.is_below_host()) == (found, below)
    shipped.level.cache_clear()


def test_a_better_level_is_compiled_later_and_used_by_the_next_process(compiled, site, tmp_path):
    loaded, own, *_ = run(tmp_path / "own", site, LATER, [LEVEL, RUN], NBMOD_COMPILERS="2")
    assert (loaded, own) == (str(compiled[1]), "0"), "not in the same process"
    loaded, own, count, *_ = run(tmp_path / "own", site)
    assert (loaded, own, count) == ("0", str(compiled[1]), "0")


def test_nothing_is_compiled_later_where_the_level_is_the_hosts(site, tmp_path):
    code = RUN + "from nbmod.ops.build.shipped import level, is_below_host\nprint(is_below_host())"
    assert run(tmp_path / "own", site, code)[4] == "False"


def test_without_installed_kernels_binding_asks_llvm_nothing(tmp_path):
    code = ("import sys\nfrom nbmod import cpu, sym\n"
            "sym.relu(sym.Variable('x')).simple_bind(cpu(), x=(2, 3))\n"
            "print('llvmlite' in sys.modules)")
    assert run(tmp_path, code=code, NBMOD_SHIPPED="0")[0] == "False"


def test_an_unknown_level_is_an_error(monkeypatch):
    monkeypatch.setattr(CONFIG, "cpu_level", "x86-64-v9")
    with pytest.raises(ArgumentError, match=r"NBMOD_CPU_LEVEL is 'x86-64-v9', expected one of x86"):
        levels.chosen()


def test_a_level_after_numba_has_begun_is_an_error(tmp_path):
    code = ("import numba, numpy as np\nnumba.njit(lambda x: x + 1)(1)\n"
            "import nbmod as mx\nfrom nbmod.ops.jit import switch_here\n"
            "try:\n    switch_here(np.empty(1, np.int64), 0)\n"
            "except mx.MXNetError as error:\n    print(error)")
    level = next(name for name in levels.LEVELS if levels.LEVELS[name].machine
                 == levels.LEVELS[LEVEL].machine)
    assert "numba has already compiled for this host" in " ".join(
        run(tmp_path, code=code, NBMOD_CPU_LEVEL=level))


def test_levels_are_ordered_from_the_best():
    for machine in {level.machine for level in levels.LEVELS.values()}:
        sets = [set(level.features) for level in levels.LEVELS.values() if level.machine == machine]
        assert not any(one <= other for one, other in zip(sets, sets[1:], strict=False))
