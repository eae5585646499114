"""Environment variables: what they mean, and that malformed ones are named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nbmod.base import ArgumentError
from nbmod.core import config
from nbmod.core.config import Config
from nbmod.ops.build import levels
from nbmod.passes import switches

NAMES = sorted(set(re.findall(r'"((?:NBMOD|MXNET|NUMBA|OPENCV)_[A-Z_]+)"',
                              Path(config.__file__).read_text(encoding="utf-8"))))
FOLDERS = {"NBMOD_CACHE_DIR", "MXNET_HOME"}
"""Any text is a name of a folder."""
GARBAGE = "maybe", "1 2", "--1", "NaN", "1,5", "0x", "\N{SNOWMAN}", "9" * 5000 + "x"


@pytest.fixture
def read(monkeypatch):
    """A function that reads all variables when one of them has a text."""
    def read(name: str, text: str) -> Config:
        monkeypatch.setenv(name, text)
        found = Config()
        for module in (levels, switches):
            monkeypatch.setattr(module, "CONFIG", found)
        levels.chosen()
        switches.is_enabled("cse")
        found.aggregation_size(4)
        for each in vars(Config).values():
            if isinstance(each, property):
                each.fget(found)
        return found

    return read


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FOLDERS])
def test_a_malformed_variable_is_named_with_what_is_expected(read, name):
    for text in GARBAGE:
        with pytest.raises(ArgumentError, match=f"{name}.*(expected|the passes are) "):
            read(name, text)


@pytest.mark.parametrize("name", [
    "NBMOD_CACHE_SIZE", "NBMOD_CHECK", "NBMOD_COMPILERS", "NBMOD_DEBUG", "NBMOD_DIST_TIMEOUT",
    "NBMOD_SIMD_LANES", "NBMOD_VIRTUAL_GPUS", "NBMOD_WINOGRAD", "MXNET_KVSTORE_BIGARRAY_BOUND",
    "OPENCV_IO_MAX_IMAGE_PIXELS"])
def test_numbers_below_zero_are_refused(read, name):
    with pytest.raises(ArgumentError, match=f"{name} is '-1', expected "):
        read(name, "-1")


@pytest.mark.parametrize("name, texts, value", [
    ("NBMOD_CACHE", ["1", " on ", "YES", "true", "2"], lambda found: found.cache is True),
    ("NBMOD_CACHE", ["", "0", "off", "No", "FALSE"], lambda found: found.cache is False),
    ("NBMOD_CACHE_SIZE", ["1.5G", "1536MB", "1610612736", "1.610612736e9"],
     lambda found: found.cache_size == 1_610_612_736),
    ("NBMOD_CACHE_SIZE", ["", "2g"], lambda found: found.cache_size == 2 ** 31),
    ("NBMOD_CHECK", ["2"], lambda found: found.check == 2),
    ("NBMOD_CHECK", ["on", "1"], lambda found: found.check == 1),
    ("NBMOD_COMPILERS", ["", "64"], lambda found: found.compilers == 64),
    ("NBMOD_DIST_TIMEOUT", ["0.5", " .5 "], lambda found: found.dist_timeout == 0.5),
    ("NBMOD_WINOGRAD", ["", "0", "off"], lambda found: found.winograd == 0),
    ("NBMOD_WINOGRAD", ["1", "on", "4"], lambda found: found.winograd == 4),
    ("NBMOD_WINOGRAD", ["2"], lambda found: found.winograd == 2),
    ("NBMOD_DISABLE_PASSES", ["cse,inplace", " cse inplace "],
     lambda found: found.disabled_passes == {"cse", "inplace"}),
    ("MXNET_UPDATE_ON_KVSTORE", ["0", "false"], lambda found: not found.update_on_kvstore),
    ("MXNET_OPTIMIZER_AGGREGATION_SIZE", ["7"], lambda found: found.aggregation_size(4) == 7)])
def test_meanings(read, name, texts, value):
    for text in texts:
        assert value(read(name, text)), text


def test_the_import_names_a_malformed_variable():
    done = subprocess.run(
        [sys.executable, "-c", "import os; os.environ['NBMOD_COMPILERS'] = 'all'; import nbmod"],
        capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "nbmod.base.ArgumentError: the environment variable NBMOD_COMPILERS is 'all', expected a "
        "whole number of at least 0")
