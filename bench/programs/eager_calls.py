"""Subjects: operators called one by one, recorded and differentiated, and steps of networks.

Arrays of the first ones are small, so that what is timed is the cost of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

LENGTH = 10
"""Operators, or layers, of a chain."""

Run = Callable[[], object]


def _array(mx: Any, shape: Sequence[int], marked: bool = False) -> Any:
    array = mx.nd.ones(shape) * 0.1
    if marked:
        array.attach_grad()
    return array


def add(mx: Any) -> Run:
    """One sum, which is not recorded."""
    a, b = _array(mx, (4, 4)), _array(mx, (4, 4))
    return lambda: (a + b).wait_to_read()


def _recorded(mx: Any, compute: Callable[[], Any], leaf: Any, differentiates: bool) -> Run:
    def run() -> None:
        with mx.autograd.record():
            y = compute()
        if differentiates:
            y.backward()
            leaf.grad.wait_to_read()
        else:
            y.wait_to_read()

    return run


def products(mx: Any, differentiates: bool) -> Run:
    """A chain of products."""
    x, c = _array(mx, (4, 4), True), _array(mx, (4, 4))

    def compute() -> Any:
        y = x
        for _ in range(LENGTH):
            y = y * c
        return y

    return _recorded(mx, compute, x, differentiates)


def layers(mx: Any, differentiates: bool) -> Run:
    """A chain of dense layers with ReLU, which share their parameters."""
    x = _array(mx, (4, 4), True)
    weight, bias = _array(mx, (4, 4), True), _array(mx, (4,), True)

    def compute() -> Any:
        y = x
        for _ in range(LENGTH):
            y = mx.nd.relu(mx.nd.FullyConnected(y, weight, bias, num_hidden=4))
        return y

    return _recorded(mx, compute, x, differentiates)


def loss(mx: Any, differentiates: bool) -> Run:
    """A sum of squares: what follows a hybridized network."""
    x = _array(mx, (4, 4), True)
    return _recorded(mx, lambda: (x * x).sum(), x, differentiates)


def dense(mx: Any, is_block: bool) -> Run:
    """A layer as a block, or its operator alone."""
    x, nn = _array(mx, (4, 4)), mx.gluon.nn
    if not is_block:
        weight, bias = _array(mx, (4, 4)), _array(mx, (4,))
        return lambda: mx.nd.FullyConnected(x, weight, bias, num_hidden=4).wait_to_read()
    block = nn.Dense(4, in_units=4)
    block.initialize()
    return lambda: block(x).wait_to_read()


STATIC = {"static_alloc": True, "static_shape": True}
"""Flags of `hybridize` with which MXNet is fastest."""
SGD = ("sgd", {"learning_rate": 0.01, "momentum": 0.9})


def trainer_step(mx: Any, net: Any, x: Any, label: Any, hybridized: bool,
                 optimizer: tuple[str, dict[str, float]] = SGD) -> Run:
    """A step of a network by a trainer; its loss is hybridized if it is."""
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for block in (net, loss_of) if hybridized else ():
        block.hybridize(**STATIC)
    trainer = mx.gluon.Trainer(net.collect_params(), *optimizer)

    def step() -> None:
        with mx.autograd.record():
            value = loss_of(net(x), label)
        value.backward()
        trainer.step(len(x))
        value.wait_to_read()
        for parameter in parameters[-1:]:
            parameter.data().wait_to_read()

    parameters = [*net.collect_params().values()]
    return step


def perceptron(mx: Any, hybridized: bool) -> Run:
    """A step of a perceptron and its loss, hybridized or not."""
    net, nn = mx.gluon.nn.HybridSequential(), mx.gluon.nn
    net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    return trainer_step(mx, net, mx.nd.random.uniform(shape=(64, 784)), mx.nd.arange(64) % 10,
                        hybridized)


def perceptron_module(mx: Any) -> Run:
    """The same step by a module."""
    x = mx.sym.var("data")
    for number, units in enumerate((128, 64)):
        x = mx.sym.FullyConnected(x, num_hidden=units, name=f"fc{number}")
        x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10, name="fc2"), name="softmax")
    return module_step(mx, x, mx.nd.random.uniform(shape=(64, 784)), mx.nd.arange(64) % 10)


def module_step(mx: Any, network: Any, x: Any, label: Any) -> Run:
    """A step of a network that ends in `SoftmaxOutput`, by a module."""
    module = mx.mod.Module(network)
    module.bind([("data", x.shape)], [("softmax_label", label.shape)])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer=SGD[0], optimizer_params=SGD[1])
    batch = mx.io.DataBatch([x], [label])

    def step() -> None:
        module.forward(batch)
        module.backward()
        module.update()
        module.get_outputs()[0].wait_to_read()

    return step


def residual_network(mx: Any, trains: bool) -> Run:
    """ResNet-18 over images of 64 pixels, layer by layer."""
    nn = mx.gluon.nn

    class Unit(nn.HybridSequential):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            body, shortcut = self._children.values()
            return F.relu(body(x) + shortcut(x))

    def convolution(channels: int, kernel: int, stride: int) -> list[Any]:
        return [nn.Conv2D(channels, kernel, stride, kernel // 2, use_bias=False), nn.BatchNorm()]

    def sequence(*blocks: Any) -> Any:
        whole = nn.HybridSequential()
        whole.add(*blocks)
        return whole

    net = sequence(*convolution(64, 7, 2), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    before = 64
    for channels in (64, 128, 256, 512):
        for number in range(2):
            stride = 2 if number == 0 and channels > 64 else 1
            unit = Unit()
            unit.add(sequence(*convolution(channels, 3, stride), nn.Activation("relu"),
                              *convolution(channels, 3, 1)),
                     sequence(*(convolution(channels, 1, stride) if channels != before else ())))
            net.add(unit)
            before = channels
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.uniform(shape=(8, 3, 64, 64))
    if trains:
        return trainer_step(mx, net, x, mx.nd.arange(8), False)
    return lambda: net(x).wait_to_read()
