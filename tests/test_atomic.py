"""Files that are replaced whole, alone or as a set, whatever ends the process that writes them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from nbmod import atomic
from nbmod.base import MXNetError


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
from nbmod import atomic
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
    assert calls == ["content", "content", "rename", "rename", "folder",
                     "content", "rename", "folder"]
