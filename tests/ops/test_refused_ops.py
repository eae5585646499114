"""Operators that are absent on purpose are errors that name them and what to use."""

from __future__ import annotations

import json

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ops.refused_ops import ABSENT


@pytest.mark.parametrize("name", ABSENT)
def test_absent_operators_name_what_to_use(name):
    public, given = name.removeprefix("_contrib_"), mx.nd.zeros((2, 2)).tostype("csr")
    nodes = [{"op": "null", "name": "x", "inputs": []},
             {"op": name, "name": "y", "inputs": [[0, 0, 0]]}]
    text = json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]})
    for use in (lambda: getattr(mx.nd.contrib, public)(given),
                lambda: getattr(mx.sym.contrib, public)(mx.sym.var("x"), num_args=1),
                lambda: mx.sym.load_json(text)):
        with pytest.raises(MXNetError, match=f"{name}' is not implemented.*; use (dgl|x)"):
            use()
    with pytest.raises(MXNetError, match=r"node 1 y .*is not implemented"):
        mx.sym.load_json(text)
