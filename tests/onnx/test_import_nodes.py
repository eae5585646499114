"""A sample of ONNX's own node tests; `python -m bench.onnx_import` runs all of them."""

from __future__ import annotations

import pkgutil
from collections import Counter

import pytest

pytest.importorskip("onnx")

from onnx.backend.test.case import node as cases  # noqa: E402

from bench.onnx_import import NodeTest, check, node_tests, without_counterpart  # noqa: E402

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


def sampled() -> dict[str, NodeTest]:
    """Tests whose operators and types have a counterpart."""
    found: dict[str, NodeTest] = {}
    counts: Counter[tuple[str, bool]] = Counter()
    present = sorted(each.name for each in pkgutil.iter_modules(cases.__path__)
                     if each.name in MODULES)
    for test in node_tests(present):
        kind = test.model.graph.node[-1].op_type, "expanded" in test.name
        if not without_counterpart(test) and not any(part in test.name for part in REFUSED):
            counts[kind] += 1
            if counts[kind] <= FIRST:
                found[test.name] = test
    return found


TESTS = sampled()


@pytest.mark.parametrize("name", sorted(TESTS))
def test_a_node_of_onnx(name):
    check(TESTS[name])


def test_the_sample_is_large():
    assert len(TESTS) > 150
