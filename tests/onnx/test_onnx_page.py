"""docs/onnx.md: its tables are those of the converters."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("onnx")
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "generate_onnx.py"


def test_the_tables_are_current():
    spec = importlib.util.spec_from_file_location("generate_onnx", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == module.PAGE.read_text(encoding="utf-8"), (
        "run python docs/generate_onnx.py"
    )
