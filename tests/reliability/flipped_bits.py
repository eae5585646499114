"""Flipped bits: one bit of one file of a checkpoint differs, and verification must say so."""

from __future__ import annotations

import logging
import pathlib
import random
import tempfile
from collections.abc import Callable

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.integrity import verify_checkpoint
from tests.reliability.figures import Effort, Figure, Promise

PUBLISHED = 20_000
KINDS = ("symbol.json", "0001.params", "0001.states", "0001.resume", "0001.sha256")


def _saved(folder: pathlib.Path) -> str:
    """A small network with BatchNorm, trained for one epoch and saved."""
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    train = mx.io.NDArrayIter(mx.nd.array([[1, 2], [3, 4], [5, 7], [8, 8]]),
                              mx.nd.array([0, 1, 2, 0]), 2, shuffle=True)
    prefix = str(folder / "net")
    module.fit(train, num_epoch=1, optimizer="adam", epoch_end_callback=mx.callback
               .module_checkpoint(module, prefix, save_optimizer_states=True, integrity=True))
    return prefix


def _bits(path: pathlib.Path, effort: Effort) -> list[int]:
    """Positions of all bits, or of a random part of them."""
    bits, wanted = 8 * path.stat().st_size, effort.trials(PUBLISHED // len(KINDS), at_least=20)
    if bits <= wanted:
        return list(range(bits))
    return random.Random(f"{path.name} {effort.seed}").sample(range(bits), wanted)


def _trials(path: pathlib.Path, bits: list[int], load: Callable[[], None]) -> list[int]:
    """The bits that `load` does not notice."""
    sound, missed = path.read_bytes(), []
    for bit in bits:
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            load()
        except MXNetError:
            continue
        missed.append(bit)
    path.write_bytes(sound)
    load()
    return missed


def measure(effort: Effort) -> list[Figure]:
    """One figure for each file of a checkpoint."""
    figures, before = [], logging.root.manager.disable
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = _saved(folder)
        for kind in KINDS:
            path = folder / f"net-{kind}"
            bits = _bits(path, effort)
            missed = _trials(path, bits, lambda: verify_checkpoint(prefix, 1))
            figures.append(Figure(f"Flipped bits of {kind}", len(bits), tuple(
                f"bit {bit} of {8 * path.stat().st_size}" for bit in missed)))
    logging.disable(before)
    return figures


PROMISE = Promise(5, "Flipped bits", "Every flipped bit is found when asked", measure)
