"""Distributed stores on MPI: what `test_store` and `test_overlap` say of threads, of processes."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from tests.kvstore.distributed import test_overlap, test_store, test_trainer_ranks
from tests.kvstore.distributed.launched import Launch, require_mpi

require_mpi()

ROOT = Path(__file__).parents[3]
SCRIPT = str(Path(__file__).parent / "exchanges.py")
BOUND = {"MXNET_KVSTORE_BIGARRAY_BOUND": "1000", "PYTHONPATH": str(ROOT),
         "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}


def expected(ranks: int) -> dict[str, np.ndarray]:
    """What one process has."""
    found = test_store.one_process(ranks, "adam")
    store = mx.kv.create("local")
    store.init("rows", mx.nd.ones((11, 3)).tostype("row_sparse"))
    store.set_optimizer(mx.optimizer.create("adam"))
    for step in range(3):
        store.push("rows", [test_store.rows_of(rank, step) for rank in range(ranks)])
    pulled = mx.nd.zeros((11, 3))
    store.pull("rows", out=pulled, ignore_sparse=False)
    found["rows"] = pulled.asnumpy()
    if ranks == 2:
        found |= test_overlap.fit("local", 2, range(2), devices=2)[0]
        found |= test_trainer_ranks.trained_both_ways("device", 2, range(2))
    device = mx.kv.create("device")
    device.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    after = test_store.pushed(device, lambda name, step: [
        test_store.gradient(name, rank, step) for rank in range(ranks)], "sgd", 3)
    return found | {f"compressed {name}": array for name, array in after.items()}


@pytest.mark.parametrize("ranks, kind", [(2, "dist_sync"), (3, "dist_sync"),
                                         (2, "dist_device_sync")])
def test_bits_are_those_of_one_process(ranks, kind, tmp_path, monkeypatch):
    run = Launch(["-n", str(ranks), SCRIPT, kind, str(tmp_path / "of")], BOUND)
    assert run.wait() == 0, run.text
    wanted = expected(ranks)
    for rank in range(ranks):
        with np.load(tmp_path / f"of-{rank}.npz") as found:
            assert set(found) == set(wanted)
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array, err_msg=f"{rank}: {name}")


def test_nothing_is_pickled():
    """mpi4py's methods in lower case pickle what they are given."""
    pickling = {"send", "recv", "isend", "irecv", "bcast", "gather", "allgather", "scatter",
                "alltoall", "reduce", "allreduce", "sendrecv", "bsend", "ssend", "probe", "scan"}
    for path in (ROOT / "nbmod").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "mpi4py" not in text and "kvstore/distributed" not in path.as_posix():
            continue
        for node in ast.walk(ast.parse(text)):
            assert not (isinstance(node, (ast.Import, ast.ImportFrom)) and "pickle" in {
                getattr(node, "module", None), *(name.name for name in node.names)}), path
            if isinstance(node, ast.Attribute) and node.attr in pickling:
                owner = ast.unparse(node.value)
                assert "comm" not in owner or owner.endswith("communicator"), (
                    f"{path}:{node.lineno}: {owner}.{node.attr}")
