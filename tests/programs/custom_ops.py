"""Custom operators that tests share with MXNet, and programs over them.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_REGISTERED: set[str] = set()
EVENTS: list[Any] = []
"""What the operators registered by `register` were asked, in order."""


def register(mx: Any) -> None:
    """Register `test_mix` and `test_softmax` once."""
    if mx.__name__ not in _REGISTERED:
        _REGISTERED.add(mx.__name__)
        _register_mix(mx)
        _register_softmax(mx)


def _mix(mx: Any) -> Any:
    """y = factor x w and s = the sum of each row of x; keeps x w, counts runs in training."""

    class Mix(mx.operator.CustomOp):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, is_train, req, in_data, out_data, aux):
            EVENTS.append(("forward", int(is_train), list(req),
                           describe(in_data, out_data, aux)))
            x, w = in_data
            self.kept = x * w.reshape((1, -1))
            self.assign(out_data[0], req[0], self.factor * self.kept)
            self.assign(out_data[1], req[1], x.sum(axis=1))
            if is_train:
                aux[0][:] = aux[0] + 1

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            kinds = ["null" if request == "null" else "wanted" for request in req]
            EVENTS.append(("backward", kinds,
                           describe(out_grad, in_data, out_data, in_grad, aux)))
            (gy, gs), (x, w) = out_grad, in_data
            gx = self.factor * gy * w.reshape((1, -1)) + gs.reshape((-1, 1)) * mx.nd.ones_like(x)
            self.assign(in_grad[0], req[0], gx)
            # x = kept / w, so this is wrong unless forward of the same executor came before.
            self.assign(in_grad[1], req[1], self.factor * (gy * self.kept).sum(axis=0) / w)
            aux[0][:] = aux[0] + 100

    return Mix


def _register_mix(mx: Any) -> None:
    operator = _mix(mx)

    @mx.operator.register("test_mix")
    class MixProp(mx.operator.CustomOpProp):
        def __init__(self, factor="1", **more):
            super().__init__(need_top_grad=True)
            EVENTS.append(("prop", factor, sorted(more.items())))
            self.factor = float(factor)

        def list_arguments(self):
            return ["data", "weight"]

        def list_outputs(self):
            return ["output", "sum"]

        def list_auxiliary_states(self):
            return ["runs"]

        def infer_shape(self, in_shape):
            data = in_shape[0]
            return [data, [data[1]]], [data, [data[0]]], [[1]]

        def infer_type(self, in_type):
            return [in_type[0]] * 2, [in_type[0]] * 2, [np.float32]

        def create_operator(self, ctx, in_shapes, in_dtypes):
            EVENTS.append(("create", str(ctx), [list(s) for s in in_shapes], list(in_dtypes)))
            return operator(self.factor)


def _register_softmax(mx: Any) -> None:
    """Softmax with the gradient of its cross entropy, in NumPy; results of two parts only."""

    class Softmax(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            x = in_data[0].asnumpy()
            y = np.exp(x - x.max(axis=1, keepdims=True))
            self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            EVENTS.append(("loss", [array.shape for array in out_grad]))
            label = in_data[1].asnumpy().astype(int)
            y = out_data[0].asnumpy()
            y[np.arange(len(label)), label] -= 1
            self.assign(in_grad[0], req[0], mx.nd.array(y))

    @mx.operator.register("test_softmax")
    class SoftmaxProp(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=False)

        def list_arguments(self):
            return ["data", "label"]

        def infer_shape(self, in_shape):
            return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Softmax()


def describe(*groups: Any) -> list[Any]:
    """Shapes, types and contexts of arrays."""
    return [[(array.shape, np.dtype(array.dtype).name, str(array.context)) for array in group]
            for group in groups]


# -- programs ------------------------------------------------------------------------------------


def life(mx: Any) -> list[Any]:
    """All calls of operators while a graph is bound, run, bound again and saved."""
    register(mx)
    del EVENTS[:]
    x = mx.sym.Variable("x")
    net = mx.sym.Custom(x, op_type="test_mix", name="mix", factor=2.5, flag=True, size=(1, 2))
    with mx.name.NameManager():  # automatic names start at 0, whatever was created before
        unnamed = mx.sym.Custom(x, op_type="test_mix")
    names = (net.list_arguments(), net.list_outputs(), net.list_auxiliary_states(),
             unnamed.list_outputs(), net.infer_shape(x=(2, 3)),
             mx.sym.Custom(data=x, op_type="test_mix", name="k").list_arguments())
    text = net.tojson()
    executor = net.simple_bind(mx.cpu(), x=(2, 3), grad_req={"x": "write", "mix_weight": "add"})
    for array, value in zip(executor.arg_arrays, (np.arange(6.).reshape(2, 3), [1., 2., 3.]),
                            strict=True):
        array[:] = mx.nd.array(value)
    results = []
    for runner in (executor, executor.reshape(x=(1, 3), partial_shaping=True)):
        runner.forward(is_train=True)
        heads = [mx.nd.ones(output.shape, mx.cpu()) for output in runner.outputs]
        runner.backward(heads)
        mx.nd.waitall()
        arrays = runner.outputs + runner.grad_arrays + runner.aux_arrays
        results.append([array.asnumpy() for array in arrays])
    loaded = mx.sym.load_json(text)
    loaded[0].simple_bind(mx.cpu(), x=(2, 2), grad_req="null").forward(is_train=False)
    mx.nd.waitall()
    return [names, text, loaded.tojson() == text, results, list(EVENTS)]


def eager(mx: Any) -> list[Any]:
    """The same operator called with arrays."""
    register(mx)
    x, w = mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([2, 3])
    runs = mx.nd.zeros((1,))
    found = mx.nd.Custom(x, w, runs, op_type="test_mix", factor=3)
    label = mx.nd.array([0, 1])
    del EVENTS[:]
    single = mx.nd.Custom(x, label, op_type="test_softmax")
    return [*(array.asnumpy() for array in found), single.asnumpy(), runs.asnumpy()]


def trained(mx: Any, contexts: int, data: np.ndarray, labels: np.ndarray,
            params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters of a Module that was trained with a custom loss above a custom layer."""
    register(mx)
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh")
    x = mx.sym.Custom(x, op_type="test_mix", name="mix", factor=1.5)[0]
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2")
    net = mx.sym.Custom(x, op_type="test_softmax", name="softmax")
    module = mx.mod.Module(net, context=[mx.cpu(i) for i in range(contexts)])
    batches = mx.io.NDArrayIter(data, labels, 8)
    start = {name: mx.nd.array(value) for name, value in params.items()}
    module.fit(batches, num_epoch=2, arg_params=start, aux_params={"mix_runs": mx.nd.zeros((1,))},
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    args, aux = module.get_params()
    return {name: array.asnumpy() for name, array in [*args.items(), *aux.items()]}


def bucketed(mx: Any, arrays: list[np.ndarray], params: dict[str, np.ndarray]
             ) -> dict[str, np.ndarray]:
    """Parameters after batches of different lengths, whose executors share memory."""
    register(mx)
    data = {array.shape[1]: array for array in arrays}

    def sym_gen(length: int) -> tuple[Any, list[str], list[str]]:
        x = mx.sym.tanh(mx.sym.Variable("data"))
        x = mx.sym.Custom(mx.sym.sum(x, axis=1), op_type="test_mix", name="mix", factor=0.5)[0]
        x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
        return mx.sym.Custom(x, op_type="test_softmax", name="softmax"), ["data"], ["softmax_label"]

    def batch(key: int) -> Any:
        array = mx.nd.array(data[key])
        return mx.io.DataBatch([array], [mx.nd.array([0, 1, 2])], bucket_key=key,
                               provide_data=[("data", array.shape)],
                               provide_label=[("softmax_label", (3,))])

    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=max(data))
    module.bind([("data", data[max(data)].shape)], [("softmax_label", (3,))])
    module.init_params(arg_params={name: mx.nd.array(value) for name, value in params.items()},
                       aux_params={"mix_runs": mx.nd.zeros((1,))})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    for key in [*data, *data, *data]:
        module.forward_backward(batch(key))
        module.update()
    mx.nd.waitall()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def requests(mx: Any) -> list[Any]:
    """What `assign` does for each request, and the defaults of props without overrides."""
    op, prop = mx.operator.CustomOp(), mx.operator.CustomOpProp()
    target, found = mx.nd.zeros((2,)), []
    for req in ("null", "write", "inplace", "add"):
        op.assign(target, req, mx.nd.array([2, 3]))
        found.append(target.asnumpy())
    loss = mx.operator.CustomOpProp(need_top_grad=False)
    dense = ["default"]
    return [*found, prop.list_arguments(), prop.list_outputs(), prop.list_auxiliary_states(),
            [list(map(list, part)) for part in prop.infer_shape([[2, 3]])],
            [[np.dtype(kind).name for kind in part] for part in prop.infer_type([np.float16])],
            list(prop.declare_backward_dependency([0], [1, 2], [3])),
            list(loss.declare_backward_dependency([0], [1, 2], [3])),
            list(map(list, prop.infer_storage_type(dense))),
            list(map(list, prop.infer_storage_type_backward(dense, dense, dense, dense, [])))]


def older(mx: Any) -> list[Any]:
    """The names that NumpyOps and NDArrayOps give (MXNet 1.9.1 crashes when it runs them)."""

    class Double(mx.operator.NDArrayOp):
        pass

    class Plain(mx.operator.NumpyOp):
        def list_arguments(self):
            return ["data", "label"]

        def list_outputs(self):
            return ["result"]

    x = mx.sym.Variable("x")
    double, plain = Double(), Plain(need_top_grad=False)
    return [double(x, name="d").list_outputs(), double(x).list_outputs(),
            plain(data=x).list_arguments(), plain.get_symbol(x, name="p").list_outputs(),
            plain.need_top_grad(), double.declare_backward_dependency([0], [1], [2])]


def inputs_of(mx: Any, names: list[str]) -> list[list[str]]:
    """Names of the arguments of ops."""
    return [mx.operator.get_operator_arguments(name).names for name in names]


