"""Tracebacks of users' mistakes show users' frames."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import nbmod as mx
from nbmod.core import short_tracebacks

MISTAKE = """
import nbmod as mx
def build():
    return mx.sym.Variable("x").bind(mx.cpu(), {})
build()
"""


def ended(folder, text, *options, **environment):
    """What a script that ends by an exception writes to stderr."""
    (folder / "script.py").write_text(text)
    ran = subprocess.run([sys.executable, *options, str(folder / "script.py")], text=True,
                         capture_output=True, timeout=120, env=os.environ | environment)
    assert ran.returncode == 1
    return ran.stderr


@pytest.mark.parametrize("options", [(), ("-m", "nbmod", "run")])
def test_only_the_users_frames_are_shown(tmp_path, options):
    shown = ended(tmp_path, MISTAKE, *options)
    frames = [line for line in shown.splitlines() if line.startswith("  File ")]
    assert len(frames) == 2 and all("script.py" in line for line in frames)
    assert "nothing given for" in shown and "NBMOD_FULL_TRACEBACK=1" in shown


def test_all_frames_are_shown_on_request(tmp_path):
    shown = ended(tmp_path, MISTAKE, NBMOD_FULL_TRACEBACK="1")
    assert f"nbmod{os.sep}symbol{os.sep}" in shown and "left out" not in shown


def test_errors_of_others_keep_their_frames(tmp_path):
    shown = ended(tmp_path, "import nbmod as mx\nmx.nd.array([1]).asnumpy() @ 'x'\n")
    assert "script.py" in shown and "left out" not in shown


def test_causes_are_shortened_too():
    with pytest.raises(mx.MXNetError) as found:
        try:
            mx.sym.load("/nonexistent")
        except mx.MXNetError as error:
            cause = error.__cause__
            raise
    assert short_tracebacks.shorten(found.value)
    names = [frame.tb_frame.f_code.co_filename
             for frame in short_tracebacks._frames(found.value.__traceback__)]
    assert names == [__file__] and cause.__traceback__ is None


def test_an_error_without_frames_of_users_is_left_alone():
    error = mx.MXNetError("never raised")
    assert not short_tracebacks.shorten(error)
