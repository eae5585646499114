"""Networks in groups of nodes, and programs over them with equal results in nbmod and MXNet.

Imports neither of them: every function takes `mx`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

GROUPS = {"a": 1, "b": 2, "c": 3}
"""The number of the CPU context of each group; the executor's own is cpu(0)."""


def contexts(mx: Any) -> dict[str, Any]:
    return {group: mx.cpu(number) for group, number in GROUPS.items()}


def attr(group: str) -> dict[str, str]:
    return {"ctx_group": group} if group.strip() else {}


# -- placement --------------------------------------------------------------------------------

CHAINS: list[tuple[str, dict[str, str]]] = [
    ("   ", {}), (" a   ", {}), ("a b  ", {}), ("a   b", {}), ("a  bc", {}), ("b a b", {}),
    ("    ", {"data": "a"}), ("  c ", {"data": "a"}), ("cc  ", {"data": "a"}),
    ("    ", {"w1": "a"}), ("  c ", {"w1": "a", "w2": "b"}), ("    ", {"w0": "b"}),
]  # fmt: skip
"""The group of each op of a chain (blank: none), and of variables."""


def chain(mx: Any, groups: str, variables: dict[str, str]) -> Any:
    """All results of data * w0 * w1 * ..., one op per letter."""
    def variable(name: str) -> Any:
        return mx.sym.Variable(name, attr=attr(variables.get(name, "")))

    x, results = variable("data"), []
    for number, group in enumerate(groups):
        x = mx.sym.elemwise_mul(x, variable(f"w{number}"), name=f"m{number}", attr=attr(group))
        results.append(x)
    return mx.sym.Group(results)


def no_inputs(mx: Any, *groups: str) -> Any:
    """Nodes without inputs, and without a group, are placed where they are read."""
    zeros = mx.sym.zeros(shape=(2, 4), name="z")
    twice = mx.sym.elemwise_add(zeros, zeros, name="twice")
    tops = [mx.sym.elemwise_add(part, mx.sym.Variable(f"{part.name}_v"), attr=attr(group))
            for part, group in zip((zeros, twice), groups, strict=True)]
    return mx.sym.Group([*tops, zeros, twice])


def joined(mx: Any) -> Any:
    """A node without a group whose inputs have different ones; a producer for several groups."""
    left, right, free = (
        mx.sym.elemwise_mul(mx.sym.Variable(f"{name}_x"), mx.sym.Variable(f"{name}_y"),
                            attr=attr(group), name=name)
        for name, group in (("left", "a"), ("right", "b"), ("free", "")))
    return mx.sym.Group([left + right, right + left, free + right, free,
                         mx.sym.elemwise_add(free, left, attr=attr("c")),
                         mx.sym.elemwise_add(right, free, attr=attr("a"))])


def where(mx: Any) -> list[Any]:
    """The contexts of all arguments and outputs of the networks above."""
    networks = [chain(mx, *row) for row in CHAINS]
    networks += [no_inputs(mx, *groups) for groups in ("aa", "ab", "a ", " b", "  ")]
    found = []
    for network in [*networks, joined(mx)]:
        shapes = dict.fromkeys(network.list_arguments(), (2, 4))
        executor = network.simple_bind(mx.cpu(0), grad_req="null", group2ctx=contexts(mx), **shapes)
        found.append([[str(x.context) for x in arrays]
                      for arrays in (executor.arg_arrays, executor.outputs)])
    return found


def where_bound(mx: Any) -> list[list[str]]:
    """The contexts of outputs where the user passes arrays of any context."""
    found = []
    for group, devices in (("", (2, 1)), ("", (0, 3)), ("b", (0, 3))):
        x, w = mx.sym.Variable("x", attr=attr(group)), mx.sym.Variable("w")
        product = mx.sym.elemwise_mul(x, w)
        both = mx.sym.Group([product, mx.sym.elemwise_add(product, x, attr=attr("a"))])
        args = {name: mx.nd.ones((2,), ctx=mx.cpu(number))
                for name, number in zip("xw", devices, strict=True)}
        executor = both.bind(mx.cpu(0), args, group2ctx=contexts(mx))
        found.append([str(out.context) for out in executor.forward()]
                     + [str(out.asnumpy()) for out in executor.outputs])
    return found


def watched(mx: Any) -> list[str]:
    """Records of a monitor of all nodes, of forward in parts.

    Except inputs of activations, which MXNet calls `input0` and nbmod `data`.
    """
    seen: list[Any] = []
    with mx.name.NameManager():  # automatic names start at 0, whatever ran before
        net = in_parts(mx)
    executor = net.simple_bind(mx.cpu(0), group2ctx=contexts(mx), data=(8, 6))
    executor.set_monitor_callback(lambda name, array: seen.append(name), True)
    executor.forward(is_train=True)
    names = [name.decode() if isinstance(name, bytes) else name for name in seen]
    return [name for name in names if name not in
            ("act1_input0", "act1_data", "act2_input0", "act2_data")]


# -- model-parallel training ------------------------------------------------------------------


def in_parts(mx: Any) -> Any:
    """A network in three groups: states in the second, and a branch that bypasses it."""
    with mx.AttrScope(ctx_group="a"):
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc1")
        first = mx.sym.Activation(x, act_type="tanh", name="act1")
    with mx.AttrScope(ctx_group="b"):
        x = mx.sym.BatchNorm(first, fix_gamma=False, name="norm")
        x = mx.sym.FullyConnected(x, num_hidden=6, name="fc2")
        x = mx.sym.Activation(x, act_type="tanh", name="act2")
    with mx.AttrScope(ctx_group="c"):
        x = mx.sym.FullyConnected(x + first, num_hidden=3, name="fc3")
        return mx.sym.SoftmaxOutput(x, name="softmax")


def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.standard_normal((24, 6)).astype("float32"), rng.integers(0, 3, 24).astype("float32")


def stepped(mx: Any, grouped: bool = True) -> dict[str, np.ndarray]:
    """One forward and backward of `in_parts` on the first eight samples: all arrays."""
    data, label = samples()
    groups = contexts(mx) if grouped else None
    executor = in_parts(mx).simple_bind(mx.cpu(0), group2ctx=groups, data=(8, 6))
    for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
        array[:] = np.random.default_rng(seed).standard_normal(array.shape) * 0.5
    executor.arg_dict["data"][:] = data[:8]
    executor.arg_dict["softmax_label"][:] = label[:8]
    executor.forward(is_train=True)
    executor.backward()
    mx.nd.waitall()
    arrays = {"output": executor.outputs[0], **executor.aux_dict}
    arrays.update({f"gradient of {name}": array for name, array in executor.grad_dict.items()
                   if name != "softmax_label"})
    return {name: array.asnumpy() for name, array in arrays.items()}


def trained(mx: Any, devices: Sequence[int], groups: Any) -> dict[str, np.ndarray]:
    """Parameters of `in_parts` after two epochs over three batches, and its outputs.

    `groups` may have numbers of CPU contexts where Module takes contexts.
    """
    data, label = samples()
    batches = mx.io.NDArrayIter(data, label, batch_size=8)
    module = mx.mod.Module(in_parts(mx), context=[mx.cpu(i) for i in devices],
                           group2ctxs=as_contexts(mx, groups))
    module.bind(batches.provide_data, batches.provide_label)
    shapes = {name: array.shape for name, array in module._exec_group.execs[0].arg_dict.items()}
    rng = np.random.default_rng(5)
    values = {name: mx.nd.array(rng.standard_normal(shapes[name]) * 0.4)
              for name in sorted(shapes) if name not in ("data", "softmax_label")}
    states = {"norm_moving_mean": mx.nd.zeros((6,)), "norm_moving_var": mx.nd.ones((6,))}
    module.init_params(arg_params=values, aux_params=states)
    module.init_optimizer(optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
    for _ in range(2):
        batches.reset()
        for batch in batches:
            module.forward_backward(batch)
            mx.nd.waitall()
            module.update()
    found = {name: array.asnumpy() for part in module.get_params() for name, array in part.items()}
    return {**found, "output": module.get_outputs()[0].asnumpy()}


def as_contexts(mx: Any, groups: Any) -> Any:
    """The same with `mx.cpu(i)` for every i."""
    if isinstance(groups, int):
        return mx.cpu(groups)
    if isinstance(groups, (list, tuple)):
        return type(groups)(as_contexts(mx, one) for one in groups)
    if isinstance(groups, dict):
        return {name: as_contexts(mx, one) for name, one in groups.items()}
    return groups


FORMS = [
    None, {}, {"a": 1, "b": 2, "c": 3}, {"a": [1], "b": [2], "c": [3]},
    {"a": [1, 5], "b": [2, 6], "c": 3}, {"a": (1, 5), "b": 2, "c": [3]},
    {"a": [1, 2, 3], "b": 2, "c": 3}, {"a": 1, "b": 2}, {"a": None, "b": 2, "c": 3},
    [{"a": 1, "b": 2, "c": 3}], [{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}],
    [{"a": 1, "b": 2, "c": 3}, None], [None], [None, None], [7], "a",
]  # fmt: skip
"""Ways to write `group2ctxs`, right ones and wrong ones."""


def forms(mx: Any, devices: Sequence[int]) -> list[Any]:
    """For each form, the contexts of four arrays of every executor, or "error"."""
    found: list[Any] = []
    for form in FORMS:
        try:
            module = mx.mod.Module(in_parts(mx), context=[mx.cpu(i) for i in devices],
                                   group2ctxs=as_contexts(mx, form))
            module.bind([("data", (8, 6))], [("softmax_label", (8,))])
            found.append([[str(x.context) for x in (
                one.arg_dict["data"], one.aux_dict["norm_moving_mean"],
                one.grad_dict["fc3_bias"], one.outputs[0])] for one in module._exec_group.execs])
        except Exception:
            found.append("error")
    return found
