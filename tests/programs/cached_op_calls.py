"""Programs with `nd.CachedOp`, run by nbmod and by MXNet: rules of the tape that are easy to miss.

Each function takes the library and returns what a script would see.
"""

from __future__ import annotations

import json

import numpy as np

SMALL = ("exp", "sin", "tanh")
"""Operators in a row: more than run node by node."""


def chain(mx, x):
    for name in SMALL:
        x = getattr(mx.sym, name)(x)
    return x


def network(mx):
    names = ("w", "b", "g", "be", "mm", "mv")
    w, b, g, be, mm, mv = (mx.sym.var(name) for name in names)
    x = mx.sym.FullyConnected(mx.sym.var("data"), w, b, num_hidden=4, name="fc")
    x = mx.sym.BatchNorm(x, g, be, mm, mv, fix_gamma=False, name="bn")
    return mx.nd.CachedOp(mx.sym.tanh(x, name="tanh"))


def arrays(mx, request="write"):
    random = np.random.RandomState(0)
    shapes = ((3, 5), (4, 5), (4,), (4,), (4,), (4,))
    made = [mx.nd.array(random.uniform(-1, 1, shape)) for shape in shapes] + [mx.nd.ones(4)]
    for array in made[:5]:
        array.attach_grad(request)
    return made


def seen(array):
    return array.asnumpy().astype(np.float64)


def modes(mx):
    """Gradient and moving average for every mode of record and of backward."""
    results = []
    for forward in (False, True):
        for backward in (False, True):
            net, given = network(mx), arrays(mx)
            with mx.autograd.record(train_mode=forward):
                y = net(*given)
            y.backward(train_mode=backward)
            results.append([seen(given[0].grad), seen(given[5])])
    return results


def retained(mx):
    net, given = network(mx), arrays(mx)
    with mx.autograd.record():
        y = net(*given)
    y.backward(retain_graph=True)
    y.backward()
    return [seen(given[0].grad), seen(given[5])]


def returned_gradients(mx):
    """`autograd.grad` leaves gradients, and their freshness, alone."""
    net, given = network(mx), arrays(mx)
    with mx.autograd.record():
        y = net(*given)
    gradient, = mx.autograd.grad(y, [given[1]])
    return [seen(gradient), seen(given[1].grad), bool(given[1]._fresh_grad)]


def added(mx):
    """Two calls in one record, each of which adds to what is there."""
    net, given = network(mx), arrays(mx, "add")
    given[1].grad[:] = 1
    with mx.autograd.record():
        y = net(*given) + 2 * net(*given)
    y.backward()
    return seen(given[1].grad)


def unused(mx):
    """An input that the head does not depend on: zeros, and fresh."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    net = mx.nd.CachedOp(mx.sym.Group([chain(mx, a), chain(mx, b)]))
    x, y = mx.nd.ones(2), mx.nd.ones(2)
    for array in (x, y):
        array.attach_grad()
        array.grad[:] = 5
    with mx.autograd.record():
        first, _ = net(x, y)
    first.backward()
    return [seen(x.grad), seen(y.grad), bool(y._fresh_grad)]


def losses(mx):
    """A loss trains wherever it is: under BlockGrad in the network, and outside of it."""
    results = []
    for inside in (True, False):
        loss = mx.sym.SoftmaxOutput(mx.sym.tanh(mx.sym.sin(mx.sym.var("a"))), mx.sym.var("l"))
        net = mx.nd.CachedOp(mx.sym.BlockGrad(mx.sym.exp(loss)) if inside else loss)
        x, label = mx.nd.array([[1, 2, 3]]), mx.nd.array([1])
        x.attach_grad()
        with mx.autograd.record():
            y = net(x, label)
            y = y if inside else mx.nd.BlockGrad(y)
        y.backward()
        results.append(seen(x.grad))
    return results


def variables(mx):
    """Two variables of one name, one array for two, an output that is an input."""
    a, b, other = mx.sym.var("a"), mx.sym.var("b"), mx.sym.var("a")
    results = []
    for symbol in (chain(mx, a - other), mx.sym.Group([a, chain(mx, a - b)])):
        net, x, y = mx.nd.CachedOp(symbol), mx.nd.ones(2), mx.nd.zeros(2)
        x.attach_grad()
        y.attach_grad()
        with mx.autograd.record():
            z = net(x, y)
            z = z[0] * z[1] if isinstance(z, list) else z
        z.backward()
        results += [seen(x.grad), seen(y.grad)]
        with mx.autograd.record():
            z = net(x, x)
            z = z[0] * z[1] if isinstance(z, list) else z
        z.backward()
        results.append(seen(x.grad))
    return results


def part_of_the_heads(mx):
    net = mx.nd.CachedOp(mx.sym.split(chain(mx, mx.sym.var("a")), num_outputs=2, axis=0))
    x = mx.nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y[1].backward()
    return [len(y), seen(x.grad)]


def recorded_symbols(mx):
    """Operators that `get_symbol` shows: one node of a call, or those of a small network."""
    results = []
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), mx.sym.var("w"), no_bias=True, num_hidden=2)
    for flags in ((), (("inline_limit", 4),), (("inline_limit", 4), ("static_alloc", True))):
        net = mx.nd.CachedOp(chain(mx, symbol), flags)
        x, w = mx.nd.ones((1, 3)), mx.nd.ones((2, 3))
        w.attach_grad()
        with mx.autograd.record():
            y = net(x, w)
        nodes = json.loads(mx.autograd.get_symbol(y).tojson())["nodes"]
        results.append([[node["op"], node["inputs"]] for node in nodes])
    return results


def created(mx):
    """Arrays whose lengths follow from the inputs alone, run by an executor or node by node.

    The tenth shape in turn is one of those for which nothing is bound.
    """
    kinds = (mx.sym.zeros(shape=(0, 3)), mx.sym.ones(shape=(2, 0)), mx.sym.full((0, 0), 2),
             mx.sym.random.uniform(1, 1 + 1e-7, shape=(0, 3)))
    results = []
    for kind in kinds:
        for flags, rows in (((), range(2, 12)), ((("inline_limit", 1000),), (2, 2))):
            if kind is kinds[1]:
                rows = (2, 2)
            net = mx.nd.CachedOp(chain(mx, mx.sym.var("a") * kind), flags)
            for size in rows:
                x = mx.nd.ones((size, 3)) / 2
                x.attach_grad()
                with mx.autograd.record():
                    y = net(x)
                y.backward()
                results.append([seen(y), seen(x.grad)])
    return results


PROGRAMS = (modes, retained, returned_gradients, added, unused, losses, variables,
            part_of_the_heads, recorded_symbols, created)


def answers(mx):
    return {program.__name__: program(mx) for program in PROGRAMS}
