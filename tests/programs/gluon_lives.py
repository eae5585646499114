"""Random programs in which networks change while calls of them are on the tape.

A `Life` is a program of `gluon_tapes` of more kinds of blocks in float64, where each write to a
parameter, between calls and between backward passes, may be another event in the life of a network.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

from .gluon_tapes import WIDTH, Networks, Tape

HALF = WIDTH // 2


def cubed(mx):
    """A function with a gradient of its own."""
    class Cube(mx.autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x * x

        def backward(self, dy):
            x, = self.saved_tensors
            return 3 * x * x * dy

    return Cube()


def more_blocks_of(mx):
    """Classes of blocks with parameters that operators read in other ways."""
    block, gluon = mx.gluon.HybridBlock, mx.gluon

    class Recur(block):
        """A recurrent layer, with states or without."""

        def __init__(self, kind, both, with_states, prefix):
            super().__init__(prefix=prefix)
            self.count, self.with_states = 1 + both, with_states
            self.layer = getattr(gluon.rnn, kind)(HALF, layout="NTC", bidirectional=both,
                                                  input_size=HALF, prefix=prefix + "rnn_")
            self.is_lstm = kind == "LSTM"

        def hybrid_forward(self, F, x):
            steps, first = F.reshape(x, (-1, 2, HALF)), F.slice_axis(x, axis=1, begin=0, end=HALF)
            state = F.stack(*[first] * self.count, axis=0)
            y = self.layer(steps, [state] * (1 + self.is_lstm)) if self.with_states else (
                self.layer(steps), [state])
            y = F.reshape(y[0], (-1, 2, self.count, HALF)).sum(axis=2), y[1][0].sum(axis=0)
            return F.reshape(y[0], (-1, WIDTH)) + F.concat(first, y[1], dim=1)

    class Loop(block):
        """A child in the body of a loop."""

        def __init__(self, child, prefix):
            super().__init__(prefix=prefix)
            self.child = child

        def hybrid_forward(self, F, x):
            def body(row, state):
                return self.child(F.broadcast_add(state, row)), F.tanh(state)

            rows = F.expand_dims(F.BlockGrad(F.slice_axis(x, axis=0, begin=0, end=1)), axis=0)
            outputs, state = F.contrib.foreach(body, F.concat(rows, rows, dim=0), x)
            return outputs.sum(axis=0) + state

    class Words(block):
        """Rows of a table."""

        def __init__(self, sparse, prefix):
            super().__init__(prefix=prefix)
            self.table = gluon.nn.Embedding(5, WIDTH, sparse_grad=sparse, prefix=prefix + "table_")

        def hybrid_forward(self, F, x):
            return F.mean(self.table(F.floor(F.clip(F.BlockGrad(x), 0, 4))), axis=1) + F.tanh(x)

    class Image(block):
        """A convolution."""

        def __init__(self, prefix):
            super().__init__(prefix=prefix)
            self.layer = gluon.nn.Conv2D(2, 3, padding=1, in_channels=1, activation="relu",
                                         prefix=prefix + "conv_")

        def hybrid_forward(self, F, x):
            return F.reshape(self.layer(F.reshape(x, (-1, 1, 2, HALF))).sum(axis=1), (-1, WIDTH))

    return Recur, Loop, Words, Image


class ManyNetworks(Networks):
    """Networks of more kinds of blocks, without statistics, whose order of updates is not one."""

    def _any(self, depth):
        recur, loop, words, image = more_blocks_of(self.mx)
        kind, prefix, random = self.random.randint(16), f"b{len(self.all)}_", self.random
        if kind < 3:
            both, with_states = (bool(random.randint(2)) for _ in range(2))
            return self._known(recur(("LSTM", "GRU")[random.randint(2)], both, with_states, prefix))
        if kind == 3 and depth > 0:
            return self._known(loop(self.mx.gluon.nn.Dense(WIDTH, "tanh", in_units=WIDTH,
                                                           prefix=prefix + "in_"), prefix))
        if kind < 6:
            return self._known(words(bool(random.randint(2)), prefix))
        if kind == 6:
            return self._known(image(prefix))
        made = super()._any(depth)
        while isinstance(made, self.mx.gluon.nn.BatchNorm):
            self.all = [each for each in self.all if each is not made]
            made = super()._any(depth)
        return made


class Life(Tape):
    """A program; `hybrid` says whether blocks that it chooses are hybridized."""

    def __init__(self, mx, seed, hybrid, networks=ManyNetworks):
        self.hybrid, self.events = hybrid, []
        super().__init__(mx, seed, hybrid, networks)
        for each in self.networks.all:
            each.cast("float64")
        self.trainer = mx.gluon.Trainer(self.parameters, "sgd",
                                        {"learning_rate": 0.01, "momentum": 0.9})

    def array(self, *shape):
        return self.mx.nd.array(self.random.uniform(0.2, 1.2, shape), dtype="float64")

    def call(self, x):
        return super().call(cubed(self.mx)(x * 0.8) if self.random.randint(4) == 0 else x)

    def write(self):
        """An event, which is not recorded."""
        event = self.one([super().write, super().write, self.hybridize, self.request, self.cast,
                          self.move, self.fill, self.read, self.duplicate, self.predict,
                          self.train])
        self.events.append(event.__name__)
        with self.mx.autograd.pause():
            event()

    def hybridize(self):
        block, active = self.one(self.networks.all), bool(self.random.randint(3))
        static, limit = bool(self.random.randint(2)), self.random.randint(6)
        if self.hybrid:
            block.hybridize(active, static_alloc=static, inline_limit=limit)

    def request(self):
        self.one(self.parameters).grad_req = self.one(["write", "add", "null"])

    def cast(self):
        block = self.one(self.networks.all)
        for dtype in ("float32", "float64"):
            block.cast(dtype)
        self.one(self.parameters).cast("float64")

    def move(self):
        for each in self.parameters:
            for ctx in (self.mx.cpu(1), self.mx.cpu(0)):
                each.reset_ctx(ctx)

    def fill(self):
        weight = self.one(self.parameters)
        value = self.random.uniform(0.2, 1.2)
        weight.initialize(self.mx.init.Constant(value), force_reinit=True)

    def read(self):
        net = self.one(self.networks.nets)
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "net.params")
            net.save_parameters(file)
            super().write()
            net.load_parameters(file)

    def duplicate(self):
        """A copy computes the same, and is independent."""
        net, x = self.one(self.networks.nets), self.array(2, WIDTH)
        other = copy.deepcopy(net)
        super().write()
        for each in other.collect_params().values():
            each.data()[:] = 2 * each.data()
        self.see(net(x), other(x))

    def predict(self):
        for rows in (1, 2):
            self.see(self.one(self.networks.nets)(self.array(rows, WIDTH)))

    def train(self):
        self.trainer.step(1, ignore_stale_grad=True)
