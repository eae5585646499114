"""The kernel bench on real functions: what it refuses and records.  No time is asserted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod import bench
from nbmod.base import ArgumentError, MXNetError
from nbmod.bench import networks, remote, report, roofs, rounds
from nbmod.bench.conditions import Conditions, observed
from nbmod.bench.measure import ulp_distance
from nbmod.bench.side_by_side import arm_times
from nbmod.bench.subjects import CallableArm, InputSets
from nbmod.ops import jit
from nbmod.ops.build.store import loaded_kernels
from nbmod.ops.simd import roofline
from nbmod.ops.simd.roofline import (
    add_part,
    bfloat16_chains,
    copy_part,
    fma_chains,
    half_fma_chains,
    int8_chains,
    quarter_fma_chains,
    read_part,
)
from tests.ops.test_simd import LANES, called

X = np.random.default_rng(0).normal(size=999).astype("f")


class Clock:
    """An arm of known times, and the turns it was asked for."""

    def __init__(self, name, seconds):
        self.name, self.seconds, self.turns = name, seconds, []

    def time(self, calls, turn):
        self.turns.append((calls, turn))
        return self.seconds


@pytest.fixture
def known_roofs(monkeypatch):
    """Roofs of round numbers, in place of a measurement."""
    known = roofs.Roofs(2, {"float32": 100.0, "float64": 50.0},
                        {"L1": 40.0, "L2": 20.0, "L3": 10.0, "memory": 5.0},
                        {"L1": 100, "L2": 1000, "L3": 10_000}, "2026-01-01")
    monkeypatch.setattr(roofs, "measured_roofs", lambda: known)
    return known


def test_rounds_have_two_blocks_of_every_arm_in_random_order():
    arms = [Clock("a", 3e-4), Clock("b", 6e-4)]
    made = rounds.run_rounds(arms, 60, lambda so_far: len(so_far) == 50)
    assert made.names == ["a", "b", "a", "b"] and made.calls == [1] * 4 and len(made) == 50
    assert {tuple(sorted(order)) for order in made.order.tolist()} == {(0, 1, 2, 3)}
    assert len({tuple(order) for order in made.order.tolist()}) > 10
    np.testing.assert_allclose(made.ratios, 0.5)
    assert arms[0].turns[-2:] == [(1, 49)] * 2


def test_times_of_several_arms_have_ratios_to_the_first_and_noise_of_their_own():
    made = rounds.Rounds(["a", "b", "c"] * 2, [1] * 6)
    for _ in range(20):
        made.add([1.0, 2.0, 0.0, 1.1, 2.0, 0.0], [0, 1, 2, 3, 4, 5])
    first, second, idle = arm_times(made)
    assert [first.seconds, first.least, second.seconds] == pytest.approx([1.05, 1.0, 2.0])
    assert [first.noise, second.noise, idle.noise] == pytest.approx([0.1, 0.0, 0.0])
    assert (first.ratio.median, second.ratio.high) == pytest.approx((1.0, 0.5))
    short = rounds.Rounds(made.names, made.calls)
    short.add(made.seconds[0].tolist(), made.order[0].tolist())
    assert arm_times(short)[1].noise == np.inf and arm_times(short)[1].ratio.median == 0.5


def test_short_calls_fill_a_block():
    assert rounds.calls_of_block(Clock("a", 1e-6)) >= 200
    assert rounds.calls_of_block(Clock("a", 1.0)) == 1


def test_long_blocks_are_few_and_a_pause_precedes_each(monkeypatch):
    pauses = []
    monkeypatch.setattr(rounds.time, "sleep", pauses.append)
    monkeypatch.setattr(rounds, "warm_up", lambda arm: pauses.append(arm.name))
    arms = [Clock("short", 0.01), Clock("long", 0.5)]
    made = rounds.run_rounds(arms, 60, lambda so_far: len(so_far) == 1,
                             pace=bench.Pace(block=0.1, settle=0.2))
    assert made.calls == [10, 1] * 2
    assert pauses[:4] == [0.2, "short", 0.2, "long"], "what follows a pause is warmed up"
    assert sorted(map(str, pauses[4:])) == ["0.2"] * 4 + ["short"] * 2, "a single call is long"
    assert len(arms[1].turns) == 1 + 2, "one try tells the length of a long call"


def test_any_number_of_functions_run_in_turns():
    calls, clock = [], Clock("peer", 1e-3)
    times = bench.side_by_side({"a": lambda x: calls.append(x.sum()), "b": clock, "c": np.sum}, X,
                               seconds=20, rounds=3)
    assert list(times) == ["a", "b", "c"] and times["b"].seconds == 1e-3 and len(calls) > 3
    assert clock.turns[-2:] == [(1, 2)] * 2
    assert times["a"].ratio.median == 1 and times["b"].ratio.median < 1


def test_a_ratio_and_its_verdict():
    fast, slow = partial(sum, range(1000)), partial(sum, range(4000))
    result = bench.compare(fast, slow, seconds=20)
    assert result.verdict is bench.Verdict.FASTER and result.verdict == "FASTER"
    assert result.interval[0] < result.ratio < result.interval[1] < 1
    assert "FASTER" in str(result) and result.rounds.seconds.shape[1] == 4
    saved = json.loads(json.dumps(result.as_json()))
    assert saved["verdict"] == "FASTER" and len(saved["rounds"]) == len(saved["order"])


def test_inputs_differ_between_rounds_and_are_not_the_callers():
    seen = []

    def take(x):
        seen.append((x.ctypes.data, x[0]))
        x[:] = 0

    mine = X.copy()
    bench.measure(take, mine, seconds=0.01)
    assert mine.ctypes.data not in {address for address, _ in seen}
    np.testing.assert_array_equal(mine, X)
    arm = CallableArm("f", take, InputSets((X, 3, [mx.nd.array(X)])))
    assert len({inputs[0].tobytes() for inputs in arm.inputs.sets}) == len(arm.inputs.sets)
    assert all(np.array_equal(np.sort(inputs[2][0].asnumpy()), np.sort(X))
               for inputs in arm.inputs.sets)
    still = CallableArm("f", take, InputSets((X, np.arange(5)), vary=False))
    assert all(np.array_equal(inputs[0], X) for inputs in still.inputs.sets)


def test_cold_inputs_exceed_the_caches(monkeypatch):
    monkeypatch.setattr("nbmod.bench.subjects.last_level_cache", lambda: 10 * X.nbytes)
    arm = CallableArm("f", np.negative, InputSets((X,), cold=True))
    assert len(arm.inputs.sets) == 20
    with pytest.raises(ArgumentError, match="needs arrays"):
        bench.measure(lambda: None, cold=True)


def test_a_result_kept_from_an_earlier_call_is_noticed():
    kept = []

    def cheat(x):
        kept.append(2 * x)
        return kept[0]

    with pytest.raises(MXNetError, match="output 0 differs from that of the reference"):
        bench.measure(cheat, X, reference=lambda x: 2 * x, seconds=0.01)


def test_outputs_may_be_arguments():
    def negate(x):
        x *= -1

    bench.measure(negate, X, reference=lambda x: np.negative(x, out=x), seconds=0.01)
    with pytest.raises(MXNetError, match="differs"):
        bench.measure(negate, X, reference=lambda x: np.multiply(x, 3, out=x), seconds=0.01)


def test_arrays_that_are_written_start_again_with_their_values():
    starts = []

    def grow(x, y):
        starts.append(x[0] == y[0])
        x *= 2

    arm = CallableArm("f", grow, InputSets((X, X)))
    arm.first_call()
    arm.time(3, 0)
    arm.time(2, 0)
    # An untimed call begins a warm block.
    assert starts == [True, True, False, False, False, True, False, False]


def test_arms_share_inputs_and_what_one_writes_no_other_reads():
    inputs, seen = InputSets((X,)), []
    writes = CallableArm("writes", lambda x: x.fill(7), inputs)
    reads = CallableArm("reads", lambda x: seen.append((x.ctypes.data, x[0])), inputs)
    for arm in (writes, reads):
        arm.first_call()
    for turn in range(4):
        writes.time(2, turn)
        reads.time(2, turn)
    assert 7 not in {value for _, value in seen}
    assert {address for address, _ in seen} == {each[0].ctypes.data for each in inputs.sets}


def test_distances_in_ulp():
    assert ulp_distance(np.float32([1, np.nan]), np.float32([np.nextafter(np.float32(1), 2),
                                                             np.nan])) == 1
    assert ulp_distance(np.float32([1]), np.float32([np.nan])) == np.inf
    assert ulp_distance(np.array([1]), np.array([2])) == np.inf
    with pytest.raises(ArgumentError, match="shape"):
        ulp_distance(X, X[:3])


def test_what_is_faster_than_the_machine_is_an_error(known_roofs):
    with pytest.raises(MXNetError, match="of the L1 bandwidth: the function does not do"):
        bench.measure(lambda x: None, X[:10], nbytes=90, seconds=0.01)


def test_results_know_what_was_counted(known_roofs):
    def function(x):
        pass

    function.nbytes = 1e-7
    result = bench.measure(function, X[:10], operations=1e-8, seconds=0.01)
    assert (result.operations, result.nbytes) == (1e-8, 1e-7)
    assert {"operations": 1e-8, "nbytes": 1e-7}.items() <= result.as_json().items()


def test_shares_are_of_the_roof_that_limits(known_roofs):
    def share(*args, **options):
        return bench.share_of_roof(*args, roofs=known_roofs, **options)

    assert share(2.0, 100, 10) == roofs.Share(0.5, "float32 peak")
    assert share(2.0, 100, 10, "float64") == roofs.Share(1.0, "float64 peak")
    assert share(2.0, 1, 2000) == roofs.Share(100.0, "L3 bandwidth")
    assert share(2.0, 0, 5, working_set=float("inf")) == roofs.Share(0.5, "memory bandwidth")
    assert share(2.0) is None


def test_a_neighbour_never_lowers_a_roof_that_was_measured(tmp_path, monkeypatch, known_roofs):
    monkeypatch.undo()
    monkeypatch.setattr(roofs, "_file", lambda: tmp_path / "roofs.json")
    measured = roofs.measured_roofs.__wrapped__
    later = roofs.Roofs(2, {"float32": 80.0, "float64": 60.0}, dict(known_roofs.nbytes),
                        known_roofs.capacity, "2026-02-02")
    values = iter([known_roofs, later, later])
    windows = []
    monkeypatch.setattr(roofs, "_measure", lambda threads, count: (windows.append(count),
                                                                   next(values))[1])
    measured(2)
    best = measured(2)
    assert best.operations == {"float32": 100.0, "float64": 60.0}
    assert best.date == "2026-02-02" and best.runs == 2
    roofs._write({roofs._key(2): replace(best, runs=roofs.SETTLED)})
    shown = []
    monkeypatch.setattr(roofs, "is_watched", lambda: True)
    monkeypatch.setattr(roofs.LiveLine, "show", lambda line, text: shown.append(text))
    assert measured(2).runs == roofs.SETTLED + 1
    assert windows == [roofs.WINDOWS, roofs.WINDOWS, roofs.FEWER] and len(shown) == 1
    (tmp_path / "roofs.json").write_text("{broken")
    assert roofs._read() == {}


def test_roofs_are_measured(monkeypatch):
    monkeypatch.setattr(roofs, "RUN", 1e-5)
    monkeypatch.setattr(roofs, "TRIES", 2)
    monkeypatch.setattr(roofs, "memory_size", lambda: 2 ** 25)
    monkeypatch.setattr(roofs, "_capacities", lambda threads: (2 ** 14, 2 ** 17, 2 ** 20))
    made = roofs._measure(2, 2)
    assert {"float32", "float64", "int8"} <= made.operations.keys()
    assert set(made.nbytes) == {*roofs.LEVELS, "copy"}
    assert made.nbytes["L1"] >= made.nbytes["L2"] >= made.nbytes["L3"] >= made.nbytes["memory"] > 0
    assert min(made.operations.values()) > 0
    assert made.spread.keys() == {*made.operations, *made.nbytes}
    assert all(0 <= spread < 1 for spread in made.spread.values())


def test_narrow_vectors_have_roofs_of_their_own(monkeypatch):
    monkeypatch.setattr(roofs, "_turns_a_second", lambda run, parts: 1.0)
    work, bits = dict(roofs._operations(1)), 32 * LANES
    narrower = [each for each in (bits // 2, bits // 4) if each >= 128]
    assert {name for name in work if "bits" in name} == {
        f"{dtype} {each} bits" for each in narrower for dtype in ("float32", "float64")}
    for each in narrower:
        assert work[f"float32 {each} bits"] == work["float32"] * each / bits


def test_an_unsteady_roof_is_told(monkeypatch, known_roofs):
    values = iter([50.0, 100.0, 80.0])
    monkeypatch.setattr(roofs, "_operations", lambda threads: iter([("float32", next(values))]))
    monkeypatch.setattr(roofs, "_bandwidths", lambda threads, capacity: iter(
        [(level, 1000.0) for level in (*roofs.LEVELS, "copy")]))
    measured = roofs._measure(2, 3)
    assert measured.operations["float32"] == 100.0
    assert measured.spread["float32"] == pytest.approx(0.2)
    assert measured.unsteady == ["float32"]
    share = bench.share_of_roof(2.0, 100, 0, roofs=measured)
    assert share is not None and share.value == 0.5 and not share.is_steady
    # A later run that never reaches the best is as far below it.
    later = roofs._best(measured, replace(measured, operations={"float32": 90.0}, spread={}))
    assert later.operations["float32"] == 100.0
    assert later.spread["float32"] == pytest.approx(0.1)


@pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
@pytest.mark.parametrize("chains, dtype", [
    (fma_chains, "f"), (fma_chains, "d"), (half_fma_chains, "f"), (quarter_fma_chains, "d"),
    (int8_chains, "i"),
    (bfloat16_chains, "f")])
def test_chains_do_what_is_counted(chains, dtype):
    generator, count = np.random.default_rng(1), roofline.STRIDE // np.dtype(dtype).itemsize
    values = (generator.integers(-2 ** 31, 2 ** 31, count).astype("i") if dtype == "i"
              else generator.uniform(1, 2, count).astype(dtype))
    if chains is bfloat16_chains:   # both halves of a word are such a number
        words = values.view(np.uint32)
        words[:] = words & 0xffff0000 | words >> 16
    expected = values.copy()
    chains.function(expected, 0, 3)
    called(chains)(values, 0, 3)
    # A few roundings on values of magnitude 1.
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
def test_moves_of_memory_are_those_counted():
    unit = roofline.UNROLLED * LANES
    x, y = np.random.default_rng(2).normal(size=(2, 3 * unit)).astype("f")
    sums, out, copy = np.zeros(unit, "f"), np.zeros_like(x), roofs._aligned(x.nbytes)
    called(read_part)(x, sums, 0, x.size, 2)
    called(add_part)(x, y, out, 0, x.size, 2)
    called(copy_part)(x, copy, 0, x.size, 2)
    # Six values of magnitude 1 are added in another order.
    np.testing.assert_allclose(sums, 2 * x.reshape(3, unit).sum(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_array_equal(copy, x)


def test_a_compilation_in_a_timed_round_is_an_error():
    import numba  # noqa: TID251

    kernel = numba.njit(lambda x: x + 1)
    turns = iter(range(10 ** 9))

    def meets_another_type():
        kernel(1.0 if next(turns) > 60 else 1)
        time.sleep(2e-3)

    with pytest.raises(MXNetError, match="was compiled in the timed rounds"):
        bench.measure(meets_another_type, seconds=1)
    assert bench.measure(numba.njit(lambda x: x - 1), 1.0, seconds=0.01).compile_seconds > 0


@jit.kernel
def tripled(x):
    for i in range(len(x)):
        x[i] *= 3


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_a_run_tells_the_cold_and_the_warm_start():
    """Whether the first one compiles, or somebody has; the second one loads what it has kept."""
    for kernel in (tripled, jit.kernel(tripled.function)):
        result = bench.measure(kernel, np.ones(10), seconds=0.01)
        assert result.compile_seconds > 0 and result.load_seconds > 0 and result.first_seconds > 0
    with loaded_kernels() as loaded:
        jit.kernel(tripled.function)(np.ones(10))
    assert [each.is_new for each in loaded] == [False] and loaded[0].compiling > 0


def test_operators_symbols_and_modules_know_their_costs():
    work = bench.operator("FullyConnected", (4, 8), num_hidden=3)
    assert work.operations == 2 * 4 * 8 * 3 and work.nbytes >= 4 * (4 * 8 + 3 * 8 + 4 * 3)
    assert bench.operator("dot", (4, 8), (8, 3), backward=True).operations == 3 * 2 * 4 * 8 * 3
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3,
                                                     name="fc"), name="softmax")
    work = bench.symbol(net, train=True, data=(4, 8))
    assert work.name == "softmax train" and work.operations == 2 * 2 * 4 * 8 * 3
    work()
    module = mx.mod.Module(net)
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer()
    before = module.get_params()[0]["fc_weight"].asnumpy()
    bench.module_step(module, mx.io.DataBatch([mx.nd.ones((4, 8))], [mx.nd.zeros((4,))]))()
    assert not np.array_equal(before, module.get_params()[0]["fc_weight"].asnumpy())
    for name in ("contrib.quadratic", "_contrib_quadratic", "_mul_scalar", "mul_scalar"):
        bench.operator(name, (2,))()
    with pytest.raises(ArgumentError, match="no operator 'quadratic' in mx.sym"):
        bench.operator("quadratic", (2,))       # without its namespace
    with pytest.raises(ArgumentError, match="no operator 'Convolutoin'.* mean .*Convolution"):
        bench.operator("Convolutoin", (1,))


@pytest.mark.parametrize("array", [np.array, lambda x: mx.nd.array(x, dtype=x.dtype)])
def test_values_and_types_of_inputs_may_be_told(array):
    rows = np.array([3, 1, 1], np.int32)
    net = mx.sym.take(mx.sym.Variable("data"), mx.sym.Variable("rows"))
    executor = networks.bound(net, {"data": (4, 2), "rows": array(rows)}, True,
                              differentiate_inputs=True)
    assert executor.arg_dict["rows"].dtype == np.int32
    np.testing.assert_array_equal(executor.arg_dict["rows"].asnumpy(), rows)
    assert executor.grad_dict["rows"] is None and executor.grad_dict["data"] is not None
    work = bench.operator("take", (4, 2), array(rows), backward=True)
    work()
    assert work.nbytes == bench.symbol(net, True, data=(4, 2), rows=array(rows),
                                       differentiate_inputs=True).nbytes


def test_threads_are_those_asked_for_and_restored():
    seen = []
    bench.measure(lambda: seen.append(mx.get_num_threads()), seconds=0.01, threads=1)
    assert set(seen) == {1}


def test_numbers_of_threads_take_turns():
    before, seen = mx.get_num_threads(), []

    def note():
        seen.append(mx.get_num_threads())
        time.sleep(3e-4 / seen[-1])

    alone, *others = bench.sweep_threads(note, counts=(1, before), seconds=0.2)
    assert set(seen) == {1, before} and mx.get_num_threads() == before
    assert alone.threads == 1 and alone.speedup.median == 1 and alone.efficiency == 1
    assert [each.threads for each in others] == [before]
    assert others[0].efficiency == pytest.approx(others[0].speedup.median / before)


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="the system does not tell its load")
def test_a_busy_neighbour_is_warned_of():
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with observed() as conditions:
            time.sleep(0.5)
    finally:
        spinning.kill()
        spinning.wait()
    assert conditions.busy > 0.1 and "other processes took" in conditions.warnings[0]


def test_conditions_are_said_where_they_matter():
    assert not Conditions(0.05, 0.0, 3, (2000.0, 2050.0), 1.0, 2, 2, "omp").warnings
    texts = " ".join(Conditions(0.5, 0.1, 3, (2000.0, 1000.0), 1.0, 2, 4).warnings)
    assert "50% of the processor" in texts and "hypervisor" in texts
    assert "2000 to 1000 MHz" in texts and "4 threads share 2 cores" in texts


def test_the_table_has_80_columns():
    row = {"name": "a_very_long_name_of_a_test[with parameters]", "seconds": 1.234e-5,
           "noise": 0.004, "share": {"value": 0.871, "roof": "bfloat16 peak"}, "ratio": 0.871,
           "interval": [0.86, 0.88], "verdict": "UNDECIDED", "operations": 1.234e7,
           "nbytes": 1.234e4, "compile_seconds": 1.5, "load_seconds": 0.0,
           "first_seconds": 0.0123,
           "conditions": Conditions(0.5).as_json()}
    alone = row | {"share": None, "ratio": None, "interval": None, "verdict": None, "name": "b",
                   "noise": float("inf"), "compile_seconds": 0.0, "nbytes": 0.0}
    lines = report.table([row, alone])
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[2:] == ["12.3", "us", "0.4%", "0.871", "0.86", "-", "0.88", "UNDECIDED"]
    assert lines[2].split() == ["b", "12.3", "us", "?"]
    assert lines[3].split() == ["kernel", "GFLOP/s", "GB/s", "share", "of", "compile", "first",
                                "call"]
    assert lines[4].split()[2:] == ["1000", "1.00", "87%", "bfloat16", "1.50", "s", "12.3", "ms"]
    assert lines[5].split() == ["b", "1000", "12.3", "ms"]
    # Columns without anything are left out, and what then fits is one table.
    assert [line.split() for line in report.table([alone])[:2]] == [
        ["kernel", "time", "noise", "GFLOP/s", "first", "call"],
        ["b", "12.3", "us", "?", "1000", "12.3", "ms"]]
    assert [report.duration(each) for each in (12.3, 0.9999, 1e-3, 4.5e-5, 3e-9)] == [
        "12.3 s", "1.00 s", "1.00 ms", "45.0 us", "3.00 ns"]


TESTS = """
import numpy as np

def test_negative(kernel_benchmark):
    x = np.ones(1000)
    result = kernel_benchmark(np.negative, x, baseline=np.abs, seconds=0.05)
    assert result.name == "test_negative" and result.seconds > 0
    kernel_benchmark(np.negative, x, seconds=0.02)

def test_other(benchmark):
    benchmark.pedantic(lambda: None)
"""


def alone():
    """The environment without the options and the worker of the run that this is part of."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_the_plugin_reports_to_pytest_and_to_pytest_benchmark(options, tmp_path):
    (tmp_path / "test_kernels.py").write_text(textwrap.dedent(TESTS))
    run = subprocess.run([sys.executable, "-m", "pytest", "-p", "nbmod_pytest", "-q", *options,
                          *(["--benchmark-json=all.json"] if not options else [])],
                         cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
                         env=alone())
    assert run.returncode == 0, run.stdout + run.stderr
    table = run.stdout.partition("kernel benchmarks")[2].splitlines()
    assert table[1].startswith("kernel ") and table[2].startswith("test_negative ")
    assert table[3].startswith("test_negative #2")
    if not options:
        saved = {each["name"]: each for each in
                 json.loads((tmp_path / "all.json").read_text())["benchmarks"]}
        facts = saved["test_negative"]["extra_info"]
        assert saved["test_other"]["extra_info"] == {}
        own = [row[0] for row in facts["rounds"]]
        assert saved["test_negative"]["stats"]["median"] == pytest.approx(np.median(own), rel=1e-6)


REVISIONS = """
def turns(count):
    return sum(range(count * {parts}))
"""
COMPARED = """
from project import turns

def test_turns(kernel_benchmark):
    result = kernel_benchmark(turns, 3000, seconds=20)
    assert result.verdict == "SLOWER" and result.baseline == "HEAD~1", str(result)
    assert 2 < result.ratio < 4.5
    assert kernel_benchmark(turns, 10, seconds=0.01).verdict is None
"""


@pytest.fixture
def repository(tmp_path):
    """A project whose function takes three times as long as one commit before."""
    def git(*args):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *args],
                       cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "test_project.py").write_text(COMPARED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for parts in (1, 3):
        (tmp_path / "project.py").write_text(REVISIONS.format(parts=parts))
        git("add", ".")
        git("commit", "-q", "-m", f"{parts} parts")
    return tmp_path


def compared(repository, revision):
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "nbmod_pytest", "-q",
                           "--kernel-baseline", revision], cwd=repository, capture_output=True,
                          text=True, timeout=300, check=False, env=alone())


@pytest.mark.skipif(shutil.which("git") is None, reason="git is absent")
def test_another_commit_is_a_baseline(repository):
    run = compared(repository, "HEAD~1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "SLOWER" in run.stdout.partition("kernel benchmarks")[2]
    trees = subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True,
                           text=True, check=True).stdout.splitlines()
    assert len(trees) == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is absent")
def test_a_baseline_that_does_not_exist_or_fails_is_an_error(repository):
    assert "bench: git worktree add" in compared(repository, "no-such").stdout
    (repository / "test_project.py").write_text(COMPARED.replace("test_turns", "test_new"))
    run = compared(repository, "HEAD")
    assert run.returncode == 1
    assert "the process of HEAD does not serve; the end of its output" in run.stdout


def test_an_error_of_the_other_process_is_told():
    command = [sys.executable, "-c", "from nbmod.bench.remote import serve\n"
               "class Arm:\n    name = 'a'\n    def time(self, calls, turn):\n"
               "        if turn > 1: raise ValueError('no time')\n        return 1.0\n"
               "serve(Arm())"]
    with remote.served_by("it", command, Path.cwd(), os.environ) as arm:
        assert arm.time(1, 0) == 1.0
        with pytest.raises(MXNetError, match="bench: it: ValueError: no time"):
            arm.time(1, 2)
    with pytest.raises(MXNetError, match="the process of it has ended"):
        arm.time(1, 0)


def test_a_run_without_the_fixture_imports_no_nbmod():
    code = "import sys, nbmod_pytest; assert not {'nbmod', 'numpy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


