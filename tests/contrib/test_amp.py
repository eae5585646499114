"""`mx.contrib.amp`: networks in mixed precision predict what float32 networks predict."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.contrib import amp
from nbmod.ndarray import eager
from nbmod.symbol import compose
from tests.programs import amp_programs


def network():
    """Two convolutions, one of which has its own result added, and a dense layer."""
    x = mx.sym.Variable("data")
    top = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=8, name="conv0")
    top = mx.sym.Activation(mx.sym.BatchNorm(top, name="norm", fix_gamma=False),
                            act_type="relu", name="relu")
    below = mx.sym.Convolution(top, kernel=(3, 3), pad=(1, 1), num_filter=8, name="conv1")
    top = mx.sym.Pooling(top + below, kernel=(2, 2), global_pool=True, pool_type="avg",
                         name="pool")
    return mx.sym.softmax(mx.sym.FullyConnected(top, num_hidden=5, name="fc"), name="out")


@pytest.fixture(scope="module")
def model():
    symbol, rng = network(), np.random.default_rng(0)
    shapes, _, aux_shapes = symbol.infer_shape(data=(4, 3, 8, 8))
    args = {name: mx.nd.array(rng.standard_normal(shape) * 0.4)
            for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
            if name != "data"}  # fmt: skip
    aux = {name: mx.nd.array(rng.uniform(0.5, 1.5, shape))
           for name, shape in zip(symbol.list_auxiliary_states(), aux_shapes,
                                  strict=True)}  # fmt: skip
    return symbol, args, aux


def run(symbol, args, aux):
    data = mx.nd.array(np.random.default_rng(1).standard_normal((4, 3, 8, 8)))
    executor = symbol.bind(mx.cpu(), {**args, "data": data}, aux_states=aux, grad_req="null")
    return executor.forward()[0].asnumpy()


def casts(symbol):
    return [name.removesuffix("_output") for name in symbol.get_internals().list_outputs()
            if "amp_" in name]


@pytest.mark.parametrize("optional", [False, True])
def test_predictions_agree(model, optional):
    made = amp.convert_model(*model, cast_optional_params=optional)
    assert made[1]["conv1_weight"].dtype == (np.float16 if optional else np.float32)
    assert made[1]["norm_gamma"].dtype == np.float32
    assert ("conv1_weight_amp_cast_float16" in casts(made[0])) != optional
    want, got = run(*model), run(*made)
    assert got.dtype == np.float32 and 0 < np.abs(got - want).max() < 5e-3


def test_the_symbol_converted_stays_as_it_is(model):
    text = model[0].tojson()
    amp.convert_model(*model, cast_optional_params=True)
    assert model[0].tojson() == text and not casts(model[0])


def test_lists_and_excluded_nodes(model):
    dense = amp.convert_symbol(model[0], target_dtype_ops=["FullyConnected"])
    assert casts(dense)[-4:] == ["pool_output_amp_cast_float16", "fc_weight_amp_cast_float16",
                                 "fc_bias_amp_cast_float16", "fc_output_amp_cast_float32"]
    nothing = amp.convert_symbol(model[0], excluded_sym_names=["conv0", "conv1", "fc"])
    assert "float16" not in "".join(casts(nothing))
    relu = amp.convert_symbol(model[0], conditional_fp32_ops=[("Activation", "act_type", ["relu"])])
    assert "norm_output_amp_cast_float32" in casts(relu)


def test_a_parameter_that_declares_float32_becomes_float16():
    weight = mx.sym.Variable("weight", shape=(2, 2), dtype="float32")
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2, no_bias=True)
    made, args, _ = amp.convert_model(dense, {"weight": mx.nd.ones((2, 2))}, {},
                                      cast_optional_params=True)
    assert args["weight"].dtype == np.float16 and made.attr_dict()["weight"]["__dtype__"] == "2"
    assert made.eval(data=mx.nd.ones((1, 2)), **args)[0].asnumpy().tolist() == [[2, 2]]


def test_a_parameter_of_float32_and_float16_stays_float32():
    weight = mx.sym.Variable("weight")
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2, no_bias=True)
    made, args, _ = amp.convert_model(mx.sym.Group([dense, mx.sym.exp(weight)]),
                                      {"weight": mx.nd.ones((2, 2))}, {},
                                      cast_optional_params=True)
    assert args["weight"].dtype == np.float32
    outputs = made.eval(data=mx.nd.ones((1, 2)), **args)
    assert outputs[0].asnumpy().tolist() == [[2, 2]]


@pytest.mark.parametrize("optional", [False, True])
def test_parameters_beside_results_in_float16_become_float16(optional):
    """Of operators that are in no list the inputs have one type: slopes, dense layers."""
    low = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=2, no_bias=True,
                             name="low")
    slope = mx.sym.Variable("slope", dtype="float32")
    net = mx.sym.FullyConnected(mx.sym.LeakyReLU(low, slope, act_type="prelu"), num_hidden=2,
                                name="dense")
    args = {"low_weight": mx.nd.ones((2, 1, 1, 1)), "slope": mx.nd.ones(2) / 2,
            "dense_weight": mx.nd.ones((2, 8)), "dense_bias": mx.nd.zeros(2)}
    made, mixed, _ = amp.convert_model(net, args, {}, target_dtype_ops=["Convolution"],
                                       cast_optional_params=optional)
    assert [name for name in args if mixed[name].dtype == np.float16] == [
        *["low_weight"] * optional, "slope", "dense_weight", "dense_bias"]
    data = mx.nd.array([-2, 1, 1, 4]).reshape((1, 1, 2, 2))
    assert made.eval(data=data, **mixed)[0].asnumpy().tolist() == [[10, 10]]


def test_parameters_that_only_casts_read_become_float16():
    x = mx.sym.Variable("x")
    low, single = (mx.sym.amp_cast(x, dtype=f"float{bits}") for bits in (16, 32))
    for symbol, want in ((low, "2"), (mx.sym.Group([low, single]), "0")):
        made = amp.convert_symbol(symbol, data_names=[], cast_optional_params=True)
        assert made.attr_dict()["x"]["__dtype__"] == want


def test_types_that_are_not_known_meet_at_run_time():
    x = mx.sym.Variable("data")
    dense = mx.sym.FullyConnected(x, num_hidden=2, no_bias=True, name="fc")
    made = amp.convert_symbol(dense + mx.sym.relu(x))
    assert "fc_output_amp_multicast_output0" in casts(made)
    out, = made.eval(data=mx.nd.array([[1, 2]]), fc_weight=mx.nd.ones((2, 2)))
    assert out.asnumpy().tolist() == [[4, 5]]


@pytest.mark.parametrize("reader", [
    lambda low, v: mx.sym.Embedding(mx.sym.argmax(low, axis=1), v, input_dim=4, output_dim=4),
    lambda low, v: mx.sym.take(v, mx.sym.argmax(low, axis=1)),
    lambda low, v: mx.sym.one_hot(mx.sym.argmax(low, axis=1), depth=4),
    lambda low, v: mx.sym.one_hot(mx.sym.argmax(low, axis=1), depth=4) + low,
    lambda low, v: mx.sym.broadcast_mul(mx.sym.one_hot(mx.sym.argmax(low, axis=1), depth=4), low),
    lambda low, v: mx.sym.where(mx.sym.relu(low), v, 2 * v),
    lambda low, v: mx.sym.slice_like(v, low), lambda low, v: mx.sym.broadcast_like(v, low),
    lambda low, v: mx.sym.broadcast_sub(low, mx.sym.expand_dims(mx.sym.BatchNorm(
        low, output_mean_var=True)[1], 0))])
def test_types_of_results_follow_from_the_operator(reader):
    """The types of inputs need not be those of outputs: v is float32, what is computed is not."""
    low = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="low")
    net = mx.sym.FullyConnected(reader(low, mx.sym.Variable("v")), num_hidden=2, name="end")
    shapes = {name: (4, 4) for name in ("data", "v") if name in net.list_arguments()}
    found = []
    for symbol in (net, amp.convert_symbol(net)):
        executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
        for name, value in executor.arg_dict.items():
            value[:] = np.random.default_rng(len(name)).integers(-4, 4, value.shape) / 4
        found.append(executor.forward()[0].asnumpy())
    np.testing.assert_allclose(*found, rtol=4e-3, atol=4e-3)    # some steps of float16 at 1


def test_bucketing_module():
    def sym_gen(length):
        x = mx.sym.mean(mx.sym.Variable("data"), axis=1, name="mean")
        dense = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(dense, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=6)
    made = amp.convert_bucketing_module(module, cast_optional_params=True)
    made.bind([("data", (2, 6, 4))], [("softmax_label", (2,))], for_training=False)
    made.init_params(mx.init.One())
    for length in (6, 3):
        batch = mx.io.DataBatch(
            [mx.nd.ones((2, length, 4))], [mx.nd.zeros(2)], bucket_key=length,
            provide_data=[("data", (2, length, 4))], provide_label=[("softmax_label", (2,))])
        made.forward(batch, is_train=False)
        assert made.get_outputs()[0].shape == (2, 3)
    assert "mean_0_amp_cast_float16" in casts(made.symbol)
    assert made.get_params()[0]["fc_weight"].dtype == np.float16


SYMBOL = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)


@pytest.mark.parametrize("call, message", [
    (lambda: amp.convert_symbol("net"), "First argument.*given str"),
    (lambda: amp.convert_model("net", {}, {}), "First argument.*given str"),
    (lambda: amp.convert_model(SYMBOL, [], {}), "Second argument.*given list"),
    (lambda: amp.convert_bucketing_module(SYMBOL), "BucketingModule, given Symbol"),
    (lambda: amp.convert_symbol(SYMBOL, "int8"), "Only target_dtype float16.*'int8'"),
    (lambda: amp.convert_symbol(SYMBOL, excluded_sym_names="fc"), "excluded_sym_names.*'fc'"),
    (lambda: amp.convert_symbol(SYMBOL, target_dtype_ops=["Convolutions"]),
     "did you mean 'Convolution'"),
    (lambda: amp.convert_symbol(SYMBOL, target_dtype_ops=["exp"], fp32_ops=["exp"]),
     "two or more lists"),
    (lambda: amp.convert_symbol(SYMBOL, conditional_fp32_ops=[("Activation", "act_type")]),
     r"\(str, str, list of str\)"),
    (lambda: amp.list_lp16_ops("bfloat16"), "not supported type"),
])  # fmt: skip
def test_invalid_arguments(call, message):
    with pytest.raises(AssertionError, match=message) as caught:
        call()
    assert isinstance(caught.value, mx.MXNetError)


def test_refusals_say_what_to_do():
    with pytest.raises(mx.MXNetError, match="bfloat16, which nbmod does not have"):
        amp.convert_symbol(SYMBOL, "bfloat16")
    with pytest.raises(AssertionError, match="target_dtype float16 is supported, given 'int8'"):
        amp.init(np.int8)
    for call in (lambda: amp.init_trainer(None), lambda: amp.unscale(None),
                 lambda: amp.scale_loss(None, None).__enter__()):
        with pytest.raises(TypeError, match="only compatible with Gluon Trainer"):
            call()


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, optional", [
    (amp_programs.image_block, False), (amp_programs.image_block, True),
    (amp_programs.prelu_block, False)])
def test_converted_blocks_predict_what_the_block_predicts(make, optional, tmp_path):
    net, x = make(mx), amp_programs.images(mx)
    made = amp.convert_hybrid_block(net, cast_optional_params=optional)
    want, got = net(x).asnumpy(), made(x).asnumpy()
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=2e-3)      # some steps of float16
    assert amp_programs.casts_of(made)
    made.export(str(tmp_path / "net"), remove_amp_cast=False)
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data",
                                         str(tmp_path / "net-0000.params"))
    np.testing.assert_array_equal(again(x).asnumpy(), got)
    net[-1].weight.set_data(mx.nd.zeros((3, 64)))
    np.testing.assert_array_equal(made(x).asnumpy(), got)     # it has copies of its own


def test_converted_blocks_take_arrays_without_structure():
    net, x, h = amp_programs.nested_block(mx), mx.nd.ones((2, 3)), mx.nd.ones((2, 2))
    first, (second, third) = net(x, [h, x])
    got = amp.convert_hybrid_block(net)(x, h, x)
    for array, want in zip(got, (first, second, third), strict=True):
        np.testing.assert_allclose(array.asnumpy(), want.asnumpy(), rtol=2e-3)


def test_converted_blocks_stay_on_the_devices_of_the_block():
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(ctx=[mx.cpu(1), mx.cpu(2)])
    net.hybridize()
    net(mx.nd.ones((1, 3), ctx=mx.cpu(1)))
    made = amp.convert_hybrid_block(net)
    assert made.collect_params().list_ctx() == [mx.cpu(1), mx.cpu(2)]


@pytest.mark.parametrize("block, message, kind", [
    (None, "block input should be a HybridBlock, given NoneType", AssertionError),
    (mx.gluon.nn.Sequential(), "should be a HybridBlock, given Sequential", AssertionError),
    (mx.gluon.nn.Dense(2), "first call block.hybridize.*convert_hybrid_block", RuntimeError)])
def test_only_traced_blocks_are_converted(block, message, kind):
    with pytest.raises(kind, match=message) as caught:
        amp.convert_hybrid_block(block)
    assert isinstance(caught.value, mx.MXNetError)


# -- amp.init --------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """The state after `amp.init`, undone at the end."""
    monkeypatch.setattr(compose, "cast_inputs", None)
    monkeypatch.setattr(eager, "cast_inputs", None)
    amp.init()


def test_modules_train_after_init(started):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu"), name="norm")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2, name="fc2"),
                               name="softmax")
    x = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    data = mx.io.NDArrayIter(x, (x[:, 0] > x[:, 1]).astype(np.float32), 16)
    module = mx.mod.Module(net)
    module.fit(data, num_epoch=10, optimizer_params={"learning_rate": 0.5},
               initializer=mx.init.Xavier())
    assert dict(module.score(data, "acc"))["accuracy"] > 0.9
    assert {array.dtype for array in module.get_params()[0].values()} == {np.float32}
    assert module.get_outputs()[0].dtype == np.float32
    assert len([name for name in casts(module.symbol) if "amp_cast" in name]) == 8


def test_operators_on_arrays_cast_after_init(started):
    x, w = mx.nd.ones((2, 3)), mx.nd.ones((4, 3))
    low = mx.nd.FullyConnected(x, w, no_bias=True, num_hidden=4)
    assert low.dtype == np.float16
    assert [y.dtype for y in (low + low, low + low.astype("float32"), mx.nd.exp(low),
                              mx.nd.relu(low))] == [np.float16, np.float32, np.float32,
                                                    np.float16]  # fmt: skip
    assert mx.nd.softmax(x.astype("float64")).dtype == np.float64
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FullyConnected(x, w, no_bias=True, num_hidden=4)
    y.backward()
    assert x.grad.dtype == np.float32 and x.grad.asnumpy().tolist() == [[4, 4, 4]] * 2


def test_auxiliary_states_are_not_cast_after_init(started, monkeypatch):
    monkeypatch.setattr(compose, "cast_inputs", None)
    monkeypatch.setattr(eager, "cast_inputs", None)
    amp.init(target_precision_ops=["BatchNorm"])
    with mx.name.NameManager():
        net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="norm")
    assert net.list_auxiliary_states() == ["norm_moving_mean", "norm_moving_var"]
    assert casts(net) == ["amp_cast0", "amp_cast1", "amp_cast2"]


def test_a_second_init_has_no_effect(started):
    casts = compose.cast_inputs
    amp.init(target_precision_ops=["dot"])
    assert compose.cast_inputs is casts


def test_nodes_of_networks_are_not_cast_again(monkeypatch):
    """A network has the casts that it was made with, also where its nodes run one by one."""
    single = mx.nd.CachedOp(mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2,
                                                  no_bias=True, name="fc"))
    x, w = mx.nd.ones((1, 3)), mx.nd.ones((2, 3)) * (1 + 2.0 ** -12)
    monkeypatch.setattr(compose, "cast_inputs", None)
    monkeypatch.setattr(eager, "cast_inputs", None)
    amp.init()
    for array in (x, w):
        array.attach_grad()
    with mx.autograd.record():
        y = single(x, w)
    assert y.dtype == np.float32 and y.asnumpy()[0, 0] == 3 * (1 + 2.0 ** -12)
    dx, = mx.autograd.grad(y, [x], create_graph=True)
    assert dx.dtype == np.float32 and dx.asnumpy()[0, 0] == 2 * (1 + 2.0 ** -12)


# -- scaled losses ---------------------------------------------------------------------------------


@pytest.fixture
def trainer(started):
    """A trainer of one weight of ones, which scales losses."""
    weight = mx.gluon.Parameter("w", shape=(2,))
    weight.initialize("ones")
    trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 0.5})
    amp.init_trainer(trainer)
    return trainer


def gradient_of(trainer, factor):
    """Backward of a scaled loss whose gradient is `factor`."""
    with mx.autograd.record(), amp.scale_loss(
            (trainer._params[0].data() * factor).sum(), trainer) as scaled:
        pass
    scaled.backward()
    return trainer._params[0].grad().asnumpy()


def test_a_step_divides_by_the_factor_of_its_loss(trainer):
    assert gradient_of(trainer, 0.5).tolist() == [0.5 * 65536] * 2
    trainer.step(1)
    assert trainer._params[0].data().asnumpy().tolist() == [0.75, 0.75]
    gradient_of(trainer, 0.5)
    amp.unscale(trainer)
    assert trainer._params[0].grad().asnumpy().tolist() == [0.5, 0.5]
    trainer.step(1)
    assert trainer._params[0].data().asnumpy().tolist() == [0.5, 0.5]


def test_an_overflow_skips_the_step_and_halves_the_factor_at_once(trainer):
    """MXNet's next loss has the old factor still, and overflows again."""
    gradient_of(trainer, np.inf)
    trainer.step(1)
    assert trainer._params[0].data().asnumpy().tolist() == [1, 1]
    assert gradient_of(trainer, 1).tolist() == [32768, 32768]
    trainer.step(1)
    assert trainer._params[0].data().asnumpy().tolist() == [0.5, 0.5]


def test_the_factor_is_doubled_after_many_good_steps(trainer):
    scaler = trainer._amp_loss_scaler
    gradient_of(trainer, 1)
    scaler._unskipped = 1999
    assert not scaler.has_overflow(trainer._params) and scaler.loss_scale == 2.0 ** 17
    scaler._loss_scale, scaler._scale_seq_len = 2.0 ** 24, 1
    scaler.has_overflow(trainer._params)
    assert scaler.loss_scale == 2.0 ** 24


def test_the_factor_is_stored_and_restored_by_mxnets_names(trainer, oracle):
    """Sockeye does so; the last of MXNet's factors is that of the next loss here."""
    (theirs,) = oracle.call("mx_scripts.evaluate",
                            "[vars(__import__('mxnet.contrib.amp', fromlist=['amp'])"
                            ".loss_scaler.LossScaler())]", {})
    scaler = trainer._amp_loss_scaler
    assert {name: getattr(scaler, name) for name in theirs} == theirs and len(theirs) == 5
    scaler._loss_scale, scaler._next_loss_scale, scaler._unskipped = 8.0, 4.0, 3
    assert (scaler._loss_scale, scaler._next_loss_scale, scaler.loss_scale) == (4, 4, 4)
    assert gradient_of(trainer, 1).tolist() == [4, 4]


def test_lists_of_losses_are_scaled_as_lists(trainer):
    with amp.scale_loss([mx.nd.ones(1), mx.nd.ones(1)], trainer) as scaled:
        assert [x.asscalar() for x in scaled] == [65536, 65536]


def test_trainers_scale_losses_after_both_calls():
    weight = mx.gluon.Parameter("w", shape=(2,))
    weight.initialize()
    trainer = mx.gluon.Trainer([weight], "sgd")
    with pytest.raises(AssertionError, match="did you forget to call amp.init"):
        amp.init_trainer(trainer)
    with pytest.raises(AssertionError, match="call amp.init_trainer"):
        amp.unscale(trainer)
