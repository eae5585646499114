"""Runs begin with NumPy forms while helper processes compile, and go on with kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.execution import compile_ahead
from nbmod.execution.steps import PlannedProgram
from nbmod.executor import Executor
from nbmod.module import BucketingModule, Module, SequentialModule

PROGRAM = """
import json, sys, time
import numpy as np
import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.execution import compile_ahead
from nbmod.execution.interpreted import InterpretedProgram
from nbmod.execution.steps import PlannedProgram
from nbmod.executor import Executor
from nbmod.ops.build import store

ran, compiled = [], []
write = store.write_kernel

def noting(run, form):
    def noted(*args):
        run(*args)
        ran.append(form)
    return noted

def written(path, content):
    compiled.append(path.name)
    write(path, content)

PlannedProgram.run = noting(PlannedProgram.run, "kernels")
InterpretedProgram._run = noting(InterpretedProgram._run, "NumPy")
store.write_kernel = written
data = np.linspace(-1, 1, 256 * 300).reshape(256, 300)
net = mx.sym.softmax(mx.sym.tanh(mx.sym.Variable("data")))
expected = np.exp(np.tanh(data)) / np.exp(np.tanh(data)).sum(axis=1, keepdims=True)

def require_close(found):
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)

def report():
    print(json.dumps([ran, compiled]))
"""
EXECUTOR = PROGRAM + """
exec(sys.argv[1])
executor = net.simple_bind(mx.cpu(), grad_req="null", numpy_first=True, data=data.shape)
for _ in range(2):
    require_close(executor.forward(data=data)[0])
report()
"""


@pytest.fixture(autouse=True)
def _enabled(monkeypatch):
    """What `tests/conftest.py` switches off; and no kernels that may be installed."""
    monkeypatch.setattr(CONFIG, "numpy_first", True)
    monkeypatch.setenv("NBMOD_SHIPPED", "0")


def run(code, folder, *words, **environment):
    """What `report` prints in a process with compiled code in `folder`."""
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True,
                         timeout=300, env=os.environ | {"NBMOD_CACHE_DIR": str(folder),
                                                        "NBMOD_NUMPY_FIRST": "1"} | environment)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_predict_begins_with_numpy_and_goes_on_with_kernels(tmp_path):
    """One form for each batch; this process compiles nothing; a later one runs kernels alone.

    The note of `debug_str` goes as soon as the helpers are done, so it may miss in the batch that
    they were done in."""
    code = PROGRAM + """
module = mx.mod.Module(net, label_names=None)
module.bind([("data", data.shape)], for_training=False)
module.init_params()
batches = mx.io.NDArrayIter(np.concatenate([data] * 3), batch_size=len(data))
executor, = module._exec_group.execs
notes, until = [], time.time() + 200
assert "NumPy" not in executor.debug_str()
while "kernels" not in ran and time.time() < until:
    for outputs, _, _ in module.iter_predict(batches):
        require_close(outputs[0])
        notes.append("until" in executor.debug_str())
    time.sleep(0.1)
require_close(module.predict(mx.nd.array(data)))
forms = [form == "NumPy" for form in ran]
assert notes[0] == forms[0] and all(map(forms.__getitem__, np.flatnonzero(notes)))
assert executor._first is None
report()
"""
    ran, compiled = run(code, tmp_path)
    number = ran.index("kernels")
    assert ran == ["NumPy"] * number + ["kernels"] * (len(ran) - number)
    assert number >= 1 and not compiled
    assert set(run(code, tmp_path)[0]) == {"kernels"}


@pytest.mark.parametrize("change, environment", [
    ("", {"NBMOD_NUMPY_FIRST": "0"}),
    ("", {"NBMOD_CACHE": "0"}),
    ("", {"NBMOD_COMPILERS": "1"}),
    ("", {"NBMOD_EXACT": "1"}),
    ("sys.frozen = True", {}),
    ("sys.executable = ''", {}),
    ("net = mx.sym.contrib.cond(mx.sym.sum(net) > 0, lambda: net, lambda: -net)", {}),
])
def test_kernels_run_from_the_first_pass_on(tmp_path, change, environment):
    """Where it is switched off, helpers cannot start, or an operator has no NumPy form."""
    code = EXECUTOR.replace("require_close(executor.forward(data=data)[0])",
                            "executor.forward(data=data)") if "net" in change else EXECUTOR
    ran, compiled = run(code, tmp_path, change, **environment)
    assert ran == ["kernels"] * 2
    assert compiled or "NBMOD_CACHE" in environment


def test_helpers_that_end_without_kernels_leave_them_to_this_process(tmp_path):
    change = ("compile_ahead.CHILD = 'import os; os._exit(1)'; "
              "forward = Executor.forward; "
              "Executor.forward = lambda *a, **k: [forward(*a, **k), *(helper.wait() for helper in "
              "compile_ahead._current.helpers)][0]")
    ran, compiled = run(EXECUTOR, tmp_path, change)
    assert ran == ["NumPy", "kernels"] and compiled


def test_numpy_forms_run_as_long_as_helpers_do(tmp_path):
    """Here they never end; the text for `debug_str` counts what is missing."""
    change = "compile_ahead.CHILD = 'import time; time.sleep(600)'"
    assertion = ("assert executor.debug_str().splitlines()[1].startswith("
                 "'Runs NumPy forms, node by node, until its kernels are compiled'); report()")
    ran, compiled = run(EXECUTOR.replace("\nreport()", f"\n{assertion}"), tmp_path, change)
    assert ran == ["NumPy"] * 2 and not compiled


ONCE = EXECUTOR.replace("for _ in range(2):\n    ", "")


def stored_after(folder, before, seconds=100):
    """The number of kernels, once it is more than `before`, or after `seconds`."""
    until = time.time() + seconds
    while (found := len(list(folder.rglob("*.kernel")))) == before and time.time() < until:
        time.sleep(0.1)
    return found


def test_short_programs_come_nearer_to_a_full_cache(tmp_path):
    """Each ends before its helpers have started, and they store a kernel after it."""
    stored = 0
    for _ in range(20):
        ran, compiled = run(ONCE, tmp_path, "")
        assert not compiled
        if ran == ["kernels"]:
            return
        before, stored = stored, stored_after(tmp_path, stored)
        assert stored > before
    pytest.fail("the cache is never full")


@pytest.mark.parametrize("end", ["raise ValueError", "os.kill(os.getpid(), 9)"])
def test_helpers_end_with_a_program_that_fails(tmp_path, end):
    code = ONCE.replace("\nreport()", f"""
import os
print(*[helper.pid for helper in compile_ahead._current.helpers], flush=True)
{end}""")
    ended = subprocess.run([sys.executable, "-c", code, ""], capture_output=True, text=True,
                           env=os.environ | {"NBMOD_CACHE_DIR": str(tmp_path),
                                             "NBMOD_NUMPY_FIRST": "1"})
    helpers = [int(pid) for pid in ended.stdout.split()]
    assert ended.returncode and helpers
    until = time.time() + 20
    while any(map(may_run, helpers)) and time.time() < until:
        time.sleep(0.1)
    assert not [*tmp_path.rglob("*.kernel")]


def may_run(pid):
    """Whether a process has not ended, as far as the system tells."""
    if not os.path.exists("/proc/self/stat"):
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    except OSError:
        return False


# -- in this process ---------------------------------------------------------------------------


@pytest.fixture
def net():
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fullyconnected0")
    return mx.sym.SoftmaxOutput(layer, name="softmax")


class Helper:
    """A process that compiles, until it is told to end."""

    def __init__(self):
        self.status, self.misses_from = None, 0

    def poll(self):
        return self.status


@pytest.fixture
def missing(monkeypatch):
    """A cache in which everything is missing, or all after the step `misses_from`, and the helper
    that would compile it."""
    helper, run_planned = Helper(), PlannedProgram.run

    def first_miss(self, first, last, observers=()):
        if (compile_ahead._thread.program is self and helper.poll() is None
                and first >= helper.misses_from):
            compile_ahead._start_helpers()
        run_planned(self, first, last, observers)

    def start(program, count, all_kernels):
        compile_ahead._current = compile_ahead.Compilation(
            compile_ahead.weakref.ref(program), [helper])

    monkeypatch.setattr(compile_ahead, "_current", compile_ahead.Compilation())
    monkeypatch.setattr(compile_ahead, "_start", start)
    monkeypatch.setattr(compile_ahead, "keeps_code", lambda: True)
    monkeypatch.setattr(PlannedProgram, "run", first_miss)
    return helper


def forms(executors):
    """Which of them run NumPy forms."""
    firsts = [executor._first for executor in executors]
    return [first is not None and first.in_numpy is not None for first in firsts]


@pytest.mark.parametrize("how", ["predict", "score", "array", "feedforward"])
def test_predict_and_score_begin_with_numpy(net, missing, how, caplog):
    data = mx.io.NDArrayIter(np.ones((4, 5)), np.zeros(4), 2, label_name="softmax_label")
    module = Module(net)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.init_params()
    if how == "feedforward":
        with pytest.warns(DeprecationWarning):
            model = mx.model.FeedForward(net, arg_params=module.get_params()[0], aux_params={})
        model.predict(data)
        module = model._pred_exec
    elif how == "array":
        module.predict(np.ones((2, 5)))
    else:
        getattr(module, how)(data, *["acc"] * (how == "score"))
    assert forms(module._exec_group.execs) == [True]
    missing.status = 0
    with caplog.at_level("INFO", "nbmod"):
        module.predict(data)
    assert forms(module._exec_group.execs) == [False]
    told = [text for text in caplog.messages if not text.startswith("compiling ")]
    assert told == ["softmax: compiled kernels compute from now on"]


@pytest.mark.parametrize("how", ["module", "bound", "gradients", "eval", "predictor", "block"])
def test_a_users_forward_begins_with_numpy(net, missing, how):
    data, label = mx.nd.array(np.random.rand(2, 5)), mx.nd.zeros((2,))
    shapes = {"data": (2, 5), "softmax_label": (2,)}
    params = {name: mx.nd.array(np.random.rand(*shape)) for name, shape in zip(
        net.list_arguments(), net.infer_shape(**shapes)[0], strict=True) if name not in shapes}
    executors: list[Executor] = []
    if how == "module":
        module = Module(net)
        module.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False)
        module.set_params(params, {})
        module.forward(mx.io.DataBatch([data]), is_train=False)
        executors, outputs = module._exec_group.execs, module.get_outputs()
    elif how in ("bound", "gradients"):
        executors = [net.simple_bind(
            mx.cpu(), grad_req="null" if how == "bound" else "write", **shapes)]
        executors[0].copy_params_from(params)
        outputs = executors[0].forward(data=data)
    elif how == "eval":
        outputs = net.eval(mx.cpu(), data=data, softmax_label=label, **params)
    elif how == "predictor":
        predictor = mx.Predictor((net, params, {}), {"data": (2, 5)})
        outputs = [mx.nd.array(predictor(data.asnumpy())[0])]
        executors = [*predictor._free.queue[0].executors.values()][1:]
    else:
        infer = mx.gluon.SymbolBlock(net, [mx.sym.Variable("data"),
                                           mx.sym.Variable("softmax_label")])
        for name, array in params.items():
            infer.collect_params()[name].initialize()
            infer.collect_params()[name].set_data(array)
        infer.hybridize(inline_limit=0)  # by an executor, however small the network is
        outputs = [infer(data, label)]
        executors = [infer.executor]
    assert forms(executors) == [True] * len(executors)
    weights, bias = (params[name].asnumpy() for name in net.list_arguments()[1:3])
    scores = np.exp(data.asnumpy() @ weights.T + bias)
    # A product of 5 numbers and an exponential in float32.
    np.testing.assert_allclose(outputs[0].asnumpy(), scores / scores.sum(1, keepdims=True), 1e-5)


@pytest.mark.parametrize("how", ["block", "bind", "variable", "exact"])
def test_a_users_forward_waits_where_that_is_asked_for(net, missing, how, monkeypatch):
    monkeypatch.setattr(CONFIG, "numpy_first", how != "variable")
    with mx.exact() if how == "exact" else nullcontext():
        executor = net.simple_bind(mx.cpu(), grad_req="null", data=(2, 5),
                                   numpy_first=False if how == "bind" else None)
    with mx.numpy_first(False) if how == "block" else nullcontext():
        executor.forward()
    assert forms([executor]) == [False]


def test_a_training_step_runs_kernels_after_inference_by_numpy(missing):
    """And `backward` after inference in NumPy gives the gradients of that pass."""
    symbol, rng = network_without_draws(), np.random.RandomState(0)
    args = {"data": rng.rand(4, 2, 6, 6), "softmax_label": [0, 1, 2, 1]}
    found = []
    for numpy_first in (False, None):
        executor = symbol.simple_bind(mx.cpu(), numpy_first=numpy_first, data=(4, 2, 6, 6))
        draws = np.random.RandomState(1)
        for name, array in executor.arg_dict.items():
            array[:] = args.get(name, draws.rand(*array.shape))
        for is_train in (False, True):
            executor.forward(is_train=is_train)
            assert forms([executor]) == [numpy_first is None and not is_train]
            executor.backward()
            found.append([array.asnumpy() for array in [
                *executor.outputs, *executor.grad_arrays, *executor.aux_arrays]])
    for kernels, numpy, tolerance in ((found[0], found[2], 1e-4), (found[1], found[3], 0)):
        for want, array in zip(kernels, numpy, strict=True):  # sums of up to 144 float32 numbers
            np.testing.assert_allclose(array, want, tolerance, tolerance * np.abs(want).max())


def network_without_draws():
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1))
    x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False), act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3),
                                name="softmax")


def test_inference_that_draws_waits_for_kernels_and_draws_once(missing):
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    symbol = mx.sym.Dropout(x, mode="always")
    drawn = []
    for numpy_first in (False, None):
        executor = symbol.simple_bind(mx.cpu(), numpy_first=numpy_first, data=(2, 3))
        for array in executor.arg_arrays:
            array[:] = 1
        mx.random.seed(5)
        drawn.append(executor.forward()[0].asnumpy())
        assert forms([executor]) == [False]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("grad_req", ["null", "write"])
def test_inference_of_rnns_begins_with_numpy(missing, grad_req):
    x = mx.sym.RNN(mx.sym.Variable("data"), state_size=3, num_layers=1, mode="lstm", name="rnn")
    executor = x.simple_bind(mx.cpu(), grad_req=grad_req, data=(2, 3, 4))
    executor.forward()
    assert forms([executor]) == [True]


def test_what_compiles_ahead_does_not_begin_with_numpy(tmp_path):
    """`warmup` keeps the kernels of inference, which a program runs from the first pass on."""
    code = PROGRAM + """
from nbmod.cli.main import main
net.save("net-symbol.json")
assert main(["warmup", "net-symbol.json", "--shape", "data=256,300"]) == 0
executor = net.simple_bind(mx.cpu(), grad_req="null", data=data.shape)
require_close(executor.forward(data=data)[0])
report()
"""
    ran, compiled = run("import os, sys; os.chdir(sys.argv[1])\n" + code, tmp_path / "cache",
                        str(tmp_path))
    assert compiled and {*ran} == {"kernels"}


def test_several_executors_of_a_batch_wait_for_kernels(net, missing):
    data = mx.io.NDArrayIter(np.ones((4, 5)), np.zeros(4), 2, label_name="softmax_label")
    module = Module(net, context=[mx.cpu(0), mx.cpu(1)])
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.init_params()
    module.predict(data)
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 5))]), is_train=False)
    assert forms(module._exec_group.execs) == [False] * 2
    manager = mx.executor_manager.DataParallelExecutorManager(
        net, [mx.cpu(0), mx.cpu(1)], data, net.list_arguments(), ["fullyconnected0_weight"], [])
    data.reset()
    manager.load_data_batch(next(data))
    manager.forward(is_train=False)
    assert forms(manager.execgrp.train_execs) == [False] * 2
    chain = SequentialModule().add(Module(net), take_labels=True, auto_wiring=True)
    chain.bind(data.provide_data, data.provide_label, for_training=False)
    chain.init_params()
    chain.predict(data)
    assert forms(chain._modules[0]._exec_group.execs) == [False]


def test_training_and_its_scores_wait_for_kernels(net, missing):
    data = mx.io.NDArrayIter(np.ones((4, 5)), np.zeros(4), 2, label_name="softmax_label")
    module = Module(net)
    module.fit(data, data, num_epoch=1)
    module.predict(data)
    assert forms(module._exec_group.execs) == [False]


def network_that_changes_state():
    """Moving statistics, random numbers, and gradients of every kind of layer."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1),
                           no_bias=True)
    x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False), act_type="relu")
    x = mx.sym.Dropout(mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"), p=0.3)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3),
                                name="softmax")


def fitted(symbol, batch_end=None, **options):
    """The module, and its parameters after three epochs of three batches."""
    rng = np.random.RandomState(0)
    data = mx.io.NDArrayIter(rng.rand(12, 2, 6, 6), rng.randint(0, 3, 12), 4)
    mx.random.seed(7)
    np.random.seed(7)
    module = Module(symbol)
    module.fit(data, num_epoch=3, batch_end_callback=batch_end, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, **options)
    return module, {name: array.asnumpy() for part in module.get_params()
                    for name, array in part.items()}


@pytest.mark.parametrize("misses_from", [0, 1], ids=["forward", "backward"])
def test_training_begins_with_numpy_on_request(missing, misses_from):
    """And goes on with kernels between two batches; what the rehearsal changed is restored, or
    moving statistics and what Dropout draws would differ."""
    symbol = network_that_changes_state()
    _, expected = fitted(symbol)
    seen, missing.misses_from = [], misses_from

    def look(param):
        executor, = param.locals["self"]._exec_group.execs
        seen.extend(forms([executor]))
        if len(seen) == 4:
            missing.status = 0

    with mx.numpy_first():
        _, found = fitted(symbol, look)
    assert seen == [True] * 4 + [False] * 5
    for name, values in expected.items():   # nine steps of float32
        np.testing.assert_allclose(found[name], values, 1e-3, 1e-4, err_msg=name)


def test_training_with_all_kernels_is_the_same_on_request(missing):
    """The rehearsal finds nothing missing and leaves no trace."""
    missing.status = 0
    symbol = network_that_changes_state()
    _, expected = fitted(symbol)
    with mx.numpy_first():
        module, found = fitted(symbol)
    assert forms(module._exec_group.execs) == [False]
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_gradients_that_are_added_are_those_of_one_pass(missing):
    symbol, rng = network_that_changes_state(), np.random.RandomState(0)
    args = {"data": rng.rand(4, 2, 6, 6), "softmax_label": [0, 1, 2, 1]}
    added = []
    for numpy_first in (False, True):
        executor = symbol.simple_bind(mx.cpu(), grad_req="add", numpy_first=numpy_first,
                                      data=(4, 2, 6, 6))
        draws = np.random.RandomState(1)
        for name, array in executor.arg_dict.items():
            array[:] = args.get(name, draws.rand(*array.shape))
        missing.misses_from = 1
        for _ in range(2):
            mx.random.seed(3)
            executor.forward(is_train=True)
            executor.backward()
        assert forms([executor]) == [numpy_first]
        added.append({**executor.grad_dict, **executor.aux_dict})
    for name, array in added[0].items():
        want = array.asnumpy()
        np.testing.assert_allclose(added[1][name].asnumpy(), want, 1e-4,
                                   1e-5 * np.abs(want).max(), err_msg=name)


def test_training_without_numpy_gradients_waits_for_kernels(missing):
    data = mx.sym.Variable("data")
    x = mx.sym.contrib.cond(mx.sym.sum(data) > 0, lambda: mx.sym.sin(data), lambda: data)
    executor = mx.sym.MakeLoss(x).simple_bind(mx.cpu(), numpy_first=True, data=(2, 3, 4))
    executor.forward(is_train=True)
    executor.backward()
    assert forms([executor]) == [False]


def test_every_bucket_begins_with_numpy(missing):
    def make(width):
        data = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        return mx.sym.FullyConnected(data, num_hidden=2, name="fc"), ("data",), None

    module = BucketingModule(make, 5)
    module.bind([("data", (2, 5))], for_training=False)
    module.init_params()
    batches = [mx.io.DataBatch([mx.nd.ones((2, width))], bucket_key=width,
                               provide_data=[("data", (2, width))]) for width in (5, 3)]

    class Batches:
        provide_data = batches[0].provide_data

        def reset(self):
            pass

        def __iter__(self):
            return iter(batches)

    module.predict(Batches(), merge_batches=False)
    executors = [bucket._exec_group.execs[0] for bucket in module._buckets.values()]
    assert forms(executors) == [True, True]
    missing.status = 0
    module.predict(Batches(), merge_batches=False)
    module.predict(Batches(), merge_batches=False)
    assert forms(executors) == [False, False]


def test_reshaped_executors_are_asked_as_their_source_was(net, missing):
    executor = net.simple_bind(mx.cpu(), grad_req="null", numpy_first=True, data=(2, 5))
    executor.forward()
    smaller = executor.reshape(data=(1, 5), softmax_label=(1,))
    smaller.forward()
    assert forms([executor, smaller]) == [True, True]


def test_monitors_see_every_node_once(net, missing):
    seen = []
    executor = net.simple_bind(mx.cpu(), grad_req="null", numpy_first=True, data=(2, 5))
    executor.forward()
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward()
    missing.status = 0
    executor.forward()
    assert seen == ["fullyconnected0_output", "softmax_output"] * 2


def test_a_pass_in_training_mode_runs_kernels(net, missing):
    executor = net.simple_bind(mx.cpu(), grad_req="null", numpy_first=True, data=(2, 5))
    executor.forward(is_train=True)
    assert forms([executor]) == [False]
    executor.forward()
    assert forms([executor]) == [True]
