"""Every script in `examples/` runs, with small arguments, and reaches its figure.

A row of `EXAMPLES` is (file, arguments, condition on the figure that its `main` returns).
"""

from __future__ import annotations

import http.client
import importlib.util
import io
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from bench import serving

FOLDER = Path(__file__).resolve().parents[1] / "examples"

TEXT = ["--epochs", "3", "--sentences", "1500", "--words", "400"]
MODEL = ["--epochs", "4", "--text", "12000", "--words", "300", "--hidden", "32", "--lr", "0.02",
         "--dropout", "0"]
DIGITS = ["--count", "600", "--size", "16", "--filters", "8", "--batch-size", "40"]

EXAMPLES = [
    ("custom_op.py", ["--epochs", "3"], lambda accuracy: accuracy > 0.9),
    ("detection_module.py", ["--epochs", "2", "--steps", "25", "--test-images", "30"],
     lambda precision: precision > 0.6),
    ("digits.py", [*DIGITS, "--epochs", "8"], lambda accuracy: accuracy > 0.6),
    ("factorization_machine.py", ["--epochs", "5", "--features", "100", "--count", "2000"],
     lambda accuracy: accuracy > 0.95),
    ("finetune.py", [], lambda accuracy: accuracy > 0.75),
    ("gluon_dcgan.py", ["--epochs", "2", "--channels", "8"], lambda distance: distance < 0.6),
    ("gluon_detection.py", ["--epochs", "5", "--images", "240", "--channels", "8",
                            "--test-images", "40"], lambda precision: precision > 0.4),
    ("gluon_language_model.py", [*MODEL], lambda perplexity: perplexity < 0.95),
    ("gluon_language_model.py", [*MODEL, "--cells"], lambda perplexity: perplexity < 0.95),
    ("gluon_mnist.py", ["--epochs", "4", "--workers", "2"], lambda accuracy: accuracy > 0.85),
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
    monkeypatch.syspath_prepend(FOLDER)    # one imports another
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


def npy(head: str, version: bytes = b"\x01\x00", data: bytes = b"") -> bytes:
    """A .npy file with any text in its head."""
    size = len(head).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + head.encode() + data


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


HEAD = "{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
HOSTILE = {
    "empty": b"", "no JSON": b"{", "a list": b"[1]", "a number": b"1", "null": b"null",
    "no UTF-8": b'{"data": "\xff"}', "form": b"data=1&data=2", "surrogate": b'{"\\ud800": 1}',
    "NaN": b'{"data": [[NaN, 0, 0]]}', "infinity": b'{"data": [[-Infinity, 0, 0]]}',
    "beyond float32": b'{"data": [[1e39, 0, 0]]}', "beyond float64": b'{"data": [[1e400, 0, 0]]}',
    "beyond int64": b'{"data": [[0.5, 1%s, 0]]}' % (b"0" * 400),
    "very long integer": b'{"data": [[%s, 0, 0]]}' % (b"1" * 10_000),
    "deep": b'{"data": %s%s}' % (b"[" * 100_000, b"]" * 100_000),
    "deep objects": b'{"data": ' * 100_000, "ragged": b'{"data": [[1, 2, 3], [1]]}',
    "text": b'{"data": [["a", "b", "c"]]}', "objects": b'{"data": [{"a": 1}]}',
    "a null": b'{"data": [[null, 0, 0]]}', "no samples": b'{"data": []}', "scalar": b'{"data": 1}',
    "twice": b'{"data": [[1, 2, 3]], "data": [[4, 5, 6]]}', "self": b'{"self": [[1, 2, 3]]}',
    "another name": b'{"fc_weight": [[1, 2, 3]]}', "wrong shape": b'{"data": [[1, 2, 3, 4]]}',
    "overflow within": b'{"data": [[3e38, 3e38, 3e38]]}',
    "npy without end": saved(np.ones((2, 3)))[:-1], "npy without head": b"\x93NUMPY",
    "npy of 70 TB": npy(HEAD.format(descr="'<f4'", shape=(1 << 44, 1))),
    "npy of 2 ** 70": npy(HEAD.format(descr="'<f4'", shape=(1 << 70, 3))),
    "npy below zero": npy(HEAD.format(descr="'<f4'", shape=(-1, 3))),
    "npy that wraps": npy(HEAD.format(descr="'<f4'", shape=(1 << 32, 1 << 32))),
    "npy of nothing": npy(HEAD.format(descr="'|V0'", shape=(1 << 40, 3))),
    "npy of objects": saved(np.array([[None] * 3])), "npy of text": saved(np.array([["a"] * 3])),
    "npy of pairs": saved(np.zeros((1, 3), "f4,f4")),
    "npy of times": saved(np.zeros((1, 3), "M8[s]")),
    "npy of complex": saved(np.zeros((1, 3), complex)),
    "npy of NaN": saved(np.full((1, 3), np.nan)),
    "npy of doubles": saved(np.full((1, 3), 1e300)), "npy of version 9": npy("", b"\x09\x00"),
    "npy with a deep head": npy("(" * 5000 + ")" * 5000),
    "npy with a long head": npy(" " * 60_000), "npy with code": npy("__import__('os').abort()"),
    "npy of a long head": npy(" " * 2_000_000, b"\x03\x00"),
}


@pytest.fixture(scope="module")
def small():
    """A network of two outputs that adds three numbers."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc", no_bias=True)
    return mx.Predictor((net, {"fc_weight": mx.nd.ones((2, 3))}, {}), {"data": (4, 3)})


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_request_is_refused_in_json(small, case):
    status, reply = post(small, HOSTILE[case])
    assert status[:1] == "4" and list(reply) == ["error"] and reply["error"], (status, reply)


@pytest.mark.parametrize("environ, status", [
    ({"REQUEST_METHOD": "GET"}, "405"), ({"REQUEST_METHOD": "PUT"}, "405"),
    ({"CONTENT_LENGTH": "-5"}, "400"), ({"CONTENT_LENGTH": "1e3"}, "400"),
    ({"CONTENT_LENGTH": "\u0663"}, "400"), ({"CONTENT_LENGTH": "500"}, "400"),
    ({"CONTENT_LENGTH": str(10 ** 12)}, "413"), ({"CONTENT_LENGTH": ""}, "400")])
def test_requests_of_a_wrong_kind(small, environ, status):
    assert post(small, b'{"data": [[1, 2, 3]]}', **environ)[0][:3] == status


def test_what_is_not_hostile(small):
    """Another type of content, an unusual order in memory, more samples than are bound."""
    expected = ("200 OK", {"fc_output": [[6.0, 6.0]]})
    assert post(small, b'{"data": [[1, 2, 3]]}', CONTENT_TYPE="text/plain") == expected
    assert post(small, saved(np.asfortranarray([[1, 2, 3]], np.float16))) == expected
    assert post(small, saved(np.array([[1, 2, 3]], ">i8"))) == expected
    assert len(post(small, saved(np.ones((1000, 3))))[1]["fc_output"]) == 1000


def post(predictor: mx.Predictor, body: bytes, **environ: str) -> tuple[str, dict]:
    """The status and the JSON of a reply, without a network."""
    said = []
    environ = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body)), **environ}
    reply = example("serve.py").application(predictor)(
        environ | {"wsgi.input": io.BytesIO(body)}, lambda status, headers: said.append(status))

    def constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return said[0], json.loads(b"".join(reply), parse_constant=constant)


def test_a_server_goes_on_after_broken_connections(small):
    """A body that ends early, in chunks, that is too large, and clients that stop to send."""
    with serving.served(small) as connect:
        for rest in (b'Content-Length: 50\r\n\r\n{"data": ', b"Content-Length: x\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\nzz",
                     b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"da'):
            broken = connect()
            broken.connect()
            broken.sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + rest)
            broken.close()
        large = connect()
        large.putrequest("POST", "/")
        large.putheader("Content-Length", str(10 ** 12))
        large.endheaders()
        assert large.getresponse().status == 413
        chunked = connect()
        chunked.request("POST", "/", iter([b'{"data": [[1, ', b'2, 3]]}']), encode_chunked=True,
                        headers={"Transfer-Encoding": "chunked"})
        assert json.loads(chunked.getresponse().read()) == {"fc_output": [[6.0, 6.0]]}


def test_every_example_has_a_row_and_says_what_it_shows(monkeypatch):
    """`distributed.py` is several processes, which tests/kvstore/distributed starts."""
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
