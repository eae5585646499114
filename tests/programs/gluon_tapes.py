"""Random programs with blocks under `record`, run eagerly, hybridized, and by MXNet.

Each seed is a program: networks with shared blocks, calls of them and of their parts, operators
between, modes, writes to parameters, and backward passes from several heads.
"""

from __future__ import annotations

import numpy as np

WIDTH, ROWS = 4, 3


def blocks_of(mx):
    """Classes of blocks with outputs of the shape of their input."""
    block = mx.gluon.HybridBlock

    class Twice(block):
        """A child that is called twice."""

        def __init__(self, child, **kwargs):
            super().__init__(**kwargs)
            self.child = child

        def hybrid_forward(self, F, x):
            return x + self.child(F.tanh(self.child(x)))

    class Scale(block):
        """A parameter that operators read, twice."""

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(1, WIDTH))

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(F.sigmoid(F.broadcast_mul(x, scale)), scale)

    class Fork(block):
        """Two outputs, of which one may be unused, and one that is an input."""

        def __init__(self, left, right, **kwargs):
            super().__init__(**kwargs)
            self.left, self.right = left, right

        def hybrid_forward(self, F, x):
            return self.left(x), self.right(F.tanh(x)), x

    return Twice, Scale, Fork


class Networks:
    """Random networks that share blocks; `active` says which of all blocks are hybridized."""

    def __init__(self, mx, random):
        self.mx, self.random, self.all = mx, random, []
        self.nets = [self._sequence(2) for _ in range(2)]
        _, _, fork = blocks_of(mx)
        self.fork = self._known(fork(self._any(1), self._any(1), prefix="fork_"))

    def _known(self, block):
        self.all.append(block)
        return block

    def _sequence(self, depth):
        net = self.mx.gluon.nn.HybridSequential(prefix=f"net{len(self.all)}_")
        for _ in range(self.random.randint(1, 4)):
            net.add(self._any(depth - 1))
        return self._known(net)

    def _any(self, depth):
        nn, (twice, scale, _) = self.mx.gluon.nn, blocks_of(self.mx)
        kind, prefix = self.random.randint(8), f"b{len(self.all)}_"
        if kind == 0 and self.all:
            return self.all[self.random.randint(len(self.all))]
        if kind == 1 and depth > 0:
            return self._sequence(depth)
        if kind == 2 and depth > 0:
            return self._known(twice(self._any(depth - 1), prefix=prefix))
        if kind == 3:
            return self._known(scale(prefix=prefix))
        if kind in (4, 5):
            return self._known(nn.BatchNorm(in_channels=WIDTH, momentum=0.5, prefix=prefix))
        if kind == 6:
            return self._known(nn.LayerNorm(in_channels=WIDTH, prefix=prefix))
        activation = (None, "relu", "tanh")[self.random.randint(3)]
        return self._known(nn.Dense(WIDTH, activation, in_units=WIDTH, prefix=prefix))

    def parameters(self):
        found = {}
        for block in self.all:
            found.update(block.collect_params().items())
        return [found[name] for name in sorted(found)]


class Tape:
    """A program; `hybrid` says whether blocks that it chooses are hybridized."""

    def __init__(self, mx, seed, hybrid, networks=Networks):
        self.mx, self.random = mx, np.random.RandomState(seed)
        self.seen, self.writes = [], 0
        random, networks = self.random, networks(mx, self.random)
        self.networks, self.parameters = networks, networks.parameters()
        for each in self.parameters:
            each.grad_req = ("write", "add", "null")[random.choice(3, p=[0.6, 0.3, 0.1])]
            each.initialize(mx.init.Zero())
            each.set_data(self.array(*each.shape) + (1 if "var" in each.name else 0))
        for block in networks.all:
            block._active = bool(random.randint(3)) and hybrid
        self.inputs = [self.array(ROWS, WIDTH) for _ in range(2)]
        for each, request in zip(self.inputs, ("write", "add"), strict=True):
            each.attach_grad(request)

    def array(self, *shape):
        return self.mx.nd.array(self.random.uniform(0.2, 1.2, shape))

    def see(self, *arrays):
        self.seen.extend(each.asnumpy() for each in arrays)

    def see_all(self):
        for each in self.parameters:
            self.see(each.data())
        self.see(*[each.grad for each in self.inputs])
        for each in self.parameters:
            if each.grad_req != "null":
                self.see(each.grad())

    def call(self, x):
        """The outputs of a network or of a part of one."""
        networks, kind = self.networks, self.random.randint(6)
        if kind < 3:
            return [networks.nets[kind % 2](x)]
        if kind == 3:
            left, right, same = networks.fork(x)
            return [left + right, same]
        part = networks.all[self.random.randint(len(networks.all) - 1)]
        return [part(x)]

    def one(self, values):
        return values[self.random.randint(len(values))]

    def act(self, values):
        """One step of what is recorded."""
        mx, x = self.mx, self.one(values)
        kind = self.random.randint(12)
        if kind < 5:
            made = self.call(x)
        elif kind < 7:
            made = [mx.nd.tanh(x * self.one(values))]
        elif kind == 7:
            with mx.autograd.pause(train_mode=bool(self.random.randint(2))):
                made = self.call(x)
            made = [each * 1 for each in made]
        elif kind == 8:
            with mx.autograd.predict_mode() if self.random.randint(2) else mx.autograd.train_mode():
                made = self.call(x)
        elif kind == 9:
            made = [x.detach() + x]
        elif kind == 10:
            # MXNet reads memory that nothing has written if this adds to a gradient, too
            weight = self.one([each for each in self.parameters if each.grad_req != "add"])
            made = [mx.nd.broadcast_add(x, weight.data().mean())]
        else:
            made = []
            self.write()
        self.see(*made)
        return made

    def write(self):
        """A write to a parameter, which is not recorded."""
        with self.mx.autograd.pause():
            weight = self.one(self.parameters)
            data = weight.data()
            data[:] = self.array(*weight.shape)
        self.writes += 1

    def step(self):
        mx, random = self.mx, self.random
        values = list(self.inputs)
        with mx.autograd.record(train_mode=bool(random.randint(4))):
            for _ in range(random.randint(2, 6)):
                values += self.act(values)
            heads = [self.one(values) + values[0] for _ in range(random.randint(1, 4))]
            heads.append(sum((each.sum() for each in heads), values[0].sum()))
        grads = [self.array(*each.shape) if random.randint(2) else None for each in heads]
        train = bool(random.randint(4))
        for again in reversed(range(random.randint(1, 4))):
            if random.randint(3) == 0:
                self.see(*mx.autograd.grad(heads, self.inputs[:1], grads, retain_graph=True,
                                           train_mode=train))
                self.see_all()
            mx.autograd.backward(heads, grads, retain_graph=again > 0, train_mode=train)
            self.see_all()
            if again and random.randint(2):
                self.write()

    def run(self):
        for _ in range(3):
            self.step()
        return self.seen


def answers(mx, seeds=(9, 10, 11)):
    """What hybridized programs see."""
    return [[each.tolist() for each in Tape(mx, seed, True).run()] for seed in seeds]
