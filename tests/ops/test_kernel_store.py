"""The compile cache: files that are complete, private and right, or are compiled again."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG, Config
from nbmod.ops import jit
from nbmod.ops.build import store, trust

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache of this process."""
    monkeypatch.setattr(CONFIG, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(CONFIG, "cache", True)
    caches = (store.cache_folder, store._warn, store._delete_old,
              trust.is_private_folder)
    for each in caches:
        each.cache_clear()
    yield tmp_path / "cache" / "kernels"
    for each in caches:
        each.cache_clear()


class Pair(NamedTuple):
    """Two integers, read by name."""

    first: int
    second: int


class Reversed(NamedTuple):
    """The same in another order."""

    second: int
    first: int


def fill_kernel():
    """A new kernel with a cache of its own."""

    @jit.kernel
    def fill(x, pair):
        for i in range(len(x)):
            x[i] = pair.first

    return fill


ONE_TWO = Pair(1, 2)


def filled(pair=ONE_TWO):
    """The value that a new kernel assigns, and whether it was loaded."""
    kernel, x = fill_kernel(), np.zeros(3)
    kernel(x, pair)
    return x[0], bool(kernel.compile().stats.cache_hits)


def the_file(folder):
    (path,) = folder.glob("*.kernel")
    return path


needs_compiler = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1",
                                    reason="nothing is compiled")
pytestmark = needs_compiler


def test_what_one_kernel_compiles_the_next_loads(folder):
    assert filled() == (1, False)
    assert filled() == (1, True)
    assert store.kept_files() == 1
    assert fill_kernel().compile().stats.cache_path == str(folder)


def test_files_hold_machine_code_without_bitcode(folder):
    """Two thirds of a file, which only linking the kernel into another one would need."""
    assert filled() == (1, False)
    _, kind, (code, bitcode) = pickle.loads(store.read_kernel(the_file(folder)))[0]
    assert kind == "object" and b"fill" in code and len(bitcode) < 2000


def test_files_hold_nothing_of_the_globals_of_an_executed_function(folder):
    """numba keeps these where the function is of no module: arrays, and what cannot be pickled."""
    scope = {"jit": jit, "lock": threading.Lock(), "large": np.ones(100_000)}
    for _ in range(2):
        exec("@jit.kernel\ndef double(x):\n    for i in range(len(x)):\n        x[i] *= 2\n", scope)
        x = np.ones(3)
        scope["double"](x)
        assert x.tolist() == [2, 2, 2]
        (file,) = folder.glob("double-*")
        assert file.stat().st_size < 100_000


def test_named_tuples_of_the_same_types_are_told_apart(folder):
    """Code reads fields by their position."""
    Reversed.__name__ = Reversed.__qualname__ = "Pair"
    assert filled(Pair(1, 2)) == (1, False)
    assert filled(Reversed(2, 1)) == (1, False)


def test_cycles_are_not_collected_during_compilation(folder, monkeypatch):
    """And as before it afterwards, even if it fails."""
    seen, load = [], store.KernelStore.load_overload

    def noting(*args):
        seen.append(gc.isenabled())
        return load(*args)

    monkeypatch.setattr(store.KernelStore, "load_overload", noting)
    assert filled() == (1, False)
    assert gc.isenabled() and seen == [False]
    with pytest.raises(mx.MXNetError, match="fill"):
        fill_kernel()(np.zeros(3), 1)
    assert gc.isenabled()
    gc.disable()
    try:
        assert filled() == (1, True) and not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("damage", [
    lambda data: b"",
    lambda data: data[:20],
    lambda data: data[:-1],
    lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    lambda data: b"another format\n" + data,
    lambda data: data + b"more",
], ids=["empty", "head", "cut", "bit", "format", "longer"])
def test_damaged_files_are_compiled_again(folder, damage):
    filled()
    path = the_file(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert filled() == (1, False)
    assert filled() == (1, True)


def test_a_file_of_another_meaning_is_compiled_again(folder):
    """With a right digest: such as a pickle of a class that has been renamed."""
    filled()
    store.write_kernel(the_file(folder), b"cnbmod\nNoSuchClass\n.")
    assert filled() == (1, False)


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_may_write_are_compiled_again(folder, mode):
    filled()
    the_file(folder).chmod(mode)
    with pytest.warns(UserWarning, match="another user may have written it"):
        assert filled() == (1, False)
    assert filled() == (1, True)
    assert the_file(folder).stat().st_mode & 0o777 == 0o600


@posix
def test_files_of_other_users_are_compiled_again(folder, monkeypatch):
    filled()
    owned = store.is_private
    monkeypatch.setattr(store, "is_private", lambda status, installed: owned(
        os.stat_result([*status[:4], 12345, *status[5:]]), installed))
    with pytest.warns(UserWarning, match="another user may have written it"):
        assert filled() == (1, False)


@posix
def test_symbolic_links_are_not_followed(folder, tmp_path):
    filled()
    path = the_file(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert filled() == (1, False)
    assert not path.is_symlink()


@posix
@pytest.mark.parametrize("unsafe", ["mode", "link", "owner"])
def test_folders_of_others_are_refused(folder, tmp_path, unsafe, monkeypatch):
    """Nothing is loaded from there, and nothing written."""
    folder.mkdir(parents=True, mode=0o700)
    if unsafe == "mode":
        folder.chmod(0o777)
    elif unsafe == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        os.chown(folder, 54321, -1) if os.getuid() == 0 else None
    with pytest.warns(UserWarning, match="other users may write there"):
        assert not jit.keeps_code()
    assert filled() == filled() == (1, False)
    assert not list(folder.iterdir())


def test_where_nothing_can_be_written_code_is_still_loaded(folder, monkeypatch):
    filled()

    def refuse(*_):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(store.os, "replace", refuse)
    monkeypatch.setattr(store.os, "access", lambda *_: False)
    assert not jit.keeps_code()
    assert filled() == (1, True)
    with pytest.warns(UserWarning, match=r"cannot be kept in .*Read-only file system") as told:
        assert filled(Reversed(5, 6))[0] == 6
        assert filled(Pair(7, 8))[0] == 7
    assert len(told) == 1
    assert len(list(folder.glob("*.kernel*"))) == 1


def test_a_folder_that_is_deleted_meanwhile_is_made_again(folder):
    filled()
    shutil.rmtree(folder)
    store._delete_old.cache_clear()
    before = os.umask(0)
    try:
        assert filled() == (1, False)
    finally:
        os.umask(before)
    assert filled() == (1, True)
    assert sys.platform == "win32" or folder.stat().st_mode & 0o777 == 0o700


def test_the_least_recently_used_files_are_deleted(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    (folder / "claims").mkdir()
    now, content = time.time(), bytes(1000)
    for days, name in enumerate(["used.kernel", "older.kernel", "oldest.kernel", "draft.kernel.77",
                                 "claims/lock"]):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (now - days * store.DAY,) * 2)
    (folder / "ancient.kernel").write_bytes(b"")
    os.utime(folder / "ancient.kernel", (now - 2 * store.MAX_AGE,) * 2)
    monkeypatch.setattr(CONFIG, "cache_size", 2500 + 1100)
    store.write_kernel(folder / "new.kernel", bytes(1000))
    assert {path.name for path in folder.iterdir()} == {"claims", "new.kernel", "used.kernel",
                                                        "older.kernel"}
    assert not list((folder / "claims").iterdir())


def test_files_that_are_used_become_recent(folder):
    filled()
    path, before = the_file(folder), time.time() - 40 * store.DAY
    os.utime(path, (before, before))
    assert filled() == (1, True)
    assert path.stat().st_mtime > before + 30 * store.DAY


@pytest.mark.parametrize(("text", "size"), [("500M", 500 * 2 ** 20), ("2G", 2 ** 31), ("", 2 ** 31),
                                            ("1.5g", 3 * 2 ** 29), ("64KB", 2 ** 16), ("9", 9)])
def test_sizes_have_units(monkeypatch, text, size):
    monkeypatch.setenv("NBMOD_CACHE_SIZE", text)
    assert Config().cache_size == size


def test_the_host_and_the_settings_belong_to_the_key(folder, monkeypatch):
    """Not the name of the CPU: machines with the same instruction sets share code."""
    codegen = fill_kernel().compile().targetctx.codegen()
    text = store.compiler_of.__wrapped__

    def with_magic(triple, name, features):
        monkeypatch.setattr(type(codegen), "magic_tuple", lambda self: (triple, name, features))
        return text(codegen)

    before = with_magic("x", "znver4", "+avx2,+fma,-sse4a")
    assert with_magic("x", "skylake", "+fma,+avx2,-tbm") == before
    assert with_magic("x", "znver4", "+avx2") != before
    assert with_magic("y", "znver4", "+avx2,+fma") != before
    monkeypatch.setattr("numba.config.OPT", 1)
    assert with_magic("x", "znver4", "+avx2,+fma") != before
