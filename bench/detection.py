"""The ops of detectors at the sizes detectors use them, nbmod and MXNet interleaved in one run.

    python -m bench.detection [name ...]      a table: milliseconds, ratio
    python -m pytest bench/detection.py       the same by the fixture `kernel_benchmark`

Names are prefixes of rows' names.  Boxes are many detections of each of some objects, as from a
network.  Figures are medians, taken after the kernels have been compiled; nan where MXNet lacks the
op.  `results/detection-cpu.md` has such figures.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.bench.side_by_side import ArmTime

from .peers import arm_of, interval, mxnet_worker, peer_arm, timed
from .programs import steps

HEIGHT, WIDTH, STRIDE = 608, 800, 16
Arrays = dict[str, np.ndarray]


# --------------------------------------------------------------------------------------------- data

def boxes(count: int, seed: int = 0) -> np.ndarray:
    """(count, 4) corners in an image, around 40 objects."""
    rng = np.random.default_rng(seed)
    center, size = rng.uniform(0, (WIDTH, HEIGHT), (40, 2)), np.exp(rng.uniform(3, 6, (40, 2)))
    which = rng.integers(0, 40, count)
    middle = center[which] + 0.2 * size[which] * rng.standard_normal((count, 2))
    half = 0.5 * size[which] * np.exp(0.2 * rng.standard_normal((count, 2)))
    corners = np.hstack([middle - half, middle + half])
    return np.clip(corners, 0, (WIDTH, HEIGHT, WIDTH, HEIGHT)).astype(np.float32)


def scored(batch: int, count: int, classes: int = 0) -> np.ndarray:
    """(batch, count, 5 or 6): class if there are any, score, corners."""
    rng = np.random.default_rng(batch)
    rows = [np.hstack([rng.integers(0, classes, (count, 1)) if classes else np.empty((count, 0)),
                       rng.random((count, 1)), boxes(count, n)]) for n in range(batch)]
    return np.stack(rows).astype(np.float32)


def regions(count: int, images: int = 1) -> np.ndarray:
    """(count, 5): image, corners."""
    which = np.arange(count)[:, None] % images
    return np.hstack([which, boxes(count)]).astype(np.float32)


def turned(count: int) -> np.ndarray:
    """(count, 6): image, center, size, angle."""
    left, top, right, bottom = boxes(count).T
    angle = np.random.default_rng(0).uniform(-90, 90, count)
    return np.stack([0 * left, (left + right) / 2, (top + bottom) / 2, right - left, bottom - top,
                     angle], axis=1).astype(np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).random(shape, np.float32)


def labels(batch: int, count: int, classes: int) -> np.ndarray:
    """(batch, count, 5): class, corners relative to the image."""
    rng = np.random.default_rng(1)
    rows = [np.hstack([rng.integers(0, classes, (count, 1)),
                       boxes(count, n) / (WIDTH, HEIGHT, WIDTH, HEIGHT)]) for n in range(batch)]
    return np.stack(rows).astype(np.float32)


# -------------------------------------------------------------------------------------------- cases

@dataclass(frozen=True)
class Case:
    """An op with its parameters, its inputs, and the inputs whose gradient is requested."""

    op: str
    make: Callable[[], Arrays]
    attrs: dict[str, Any] = field(default_factory=dict)
    grad: tuple[str, ...] = ()
    peer_grad: bool = True
    """Whether MXNet has the gradient on the CPU."""

    def arguments(self) -> tuple[str, dict[str, tuple[int, ...]], Arrays, dict[str, str]]:
        """Of `steps.forward` and `steps.backward`."""
        values = self.make()
        module, name = ((mx.sym.contrib, self.op.removeprefix("_contrib_"))
                        if self.op.startswith("_contrib_") else (mx.sym, self.op))
        symbol = getattr(module, name)(**{each: mx.sym.Variable(each) for each in values},
                                       **self.attrs, name="op")
        return (symbol.tojson(), {name: value.shape for name, value in values.items()}, values,
                {name: "write" if name in self.grad else "null" for name in values})


def pooling(channels: int, rois: np.ndarray, **more: np.ndarray) -> Callable[[], Arrays]:
    """Features of an image and regions."""
    return lambda: {"data": numbers(1, channels, HEIGHT // STRIDE, WIDTH // STRIDE), "rois": rois,
                    **more}


def convolved(channels: int, height: int, width: int, groups: int, masked: bool
              ) -> Callable[[], Arrays]:
    """A 3x3 convolution with as many filters as channels, its taps within two pixels."""
    def make() -> Arrays:
        offset = 4 * numbers(1, 18 * groups, height, width) - 2
        mask = {"mask": numbers(1, 9 * groups, height, width)} if masked else {}
        return {"data": numbers(1, channels, height, width), "offset": offset, **mask,
                "weight": numbers(channels, channels, 3, 3) - 0.5}
    return make


def proposals(batch: int) -> Callable[[], Arrays]:
    """The output of a region proposal network with 12 anchors per pixel."""
    grid = HEIGHT // STRIDE, WIDTH // STRIDE
    return lambda: {"cls_prob": numbers(batch, 24, *grid),
                    "bbox_pred": 0.4 * numbers(batch, 48, *grid) - 0.2,
                    "im_info": np.array([[HEIGHT, WIDTH, 1]] * batch, np.float32)}


def images(*shape: int) -> Callable[[], Arrays]:
    """Features of two images, the second a shifted copy of the first."""
    return lambda: {"data1": numbers(1, *shape), "data2": np.roll(numbers(1, *shape), 3, axis=-1)}


def anchors(count: int) -> np.ndarray:
    return (boxes(count)[None] / (WIDTH, HEIGHT, WIDTH, HEIGHT)).astype(np.float32)


SCALE = 1 / STRIDE
WIN = {"kernel": (3, 3), "no_bias": True}
RPN = {"scales": (2, 4, 8, 16), "rpn_pre_nms_top_n": 6000, "rpn_post_nms_top_n": 300}
NMS = {"overlap_thresh": 0.7, "coord_start": 1, "score_index": 0, "valid_thresh": 0.01}
ALIGN = {"pooled_size": (7, 7), "spatial_scale": SCALE}
SSD = 24564  # anchors of SSD512
DATA = ("data",)

CASES = {
    "box_nms 1x6000": Case("_contrib_box_nms", lambda: {"data": scored(1, 6000)}, NMS),
    "box_nms 8x5000, 20 classes": Case(
        "_contrib_box_nms", lambda: {"data": scored(8, 5000, 20)},
        {**NMS, "overlap_thresh": 0.45, "coord_start": 2, "score_index": 1, "id_index": 0,
         "topk": 400}),
    "topk 6000 of 22800": Case("topk", lambda: {"data": numbers(1, 22800)},
                               {"k": 6000, "ret_typ": "both"}),
    "topk 100 of 80x128x128": Case("topk", lambda: {"data": numbers(1, 80 * 128 * 128)},
                                   {"k": 100, "ret_typ": "both"}),
    "sort 8x8732": Case("sort", lambda: {"data": numbers(8, 8732)}, {"is_ascend": False}),
    "argsort 8x8732": Case("argsort", lambda: {"data": numbers(8, 8732)}, {"is_ascend": False}),
    "ROIPooling 128, 512 channels": Case("ROIPooling", pooling(512, regions(128)), ALIGN, DATA),
    "ROIAlign 512, 256 channels": Case(
        "_contrib_ROIAlign", pooling(256, regions(512)), {**ALIGN, "sample_ratio": 2}, DATA),
    "ROIAlign 512, all points": Case("_contrib_ROIAlign", pooling(256, regions(512)), ALIGN, DATA),
    "ROIAlign 128, 14x14": Case(
        "_contrib_ROIAlign", pooling(256, regions(128)),
        {**ALIGN, "pooled_size": (14, 14), "sample_ratio": 2}, DATA),
    "RROIAlign 512, 256 channels": Case(
        "_contrib_RROIAlign", pooling(256, turned(512)), {**ALIGN, "sampling_ratio": 2}, DATA,
        False),
    "PSROIPooling 300, 21 classes": Case(
        "_contrib_PSROIPooling", pooling(21 * 49, regions(300)),
        {"spatial_scale": SCALE, "output_dim": 21, "pooled_size": 7}, DATA),
    "DeformablePSROIPooling 300": Case(
        "_contrib_DeformablePSROIPooling",
        pooling(21 * 49, regions(300), trans=numbers(300, 2, 7, 7)),
        {"spatial_scale": SCALE, "output_dim": 21, "pooled_size": 7, "group_size": 7,
         "part_size": 7, "sample_per_part": 4, "trans_std": 0.1}, ("data", "trans")),
    "DeformableConvolution 512": Case(
        "_contrib_DeformableConvolution", convolved(512, 38, 50, 4, False),
        {**WIN, "num_filter": 512, "pad": (2, 2), "dilate": (2, 2), "num_deformable_group": 4},
        ("data", "offset", "weight")),
    "ModulatedDeformableConvolution 64": Case(
        "_contrib_ModulatedDeformableConvolution", convolved(64, 128, 128, 1, True),
        {**WIN, "num_filter": 64, "pad": (1, 1)}, ("data", "offset", "mask", "weight"), False),
    "Proposal 12x38x50": Case("_contrib_Proposal", proposals(1), RPN),
    "MultiProposal 4x12x38x50": Case("_contrib_MultiProposal", proposals(4), RPN),
    "MultiBoxPrior 64x64": Case(
        "_contrib_MultiBoxPrior", lambda: {"data": numbers(1, 512, 64, 64)},
        {"sizes": (0.07, 0.1), "ratios": (1, 2, 0.5)}),
    "MultiBoxTarget 8x24564": Case(
        "_contrib_MultiBoxTarget", lambda: {
            "anchor": anchors(SSD), "label": labels(8, 16, 20), "cls_pred": numbers(8, 21, SSD)},
        {"negative_mining_ratio": 3, "negative_mining_thresh": 0.5}),
    "MultiBoxDetection 8x24564": Case(
        "_contrib_MultiBoxDetection", lambda: {
            "cls_prob": numbers(8, 21, SSD) ** 40, "loc_pred": numbers(8, 4 * SSD),
            "anchor": anchors(SSD)}, {"nms_topk": 400}),
    "box_iou 24564x32": Case(
        "_contrib_box_iou", lambda: {"lhs": anchors(SSD)[0], "rhs": labels(1, 32, 20)[0, :, 1:]}),
    "bipartite_matching 8732x32": Case(
        "_contrib_bipartite_matching", lambda: {"data": numbers(1, 8732, 32)}, {"threshold": 0.5}),
    "CTCLoss 80x32x96": Case(
        "CTCLoss", lambda: {"data": numbers(80, 32, 96),
                            "label": np.ceil(94 * numbers(32, 20)).astype(np.float32)}, {}, DATA),
    "BilinearResize2D 64 to 128": Case(
        "_contrib_BilinearResize2D", lambda: {"data": numbers(1, 256, 64, 64)},
        {"height": 128, "width": 128}, DATA),
    "AdaptiveAvgPooling2D 60 to 6": Case(
        "_contrib_AdaptiveAvgPooling2D", lambda: {"data": numbers(2, 512, 60, 60)},
        {"output_size": 6}, DATA),
    "BilinearSampler 8x64x64x64": Case(
        "BilinearSampler", lambda: {"data": numbers(8, 64, 64, 64),
                                    "grid": 2 * numbers(8, 2, 64, 64) - 1}, {}, ("data", "grid")),
    "Correlation 32x96x128": Case(
        "Correlation", images(32, 96, 128), {"max_displacement": 4, "pad_size": 4},
        ("data1", "data2")),
    "Correlation 256x48x64": Case(
        "Correlation", images(256, 48, 64),
        {"max_displacement": 20, "stride2": 2, "pad_size": 20}),
}


# ---------------------------------------------------------------------------------------- measuring

def compare(worker: Any, case: Case, backward: bool) -> dict[str, ArmTime]:
    """Times of a pass of nbmod, and of MXNet where it has it."""
    program = steps.backward if backward else steps.forward
    *graph, requests = case.arguments()
    arms: dict[str, Any] = {"nbmod": arm_of(program(mx, *graph, requests))}
    if worker and (case.peer_grad or not backward):
        arms["MXNet"] = peer_arm(worker, program, *graph, requests if case.peer_grad else "null")
    return timed(arms)


def row(times: dict[str, ArmTime]) -> str:
    """The cells of one direction: medians in milliseconds, ratio and its interval."""
    mine, peer = times["nbmod"], times["MXNet"]
    return (f"{1e3 * mine.seconds:.2f} | {1e3 * peer.seconds:.2f} | {peer.ratio.median:.2f} | "
            f"{interval(peer.ratio)} |")


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    version = worker.call("in_mxnet.version") if worker else "absent"
    print(f"{date.today()}, nbmod {mx.__version__}, MXNet {version}, "
          f"{os.cpu_count()} threads, {platform.machine()}: `python -m bench.detection`\n\n"
          "| op | | nbmod ms | MXNet ms | ratio | 99% interval |\n|---|---|--:|--:|--:|--:|")
    for name, case in CASES.items():
        if names and not name.startswith(tuple(names)):
            continue
        print(f"| {name} | forward | {row(compare(worker, case, False))}", flush=True)
        if case.grad:
            print(f"| {name} | backward | {row(compare(worker, case, True))}", flush=True)


@pytest.mark.parametrize("name", CASES)
def test_op(beside: Any, name: str) -> None:
    """One row per op: forward and backward together."""
    *graph, requests = CASES[name].arguments()
    beside(steps.step, *graph, requests if CASES[name].peer_grad else "null")


if __name__ == "__main__":
    main(sys.argv[1:])
