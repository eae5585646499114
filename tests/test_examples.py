"""Every script in `examples/` runs, with small arguments, and reaches its figure.

A row of `EXAMPLES` is (file, arguments, condition on the figure that its `main` returns).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"

TEXT = ["--epochs", "3", "--sentences", "1500", "--words", "400"]
DIGITS = ["--count", "600", "--size", "16", "--filters", "8", "--batch-size", "40"]

EXAMPLES = [
    ("custom_op.py", ["--epochs", "3"], lambda accuracy: accuracy > 0.9),
    ("detection_module.py", ["--epochs", "2", "--steps", "25", "--test-images", "30"],
     lambda precision: precision > 0.6),
    ("digits.py", [*DIGITS, "--epochs", "8"], lambda accuracy: accuracy > 0.6),
    ("finetune.py", [], lambda accuracy: accuracy > 0.75),
    ("int8.py", ["--epochs", "4"], lambda agreement: agreement > 0.95),
    ("lenet.py", ["--epochs", "3", "--size", "16", "--plot", "curve.png"],
     lambda accuracy: accuracy > 0.85),
    ("lstm_bucketing.py", [*TEXT], lambda perplexity: perplexity < 100),
    ("lstm_bucketing.py", [*TEXT, "--fused"], lambda perplexity: perplexity < 100),
    ("mlp.py", ["--epochs", "3"], lambda accuracy: accuracy > 0.9),
    ("model_parallel_lstm.py", ["--epochs", "4"], lambda accuracy: accuracy > 0.9),
    ("resnet_multi_context.py", ["--epochs", "2"], lambda accuracy: accuracy > 0.9),
    ("sequential_python_loss.py", ["--epochs", "3"], lambda accuracy: accuracy > 0.9),
]


@pytest.mark.parametrize("file, args, holds", EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_example(file, args, holds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figure = example(file).main(args)
    assert isinstance(figure, float) and holds(figure), figure


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_digits_go_on_from_a_checkpoint_as_if_never_broken_off(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    digits = example("digits.py")

    def outcome(*begin: str):
        accuracy = digits.main([*DIGITS, "--epochs", "2", *begin])
        answer = capsys.readouterr().out.splitlines()[-1]
        return accuracy, answer, Path("digits/digits-0002.params").read_bytes()

    whole = outcome()
    assert outcome("--begin-epoch", "1") == whole
    assert outcome("--begin-epoch", "2") == whole, "nothing is left to train"


def test_every_example_has_a_row_and_says_what_it_shows():
    files = sorted(path.name for path in FOLDER.glob("*.py"))
    assert files == sorted({row[0] for row in EXAMPLES})
    assert all(example(file).__doc__ for file in files)


def example(file: str):
    """The example as a module; it is not in a package."""
    spec = importlib.util.spec_from_file_location(f"example_{Path(file).stem}", FOLDER / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
