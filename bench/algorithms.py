"""Algorithms of convolution and pooling: how much slower shapes are without some of them.

    python -m bench.algorithms --without conv_lowered [--networks] [--count N] [--dtype float64]

Takes the layers of published networks (`bench.layers`) at several batches, or the random cases of
`bench.sweep`, and the gradients of their data and weights.  Where the algorithm of least estimated
cost is another one without those named, both are timed in turns on one thread, by its processor
time; the figure is the ratio of the least times, without over with.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np

from nbmod.bench import Pace, side_by_side
from nbmod.ops import dispatch
from nbmod.ops.dispatch import NUMBA, Choice
from nbmod.ops.jit import denormals
from nbmod.ops.nn import convolution
from nbmod.ops.nn.convolution import ConvolutionDirection
from nbmod.ops.nn.pooling import Pooling
from nbmod.ops.nn.sliding_window import Direction, Geometry, Window, sliding_size, span_of
from nbmod.ops.op import Call, Spec

from . import shapes
from .layers import CONVOLUTIONS, POOLINGS, TRANSPOSED, Layer
from .peers import arm_of

BATCHES = (1, 32)
MOST = 3 * 10 ** 8
"""Multiplications of a layer; a batch with more is left out."""
PACE = Pace(block=0.004)
DIRECTIONS: tuple[Direction, ...] = ("forward", "data", "weight")


class Loss(NamedTuple):
    """Seconds of a shape with all algorithms and without some, and the algorithms."""

    name: str
    best: float
    without: float
    modules: tuple[str, str]
    others: Sequence[tuple[float, str]] = ()

    @property
    def ratio(self) -> float:
        return self.without / self.best

    def __str__(self) -> str:
        other = f"; {self.others[0][1]} {self.others[0][0] * 1e3:.3f} ms" if self.others else ""
        return (f"{self.ratio:7.2f} {self.best * 1e3:9.3f} ms {self.without * 1e3:9.3f} ms  "
                f"{self.modules[0]} -> {self.modules[1]}{other}  {self.name}")


@contextmanager
def restricted(without: Sequence[str]) -> Iterator[None]:
    """Choices without these algorithms."""
    kept = [row for row in dispatch.rows(ConvolutionDirection, NUMBA) if row.name not in without]
    convolution._fastest.cache_clear()
    with patch.dict(dispatch._FOUND, {(ConvolutionDirection, NUMBA, False): kept}):
        yield
    convolution._fastest.cache_clear()


def geometry(batch: int, layer: Layer) -> Geometry:
    out = sliding_size(layer.image, span_of(layer.kernel, layer.dilate), layer.stride, layer.pad)
    window = Window.over(layer.image, out, layer.kernel, layer.stride, layer.pad, layer.dilate)
    return Geometry(window, batch, layer.channels, layer.filters, layer.groups)


def layers(only: Sequence[str] = ()) -> Iterator[tuple[str, Geometry]]:
    """Layers of networks at all batches that fit."""
    for kind, what in ((CONVOLUTIONS, ""), (TRANSPOSED, "transposed ")):
        for name, some in kind.items():
            for layer in some if not only or name in only else []:
                for batch in BATCHES:
                    geo = geometry(batch, layer)
                    if geo.products <= MOST:
                        yield f"{name} {what}{layer} x {batch}", geo


def random_cases(count: int) -> Iterator[tuple[str, Geometry]]:
    for number, case in shapes.cases(0, count, "conv"):
        how = case.attrs
        image = case.shapes["data"][2:]
        batch, channels = case.shapes["data"][:2]
        filters = how["num_filter"]
        if case.op == "Deconvolution":
            channels, filters = filters, channels
            image = tuple((o - 1) * s + d * (k - 1) + 1 - 2 * p for o, k, s, p, d in zip(
                image, *(how[key] for key in ("kernel", "stride", "pad", "dilate")), strict=True))
        layer = Layer(channels, image, filters, how["kernel"], how["stride"], how["pad"],
                      how["dilate"], how["num_group"])
        yield f"{number} {case.key}", geometry(batch, layer)


def seconds(runs: Sequence[Callable[[], None]], turns: int) -> list[float]:
    """The least processor time of each, in turns."""
    arms = {str(number): arm_of(run, str(number), processor=True)
            for number, run in enumerate(runs)}
    return [each.least for each in side_by_side(arms, seconds=inf, rounds=turns,
                                                pace=PACE).values()]


def convolutions(cases: Iterator[tuple[str, Geometry]], without: Sequence[str], dtype: Any,
                 turns: int) -> Iterator[Loss | None]:
    """A loss for every direction of every case whose algorithm changes, None for the others."""
    random = np.random.default_rng(0)
    for name, geo in cases:
        for direction in DIRECTIONS:
            found = []
            for names in ((), without):
                with restricted(names):
                    choice = convolution.fastest(geo, direction, dtype)
                    found.append((choice, _described(choice)))
            if found[0][1] == found[1][1]:
                yield None
                continue
            shapes_of = ((geo.images, geo.channels, *geo.window.image),
                         (geo.filters, geo.group_channels, *geo.window.kernel),
                         (geo.images, geo.filters, *geo.window.out))
            x, w, y = (random.standard_normal(shape, np.float32).astype(dtype)
                       for shape in shapes_of)
            runs = []
            for names, (choice, _) in zip(((), without), found, strict=True):
                with restricted(names):
                    work = [np.zeros(*spec) for spec in choice.workspace]
                    runs.append(choice.prepare([x, w, y, None], [], Call(scratch=work)))
            best, slower = seconds(runs, turns)
            others = _others(geo, direction, (x, w, y), without) if slower > 2 * best else []
            yield Loss(f"{direction} {name}", best, slower, (found[0][1], found[1][1]), others)


def _others(geo: Geometry, direction: Direction, arrays: tuple[Any, Any, Any],
            without: Sequence[str]) -> list[tuple[float, str]]:
    """Seconds of the algorithms that remain."""
    found = []
    with restricted(without):
        choice = convolution.fastest(geo, direction, arrays[0].dtype)
        for row, estimate in choice.candidates:
            if estimate.cost is not None and estimate.cost < 1e10:
                work = [np.zeros(*spec) for spec in row.workspace(choice.op, [], [])]
                run = row.prepare(choice.op, [*arrays, None], [], Call(scratch=work))
                found.append((seconds([run], 1)[0], row.name))
    return sorted(found)


def _described(choice: Choice) -> str:
    """The algorithm, and those inside it."""
    names = sorted({_described(part) for part in choice.parts})
    if choice.name == "conv_squeezed":
        return names[0]
    return choice.name + (f" of {' '.join(names)}" if names else "")


def poolings(count: int, dtype: Any, turns: int) -> Iterator[Loss | None]:
    """Poolings with and without interleaved planes."""
    random = np.random.default_rng(0)
    if count:
        cases = [(f"{number} {case.key}", case.attrs, case.shapes["data"])
                 for number, case in shapes.cases(0, count, "pool")]
    else:
        cases = [(f"{name} {kind} {layer} x {batch}",
                  {"kernel": layer.kernel, "stride": layer.stride, "pad": layer.pad,
                   "pool_type": kind}, (batch, layer.channels, *layer.image))
                 for name, some in POOLINGS.items() for kind, layer in some for batch in BATCHES]
    for name, how, shape in cases:
        op = Pooling(**how)
        planes, window, _ = op.squeezed(Spec(shape, dtype))
        for direction in ("forward", "data"):
            if op.is_whole(window) or not op.is_interleaved(planes, window):
                yield None
                continue
            x = random.standard_normal(shape, np.float32).astype(dtype)
            out = op.infer_shape([shape], [None])[1][0]
            assert out is not None
            y, g = np.zeros(out, dtype), random.standard_normal(out, np.float32).astype(dtype)
            gx, runs = np.zeros_like(x), []
            needs = {"ograd": g, "data": x, "output": y}
            for interleaved in (True, False):
                with patch.object(Pooling, "is_interleaved", return_value=interleaved):
                    work = [np.zeros(*spec) for spec in op._buffers(x, direction == "data")]
                    forward = op.prepare([x], [y], Call(scratch=[
                        np.zeros(*spec) for spec in op._buffers(x, False)]))
                    forward()
                    runs.append(forward if direction == "forward" else op.prepare_backward(
                        [needs[each] for each in op.list_needs()], [gx], Call(scratch=work)))
            both = seconds(runs, turns)
            yield Loss(f"{direction} {name}", both[0], both[1], ("interleaved", "padded"))


def report(found: Sequence[Loss | None], worst: int) -> Iterator[str]:
    changed = [each for each in found if each]
    total = sum(each.without for each in changed) / (sum(each.best for each in changed) or 1)
    ratios = np.array([each.ratio for each in changed] or [1.0])
    yield (f"{len(found)} directions, {len(changed)} change; total {total:.2f}, geometric mean "
           f"{np.exp(np.log(ratios).mean()):.2f}, above 2: {(ratios > 2).sum()}, "
           f"below 0.8: {(ratios < 0.8).sum()}")
    by: dict[str, list[float]] = defaultdict(list)
    for each in changed:
        by[f"{each.modules[0]} -> {each.modules[1]}"].append(each.ratio)
    for key, some in sorted(by.items()):
        yield (f"{len(some):6} {key}: geometric mean {np.exp(np.log(some).mean()):.2f}, "
               f"most {max(some):.2f}")
    for each in sorted(changed, key=lambda each: -each.ratio)[:worst]:
        yield str(each)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.algorithms")
    parser.add_argument("--without", nargs="+", default=[])
    parser.add_argument("--count", type=int, default=0, help="random cases; default: networks")
    parser.add_argument("--only", nargs="+", default=[], help="names of networks")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--worst", type=int, default=25)
    options = parser.parse_args(argv)
    dtype = np.dtype(options.dtype)
    with denormals(False):
        found: list[Loss | None] = []
        cases = random_cases(options.count) if options.count else layers(options.only)
        for loss in (poolings(options.count, dtype, options.turns)
                     if options.without == ["pooling_interleaved"]
                     else convolutions(cases, options.without, dtype, options.turns)):
            found.append(loss)
            if loss and loss.ratio > 2:
                print(loss, flush=True)
    print("\n".join(report(found, options.worst)))


if __name__ == "__main__":
    main()
