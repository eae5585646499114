"""The fuzzer in short: programs it has found, fresh programs, and injected faults it must find."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.execution import bind, steps
from nbmod.execution.arena import Memory
from nbmod.ndarray import gradients, mutation
from nbmod.ops.elementwise import float16
from nbmod.ops.nn.fully_connected import FullyConnected
from nbmod.ops.tensor.slicing import Concat
from nbmod.passes import gradient
from nbmod.passes.optimize import match_rnn
from nbmod.passes.translation_validation import Validation
from tests.fuzz import drawing, features, judge, program, tape
from tests.fuzz.company import CHECKS
from tests.fuzz.features import FEATURES
from tests.fuzz.found import FOUND
from tests.fuzz.judge import (
    require_agreement,
    require_mxnet,
    require_mxnet_training,
    require_numpy_forms,
)
from tests.fuzz.program import Line, Program
from tests.fuzz.runs import Way, bound, run
from tests.fuzz.search import Finding, error_of, explained, search, small_chains_fuse
from tests.fuzz.shrink import smallest
from tests.fuzz.tally import Tally
from tests.oracle.client import Oracle

FRESH = 15
"""Programs of every style: a quarter of a minute, and what it takes to compile their kernels."""
FEW = 4
"""Of large ones."""


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("seed", range(3))
def test_what_was_found_stays_mended(name, seed):
    with small_chains_fuse():
        require_agreement(mx, FOUND[name], seed)


@pytest.mark.parametrize("style", drawing.SHARES)
def test_fresh_programs(style):
    """New ones in every run, also in CI: a failure prints the seed and the program."""
    first, number = int.from_bytes(os.urandom(5), "little"), FEW if style == "large" else FRESH
    found: list[Finding] = []
    search(mx, iter(range(first, first + number)), style, found.append)
    assert not found, f"python -m tests.fuzz --style {style}\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("style", ["dense", "images", "recurrent"])
def test_numpy_forms_compute_what_kernels_do(style):
    """With float32 rounding, where every operator has one: in most programs."""
    first = int.from_bytes(os.urandom(5), "little")
    programs = {seed: drawing.program(Random(seed), style) for seed in range(first, first + FRESH)}
    covered = sum(explained_forms(program, seed) for seed, program in programs.items())
    assert covered > FRESH / 2


def explained_forms(program: Program, seed: int) -> bool:
    """`require_numpy_forms`, whose errors name the program."""
    try:
        return require_numpy_forms(mx, program)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {program}") from error


@pytest.mark.parametrize("style", drawing.SHARES)
def test_programs_compute_what_mxnet_does(oracle_of_programs, style):
    """The same ones in every run, since MXNet has errors of its own."""
    programs = [drawing.program(Random(seed), style)
                for seed in range(FEW if style == "large" else 20)]
    asked = sum(require_mxnet(mx, oracle_of_programs, program) for program in programs)
    assert asked > len(programs) / 2


@pytest.mark.parametrize("style", ["dense", "images"])
def test_modules_learn_what_mxnets_do(oracle_of_programs, style):
    """Parameters after some epochs."""
    programs = (drawing.program(Random(seed), style) for seed in range(16))
    asked = sum(require_mxnet_training(mx, oracle_of_programs, replace(program, mirror=False))
                for program in programs)
    assert asked > 4


@pytest.fixture(scope="module")
def oracle_of_programs(oracle):
    """MXNet, with the programs."""
    client = Oracle(oracle.python, package="tests.fuzz")
    yield client
    client.close()


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_what_they_say(seed):
    """Text and JSON make the same program, the same seed draws it again."""
    from tests.fuzz.program import Line  # noqa: F401  # for `eval`

    program = drawing.program(Random(seed))
    assert drawing.program(Random(seed)) == program
    assert Program.from_json(program.to_json()) == program
    assert eval(str(program)) == program


def test_outputs_of_lines_have_shapes_alone():
    """A program may read one of them, such as a state that no layer of another size bounds."""
    for seed in range(200):
        drawn = drawing.program(Random(seed), "cells")
        made = len(drawn.inputs) + sum(line.gives for line in drawn.lines)
        for value in range(len(drawn.inputs), made):
            symbol, _ = program.build(mx, replace(drawn, outputs=(value,)))
            shapes = {f"x{i}": shape for i, shape in enumerate(drawn.inputs)}
            known = {name: shapes[name] for name in symbol.list_arguments() if name in shapes}
            assert symbol.infer_shape(**known)[1] is not None, (seed, value)


def test_every_blind_spot_is_drawn():
    """Of programs of any style; and passes that ask for large values apply to some."""
    lacking = {*FEATURES}
    for seed in range(250):
        lacking.difference_update(features.of_program(drawing.program(Random(seed))))
        if not lacking:
            return
    raise AssertionError(lacking)


def test_every_program_is_validated_in_training_and_inference(monkeypatch):
    """As users bind it."""
    validated = set()
    right = Validation.compare

    def noted(self, change):
        right(self, change)
        validated.update((name, bool(self._trained)) for name in self.passes)

    monkeypatch.setattr(Validation, "compare", noted)
    program = Program(((3, 4),), (
        Line("dense", (0,), {"num_hidden": 3, "no_bias": True, "flatten": True, "act": None}),
        Line("batch_norm", (1,), {"op": None}),
        Line("chain", (2,), {"ops": ("double", "tanh")})), (3,))
    with small_chains_fuse():
        judge.require_agreement(mx, program)
    assert {("fuse_elementwise", True), ("fold_batch_norm", False)} <= validated


def test_passes_for_large_networks_apply_to_programs():
    """Images in bands and in tiles, in programs of few elements."""
    found = set()
    with small_chains_fuse():
        for seed in islice(count(), 100):
            program = replace(drawing.program(Random(seed), "images"), request="null")
            with bound(mx, program, Way("default")) as executor:
                found |= {node.op_name for node in executor.compiled.graph.nodes}
            if {"_batch_tiles", "_blocked_chain"} <= found:
                return
    raise AssertionError(found)


def test_a_tally_adds_up_over_processes(tmp_path):
    one = Tally(Counter(dense=2), 1, Counter(sparse=3))
    one.write(tmp_path / "one")
    both = Tally.read(tmp_path / "one") + one
    assert both == Tally(Counter(dense=4), 2, Counter(sparse=6))
    assert str(both).splitlines() == ["4 programs, 2 clean", "  styles: dense 4",
                                      "  features: sparse 6"]


def test_settings_of_a_program_end_with_it(monkeypatch):
    """Programs that mirror leave other tests, and MXNet's processes, unchanged."""
    monkeypatch.delenv("MXNET_BACKWARD_DO_MIRROR", raising=False)
    drawn = (drawing.program(Random(seed), "dense") for seed in count())
    program = next(program for program in drawn if program.mirror)
    # the first kernel of a process sets variables of its threads
    assert not error_of(mx, next(program for program in drawn if not program.mirror), 0)
    before = dict(os.environ), vars(mx.core.config.CONFIG).copy(), mx.get_num_threads()
    assert not error_of(mx, program, 0)
    assert before == (dict(os.environ), vars(mx.core.config.CONFIG), mx.get_num_threads())


def test_programs_shrink_to_the_line_that_fails():
    def has_concat(other: Program) -> bool:
        return any(line.kind == "concat" for line in other.lines)

    drawn = (drawing.program(Random(seed), "dense") for seed in count())
    program = next(p for p in drawn if len(p.lines) > 5 and has_concat(p))
    assert [line.kind for line in smallest(mx, program, has_concat).lines] == ["concat"]


# -- injected faults ------------------------------------------------------------------------------

def _failing(style: str) -> tuple[Program, int, str]:
    """The first of some hundred programs that fails, its seed and the error."""
    with small_chains_fuse():
        for seed in islice(count(), 150):
            program = drawing.program(Random(seed), style)
            error = error_of(mx, program, seed)
            if error:
                return program, seed, error
    raise AssertionError("the fault was not found in 150 programs")


def test_the_judge_knows_that_bodies_of_loops_round():
    """A gradient of float16 whose terms, within the body, cancel to a fiftieth."""
    judge.require_float16(mx, Program(((3, 1, 3), (1, 1, 4), (2, 1, 3)), (
        Line("foreach", (0,), {"ops": ("act_relu", "tanh"), "dense": True}, 2),
    ), (3, 4)))


def test_the_judge_knows_that_gradients_of_softmax_cancel():
    """Probabilities near 1, which float32 rounds: g - p sum(g) is the rounding of g."""
    judge.require_agreement(mx, Program(((6, 3),), (
        Line("chain", (0,), {"ops": ("square", "square")}),
        Line("dense", (1,), {"num_hidden": 16, "no_bias": False, "flatten": True, "act": "relu"}),
        Line("binary", (2, 2), {"op": "elemwise_mul"}),
        Line("softmax", (3,), {"axis": 0, "op": "log_softmax"}),
        Line("chain", (4,), {"ops": ("softrelu",)}),
    ), (5,)))


def test_the_judge_knows_that_nan_times_zero_is_added():
    """Pixels that no tap of a dilated filter reaches get no gradient, or NaN times zero."""
    judge.require_agreement(mx, Program(((1, 17, 7, 8),), (
        Line("binary", (0, 0), {"op": "elemwise_sub"}),
        Line("convolution", (1,), {"kernel": (3, 3), "pad": (1, 1), "dilate": (2, 2),
                                   "num_group": 17, "stride": (2, 2), "num_filter": 17,
                                   "no_bias": True}),
        Line("reduce", (2,), {"op": "prod", "axis": 0, "keepdims": True}),
    ), (3, 0)))


def test_the_judge_knows_that_a_body_exceeds_float16():
    """A square is infinite in float16 and half of it is not in float64; no node shows it."""
    judge.require_float16(mx, Program(((5, 3, 4),), (
        Line("transpose", (0,), {"axes": (0, 1, 2)}),
        Line("dense", (1,), {"num_hidden": 17, "no_bias": False, "flatten": True, "act": None}),
        Line("while", (2,), {"op": "square", "limit": 3}),
    ), (3,), request="null"))


def test_the_judge_knows_that_sums_of_exponentials_are_rounded():
    """log(1 + 1e-5) has the error of 1 + 1e-5, in MXNet as well; no node shows that sum."""
    judge.require_agreement(mx, Program(((1, 17, 8, 6),), (
        Line("reduce", (0,), {"op": "sum", "axis": 1, "keepdims": True}),
        Line("softmax", (1,), {"axis": 3, "op": "log_softmax"}),
        Line("pooling", (2,), {"global_pool": True, "kernel": (1, 1), "pool_type": "max"}),
    ), (3,), request="null"), 1795864498890)


def test_the_judge_leaves_labels_alone():
    """It perturbed them like other inputs; a label of -1.001 is an error."""
    program = Program(((1, 3),), (
        Line("table", (0,), {"sample": "CTCLoss-2", "into": "data"}),
        Line("table", (1,), {"sample": "LayerNorm-8", "into": "data"}),
    ), (2,))
    judge._Judge(mx, program, judge.HALF)._run_moved(1)


def test_the_judge_compares_large_elements_of_float16():
    """It took 61760 for the lowest value of the type, and any difference for infinite."""
    expected = np.array([61738.0, np.inf])
    assert judge._distance(np.array([61760, np.inf], np.float16), expected) == 22
    assert judge._distance(np.array([61760, 61760], np.float16), expected) == np.inf


def _first_disagreement(style: str, check: Callable[[Program, Random], object], most: int
                        ) -> tuple[Program, str]:
    """The first of `most` programs for which `check` raises Disagreement, and the error."""
    with small_chains_fuse():
        for seed in range(most):
            rng = Random(seed)
            program = drawing.program(rng, style)
            try:
                check(program, rng)
            except judge.Disagreement as error:
                return program, str(error)
    raise AssertionError(f"the fault was not found in {most} programs")


def _check_of_company(name: str) -> Callable[[Program, Random], None]:
    """One of the checks among others, for every program."""
    together = CHECKS[name][1]

    def check(program: Program, rng: Random) -> None:
        judge.require_bits(*together(mx, program, Way("default"), rng), name, "alone")

    return check


def test_a_state_that_is_taken_for_another_is_found(monkeypatch):
    """Injected fault: what a GRU blends is taken for what its h2h layer reads."""
    right = match_rnn._step

    def step(h: Any) -> Any:
        found = right(h)
        is_gru = found is not None and found.mode == "gru"
        return found._replace(before=found.layers[1].data) if is_gru else found

    monkeypatch.setattr(match_rnn, "_step", step)

    def check(program: Program, rng: Random) -> None:
        if any(line.params.get("mode") == "gru" for line in program.lines):
            inference = replace(program, request="null")
            judge._Judge(mx, inference).require_close(run(mx, inference, Way("default")), "default")

    _first_disagreement("cells", check, 60)


def test_memory_that_is_handed_out_and_not_watched_is_found(monkeypatch):
    """Injected fault: nobody knows that others may write."""
    monkeypatch.setattr(mutation, "is_shared", lambda array: False)
    _first_disagreement("images", _check_of_company("written from outside"), 60)


def test_gradients_that_are_stored_over_arguments_at_once_are_found(monkeypatch):
    """Injected fault: nobody looks for arrays in one memory."""
    monkeypatch.setattr(bind, "_overlapping", lambda grads, others: frozenset())
    _first_disagreement("dense", _check_of_company("gradients over arguments"), 60)


def test_head_gradients_that_are_overwritten_are_found(monkeypatch):
    """Injected fault: head gradients in memory of gradients are read when these are written."""
    monkeypatch.setattr(gradients._Heads, "_keep_apart", lambda self: None)
    _first_disagreement("dense", _check_of_company("from gradients"), 400)


def test_gradients_that_are_given_twice_are_found(monkeypatch):
    """Injected fault: an entry that is read twice gets all that flows to it each time."""
    right = gradient._through

    def through(node: Any, *given: Any) -> Any:
        flows = list(zip(node.inputs, right(node, *given), strict=True))
        sums = {entry: grad for entry, grad in flows if grad is not None}
        return [sums.get(entry) for entry, _ in flows]

    monkeypatch.setattr(gradient, "_through", through)

    def check(program: Program, rng: Random) -> None:
        if tape.applies(program):
            judge.require_curvature(mx, program)

    assert "second derivative" in _first_disagreement("dense", check, 400)[1]


def _found(style: str) -> Finding:
    """The same, explained."""
    program, seed, error = _failing(style)
    with small_chains_fuse():
        return explained(mx, program, seed, error)


def test_an_inplace_pair_that_is_none_is_found(monkeypatch):
    """A layer needs the head gradient again after it has written the gradient of its data."""
    monkeypatch.setattr(FullyConnected, "inplace_backward", (("ograd", "data"),))
    found = _found("dense")
    assert "inplace" in found.passes, found


def test_a_wrong_alias_of_a_concat_is_found(monkeypatch):
    """Slices are written in the reverse order."""
    right = Concat.concat_offsets

    def concat_offsets(self: Any, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        found = right(self, ins, outs)
        if found and len({spec.shape for spec in ins}) == 1:
            return found._replace(offsets=found.offsets[::-1])
        return found

    monkeypatch.setattr(Concat, "concat_offsets", concat_offsets)
    found = _found("dense")
    assert "alias_concat" in found.passes, found


def test_a_dropped_gradient_addition_is_found(monkeypatch):
    """Every way of binding drops it: only finite differences show it."""
    right = gradient._total

    def total(contributions: Any, entry: Any) -> Any:
        parts = contributions.get(entry)
        if parts and len(parts) > 1:
            del parts[1:]
        return right(contributions, entry)

    monkeypatch.setattr(gradient, "_total", total)
    found = _found("dense")
    assert "finite differences" in found.error, found


def test_executors_that_share_memory_by_mistake_are_found(monkeypatch):
    """Intermediates of all executors are in one arena, and executors are not told of overwrites."""
    arenas: dict[Any, Any] = {}

    class Common(Memory):
        def __init__(self, plan: Any, spaces: Any, _: Any):
            super().__init__(plan, spaces, arenas)

        def is_owned_by(self, tenant: Any) -> bool:
            return True

    monkeypatch.setattr(steps, "Memory", Common)
    _first_disagreement("dense", _check_of_company("in turns"), 150)


def test_parameters_that_are_not_shared_are_found(monkeypatch):
    """Writes of one executor are not seen by the other."""
    monkeypatch.setattr(bind._Sharing, "_shared", lambda self, table, *spec: self._fresh(*spec))
    _first_disagreement("dense", _check_of_company("in shared memory"), 150)


def test_parameters_whose_change_is_not_told_are_found(monkeypatch):
    """Weights in blocks, and with batch norm folded in, are those of the step before."""
    monkeypatch.setattr(mutation, "written_owners", lambda ids: None)
    _first_disagreement("images", _check_of_company("in shared memory"), 150)


def test_a_half_that_is_not_added_to_is_found(monkeypatch):
    """Injected fault: sums start from the content of the float32 workspace."""
    right = float16.in_float32

    def in_float32(make: Any, ins: Any, outs: Any, call: Any, *copying: Any) -> Any:
        def made(wide_ins: Any, wide_outs: Any, _: Any) -> Any:
            return make(wide_ins, wide_outs, call)

        run = right(made, ins, outs, replace(call, add=[False] * len(outs)), *copying)

        def spoiled() -> None:
            for array in call.scratch:
                array.fill(1)
            run()

        return spoiled

    monkeypatch.setattr(float16, "in_float32", in_float32)

    def check(program: Program, rng: Random) -> None:
        if judge._is_stable(program):
            judge.require_float16(mx, program)

    _first_disagreement("dense", check, 150)


def test_a_state_of_labels_is_compared_through_onnx():
    """What computes labels is not exported, and its states stay as they are."""
    program = Program(((1, 1, 5, 1),), (
        Line("broadcast", (0, 0), {"op": "broadcast_sub"}),
        Line("batch_norm", (0,), {"fix_gamma": True, "use_global_stats": True, "axis": 1,
                                  "eps": 0.1, "op": None}),
        Line("regression", (1, 2), {"op": "maximum"})), (3,), request="null")
    judge.require_conversions(mx, program, judge.SINGLE)
