"""Typical uses of autograd, as small programs; `mx` is nbmod in the tests and MXNet elsewhere.

`answers` runs them all: each returns arrays, or raises an error, whose class is then the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enter a program into the table."""
    PROGRAMS[function.__name__] = function
    return function


def answers(mx: Any) -> dict[str, Any]:
    """The result of each program."""
    return {name: answer(mx, name) for name in PROGRAMS}


def answer(mx: Any, name: str) -> Any:
    """The result of a program: arrays as NumPy's, for an error the name of its class in MXNet."""
    try:
        found = plain(mx, PROGRAMS[name](mx))
    except Exception as error:
        known = (AssertionError, mx.base.MXNetError, type(error))
        found = f"raises {next(kind for kind in known if isinstance(error, kind)).__name__}"
    mx.autograd.set_recording(False)
    mx.autograd.set_training(False)
    mx.nd.waitall()
    return found


def plain(mx: Any, value: Any) -> Any:
    """NDArrays become NumPy arrays."""
    if isinstance(value, mx.nd.NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return [plain(mx, item) for item in value]
    return value


def marked(mx: Any, values: Any = (1, 2, 3), request: str = "write") -> Any:
    """An array with a gradient."""
    array = mx.nd.array(np.asarray(values, np.float32))
    array.attach_grad(request)
    return array


# -- the flags ------------------------------------------------------------------------------


def flags(mx: Any) -> tuple[bool, bool]:
    return mx.autograd.is_recording(), mx.autograd.is_training()


@program
def scopes(mx):
    ag, seen = mx.autograd, [flags(mx)]
    with ag.record():
        seen.append(flags(mx))
        with ag.pause():
            seen.append(flags(mx))
            with ag.train_mode():
                seen.append(flags(mx))
        with ag.predict_mode():
            seen.append(flags(mx))
        with ag.pause(train_mode=True):
            seen.append(flags(mx))
        thread = threading.Thread(target=lambda: seen.append(flags(mx)))
        thread.start()
        thread.join()
    with ag.record(train_mode=False):
        seen.append(flags(mx))
    return [*seen, flags(mx)]


@program
def switches(mx):
    ag = mx.autograd
    return [ag.set_recording(True), ag.set_recording(False), ag.set_training(True),
            ag.set_training(False), *flags(mx)]


@program
def scopes_end_with_an_error(mx):
    try:
        with mx.autograd.record():
            raise KeyError
    except KeyError:
        return flags(mx)


# -- requests and heads ---------------------------------------------------------------------


@program
def add_and_write(mx):
    x, w = marked(mx, request="add"), marked(mx)
    for _ in range(3):
        with mx.autograd.record():
            y = x * x * w
        y.backward()
    return x.grad, w.grad


@program
def null_beside_write(mx):
    x, w = marked(mx, request="null"), marked(mx)
    with mx.autograd.record():
        y = x * w
    y.backward()
    return x.grad, w.grad


@program
def only_null(mx):
    x = marked(mx, request="null")
    with mx.autograd.record():
        y = x * x
    y.backward()


@program
def attaching_again_starts_over(mx):
    x = marked(mx)
    x.grad[:] = 5
    before = x.grad
    x.attach_grad()
    return before, x.grad


@program
def variables_marked_by_hand(mx):
    x, w, v = (mx.nd.ones(3) for _ in range(3))
    grads = [mx.nd.ones(3) * k for k in (7, 8, 9)]
    mx.autograd.mark_variables([x, w, v], grads, ["add", "write", "null"])
    with mx.autograd.record():
        y = x * 4 + w * 5 + v
    y.backward()
    return grads, x.grad, v.grad


@program
def one_variable_marked(mx):
    x, grad = mx.nd.ones(3), mx.nd.ones(3)
    mx.autograd.mark_variables(x, grad)
    with mx.autograd.record():
        y = x * 4
    mx.autograd.backward(y)
    return grad


@program
def several_heads_and_weights(mx):
    x = marked(mx)
    with mx.autograd.record():
        y, z = x * x, mx.nd.exp(x)
    mx.autograd.backward([y, z, x], [mx.nd.array([1, 0, 2]), None, mx.nd.array([5, 5, 5])])
    return x.grad


@program
def fewer_weights_than_heads(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * x
    mx.autograd.backward([y, y], [mx.nd.ones(3)])


@program
def weight_of_a_head(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * x
    y.backward(mx.nd.array([1, 10, 100]))
    return x.grad


@program
def a_leaf_is_a_head(mx):
    x = marked(mx)
    x.backward()
    return x.grad


@program
def parts_of_outputs(mx):
    x = marked(mx, [[1, 2, 3, 4]])
    with mx.autograd.record():
        first, second = mx.nd.split(x, num_outputs=2)
        y = first * 3
    y.backward()
    return x.grad, second


@program
def unreached_gradients_stay(mx):
    x, w = marked(mx), marked(mx)
    w.grad[:] = 7
    with mx.autograd.record():
        y = x * 2
    y.backward()
    return x.grad, w.grad


# -- recording and its extent ---------------------------------------------------------------


@program
def nothing_outside(mx):
    (marked(mx) * 2).backward()


@program
def nothing_without_mark(mx):
    with mx.autograd.record():
        y = mx.nd.ones(3) * 2
    y.backward()


@program
def not_after_the_scope(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    (y * 2).backward()


@program
def across_two_scopes(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    with mx.autograd.record():
        z = y * y
    z.backward()
    return x.grad


@program
def a_pause_makes_constants(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
        with mx.autograd.pause():
            w = y * x
        z = y * w
    z.backward()
    return x.grad


@program
def detached(mx):
    x = marked(mx)
    with mx.autograd.record():
        z = (x * 2).detach() * x
    z.backward()
    return x.grad, x.detach().grad


@program
def backward_twice(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    y.backward()
    y.backward()


@program
def backward_twice_retained(mx):
    x = marked(mx, request="add")
    with mx.autograd.record():
        y = x * 2
        z = y * x
    z.backward(retain_graph=True)
    z.backward(retain_graph=True)
    y.backward()
    return x.grad


@program
def another_head_of_a_freed_graph(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
        z, w = y * y, y * 3
    z.backward()
    w.backward()


@program
def constant_after_backward(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    y.backward()
    with mx.autograd.record():
        z = y * x
    z.backward()
    return x.grad


@program
def marking_a_result_cuts(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
        y.attach_grad()
        z = y * y
    z.backward()
    return x.grad, y.grad


@program
def truncated_recurrence(mx):
    x, state, grads = marked(mx), mx.nd.zeros(3), []
    for _ in range(3):
        with mx.autograd.record():
            state = mx.nd.tanh(state * 0.5 + x)
            loss = (state * state).sum()
        loss.backward()
        grads.append(x.grad.copy())
    return grads


# -- writing, views, copies -----------------------------------------------------------------


def writes(mx: Any, write: Callable[..., None]) -> Any:
    x, constant = marked(mx), mx.nd.zeros(3)
    with mx.autograd.record():
        y = x * 2
        write(x, y, constant)
        z = y * constant + x
    z.backward()
    return x.grad


@program
def writing_to_a_leaf(mx):
    def write(x, y, constant):
        x[:] = 5
    return writes(mx, write)


@program
def adding_to_a_leaf(mx):
    def write(x, y, constant):
        x += 1
    return writes(mx, write)


@program
def writing_to_a_result(mx):
    def write(x, y, constant):
        y[0] = 5
    return writes(mx, write)


@program
def writing_to_a_view(mx):
    def write(x, y, constant):
        part = y[1:3]
        part[:] = 0
    return writes(mx, write)


@program
def writing_to_a_constant(mx):
    def write(x, y, constant):
        constant[1] = 5
        constant[0:1] = np.ones(1)
        constant += 1
    return writes(mx, write)


@program
def adding_a_result_to_a_constant(mx):
    def write(x, y, constant):
        constant += x
    return writes(mx, write)


@program
def assigning_a_result(mx):
    def write(x, y, constant):
        constant[:] = x * 3
    return writes(mx, write)


@program
def assigning_a_result_to_a_part(mx):
    def write(x, y, constant):
        constant[0:2] = x[1:3]
    return writes(mx, write)


@program
def copying_a_result(mx):
    def write(x, y, constant):
        (x * 3).copyto(constant)
    return writes(mx, write)


@program
def out_of_an_operation(mx):
    def write(x, y, constant):
        mx.nd.exp(x, out=constant)
    return writes(mx, write)


@program
def out_is_the_input(mx):
    def write(x, y, constant):
        mx.nd.exp(y, out=y)
    return writes(mx, write)


@program
def an_update_while_recording(mx):
    def write(x, y, constant):
        mx.nd.sgd_update(x, y, out=x, lr=0.1)
    return writes(mx, write)


@program
def out_again_after_backward(mx):
    x, out, grads = marked(mx), mx.nd.zeros(3), []
    for _ in range(2):
        with mx.autograd.record():
            mx.nd.exp(x, out=out)
        out.backward()
        grads.append(x.grad.copy())
    return grads


@program
def writing_between_forward_and_backward(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * x
    x[:] = 5
    y.backward()
    return x.grad


INDICES = {
    "row": lambda x: x[1], "element": lambda x: x[1, 0], "last": lambda x: x[-1],
    "rows": lambda x: x[0:2], "columns": lambda x: x[:, 1:], "backwards": lambda x: x[::-2],
    "new_axis": lambda x: x[None, 1:], "everything": lambda x: x[:],
    "list": lambda x: x[[2, 0, 2]], "pairs": lambda x: x[[0, 1, 0], [1, 1, 1]],
    "mixed": lambda x: x[[0, 2], 1:], "iteration": lambda x: sum(row * row for row in x),
}  # fmt: skip


@program
def indexing(mx):
    found = []
    for take in INDICES.values():
        x = marked(mx, np.arange(9).reshape(3, 3))
        with mx.autograd.record():
            part = take(x)
            y = part * part
        y.backward()
        found += [part, x.grad]
    return found


SHAPES = {
    "reshape": lambda x: x.reshape((3, -1)), "flatten": lambda x: x.flatten(), "T": lambda x: x.T,
    "expand_dims": lambda x: x.expand_dims(1), "squeeze": lambda x: x.expand_dims(0).squeeze(),
    "broadcast_to": lambda x: x.expand_dims(0).broadcast_to((2, 2, 3)), "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype("float64"), "same_type": lambda x: x.astype("float32"),
    "slice_axis": lambda x: x.slice_axis(axis=1, begin=0, end=2), "swapaxes":
    lambda x: x.swapaxes(0, 1), "tile": lambda x: x.tile((2, 1)), "flip": lambda x: x.flip(axis=1),
    "sum": lambda x: x.sum(axis=1), "split": lambda x: x.split(3, axis=1)[1],
}  # fmt: skip


@program
def methods(mx):
    found = []
    for change in SHAPES.values():
        x = marked(mx, np.arange(6).reshape(2, 3) / 7)
        with mx.autograd.record():
            changed = change(x)
            y = changed * changed
        y.backward()
        found += [changed, x.grad]
    return found


@program
def another_device(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = (x * 2).as_in_context(mx.cpu(1))
        z = y * y
    z.backward()
    return x.grad


@program
def integers(mx):
    x = mx.nd.array([1, 2, 3], dtype="int32")
    x.attach_grad()
    with mx.autograd.record():
        y = x * x
    y.backward()
    return x.grad


@program
def concatenated(mx):
    x, w = marked(mx), marked(mx)
    with mx.autograd.record():
        y = mx.nd.concat(x * x, w, dim=0) * mx.nd.arange(6)
        z = mx.nd.stack(x, w, axis=1)
    mx.autograd.backward([y, z])
    return x.grad, w.grad


# -- operators of all kinds -----------------------------------------------------------------


@program
def steps_without_gradient(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = (x > 1) * x + mx.nd.argmax(x, axis=0) * x + mx.nd.BlockGrad(x * 9) + mx.nd.round(x)
    y.backward()
    only = marked(mx)
    with mx.autograd.record():
        z = only > 1
    z.backward()
    return x.grad, only.grad


@program
def losses_ignore_weights(mx):
    found = []
    for loss in ("SoftmaxOutput", "blocked", "MakeLoss", "LinearRegressionOutput"):
        x, label = marked(mx, [[1, 2], [3, 4.5]]), mx.nd.array([0, 1])
        with mx.autograd.record():
            if loss == "MakeLoss":
                y = mx.nd.MakeLoss(x * x)
            elif loss == "LinearRegressionOutput":
                y = mx.nd.LinearRegressionOutput(x, mx.nd.ones((2, 2)))
            else:
                y = mx.nd.SoftmaxOutput(x * 1, label)
                y = mx.nd.BlockGrad(y) if loss == "blocked" else y
        y.backward(mx.nd.ones((2, 2)) * 1000)
        found.append(x.grad)
    return found


@program
def dropout_in_both_modes(mx):
    x = marked(mx, np.ones(50))
    agrees = []
    for train in (True, False):
        with mx.autograd.record(train_mode=train):
            y = mx.nd.Dropout(x, p=0.5)
        y.backward()
        same = bool((y.asnumpy() == x.grad.asnumpy()).all())
        agrees.append([same, 0 < float((y == 0).sum().asscalar()) < 50])
    with mx.autograd.train_mode():
        agrees.append(0 < float((mx.nd.Dropout(x) == 0).sum().asscalar()) < 50)
    return [*agrees, mx.nd.Dropout(x)]


@program
def batch_norm_in_both_modes(mx):
    found = []
    for forward in (True, False):
        for backward in (True, False):
            x, gamma, beta = marked(mx, [[1, 2], [3, 5]]), marked(mx, [3, 2]), marked(mx, [0, 1])
            mean, var = mx.nd.zeros(2), mx.nd.ones(2)
            with mx.autograd.record(train_mode=forward):
                y = mx.nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False, momentum=0.5)
            found.append(y.copy())
            mx.nd.waitall()
            found.append(mean.copy())
            y.backward(mx.nd.array([[1, 2], [3, 4]]), train_mode=backward)
            mx.nd.waitall()
            found += [x.grad, gamma.grad, beta.grad, mean, var]
    return found


@program
def recurrent_layer(mx):
    rng = np.random.RandomState(0)
    x = marked(mx, rng.randn(5, 2, 3))
    weights = marked(mx, rng.randn(4 * 4 * (3 + 4 + 2)) / 4)
    state, cell = marked(mx, rng.randn(1, 2, 4)), marked(mx, rng.randn(1, 2, 4))
    with mx.autograd.record():
        y, h, c = mx.nd.RNN(x, weights, state, cell, state_size=4, num_layers=1, mode="lstm",
                            state_outputs=True)
        loss = (y * y).sum() + h.sum() + (c * c).sum()
    loss.backward()
    return [loss, *(array.grad for array in (x, weights, state, cell))]


@program
def inputs_with_indices(mx):
    table, data = marked(mx, np.arange(6).reshape(3, 2)), marked(mx, [[1, 2], [3, 4]])
    with mx.autograd.record():
        rows = mx.nd.Embedding(mx.nd.array([1, 2, 1]), table, input_dim=3, output_dim=2)
        picked = mx.nd.pick(data, mx.nd.array([0, 1], dtype="int32"))
        y = (rows * rows).sum() + (picked * picked).sum()
    y.backward()
    return table.grad, data.grad


# -- grad, and higher-order derivatives -----------------------------------------------------


@program
def grad_returns(mx):
    x, w = marked(mx), marked(mx)
    with mx.autograd.record():
        y = x * w
    found = mx.autograd.grad(y, [x, w], mx.nd.array([1, 2, 3]), retain_graph=True)
    one = mx.autograd.grad([y], x)
    return found, one, type(one).__name__, x.grad


@program
def grad_of_what_is_not_reached(mx):
    x, w = marked(mx), marked(mx)
    with mx.autograd.record():
        y = x * 2
    mx.autograd.grad(y, [w])


@program
def grad_of_what_is_not_marked(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
        z = y * y
    mx.autograd.grad(z, [y])


@program
def grad_frees(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    mx.autograd.grad(y, x)
    y.backward()


@program
def grad_of_nothing(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = x * 2
    mx.autograd.grad(y, [])


# Those that MXNet itself differentiates twice, correctly.
TWICE = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "exp", "expm1", "log", "log2",
         "log10", "log1p", "sqrt", "cbrt", "rsqrt", "rcbrt", "reciprocal", "square", "abs",
         "sigmoid", "relu", "negative", "arcsin", "arccos", "arctanh", "identity")


@program
def second_derivatives(mx):
    found = []
    for name in TWICE:
        x = marked(mx, [0.3, 0.5, 0.8])
        with mx.autograd.record():
            y = mx.nd.sin(mx.nd.square(getattr(mx.nd, name)(x)))
            first, = mx.autograd.grad(y, [x], create_graph=True)
        first.backward()
        found += [first, x.grad]
    return found


@program
def third_derivative(mx):
    x = marked(mx, [0.3, 0.5])
    with mx.autograd.record():
        y = mx.nd.sin(x)
        first, = mx.autograd.grad(y, [x], create_graph=True)
        second, = mx.autograd.grad(first, [x], create_graph=True)
    second.backward()
    return first, second, x.grad


@program
def differentiated_after_recording(mx):
    x = marked(mx)
    with mx.autograd.record():
        y = mx.nd.exp(x)
    first, = mx.autograd.grad(y, [x], create_graph=True)
    first.backward()
    return first, x.grad, *flags(mx)


# -- functions and operators in Python ------------------------------------------------------


def functions(mx: Any) -> dict[str, type]:
    class Product(mx.autograd.Function):
        def forward(self, a, b):
            self.flags = flags(mx)
            self.save_for_backward(a, b)
            return a * b, a + b

        def backward(self, product, total):
            a, b = self.saved_tensors
            self.flags += flags(mx)
            return product * b * 2 + total, product * a + total

    class Scaled(mx.autograd.Function):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return [x * self.factor, x * 3]

        def backward(self, first, second):
            return [first * self.factor + second]

    return {"Product": Product, "Scaled": Scaled}


@program
def function_of_two(mx):
    a, b, product = marked(mx), marked(mx, [4, 5, 6]), functions(mx)["Product"]()
    outside = functions(mx)["Product"]()(a, b)
    with mx.autograd.record():
        p, s = product(a * 1, b)
        y = p * 2 + s
    y.backward()
    mx.nd.waitall()
    return outside, p, a.grad, b.grad, product.flags


@program
def function_with_parameter(mx):
    x = marked(mx)
    with mx.autograd.record():
        first, second = functions(mx)["Scaled"](5)(x)
    second.backward()
    return first, x.grad


@program
def function_called_twice(mx):
    x, function = marked(mx), functions(mx)["Product"]()
    with mx.autograd.record():
        function(x, x)
        function(x, x)


@program
def custom_operator(mx):
    from tests.programs import custom_ops

    custom_ops.register(mx)
    found = []
    for train in (True, False):
        x, w, runs = marked(mx, [[1, 2], [3, 4]]), marked(mx, [1, 2]), mx.nd.zeros(1)
        with mx.autograd.record(train_mode=train):
            y, s = mx.nd.Custom(x, w, runs, op_type="test_mix", factor=2)
            z = y.sum() + (s * s).sum()
        z.backward(train_mode=train)
        mx.nd.waitall()
        found += [y, x.grad, w.grad, runs]
    return found


# -- the recorded graph ---------------------------------------------------------------------


@program
def symbol_of_a_computation(mx):
    x, w = marked(mx), marked(mx, [2, 2, 2])
    with mx.autograd.record():
        y = mx.nd.exp(x * 2) + mx.nd.sum(w, axis=0, keepdims=True)
    symbol = mx.autograd.get_symbol(y)
    outputs = symbol.bind(mx.cpu(), [x, w]).forward()
    return len(symbol.list_arguments()), outputs, symbol.infer_shape(
        **dict.fromkeys(symbol.list_arguments(), (3,)))[1]


@program
def symbol_of_an_unrecorded_array(mx):
    mx.autograd.get_symbol(mx.nd.ones(3))
