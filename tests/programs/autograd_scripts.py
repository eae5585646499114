"""Training loops as tutorials write them, without Module and Gluon; run in nbmod and in MXNet."""

from __future__ import annotations

from typing import Any

import numpy as np


def regression(mx: Any) -> list[Any]:
    """Linear regression: minibatches, gradients written, parameters updated in place."""
    nd, autograd = mx.nd, mx.autograd
    rng = np.random.RandomState(0)
    features = rng.randn(40, 2).astype(np.float32)
    labels = features.dot(np.float32([2, -3.4])) + np.float32(4.2)
    w, b = nd.array([[0.01], [-0.01]]), nd.zeros(1)
    for param in (w, b):
        param.attach_grad()
    losses = []
    for _ in range(3):
        for i in range(0, 40, 10):
            x, y = nd.array(features[i:i + 10]), nd.array(labels[i:i + 10])
            with autograd.record():
                loss = (nd.dot(x, w) + b - y.reshape((-1, 1))) ** 2 / 2
            loss.backward()
            for param in (w, b):
                param[:] = param - 0.1 * param.grad / 10
        losses.append(loss.mean().asscalar())
    return [w.asnumpy(), b.asnumpy(), losses]


def classifier(mx: Any) -> list[Any]:
    """A small convolutional network with BatchNorm; an optimizer's updater and a metric."""
    nd, autograd = mx.nd, mx.autograd
    rng = np.random.RandomState(1)
    images = rng.randn(24, 1, 6, 6).astype(np.float32)
    labels = rng.randint(0, 3, 24).astype(np.float32)
    shapes = {"conv_weight": (4, 1, 3, 3), "conv_bias": (4,), "gamma": (4,), "beta": (4,),
              "fc_weight": (3, 4 * 2 * 2), "fc_bias": (3,)}
    params = {name: nd.array(rng.uniform(-0.5, 0.5, shape)) for name, shape in shapes.items()}
    params["gamma"][:] = 1
    moving = [nd.zeros(4), nd.ones(4)]

    def network(x):
        x = nd.Convolution(x, params["conv_weight"], params["conv_bias"], kernel=(3, 3),
                           num_filter=4)
        x = nd.BatchNorm(x, params["gamma"], params["beta"], *moving, fix_gamma=False)
        x = nd.Pooling(nd.Activation(x, act_type="tanh"), kernel=(2, 2), stride=(2, 2),
                       pool_type="avg")
        return nd.FullyConnected(x.flatten(), params["fc_weight"], params["fc_bias"], num_hidden=3)

    for param in params.values():
        param.attach_grad()
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9,
                                                           rescale_grad=1 / 8))
    metric, losses = mx.metric.Accuracy(), []
    for _ in range(3):
        for i in range(0, 24, 8):
            data, label = nd.array(images[i:i + 8]), nd.array(labels[i:i + 8])
            with autograd.record():
                scores = nd.log_softmax(network(data))
                loss = -nd.pick(scores, label)
            loss.backward()
            nd.waitall()  # MXNet writes moving averages outside its engine's dependencies
            metric.update([label], [scores])
            for index, param in enumerate(params.values()):
                updater(index, param.grad, param)
            losses.append(loss.sum().asscalar())
    with autograd.predict_mode():
        predicted = network(nd.array(images))
    return [losses, metric.get()[1], predicted.asnumpy(), *(array.asnumpy() for array in moving),
            *(param.asnumpy() for param in params.values())]


def recurrent(mx: Any) -> list[Any]:
    """A recurrent network with truncated BPTT: gradients accumulated, clipped, states carried."""
    nd, autograd = mx.nd, mx.autograd
    rng = np.random.RandomState(2)
    text = rng.randint(0, 5, (2, 13))
    params = [nd.array(rng.uniform(-0.5, 0.5, shape))
              for shape in ((5, 4), (4, 4), (4,), (4, 5), (5,))]
    for param in params:
        param.attach_grad(grad_req="add")
    wx, wh, bh, wo, bo = params
    state, norms = nd.zeros((2, 4)), []
    for start in range(0, 12, 4):
        for param in params:
            param.grad[:] = 0
        for part in range(2):  # two halves of a batch, one update
            with autograd.record():
                h, loss = state[part:part + 1], nd.zeros(1)
                for t in range(start, start + 4):
                    now, following = (nd.array(text[part:part + 1, k]) for k in (t, t + 1))
                    h = nd.tanh(nd.dot(nd.one_hot(now, 5), wx) + nd.dot(h, wh) + bh)
                    scores = nd.dot(h, wo) + bo
                    loss = loss + nd.softmax_cross_entropy(scores, following)
            loss.backward()
            state[part:part + 1] = h.detach()
        norm = sum((param.grad ** 2).sum().asscalar() for param in params) ** 0.5
        norms.append(float(norm))
        for param in params:
            param.grad[:] = param.grad * min(1.0, 2.0 / norm)
            nd.sgd_update(param, param.grad, out=param, lr=0.5)
    return [norms, state.asnumpy(), *(param.asnumpy() for param in params)]


def fresh_gradients(mx: Any) -> list[bool]:
    """`_fresh_grad`, by which trainers see stale gradients: before, after, reset, not reached."""
    x, y = mx.nd.ones(2), mx.nd.ones(2)
    answers = [x._fresh_grad]
    for array in (x, y):
        array.attach_grad()
    answers.append(x._fresh_grad)
    with mx.autograd.record():
        z = x * 2 + y
    z.backward()
    answers += [x._fresh_grad, y._fresh_grad]
    x._fresh_grad = y._fresh_grad = False
    with mx.autograd.record():
        z = x.detach() + y
    z.backward()
    return [bool(answer) for answer in [*answers, x._fresh_grad, y._fresh_grad]]


SCRIPTS = {"regression": regression, "classifier": classifier, "recurrent": recurrent}
