"""`CachedOp`: calls of bound networks on the tape equal the run node by node."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import cached_op_calls

NODES = (("inline_limit", 1000),)
"""Flags with which nodes run one by one."""


def network(units=4, layers=2):
    """Dense layers with a batch normalization between: weights, statistics, several operators."""
    x = mx.sym.var("data")
    for index in range(layers):
        x = mx.sym.FullyConnected(x, num_hidden=units, name=f"fc{index}")
        x = mx.sym.BatchNorm(x, name=f"bn{index}", fix_gamma=False)
        x = mx.sym.tanh(x, name=f"tanh{index}")
    return x


def parameters(symbol, seed=0, request="write", **shapes):
    """Arrays of all variables but those with given shapes, by name."""
    random = np.random.RandomState(seed)
    arguments, _, states = symbol.infer_shape(**shapes)
    arrays = {}
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    for name, shape in zip(names, [*arguments, *states], strict=True):
        if name not in shapes:
            arrays[name] = mx.nd.array(random.uniform(0.5, 1.5, shape))
    for name in set(arrays) & {*symbol.list_arguments()}:
        arrays[name].attach_grad(request)
    return arrays


def cached(symbol, arrays, flags=(), inputs=("data",)):
    return mx.nd.CachedOp(symbol, flags, inputs, lambda ctx: arrays)


def array(*shape, seed=0):
    return mx.nd.array(np.random.RandomState(seed).uniform(-1, 1, shape))


def state(arrays, inputs):
    """All values and gradients, and which of these are fresh."""
    values = [x.asnumpy() for x in [*arrays.values(), *inputs]]
    marked = [x for x in [*arrays.values(), *inputs] if x.grad is not None]
    return [*values, *[x.grad.asnumpy() for x in marked], [x._fresh_grad for x in marked]]


# -- random programs -------------------------------------------------------------------------------

REQUESTS = ("write", "add", "null")


class Program:
    """A random sequence of calls of two networks that share weights, under `record`."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.seed = seed

    def run(self, flags):
        random = np.random.RandomState(self.seed)
        symbol = network()
        arrays = parameters(symbol, self.seed, data=(3, 4))
        for name in arrays:
            if name in symbol.list_arguments():
                arrays[name].attach_grad(REQUESTS[random.choice(3, p=[0.5, 0.35, 0.15])])
                if arrays[name].grad is not None:
                    arrays[name].grad[:] = 0.5
        small = symbol.get_internals()["tanh0_output"]
        nets = [cached(symbol, arrays, flags), cached(small, arrays, flags)]
        inputs = [array(3, 4, seed=self.seed + i) for i in range(2)]
        inputs[0].attach_grad(REQUESTS[random.randint(2)])
        seen = []
        for _ in range(2):
            seen += self._step(random, nets, arrays, inputs)
        return seen

    def _step(self, random, nets, arrays, inputs):
        values, retain = list(inputs), bool(random.randint(2))
        with mx.autograd.record(train_mode=bool(random.randint(4))):
            for _ in range(random.randint(1, 4)):
                source = values[random.randint(len(values))]
                kind = random.randint(5)
                if kind < 3:
                    values.append(nets[random.randint(2)](source))
                elif kind == 3:
                    values.append(source * values[random.randint(len(values))])
                else:
                    weight = arrays["fc0_bias"]     # read by the tape as well
                    values.append(mx.nd.broadcast_add(source, weight * weight))
            head = nets[0](values[-1])
        outputs = [x.asnumpy() for x in (*values, head)]
        train = bool(random.randint(4))
        if random.randint(3) == 0:
            variables = [x for x in (inputs[0], arrays["fc0_weight"]) if x.grad is not None]
            variables = [x for x in variables if depends(head, x)]
            if variables:
                outputs += [g.asnumpy() for g in mx.autograd.grad(
                    head, variables, retain_graph=True, train_mode=train)]
                outputs += state(arrays, inputs)
        if any(x.grad is not None for x in arrays.values()):
            for again in range(1 + retain):
                head.backward(array(3, 4, seed=7), retain_graph=again < retain, train_mode=train)
        return [*outputs, *state(arrays, inputs)]


def depends(head, variable):
    try:
        mx.autograd.grad(head, [variable], retain_graph=True)
    except mx.MXNetError:
        return False
    return True


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_equal_the_run_node_by_node(seed):
    with mx.exact():
        bound, nodes = Program(seed).run(()), Program(seed).run(NODES)
    assert len(bound) == len(nodes)
    for one, other in zip(bound, nodes, strict=True):
        # three contributions or more to one gradient are added in another order
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


# -- what the tape promises --------------------------------------------------------------------

def test_parameters_are_bound_without_a_copy_and_their_gradients_written_in_place():
    symbol = network()
    arrays = parameters(symbol, data=(3, 4))
    net = cached(symbol, arrays)
    with mx.autograd.record():
        y = net(array(3, 4))
    executor = net.executor
    for name, x in arrays.items():
        bound = {**executor.arg_dict, **executor.aux_dict}[name]
        assert np.shares_memory(bound.handle, x.handle)
        if x.grad is not None:
            assert np.shares_memory(executor.grad_dict[name].handle, x.grad.handle)
    y.backward()
    before = net(array(3, 4)).asnumpy()
    arrays["fc0_weight"][:] = 2     # written in place: nothing else is needed
    assert not np.array_equal(net(array(3, 4)).asnumpy(), before)


def test_outputs_are_never_overwritten():
    symbol = network()
    net = cached(symbol, parameters(symbol, data=(3, 4)))
    kept = []
    for seed in range(4):
        with mx.autograd.record():
            y = net(array(3, 4, seed=seed))
        kept.append((y, y.asnumpy()))
        kept.append((z := net(array(3, 4, seed=seed)), z.asnumpy()))
    for y, value in kept:
        np.testing.assert_array_equal(y.asnumpy(), value)


# -- large outputs ---------------------------------------------------------------------------------

LARGE = 2 ** 18
"""Elements of an output that is handed out without a copy."""


def wide(last=lambda x: x):
    """Two layers, of which the second is wide; what backward reads of it depends on `last`."""
    data = mx.sym.var("data")
    x = mx.sym.FullyConnected(mx.sym.tanh(data), num_hidden=LARGE, name="fc")
    return mx.sym.Group([last(x), mx.sym.exp(mx.sym.sin(data))])


def lends(net, output):
    return np.shares_memory(net.executor.outputs[0].handle, output.handle)


@pytest.mark.parametrize("records", [True, False])
def test_large_outputs_are_handed_out_and_left_alone(records):
    """Whatever is kept of them: arrays, views, those of other libraries; in random order."""
    random, symbol = np.random.RandomState(0), wide()
    net = cached(symbol, parameters(symbol, data=(1, 2)))
    keeps = (lambda y: y, lambda y: y[:, 5:9].reshape((-1,)), lambda y: np.from_dlpack(y),
             lambda y: y.detach())
    for most in (1, 3):     # as in a loop, and more than there are buffers for
        kept, lent = [], 0
        for step in range(12):
            x = array(1, 2, seed=step)
            with mx.autograd.record() if records else mx.autograd.pause():
                y, small = net(x)
            assert not np.shares_memory(small.handle, net.executor.outputs[1].handle)
            lent += lends(net, y)
            part = keeps[random.randint(len(keeps))](y)
            kept.append((part, np.array(part.asnumpy() if hasattr(part, "asnumpy") else part)))
            if records:
                y.backward()
            del y
            while len(kept) > most:
                del kept[random.randint(len(kept))]
            for part, value in kept:
                np.testing.assert_array_equal(getattr(part, "handle", part), value)
        assert (lent == 12) == (most == 1)
    assert len(net._slots.all) == 1


def test_outputs_that_backward_reads_are_copied_and_others_may_be_written():
    for last, is_lent in ((lambda x: x, True), (mx.sym.tanh, False)):
        symbol = wide(last)
        arrays, x = parameters(symbol, data=(1, 2)), array(1, 2)
        net, seen = cached(symbol, arrays), []
        for writes in (False, True):
            with mx.autograd.record():
                y, _ = net(x)
            assert lends(net, y) == is_lent
            if writes:
                y[:] = 7
            y.backward()
            seen.append(arrays["fc_weight"].grad.asnumpy())
        np.testing.assert_array_equal(*seen)


# -- slots, threads, resets ------------------------------------------------------------------------

def test_slots_are_given_back_by_backward_and_by_the_end_of_the_outputs():
    symbol = network()
    net = cached(symbol, parameters(symbol, data=(3, 4)))
    for _ in range(5):
        with mx.autograd.record():
            y = net(array(3, 4)) + net(array(3, 4, seed=1))
        y.backward()
    for _ in range(5):
        with mx.autograd.record():
            y = [net(array(3, 4)), net(array(3, 4))]
        y = None
    for _ in range(5):
        net(array(3, 4))
    assert len(net._slots.all) == 2


def test_a_second_slot_is_not_compiled_again(monkeypatch):
    from nbmod.execution import programs

    compiled = []
    real = programs.compile_graph
    monkeypatch.setattr(programs, "compile_graph",
                        lambda *args: compiled.append(args) or real(*args))
    symbol = network()
    net = cached(symbol, parameters(symbol, data=(3, 4)))
    with mx.autograd.record():
        y = [net(array(3, 4, seed=i)) for i in range(3)]
    assert len(net._slots.all) == 3 and len(compiled) == 1
    mx.autograd.backward(y)


def test_gradients_flow_from_call_to_call():
    symbol = network()
    arrays = parameters(symbol, data=(3, 4))
    net, x = cached(symbol, arrays), array(3, 4)
    loss = mx.nd.CachedOp(mx.sym.mean(mx.sym.square(mx.sym.var("a") - mx.sym.var("b")), axis=0))
    x.attach_grad()
    results = []
    for alone in (False, True):
        with mx.autograd.record():
            y = loss(net(net(x)), array(3, 4, seed=1))
            y = y if alone else mx.nd.identity(y)
        y.backward()
        results.append(state({name: arrays[name] for name in symbol.list_arguments()
                              if name != "data"}, [x]))     # statistics have moved since
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_exact_blocks_have_executors_of_their_own():
    symbol = network()
    net, x = cached(symbol, parameters(symbol, data=(3, 4))), array(3, 4)
    net(x)
    with mx.exact():
        net(x)
    assert net.executor.planned.binding.exact
    net(x)
    assert not net.executor.planned.binding.exact


def test_threads_have_slots_of_their_own():
    symbol = network()
    net = cached(symbol, parameters(symbol, data=(3, 4)))
    expected = [net(array(3, 4, seed=i)).asnumpy() for i in range(8)]
    wrong = []

    def work(index):
        for _ in range(20):
            if not np.array_equal(net(array(3, 4, seed=index)).asnumpy(), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_slots_are_used_until_gradients_are_written():
    """As a thread would, a call comes between the backward pass and the write of its gradient."""
    class Late(mx.nd.NDArray):
        def __setitem__(self, key, value):
            gradient(array(3, 4, seed=1), None)
            super().__setitem__(key, value)

    def gradient(x, out):
        mx.autograd.mark_variables(x, mx.nd.zeros((3, 4)) if out is None else out)
        with mx.autograd.record():
            value = (net(x) ** 2).sum()
        value.backward()
        return x.grad.asnumpy()

    net = cached(network(), parameters(network(), request="null", data=(3, 4)))
    expected, zeros = gradient(array(3, 4), None), mx.nd.zeros((3, 4))
    again = gradient(array(3, 4), Late(zeros._data, zeros.context))
    np.testing.assert_array_equal(again, expected)


def test_replaced_arrays_count_after_reset_and_a_new_mark_at_once():
    symbol = network()
    arrays = parameters(symbol, data=(3, 4))
    net, x = cached(symbol, arrays), array(3, 4)
    old = net(x).asnumpy()
    arrays["fc0_weight"] = arrays["fc0_weight"] * 3
    arrays["fc0_weight"].attach_grad()
    net.reset()
    assert not np.array_equal(net(x).asnumpy(), old)
    with mx.autograd.record():
        y = net(x)
    y.backward()
    arrays["fc0_weight"].attach_grad("add")     # a new gradient array
    for _ in range(2):
        with mx.autograd.record():
            y = net(x)
        y.backward()
    twice = arrays["fc0_weight"].grad.asnumpy()
    arrays["fc0_weight"].attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_array_equal(twice, 2 * arrays["fc0_weight"].grad.asnumpy())


def test_executors_end_with_their_network():
    symbol = network()
    net = cached(symbol, parameters(symbol, data=(3, 4)))
    with mx.autograd.record():
        y = net(array(3, 4))
    executor = weakref.ref(net.executor)
    del net, y
    gc.collect()
    assert executor() is None


def test_dropout_repeats_its_mask_in_a_second_backward():
    symbol = mx.sym.FullyConnected(mx.sym.tanh(mx.sym.Dropout(mx.sym.exp(mx.sym.FullyConnected(
        mx.sym.var("data"), num_hidden=8, name="a")), p=0.5)), num_hidden=3, name="b")
    arrays = parameters(symbol, data=(3, 4))
    net = cached(symbol, arrays)
    with mx.autograd.record():
        y = net(array(3, 4))
    y.backward(retain_graph=True)
    first = [x.grad.asnumpy() for x in arrays.values()]
    drawn = mx.nd.random.uniform(shape=(2,)).asnumpy()
    mx.random.seed(3)
    y.backward()
    for one, other in zip(first, [x.grad.asnumpy() for x in arrays.values()], strict=True):
        np.testing.assert_array_equal(one, other)
    mx.random.seed(3)
    assert not np.array_equal(drawn, mx.nd.random.uniform(shape=(2,)).asnumpy())


def test_gradients_of_gradients_are_those_of_the_operators():
    x = mx.sym.var("data")
    symbol = mx.sym.sigmoid(mx.sym.FullyConnected(mx.sym.tanh(mx.sym.FullyConnected(
        x, num_hidden=4, name="a")), num_hidden=2, name="b"))
    results = []
    for flags in ((), NODES):
        arrays = parameters(symbol, data=(3, 4))
        net, data = cached(symbol, arrays, flags), array(3, 4)
        data.attach_grad()
        with mx.autograd.record():
            z = net(data) * 2
            slope, = mx.autograd.grad(z, [data], create_graph=True)
            penalty = (slope ** 2).sum() + z.sum()
        penalty.backward()
        results.append([slope.asnumpy(), *state(arrays, [data])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_gradients_of_random_operators_are_refused_by_name():
    symbol = mx.sym.tanh(mx.sym.exp(mx.sym.Dropout(mx.sym.var("data"), name="drop")))
    net, x = mx.nd.CachedOp(symbol), array(3, 4)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
        with pytest.raises(mx.MXNetError, match=r"drop \(Dropout\).*random"):
            mx.autograd.grad(y, [x], create_graph=True)


# -- inputs and outputs ----------------------------------------------------------------------------

def test_outputs_that_are_inputs_share_memory_and_gradients():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    net = mx.nd.CachedOp(mx.sym.Group([a, mx.sym.tanh(mx.sym.exp(a * b)), b]))
    x, y = array(3), array(3, seed=1)
    x.attach_grad()
    with mx.autograd.record():
        first, _, last = net(x, y)
        total = (first * last).sum()
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
    last[:] = 7
    assert (y.asnumpy() == 7).all()


@pytest.mark.parametrize("flags", [(), NODES])
def test_variables_that_are_outputs_alone_have_gradients_of_the_tape_alone(flags):
    """The executor, which does not read them, writes none, also after a first backward."""
    data, passed, weight = (mx.sym.var(name) for name in ("data", "passed", "weight"))
    x, y, w = array(3), array(3, seed=1), array(3, seed=2)
    for each in (x, y, w):
        each.attach_grad()
    net = cached(mx.sym.Group([mx.sym.tanh(mx.sym.exp(mx.sym.exp(data))), passed, weight]),
                 {"weight": w}, flags, ["data", "passed"])
    for factor in (1, 2):
        with mx.autograd.record():
            _, same, kept = net(x, y)
            total = (same * same + kept * kept).sum() * factor
        total.backward()
        for each in (y, w):
            np.testing.assert_allclose(each.grad.asnumpy(), 2 * factor * each.asnumpy(), rtol=1e-6)


def test_batch_norm_statistics_change_in_backward_only():
    symbol = network()
    names = symbol.list_auxiliary_states()
    for parameters_bound in (True, False):
        arrays = parameters(symbol, data=(3, 4))
        order = [node for node in symbol.list_inputs()]
        net = cached(symbol, arrays) if parameters_bound else mx.nd.CachedOp(symbol)
        x = array(3, 4)
        given = [x] if parameters_bound else [arrays.get(name, x) for name in order]
        before = [arrays[name].asnumpy() for name in names]
        with mx.autograd.train_mode():
            net(*given)
        with mx.autograd.record():
            y = net(*given)
        for name, value in zip(names, before, strict=True):
            np.testing.assert_array_equal(arrays[name].asnumpy(), value)
        y.backward()
        for name, value in zip(names, before, strict=True):
            assert not np.array_equal(arrays[name].asnumpy(), value)


def test_shapes_that_follow_from_values_run_node_by_node():
    data, keep = mx.sym.var("data"), mx.sym.var("keep")
    symbol = mx.sym.exp(mx.sym.exp(mx.sym.contrib.boolean_mask(mx.sym.tanh(data), keep)))
    net, x = mx.nd.CachedOp(symbol), array(4, 2)
    x.attach_grad()
    for mask in ([1, 0, 1, 0], [1, 1, 1, 0]):
        with mx.autograd.record():
            y = net(x, mx.nd.array(mask))
        assert y.shape == (sum(mask), 2)
        y.backward()
        assert ((x.grad.asnumpy() != 0).all(axis=1) == mask).all()


def test_loops_run_on_executors_whatever_their_size():
    def body(x, before):
        h = mx.sym.tanh(mx.sym.FullyConnected(x, mx.sym.var("w"), no_bias=True, num_hidden=3)
                        + before)
        return h, h

    outputs, last = mx.sym.contrib.foreach(body, mx.sym.var("data"), mx.sym.var("first"))
    net = mx.nd.CachedOp(mx.sym.Group([outputs, last]))
    for steps in (*range(1, 12), 2):
        x, before, w = array(steps, 1, 3), array(1, 3), array(3, 3)
        w.attach_grad()
        with mx.autograd.record():
            y, _ = net(*[{"data": x, "first": before, "w": w}[name] for name in
                         mx.sym.Group([outputs, last]).list_inputs()])
        y.backward()
        gradient = w.grad.asnumpy()
        with mx.autograd.record():
            y, _ = mx.nd.contrib.foreach(lambda x, h, w=w: 2 * [mx.nd.tanh(mx.nd.FullyConnected(
                x, w, no_bias=True, num_hidden=3) + h)], x, before)
        y.backward()
        # the executor multiplies all steps at once
        np.testing.assert_allclose(gradient, w.grad.asnumpy(), rtol=1e-4, atol=1e-6)


def test_wrong_arguments_are_named():
    net = mx.nd.CachedOp(network())
    with pytest.raises(mx.MXNetError, match="1 inputs are given, expected 13"):
        net(array(3, 4))
    small = mx.nd.CachedOp(mx.sym.var("a") + mx.sym.var("b"))
    with pytest.raises(mx.MXNetError, match="input 'b' is a NoneType, expected an NDArray"):
        small(array(3), None)
    with pytest.raises(mx.MXNetError, match="Cannot find argument 'foo'"):
        mx.nd.CachedOp(mx.sym.var("a") + 1, (("foo", 1),))
    with pytest.raises(mx.MXNetError, match="1 arrays are given as out, expected 2"):
        mx.nd.CachedOp(mx.sym.Group([mx.sym.var("a")] * 2))(array(3), out=array(3))


def test_out_receives_the_outputs_and_their_gradients():
    symbol = mx.sym.tanh(mx.sym.exp(mx.sym.sin(mx.sym.var("x"))))
    net, x, out = mx.nd.CachedOp(symbol), array(3), mx.nd.zeros(3)
    x.attach_grad()
    with mx.autograd.record():
        assert net(x, out=out) is out
    out.backward()
    grad = x.grad.asnumpy()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_array_equal(out.asnumpy(), y.asnumpy())
    np.testing.assert_array_equal(grad, x.grad.asnumpy())


# -- many signatures -------------------------------------------------------------------------------

def test_signatures_that_do_not_come_again_are_not_bound():
    symbol = network()
    arrays = parameters(symbol, data=(3, 4))
    net, nodes = cached(symbol, arrays), cached(symbol, arrays, NODES)
    with mx.exact():
        for rows in range(2, 62):
            with mx.autograd.record():
                y = net(array(rows, 4))
            y.backward()
            gradient = arrays["fc0_weight"].grad.asnumpy()
            with mx.autograd.record():
                y = nodes(array(rows, 4))
            y.backward()
            np.testing.assert_array_equal(gradient, arrays["fc0_weight"].grad.asnumpy())
    slot, = net._slots.all
    assert len(slot.calls) == 8
    for _ in range(2):
        net(array(500, 4))
    assert len(slot.calls) == 9


def test_signatures_share_the_memory_of_inputs_and_the_least_used_is_dropped():
    symbol = mx.sym.tanh(mx.sym.sin(mx.sym.exp(mx.sym.var("data"))))
    net = mx.nd.CachedOp(symbol)
    for _ in range(2):
        for rows in range(80, 0, -1):
            x = array(rows, 2)
            np.testing.assert_allclose(net(x).asnumpy(), np.tanh(np.sin(np.exp(x.asnumpy()))),
                                       rtol=1e-5)
    slot, = net._slots.all
    assert len(slot.calls) == 64
    memory = [call.executor.arg_dict["data"].handle for call in slot.calls.values()]
    assert all(np.shares_memory(memory[0], each) for each in memory)


# -- other storage, other devices ------------------------------------------------------------------

@pytest.mark.parametrize("request_", ["write", "add"])
def test_sparse_gradients_equal_those_of_the_operators(request_):
    embedding = mx.sym.Embedding(mx.sym.var("data"), mx.sym.var("w"), input_dim=20, output_dim=4,
                                 sparse_grad=True)
    symbol = mx.sym.tanh(mx.sym.FullyConnected(mx.sym.exp(embedding), num_hidden=3, name="fc"))
    results = []
    for flags in ((), NODES):
        arrays = {"w": array(20, 4), "fc_weight": array(3, 12), "fc_bias": array(3)}
        for name, x in arrays.items():
            x.attach_grad(request_, stype="row_sparse" if name == "w" else None)
        net, ids = cached(symbol, arrays, flags), mx.nd.array([[1, 2, 3], [4, 2, 1]])
        for train in (True, False):
            with mx.autograd.record(train_mode=train):
                y = net(ids) + net(ids + 3)
            gradient, = mx.autograd.grad(y, [arrays["w"]], retain_graph=True)
            y.backward()
            assert gradient.stype == arrays["w"].grad.stype == "row_sparse"
            results.append([gradient.asnumpy(), gradient.indices.asnumpy(), *state(arrays, [])])
    for one, other in zip(results[0] + results[1], results[2] + results[3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)   # sums of three in another order


@pytest.mark.gpu
def test_calls_on_a_gpu_equal_those_on_the_cpu():
    symbol, results = network(), []
    for ctx in (mx.cpu(), mx.gpu()):
        arrays = {name: x.as_in_context(ctx) for name, x in
                  parameters(symbol, data=(3, 4)).items()}
        for name in {*symbol.list_arguments()} & {*arrays}:
            arrays[name].attach_grad()
        net, x = cached(symbol, arrays), array(3, 4).as_in_context(ctx)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x) + net(x * 2)
        for retains in (True, False):
            y.backward(retain_graph=retains)
            arrays["fc1_weight"][:] *= 1.5
        results.append([y.asnumpy(), net(x).asnumpy(), *state(arrays, [x])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)    # other orders of sums


# -- monitors, and MXNet ---------------------------------------------------------------------------

def test_monitors_see_every_operator_of_all_slots():
    symbol = network()
    net, seen = cached(symbol, parameters(symbol, data=(3, 4))), []
    for x in (array(3, 4), array(5, 4)):
        net(x)
    net.set_monitor_callback(lambda name, value: seen.append(name))
    net(array(3, 4))
    with mx.autograd.record():
        net(array(3, 4))
    outputs = [name for name in seen if name.endswith("_output")]
    assert outputs == 2 * [f"{kind}{index}_output" for index in range(2)
                           for kind in ("fc", "bn", "tanh")]
    seen.clear()
    net.set_monitor_callback(None)
    net(array(3, 4))
    assert not seen
    small = mx.nd.CachedOp(mx.sym.exp(mx.sym.var("a"), name="exp"))
    small.set_monitor_callback(lambda name, value: seen.append(name), monitor_all=True)
    small(array(3))
    assert small.executor is None and seen == ["a", "exp_input0", "exp_output"]


@pytest.fixture(scope="module")
def theirs(oracle):
    return oracle.call("mx_scripts.run", "cached_op_calls", "answers")


@pytest.mark.parametrize("program", cached_op_calls.PROGRAMS, ids=lambda each: each.__name__)
def test_rules_are_those_of_mxnet(theirs, program):
    assert_like(program(mx), theirs[program.__name__], 1e-4)    # float32
