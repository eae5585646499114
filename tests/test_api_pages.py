"""docs/generate_api.py: every public name is described, and docstrings become Markdown."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

import nbmod as mx
from nbmod.gluon import nn

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "generate_api.py"


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("generate_api", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "generate_api", module)  # dataclasses ask for it
        patch.syspath_prepend(SCRIPT.parent)
        spec.loader.exec_module(module)
    return module


def test_every_public_name_is_described(api):
    """Names of `__all__` and `__dir__`, those that are imported on first use included."""
    assert len(api.entries()) > 2500
    assert [name for _, missing in api.coverage().values() for name in missing] == []


def test_pages_are_those_of_nbmod_after_as_mxnet(api, monkeypatch):
    """`import mxnet` then sets the `__name__` of `mx.nd` and `mx.sym` to MXNet's."""
    paths = set(api.modules())
    monkeypatch.setattr(mx.nd, "__name__", "mxnet.ndarray")
    monkeypatch.setattr(mx.sym, "__name__", "mxnet.symbol")
    api.modules.cache_clear()
    assert set(api.modules()) == paths


def test_names_lead_to_where_they_are_described(api):
    assert api.full_name("mx.ndarray.zeros") == "mx.nd.zeros"
    assert api.full_name("nbmod.NDArray") == "mx.nd.NDArray"
    assert api.full_name("mx.img.ImageIter") == "mx.image.ImageIter"
    assert api.full_name("mx.mod.Module.fit") == "mx.mod.Module.fit"
    assert api.full_name("mx.gluon.loss.SoftmaxCELoss") == "mx.gluon.loss.SoftmaxCrossEntropyLoss"
    places = {entry.path: api.place_of(entry) for entry in api.entries()}
    assert places["mx.nd.linalg.gemm2"].startswith("../ops/dot.md#")
    assert places["mx.sym.contrib.ctc_loss"] == "../ops/ctc.md#ctcloss"
    assert places["mx.nd.zeros"] == "mx.nd.md#mx.nd.zeros"


def test_bases_are_the_nearest_public_ones(api):
    """`Sequential`, `HybridSequential` and `BatchNorm` have bases of their own between."""
    assert api.bases(nn.Sequential) == "Inherits from `mx.gluon.Block`."
    assert {api.bases(each) for each in (nn.HybridSequential, nn.BatchNorm, nn.Dense)} == {
        "Inherits from `mx.gluon.HybridBlock`."}


def test_classes_of_gluon_are_reached_by_the_paths_that_programs_write(api):
    """A package whose names are imported but not listed would have no page."""
    for path in ("data.vision.MNIST", "data.vision.transforms.ToTensor", "nn.Dense", "rnn.LSTM",
                 "model_zoo.vision.get_model", "utils.split_and_load", "loss.L2Loss"):
        assert api.full_name(f"mx.gluon.{path}") in {entry.path for entry in api.entries()}, path


def test_methods_that_inherit_their_docstring_name_the_base(api):
    page = api.page("mx.gluon.loss")
    assert "As `mx.gluon.HybridBlock.hybrid_forward`: " in page
    assert "Compute the outputs: a subclass defines it.\n\n**Parameters**" not in page


def test_docstrings_become_markdown(api):
    text = api.rendered(inspect.cleandoc("""Do *it* with __name__ and `x_`.

        With y ::

            y = x * 2

        Parameters
        ----------
        x, y : int, default 1
            One.

            Two.

        Examples
        --------
        >>> 1 + 1
        2
        """))
    assert text == inspect.cleandoc("""
        Do \\*it\\* with \\_\\_name\\_\\_ and `x_`.

        With y:

        ```text
        y = x * 2
        ```

        **Parameters**

        `x`, `y` : int, default 1
        : One.

          Two.

        **Examples**

        ```pycon
        >>> 1 + 1
        2
        ```""")
