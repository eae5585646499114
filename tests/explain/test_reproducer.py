"""Reproducers: scripts that run a step by itself, from another folder."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.test_house import ROOT

SYM = mx.sym


def network():
    net = SYM.Convolution(SYM.Variable("data"), num_filter=16, kernel=(3, 3), pad=(1, 1),
                          name="conv")
    net = SYM.relu(SYM.BatchNorm(net, name="bn"), name="relu")
    net = SYM.FullyConnected(net, num_hidden=10, name="fc")
    return SYM.SoftmaxOutput(SYM.tanh(net, name="tanh"), name="softmax")


def explanation(grad_req):
    return network().simple_bind(mx.cpu(), grad_req=grad_req, data=(2, 3, 16, 16)).explain()


def executor_of(reproducer, tmp_path):
    """The executor that the script binds."""
    names = {"__file__": str(reproducer.save(tmp_path)), "__name__": "reproducer"}
    exec(compile(reproducer.script, "script", "exec"), names)
    return names["bound"]()


@pytest.mark.parametrize("grad_req", ["null", "write"])
def test_every_step_that_computes_nodes_runs_by_itself(grad_req, tmp_path):
    whole = explanation(grad_req)
    plan, count = whole.facts.plan, 0
    for index, step in enumerate(plan.steps):
        try:
            reproducer = whole.reproducer(index)
        except MXNetError as error:
            assert "such as" in str(error)
            continue
        count += 1
        alone = executor_of(reproducer, tmp_path).explain().facts.plan
        same = [each for each in alone.steps if each.op == step.op]
        assert step.operations in [each.operations for each in same], step.name
        tensors = {tuple(alone.entries[eid].tensor.shape) for each in same for eid in each.writes
                   if eid is not None}
        assert {tuple(plan.entries[eid].tensor.shape) for eid in step.writes
                if eid is not None} <= tensors
    assert count == (4 if grad_req == "null" else 10)


def test_it_computes_what_the_nodes_compute(tmp_path):
    reproducer = explanation("null").reproducer("fc")
    executor = executor_of(reproducer, tmp_path)
    out = executor.forward()[0].asnumpy()
    arrays = reproducer.arrays
    expected = arrays["relu_output"].reshape(2, -1) @ arrays["fc_weight"].T + arrays["fc_bias"]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-6)     # sums of 4096 products


def test_the_script_runs_elsewhere(tmp_path):
    script = explanation("write").reproducer("fc_backward").save(tmp_path / "out")
    assert len(script.read_text().splitlines()) < 60
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["-m", "pytest", "-q", "-p", "nbmod_pytest", "-p", "no:cacheprovider"], []):
        run = subprocess.run([sys.executable, *words, script.name], cwd=script.parent,
                             env=environment, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stdout + run.stderr
    assert "fc_backward (_backward_FullyConnected)" in run.stdout


OWN = """
from dataclasses import dataclass

import nbmod as mx
from nbmod.ops import Op

@mx.register_op("reproduced")
@dataclass(frozen=True)
class Reproduced(Op):
    '''y = x.'''
    def forward(self, ins, outs, call):
        outs[0][:] = ins[0]

class Copy(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

@mx.operator.register("reproduced_custom")
class CopyProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Copy()
"""


def test_the_script_imports_operators_of_users(tmp_path, monkeypatch):
    package = tmp_path / "project" / "reproduced_ops"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text(OWN)
    monkeypatch.syspath_prepend(package.parent)
    importlib.import_module("reproduced_ops.own")
    net = SYM.Custom(SYM.reproduced(SYM.Variable("data"), name="own"),
                     op_type="reproduced_custom", name="custom")
    whole = net.simple_bind(mx.cpu(), grad_req="null", data=(2, 3)).explain()
    scripts = [str(whole.reproducer(name).save(tmp_path)) for name in ("own", "custom")]
    mx.unregister_op("reproduced")
    code = ("import runpy, sys\n"
            "for each in sys.argv[1:]:\n"
            "    print(runpy.run_path(each)['bound']().forward()[0].shape)\n")
    run = subprocess.run([sys.executable, "-c", code, *scripts], cwd=tmp_path, text=True,
                         env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                         timeout=300)
    assert run.stdout == "(2, 3)\n(2, 3)\n", run.stderr

