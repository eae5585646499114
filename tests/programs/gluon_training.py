"""Training with Gluon as users write it: losses of each step, from equal weights and data."""

from __future__ import annotations

from typing import Any

import numpy as np


def curves(mx: Any, active: bool) -> dict[str, list[float]]:
    """The losses of some programs, hybridized or not."""
    return {each.__name__: each(mx, active)
            for each in (classifier, language_model, adversarial, attention)}


def _fill(mx: Any, net: Any, seed: int) -> None:
    """Give a network weights that do not depend on the library."""
    for number, (name, each) in enumerate(sorted(net._collect_params_with_prefix().items())):
        if name.endswith("weight"):
            values = np.random.RandomState(seed + number).normal(0, 0.3, each.shape)
            each.set_data(mx.nd.array(values))


def classifier(mx: Any, active: bool) -> list[float]:
    """A convolutional network: the last batch is smaller, and each epoch ends with a validation."""
    nn, random = mx.gluon.nn, np.random.RandomState(0)
    labels = random.randint(0, 4, 70)
    images = random.normal(size=(70, 1, 12, 12))
    for image, label in zip(images, labels, strict=True):
        image[0, 3 * label:3 * label + 3] += 1
    images, labels = mx.nd.array(images), mx.nd.array(labels)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 3, padding=1, use_bias=False), nn.BatchNorm(),
                nn.Activation("relu"), nn.MaxPool2D(2), nn.Conv2D(8, 3, activation="relu"),
                nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(4))
    net.initialize()
    net(images)
    _fill(mx, net, 1)
    net.hybridize(active)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize(active)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4})
    losses = []
    for _ in range(3):
        for start in range(0, 70, 16):
            data, label = images[start:start + 16], labels[start:start + 16]
            with mx.autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(len(data))
            losses.append(float(loss.mean().asscalar()))
        losses.append(float(loss_of(net(images), labels).mean().asscalar()))
        trainer.set_learning_rate(trainer.learning_rate * 0.5)
    return losses


def language_model(mx: Any, active: bool) -> list[float]:
    """Truncated backpropagation: states are detached, embedding and output share weights."""
    words, units, steps, batch = 11, 6, 5, 4
    gluon = mx.gluon

    class Model(gluon.HybridBlock):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.encoder = gluon.nn.Embedding(words, units)
                self.rnn = gluon.rnn.LSTM(units, 2, input_size=units)
                self.decoder = gluon.nn.Dense(words, in_units=units, flatten=False,
                                              params=self.encoder.params)

        def hybrid_forward(self, F: Any, data: Any, *states: Any) -> Any:
            output, after = self.rnn(self.encoder(data), [*states])
            return self.decoder(output), after

    model = Model(prefix="model_")
    model.initialize()
    model(mx.nd.zeros((steps, batch)), *model.rnn.begin_state(batch))
    _fill(mx, model, 1)
    model.hybridize(active)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.02})
    text = np.random.RandomState(3).randint(1, 3, 41 * batch).cumsum().reshape(batch, 41).T % words
    losses = []
    for _ in range(2):
        states = model.rnn.begin_state(batch)
        for start in range(0, 40, steps):
            data, label = (mx.nd.array(text[i:i + steps]) for i in (start, start + 1))
            states = [state.detach() for state in states]
            with mx.autograd.record():
                output, states = model(data, *states)
                loss = loss_of(output.reshape((-1, words)), label.reshape((-1,)))
            loss.backward()
            gradients = [each.grad() for each in model.collect_params().values()]
            gluon.utils.clip_global_norm(gradients, 0.25 * steps * batch)
            trainer.step(steps * batch)
            losses.append(float(loss.mean().asscalar()))
    return losses


def adversarial(mx: Any, active: bool) -> list[float]:
    """A generator and a discriminator, which one record calls twice; also its moving averages."""
    nn, nd, autograd = mx.gluon.nn, mx.nd, mx.autograd
    generator, judge = nn.HybridSequential(prefix="g_"), nn.HybridSequential(prefix="d_")
    with generator.name_scope():
        generator.add(nn.Conv2DTranspose(8, 4, use_bias=False), nn.BatchNorm(),
                      nn.Activation("relu"), nn.Conv2DTranspose(1, 4, 2, 1, use_bias=False),
                      nn.Activation("tanh"))
    with judge.name_scope():
        judge.add(nn.Conv2D(8, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2),
                  nn.Conv2D(1, 4, use_bias=False))
    random = np.random.RandomState(5)
    trainers = []
    for seed, net in ((1, generator), (50, judge)):
        net.initialize()
        net(nd.zeros((6, 5, 1, 1) if net is generator else (6, 1, 8, 8)))
        _fill(mx, net, seed)
        net.hybridize(active)
        trainers.append(mx.gluon.Trainer(net.collect_params(), "sgd",
                                         {"learning_rate": 0.05, "momentum": 0.5}))
    loss_of = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()
    ones, zeros, losses = nd.ones((6,)), nd.zeros((6,)), []
    for _ in range(8):
        real = nd.array(random.uniform(-0.5, 1, (6, 1, 8, 8)))
        noise = nd.array(random.normal(size=(6, 5, 1, 1)))
        with autograd.record():
            of_real = loss_of(judge(real).reshape((-1,)), ones)
            of_fake = loss_of(judge(generator(noise).detach()).reshape((-1,)), zeros)
            loss = of_real + of_fake
        loss.backward()
        trainers[1].step(6)
        with autograd.record():
            deceit = loss_of(judge(generator(noise)).reshape((-1,)), ones)
        deceit.backward()
        trainers[0].step(6)
        losses += [float(loss.mean().asscalar()), float(deceit.mean().asscalar())]
    averages = [net[1].running_mean.data() for net in (generator, judge)]
    return [*losses, *[float(value) for each in averages for value in each.asnumpy()]]


def attention(mx: Any, active: bool) -> list[float]:
    """A layer of a transformer with a constant, and a loop of `foreach` over its results."""
    nn, words, units, steps, heads = mx.gluon.nn, 7, 8, 5, 2

    class Encoder(mx.gluon.HybridBlock):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            places = np.arange(steps)[:, None] / np.power(100, np.arange(units) / units)
            with self.name_scope():
                self.embed = nn.Embedding(words, units)
                self.places = self.params.get_constant("places", np.sin(places)[None])
                self.project = nn.Dense(3 * units, flatten=False, use_bias=False)
                self.norm = nn.LayerNorm()
                self.feed = nn.HybridSequential()
                with self.feed.name_scope():
                    self.feed.add(nn.Dense(16, flatten=False), nn.GELU(),
                                  nn.Dense(words, flatten=False))

        def hybrid_forward(self, F: Any, tokens: Any, lengths: Any, places: Any) -> Any:
            x = F.broadcast_add(self.embed(tokens), places)
            query, key, value = (
                F.reshape(F.transpose(F.reshape(each, (0, 0, heads, -1)), (0, 2, 1, 3)),
                          (-1, 0, 0), reverse=True)
                for each in F.split(self.project(x), num_outputs=3, axis=2))
            limits = F.broadcast_like(F.expand_dims(F.repeat(lengths, heads), 1), query,
                                      lhs_axes=(1,), rhs_axes=(1,))
            weights = F.softmax(F.batch_dot(query, key, transpose_b=True) / 2, limits,
                                use_length=True)
            mixed = F.reshape(F.batch_dot(weights, value), (-1, heads, 0, 0), reverse=True)
            x = self.norm(x + F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -1)))
            decayed, _ = F.contrib.foreach(
                lambda row, state: (row + 0.5 * state, row + 0.5 * state),
                F.transpose(x, (1, 0, 2)), F.zeros_like(F.slice_axis(x, 1, 0, 1)).reshape((0, -1)))
            return self.feed(F.transpose(decayed, (1, 0, 2)))

    net, random = Encoder(prefix="net_"), np.random.RandomState(2)
    net.initialize()
    tokens = mx.nd.array(random.randint(0, words, (4, steps)))
    lengths = mx.nd.array([5, 3, 4, 2], dtype="int32")
    net(tokens, lengths)
    _fill(mx, net, 1)
    net.hybridize(active)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "lamb", {"learning_rate": 0.02})
    losses = []
    for _ in range(5):
        with mx.autograd.record():
            loss = loss_of(net(tokens, lengths), tokens)
        loss.backward()
        trainer.step(4)
        losses.append(float(loss.mean().asscalar()))
    return losses
