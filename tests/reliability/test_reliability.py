"""The short form of every measurement, and readers that break the promises."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.reliability import mutation, power_cuts, promises, table
from tests.reliability.figures import Effort

SHORT = Effort(share=0.002)


@pytest.mark.parametrize("promise", list(promises.load()), ids=lambda promise: promise.name)
def test_promise_holds(promise):
    measure = promise.short or promise.measure
    row = table.Row(promise, measure(SHORT), [], 0.0)
    assert sum(figure.trials for figure in row.ours)
    assert not row.broken, table.as_text(row)


def test_mxnet_reads_the_same_mutated_files(oracle):
    figures = mutation.measure_mxnet(SHORT)
    assert {figure.what for figure in figures} >= {"Mutated: parameters", "Mutated: CSV"}
    assert all(figure.trials == 5 for figure in figures)
    assert not next(figure for figure in figures if figure.what == "Mutated: records").failures


BROKEN = """
import pickle, sys
from tests.reliability import loaders, {module}

def load(content, folder):
    try:
        {statement}
    except Exception as error:
        {handling}

sound = lambda: [pickle.dumps(dict(a=1))]
loaders.LOADERS = tuple(loaders.Loader(loader.name, sound, load) for loader in loaders.LOADERS)
{before}
{module}.work({arguments})
"""


def found_in_broken_reader(**parts):
    """What a measurement says of a reader of pickles."""
    done = subprocess.run([sys.executable, "-c", BROKEN.format(**parts)], capture_output=True,
                          text=True, check=True, cwd=pathlib.Path(__file__).parents[2])
    return json.loads(done.stdout.splitlines()[-1])["failures"]


def test_a_reader_that_runs_programs_is_found():
    harmless = "code_from_data.CALLED = {'os.system': code_from_data.SHELL}"
    failures = found_in_broken_reader(
        module="code_from_data", statement="pickle.loads(content)", handling="pass",
        before=f"{harmless}; code_from_data._deeper_pickles = dict", arguments="")
    assert any("os.system" in failure for failure in failures)
    assert any("the program of the file was run" in failure for failure in failures)


def test_a_reader_with_errors_of_other_classes_is_found():
    failures = found_in_broken_reader(
        module="mutation", statement="pickle.loads(content)", handling="raise", before="",
        arguments="mutation.Effort(0.0), ['parameters']")
    assert any("UnpicklingError" in failure for failure in failures)


SAVED = """\
7 write(3</d/a.tmp>, ""..., 9) = 9
7 fsync(3</d/a.tmp>) = 0
7 rename("/d/a.tmp", "/d/a") = 0
7 fsync(4</d>) = 0
7 write(5</elsewhere/b>, ""..., 9) = 9
""".splitlines()
"""A save, as strace tells it."""


@pytest.mark.parametrize("left_out, failures", [
    (None, []), (1, ["a got its name before its content"]), (3, ["renames in /d are not synced"])])
def test_a_save_that_a_power_cut_may_damage_is_found(left_out, failures):
    lines = [line for number, line in enumerate(SAVED) if number != left_out]
    figure = power_cuts.judged(power_cuts.calls(lines, "/d"))
    assert figure.trials == 1 and list(figure.failures) == failures
