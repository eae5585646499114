"""Operators written in Python: calls and results as in MXNet, and errors with their names."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_like, assert_same
from tests.oracle.client import OracleError
from tests.programs import custom_ops

custom_ops.register(mx)


def mxnets(oracle, program, *args):
    return oracle.call("mx_scripts.run", "custom_ops", program, *args)


def test_operators_are_asked_what_mxnet_asks(oracle):
    assert_like(custom_ops.life(mx), mxnets(oracle, "life"), 1e-6)


@pytest.mark.parametrize("program", ["eager", "requests", "older"])
def test_answers_are_mxnets(oracle, program):
    with pytest.warns() if program == "older" else _nothing():
        ours = getattr(custom_ops, program)(mx)
    assert_like(ours, mxnets(oracle, program), 1e-6)


def _nothing():
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize("contexts", [1, 2])
def test_modules_train_as_mxnets(oracle, contexts):
    rng = np.random.default_rng(0)
    shapes = {"fc1_weight": (8, 4), "fc1_bias": (8,), "mix_weight": (8,), "fc2_weight": (3, 8),
              "fc2_bias": (3,)}
    params = {name: rng.uniform(0.2, 1, shape).astype(np.float32)
              for name, shape in shapes.items()}
    data = rng.standard_normal((24, 4)).astype(np.float32)
    args = contexts, data, rng.integers(0, 3, 24).astype(np.float32), params
    ours, theirs = custom_ops.trained(mx, *args), mxnets(oracle, "trained", *args)
    assert ours.pop("mix_runs") == 606  # forward adds 1, backward 100
    theirs.pop("mix_runs")  # MXNet reads it while backward still writes
    assert sorted(ours) == sorted(theirs)
    for name, value in theirs.items():
        assert_same(ours[name], value, 1e-5, name)


def test_buckets_train_as_mxnets(oracle):
    rng = np.random.default_rng(1)
    data = [rng.standard_normal((3, length, 5)).astype(np.float32) for length in (7, 2, 4)]
    params = {name: rng.uniform(0.2, 1, shape).astype(np.float32) for name, shape in
              {"mix_weight": (5,), "fc_weight": (3, 5), "fc_bias": (3,)}.items()}
    ours = custom_ops.bucketed(mx, data, params)
    assert_like(ours, until_it_answers(lambda: mxnets(oracle, "bucketed", data, params)), 1e-5)


def until_it_answers(ask, tries=8):
    """One time in five MXNet treats the missing gradient of an output as an array of storage type
    -1 and fails; otherwise its results are deterministic."""
    for _ in range(tries - 1):
        try:
            return ask()
        except OracleError as error:
            assert "CustomOp" in str(error)
    return ask()


def test_arguments_of_ops_are_mxnets(oracle):
    names = ["FullyConnected", "Activation", "SoftmaxOutput", "broadcast_add", "Concat", "Pooling"]
    assert custom_ops.inputs_of(mx, names) == mxnets(oracle, "inputs_of", names)
    found = mx.operator.get_operator_arguments("FullyConnected")
    assert found.narg == len(found.names) == len(found.types)
    assert found.types[0] == "NDArray-or-Symbol" and found.types[3] == "int, required"
    assert {"FullyConnected", "Custom"} <= set(mx.operator.get_all_registered_operators())


# -- operators of one test ---------------------------------------------------------------------


def operator(name, forward=None, backward=None, **answers):
    """Register an operator; `answers` are what the methods of its prop return."""

    class Op(mx.operator.CustomOp):
        pass

    Op.forward = forward or Op.forward
    Op.backward = backward or Op.backward
    methods = {method: (lambda self, *args, answer=answer:
                        answer(*args) if callable(answer) else answer)
               for method, answer in answers.items()}
    prop = type("Prop", (mx.operator.CustomOpProp,),
                {"create_operator": lambda self, *args: Op(), **methods})
    mx.operator.register(name)(prop)
    return lambda **kwargs: mx.sym.Custom(mx.sym.Variable("data"), op_type=name, name="node",
                                          **kwargs)


def raising(*args, **kwargs):
    raise ZeroDivisionError("the user's own words")


WRONG = {
    "prop": ({"__init__": lambda flag: None}, "test_wrong.*Prop.*raised TypeError"),
    "list_arguments": ({"list_arguments": "data"}, "list_arguments returned 'data', expected a "),
    "names": ({"list_arguments": ["a", "a"]}, "expected names that differ"),
    "outputs": ({"list_outputs": []}, "expected at least one output"),
    "raises": ({"infer_shape": raising}, "node.*infer_shape raised ZeroDivisionError: the user's"),
    "no shapes": ({"infer_shape": None}, "infer_shape returned None, expected two or three lists"),
    "no shape": ({"infer_shape": ([[2]], [None])}, "expected a list for the outputs"),
    "few": ({"infer_shape": ([[2]], [])}, r"expected 1 for the outputs \['output'\]"),
    "no states": ({"list_auxiliary_states": ["s"]}, r"expected 1 for the auxiliary states"),
    "types": ({"infer_type": ([np.float32], ["word"])}, "infer_type returned"),
    "conflict": ({"infer_shape": ([[3]], [[3]])}, r"node \(Custom\): data has shape \(2,\)"),
    "create": ({"create_operator": None}, "create_operator returned None, expected a CustomOp"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_answers_are_named(case):
    answers, message = WRONG[case]
    with pytest.raises(MXNetError, match=message):
        operator("test_wrong", **answers)().simple_bind(mx.cpu(), data=(2,))


@pytest.mark.parametrize("half", ["forward", "backward"])
def test_errors_of_users_keep_their_traceback(half):
    executor = operator("test_raises", **{half: raising})().simple_bind(mx.cpu(), data=(2,))
    with pytest.raises(MXNetError, match=f"node.*test_raises.*{half} raised Zero") as caught:
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
    text = "".join(traceback.format_exception(caught.value))
    assert "in raising" in text and "the user's own words" in text


def test_infer_shape_may_fail_while_the_first_shape_is_unknown():
    net = operator("test_early", infer_shape=lambda s: ([s[0]], [[s[0][0]]]))()
    assert net.infer_shape_partial() == ([()], [()], [])
    assert net.infer_shape(data=(5, 2))[1] == [(5,)]
    assert net.infer_shape_partial(data=(0, 2))[1] == [(0,)]


def test_results_that_nobody_wants_can_be_written():
    def forward(self, is_train, req, in_data, out_data, aux):
        out_data[1][:] = 5
        self.assign(out_data[0], req[0], in_data[0] + out_data[1])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        seen.append((req, [grad.shape for grad in in_grad]))
        in_grad[1][:] = 7
        self.assign(in_grad[0], req[0], in_grad[1] + out_grad[1])

    seen = []
    net = operator("test_unwanted", forward, backward, list_arguments=["data", "label"],
                   list_outputs=["a", "b"], infer_shape=lambda s: (s, [s[0], s[0]]),
                   declare_backward_dependency=lambda grads, ins, outs: grads)()[0]
    executor = net.simple_bind(mx.cpu(), data=(2,), node_label=(2,),
                               grad_req={"data": "write"})
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [5, 5]
    executor.backward(mx.nd.ones((2,)))
    assert executor.grad_dict["data"].asnumpy().tolist() == [7, 7]  # b has no gradient
    assert seen == [(["write", "null"], [(2,), (2,)])]


def test_arrays_that_backward_did_not_declare_cannot_be_read():
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        shapes.append([array.shape for array in out_grad + in_data + out_data])
        in_grad[0][:] = out_data[0] * 2

    shapes = []
    net = operator("test_undeclared", backward=backward,
                   declare_backward_dependency=lambda grads, ins, outs: ins)()
    executor = net.simple_bind(mx.cpu(), data=(2,))
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="output 'output' is not there: declare_backward_dep"):
        executor.backward()
    assert shapes == [[(), (2,), ()]]


def test_gradients_are_added_even_to_operators_that_only_write():
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        in_grad[0][:] = 3

    net = operator("test_writes", backward=backward)()
    executor = net.simple_bind(mx.cpu(), data=(2,), grad_req="add")
    executor.grad_arrays[0][:] = 1
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [7, 7]


def test_each_node_of_each_executor_has_an_operator_of_its_own():
    """Also where nodes share an op, in a graph that contains a copy of itself."""
    made = []

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            made.append(ctx)
            return Keeps()

    class Keeps(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.factor = float(in_data[0].asnumpy()[0])
            self.assign(out_data[0], req[0], in_data[0] + 1)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * self.factor)

    mx.operator.register("test_keeps")(Prop)
    net = mx.sym.Custom(mx.sym.Variable("data"), op_type="test_keeps", name="a")
    twice = net(data=net, name="b")
    executor = twice.simple_bind(mx.cpu(2), data=(1,))
    executor.arg_dict["data"][:] = 2
    executor.forward(is_train=True)
    larger = executor.reshape(data=(9,), allow_up_sizing=True)  # takes the arena over and grows it
    larger.forward(is_train=True)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((1,)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [6]  # 2 * 3
    assert made == [mx.cpu(2)] * 4


@pytest.mark.parametrize("way", ["everything", "by name"])
def test_mirroring_runs_no_operator_again(monkeypatch, way):
    def forward(self, is_train, req, in_data, out_data, aux):
        runs.append(is_train)
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])

    runs = []
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1" if way == "everything" else "0")
    with mx.AttrScope(force_mirroring="True"):
        net = mx.sym.exp(operator("test_mirrored", forward, backward)()) * 2
    executor = net.simple_bind(mx.cpu(), data=(1,))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((1,)))
    assert runs == [True]
    np.testing.assert_allclose(executor.grad_arrays[0].asnumpy(), 2 * np.e, rtol=1e-6)


def test_groups_of_nodes_have_operators_where_they_are():
    places = []

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            places.append(ctx)
            return Copies()

    class Copies(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            places.append(in_data[0].context)
            self.assign(out_data[0], req[0], in_data[0])

    mx.operator.register("test_placed")(Prop)
    net = mx.sym.Variable("data")
    for group in ("far", "near"):
        with mx.AttrScope(ctx_group=group):
            net = mx.sym.Custom(net + 1, op_type="test_placed")
    groups = {"far": mx.cpu(1), "near": mx.cpu(0)}
    executor = net.simple_bind(mx.cpu(2), group2ctx=groups, data=(2,), grad_req="null")
    assert executor.forward()[0].asnumpy().tolist() == [2, 2]
    assert places == [mx.cpu(1), mx.cpu(0)] * 2


def test_registering_again_changes_what_is_made_from_then_on():
    def doubles(factor):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * factor)
        return operator("test_again", forward)()

    first, x = doubles(2), mx.nd.ones((1,))
    assert mx.nd.Custom(x, op_type="test_again").asscalar() == 2
    doubles(3)
    assert mx.nd.Custom(x, op_type="test_again").asscalar() == 3
    assert first.eval(data=x)[0].asscalar() == 2


def test_hidden_attributes_go_only_to_constructors_that_take_them():
    operator("test_hidden")
    with mx.AttrScope(ctx_group="a", __mine__="b"):
        mx.sym.Custom(mx.sym.Variable("data"), op_type="test_hidden")


# -- graphs from files -------------------------------------------------------------------------


def saved(name):
    """The JSON of a graph over a custom operator that is not registered any more."""
    from nbmod.ops.custom import FACTORIES

    net = operator(name, list_arguments=["data", "label"], list_outputs=["a", "b"],
                   infer_shape=lambda s: ([s[0], s[0]], [s[0], s[0]]))()
    text = mx.sym.Group([net[1], mx.sym.FullyConnected(net[0], num_hidden=2)]).tojson()
    del FACTORIES[name]
    return text


def test_a_graph_loads_without_its_operators_until_shapes_are_needed():
    text = saved("test_lost")
    net = mx.sym.load_json(text)
    assert net.tojson() == text
    assert net.list_arguments()[:2] == ["data", "node_label"]
    for use in (lambda: net.infer_shape(data=(2, 3)), lambda: net.simple_bind(mx.cpu())):
        with pytest.raises(MXNetError, match="no custom operator is registered as 'test_lost'"):
            use()
    with pytest.raises(MXNetError, match="no custom operator is registered as 'test_lost'"):
        mx.sym.Custom(mx.sym.Variable("x"), op_type="test_lost")


def test_a_graph_becomes_whole_when_its_operators_are_registered():
    net = mx.sym.load_json(saved("test_late"))
    operator("test_late", list_arguments=["data", "label"], list_outputs=["a", "b"])
    assert net.infer_shape(data=(2, 3), node_label=(2, 3))[1] == [(2, 3), (2, 2)]
    assert net.list_outputs()[0] == "node_b"
    other = mx.sym.load_json(saved("test_other"))
    operator("test_other")
    with pytest.raises(MXNetError, match="registered with 1 inputs .*'data'.*, but its node has 2"):
        other.infer_shape(data=(2, 3))


# -- older classes, devices --------------------------------------------------------------------


class Double(mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * 2

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_grad[0] * mx.nd.array([2, 3])


def test_ndarray_ops_run():
    with pytest.warns(DeprecationWarning, match="CustomOp does all they do"):
        net = Double()(mx.sym.Variable("data"))
    executor = net.bind(mx.cpu(), [mx.nd.array([3, 4])], [mx.nd.zeros((2,))])
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [6, 8]
    executor.backward(mx.nd.ones((2,)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [2, 3]


class Squares(mx.operator.NumpyOp):
    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0]]

    def forward(self, in_data, out_data):
        assert all(isinstance(array, np.ndarray) for array in in_data + out_data)
        out_data[0][:] = in_data[0] ** 2

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 2 * (in_data[0] - in_data[1]) + sum(out_grad)


@pytest.mark.parametrize("needed", [True, False])
def test_numpy_ops_run(needed):
    with pytest.warns(DeprecationWarning, match="CustomOp does all they do"):
        op = Squares(need_top_grad=needed)
    assert run_squares(op, mx.cpu(), needed) == [[1, 4], [2 + needed, 4 + needed]]


def run_squares(op, ctx, needed):
    executor = op(data=mx.sym.Variable("data"), name="s").simple_bind(ctx, data=(2,))
    executor.arg_dict["data"][:] = np.array([1, 2])
    output = executor.forward(is_train=True)[0].asnumpy().tolist()
    executor.backward(mx.nd.ones((2,), ctx) if needed else None)
    return [output, executor.grad_dict["data"].asnumpy().tolist()]


@pytest.mark.gpu
def test_operators_get_arrays_of_the_gpu():
    seen = []

    def forward(self, is_train, req, in_data, out_data, aux):
        seen.extend([in_data[0].context, out_data[0].context])
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        seen.append(in_grad[0].context)
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[0])

    net = operator("test_gpu", forward, backward)()
    executor = net.simple_bind(mx.gpu(1), data=(3,))
    executor.arg_dict["data"][:] = mx.nd.array([1, 2, 3])
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [2, 4, 6]
    executor.backward(mx.nd.ones((3,), mx.gpu(1)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [1, 2, 3]
    assert mx.nd.Custom(mx.nd.ones((1,), mx.gpu(0)), op_type="test_gpu").context == mx.gpu(0)
    assert seen == [mx.gpu(1)] * 3 + [mx.gpu(0)] * 2
    with pytest.warns(DeprecationWarning):
        op = Squares()
    assert run_squares(op, mx.gpu(0), True) == [[1, 4], [3, 5]]


def test_an_operator_without_inputs_makes_its_output():
    class Ones(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], mx.nd.ones((2, 3)))

    class OnesProp(mx.operator.CustomOpProp):
        def list_arguments(self):
            return []

        def infer_shape(self, in_shape):
            return [], [(2, 3)], []

        def infer_type(self, in_type):
            return [], [np.float32], []

        def create_operator(self, ctx, shapes, dtypes):
            return Ones()

    mx.operator.register("test_without_inputs")(OnesProp)
    made = mx.sym.Custom(op_type="test_without_inputs", name="made")
    assert made.list_arguments() == []
    executor = (made + mx.sym.var("x")).simple_bind(mx.cpu(), x=(2, 3))
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [[1] * 3] * 2
    executor.backward(mx.nd.ones((2, 3)))
    assert mx.nd.Custom(op_type="test_without_inputs").asnumpy().sum() == 6
