"""Programs over modules whose results must agree in nbmod and MXNet; imports neither of them.

Each function that takes `mx` first is a program.  Results are numbers, text, containers and arrays.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.programs.common import nd

WATCHED = ("bind install_monitor init_params init_optimizer forward_backward forward backward "
           "update update_metric prepare get_params set_params score iter_predict predict "
           "_sync_params_from_devices reshape borrow_optimizer save_checkpoint save_params "
           "load_params save_optimizer_states load_optimizer_states").split()


def network(mx: Any) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh", name="act")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="fc2"), name="softmax")


def samples(count: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that are not linearly separable, five features each."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((count, 5)).astype(np.float32)
    return data, (np.abs(data[:, :3]).argmax(axis=1)).astype(np.float32)


def start(mx: Any, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"fc1_weight": (8, 5), "fc1_bias": (8,), "fc2_weight": (3, 8), "fc2_bias": (3,)}
    return {name: nd(mx, (rng.standard_normal(shape) * 0.5).astype(np.float32))
            for name, shape in shapes.items()}


def iterator(mx: Any, batch_size: int = 8, count: int = 24, **options: Any) -> Any:
    return mx.io.NDArrayIter(*samples(count), batch_size, **options)


def list_iterator(mx: Any, devices: int = 2, batch_size: int = 4, count: int = 24) -> Any:
    """Yields lists with one batch for each device."""
    class Lists(mx.io.DataIter):
        provide_data = [mx.io.DataDesc("data", (batch_size * devices, 5))]
        provide_label = [mx.io.DataDesc("softmax_label", (batch_size * devices,))]
        parts: Any = iter(())

        def reset(self) -> None:
            self.parts = iter(iterator(mx, batch_size, count))

        def next(self) -> Any:
            return [_copied(mx, next(self.parts)) for _ in range(devices)]

    lists = Lists(batch_size * devices)
    lists.reset()
    return lists


def _copied(mx: Any, batch: Any) -> Any:
    return mx.io.DataBatch([array.copy() for array in batch.data],
                           [array.copy() for array in batch.label], pad=batch.pad)


# -- events in order: calls, log lines, arguments ---------------------------------------------


class Events(logging.Handler):
    """Events in order: (depth, what, ...).  Also a handler of log records."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.list: list[Any] = []
        self.locals: list[list[str]] = []
        self.depth = 0
        self.secret = "\0"

    def note(self, *what: Any) -> None:
        self.list.append([self.depth, *what])

    def emit(self, record: logging.LogRecord) -> None:
        text = re.sub(r"cost=[\d.]+|Speed: \S+|-?\d+\.\d+\t|\d\.\d{3,}$", "<number>",
                      record.getMessage().replace(self.secret, "<folder>"))
        self.note("log", record.levelname, text)

    def batch(self, name: str) -> Callable[[Any], None]:
        """A batch callback."""
        def callback(param: Any) -> None:
            self.note(name, type(param)._fields, param.epoch, param.nbatch,
                      type(param.eval_metric).__name__, param.eval_metric.get()[0])
            self.locals.append([name, *sorted(param.locals)])
        return callback

    def epoch(self, epoch: int, symbol: Any, args: Any, aux: Any) -> None:
        """An epoch callback."""
        self.note("epoch", epoch, symbol.list_outputs(), sorted(args), sorted(aux))


@contextmanager
def watching() -> Iterator[Events]:
    """Events of all logging and warnings meanwhile."""
    events, root = Events(), logging.getLogger()
    level = root.level
    root.addHandler(events)
    root.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, kind, *rest: events.note(
                "warning", kind.__name__, str(message)[:40])
            yield events
    finally:
        root.removeHandler(events)
        root.setLevel(level)


def recorder(mx: Any, events: Events) -> type:
    """A subclass of Module that records which methods are called, with what, and from where."""
    def noted(name: str) -> Callable[..., Any]:
        method = getattr(mx.mod.Module, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            events.note(name, [type(arg).__name__ for arg in args], sorted(kwargs))
            events.depth += 1
            try:
                return method(self, *args, **kwargs)
            finally:
                events.depth -= 1

        return call

    return type("Recorder", (mx.mod.Module,), {name: noted(name) for name in WATCHED})


class WatchedMonitor:
    """The part of a monitor's interface that `fit` uses."""

    def __init__(self, events: Events) -> None:
        self.events = events

    def install(self, executor: Any) -> None:
        self.events.note("monitor install")

    def tic(self) -> None:
        self.events.note("monitor tic")

    def toc_print(self) -> None:
        self.events.note("monitor toc_print")


def fits(mx: Any, case: str) -> dict[str, Any]:
    """Events of one or several calls of `fit`, and the names that batch callbacks may read."""
    with watching() as events:
        FITS[case](mx, events)
    return {"events": events.list, "locals": events.locals}


def _whole(mx: Any, events: Events) -> None:
    recorder(mx, events)(network(mx)).fit(
        iterator(mx), eval_data=iterator(mx), num_epoch=2, arg_params=start(mx), aux_params={},
        batch_end_callback=events.batch("batch"), epoch_end_callback=events.epoch,
        eval_batch_end_callback=events.batch("eval batch"),
        eval_end_callback=events.batch("eval end"), monitor=WatchedMonitor(events))


def _several_callbacks(mx: Any, events: Events) -> None:
    recorder(mx, events)(network(mx), context=[mx.cpu(0), mx.cpu(1)]).fit(
        iterator(mx), iterator(mx), ["acc", "ce"], [events.epoch, events.epoch],
        [events.batch("one"), mx.callback.Speedometer(8, 1), mx.callback.log_train_metric(2)],
        validation_metric=mx.metric.create("ce"), begin_epoch=3, num_epoch=5, initializer=None,
        arg_params=start(mx), aux_params={}, eval_end_callback=[
            mx.callback.LogValidationMetricsCallback(), events.batch("end")])


def _again(mx: Any, events: Events) -> None:
    module = recorder(mx, events)(network(mx))
    module.fit(iterator(mx), num_epoch=1)
    module.fit(iterator(mx), num_epoch=1, arg_params=start(mx))
    module.fit(iterator(mx, 6), num_epoch=1, arg_params=start(mx), aux_params={}, force_init=True,
               force_rebind=True, allow_missing=True, kvstore="device", optimizer="adam")
    module.fit(iterator(mx), num_epoch=1, begin_epoch=1)


def _rows(mx: Any, events: Events) -> None:
    def rows(batch: Any) -> dict[str, Any]:
        events.note("rows", [array.shape for array in batch.data])
        return {"fc1_weight": mx.nd.array([0, 2])}

    for context in (mx.cpu(), [mx.cpu(0), mx.cpu(1)]):
        recorder(mx, events)(network(mx), context=context).fit(
            iterator(mx), iterator(mx), num_epoch=1, sparse_row_id_fn=rows)


def _lists(mx: Any, events: Events) -> None:
    recorder(mx, events)(network(mx), context=[mx.cpu(0), mx.cpu(1)]).fit(
        list_iterator(mx), list_iterator(mx), num_epoch=2, arg_params=start(mx), aux_params={},
        batch_end_callback=events.batch("batch"))


def _auto_reset(mx: Any, events: Events) -> None:
    """The epoch's log line shows all of it, also after resets by callbacks."""
    module = mx.mod.Module(network(mx))
    module.fit(iterator(mx), num_epoch=2, arg_params=start(mx), aux_params={}, batch_end_callback=[
        mx.callback.Speedometer(8, 1, auto_reset=True), events.batch("after"),
        mx.callback.log_train_metric(1, auto_reset=True), events.batch("last")])
    value = dict(module.score(iterator(mx), "acc"))["accuracy"]
    events.note("score", round(float(value), 6))


def _checkpoints(mx: Any, events: Events) -> None:
    settings = {"optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}}
    with tempfile.TemporaryDirectory() as folder:
        events.secret = folder
        module = recorder(mx, events)(network(mx))
        module.fit(iterator(mx), num_epoch=4, arg_params=start(mx), aux_params={},
                   epoch_end_callback=[
                       mx.callback.do_checkpoint(f"{folder}/plain", 2),
                       mx.callback.module_checkpoint(module, f"{folder}/whole", 3, True),
                       mx.callback.module_checkpoint(module, f"{folder}/light")], **settings)
        events.note("files", sorted(name for name in os.listdir(folder)
                                    if not name.endswith(".resume")))  # which MXNet does not have
        again = recorder(mx, events).load(f"{folder}/whole", 3, True)
        events.note("type", type(again).__name__)
        again = recorder(mx, events)(network(mx))
        again.fit(iterator(mx), begin_epoch=3, num_epoch=4, initializer=None, arg_params=start(mx),
                  aux_params={}, **settings)
        again.load_params(f"{folder}/whole-0003.params")
        again.save_params(f"{folder}/last.params")


FITS = {"whole": _whole, "several callbacks": _several_callbacks, "again": _again, "rows": _rows,
        "lists": _lists, "auto reset": _auto_reset, "checkpoints": _checkpoints}
