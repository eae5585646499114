"""Programs over `FeedForward` and the old executor manager; imports neither package.

`PROGRAMS` are run here and in MXNet.  Where arrays are shuffled, a batch is all of them.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.programs.calls import attempt, plain
from tests.programs.common import nd
from tests.programs.module_programs import Events, iterator, network, samples, start, watching


def answer(mx: Any, program: str) -> Any:
    with mx.name.NameManager(), watching() as events, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = plain(PROGRAMS[program](mx, events))
    return [result, [event for event in events.list if event[1] == "log"]]


def model(mx: Any, contexts: int = 1, **options: Any) -> Any:
    settings = {"num_epoch": 2, "learning_rate": 0.3, "momentum": 0.9, "arg_params": start(mx),
                "aux_params": {}, "ctx": [mx.cpu(i) for i in range(contexts)], **options}
    return mx.model.FeedForward(settings.pop("symbol", None) or network(mx), **settings)


def params(made: Any) -> dict[str, np.ndarray]:
    return {name: made.arg_params[name].asnumpy() for name in sorted(made.arg_params)}


def noted(events: list[Any]) -> Callable[[Any], None]:
    """A batch callback that keeps epoch, batch and metric."""
    def callback(param: Any) -> None:
        pairs = param.eval_metric.get_name_value()
        events.append([param.epoch, param.nbatch, [[name, float(value)] for name, value in pairs]])
    return callback


def noted_epoch(events: list[Any]) -> Callable[..., None]:
    """An epoch callback that keeps epoch, outputs and the names of parameters."""
    def callback(epoch: int, symbol: Any, args: Any, aux: Any) -> None:
        events.append([epoch, symbol.list_outputs(), sorted(args), sorted(aux)])
    return callback


def arrays(mx: Any, events: Events) -> Any:
    """NumPy arrays and NDArrays as data; validation on a pair of either."""
    X, y = samples()
    found = []
    for data, label, eval_data in ((X, y, (X, y)), (nd(mx, X), nd(mx, y), [nd(mx, X), nd(mx, y)]),
                                   (X, y[:, None], (list(X), list(y)))):
        seen: list[Any] = []
        made = model(mx, numpy_batch_size=50)
        made.fit(data, label, eval_data, batch_end_callback=noted(seen),
                 eval_batch_end_callback=noted(seen), eval_end_callback=noted(seen))
        found += [params(made), seen]
    return found


def epochs_in_the_middle(mx: Any, events: Events) -> Any:
    """`epoch_size` batches are an epoch, wherever the data begins again."""
    found = []
    for contexts, size, store in ((1, 2, "local"), (2, 5, "device"), (1, None, None),
                                  (3, 3, "local")):
        seen: list[Any] = []
        made = model(mx, contexts, epoch_size=size, num_epoch=4, begin_epoch=1)
        made.fit(iterator(mx, 8, 24), eval_data=iterator(mx, 8, 16), kvstore=store,
                 eval_metric=["acc", "ce"], batch_end_callback=[noted(seen)],
                 epoch_end_callback=noted_epoch(seen),
                 work_load_list=list(range(1, contexts + 1)))
        found += [params(made), seen]
    return found


def asked(mx: Any, events: Events) -> Any:
    X, y = samples()
    made = model(mx, numpy_batch_size=10)
    made.fit(iterator(mx), eval_metric="ce")
    whole = iterator(mx, 10, 24)
    seen: list[Any] = []
    exhausted = partial(made.predict, whole, reset=False, num_batch=1)
    return [made.predict(X), made.predict(nd(mx, X)), made.predict(whole),
            made.predict(whole, num_batch=1), made.predict(X, return_data=True),
            made.predict(whole, return_data=True), made.score(whole),
            made.score(whole, ["acc", "ce"], num_batch=2, batch_end_callback=noted(seen)),
            attempt(exhausted), float(made.score(X)), seen,
            made.predict(mx.io.NDArrayIter(X[:3], batch_size=3))]


def several_outputs(mx: Any, events: Events) -> Any:
    internals = network(mx).get_internals()
    both = mx.sym.Group([internals["softmax_output"], internals["act_output"]])
    made = mx.model.FeedForward(both, arg_params=start(mx), aux_params={}, numpy_batch_size=5)
    return made.predict(samples()[0][:12])


def checkpoints(mx: Any, events: Events) -> Any:
    made = model(mx)
    made.fit(iterator(mx))
    with tempfile.TemporaryDirectory() as folder:
        events.secret = folder
        made.save(f"{folder}/net")
        made.save(f"{folder}/net", 7)
        again = mx.model.FeedForward.load(f"{folder}/net", 7, ctx=mx.cpu(), num_epoch=9,
                                          learning_rate=0.1)
    found = [again.begin_epoch, params(again), again.predict(samples()[0])]
    again.fit(iterator(mx))
    return [*found, params(again)]


def created(mx: Any, events: Events) -> Any:
    made = mx.model.FeedForward.create(
        network(mx), iterator(mx), ctx=mx.cpu(), num_epoch=2, eval_data=iterator(mx),
        arg_params=start(mx), aux_params={}, learning_rate=0.2, wd=0.1, optimizer="sgd")
    return params(made)


def parameters_given(mx: Any, events: Events) -> Any:
    """Too many or too few parameters, allowed or not."""
    extra = {**start(mx), "fc9_weight": mx.nd.ones((2,))}
    some = {"fc1_weight": start(mx)["fc1_weight"], "fc2_weight": start(mx)["fc2_weight"]}
    found = []
    for given in (extra, some):
        for allowed in (False, True):
            made = model(mx, arg_params=given, allow_extra_params=allowed,
                         initializer=mx.init.Constant(0))
            if given is extra:
                found.append(attempt(partial(made.predict, samples()[0])))
            made.fit(iterator(mx))
            found.append(params(made))
    return found


def wrong(mx: Any, events: Events) -> Any:
    X, y = samples()
    made = model(mx)
    twice = mx.sym.Variable("data") * mx.sym.Variable("a") + mx.sym.Variable("a")

    def fit_twice() -> None:
        mx.model.FeedForward(twice, num_epoch=1).fit(X, y)

    return [attempt(partial(made.fit, X)), attempt(partial(made.fit, X, y[:5])),
            attempt(partial(made.fit, X, np.ones((24, 2)))), attempt(partial(made.fit, [X], y)),
            attempt(partial(made.fit, X, y, eval_data="data")),
            attempt(partial(made.fit, X, y, eval_data=(X, None))),
            attempt(partial(model(mx, num_epoch=None).fit, X, y)),
            attempt(partial(mx.model.FeedForward, "net")),
            attempt(fit_twice)]


def bucket_iterator(mx: Any) -> Any:
    """Batches of two buckets, always from the beginning.

    They have one shape: MXNet 1.9.1 cannot bind a bucket whose data is smaller than the default's.
    """
    class Buckets(mx.io.DataIter):
        default_bucket_key = 5
        provide_data, provide_label = [("data", (8, 5))], [("softmax_label", (8,))]

        def __iter__(self) -> Any:
            for number, key in enumerate((5, 3, 5, 3)):
                data, label = samples(8, number)
                yield mx.io.DataBatch(
                    [nd(mx, data)], [nd(mx, label)], bucket_key=key,
                    provide_data=self.provide_data, provide_label=self.provide_label)

    return Buckets(8)


def bucketed(mx: Any, key: int) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable("data") * key, num_hidden=8, name="fc1")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def buckets(mx: Any, events: Events) -> Any:
    """A network per bucket."""
    made = mx.model.FeedForward(partial(bucketed, mx), ctx=mx.cpu(), num_epoch=3,
                                learning_rate=0.1, arg_params=start(mx), aux_params={})
    made.fit(bucket_iterator(mx))
    return [params(made), made.symbol.list_arguments()]


def managed(mx: Any, events: Events) -> Any:
    """A training loop of its own, over the executor manager."""
    symbol, data = network(mx), iterator(mx, 8)
    names = [name for name in symbol.list_arguments() if name not in ("data", "softmax_label")]
    found = []
    for contexts, loads, trained in ((1, None, names), (2, [1, 3], names), (2, None, names[:3])):
        made = mx.executor_manager.DataParallelExecutorManager(
            symbol, [mx.cpu(i) for i in range(contexts)], data, symbol.list_arguments(), trained,
            [], loads, logging)
        args = start(mx)
        made.set_params(args, {})
        metric = mx.metric.create("ce")
        data.reset()
        for batch in data:
            made.load_data_batch(batch)
            made.forward(is_train=True)
            made.backward()
            for weights, grads in zip(made.param_arrays, made.grad_arrays, strict=True):
                total = sum(grad.asnumpy() for grad in grads)
                for weight in weights:
                    weight[:] = weight - 0.1 * nd(mx, total).as_in_context(weight.context)
            made.update_metric(metric, batch.label)
        mine = {name: args[name] for name in trained}
        made.copy_to(mine, {})
        group = made.execgrp
        found += [plain(mine), metric.get(), made.aux_arrays, group.param_idx, group.param_names,
                  group.data_names, group.label_names,
                  [[part.start, part.stop] for part in made.slices],
                  [[(part.start, part.stop, array) for part, array in parts]
                   for parts in [*group.data_arrays, *group.label_arrays]],
                  {name: grad is None for name, grad in group.train_execs[-1].grad_dict.items()}]
    wrong = partial(mx.executor_manager.DataParallelExecutorManager, symbol, [mx.cpu()], data,
                    symbol.list_arguments(), names, [], [1, 2])
    return [*found, attempt(wrong)]


PROGRAMS: dict[str, Callable[..., Any]] = {function.__name__: function for function in (
    arrays, epochs_in_the_middle, asked, several_outputs, checkpoints, created, parameters_given,
    wrong, buckets, managed)}
