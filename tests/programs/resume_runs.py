"""Training runs that are interrupted and resumed in another process.

    python -m tests.programs.resume_runs FOLDER whole  every run of CASES as a whole; results saved
    python -m tests.programs.resume_runs FOLDER first    the first part of every run, saved
    python -m tests.programs.resume_runs FOLDER rest     the second part; results are saved
"""

from __future__ import annotations

import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

import nbmod as mx

EPOCHS, BROKEN_AT = 4, 2
SAMPLES, BATCH = 23, 5
COLUMNS = 40
"""Of sparse data, of which a batch reads some."""


def network(dropout: float, mode: str, norm: bool, data: Any = None, label: Any = None) -> Any:
    data = mx.sym.Variable("data") if data is None else data
    x = mx.sym.FullyConnected(data, num_hidden=6, name="fc1")
    x = mx.sym.BatchNorm(x, name="bn") if norm else x
    x = mx.sym.Activation(x, act_type="tanh")
    x = mx.sym.Dropout(x, p=dropout, mode=mode) if dropout else x
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, label, name="softmax")


def network_of_rows() -> Any:
    """A linear model of csr data, with a row_sparse weight."""
    weight = mx.sym.Variable("rows", stype="row_sparse", shape=(COLUMNS, 3))
    scores = mx.sym.sparse.dot(mx.sym.Variable("data", stype="csr"), weight)
    scores = mx.sym.broadcast_add(scores, mx.sym.Variable("bias", shape=(3,)))
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def network_of_bucket(length: int) -> tuple[Any, list[str], list[str]]:
    """`network`, predicting from each word of a sentence the next one."""
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=3, output_dim=4, name="words")
    symbol = network(0.3, "training", False, mx.sym.Reshape(words, shape=(-3, 0)),
                     mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,)))
    return symbol, ["data"], ["softmax_label"]


def samples(seed: int, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, SAMPLES)
    data = np.eye(3, 4)[labels] + 0.3 * rng.standard_normal((SAMPLES, 4))
    return [mx.nd.array(array, dtype=dtype) for array in (data, labels)]


class Drawn(mx.io.DataIter):
    """A script's own iterator: it draws its order from Python's and NumPy's global generators."""

    def __init__(self, data: Any, label: Any):
        super().__init__(BATCH)
        self.data, self.label = data.asnumpy(), label.asnumpy()
        self.provide_data = [mx.io.DataDesc("data", (BATCH, 4))]
        self.provide_label = [mx.io.DataDesc("softmax_label", (BATCH,))]
        self.reset()

    def reset(self) -> None:
        self.order = np.random.permutation(SAMPLES)
        self.at = random.randrange(3)

    def next(self) -> Any:
        rows = self.order[self.at:self.at + BATCH]
        if len(rows) < BATCH:
            raise StopIteration
        self.at += BATCH
        noise = np.random.normal(0, 0.01, (BATCH, 4))
        return mx.io.DataBatch([mx.nd.array(self.data[rows] + noise)],
                               [mx.nd.array(self.label[rows])], pad=0)


def shuffled(data: Any, label: Any, **options: Any) -> Any:
    return mx.io.NDArrayIter(data, label, BATCH, shuffle=True, **options)


def resized(data: Any, label: Any) -> Any:
    return mx.io.ResizeIter(shuffled(data, label), 7, reset_internal=False)


def plain(data: Any, label: Any) -> Any:
    return mx.io.NDArrayIter(data, label, BATCH)


def columns(*_: Any) -> Any:
    """Samples with three elements of 40 columns each."""
    rng = np.random.default_rng(9)
    read = np.sort(np.argsort(rng.random((SAMPLES, COLUMNS)))[:, :3])
    data = mx.nd.sparse.csr_matrix(
        (rng.standard_normal(read.size).astype("float32"), read.reshape(-1),
         np.arange(0, read.size + 1, 3)), shape=(SAMPLES, COLUMNS))
    return mx.io.NDArrayIter(data, read[:, 0] % 3, BATCH, last_batch_handle="discard")


def rolled(data: Any, label: Any) -> Any:
    return shuffled(data, label, last_batch_handle="roll_over")


def sentences(*_: Any) -> Any:
    """Sentences of three lengths, in an order that is drawn for every epoch."""
    rng = np.random.default_rng(8)
    return mx.rnn.BucketSentenceIter(
        [list(rng.integers(0, 3, length)) for length in [3, 5, 8] * 10], BATCH, invalid_label=0)


SGD = {"optimizer": "sgd", "optimizer_params": {"learning_rate": 0.2, "momentum": 0.9}}
ADAM = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.05}}


def scheduled(name: str, **options: Any) -> Any:
    """Adam with a scheduler, made anew for every run."""
    return lambda: {"optimizer": "adam", "optimizer_params": {
        "learning_rate": 0.1, "lr_scheduler": getattr(mx.lr_scheduler, name)(**options)}}


CASES: dict[str, dict[str, Any]] = {
    "sgd": {"fit": SGD, "iterator": plain},
    "sgd, shuffled": {"fit": SGD},
    "sgd, shuffled, two contexts": {"fit": SGD, "contexts": 2},
    "sgd, device store": {"fit": {**SGD, "kvstore": "device"}, "contexts": 2},
    "sgd, no store": {"fit": {**SGD, "kvstore": None}, "contexts": 2},
    "sgd, three contexts, updates on each": {
        "fit": {**SGD, "kvstore": "device"}, "contexts": 3, "update_on_kvstore": "0"},
    "adam": {"fit": ADAM},
    "adam, dropout": {"fit": ADAM, "dropout": 0.4},
    "adam, dropout, two contexts": {"fit": ADAM, "dropout": 0.4, "contexts": 2},
    "adam, normalised, two contexts": {"fit": ADAM, "norm": True, "contexts": 2},
    "adam, half precision": {"fit": {"optimizer": "adam", "optimizer_params": {
        "learning_rate": 0.05, "multi_precision": True}}, "dtype": "float16", "dropout": 0.2},
    "sgd, half precision": {"fit": {"optimizer": "sgd", "optimizer_params": {
        "learning_rate": 0.2, "momentum": 0.9, "multi_precision": True}}, "dtype": "float16",
        "contexts": 2},
    "steps": {"fit": scheduled("MultiFactorScheduler", step=[3, 8, 13], factor=0.5)},
    "factors": {"fit": scheduled("FactorScheduler", step=3, factor=0.7), "contexts": 2},
    "cosine": {"fit": scheduled("CosineScheduler", max_update=15, warmup_steps=4)},
    "rate set by a callback": {"fit": ADAM, "decay": True},
    "samples rolled over": {"fit": SGD, "iterator": rolled},
    "resized": {"fit": SGD, "iterator": resized},
    "own iterator": {"fit": SGD, "iterator": Drawn},
    "evaluation that draws": {"fit": ADAM, "dropout": 0.4, "mode": "always", "eval": True},
    "compression": {"fit": {**SGD, "kvstore": "device"}, "contexts": 2,
                    "module": {"compression_params": {"type": "2bit", "threshold": 0.02}}},
    "in the midst of an epoch": {"fit": ADAM, "dropout": 0.4, "batch": 2},
    "in the midst, rolled over": {"fit": SGD, "iterator": rolled, "batch": 1},
    "in the midst, resized": {"fit": SGD, "iterator": resized, "batch": 6},
    "in the midst, own iterator": {"fit": SGD, "iterator": plain, "batch": 3, "untold": True},
    "in the midst, normalised on two contexts": {
        "fit": ADAM, "norm": True, "contexts": 2, "batch": 2},
    "in the midst, devices apart": {"fit": {**SGD, "kvstore": None}, "contexts": 3, "batch": 3},
    "three contexts": {"fit": ADAM, "contexts": 3},
    "after the last batch": {"fit": SGD, "batch": 4},
    "after fit": {"fit": SGD, "dropout": 0.4, "after": True},
    "buckets": {"fit": ADAM, "iterator": sentences, "buckets": True},
    "buckets, two contexts, in the midst": {
        "fit": {**SGD, "kvstore": "device"}, "iterator": sentences, "buckets": True, "contexts": 2,
        "batch": 3, "module": {"compression_params": {"type": "2bit", "threshold": 0.02}}},
    **{f"rows, {name}": {"fit": {"optimizer": name}, "rows": True, "iterator": columns}
       for name in ("adam", "adagrad", "ftrl")},
    "rows, two contexts": {"fit": SGD, "rows": True, "iterator": columns, "contexts": 2},
    "rows, in the midst of an epoch": {
        "fit": ADAM, "rows": True, "iterator": columns, "batch": 2},
    **{name: {"fit": {"optimizer": name, "optimizer_params": {"learning_rate": 0.02}},
              "contexts": 1 + (name in ("nadam", "rmsprop"))}
       for name in ("nag", "rmsprop", "adagrad", "adadelta", "adamax", "dcasgd", "ftml", "ftrl",
                    "lamb", "lars", "lbsgd", "nadam", "sgld", "signum")},
    "groupadagrad": {"fit": {"optimizer": "groupadagrad"},  # which steps matrices only
                     "module": {"fixed_param_names": ["fc1_bias", "fc2_bias"]}},
}


def prefix_of(name: str, folder: Path) -> str:
    """The beginning of the names of a run's files."""
    return str(folder / name.replace(" ", "_").replace(",", ""))


def run(name: str, part: str, folder: Path) -> dict[str, np.ndarray]:
    """The "whole" training, its "first" part, or the "rest" of it; all arrays at the end."""
    case = CASES[name]
    prefix = prefix_of(name, folder)
    if part != "rest":  # which is not seeded
        mx.random.seed(5)
        random.seed(6)
        np.random.seed(7)
    train, others = _iterators(case)
    module = _module(case, prefix if part == "rest" else None)
    fit = case["fit"]() if callable(case["fit"]) else case["fit"]
    batches, epochs = _callbacks(case, part, module, prefix)
    if part == "rest":
        start = {}
    else:
        start = _start(case)
    module.fit(train, eval_data=others, begin_epoch=BROKEN_AT if part == "rest" else 0,
               num_epoch=BROKEN_AT if part == "first" and case.get("after") else EPOCHS,
               batch_end_callback=batches, epoch_end_callback=epochs,
               **({"sparse_row_id_fn": _rows_read} if case.get("rows") else {}),
               **({"arg_params": start, "allow_missing": True} if start else {}), **fit)
    if part == "first" and case.get("after"):
        mx.nd.random.uniform(shape=(3,))
        module.save_checkpoint(prefix, BROKEN_AT, save_optimizer_states=True)
    return _results(module, prefix)


def _start(case: dict[str, Any]) -> dict[str, Any]:
    """Parameters to start with."""
    shapes = {"fc1_weight": (6, 4), "fc1_bias": (6,), "fc2_weight": (3, 6), "fc2_bias": (3,),
              **({"bn_gamma": (6,), "bn_beta": (6,)} if case.get("norm") else {})}
    if case.get("rows"):
        shapes = {"rows": (COLUMNS, 3), "bias": (3,)}
    drawn = np.random.default_rng(3)
    found = {key: mx.nd.array(drawn.standard_normal(shape) * 0.4) for key, shape in shapes.items()}
    return {key: array.tostype("row_sparse") if key == "rows" else array
            for key, array in found.items()}


def _iterators(case: dict[str, Any]) -> tuple[Any, Any]:
    make = case.get("iterator", shuffled)
    train = make(*samples(1, case.get("dtype", "float32")))
    if case.get("untold"):
        train.state_dict = lambda: None
    return train, shuffled(*samples(2)) if case.get("eval") else None


def _module(case: dict[str, Any], prefix: str | None) -> Any:
    options = {"context": [mx.cpu(i) for i in range(case.get("contexts", 1))],
               **case.get("module", {})}
    if case.get("buckets"):
        options |= {"sym_gen": network_of_bucket, "default_bucket_key": 8}
    kind = mx.mod.BucketingModule if case.get("buckets") else mx.mod.Module
    if prefix is not None:
        return kind.load(prefix, BROKEN_AT, load_optimizer_states=True, **options)
    if case.get("buckets"):
        return kind(**options)
    if case.get("rows"):
        return kind(network_of_rows(), **options)
    net = network(case.get("dropout", 0.0), case.get("mode", "training"), case.get("norm", False))
    return kind(net, **options)


def _rows_read(batch: Any) -> dict[str, Any]:
    return {"rows": batch.data[0].indices}


class Broken(Exception):
    """The process is about to end."""


def _callbacks(case: dict[str, Any], part: str, module: Any, prefix: str) -> tuple[Any, Any]:
    """(batch callback, epoch callback) that save and stop where the case requests it."""
    def after_batch(param: Any) -> None:
        if part == "first" and (param.epoch, param.nbatch) == (BROKEN_AT, case["batch"]):
            module.save_checkpoint(prefix, BROKEN_AT, save_optimizer_states=True)
            raise Broken

    def after_epoch(epoch: int, *_: Any) -> None:
        if case.get("decay"):
            module._optimizer.lr *= 0.5
        if part == "first" and not case.get("after") and epoch + 1 == BROKEN_AT:
            save(epoch)
            raise Broken

    save = mx.callback.module_checkpoint(module, prefix, save_optimizer_states=True)
    if "batch" in case:
        return after_batch, None
    return None, after_epoch


def _results(module: Any, prefix: str) -> dict[str, np.ndarray]:
    args, auxs = module.get_params()
    found = {name: array.tostype("default").asnumpy() for name, array in {**args, **auxs}.items()}
    module.save_optimizer_states(f"{prefix}.final")
    found["states"] = np.frombuffer(Path(f"{prefix}.final").read_bytes(), np.uint8)
    optimizer = module._optimizers()[0]
    found["rate"] = np.array([optimizer.learning_rate, optimizer.num_update])
    found["drawn"] = mx.nd.random.uniform(shape=(2,)).asnumpy()
    train_metric = module.history[-1]["train"].values()
    return {**found, "epochs": np.array([past["epoch"] for past in module.history]),
            "metric": np.array(list(train_metric))}


def main(part: str, folder: Path) -> None:
    logging.disable()
    for name, case in CASES.items():
        os.environ["MXNET_UPDATE_ON_KVSTORE"] = case.get("update_on_kvstore", "1")
        try:
            found = run(name, part, folder)
        except Broken:
            continue
        if part != "first":
            np.savez(folder / f"{part} {name}.npz", **found)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        main(name, Path(sys.argv[1]))
