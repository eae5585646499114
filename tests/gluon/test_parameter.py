"""Parameters and dictionaries of them are MXNet's; values are kept through all changes."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.gluon import Constant, Parameter, ParameterDict
from tests.compare import assert_like
from tests.programs import gluon_blocks, gluon_devices


def test_parameters_are_those_of_mxnet(oracle):
    assert_like(gluon_blocks.parameters(mx), oracle.call("mx_gluon.parameters"))


def test_several_devices_begin_with_equal_values_and_keep_their_own():
    devices = [mx.cpu(0), mx.cpu(1)]
    each = Parameter("w", shape=(2, 2))
    each.initialize(ctx=devices)
    first, second = each.list_data()
    assert (first.asnumpy() == second.asnumpy()).all() and first is not second
    assert each.data(mx.cpu(1)) is second and each.grad(mx.cpu(1)) is each.list_grad()[1]
    with mx.cpu(1):
        assert each.data() is second
    each.set_data(mx.nd.ones((2, 2)))
    assert [x.asnumpy().sum() for x in (first, second)] == [4, 4]


def test_requests_change_the_array_that_autograd_marks():
    each = Parameter("w", shape=(2,), grad_req="null")
    each.initialize(mx.init.One())
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        each.grad()
    for request, expected in (("write", 2), ("add", 4), ("null", None)):
        each.grad_req = request
        for _ in range(2):
            with mx.autograd.record():
                value = (each.data() * 2).sum() + mx.nd.ones(1)
            if request != "null":
                value.backward()
        assert expected is None or (each.grad().asnumpy() == expected).all()
    assert each.data().grad is None
    each.zero_grad()  # there is none


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy,
                                       lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_have_values_and_gradients_of_their_own(duplicate):
    each = Parameter("w", shape=(2,))
    each.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    twin = duplicate(each)
    with mx.autograd.record():
        value = (twin.data(mx.cpu(1)) * 3).sum()
    value.backward()
    assert (twin.grad(mx.cpu(1)).asnumpy() == 3).all()
    assert not each.grad(mx.cpu(1)).asnumpy().any()
    with mx.autograd.record():
        value = (each.data(mx.cpu(1)) * 5).sum()
    value.backward()
    assert (each.grad(mx.cpu(1)).asnumpy() == 5).all()
    assert twin.list_ctx() == each.list_ctx() == [mx.cpu(0), mx.cpu(1)]


def test_users_are_told_of_new_arrays_and_not_of_new_values():
    class User:
        told = 0

        def reset(self):
            self.told += 1

    each, user = Parameter("w", shape=(2,)), User()
    each._users.add(user)
    each.initialize()
    changes = [lambda: each.set_data(mx.nd.ones(2)), lambda: each.zero_grad(),
               lambda: each.cast("float64"), lambda: setattr(each, "grad_req", "add"),
               lambda: setattr(each, "grad_req", "add"), lambda: each.reset_ctx(mx.cpu(1)),
               lambda: each.initialize(force_reinit=True)]
    counts = []
    for change in changes:
        before = user.told
        change()
        counts.append(user.told - before)
    assert counts == [0, 0, 1, 1, 0, 1, 1]


def test_warnings_are_those_of_mxnet():
    each, constant = Parameter("w", shape=(1,)), Constant("c", [1])
    each.initialize()
    before = each.data()
    with pytest.warns(UserWarning, match="Parameter 'w' is already initialized, ignoring. Set fo"):
        each.initialize()
    assert each.data() is before
    with pytest.warns(UserWarning, match='Constant parameter "c" does not support grad_req other'):
        constant.grad_req = "write"
    assert constant.grad_req == "null"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        each.initialize(force_reinit=True)
        constant.grad_req = "null"


@pytest.mark.parametrize("init", ["one", mx.init.One(), mx.init.Mixed([".*"], [mx.init.One()])])
def test_any_initializer_may_be_verbose(init, caplog):
    """MXNet's must be an object with `set_verbosity`."""
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    with caplog.at_level("INFO"):
        net.initialize(init, verbose=True)
    assert net.weight.data().asnumpy().tolist() == [[1, 1]]
    logged = [message.partition(" as ")[0] for message in caplog.messages]
    assert logged == [f"Initialized {net.weight.name}"] * (not isinstance(init, mx.init.Mixed))


def test_an_initializer_of_its_own_fills_whatever_the_name_ends_with():
    store = ParameterDict()
    store.get("a_bias", shape=(2,), init=mx.init.Constant(3))
    store.get("a_gamma", shape=(2,))
    store.initialize(mx.init.One())
    assert [each.data().asnumpy().tolist() for each in store.values()] == [[3, 3], [1, 1]]
    store.initialize(mx.init.Load({"a_bias": mx.nd.array([5, 6])}, mx.init.Zero()),
                     force_reinit=True)
    assert store["a_bias"].data().asnumpy().tolist() == [3, 3]


def test_a_constant_fills_the_networks_that_are_exported_with_it():
    value = np.array([[1, 2], [3, 4]], dtype=np.float32)
    symbol = mx.sym.load_json((Constant("c", value).var() * 2).tojson())
    module = mx.mod.Module(symbol, data_names=[], label_names=[])
    described = mx.init.InitDesc("c", symbol.attr_dict()["c"])
    array = mx.nd.zeros((2, 2))
    mx.init.Uniform()(described, array)
    assert (array.asnumpy() == value).all() and module.symbol is symbol


def test_a_dictionary_is_saved_and_loaded_by_names(tmp_path):
    store = ParameterDict("net_")
    store.get("w", shape=(2,))
    store.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    store["net_w"].data(mx.cpu(1))[:] = 3
    store.save(str(tmp_path / "file"), strip_prefix="net_")
    assert {name: x.asnumpy().tolist() for name, x in mx.nd.load(str(tmp_path / "file")).items()
            } == {"w": [2, 2]}
    store.load(str(tmp_path / "file"), restore_prefix="net_")
    assert [x.asnumpy().tolist() for x in store["net_w"].list_data()] == [[2, 2], [2, 2]]
    store.load_dict({"arg:net_w": mx.nd.zeros(2)})
    assert store["net_w"].data(mx.cpu(0)).asnumpy().tolist() == [0, 0]
    store.setattr("lr_mult", 0.5)
    assert store["net_w"].lr_mult == 0.5


class DoubledParameter(mx.gluon.Parameter):
    """Shares the arrays of a parameter, as weight dropout of gluon-nlp does; blocks see 2 w."""

    def __init__(self, other):
        super().__init__(other.name, other.grad_req, other._shape, other.dtype)
        for field in ("deferred_init", "var", "data", "grad", "ctx_list", "ctx_map", "trainer"):
            setattr(self, f"_{field}", getattr(other, f"_{field}"))

    def data(self, ctx=None):
        return 2 * self._check_and_get(self._data, ctx)


@pytest.mark.parametrize("hybrid", [False, True])
def test_parameters_that_share_arrays_of_others_change_what_blocks_see(hybrid):
    layer = mx.gluon.nn.Dense(2, in_units=3, use_bias=False)
    layer.initialize(mx.init.One())
    weight = layer.weight
    layer._reg_params["weight"] = layer.params._params[weight.name] = DoubledParameter(weight)
    if hybrid:
        layer.hybridize(inline_limit=0)
    with mx.autograd.record():
        out = layer(mx.nd.ones((1, 3)))
    out.backward()
    assert out.asnumpy().tolist() == [[6, 6]]
    assert weight.grad().asnumpy().tolist() == [[2] * 3] * 2


def test_devices_that_are_absent_count_when_they_are_used_as_in_mxnet(oracle):
    assert gluon_devices.answers(mx) == oracle.call("mx_scripts.run", "gluon_devices", "answers")


@pytest.mark.parametrize("hybrid", [False, True])
def test_errors_of_absent_devices_are_repeated_and_lose_nothing(hybrid):
    net, batch = mx.gluon.nn.HybridSequential(prefix="net_"), mx.nd.ones((2, 3))
    with net.name_scope():
        net.add(mx.gluon.nn.BatchNorm())
    net.hybridize(hybrid)
    net.initialize(ctx=mx.gpu(99))
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match=r"'net_batchnorm0_gamma': gpu\(99\) was asked for"):
            net(batch)
    net.collect_params().reset_ctx(mx.cpu(1))
    assert net(batch.as_in_context(mx.cpu(1))).context == mx.cpu(1)
    values = net[0].gamma.data()
    for change in (net.collect_params().reset_ctx,
                   lambda ctx: net.initialize(ctx=ctx, force_reinit=True)):
        with pytest.raises(mx.MXNetError, match=r"gpu\(99\) was asked for"):
            change(mx.gpu(99))
        assert net[0].gamma.data() is values and net[0].gamma.list_ctx() == [mx.cpu(1)]


def test_a_gpu_that_a_cpu_stands_for_is_that_cpu_from_the_beginning(monkeypatch):
    monkeypatch.setattr(CONFIG, "gpu_to_cpu", True)
    each = Parameter("w", shape=(0,), allow_deferred_init=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each.initialize(ctx=mx.gpu(98))
    assert each.list_ctx() == [mx.cpu(98)]
