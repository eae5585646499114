"""The part of the tests that runs with kernels as Python functions, which coverage can see.

    python -m tests.interpreted            as .ci/run does it; further arguments are pytest's

numba does not compile (NUMBA_DISABLE_JIT=1), so all samples of operators are small.  Coverage
counts every line of the package except those excluded in pyproject.toml, and must not fall below
the threshold there.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

TESTS = (
    "tests/kvstore", "tests/metric", "tests/ndarray", "tests/recordio", "tests/symbol",
    "tests/contrib", "tests/convert", "tests/onnx", "tests/safetensors", "tests/test_serving.py",
    "tests/ops/test_sparse_products.py", "tests/ops/test_sparse_reductions.py",
    "tests/optimizer/test_sparse_updates.py", "tests/execution/test_sparse_executor.py",
    "tests/execution/test_dense_regions.py", "tests/execution/test_cached_op.py",
    "tests/gluon/test_block.py", "tests/gluon/test_data.py", "tests/gluon/test_gluon.py",
    "tests/gluon/test_hybrid_block.py", "tests/gluon/test_loss.py", "tests/gluon/test_parameter.py",
    "tests/gluon/test_parameter_files.py", "tests/gluon/test_vision_data.py",
    "tests/image/test_image.py",
    "tests/io/test_io.py",
    "tests/module/test_bucketing.py", "tests/module/test_feedforward.py",
    "tests/module/test_module.py", "tests/module/test_sequential.py", "tests/operator",
    "tests/ops/test_ops.py", "tests/optimizer/test_optimizer.py", "tests/optimizer/test_states.py",
    "tests/passes/test_fuse_depthwise.py", "tests/passes/test_fuse_elementwise.py",
    "tests/passes/test_gradient.py", "tests/passes/test_shape_inference.py",
    "tests/passes/test_translation_validation.py", "tests/profiler",
    "tests/rnn", "tests/test_atomic.py", "tests/test_autograd.py", "tests/test_c_interface.py",
    "tests/bench/test_measure.py", "tests/bench/test_statistics.py",
    "tests/callback", "tests/test_config.py", "tests/test_initializer.py",
    "tests/cli/test_predict.py", "tests/diagram",
    "tests/test_archive_members.py", "tests/test_model_archive.py", "tests/test_reprs.py",
    "tests/test_screen.py",
    "tests/test_lr_scheduler.py", "tests/test_serialization.py",
    "tests/test_util.py", "tests/test_visualization.py",
)
COMPILED = {
    "test_a_script_with_fused_cells_and_checkpoints_runs": "takes a minute",
    "test_the_example_trains_on_two_processes": "takes minutes",
    "test_positions_are_those_of_a_search": "takes a minute",
    "comes_next[insightface_detection]": "takes half a minute",
    "test_commands_open_files_with_operators_of_ones_own": "measures the host's peak",
    "test_hostile_states[attributes given to many]": "takes a minute",
    "test_a_deep_chain_needs_no_recursion": "takes half a minute, and runs no kernel",
    "test_compiled_kernels_are_found_by_the_next_process": "looks at compiled code",
    "test_roofs_are_measured": "Python functions have none",
    "test_a_compilation_in_a_timed_round": "nothing is compiled",
    "test_what_only_a_call_can_tell_names_the_kernel": "the error is one of numba",
    "_contrib_quantized_fully_connected-4": "products of NumPy's bytes overflow, numba's do not",
    "_contrib_quantized_conv-2": "the same",
    "test_predictions_agree[options": "the same, in networks of 8-bit integers",
    "test_layers_of_one_name_have_their_own_ranges": "the same",
}
"""What is left out: part of a test's name -> why."""
APART = ("tests/kvstore/distributed/test_failure.py", "tests/kvstore/distributed/test_launch.py",
         "tests/kvstore/distributed/test_mpi.py", "tests/kvstore/distributed/test_overlap.py")
"""Files whose tests start processes, which coverage does not see, or train for minutes."""
OPERATORS = ("test_gradient_is_the_derivative", "test_eager_call_gives_the_executors_result",
             "test_wrong_call_is_a_named_error")
"""Tests of tests/ops/test_ops.py: values of outputs and gradients."""
ELEMENTS = 1000
"""Most elements of all inputs of a sample."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out `COMPILED`, large samples, and all element types of samples but one."""
    items[:] = [item for item in items if _is_kept(item.name)
                and (item.path.stem != "test_ops" or _has_small_cases(item))]


def _is_kept(name: str) -> bool:
    return not any(part in name for part in COMPILED)


def _has_small_cases(item: pytest.Item) -> bool:
    """Leave an item of `OPERATORS` its small cases, and tell whether it has some."""
    assert isinstance(item, pytest.Function)
    if item.originalname not in OPERATORS:
        return False
    cases = item.callspec.params["cases"]
    cases[:] = [case for case in cases if _is_kept(f"{item.originalname}[{case.id}]")
                and _is_small(*case.values)]
    return bool(cases)


def _is_small(name: str, dtype: str = "float32") -> bool:
    from tests.cases import all_samples

    sizes = [math.prod(spec.shape) for spec in all_samples()[name].specs.values()]
    return sum(sizes) <= ELEMENTS and dtype == "float32"


def main(args: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "tests.interpreted", "--cov",
               "--cov-report=term:skip-covered", "-m", "not oracle and not gpu", "-q", "-r", "fE",
               *(f"--ignore={file}" for file in APART), *args, *TESTS]
    return subprocess.call(command, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
