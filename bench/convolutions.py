"""Algorithms of convolution one by one: speed, and error relative to float64.

    python -m bench.convolutions              speed of the 3 x 3 layers of ResNet-50 and VGG-16
    python -m bench.convolutions --weights    the same of the gradients of their weights
    python -m bench.convolutions --accuracy   errors, as in docs/internals/cpu-engine.md

Speed counts multiplications and additions of direct convolution, as a share of the FMA peak of the
same threads, by processor time: NUMBA_NUM_THREADS=1 gives figures that other processes disturb
least.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nbmod.bench import side_by_side
from nbmod.bench.roofs import measured_roofs
from nbmod.ops.blocked import choose_algorithm
from nbmod.ops.blocked.address_tables import Sliding
from nbmod.ops.blocked.blocked_convolution import Kernels
from nbmod.ops.blocked.reorder import from_blocks, into_blocks
from nbmod.ops.device import CPU
from nbmod.ops.jit import denormals, num_threads

from .peers import arm_of

SLIDE = Sliding((3, 3), pad=(1, 1))
RESNET = [(batch, c, c, size) for batch in (16, 1)
          for c, size in ((64, 56), (128, 28), (256, 14), (512, 7))]
VGG = [(1, *layer) for layer in ((64, 64, 224), (64, 128, 112), (128, 128, 112), (128, 256, 56),
                                 (256, 256, 56), (256, 512, 28), (512, 512, 28), (512, 512, 14))]
"""(batch, channels, filters, rows and columns)"""
BUDGET = 0.25
"""Seconds for each figure."""


def layer_of(batch: int, channels: int, filters: int, size: int, fresh: bool = False
             ) -> choose_algorithm.Layer:
    return choose_algorithm.Layer(SLIDE, batch, channels, (size, size), filters, (size, size),
                                  fresh)


def arrays(k: Kernels, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Data with the statistics of images, filters with those of a new network."""
    x = random.randn(k.batch, k.x.channels, k.x.height, k.x.width).astype("f")
    w = random.randn(k.y.channels, k.x.channels, 3, 3) / np.sqrt(9 * k.x.channels)
    return x, w.astype("f")


def gradient(k: Kernels, random: np.random.RandomState) -> np.ndarray:
    """A random gradient of the output."""
    return random.randn(k.batch, k.y.channels, k.y.height, k.y.width).astype("f")


def prepared(k: Kernels, x: np.ndarray, w: np.ndarray) -> tuple[Callable[[], None], np.ndarray]:
    """A function that computes a layer from packed filters, and its result in the blocked
    layout."""
    blocks, y = (CPU.empty(form.shape(k.batch), "f") for form in (k.x, k.y))
    filters, workspace = CPU.empty(*k.filters), CPU.empty(*k.workspace(False))
    into_blocks(k.x, x, blocks)
    k.pack(w, filters, workspace)
    return k.forward(blocks, filters, None, y, workspace=workspace), y


def weighed(k: Kernels, x: np.ndarray, g: np.ndarray) -> tuple[Callable[[], None], np.ndarray]:
    """A function that computes the gradient of a layer's weight, and the array that receives it."""
    blocks, grads = (CPU.empty(form.shape(k.batch), "f") for form in (k.x, k.y))
    into_blocks(k.x, x, blocks)
    into_blocks(k.y, g, grads)
    gw, packed = CPU.empty((k.y.channels, k.x.channels, 3, 3), "f"), CPU.empty(*k.summed)
    return k.weight(blocks, grads, packed, gw, workspace=CPU.empty(*k.weight_workspace)), gw


def seconds(runs: Sequence[Callable[[], None]]) -> list[float]:
    """The least processor time of each, per thread, in turns."""
    times = side_by_side({str(number): arm_of(run, str(number), processor=True)
                          for number, run in enumerate(runs)}, seconds=BUDGET * len(runs))
    return [each.least / num_threads() for each in times.values()]


def speeds(peak: float, weights: bool) -> Iterator[str]:
    yield "| batch, channels, filters, size | direct | F(2x2) | F(4x4) | chosen |"
    yield "|---|---|---|---|---|"
    for name, layers in (("ResNet-50", RESNET), ("VGG-16", VGG)):
        for case in layers:
            layer = layer_of(*case, weights)
            work, runs = 2 * 9 * np.prod([*case, case[-1]], dtype=float), []
            for algorithm in choose_algorithm.candidates(layer):
                k = layer.kernels(algorithm, 1)
                x, w = arrays(k, np.random.RandomState(0))
                runs.append((weighed(k, x, gradient(k, np.random.RandomState(1))) if weights
                             else prepared(k, x, w))[0])
            cells = [f"{work / taken / 1e9:.0f} GFLOP/s, {work / taken / peak:.0%}"
                     for taken in seconds(runs)]
            best = choose_algorithm.NAMES[choose_algorithm.choose(layer).algorithm]
            yield f"| {name} {case} | {' | '.join(cells)} | {best} |"


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution in float64."""
    wide = np.pad(x.astype("d"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows, w.astype("d"), optimize=True)


def errors() -> Iterator[str]:
    yield "| channels | numbers | direct | F(2x2) | F(4x4) |"
    yield "|---|---|---|---|---|"
    for channels in (16, 64, 256, 512):
        for kind in ("normal", "not below 0"):
            layer, cells = layer_of(1, channels, 32, 28), []
            for algorithm in choose_algorithm.candidates(layer):
                k = layer.kernels(algorithm, 1)
                x, w = arrays(k, np.random.RandomState(channels))
                x = np.maximum(x, 0) if kind == "not below 0" else x
                run, y = prepared(k, x, w)
                run()
                from_blocks(k.y, y, found := np.empty((1, 32, 28, 28), "f"))
                cells.append(wrong(found, reference(x, w)))
            yield f"| {channels} | {kind} | {' | '.join(cells)} |"


def weight_errors() -> Iterator[str]:
    yield "| pixels | numbers | direct | F(2x2) | F(4x4) |"
    yield "|---|---|---|---|---|"
    for batch, size in ((16, 56), (16, 28), (16, 14), (16, 7)):
        for kind in ("normal", "not below 0"):
            layer, cells = layer_of(batch, 32, 64, size, True), []
            for algorithm in choose_algorithm.candidates(layer):
                k = layer.kernels(algorithm, 1)
                x, g = arrays(k, np.random.RandomState(size))[0], gradient(
                    k, np.random.RandomState(1))
                x = np.maximum(x, 0) if kind == "not below 0" else x
                run, gw = weighed(k, x, g)
                run()
                turned = reference(x.swapaxes(0, 1), g.swapaxes(0, 1)).swapaxes(0, 1)
                cells.append(wrong(gw, turned))
            yield f"| {batch} x {size} x {size} | {kind} | {' | '.join(cells)} |"


def wrong(found: np.ndarray, expected: np.ndarray) -> str:
    """The largest error relative to the largest result, and the root mean square."""
    apart = found - expected
    return (f"{abs(apart).max() / abs(expected).max():.1e}, "
            f"{np.sqrt((apart ** 2).mean() / (expected ** 2).mean()):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accuracy", action="store_true", help="errors instead of speed")
    parser.add_argument("--weights", action="store_true", help="gradients of weights")
    given = parser.parse_args()
    with denormals(False):
        for line in ([*errors(), *weight_errors()] if given.accuracy else
                     speeds(measured_roofs().operations["float32"], given.weights)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
