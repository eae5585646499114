"""Whole models, exported by PyTorch and imported: `python -m bench.onnx_models [-k NAME]`.

Needs torch, torchvision, onnx, onnxscript and onnxruntime.  Every architecture is exported by both
of PyTorch's exporters where they can, imported, and run; outputs are compared with PyTorch's and
onnxruntime's.  Weights are random.  The table goes to `bench/results/onnx-models.md`.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nbmod as mx
from nbmod.onnx.importing import import_model

TABLE = Path(__file__).parent / "results" / "onnx-models.md"
IMAGE = (1, 3, 224, 224)
VISION = {"resnet18": IMAGE, "resnet50": IMAGE, "mobilenet_v2": IMAGE, "mobilenet_v3_small": IMAGE,
          "vgg11_bn": IMAGE, "squeezenet1_1": IMAGE, "densenet121": IMAGE, "efficientnet_b0": IMAGE,
          "shufflenet_v2_x1_0": IMAGE, "googlenet": IMAGE, "inception_v3": (1, 3, 299, 299),
          "alexnet": IMAGE, "mnasnet1_0": IMAGE, "regnet_y_400mf": IMAGE, "convnext_tiny": IMAGE,
          "vit_b_16": IMAGE, "swin_t": IMAGE}
"""Architectures of torchvision and shapes of their inputs."""


def other_models() -> dict[str, Callable[[], tuple[Any, Sequence[Any]]]]:
    """A transformer, recurrent networks and an upsampling one, with inputs."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self, kind: Any, **options: Any):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = kind(16, 24, num_layers=2, batch_first=True, **options)
            self.head = nn.Linear(24 * (2 if options.get("bidirectional") else 1), 5)

        def forward(self, words: Any) -> Any:
            return self.head(self.layer(self.embed(words))[0][:, -1])

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 7)

        def forward(self, words: Any) -> Any:
            return self.head(self.encoder(self.embed(words)).mean(1))

    def words() -> Sequence[Any]:
        return [torch.randint(0, 50, (2, 9))]

    def upsampling() -> Any:
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.PReLU(8),
                             nn.Upsample(scale_factor=2, mode="bilinear"),
                             nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
                             nn.InstanceNorm2d(4, affine=True), nn.Hardswish(),
                             nn.Upsample(scale_factor=2), nn.AvgPool2d(3, 2, 1, ceil_mode=True))

    return {"transformer": lambda: (Transformer(), words()),
            "lstm": lambda: (Recurrent(nn.LSTM), words()),
            "lstm_bidirectional": lambda: (Recurrent(nn.LSTM, bidirectional=True), words()),
            "gru": lambda: (Recurrent(nn.GRU), words()),
            "rnn": lambda: (Recurrent(nn.RNN), words()),
            "upsampling": lambda: (upsampling(), [torch.rand(1, 3, 12, 14)])}


def models(part: str) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """Name, module and inputs of every model."""
    import torch
    import torchvision.models

    for name, shape in VISION.items():
        if part in name:
            torch.manual_seed(0)
            options = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
            yield name, getattr(torchvision.models, name)(weights=None, **options), [
                torch.rand(shape)]
    for name, make in other_models().items():
        if part in name:
            torch.manual_seed(0)
            yield (name, *make())


def with_statistics(module: Any, inputs: Sequence[Any]) -> Any:
    """The module with moving averages of real batches, so that outputs are of normal size."""
    import torch

    module.train()
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.eval()
        if isinstance(layer, torch.nn.Linear) and not layer.weight.any():  # a head to be trained
            torch.nn.init.normal_(layer.weight)
    if any(isinstance(layer, torch.nn.BatchNorm2d) for layer in module.modules()):
        with torch.no_grad():
            module(torch.rand(2, *inputs[0].shape[1:]))
    return module.eval()


def exported(module: Any, inputs: Sequence[Any], new: bool) -> bytes:
    """The ONNX file that one of PyTorch's exporters writes."""
    import torch

    if new:
        program = torch.onnx.export(module, tuple(inputs), dynamo=True, verbose=False)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            program.save(path, external_data=False)
            return path.read_bytes()
    buffer = io.BytesIO()
    torch.onnx.export(module, tuple(inputs), buffer, dynamo=False, opset_version=17)
    return buffer.getvalue()


def check(module: Any, inputs: Sequence[Any], new: bool) -> tuple[str, str]:
    """Largest relative errors against PyTorch and onnxruntime, and what was imported."""
    import onnxruntime
    import torch

    with torch.no_grad():
        expected = module(*inputs)
    content = exported(module, inputs, new)
    symbol, arguments, states = import_model(content)
    names = [name for name in symbol.list_arguments() if name not in arguments]
    feed = dict(zip(names, [each.numpy() for each in inputs], strict=True))
    args = {**arguments, **{name: mx.nd.array(a, dtype=a.dtype) for name, a in feed.items()}}
    start = time.time()
    found = symbol.bind(mx.cpu(), args, aux_states=states, grad_req="null").forward()[0].asnumpy()
    session = onnxruntime.InferenceSession(content)
    other = session.run(None, dict(zip([i.name for i in session.get_inputs()], feed.values(),
                                       strict=True)))[0]
    errors = [error(found, expected.numpy()), error(found, other)]
    nodes = [node["op"] for node in _nodes(symbol)]
    text = f"{len([op for op in nodes if op != 'null'])} nodes, {time.time() - start:.0f} s to run"
    return ("pass" if max(errors) < 1e-4 else "**FAIL**") + "".join(
        f" {each:.0e}" for each in errors), text


def _nodes(symbol: Any) -> list[Any]:
    import json

    return list(json.loads(symbol.tojson())["nodes"])


def error(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest expected element."""
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only models whose names contain this")
    parser.add_argument("--only", choices=["old", "new"], help="only one exporter")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["# Import of models that PyTorch exports", "", "`python -m bench.onnx_models`; the "
             "largest error relative to the largest output, against PyTorch and onnxruntime; at "
             "most 1e-4 passes.", "", "| model | TorchScript exporter, opset 17 | torch.export | |",
             "|---|---|---|---|"]
    for name, module, inputs in models(options.k):
        module, cells, text = with_statistics(module, inputs), [], ""
        for kind in ("old", "new"):
            if options.only not in (None, kind):
                cells.append("")
                continue
            try:
                verdict, text = check(module, inputs, kind == "new")
            except Exception as problem:  # of the exporter, too: the table says which
                verdict = f"{type(problem).__name__}: {str(problem)[:300]}".replace("\n", " ")
            cells.append(verdict)
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {text} |")
        print(lines[-1], flush=True)
    if not options.k and not options.only:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
