"""The collector of reference cycles."""

from __future__ import annotations

import gc

import nbmod as mx
from nbmod.core.collector import without_collector
from nbmod.execution import programs


def test_it_is_as_before_after_a_block():
    with without_collector():
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_executors_are_made_without_it(monkeypatch):
    net = mx.sym.Variable("x") + 1
    net.simple_bind(mx.cpu(), x=(2,))
    enabled = []
    compile_graph = programs.compile_graph
    monkeypatch.setattr(programs, "compile_graph",
                        lambda *args: enabled.append(gc.isenabled()) or compile_graph(*args))
    net.simple_bind(mx.cpu(), x=(2,))
    assert enabled == [False] and gc.isenabled()
