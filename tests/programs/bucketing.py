"""Programs over BucketingModule for either package, from the same start and on the same batches.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORDS, HIDDEN, CLASSES = 7, 5, 3
DEFAULT = 6
KEYS = [3, 6, 2, 3, 8, 6, 5, 2, 8, 3]


def network(mx: Any) -> Any:
    """`sym_gen` of a recurrent classifier, unrolled over the length of the bucket."""
    def sym_gen(key: int) -> tuple[Any, list[str], list[str]]:
        weights = {name: mx.sym.Variable(name) for name in (
            "i_weight", "i_bias", "h_weight", "h_bias")}
        words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=WORDS, output_dim=4,
                                 name="words")
        steps = mx.sym.SliceChannel(words, num_outputs=key, axis=1, squeeze_axis=True)
        hidden = None
        for t in range(key):
            x = mx.sym.FullyConnected(steps[t], weights["i_weight"], weights["i_bias"],
                                      num_hidden=HIDDEN, name=f"i{t}")
            if hidden is not None:
                x = x + mx.sym.FullyConnected(hidden, weights["h_weight"], weights["h_bias"],
                                              num_hidden=HIDDEN, name=f"h{t}")
            hidden = mx.sym.Activation(x, act_type="tanh", name=f"tanh{t}")
        x = mx.sym.FullyConnected(hidden, num_hidden=CLASSES, name="out")
        return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]
    return sym_gen


def start(seed: int = 5) -> dict[str, np.ndarray]:
    """Parameters of `network`."""
    rng = np.random.default_rng(seed)
    shapes = {"words_weight": (WORDS, 4), "i_weight": (HIDDEN, 4), "i_bias": (HIDDEN,),
              "h_weight": (HIDDEN, HIDDEN), "h_bias": (HIDDEN,),
              "out_weight": (CLASSES, HIDDEN), "out_bias": (CLASSES,)}
    return {name: (rng.standard_normal(shape) * 0.5).astype(np.float32)
            for name, shape in shapes.items()}


def arrays(mx: Any, values: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: mx.nd.array(value) for name, value in values.items()}


def numbers(params: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: value.asnumpy() for name, value in params.items()}


def batch(mx: Any, key: int, seed: int = 0, size: int = 4) -> Any:
    """Sentences of `key` words; the label says which third of the vocabulary the first is from."""
    rng = np.random.default_rng([key, seed])
    words = rng.integers(0, WORDS, (size, key))
    return mx.io.DataBatch(
        [mx.nd.array(words)], [mx.nd.array(words[:, 0] * CLASSES // WORDS)], bucket_key=key,
        provide_data=[mx.io.DataDesc("data", (size, key))],
        provide_label=[mx.io.DataDesc("softmax_label", (size,))], pad=0)


def bound(mx: Any, contexts: int = 1, sym_gen: Any = None, **options: Any) -> Any:
    """A BucketingModule of `network`, bound and with parameters."""
    module = mx.mod.BucketingModule(sym_gen or network(mx), DEFAULT,
                                    context=[mx.cpu(k) for k in range(contexts)], **options)
    module.bind([("data", (4, DEFAULT))], [("softmax_label", (4,))])
    module.init_params(arg_params=arrays(mx, start()), aux_params={})
    return module


def train(mx: Any, contexts: int, optimizer: str, params: dict[str, Any], steps: int = 20,
          kvstore: str | None = "local", compression: dict[str, Any] | None = None
          ) -> dict[str, Any]:
    """Train over many buckets: outputs of every step, and metric and parameters at the end."""
    module = bound(mx, contexts, compression_params=compression)
    module.init_optimizer(kvstore, optimizer, params)
    metric = mx.metric.create("acc")
    outputs = []
    for step in range(steps):
        data_batch = batch(mx, KEYS[step % len(KEYS)], step)
        module.prepare(data_batch)
        module.forward_backward(data_batch)
        module.update()
        module.update_metric(metric, data_batch.label)
        outputs.append(module.get_outputs()[0].asnumpy())
    return {"outputs": outputs, "metric": metric.get()[1], "params": numbers(
        module.get_params()[0]), "keys": list(module._buckets), "names": module.output_names}


def placed(mx: Any, steps: int = 10) -> dict[str, Any]:
    """Two groups of nodes, each on a context of its own, in every bucket."""
    def sym_gen(key: int) -> tuple[Any, list[str], list[str]]:
        with mx.AttrScope(ctx_group="front"):
            x = mx.sym.sum(mx.sym.Embedding(mx.sym.Variable("data"), input_dim=WORDS,
                                            output_dim=4, name="words"), axis=1)
            x = mx.sym.Activation(x, act_type="tanh")
        with mx.AttrScope(ctx_group="back"):
            x = mx.sym.FullyConnected(x, num_hidden=CLASSES, name="out")
            return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(sym_gen, DEFAULT, context=mx.cpu(0),
                                    group2ctxs={"front": mx.cpu(0), "back": mx.cpu(1)})
    module.bind([("data", (4, DEFAULT))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    for step in range(steps):
        module.forward_backward(batch(mx, KEYS[step], step))
        module.update()
    return {"params": numbers(module.get_params()[0]),
            "output": module.get_outputs()[0].asnumpy()}


def fitted(mx: Any, epochs: int = 2) -> dict[str, Any]:
    """`fit`, `score` and `predict` over an iterator that mixes buckets."""
    module = mx.mod.BucketingModule(network(mx), DEFAULT)
    calls: list[Any] = []
    module.fit(batches(mx), eval_data=batches(mx), num_epoch=epochs, eval_metric="acc",
               arg_params=arrays(mx, start()), aux_params={},
               optimizer_params={"learning_rate": 0.3, "momentum": 0.9},
               batch_end_callback=lambda p: calls.append([p.epoch, p.nbatch,
                                                          p.eval_metric.get()[1]]),
               epoch_end_callback=lambda e, symbol, a, x: calls.append([e, sorted(a)]))
    predicted = [out[0].asnumpy() for out in module.predict(batches(mx), merge_batches=False)]
    return {"calls": calls, "score": module.score(batches(mx), "ce")[0][1], "predicted": predicted,
            "params": numbers(module.get_params()[0])}


def batches(mx: Any) -> Any:
    """An iterator over eight batches of several buckets."""
    class Batches(mx.io.DataIter):
        def __init__(self) -> None:
            super().__init__(4)
            self.provide_data = [mx.io.DataDesc("data", (4, DEFAULT))]
            self.provide_label = [mx.io.DataDesc("softmax_label", (4,))]
            self.default_bucket_key = DEFAULT
            self.reset()

        def reset(self) -> None:
            self.left = [batch(mx, key, 100 + i) for i, key in enumerate(KEYS[:8])]

        def next(self) -> Any:
            if not self.left:
                raise StopIteration
            return self.left.pop(0)
    return Batches()


def stateful(mx: Any, contexts: int) -> dict[str, Any]:
    """A recurrent sum whose state goes from batch to batch, and from bucket to bucket."""
    def sym_gen(key: int) -> tuple[Any, list[str], list[str]]:
        total = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        new = mx.sym.Activation(mx.sym.Variable("state") + mx.sym.FullyConnected(
            total, num_hidden=3, name="fc"), act_type="tanh")
        loss = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(new, num_hidden=1, name="out"),
                                             mx.sym.Variable("label"), name="loss")
        return mx.sym.Group([loss, mx.sym.BlockGrad(new, name="new")]), ["data"], ["label"]

    module = mx.mod.BucketingModule(sym_gen, 4, state_names=["state"],
                                    context=[mx.cpu(k) for k in range(contexts)])
    module.bind([("data", (4, 4))], [("label", (4, 1))])
    module.init_params(mx.init.Constant(0.1))
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    module.set_states(value=0.5)
    states = []
    for step, key in enumerate((4, 2, 3, 2, 4)):
        rng = np.random.default_rng(step)
        data_batch = mx.io.DataBatch(
            [mx.nd.array(rng.random((4, key)))], [mx.nd.array(rng.random((4, 1)))], bucket_key=key,
            provide_data=[("data", (4, key))], provide_label=[("label", (4, 1))])
        module.forward_backward(data_batch)
        module.update()
        states.append(gathered(module.get_states(False)[0]))
        module.set_states(module.get_outputs(False)[1:])
    return {"states": states, "last": gathered(module.get_states(False)[0]),
            "params": numbers(module.get_params()[0])}


def gathered(copies: list[Any]) -> np.ndarray:
    return np.concatenate([copy.asnumpy() for copy in copies])


def normalised(mx: Any) -> dict[str, Any]:
    """Moving averages are those of all buckets together."""
    def sym_gen(key: int) -> tuple[Any, list[str], list[str]]:
        x = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        x = mx.sym.BatchNorm(x, fix_gamma=False, momentum=0.5, name="bn")
        return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label")), ["data"], ["label"]

    module = mx.mod.BucketingModule(sym_gen, 4)
    module.bind([("data", (3, 4))], [("label", (3, 1))])
    module.init_params(arg_params=arrays(mx, {"bn_gamma": np.ones(1), "bn_beta": np.zeros(1)}),
                       aux_params=arrays(mx, {"bn_moving_mean": np.zeros(1),
                                              "bn_moving_var": np.ones(1)}))
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    for key in (4, 2, 3, 2):
        data = np.random.default_rng(key).random((3, key))
        module.forward_backward(mx.io.DataBatch(
            [mx.nd.array(data)], [mx.nd.ones((3, 1))], bucket_key=key,
            provide_data=[("data", (3, key))], provide_label=[("label", (3, 1))]))
        module.update()
        mx.nd.waitall()
    return {kind: numbers(values) for kind, values in
            zip(("args", "auxs"), module.get_params(), strict=True)}


def watched(mx: Any) -> list[list[str]]:
    """The records of a monitor in an existing bucket and in a later one."""
    module = bound(mx)
    monitor = mx.mon.Monitor(1, pattern="(tanh|out|softmax).*output$")
    module.install_monitor(monitor)
    seen = []
    for key in (DEFAULT, 2):
        monitor.tic()
        module.forward(batch(mx, key), is_train=False)
        seen.append([name if isinstance(name, str) else name.decode()
                     for _, name, _ in monitor.toc()])
    return seen


def save(mx: Any, prefix: str, keys: list[int]) -> dict[str, Any]:
    """Train a step per bucket and save; the parameters."""
    module = bound(mx)
    module.init_optimizer()
    for key in keys:
        module.forward_backward(batch(mx, key))
        module.update()
    module.save_checkpoint(prefix, 7)
    return numbers(module.get_params()[0])


def load(mx: Any, prefix: str, keys: list[int]) -> dict[str, Any]:
    """Load what `save` wrote; the buckets, and the output of each."""
    module = mx.mod.BucketingModule.load(prefix, 7, network(mx), DEFAULT)
    module.bind([("data", (4, DEFAULT))], [("softmax_label", (4,))], for_training=False)
    outputs = []
    for key in keys:
        module.forward(batch(mx, key), is_train=False)
        outputs.append(module.get_outputs()[0].asnumpy())
    return {"keys": [int(key) for key in module._buckets], "outputs": outputs,
            "params": numbers(module.get_params()[0])}
