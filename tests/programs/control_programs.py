"""Loops and branches with equal results in nbmod and MXNet; imports neither of them.

`PROGRAMS` are functions of `F`, which is `mx.sym` or `mx.nd`, and of tensors by name; each returns
a list of tensors.  `function` makes them look like the ops that they are samples of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

PROGRAMS: dict[str, Callable[..., list[Any]]] = {}


def program(make: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    PROGRAMS[make.__name__] = make
    return make


def function(namespace: Any) -> Callable[..., Any]:
    """Calls the program named by the attribute `program`: a symbol, or a list of arrays."""
    mx = sys.modules[namespace.__name__.partition(".")[0]]

    def call(*args: Any, program: str, name: str = "", **tensors: Any) -> Any:
        with mx.name.NameManager():
            found = PROGRAMS[program](namespace, *args, **tensors)
        return mx.sym.Group(found) if isinstance(found[0], mx.sym.Symbol) else found

    return call


def symbol(mx: Any, program: str, names: list[str]) -> Any:
    """A program over variables of these names."""
    return function(mx.sym)(**{name: mx.sym.Variable(name) for name in names}, program=program)


# -- foreach ----------------------------------------------------------------------------------


@program
def products(F: Any, data: Any, state: Any, weight: Any) -> list[Any]:
    """A state that grows, a free variable."""
    return [*F.contrib.foreach(lambda x, s: (x * weight + s, x * s), data, state)]


@program
def rnn(F: Any, data: Any, state: Any, weight: Any, recurrent: Any, bias: Any) -> list[Any]:
    """The output is the next state; layers with weights from outside."""
    units = 3

    def step(x: Any, h: Any) -> Any:
        h = F.tanh(F.FullyConnected(x, weight, bias, num_hidden=units, flatten=False)
                   + F.FullyConnected(h, recurrent, num_hidden=units, no_bias=True, flatten=False))
        return h, h

    return [*F.contrib.foreach(step, data, state)]


@program
def lists(F: Any, a: Any, b: Any, s: Any, t: Any) -> list[Any]:
    """Nested lists everywhere; states that are exchanged and outputs that are inputs."""
    def step(x: Any, states: Any) -> Any:
        (p, (q,)), (one, two) = x, states
        return [p * one, [q, one]], [two, one + p]

    (first, (second, third)), states = F.contrib.foreach(step, [a, [b]], [s, t])
    return [first, second, third, *states]


@program
def captured(F: Any, data: Any, state: Any, weight: Any) -> list[Any]:
    """Values computed outside are captured; also data and state themselves, and their results."""
    scale, both = F.exp(weight), F.split(weight, num_outputs=2, axis=0, squeeze_axis=1)
    total = F.sum(data, axis=0)

    def step(x: Any, s: Any) -> Any:
        return x * both[0] + both[1] * s, F.broadcast_add(s, F.sum(scale)) - total * state

    out, last = F.contrib.foreach(step, data, state)
    return [*F.contrib.foreach(lambda x, s: (x * last, s + x), out, last)]


@program
def mapped(F: Any, data: Any, weight: Any) -> list[Any]:
    """No state at all."""
    out, _ = F.contrib.foreach(lambda x, s: (F.sigmoid(x) * weight, s), data, [])
    return [out]


@program
def folded(F: Any, data: Any, state: Any) -> list[Any]:
    """No output but the state."""
    return [F.contrib.foreach(lambda x, s: ([], F.sin(s) + x * s), data, state)[1]]


@program
def twice(F: Any, data: Any, state: Any) -> list[Any]:
    """A loop in a loop, which reads values of the outer one."""
    def step(x: Any, s: Any) -> Any:
        scale = F.sin(x)
        out, s = F.contrib.foreach(lambda y, t: (y * t + F.sum(scale), t + y), x, s)
        return F.broadcast_mul(out, scale), s

    return [*F.contrib.foreach(step, data, state)]


@program
def chosen(F: Any, data: Any, state: Any, limit: Any) -> list[Any]:
    """A branch in a loop."""
    def step(x: Any, s: Any) -> Any:
        s = F.contrib.cond(F.sum(s) < limit, lambda: s + x * x, lambda: F.sin(s))
        return s * x, s

    return [*F.contrib.foreach(step, data, state)]


@program
def counted(F: Any, data: Any, state: Any) -> list[Any]:
    """A while loop in a loop."""
    def step(x: Any, s: Any) -> Any:
        _, (s, _) = F.contrib.while_loop(lambda p, i: i < 2, lambda p, i: ([], [p * x, i + 1]),
                                         [s, F.zeros_like(F.sum(x))], max_iterations=4)
        return s + x, s

    return [*F.contrib.foreach(step, data, state)]


# -- while_loop -------------------------------------------------------------------------------


@program
def powers(F: Any, count: Any, x: Any, weight: Any) -> list[Any]:
    """With the maximum number of iterations."""
    out, states = F.contrib.while_loop(
        lambda i, p: i < 10, lambda i, p: ([p * weight, i * i], [i + 1, p * weight]), [count, x], 3)
    return [*out, *states]


@program
def until(F: Any, x: Any, weight: Any, limit: Any) -> list[Any]:
    """Stops by its condition, at a value computed outside."""
    edge = limit * 2
    return F.contrib.while_loop(lambda p, t: F.sum(t) < edge,
                                lambda p, t: (None, [p * weight, t + p * p]), [x, x * 1], 50)[1]


@program
def one_variable(F: Any, count: Any) -> list[Any]:
    """A loop variable that is not a list."""
    return [*F.contrib.while_loop(lambda i: i < 10, lambda i: (F.sin(i), i + 1), count, 4)]


@program
def loops(F: Any, count: Any, x: Any) -> list[Any]:
    """A loop in a while loop."""
    def step(i: Any, p: Any) -> Any:
        out, p = F.contrib.foreach(lambda y, s: (s * y, s + y), x, p)
        return out, [i + 1, F.sin(p)]

    out, states = F.contrib.while_loop(lambda i, p: i < 10, step, [count, F.sum(x, axis=0)], 2)
    return [out, *states]


# -- cond -------------------------------------------------------------------------------------


@program
def branch(F: Any, test: Any, x: Any, y: Any) -> list[Any]:
    """Branches that read different tensors."""
    return [F.contrib.cond(test < 1, lambda: x * y, lambda: F.sin(x))]


@program
def branches(F: Any, test: Any, x: Any, y: Any) -> list[Any]:
    """Several outputs; inputs as outputs; a predicate that is a variable."""
    z = F.exp(y)
    first, (second,) = F.contrib.cond(
        test, lambda: [x, [z * x]], lambda: [y * z, [F.contrib.cond(x.sum() < 0, lambda: y,
                                                                    lambda: z * 2)]])
    return [first, second]


# -- JSON -------------------------------------------------------------------------------------


def structures(mx: Any) -> list[Any]:
    """How results are nested: of branches like those of the first, of loops like the arguments."""
    def nested(value: Any) -> Any:
        return [nested(each) for each in value] if isinstance(value, (list, tuple)) else 1

    found = []
    for F, x in ((mx.nd, mx.nd.ones(1)), (mx.sym, mx.sym.var("x"))):
        for then, other in ((x * 2, [x]), ([x * 2], x), ((x * 2,), [x]), ([[x * 2]], [x]),
                            ([x * 2, x], [x, [x]]), ([x * 2, [x]], [x, x])):
            found.append(nested(F.contrib.cond(x * 1, lambda then=then: then,
                                               lambda other=other: other)))
        for start in (x, [x], (x,)):
            for wrap in (lambda v: v, lambda v: [v], lambda v: (v,)):
                found.append(nested(F.contrib.while_loop(
                    lambda v: v < 3, lambda v, wrap=wrap: (wrap(v), wrap(v + 1)), start,
                    max_iterations=4)))
    return found


def subgraph_counts(mx: Any) -> dict[str, int]:
    """How many subgraphs were made of each name, which MXNet's own tests read."""
    mx.AttrScope._subgraph_names.clear()
    x = mx.sym.var("x")
    for _ in range(2):
        mx.sym.contrib.cond(x > 1, lambda: x + 1, lambda: mx.sym.contrib.cond(
            x > 2, lambda: x + 2, lambda: x, name="inner"), name="outer")
    return dict(mx.AttrScope._subgraph_names)


def texts(mx: Any, name: str, chosen: Mapping[str, list[str]]) -> dict[str, str]:
    """The JSON of programs over variables; `name` is the name of all their loops."""
    class Named:
        """`mx.sym` with named loops."""

        class contrib:
            foreach = staticmethod(lambda *a: mx.sym.contrib.foreach(*a, name=name))
            while_loop = staticmethod(lambda *a, **k: mx.sym.contrib.while_loop(*a, **k, name=name))
            cond = staticmethod(lambda *a: mx.sym.contrib.cond(*a, name=name))

        def __getattr__(self, attribute: str) -> Any:
            return getattr(mx.sym, attribute)

    found = {}
    for key, names in chosen.items():
        with mx.name.NameManager():
            tensors = PROGRAMS[key](Named(), **{n: mx.sym.Variable(n) for n in names})
        found[key] = mx.sym.Group(tensors).tojson()
    return found


def names(mx: Any, chosen: Mapping[str, list[str]]) -> dict[str, Any]:
    """Lists and attributes of symbols."""
    return {key: [s.list_arguments(), s.list_outputs(), s.get_internals().list_outputs(),
                  sorted(set(s.get_children().list_outputs())), sorted(s.attr_dict())]
            for key, names in chosen.items() for s in [symbol(mx, key, names)]}


def runs_json(mx: Any, text: str, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs, then gradients, of a graph from a file."""
    net = mx.sym.load_json(text)
    args = {name: mx.nd.array(arrays[name]) for name in net.list_arguments()}
    grads = {name: mx.nd.zeros(array.shape) for name, array in args.items()}
    executor = net.bind(mx.cpu(), args, args_grad=grads)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(output.shape) for output in outputs])
    return [array.asnumpy() for array in [*outputs, *grads.values()]]


# -- training ---------------------------------------------------------------------------------


def cells(mx: Any, name: str) -> Any:
    """A classifier of sequences (T, N, C): a stack of cells of `mx.rnn` as the body of a loop."""
    with mx.name.NameManager():
        stack = mx.rnn.SequentialRNNCell()
        stack.add(mx.rnn.LSTMCell(4, prefix="lstm_"))
        stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix="gru_")))
        data = mx.sym.Variable("data")
        states = [mx.sym.zeros_like(mx.sym.FullyConnected(
            mx.sym.slice_axis(data, axis=0, begin=0, end=1).reshape((-3, 0)), num_hidden=4,
            name=f"begin{i}")) for i in range(3)]
        out, last = mx.sym.contrib.foreach(lambda x, s: stack(x, s), data, states, name=name)
        score = mx.sym.FullyConnected(mx.sym.mean(out, axis=0) + last[0], num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(score, mx.sym.Variable("softmax_label"), name="softmax")


def trained(mx: Any, name: str, unrolled: bool = False) -> dict[str, Any]:
    """Parameters after some batches, and the network's outputs; `name` is the loop's."""
    rng = np.random.default_rng(1)
    net = cells(mx, name) if not unrolled else _unrolled(mx)
    module = mx.mod.Module(net)
    module.bind([mx.io.DataDesc("data", (5, 6, 2), layout="TNC")], [("softmax_label", (6,))])
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(5, 6, 2))[0], strict=True))
    params = {n: mx.nd.array(0.3 * rng.standard_normal(shapes[n])) for n in sorted(shapes)
              if n not in ("data", "softmax_label")}
    module.init_params(arg_params=params)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
    batches = [mx.io.DataBatch([mx.nd.array(rng.standard_normal((5, 6, 2)))],
                               [mx.nd.array(rng.integers(0, 3, 6))]) for _ in range(4)]
    for batch in batches:
        module.forward_backward(batch)
        module.update()
    module.forward(batches[-1], is_train=False)
    found = {n: value.asnumpy() for n, value in module.get_params()[0].items()}
    return {**found, "output": module.get_outputs()[0].asnumpy()}


def _unrolled(mx: Any) -> Any:
    """The same network without a loop."""
    class Written:
        @staticmethod
        def foreach(body: Any, data: Any, states: Any, name: str) -> tuple[Any, Any]:
            rows = mx.sym.split(data, num_outputs=5, axis=0, squeeze_axis=True)
            outputs = []
            for t in range(5):
                y, states = body(rows[t], states)
                outputs.append(y)
            return mx.sym.stack(*outputs, axis=0), states

    loop, mx.sym.contrib.foreach = mx.sym.contrib.foreach, Written.foreach
    try:
        return cells(mx, "")
    finally:
        mx.sym.contrib.foreach = loop
