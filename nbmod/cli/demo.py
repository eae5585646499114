"""`demo`: train LeNet on handwritten digits, and save an MXNet checkpoint.

Data: 1,797 real digits by 43 people (see `data/README.md` for the source), enlarged to the 28 x 28
pixels LeNet was made for.  Everything goes through the public API, as a user would write it.
"""

from __future__ import annotations

import pathlib
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

from .. import context, initializer, io, metric, module, random
from .. import symbol as sym
from ..base import MXNetError
from ..callback import history
from ..callback.epoch_bars import epoch_text
from ..core.atomic import named_errors, require_writable
from ..core.screen import is_watched
from ..ops.jit import has_compiler

__all__ = ["demo", "lenet", "load_digits"]

BATCH = 60
"""Divides the number of validation images, so every one of them counts once."""
EVERY = 5
"""Every fifth image is for validation; the same people wrote both parts."""


def load_digits(size: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels): float32 (1797, 1, size, size) in 0..1, and float32 (1797,)."""
    with np.load(pathlib.Path(__file__).parents[1] / "data" / "digits.npz") as file:
        images, labels = file["images"].astype(np.float32) / 16, file["labels"]
    rows = _interpolation(images.shape[1], size)
    images = np.einsum("yi,nij,xj->nyx", rows, images, rows, optimize=True)
    return images[:, None].astype(np.float32), labels.astype(np.float32)


def _interpolation(source: int, target: int) -> np.ndarray:
    """(target, source) matrix of linear interpolation along one axis, pixel centres aligned."""
    position = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    left = np.minimum(position.astype(int), source - 2)
    matrix = np.zeros((target, source), np.float32)
    matrix[np.arange(target), left] = 1 - (position - left)
    matrix[np.arange(target), left + 1] += position - left
    return matrix


def lenet(num_classes: int = 10) -> Any:
    """LeNet as in MXNet's examples: two convolutions, tanh and pooling, two dense layers."""
    x = sym.Variable("data")
    for number, filters in ((1, 20), (2, 50)):
        x = sym.Convolution(x, kernel=(5, 5), num_filter=filters, name=f"conv{number}")
        x = sym.Activation(x, act_type="tanh", name=f"tanh{number}")
        x = sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{number}")
    x = sym.FullyConnected(sym.Flatten(x, name="flatten"), num_hidden=500, name="fc1")
    x = sym.Activation(x, act_type="tanh", name="tanh3")
    x = sym.FullyConnected(x, num_hidden=num_classes, name="fc2")
    return sym.SoftmaxOutput(x, name="softmax")


def _say(text: str) -> None:
    """Print and flush, so that lines stay in order with the progress on the other stream."""
    print(text, flush=True)


def demo(out: pathlib.Path, epochs: int = 12) -> float:
    """Train, save, reload and score; returns the validation accuracy of the reloaded network."""
    if find_spec("matplotlib") is None:
        raise MXNetError("the demo draws its learning curve with matplotlib: "
                         "pip install 'nbmod[demo]'")
    prefix, plot = str(out / "lenet"), out / "learning-curve.png"
    with named_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    for path in (f"{prefix}-symbol.json", f"{prefix}-{epochs:04d}.params", plot):
        require_writable(path)
    images, labels = load_digits()
    held_out = np.arange(len(images)) % EVERY == 0
    train = io.NDArrayIter(images[~held_out], labels[~held_out], BATCH, shuffle=True)
    validation = io.NDArrayIter(images[held_out], labels[held_out], BATCH)
    _say(f"LeNet on {train.num_data} handwritten digits, {validation.num_data} for validation")
    if has_compiler():
        started = time.perf_counter()
        _compile(train)
        _say("kernels compiled, or loaded from the cache, in "
             f"{time.perf_counter() - started:.1f} s")
    random.seed(7)
    train.reset()
    network = module.Module(lenet(), context=context.cpu())
    started = time.perf_counter()
    network.fit(train, eval_data=validation, optimizer="sgd", num_epoch=epochs,
                optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4},
                initializer=initializer.Xavier(), **_told(network, epochs))
    _say(f"trained {epochs} epochs in {time.perf_counter() - started:.1f} s")
    network.save_checkpoint(prefix, epochs)
    accuracy = _reload_and_score(prefix, epochs, validation)
    history.plot(network.history, plot, "LeNet on handwritten digits, nbmod")
    _say(f"validation accuracy of the checkpoint, read back: {accuracy:.1%}")
    _say(f"Done: {prefix}-symbol.json and {prefix}-{epochs:04d}.params (MXNet format), {plot}")
    return accuracy


def _told(network: Any, epochs: int) -> dict[str, Any]:
    """Options of `fit`: where it does not show its progress itself, a line tells of each epoch."""
    def tell(param: Any) -> None:
        validation = dict(param.eval_metric.get_name_value())
        _say(epoch_text(network.history[-1] | {"validation": validation}, epochs))

    return {} if is_watched() else {"eval_end_callback": tell}


def _compile(train: Any) -> None:
    """Run every kernel once on a separate network, so that training time excludes compilation."""
    network = module.Module(lenet())
    network.bind(train.provide_data, train.provide_label)
    network.init_params()
    network.init_optimizer(optimizer="sgd", optimizer_params={"momentum": 0.9})
    network.forward_backward(next(train))
    network.update()


def _reload_and_score(prefix: str, epoch: int, validation: Any) -> float:
    network = module.Module.load(prefix, epoch)
    network.bind(validation.provide_data, validation.provide_label, for_training=False)
    accuracy = metric.Accuracy()
    network.score(validation, accuracy)
    return accuracy.get()[1]
