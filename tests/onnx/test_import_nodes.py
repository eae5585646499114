"""A sample of ONNX's own node tests; `python -m bench.onnx_import` runs all of them."""

from __future__ import annotations

import functools
import pkgutil
from collections import Counter

import pytest

pytest.importorskip("onnx")

from onnx.backend.test.case import node as cases  # noqa: E402

from bench.onnx_import import check, node_tests, without_counterpart  # noqa: E402
from tests.grouped import Case, run_cases  # noqa: E402

MODULES = {
    "affinegrid", "averagepool", "batch_normalization", "castlike", "clip", "col2im", "concat",
    "conv", "convtranspose", "cumsum", "deformconv", "depthtospace", "dequantizelinear",
    "dynamicquantizelinear", "einsum", "expand", "gatherelements", "gathernd", "gemm",
    "gridsample", "groupnormalization", "gru", "hardmax", "if_", "instance_normalization",
    "layernormalization", "lpnormalization", "lrn", "lstm", "matmul", "maxpool", "mod",
    "negativeloglikelihoodloss", "onehot", "pad", "prelu", "qlinearconv", "qlinearmatmul",
    "quantizelinear", "reduce_log_sum_exp", "reducel2", "reducemax", "reshape", "resize",
    "reversesequence", "rnn", "roialign", "rotaryembedding", "scan", "scatterelements",
    "scatternd", "slice", "softmax", "split", "topk", "transpose", "trilu", "where"}
REFUSED = {"bicubic": "cubic samples", "volumetric": "volumes", "reflection": "mirrored borders",
           "argmax_2d": "indices of maxima", "roialign_mode_max": "maxima of samples",
           "scan_sum": "the Scan of opset 8", "float_edge_cases_fmod_0": "remainders of infinity",
           "empty_set": "extremes of nothing"}
"""Parts of names of tests that are not imported, and of what."""
FIRST = 4
"""Tests of each operator that are run, and of those that are written as a function's body."""


@functools.cache
def sampled() -> dict[str, list[Case]]:
    """By module, tests whose operators and types have a counterpart.  onnx computes their results
    when a module is imported, some seconds for all: not while tests are collected."""
    found: dict[str, list[Case]] = {}
    counts: Counter[tuple[str, bool]] = Counter()
    seen: set[str] = set()
    for module in sorted(MODULES & {each.name for each in pkgutil.iter_modules(cases.__path__)}):
        new = [test for test in node_tests([module]) if test.name not in seen]
        seen |= {test.name for test in new}
        for test in new:
            kind = test.model.graph.node[-1].op_type, "expanded" in test.name
            if not without_counterpart(test) and not any(part in test.name for part in REFUSED):
                counts[kind] += 1
                if counts[kind] <= FIRST:
                    found.setdefault(module, []).append(Case(test.name, (test,)))
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_nodes_of_onnx(module):
    run_cases(check, ["test"], sampled().get(module, []), {})


def test_the_sample_is_large():
    assert sum(map(len, sampled().values())) > 150
