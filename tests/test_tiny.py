"""docs/tiny.md: its program is short, prints what the page shows, and computes what nbmod does."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from tests.reading_path import docstring_lines

PAGE = (Path(__file__).parents[1] / "docs" / "tiny.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.S)
PROGRAM = "".join(text for kind, text in BLOCKS if kind == "python")


@cache
def tiny() -> dict[str, Any]:
    """The names that the page defines."""
    names: dict[str, Any] = {}
    exec(compile(PROGRAM, "tiny.md", "exec"), names)
    return names


def test_the_program_has_at_most_150_lines():
    code = [line for line in PROGRAM.splitlines() if line.strip()]
    assert len(code) - docstring_lines(ast.parse(PROGRAM)) <= 150
    assert "at most 150 lines" in PAGE


def test_it_prints_what_the_page_shows(capsys):
    tiny.cache_clear()
    tiny()
    assert capsys.readouterr().out == "".join(text for kind, text in BLOCKS if kind == "text")


def perceptron(dense, relu, add, softmax, data):
    return softmax(dense(relu(dense(data, 16, "fc1"), "relu1"), 2, "fc2"))


def branches(dense, relu, add, softmax, data):
    """`relu1` has three readers, so three gradients are summed."""
    x = relu(dense(data, 8, "fc1"), "relu1")
    return softmax(dense(add(x, add(relu(dense(x, 8, "fc2"), "relu2"), x)), 2, "fc3"))


def of_tiny(network):
    """The network of the page's classes."""
    names = tiny()
    node = names["Node"]
    return network(names["dense"], lambda x, name: node(names["Relu"](), name, x),
                   lambda x, y: node(names["Add"](), "add", x, y),
                   lambda x: node(names["SoftmaxOutput"](), "softmax", x,
                                  node(None, "softmax_label")), node(None, "data"))


def of_nbmod(network):
    return network(lambda x, size, name: mx.sym.FullyConnected(x, num_hidden=size, name=name),
                   lambda x, name: mx.sym.Activation(x, act_type="relu", name=name),
                   lambda x, y: x + y, lambda x: mx.sym.SoftmaxOutput(x, name="softmax"),
                   mx.sym.Variable("data"))


@pytest.mark.parametrize("network", [perceptron, branches])
def test_it_trains_as_nbmod_does(network):
    ours = tiny()["Executor"](of_tiny(network), data=(32, 2))
    theirs = of_nbmod(network).simple_bind(mx.cpu(), data=(32, 2))
    optimizer = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, rescale_grad=1 / 32)
    updater, rng = mx.optimizer.get_updater(optimizer), np.random.default_rng(0)
    momenta = {name: np.zeros_like(grad) for name, grad in ours.grads.items()}
    assert {name: array.shape for name, array in ours.args.items()} == {
        name: array.shape for name, array in theirs.arg_dict.items()}
    for name in ours.grads:
        ours.args[name][...] = rng.standard_normal(ours.args[name].shape)
        theirs.arg_dict[name][:] = ours.args[name]
    for _ in range(5):
        data = rng.uniform(-1, 1, (32, 2))
        for name, value in (("data", data), ("softmax_label", data[:, 0] > data[:, 1])):
            ours.args[name][...] = value
            theirs.arg_dict[name][:] = ours.args[name]
        close(ours.forward(), theirs.forward(is_train=True)[0])
        ours.backward()
        theirs.backward()
        for index, (name, grad) in enumerate(ours.grads.items()):
            close(grad, theirs.grad_dict[name])
            tiny()["sgd"](ours.args[name], grad / 32, momenta[name], lr=0.1)
            updater(index, theirs.grad_dict[name], theirs.arg_dict[name])
            close(ours.args[name], theirs.arg_dict[name])


def close(actual, expected):
    """Both are float32 and sum up to 64 terms of size one in an order of their own, five times."""
    np.testing.assert_allclose(actual, expected.asnumpy(), rtol=1e-4, atol=1e-5)
