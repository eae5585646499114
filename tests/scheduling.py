"""The order in which the processes of pytest-xdist run test files.

The scheduler reads the file in a test's id.  The marks of `xdist_group` reach the ids, and with
them xdist's own scheduler, through an attribute that pytest 9.2 no longer reads: every test is a
group there, all processes repeat the fixtures of modules, and the scheduler's work grows with the
square of the number of tests.
"""

from __future__ import annotations

import functools
from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

OPERATORS = "operators"
_FILES_OF_OPERATORS = {"test_ops", "test_rows", "test_placement", "test_recompute"}
LONGEST = (
    OPERATORS, "tests/contrib/test_quantization.py", "tests/fuzz/test_programs.py",
    "tests/test_examples.py",
    "tests/kernels/test_wheel.py", "tests/ops/test_simd.py",
    "tests/execution/test_first_answers.py", "tests/ops/test_shipped_kernels.py",
    "tests/ops/test_gemm.py", "tests/test_wheel.py", "tests/execution/test_startup.py",
    "tests/execution/test_compile_cache.py",
    "tests/passes/test_memory_plan.py", "tests/ops/test_any_values.py", "tests/test_autograd.py",
    "tests/ops/test_choose_algorithm.py", "tests/bench/test_distributed.py",
)
"""Units of more than about half a minute: no process waits long for another at the end."""


def unit_of(nodeid: str) -> str:
    """The unit of a test: its file, or `OPERATORS`, where one process compiles all kernels."""
    file = nodeid.partition("::")[0]
    return OPERATORS if PurePosixPath(file).stem in _FILES_OF_OPERATORS else file


class FileScheduling(LoadScopeScheduling):
    """Every unit runs in one process; long units begin first.

    Tests that are done leave the records, and places are looked up, so that the work is linear in
    the number of tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int,
                           duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        del self.assigned_work[node][unit_of(nodeid)][nodeid]
        self._reschedule(node)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def _assign_work_unit(self, node: WorkerController) -> None:
        unit = next((unit for unit in LONGEST if unit in self.workqueue),
                    next(iter(self.workqueue)))
        tests = self.assigned_work[node][unit] = self.workqueue.pop(unit)
        node.send_runtest_some([self._places[nodeid] for nodeid in tests])

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        """Tests by id: their indices in the collection, which is that of all processes."""
        return {nodeid: index for index, nodeid in enumerate(self.collection or ())}
