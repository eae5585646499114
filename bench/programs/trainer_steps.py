"""Subjects: steps of whole networks by a trainer, and by a module."""

from __future__ import annotations

from typing import Any

from .eager_calls import Run, module_step, trainer_step

BATCH, WORDS, LENGTH, UNITS = 8, 500, 20, 64
"""Of language models; images have this batch, too."""


def residual_network(mx: Any, layers: int, by_module: bool) -> Run:
    """A step of a ResNet of the model zoo over images of 64 pixels."""
    net = mx.gluon.model_zoo.vision.get_resnet(1, layers, classes=10)
    x, label = mx.nd.random.uniform(shape=(BATCH, 3, 64, 64)), mx.nd.arange(BATCH)
    if by_module:
        return module_step(mx, mx.sym.SoftmaxOutput(net(mx.sym.var("data")), name="softmax"), x,
                           label)
    net.initialize(mx.init.Xavier())
    return trainer_step(mx, net, x, label, True)


def language_model(mx: Any, unrolled: bool) -> Run:
    """A step of Adam of an LSTM between an embedding and a dense layer.

    The LSTM is a layer, or a cell that is unrolled.
    """
    gluon = mx.gluon

    class LanguageModel(gluon.HybridBlock):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.words = gluon.nn.Embedding(WORDS, UNITS)
                kind = gluon.rnn.LSTMCell if unrolled else gluon.rnn.LSTM
                self.rnn = kind(UNITS, input_size=UNITS)
                self.scores = gluon.nn.Dense(WORDS, flatten=False, in_units=UNITS)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            x = self.words(x)
            if unrolled:
                x, _ = self.rnn.unroll(LENGTH, x, layout="TNC", merge_outputs=True)
            else:
                x = self.rnn(x)
            return self.scores(x)

    net = LanguageModel()
    net.initialize(mx.init.Xavier())
    text = mx.nd.arange(LENGTH * BATCH).reshape((LENGTH, BATCH)) % WORDS
    return trainer_step(mx, net, text, text, True, ("adam", {"learning_rate": 0.001}))
