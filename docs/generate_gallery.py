"""Writes what the gallery of the site shows: pictures of memory, and the pages of plans.

    python docs/generate_gallery.py FOLDER          all of them: NAME.svg and NAME.html
    python docs/generate_gallery.py FOLDER lenet    one
    python docs/generate_gallery.py                 docs/internals/executor-plan.svg

`docs/gallery.md` has the words; `docs/build.py` puts each picture where `<!-- NAME -->` is.

Plans are those of the machine that builds the site: nothing is bound, measured or trained.
"""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

import nbmod as mx  # noqa: E402
from bench.networks import conv_unit, language_model, lenet, resnet  # noqa: E402
from bench.quantized import quantised, real  # noqa: E402
from nbmod.explain.explanation import Explanation  # noqa: E402
from nbmod.explain.plan_chart import plan_chart  # noqa: E402

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Exhibit:
    """A network, and how it is bound."""

    name: str
    title: str
    build: Callable[[], Any]
    shapes: Shapes
    is_trained: bool
    beside: Callable[[], Any] | None = None
    """A network with which its page compares it, planned by all passes."""
    without: str = ""
    """A pass that is switched off."""


def detector() -> Any:
    """A single-shot detector on three scales."""
    x = conv_unit(conv_unit(mx.sym.Variable("data"), "stem", 32, 3, 2), "body", 64, 3, 2)
    scores, boxes, anchors = [], [], []
    for scale, size in enumerate((.1, .3, .6)):
        x = conv_unit(x, f"scale{scale}", 128, 3, 2)
        heads = [(scores, 4 * 21, "scores"), (boxes, 4 * 4, "boxes")]
        for found, filters, name in heads:
            head = mx.sym.Convolution(x, num_filter=filters, kernel=(3, 3), pad=(1, 1),
                                      name=f"{name}{scale}")
            found.append(mx.sym.Flatten(mx.sym.transpose(head, axes=(0, 2, 3, 1))))
        anchors.append(mx.sym.contrib.MultiBoxPrior(x, sizes=(size, 1.4 * size), ratios=(1, 2, .5)))
    classes = mx.sym.transpose(mx.sym.Reshape(mx.sym.Concat(*scores, dim=1), shape=(0, -1, 21)),
                               axes=(0, 2, 1))
    return mx.sym.contrib.MultiBoxDetection(
        mx.sym.SoftmaxActivation(classes, mode="channel", name="probabilities"),
        mx.sym.Concat(*boxes, dim=1), mx.sym.Concat(*anchors, dim=1), name="detection")


resnet50 = partial(resnet, [3, 4, 6, 3], True)
unrolled, operator = (partial(language_model, is_fused, words=1000, hidden=128, layers=1, length=16,
                              batch=16) for is_fused in (False, True))
WORDS: Shapes = {"ids": (16, 16), "softmax_label": (16, 16)}
IMAGES: Shapes = {"data": (16, 3, 224, 224)}
EXHIBITS = (
    Exhibit("lenet", "LeNet, training", lenet, {"data": (64, 1, 28, 28)}, True),
    Exhibit("resnet50-inference", "ResNet-50, inference", resnet50, IMAGES, False),
    Exhibit("resnet50-training", "ResNet-50, training", resnet50, IMAGES, True),
    Exhibit("lstm-unrolled", "LSTM, unrolled", unrolled, WORDS, True, unrolled, "reroll_rnn"),
    Exhibit("lstm-operator", "LSTM, the RNN operator", operator, WORDS, True, unrolled),
    Exhibit("detector", "A detector", detector, {"data": (4, 3, 256, 256)}, False),
    Exhibit("int8", "8-bit integers", lambda: quantised(128), {"data": (16, 512, 28, 28)}, False,
            lambda: real(128)))


def explained(one: Exhibit) -> Explanation:
    """The plan of an exhibit, without arrays."""
    with mx.without_passes(*filter(None, [one.without])):
        return planned(one.build, one)


def planned(build: Callable[[], Any], one: Exhibit) -> Explanation:
    """The plan of a network that is bound as an exhibit is."""
    with mx.name.NameManager():
        symbol = build()
    requests = {name: "write" for name in symbol.list_arguments()
                if one.is_trained and name not in one.shapes and not name.endswith("label")}
    return Explanation.planned(symbol, one.shapes, mx.cpu(), requests)


def write(folder: Path, exhibits: Iterable[Exhibit] = EXHIBITS) -> None:
    """Write pictures and pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in exhibits:
        plan = explained(one)
        plan.variants("inplace", "reuse_memory", *(["mirror"] if one.is_trained else []))
        plan_chart(plan.facts.plan, one.title, folder / f"{one.name}.svg")
        plan.page(folder / f"{one.name}.html", planned(one.beside, one) if one.beside else None)


def write_example() -> None:
    """Write the picture in `docs/internals/executor.md`, from the examples on that page."""
    names: dict[str, Any] = {}
    page = ROOT / "docs" / "internals" / "executor.md"
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        exec(example.source, names)
        if "chart" in names:
            names["executor"].plan_chart(page.with_name("executor-plan.svg"))
            return


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(write_example())
    write(Path(sys.argv[1]), [one for one in EXHIBITS if one.name in (sys.argv[2:] or one.name)])
