"""Wrong calls raise the exceptions that callers of MXNet catch, beside nbmod's own class."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.programs import wrong_calls

STUMBLES = {"AttributeError", "KeyError", "StopIteration", "UnboundLocalError", "UnpicklingError",
            "ZeroDivisionError", "error"}
"""Classes of accidents inside MXNet, which meets the mistake as a missing attribute, say."""

OTHERWISE = {
    # The message of nbmod says more, and no caller relies on the class.
    "a.broadcast_to((5, 5))", "mx.nd.concatenate([a, b])", "mx.nd.cast(a, dtype='bad')",
    "mx.autograd.mark_variables(a, 'x')", "mx.init.Load(3)", "mx.nd.random.randn(2, loc='x')",
    "mx.sym.random.uniform('x', 1)", "mx.nd.onehot_encode(a, b)",
    "mx.sym.random.randn(2, loc='x')", "mx.metric.Perplexity(None).update([a, a], [a])",
    "kv.init('a', a); kv.row_sparse_pull('a', out=a, row_ids=3)",
    "mx.kv.KVStoreBase.is_capable('bad')", "mx.io.CSVIter(3)", "s[-2]",
    "s.as_in_context(mx.cpu())", "list(iter(mx.io.DataIter()))[0]", "mx.nd.imdecode(b'abc')",
}

ACCEPTED = {
    # What MXNet refuses, some by accident, and nbmod has no reason to.
    "mx.random.seed(1, ctx='x')", "net.simple_bind(mx.cpu(), grad_req={}, data=(2, 3))",
    "net.simple_bind(mx.cpu(), data=(2, 3), shared_arg_names='x')",
    "bound.init_params(initializer=None)", "exe.forward(is_train=True); exe.backward([1])",
    "mx.io.NDArrayIter(np.ones((4, 3)), np.zeros(4), 3, last_batch_handle='discard').getdata()",
    "mx.image.CreateAugmenter((3, 4, 4), mean=3)",
    "mx.image.CreateAugmenter((3, 4, 4), std=[1, 2])",
    "mx.image.ImageIter(2, (3, 4, 4), imglist=[[0, 'x.jpg']], dtype='bad')",
    "mx.metric.np(3)", "mx.metric.Loss().update(None, 3)",
    "kv._send_command_to_servers('x', 'y')",
    "mx.callback.ProgressBar(0)(mx.model.BatchEndParam(0, 0, None, None))",
    "mx.profiler.Domain(3)", "mx.profiler.Task(3, 'x')",
    "mx.profiler.Counter(mx.profiler.Domain('x'), 'y', 'z')", "mx.operator.PythonOp().get_symbol()",
}


@pytest.mark.parametrize("subject", wrong_calls.CALLS)
def test_wrong_calls_raise_what_callers_of_mxnet_catch(oracle, subject):
    expected = oracle.call("mx_scripts.run", "wrong_calls", "classes", subject, timeout=200)
    found = wrong_calls.classes(mx, subject)
    wrong = {statement: (theirs[0], found[statement][:2]) for statement, theirs in expected.items()
             if not _alike(statement, theirs, found[statement])}
    assert wrong == {}


def _alike(statement: str, theirs: list[str], ours: list[str]) -> bool:
    """Whether what is caught around MXNet is caught around nbmod."""
    if not theirs or theirs[0] in ours or not ours and statement in ACCEPTED:
        return True
    return bool(ours) and (theirs[0] in STUMBLES or statement in OTHERWISE)


def test_wrong_calls_are_many():
    assert sum(map(len, wrong_calls.CALLS.values())) > 700
