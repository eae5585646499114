"""Files that are replaced whole, alone or as a set, whatever ends the process that writes them."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from nbmod.base import MXNetError, UnwritableFile
from nbmod.core import atomic, locks
from tests.reliability.killed_saves import forked


def write(path, content):
    with atomic.atomic_write(path) as stream:
        stream.write(content)


def test_a_set_replaces_the_old_one_at_the_end_of_the_block(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"old")
    with atomic.replacing_together():
        write(one, b"new 1")
        write(two, b"new 2")
        write(two, b"newer 2")
        assert one.read_bytes() == b"old" and not two.exists()
        with open(atomic.latest(two), "rb") as stream:
            assert stream.read() == b"newer 2"
    assert (one.read_bytes(), two.read_bytes()) == (b"new 1", b"newer 2")
    assert sorted(tmp_path.iterdir()) == [one, two]
    assert atomic.latest(one) == str(one)


def test_no_file_of_a_set_that_fails_is_replaced(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic.replacing_together():
        write(one, b"new")
        raise ZeroDivisionError
    with pytest.raises(MXNetError, match="two: cannot be written: No space"), \
            atomic.replacing_together():
        write(one, b"new")
        monkeypatch.setattr("os.fsync", no_space)
        write(two, b"new")
    assert one.read_bytes() == b"old" and list(tmp_path.iterdir()) == [one]


def test_the_error_of_a_set_names_the_file_once(tmp_path):
    with pytest.raises(MXNetError) as caught, atomic.replacing_together():
        write(tmp_path / "none/one", b"new")
    assert str(caught.value).startswith(f"{tmp_path / 'none/one'}: cannot be written: ")


def test_the_error_of_a_file_within_another_names_the_inner_one(tmp_path):
    with pytest.raises(MXNetError) as caught, atomic.atomic_write(tmp_path / "outer"):
        write(tmp_path / "none/inner", b"new")
    assert str(caught.value).startswith(f"{tmp_path / 'none/inner'}: cannot be written: ")
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_replacement_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(MXNetError) as caught, atomic.replacing_together():
        write(tmp_path / "one", b"new")
        (tmp_path / "one").mkdir()
    assert str(caught.value).startswith(f"{tmp_path / 'one'}: cannot be written: ")
    assert list(tmp_path.iterdir()) == [tmp_path / "one"]


def no_space(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


KILLED = """
import os, signal, sys
from nbmod.core import atomic
with atomic.replacing_together():
    with atomic.atomic_write(sys.argv[1]) as stream:
        stream.write(b"new")
    print("written", flush=True)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def start(path, end):
    process = subprocess.Popen([sys.executable, "-c", KILLED, path, end], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "written\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_temporary_files_of_killed_processes_are_removed_and_no_others(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    similar = tmp_path / "file.0123456789ab.tmp"
    similar.write_bytes(b"of another program")
    with start(str(path), "kill") as process:
        assert process.wait() == -signal.SIGKILL
    left = set(tmp_path.iterdir()) - {path, similar}
    assert len(left) == 1 and path.read_bytes() == b"old"
    with start(str(path), "wait") as process:  # removes it, and writes its own
        theirs = set(tmp_path.iterdir()) - {path, similar}
        assert len(theirs) == 1 and theirs != left
        write(tmp_path / "other", b"")
        assert theirs <= set(tmp_path.iterdir())
        process.communicate("", timeout=60)
    assert path.read_bytes() == b"new"
    assert {one.name for one in tmp_path.iterdir()} == {"file", "other", similar.name}


@pytest.mark.skipif(sys.platform != "linux", reason="tells folders by /proc")
def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    """The order that a power cut cannot break: content, rename, folder."""
    calls, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        calls.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "content")
        fsync(handle)

    def renamed(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr("os.replace", renamed)
    with atomic.replacing_together():
        write(tmp_path / "one", b"1")
        write(tmp_path / "two", b"2")
    write(tmp_path / "three", b"3")
    journal = ["content", "folder"]
    assert calls == ["content", "content", *journal, "rename", "rename", "folder",
                     "content", "rename", "folder"]


# ------------------------------------------------------------------------- a set is a transaction

NAMES = ["last", "third", "second", "first"]
"""Files of a set, in the order in which they are written: the first is replaced last."""


def save(folder, content):
    with atomic.replacing_together():
        for name in NAMES:
            write(folder / name, content)


def contents(folder):
    """What each file of the folder holds."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextlib.contextmanager
def breaking(number, action):
    """A block whose `number`-th system call that changes names or stores contents is replaced.

    Yields how many calls there were.
    """
    calls = []

    def counted(function):
        def call(*arguments):
            calls.append(function.__name__)
            if len(calls) - 1 == number:
                action(*arguments)
            return function(*arguments)
        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "link", "remove", "fsync"):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield calls


def input_output_error(*arguments):
    raise OSError(errno.EIO, os.strerror(errno.EIO), *arguments[:1])


def without_links(*_):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("new, links", [(0, True), (2, True), (2, False), (4, True)])
def test_a_set_of_which_any_call_fails_is_the_old_one_or_the_new_one(tmp_path, monkeypatch, new,
                                                                     links):
    """Every system call fails once; of the four files, `new` are not there before."""
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    outcomes = set()
    for number in range(1000):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in NAMES[new:]:
            (folder / name).write_bytes(b"old")
        before, failed = contents(folder), False
        with breaking(number, input_output_error) as calls:
            try:
                save(folder, b"new")
            except MXNetError as error:
                failed = True
                assert "cannot be written: Input/output error" in str(error)
        expected = before if failed else dict.fromkeys(NAMES, b"new")
        outcomes.add(failed)
        left = contents(folder)
        assert {name: left.get(name) for name in NAMES} == {
            name: expected.get(name) for name in NAMES}, calls
        save(folder, b"newer")
        assert contents(folder) == dict.fromkeys(NAMES, b"newer"), calls
        if number >= len(calls):
            break
    assert outcomes == {True, False} and number > 12


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize("recover", [
    lambda folder: atomic.finish_sets(folder), lambda folder: write(folder / "other", b"")],
    ids=["before loading", "by another save"])
def test_a_set_whose_process_is_killed_at_any_call_is_finished(tmp_path, recover):
    """The set is the old one or the new one afterwards, and nothing else is left."""
    outcomes = set()
    for number in range(1000):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in NAMES[1:]:
            (folder / name).write_bytes(b"old")
        before = contents(folder)

        def work(folder=folder, number=number):
            with breaking(number, lambda *_: os.kill(os.getpid(), signal.SIGKILL)):
                save(folder, b"new")

        ended = os.waitpid(forked(work), 0)[1]
        recover(folder)
        after = contents(folder)
        after.pop("other", None)
        if "last" not in after:
            write(folder / "last", b"")    # removes temporary files
            assert contents(folder) == {**before, "last": b"", **(
                {"other": b""} if (folder / "other").exists() else {})}
        else:
            assert after == dict.fromkeys(NAMES, b"new")
        outcomes.add("last" in after)
        if not ended:
            break
    assert outcomes == {True, False} and number > 12


def test_a_set_that_could_not_be_put_back_is_put_back_later(tmp_path, monkeypatch):
    save(tmp_path, b"old")
    replace, left = os.replace, iter(range(2))

    def failing(source, target):
        if next(left, None) is None:
            input_output_error(source)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(MXNetError, match="cannot be written: Input/output error"):
            save(tmp_path, b"new")
        assert len(contents(tmp_path)) > len(NAMES)
        with pytest.warns(UserWarning, match="a save was cut short, and cannot be completed"):
            atomic.finish_sets(tmp_path)
    atomic.finish_sets(tmp_path)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"old")


@pytest.mark.parametrize("pairs", [
    '[["x", "../target"]]', '[["../x", "target"]]', '[["x", ""]]', '[["x"]]', "[1]", "{", "",
    '{"xx": 1}', "[" * 100000])
def test_a_journal_moves_no_files_of_other_folders(tmp_path, pairs):
    """An archive that is unpacked may hold one."""
    folder = tmp_path / "inner"
    folder.mkdir()
    for path in (tmp_path / "x", tmp_path / "target", folder / "x", folder / "target"):
        path.write_bytes(b"old " + path.name.encode())
    before = contents(folder), (tmp_path / "x").read_bytes(), (tmp_path / "target").read_bytes()
    (folder / "a.nbmod-0123456789ab.set").write_text(pairs)
    atomic.finish_sets(folder)
    assert before == (contents(folder), (tmp_path / "x").read_bytes(),
                      (tmp_path / "target").read_bytes())


@pytest.mark.skipif(sys.platform == "win32", reason="forks, and locks no folders")
def test_sets_of_two_processes_do_not_mix(tmp_path, monkeypatch):
    """Another process begins a set after the first rename, and waits for the others."""
    replace, others, ended = os.replace, [], []

    def other():
        os.replace = replace
        save(tmp_path, b"theirs")

    def interrupted(source, target):
        replace(source, target)
        if not others:
            others.append(forked(other))
            for _ in range(50):    # long enough for it, if it did not wait
                ended.append(os.waitpid(others[0], os.WNOHANG)[0])
                if ended[-1]:
                    break
                time.sleep(0.01)

    monkeypatch.setattr(os, "replace", interrupted)
    save(tmp_path, b"ours")
    assert not any(ended) and os.waitpid(others[0], 0)[1] == 0
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"theirs")


@pytest.mark.skipif(sys.platform == "win32", reason="locks no folders")
def test_a_folder_that_stays_locked_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0)
    with locks.folder_locked(str(tmp_path)):
        with pytest.raises(UnwritableFile, match="another process"):
            save(tmp_path, b"ours")
        assert contents(tmp_path) == {}
    save(tmp_path, b"ours")
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"ours")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
@pytest.mark.parametrize("together", [False, True])
def test_nobody_else_may_read_what_replaces_a_private_file(tmp_path, together):
    private, new = tmp_path / "private", tmp_path / "new"
    for path, mode in ((private, 0o600), (tmp_path / "shared", 0o664)):
        path.write_bytes(b"")
        path.chmod(mode)
    before = os.umask(0o027)
    try:
        with atomic.replacing_together() if together else contextlib.nullcontext():
            for path in (private, new, tmp_path / "shared"):
                with atomic.atomic_write(path) as stream:
                    stream.write(b"secret")
                    drafts = {one.name.split(".")[0]: stat.S_IMODE(one.stat().st_mode)
                              for one in tmp_path.glob("*.tmp")}
                    assert drafts[path.name] == (0o640 if path == new else 0o600)
    finally:
        os.umask(before)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "new": 0o640, "shared": 0o664}
