"""Wrong arguments of constructors and methods: errors name them, and nothing hangs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nbmod as mx

HUGE = 2**40


def samples(**options):
    return mx.io.NDArrayIter(np.ones((4, 3), np.float32), np.zeros(4), 2, **options)


def net():
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2),
                                name="softmax")


def trained():
    module = mx.mod.Module(net())
    module.bind(samples().provide_data, samples().provide_label)
    module.init_params()
    return module


def csv(**options):
    with open("a.csv", "w") as file:
        file.write("1,2,3\n4,5,6\n")
    return mx.io.CSVIter(data_csv="a.csv", data_shape=(3,), **options)


def head():
    x = mx.nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        return x * 2


WRONG = {
    # numbers
    "SGD: learning_rate is '0.1', expected a number": lambda: mx.optimizer.SGD(learning_rate="0.1"),
    "SGD: wd is None, expected a number": lambda: mx.optimizer.create("sgd", wd=None),
    "Adam: beta1 is 'x', expected a number": lambda: mx.optimizer.Adam(0.1, "x"),
    "FactorScheduler: step is None, expected a number": lambda: mx.lr_scheduler.FactorScheduler(
        step=None),
    "MultiFactorScheduler: factor is 'x', expected a number": lambda: (
        mx.lr_scheduler.MultiFactorScheduler([10], "x")),
    "TopKAccuracy: top_k is '5', expected a number": lambda: mx.metric.create("top_k_accuracy",
                                                                            top_k="5"),
    "Normal: sigma is (1, 2), expected a number": lambda: mx.init.Normal((1, 2)),
    "ResizeAug: size is (4, 4), expected a number": lambda: mx.image.ResizeAug((4, 4)),
    "Speedometer: batch_size is None, expected a number": lambda: mx.callback.Speedometer(None),
    "Speedometer: frequent is 0, expected a positive number": lambda: mx.callback.Speedometer(8, 0),
    "log_train_metric: period is 0, expected": lambda: mx.callback.log_train_metric(0),
    "Monitor: interval is 0, expected": lambda: mx.mon.Monitor(0),
    "perplexity: axis is 2, expected a value in [-2, 2)": lambda: mx.metric.Perplexity(
        None, axis=2).update([mx.nd.zeros(2)], [mx.nd.ones((2, 3))]),
    # objects
    "SGD: lr_scheduler is a float, expected an LRScheduler": lambda: mx.optimizer.SGD(
        lr_scheduler=0.1),
    "SGD: sym is a str, expected a Symbol": lambda: mx.optimizer.SGD(sym="net"),
    "param_idx2name should be a dict": lambda: mx.optimizer.SGD(param_idx2name={"a": 1}),
    "ResizeIter: data_iter is a list, expected a DataIter": lambda: mx.io.ResizeIter([], 2),
    "PrefetchingIter: one of iters is a int, expected": lambda: mx.io.PrefetchingIter([3]),
    "PrefetchingIter: rename_data is 'x', expected a dict": lambda: mx.io.PrefetchingIter(
        samples(), rename_data="x"),
    "BidirectionalCell: a cell is a NoneType, expected an RNN cell": lambda: (
        mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(2), None)),
    "ResidualCell: base_cell is a int": lambda: mx.rnn.ResidualCell(3),
    "LSTMCell: params is a dict, expected RNNParams": lambda: mx.rnn.LSTMCell(2, params={}),
    "unroll: 1 begin_state(s) are given, expected 2": lambda: mx.rnn.LSTMCell(2).unroll(
        2, mx.sym.var("data"), begin_state=[mx.sym.var("s")]),
    "unroll: layout is None, expected": lambda: mx.rnn.LSTMCell(2).unroll(
        2, mx.sym.var("data"), layout=None),
    "encode_sentences: vocab is a list": lambda: mx.rnn.encode_sentences([["a"]], vocab=["a"]),
    "DataDesc: layout is a int": lambda: mx.io.DataDesc.get_batch_axis(3),
    "Variable a: init is a int, expected an initializer": lambda: mx.sym.var("a", init=3),
    "FusedRNN: init is a int": lambda: mx.init.FusedRNN(3, 2, 1, "lstm"),
    "Bilinear: a weight has shape (2, 2), expected 4 axes": lambda: mx.init.Bilinear()(
        "up_weight", mx.nd.zeros((2, 2))),
    "simple_bind: type_dict is a str": lambda: net().simple_bind(mx.cpu(), type_dict="float32",
                                                                 data=(2, 3)),
    "simple_bind: stype_dict is a str": lambda: net().simple_bind(mx.cpu(), stype_dict="csr",
                                                                  data=(2, 3)),
    "bind: shared_exec is a int": lambda: mx.sym.var("a").bind(
        mx.cpu(), {"a": mx.nd.ones(1)}, shared_exec=3),
    "backward: the gradient of head 0 is a ndarray": lambda: mx.autograd.backward(
        [head()], [np.ones((2, 2))]),
    "backward: head_grads is a int": lambda: mx.autograd.backward([head()], 3),
    "random.uniform: out is a int": lambda: mx.nd.random.uniform(out=3),
    "concatenate: one of arrays is a ndarray": lambda: mx.nd.concatenate([np.ones(2)]),
    "iter_predict: eval_data is a ndarray": lambda: list(trained().iter_predict(np.ones((2, 3)))),
    "install_monitor: mon is a int": lambda: trained().install_monitor(3),
    "module_checkpoint: mod is a Symbol": lambda: mx.callback.module_checkpoint(net(), "x"),
    "decode: an image is a int": lambda: mx.nd.imdecode(3),
    # shapes
    "NDArrayIter: data is a single element": lambda: mx.io.NDArrayIter(
        {"data": np.array(1.0)}),
    "CreateAugmenter: data_shape is a str, expected": lambda: mx.image.CreateAugmenter("x"),
    "CreateDetAugmenter: data_shape is (4, 4), expected": lambda: mx.image.CreateDetAugmenter(
        (4, 4)),
    "data is a scalar, expected at least one axis": lambda: mx.sym.Flatten(
        mx.sym.var("data")).simple_bind(mx.cpu(), data=()),
    "csr_matrix: shape is (3,), expected 2 axes": lambda: mx.nd.sparse.csr_matrix(
        ([1], [0], [0, 1]), shape=3),
    # sizes
    "NDArrayIter: batch_size is 2.0, expected an integer": lambda: mx.io.NDArrayIter(
        np.ones((4, 3)), batch_size=2.0),
    f"NDArrayIter: batch_size is {HUGE}, expected": lambda: mx.io.NDArrayIter(
        np.ones((4, 3)), batch_size=HUGE),
    "CSVIter: batch_size is 0, expected": lambda: csv(batch_size=0),
    f"CSVIter: batch_size is {HUGE}, expected": lambda: csv(batch_size=HUGE),
    f"BucketSentenceIter: batch_size is {HUGE}": lambda: mx.rnn.BucketSentenceIter([[1, 2]], HUGE),
    "no memory on the CPU": lambda: mx.nd.sparse.csr_matrix((HUGE, HUGE)),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mx.MXNetError, match=re.escape(message)):
        WRONG[message]()


@pytest.mark.parametrize("made", [
    lambda: mx.optimizer.SGD(np.float32(0.1), learning_rate=np.float64(0.1), wd=np.array(0.0)),
    lambda: mx.optimizer.SGD(learning_rate=1, clip_gradient=None),
    lambda: mx.init.Xavier(magnitude="3"),      # MXNet converts it
    lambda: mx.callback.Speedometer(32, 12.5),
    lambda: mx.callback.Speedometer(np.int64(32), np.int64(10)),
    lambda: mx.metric.Perplexity(ignore_label=None)])
def test_all_kinds_of_numbers_are_accepted(made):
    made()


def test_numbers_of_numpy_can_be_saved_with_a_symbol():
    weight = mx.sym.var("a_weight", init=mx.init.Normal(np.float32(0.5)))
    assert weight.attr("__init__") == '["normal", {"sigma": 0.5}]'
    assert mx.image.HueJitterAug(np.float32(0.5)).dumps() == '["huejitteraug", {"hue": 0.5}]'


def test_a_function_can_be_a_scheduler_beside_a_learning_rate():
    optimizer = mx.optimizer.SGD(learning_rate=0.5, lr_scheduler=lambda updates: 0.25)
    assert optimizer.learning_rate == 0.25


def updated(optimizer, times=3):
    updater, weight = mx.optimizer.get_updater(optimizer), mx.nd.ones(2)
    for _ in range(times):
        updater(0, mx.nd.ones(2), weight)


def test_values_without_an_update_are_named():
    with pytest.raises(mx.MXNetError, match=r"Adam: .*cannot compute an update with .*beta1=-1"):
        updated(mx.optimizer.Adam(beta1=-1))
    optimizer = mx.optimizer.SGD()
    optimizer.set_learning_rate("0.1")
    with pytest.raises(mx.MXNetError, match="'s lr is a str, '0.1', expected a number or None"):
        updated(optimizer)


def test_errors_of_users_optimizers_and_schedulers_stay_as_they_are():
    class Own(mx.optimizer.Optimizer):
        def update(self, index, weight, grad, state):
            raise ValueError("of the user")

    def schedule(_updates):
        raise TypeError("of the user")

    for optimizer, kind in ((Own(), ValueError), (mx.optimizer.SGD(lr_scheduler=schedule),
                                                  TypeError)):
        with pytest.raises(kind, match="^of the user$") as caught:
            updated(optimizer)
        assert not isinstance(caught.value, mx.MXNetError)


def test_eye_far_off_the_diagonal():
    for k in (-2**63, -5, 5, 2**63 - 1):
        assert not mx.nd.eye(3, k=k).asnumpy().any()


def drawn(name, dtype):
    return getattr(mx.nd.random, name)(shape=(2,), dtype=dtype)


def parameter(dtype):
    weight = mx.gluon.Parameter("a", shape=(2,), dtype=dtype)
    weight.initialize()
    return weight.data()


def cast_network(dtype):
    network = mx.gluon.nn.Dense(2, in_units=2)
    network.initialize()
    network.cast(dtype)
    return network.weight.data()


VARIABLE = mx.sym.Variable("a")
TYPED = {
    "astype": lambda dtype: mx.nd.ones(2).astype(dtype),
    "cast": lambda dtype: mx.nd.cast(mx.nd.ones(2), dtype=dtype),
    "one_hot": lambda dtype: mx.nd.one_hot(mx.nd.array([1]), 3, dtype=dtype),
    "zeros": lambda dtype: mx.nd.zeros(2, dtype=dtype),
    "full": lambda dtype: mx.nd.full(2, 3, dtype=dtype),
    "array": lambda dtype: mx.nd.array([2], dtype=dtype),
    "arange": lambda dtype: mx.nd.arange(3, dtype=dtype),
    "csr": lambda dtype: mx.nd.sparse.zeros("csr", (2, 2), dtype=dtype),
    "row_sparse": lambda dtype: mx.nd.sparse.row_sparse_array(np.ones((2, 2)), dtype=dtype),
    "uniform": lambda dtype: drawn("uniform", dtype),
    "normal": lambda dtype: drawn("normal", dtype),
    "Parameter": parameter,
    "Block.cast": cast_network,
    "infer_type": lambda dtype: np.ones(0, mx.sym.relu(VARIABLE).infer_type(a=dtype)[1][0]),
    "Variable": lambda dtype: mx.sym.Variable("b", dtype=dtype).simple_bind(mx.cpu(), b=(2,)
                                                                           ).outputs[0],
    "sym.cast": lambda dtype: mx.sym.cast(VARIABLE, dtype=dtype).eval(a=mx.nd.ones(2))[0],
    "sym.zeros": lambda dtype: mx.sym.zeros((2,), dtype=dtype).eval()[0],
    "simple_bind": lambda dtype: mx.sym.relu(VARIABLE).simple_bind(
        mx.cpu(), a=(2,), type_dict={"a": dtype}).outputs[0],
}


@pytest.mark.parametrize("call", TYPED)
def test_an_array_stands_for_its_element_type(call):
    """NumPy before 2.4, and so MXNet, takes an array where an element type is expected."""
    for dtype in (mx.nd.ones(1, dtype="float16"), np.float16(1), "float16"):
        assert np.dtype(TYPED[call](dtype).dtype) == np.float16
    with pytest.raises((TypeError, mx.MXNetError), match="Symbol a>.*expected|required"):
        TYPED[call](VARIABLE)
