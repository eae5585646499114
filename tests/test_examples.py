"""Every script in `examples/` runs, with small arguments, and reaches its figure.

A row of `EXAMPLES` is (file, arguments, condition on the figure that its `main` returns).
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from bench import serving

FOLDER = Path(__file__).resolve().parents[1] / "examples"

TEXT = ["--epochs", "3", "--sentences", "1500", "--words", "400"]
DIGITS = ["--count", "600", "--size", "16", "--filters", "8", "--batch-size", "40"]

EXAMPLES = [
    ("custom_op.py", ["--epochs", "3"], lambda accuracy: accuracy > 0.9),
    ("detection_module.py", ["--epochs", "2", "--steps", "25", "--test-images", "30"],
     lambda precision: precision > 0.6),
    ("digits.py", [*DIGITS, "--epochs", "8"], lambda accuracy: accuracy > 0.6),
    ("factorization_machine.py", ["--epochs", "5", "--features", "100", "--count", "2000"],
     lambda accuracy: accuracy > 0.95),
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
    ("sparse_linear.py", ["--epochs", "3", "--samples", "4000", "--features", "1000"],
     lambda accuracy: accuracy > 0.8),
    ("wide_deep.py", ["--epochs", "3", "--samples", "8000", "--categories", "20"],
     lambda accuracy: accuracy > 0.8),
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


def test_a_server_answers_many_clients_at_once():
    """Every answer is that of a Module for the same request, and mistakes are named."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 3))], for_training=False)
    module.init_params(mx.init.Normal(1))
    predictor = mx.Predictor((net, *module.get_params()), {"data": (4, 3)}, workers=2)
    wrong: list[object] = []

    def ask(client: int) -> None:
        try:
            connection = connect()
            for count in range(1, 7):
                data = np.random.RandomState(10 * client + count).normal(size=(count, 3))
                expected = data @ weight.T + bias
                # The network computes in float32, NumPy in float64.
                np.testing.assert_allclose(request(connection, {"data": data.tolist()})[
                    "fc_output"], expected, rtol=1e-4, atol=1e-5)
            assert "no input 'dat'" in request(connection, {"dat": 1}, 400)["error"]
            assert "TypeError" not in request(connection, [1], 400)["error"]
        except BaseException as error:
            wrong.append(error)

    params = module.get_params()[0]
    weight, bias = params["fc_weight"].asnumpy(), params["fc_bias"].asnumpy()
    with serving.served(predictor) as connect:
        clients = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        image = np.ones((2, 3), np.float32)
        np.testing.assert_array_equal(serving.client(connect, "fc_output")(image),
                                      predictor(image)[0])
    assert wrong == []


def request(connection: http.client.HTTPConnection, body: object, status: int = 200) -> dict:
    connection.request("POST", "/", json.dumps(body))
    answer = connection.getresponse()
    found = json.loads(answer.read())
    assert answer.status == status, found
    return found


def test_every_example_has_a_row_and_says_what_it_shows(monkeypatch):
    """`distributed.py` is several processes, which tests/kvstore/dist starts."""
    monkeypatch.syspath_prepend(FOLDER)    # one imports another
    files = sorted(path.name for path in FOLDER.glob("*.py"))
    assert files == sorted({"distributed.py", "serve.py", *(row[0] for row in EXAMPLES)})
    assert all(example(file).__doc__ for file in files)


def example(file: str):
    """The example as a module; it is not in a package."""
    spec = importlib.util.spec_from_file_location(f"example_{Path(file).stem}", FOLDER / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
