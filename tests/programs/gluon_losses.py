"""Losses of Gluon on arrays: (name, arguments, call) of every case, and their values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

CASES = (
    ("L2Loss", {}, ("real", "real")),
    ("L2Loss", {"weight": 3, "batch_axis": 1}, ("real", "real", "weights")),
    ("L1Loss", {}, ("real", "real", "weights")),
    ("SigmoidBinaryCrossEntropyLoss", {}, ("real", "binary")),
    ("SigmoidBCELoss", {"weight": 0.5}, ("real", "binary", "weights", "positive")),
    ("SigmoidBCELoss", {"from_sigmoid": True}, ("share", "binary")),
    ("SigmoidBCELoss", {"from_sigmoid": True}, ("share", "binary", "weights", "positive")),
    ("SoftmaxCrossEntropyLoss", {}, ("real", "classes")),
    ("SoftmaxCELoss", {"axis": 1, "weight": 2}, ("planes", "plane_classes")),
    ("SoftmaxCELoss", {"sparse_label": False}, ("real", "share", "weights")),
    ("SoftmaxCELoss", {"from_logits": True}, ("real", "classes")),
    ("KLDivLoss", {}, ("real", "share")),
    ("KLDivLoss", {"from_logits": False}, ("real", "share", "weights")),
    ("HuberLoss", {"rho": 0.5}, ("real", "other")),
    ("HingeLoss", {"margin": 2}, ("real", "signs")),
    ("SquaredHingeLoss", {}, ("real", "signs", "weights")),
    ("LogisticLoss", {}, ("real", "signs")),
    ("LogisticLoss", {"label_format": "binary"}, ("real", "binary")),
    ("TripletLoss", {"margin": 3}, ("real", "other", "share")),
    ("PoissonNLLLoss", {}, ("real", "counts")),
    ("PoissonNLLLoss", {"from_logits": False, "compute_full": True}, ("share", "counts")),
    ("CosineEmbeddingLoss", {"margin": 0.1}, ("real", "other", "rows")),
    ("CosineEmbeddingLoss", {"margin": 0.1}, ("real", "other", "other_rows")),
    ("CTCLoss", {}, ("steps", "texts")),
    ("CTCLoss", {"layout": "TNC", "label_layout": "TN"}, ("turned_steps", "turned_texts")),
    ("CTCLoss", {}, ("steps", "texts", "step_lengths")),
    ("CTCLoss", {}, ("steps", "texts", None, "text_lengths")),
    ("CTCLoss", {}, ("steps", "texts", "step_lengths", "text_lengths")),
    ("CTCLoss", {"weight": 2}, ("steps", "texts", None, None, "text_lengths")),
    ("SDMLLoss", {}, ("real", "other")),
    ("SDMLLoss", {"smoothing_parameter": 0.1}, ("real", "other")),
)


def arrays() -> dict[str, np.ndarray]:
    """Arguments by name."""
    rng = np.random.default_rng(0)
    share = rng.random((4, 3)) + 0.1
    steps, texts = rng.standard_normal((2, 6, 5)), np.array([[0, 1, 2], [3, 3, -1]])
    found = {
        "real": rng.standard_normal((4, 3)), "other": rng.standard_normal((4, 3)),
        "weights": rng.random((4, 1)), "binary": rng.integers(0, 2, (4, 3)),
        "positive": rng.random((1, 3)) + 0.5, "share": share / share.sum(axis=1, keepdims=True),
        "classes": rng.integers(0, 3, (4,)), "planes": rng.standard_normal((2, 3, 2, 2)),
        "plane_classes": rng.integers(0, 3, (2, 2, 2)), "signs": rng.integers(0, 2, (4, 3)) * 2 - 1,
        "counts": rng.integers(0, 6, (4, 3)) + 0.5, "rows": np.array([1, -1, 1, -1]),
        "other_rows": np.array([1, 0, -1, 2]),
        "steps": steps, "texts": texts, "turned_steps": steps.transpose(1, 0, 2),
        "turned_texts": texts.T, "step_lengths": np.array([5, 6]), "text_lengths": np.array([2, 1]),
    }
    return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def graphs(mx: Any) -> list[tuple[str, Any]]:
    """Text and graph of each case; no graph where MXNet has none for symbols."""
    found = []
    for name, settings, arguments in CASES:
        with mx.name.NameManager():
            loss = getattr(mx.gluon.loss, name)(**settings)
            if "compute_full" in settings or name == "SDMLLoss":
                found.append((repr(loss), None))
                continue
            symbol = loss(*(key and mx.sym.var(key) for key in arguments))
            found.append((repr(loss), json.loads(symbol.tojson())))
    return found


def answers(mx: Any, hybridized: bool = False) -> list[dict[str, np.ndarray]]:
    """Value and, where MXNet can record it, gradient of the first argument of each case."""
    found = []
    for name, settings, wanted in CASES:
        loss = getattr(mx.gluon.loss, name)(**settings)
        if hybridized:
            loss.hybridize()
        inputs = [key and mx.nd.array(arrays()[key]) for key in wanted]
        found.append({"value": loss(*inputs).asnumpy()})
        if "compute_full" in settings:
            continue  # MXNet assigns in place there, which it cannot record
        inputs[0].attach_grad()
        with mx.autograd.record():
            value = loss(*inputs)
        value.backward()
        found[-1]["gradient"] = inputs[0].grad.asnumpy()
    return found
