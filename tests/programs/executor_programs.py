"""Programs over executors whose results must agree in nbmod and MXNet; imports neither of them.

Each function below that takes `mx` alone is a program: it binds and runs something and returns
plain data, arrays included.  `attempt` turns an exception into "error", so that a program can try
several calls that may fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.calls import attempt, plain


def answer(mx: Any, program: str) -> Any:
    """The result of a program, with automatic names counted from 0."""
    with mx.name.NameManager():
        return plain(globals()[program](mx))


def programs() -> list[str]:
    """The names of all programs."""
    helpers = ("answer", "programs", "filled", "deep", "monitored")
    return [name for name, value in globals().items()
            if callable(value) and getattr(value, "__module__", "") == __name__
            and name not in helpers]


def filled(mx: Any, *shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    """Normal values."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return mx.nd.array(values, dtype=dtype)


def deep(mx: Any, **options: Any) -> Any:
    """An executor of four dense layers and a loss, with values in all arrays."""
    x = mx.sym.Variable("data")
    for number in range(4):
        x = mx.sym.FullyConnected(x, num_hidden=6, name=f"fc{number}")
        x = mx.sym.exp(mx.sym.Activation(x, act_type="tanh", name=f"act{number}") * 0.3)
    executor = x.simple_bind(mx.cpu(), data=(4, 6), **options)
    for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
        array[:] = filled(mx, *array.shape, seed=seed)
    return executor


# -- shared arrays and views ------------------------------------------------------------------


def one_array_for_two_arguments(mx):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    x, ga, gb = filled(mx, 3), mx.nd.zeros((3,)), mx.nd.zeros((3,))
    executor = (a * b).bind(mx.cpu(), {"a": x, "b": x}, {"a": ga, "b": gb})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3,)))
    return executor.outputs, ga, gb


def one_gradient_array_for_two_arguments(mx):
    found = []
    for request in ("add", "write"):
        a, b, g = mx.sym.Variable("a"), mx.sym.Variable("b"), mx.nd.ones((3,))
        executor = (a * 2 + b * 3).bind(mx.cpu(), [filled(mx, 3), filled(mx, 3, seed=1)], [g, g],
                                        grad_req=request)
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3,)))
        found.append(plain(g))
    return found


def gradient_array_that_is_the_argument(mx):
    a, b, x = mx.sym.Variable("a"), mx.sym.Variable("b"), filled(mx, 3)
    executor = (a * b).bind(mx.cpu(), {"a": x, "b": filled(mx, 3, seed=1)}, {"a": x})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3,)))
    return x


def gradient_array_that_is_the_head_gradient(mx):
    g = mx.nd.ones((3,))
    executor = (mx.sym.Variable("a") * 2).bind(mx.cpu(), [filled(mx, 3)], [g])
    executor.forward(is_train=True)
    executor.backward(g)
    return g


def overlapping_views(mx):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    values, grads = filled(mx, 6), mx.nd.zeros((8,))
    executor = (a * b + a).bind(mx.cpu(), {"a": values[0:4], "b": values[2:6]},
                                {"a": grads[0:4], "b": grads[4:8]})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4,)))
    return executor.outputs, grads


# -- outputs that are not only results --------------------------------------------------------


def outputs_that_are_arguments(mx):
    a, x, g = mx.sym.Variable("a"), filled(mx, 3), mx.nd.zeros((3,))
    executor = mx.sym.Group([a, a * 2]).bind(mx.cpu(), {"a": x}, {"a": g})
    found = [plain(executor.forward(is_train=True))]
    executor.backward([mx.nd.ones((3,)), mx.nd.ones((3,)) * 3])
    x[:] = 7
    return found, g, executor.outputs


def nothing_but_a_variable(mx):
    found = []
    for request in ("write", "add"):
        g = mx.nd.ones((3,))
        executor = mx.sym.Variable("a").bind(mx.cpu(), [filled(mx, 3)], [g], request)
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((3,)) * 2])
        found.append(plain([executor.outputs, g]))
    return found


def outputs_that_are_views_of_one_another(mx):
    a = mx.sym.Variable("a")
    y = mx.sym.exp(a)
    net = mx.sym.Group([y, mx.sym.reshape(y, shape=(-1,)), mx.sym.reshape(a, shape=(-1,))])
    executor = net.simple_bind(mx.cpu(), a=(2, 3))
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((2, 3)), mx.nd.ones((6,)) * 10, mx.nd.ones((6,)) * 100])
    return executor.outputs, executor.grad_dict


def all_internals_at_once(mx):
    net = mx.sym.exp(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc") * 2)
    executor = net.get_internals().simple_bind(mx.cpu(), data=(2, 4))
    for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
        array[:] = filled(mx, *array.shape, seed=seed)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(y.shape) for y in outputs])
    return executor.output_dict, executor.grad_dict


def outputs_and_arguments_changed_before_backward(mx):
    a = mx.sym.Variable("a")
    squared, powered = (net.simple_bind(mx.cpu(), a=(3,)) for net in (a * a, mx.sym.exp(a)))
    for executor in (squared, powered):
        executor.forward(is_train=True)
    squared.arg_dict["a"][:] = 5
    powered.outputs[0][:] = 5
    for executor in (squared, powered):
        executor.backward(mx.nd.ones((3,)))
    return squared.grad_dict, powered.grad_dict


def visible_statistics(mx):
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, output_mean_var=True,
                           name="bn")
    executor = net.simple_bind(mx.cpu(), data=(4, 3))
    executor.arg_dict["data"][:] = filled(mx, 4, 3)
    executor.arg_dict["bn_gamma"][:] = 2
    return executor.forward(is_train=True), list(executor.output_dict)


# -- requests and repetition ------------------------------------------------------------------


def gradients_added_across_executors(mx):
    a, x, g = mx.sym.Variable("a"), filled(mx, 3), mx.nd.zeros((3,))
    first = (a * a).bind(mx.cpu(), {"a": x}, {"a": g}, "add")
    second = mx.sym.exp(a).bind(mx.cpu(), {"a": x}, {"a": g}, "add")
    for executor in (first, second, first):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3,)))
    return g


def gradients_added_to_a_shared_weight(mx):
    weight, x = mx.sym.Variable("w"), mx.sym.Variable("a")
    for _ in range(4):
        x = mx.sym.FullyConnected(x, weight, no_bias=True, num_hidden=3)
    executor = x.simple_bind(mx.cpu(), grad_req={"a": "write", "w": "add"}, a=(2, 3))
    executor.arg_dict["a"][:] = filled(mx, 2, 3)
    executor.arg_dict["w"][:] = filled(mx, 3, 3)
    executor.grad_dict["w"][:] = 1
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2, 3)))
    return executor.grad_dict


def backward_twice_where_everything_lasts(mx):
    found = []
    for request in ("write", "add"):
        a = mx.sym.Variable("a")
        executor = (a * a + a).simple_bind(mx.cpu(), grad_req=request, a=(4,))
        executor.arg_dict["a"][:] = filled(mx, 4)
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((4,)))
        executor.backward(mx.nd.ones((4,)) * 2)
        found.append(plain(executor.grad_dict))
    return found


def zero_gradients_are_written_or_not_added(mx):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    found = []
    for request in ("write", "add"):
        executor = mx.sym.Group([mx.sym.make_loss(a), mx.sym.BlockGrad(b)]).simple_bind(
            mx.cpu(), grad_req=request, a=(2,), b=(3,))
        for array in executor.grad_arrays:
            array[:] = 5
        executor.forward(is_train=True)
        executor.backward()
        found.append(plain(executor.grad_dict))
    return found


def requests_in_every_form(mx):
    net = mx.sym.Variable("a") * mx.sym.Variable("b")

    def absent(request):
        executor = net.simple_bind(mx.cpu(), grad_req=request, a=(2,), b=(2,))
        return [array is None for array in executor.grad_arrays]

    requests = (["write"], ["write", "null"], {"a": "write"}, {"c": "write"}, "sometimes", 3, None,
                ["write", "sometimes"])  # fmt: skip
    return [attempt(lambda request=request: absent(request)) for request in requests]


def gradient_arrays_in_every_form(mx):
    net, ones = mx.sym.Variable("a") * mx.sym.Variable("b"), mx.nd.ones((2,))
    forms = ([ones, ones], "write"), ({"a": ones}, "write"), ([ones, None], "write"), \
        ([ones], "write"), ({"z": ones}, "write"), ([ones, ones], "null"), \
        ([ones, ones], ["null", "add"]), ([ones, ones], {"a": "write"})

    def absent(grads, request):
        executor = net.bind(mx.cpu(), [ones, ones], grads, request)
        return [array is None for array in executor.grad_arrays]

    return [attempt(lambda form=form: absent(*form)) for form in forms]


def arguments_and_states_in_every_form(mx):
    net, ones = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn"), mx.nd.ones
    args = {"data": ones((2, 3)), "bn_gamma": ones((3,)), "bn_beta": ones((3,))}
    states = {"bn_moving_mean": ones((3,)), "bn_moving_var": ones((3,))}
    forms = (args, states), (list(args.values()), list(states.values())), \
        ({**args, "more": ones((1,))}, states), (args, None), (args, [ones((3,))]), \
        (args, {"bn_moving_mean": ones((3,))}), (list(args.values())[:2], states), \
        ({"data": ones((2, 3))}, states)
    return [attempt(lambda form=form: net.bind(mx.cpu(), form[0], aux_states=form[1]).forward())
            for form in forms]


def head_gradients_in_every_form(mx):
    a, ones = mx.sym.Variable("a"), mx.nd.ones((3,))
    forms = (ones, [ones], (ones,), {"sum_output": ones}, {"other": ones}, None, [],
             [mx.nd.ones((4,))], np.ones(3), [None], mx.nd.ones((3,), dtype="float64"))

    def gradient(heads):
        executor = mx.sym.elemwise_add(a, a, name="sum").simple_bind(mx.cpu(), a=(3,))
        executor.forward(is_train=True)
        executor.backward(heads)
        return executor.grad_dict

    return [attempt(lambda heads=heads: gradient(heads)) for heads in forms]


def heads_that_nothing_reads(mx):
    a = mx.sym.Variable("a")
    net = mx.sym.Group([mx.sym.BlockGrad(a), mx.sym.make_loss(a * 3), mx.sym.argmax(a)])
    executor = net.simple_bind(mx.cpu(), a=(3,))
    executor.forward(is_train=True)
    executor.backward()
    return executor.grad_dict


def one_slice_of_three(mx):
    net = mx.sym.SliceChannel(mx.sym.Variable("a"), num_outputs=3, name="s")[1]
    executor = net.simple_bind(mx.cpu(), a=(2, 3))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 1)))
    return executor.grad_dict


def a_sum_of_fifty(mx):
    a = mx.sym.Variable("a")
    executor = mx.sym.add_n(*[a * float(i) for i in range(50)]).simple_bind(mx.cpu(), a=(3,))
    executor.arg_dict["a"][:] = 1
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3,)))
    return executor.outputs, executor.grad_dict


def backward_after_inference(mx):
    dropout = mx.sym.Dropout(mx.sym.Variable("a") * 2, p=0.5).simple_bind(mx.cpu(), a=(4,))
    norm = mx.sym.BatchNorm(mx.sym.Variable("a"), fix_gamma=False, momentum=0.5, name="bn")
    norm = norm.simple_bind(mx.cpu(), a=(4, 3))
    norm.arg_dict["a"][:] = filled(mx, 4, 3)
    for array in (norm.arg_dict["bn_gamma"], norm.aux_dict["bn_moving_var"]):
        array[:] = 1
    for executor in (dropout, norm):
        outputs = executor.forward(is_train=False)
        executor.backward(filled(mx, *outputs[0].shape, seed=1))
    return dropout.grad_dict, norm.grad_dict, norm.aux_dict


# -- types and names --------------------------------------------------------------------------


def half_and_single(mx):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    x, y = filled(mx, 3, dtype="float16"), filled(mx, 3)
    ga, gb = mx.nd.zeros((3,), dtype="float16"), mx.nd.zeros((3,))
    executor = (mx.sym.Cast(a, dtype="float32") * b).bind(mx.cpu(), [x, y], [ga, gb])
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3,)))
    return executor.outputs, ga, gb, attempt(lambda: (a + b).bind(mx.cpu(), [x, y]).forward())


def inputs_of_other_types(mx):
    executor = (mx.sym.Variable("a") * 2).bind(mx.cpu(), [filled(mx, 3)])
    given = (mx.nd.array([1, 2, 3], dtype="int32"), mx.nd.array([1, 2, 3], dtype="float64"),
             np.array([1, 2, 3]), [1, 2, 3], 3, mx.nd.ones((1,)), mx.nd.ones((3, 1)))
    return [attempt(lambda value=value: executor.forward(a=value)) for value in given]


def parameters_copied(mx):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    executor = mx.sym.BatchNorm(net, name="bn").simple_bind(mx.cpu(), data=(4, 5))
    executor.copy_params_from({"fc_weight": filled(mx, 3, 5, dtype="float64"),
                               "fc_bias": mx.nd.array([1, 2, 3], dtype="int32")},
                              {"bn_moving_mean": mx.nd.ones((3,)) * 3})
    one = {"x": mx.nd.ones((1,))}
    more = [attempt(lambda form=form: executor.copy_params_from(*form))
            for form in ((one,), ({}, one), (one, one, True), ({"fc_bias": mx.nd.ones((4,))},))]
    return executor.arg_dict, executor.aux_dict, more


def order_of_arrays(mx):
    x = mx.sym.Variable("data")
    for number in range(3):
        x = mx.sym.BatchNorm(x, name=f"bn{number}")
    executor = mx.sym.Group([x, x * 2]).simple_bind(mx.cpu(), data=(4, 5))
    tables = (executor.arg_dict, executor.grad_dict, executor.aux_dict, executor.output_dict)
    lists = (executor.arg_arrays, executor.grad_arrays, executor.aux_arrays)
    return [list(table) for table in tables], [[a.shape for a in arrays] for arrays in lists]


def monitored(mx, everything):
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
    x = mx.sym.Dropout(mx.sym.BatchNorm(x, name="bn"), p=0.5, name="drop")
    net = mx.sym.SoftmaxOutput(x, name="softmax")
    executor = net.simple_bind(mx.cpu(), grad_req={"fc_weight": "write"}, data=(2, 4))
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append(name), monitor_all=everything)
    executor.forward(is_train=True)
    return [name.decode() if isinstance(name, bytes) else name for name in seen]


def what_monitors_see(mx):
    return monitored(mx, False), monitored(mx, True)


# -- other shapes, shared memory --------------------------------------------------------------


def reshaped_shapes(mx):
    executor = deep(mx)
    wanted = ({"data": (2, 6)}, {"data": (8, 6)}, {"data": (8, 6), "allow_up_sizing": True},
              {"data": (4, 3)}, {"data": (4, 3), "partial_shaping": True},
              {"data": (4, 8), "partial_shaping": True},
              {"data": (4, 8), "partial_shaping": True, "allow_up_sizing": True},
              {"other": (1,)}, {"data": (2, 2, 5)}, {})

    def shapes(options):
        return [array.shape for array in executor.reshape(**options).arg_arrays]

    return [attempt(lambda options=options: shapes(options)) for options in wanted]


def reshaped_and_run_in_turns(mx):
    executor = deep(mx)
    smaller, larger = executor.reshape(data=(2, 6)), executor.reshape(allow_up_sizing=True,
                                                                      data=(8, 6))
    larger.arg_dict["data"][:] = 1
    found = []
    for one in (executor, larger, smaller, executor):
        one.forward(is_train=True)
        one.backward(mx.nd.ones(one.outputs[0].shape))
        found.append(plain([one.outputs, one.grad_dict["fc2_weight"]]))
    return found, smaller.arg_dict["data"]


def reshaped_with_requests(mx):
    executor = deep(mx, grad_req={"data": "null", "fc0_weight": "add"})
    executor.grad_dict["fc0_weight"][:] = 1
    smaller = executor.reshape(data=(2, 6)).reshape(data=(1, 6))
    smaller.forward(is_train=True)
    smaller.backward(mx.nd.ones((1, 6)))
    return [array is None for array in smaller.grad_arrays], executor.grad_dict["fc0_weight"]


def memory_lent_by_an_executor(mx):
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    lender = net.simple_bind(mx.cpu(), data=(4, 5))
    borrower = net.simple_bind(mx.cpu(), shared_exec=lender, data=(2, 5))
    borrower.aux_dict["bn_moving_mean"][:] = 4
    borrower.arg_dict["bn_beta"][:] = 9
    return lender.aux_dict, lender.arg_dict


def memory_pooled_in_a_buffer(mx):
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc"),
                           name="bn")
    buffer: dict[str, Any] = {}
    first = net.simple_bind(mx.cpu(), shared_arg_names=["fc_weight"], shared_buffer=buffer,
                            data=(4, 5))
    sizes = []
    for rows in (2, 8):
        other = net.simple_bind(mx.cpu(), shared_exec=first, shared_arg_names=["fc_weight"],
                                shared_buffer=buffer, data=(rows, 5))
        other.arg_dict["data"][:] = rows
        other.arg_dict["fc_weight"][:] = rows
        other.grad_dict["fc_weight"][:] = rows
        other.aux_dict["bn_moving_mean"][:] = rows
        sizes.append({name: array.shape for name, array in sorted(buffer.items())})
    return sizes, first.arg_dict, first.grad_dict["fc_weight"], first.aux_dict
