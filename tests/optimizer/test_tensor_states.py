"""Optimizer states in `.safetensors` files: every optimizer's, and damaged ones."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.optimizer.states import dump_states, load_states
from nbmod.safetensors import SafetensorsError, read_tensors, write_tensors
from tests.optimizer.test_states import OPTIMIZERS, SCHEDULERS
from tests.programs import training


def steps(name, params, precision="float32", scheduler=None):
    """The states after some steps, and the optimizer."""
    params = {**params, "learning_rate": 0.05, "multi_precision": precision == "float16"}
    return load_states(training.optimizer_steps(mx, name, params, 2, precision,
                                                scheduler=scheduler)["whole"])


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("name, params", OPTIMIZERS,
                         ids=[f"{n}-{'-'.join(p)}" for n, p in OPTIMIZERS])
def test_states_of_every_optimizer_are_kept(name, params, precision, tmp_path):
    path = str(tmp_path / "net.states.safetensors")
    found = steps(name, params, precision, SCHEDULERS[0])
    mx.safetensors.save_states(path, *found)
    assert dump_states(mx.safetensors.load_states(path)) == dump_states(found)  # of all bits


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=[name for name, _ in SCHEDULERS])
def test_schedulers_are_kept(scheduler, tmp_path):
    path = str(tmp_path / "net.states.safetensors")
    found = steps("adam", {}, scheduler=scheduler)
    mx.safetensors.save_states(path, *found)
    loaded = mx.safetensors.load_states(path)
    assert dump_states(loaded) == dump_states(found)
    assert type(loaded[1].lr_scheduler).__name__ == scheduler[0]


def test_states_may_be_any_plain_data(tmp_path):
    path = str(tmp_path / "net.states.safetensors")
    states = {0: None, "0": mx.nd.ones(2), 1: (3, [2.5, float("inf"), mx.nd.zeros((2, 1))]),
              "fc'": (mx.nd.array([1], dtype="float16"), np.float32(2))}
    mx.safetensors.save_states(path, states)
    found, optimizer = mx.safetensors.load_states(path)
    assert optimizer is None and list(found) == list(states)
    assert dump_states(found) == dump_states(states)
    with pytest.raises(MXNetError, match="a set cannot be written"):
        mx.safetensors.save_states(path, {0: {1}})


def test_sparse_states_stay_sparse(tmp_path):
    path = str(tmp_path / "net.states.safetensors")
    rows = mx.nd.sparse.row_sparse_array((np.ones((2, 3)), [5, 2**40]), shape=(2**41, 3))
    matrix = mx.nd.sparse.csr_matrix(([1, 2], [0, 2], [0, 1, 2]), shape=(2, 3), dtype="float64")
    states = {0: (rows, mx.nd.sparse.zeros("row_sparse", (4, 3, 2))), 1: matrix}
    mx.safetensors.save_states(path, states)
    found, _ = mx.safetensors.load_states(path)
    assert dump_states(found) == dump_states(states)
    assert [found[0][0].stype, found[1].stype] == ["row_sparse", "csr"]


@pytest.mark.parametrize("structure, words", [
    ({"row_sparse": [[4, 3], {"indices": "i", "data": "x"}]}, "not in ascending order"),
    ({"row_sparse": [[3], {"indices": "x", "data": "i"}]}, "not vectors of int64"),
    ({"row_sparse": [[-1, 3], {"indices": "i", "data": "x"}]}, "shape"),
    ({"row_sparse": [[4, True], {"indices": "i", "data": "x"}]}, "shape"),
    ({"row_sparse": [[4, 2**80], {"indices": "i", "data": "x"}]}, "shape"),
    ({"row_sparse": [[], {"indices": "i", "data": "x"}]}, "shape"),
    ({"row_sparse": [[4, 3]]}, "damaged"), ({"row_sparse": [[4, 3], {"indices": "i"}]}, "data"),
    ({"row_sparse": [[4, 3], {"indices": "i", "data": "i"}]}, "in two states"),
    ({"csr": [[4, 3], {"indptr": "i", "indices": "i", "data": "x"}]}, "in two states"),
    ({"csr": [[1, 3], {"indptr": "p", "indices": "i", "data": "x"}]}, "a csr array of shape"),
], ids=str)
def test_damaged_sparse_states_are_errors(structure, words, tmp_path):
    path = str(tmp_path / "x.states.safetensors")
    tensors = {"i": np.array([2, 1]), "p": np.array([0, 2]), "x": np.ones((2, 3), np.float32)}
    text = json.dumps({"states": [[0, structure]], "optimizer": None})
    write_tensors(path, tensors, {"mxnet_states": text})
    with pytest.raises(SafetensorsError, match=words):
        mx.safetensors.load_states(path)


def test_modules_save_and_load_them(tmp_path):
    def module():
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        made = mx.mod.Module(mx.sym.LinearRegressionOutput(net, name="out"),
                             label_names=["out_label"])
        made.bind([("data", (4, 3))], [("out_label", (4, 2))])
        made.init_params(mx.init.One())
        made.init_optimizer(optimizer="adam")
        return made

    def step(made):
        made.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.zeros((4, 2))]))
        made.update()
        return made.get_params()[0]

    path, first, second = str(tmp_path / "net-0001.states.safetensors"), module(), module()
    step(first)
    first.save_optimizer_states(path)
    second.set_params(*first.get_params())
    second.load_optimizer_states(path)
    second._optimizer._index_update_count.update(first._optimizer._index_update_count)
    expected, found = step(first), step(second)
    for name in expected:
        np.testing.assert_array_equal(found[name].asnumpy(), expected[name].asnumpy())
    mx.safetensors.save_states(path, {0: (mx.nd.ones(3),) * 3})
    with pytest.raises(MXNetError, match=r"0001\.states\.safetensors: optimizer states: .*Adam"):
        second.load_optimizer_states(path)


DAMAGE = {
    "no JSON": ("{", "Expecting"),
    "nested": ("[" * 100_000, ""),
    "a list": ("[]", "expected a dict of states"),
    "more": ('{"states": [], "optimizer": null, "x": 1}', "expected a dict of states"),
    "no pairs": ('{"states": [1], "optimizer": null}', ""),
    "index as list": ('{"states": [[[], null]], "optimizer": null}', "unhashable"),
    "no such tensor": ('{"states": [[0, {"tensor": "b"}]], "optimizer": null}', "no tensor 'b'"),
    "tensor as list": ('{"states": [[0, {"tensor": []}]], "optimizer": null}', "no tensor"),
    "tensor twice": ('{"states": [[0, {"tensor": "a"}], [1, {"tensor": "a"}]], "optimizer": null}',
                     "two states"),
    "tensor unused": ('{"states": [[0, null]], "optimizer": null}', "'a' is in none"),
    "unknown kind": ('{"states": [[0, {"code": "a"}]], "optimizer": null}', "'code' is no kind"),
    "two kinds": ('{"states": [[0, {"tensor": "a", "tuple": []}]], "optimizer": null}', ""),
    "state as text": ('{"states": [[0, "a"]], "optimizer": null}', "holds a str"),
    "float as code": ('{"states": [[0, {"float": "1"}]], "optimizer": null}', "'float' is no kind"),
    "foreign class": ('{"states": [], "optimizer": {"object": ["os", "system", {"dict": []}]}}',
                      "'os'.'system' is no class"),
    "home as list": ('{"states": [], "optimizer": {"object": [[], "SGD", {"dict": []}]}}',
                     "is no class"),
    "attributes as list": ('{"states": [], "optimizer": {"object": ["mxnet.optimizer.optimizer", '
                           '"SGD", []]}}', "is no class"),
    "attribute as number": ('{"states": [], "optimizer": {"object": ["mxnet.optimizer.optimizer", '
                            '"SGD", {"dict": [[1, 2]]}]}}', "is no class"),
    "wrong attribute": ('{"states": [], "optimizer": {"object": ["mxnet.optimizer.optimizer", '
                        '"SGD", {"dict": [["lr", "fast"]]}]}}', "lr is a str"),
    "no optimizer": ('{"states": [], "optimizer": 3}', "expected an Optimizer"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_states_are_errors_that_name_the_file(kind, tmp_path):
    path = str(tmp_path / "x.safetensors")
    text, told = DAMAGE[kind]
    write_tensors(path, {"a": np.ones(2, np.float32)}, {"mxnet_states": text})
    with pytest.raises(SafetensorsError,
                       match=rf"x\.safetensors: metadata 'mxnet_states': damaged: .*{told}"):
        mx.safetensors.load_states(path)


def test_other_files_are_no_states(tmp_path):
    path = str(tmp_path / "x.safetensors")
    write_tensors(path, {}, {})
    with pytest.raises(SafetensorsError, match="no optimizer states"):
        mx.safetensors.load_states(path)


def test_nothing_is_pickled(tmp_path):
    path = tmp_path / "x.states.safetensors"
    mx.safetensors.save_states(str(path), *steps("adam", {}))
    _, metadata = read_tensors(str(path))
    assert isinstance(json.loads(metadata["mxnet_states"]), dict)
    assert b"cmxnet" not in path.read_bytes() and b"\x80\x04" not in path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_mutated_structures_are_read_or_refused(data, tmp_path_factory):
    path = str(tmp_path_factory.getbasetemp() / "mutated.states.safetensors")
    mx.safetensors.save_states(path, *steps_once())
    tensors, metadata = read_tensors(path)
    text = list(metadata["mxnet_states"])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at:at + data.draw(st.integers(0, 2))] = data.draw(
            st.text(alphabet='0123456789.,:"[]{}aelnrstu$', max_size=2))
    write_tensors(path, tensors, {"mxnet_states": "".join(text)})
    try:
        states, optimizer = mx.safetensors.load_states(path)
    except SafetensorsError:
        return
    dump_states((states, optimizer))    # what is read can be written


@functools.cache
def steps_once():
    return steps("adam", {}, scheduler=SCHEDULERS[0])
