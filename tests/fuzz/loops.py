"""Lines with control flow."""

from __future__ import annotations

from tests.fuzz.kinds import UNARY, kind, one

OPS = ("tanh", "sigmoid", "double", "shift", "square", "act_relu")


@kind("foreach", one(lambda rng, shape: {
    "ops": tuple(rng.choices(OPS, k=rng.randint(1, 3))), "dense": rng.random() < 0.5},
    lambda shape: len(shape) == 3 and 0 not in shape and shape[0] <= 6 and shape[2] <= 16))
def _(scope, args, params):
    """A loop that carries a state; its body may read a weight."""
    mx = scope.mx
    weight = scope.variable("weight", shape=(1,))

    def body(row, state):
        x = row + state
        for op in params["ops"]:
            x = UNARY[op](mx, x)
        if params["dense"]:
            x = mx.sym.broadcast_mul(x, scope.mx.sym.reshape(weight, shape=(1, 1)))
        return mx.sym.tanh(x), mx.sym.tanh(x) * 0.5

    begin = mx.sym.zeros_like(mx.sym.reshape(
        mx.sym.slice_axis(args[0], axis=0, begin=0, end=1), shape=(-3, -2)))
    outputs, state = mx.sym.contrib.foreach(body, args[0], begin, name=scope.name)
    return [outputs, state]


@kind("while", one(lambda rng, shape: {"op": rng.choice(OPS), "limit": rng.randint(1, 4)},
                   lambda shape: len(shape) in (1, 2) and 0 not in shape), smooth=False)
def _(scope, args, params):
    mx = scope.mx

    def step(count, x):
        return mx.sym.tanh(x), [count + 1, UNARY[params["op"]](mx, x) * 0.5]

    count = scope.variable("count", lambda dtype: [0.0], shape=(1,))
    outputs, states = mx.sym.contrib.while_loop(
        lambda count, x: count < params["limit"], step, [count, args[0]], max_iterations=4,
        name=scope.name)
    return [states[1]]
