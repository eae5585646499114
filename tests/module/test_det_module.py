"""`DetModule`: parameters fixed by parts of their names, a batch of its own for every device."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError

LABEL = "class_label"


def network():
    """Convolutions with names of a backbone, and one class per image, of any size."""
    x = mx.sym.Variable("data")
    for name in ("conv0", "stage1_conv", "stage1_bn"):
        x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, name=name)
        x = mx.sym.Activation(x, act_type="tanh")
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="head_fc")
    return mx.sym.SoftmaxOutput(x, mx.sym.Variable(LABEL), name="class")


def batch(seed, count=2, size=(9, 9)):
    rng = np.random.default_rng(seed)
    return mx.io.DataBatch([mx.nd.array(rng.standard_normal((count, 1, *size)))],
                           [mx.nd.array(rng.integers(0, 3, count))])


class Batches(mx.io.DataIter):
    """An epoch of lists of batches; `sizes` are the image sizes, per step and device."""

    def __init__(self, sizes, count=2):
        super().__init__(count * len(sizes[0]))
        self.steps = [[batch((step, device), count, size) for device, size in enumerate(each)]
                      for step, each in enumerate(sizes)]
        self.provide_data = [mx.io.DataDesc("data", (self.batch_size, 1, 9, 9))]
        self.provide_label = [mx.io.DataDesc(LABEL, (self.batch_size,))]
        self.reset()

    def reset(self):
        self.left = iter(self.steps)

    def next(self):
        return next(self.left)


def module(devices=2, **options):
    made = mx.mod.DetModule(network(), ["data"], [LABEL],
                            context=[mx.cpu(i) for i in range(devices)], **options)
    made.bind([("data", (2 * devices, 1, 9, 9))], [(LABEL, (2 * devices,))])
    mx.random.seed(1)
    made.init_params(mx.init.Xavier())
    made.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    return made


def params(made):
    return {name: value.asnumpy() for name, value in made.get_params()[0].items()}


@pytest.mark.parametrize("fixed, excluded, names", [
    (None, None, ""), (["conv0"], None, "conv0_weight conv0_bias"),
    (["stage1", "head"], ["bn", "bias"], "stage1_conv_weight head_fc_weight"),
    (["weight", "stage1"], ["stage1"], "conv0_weight head_fc_weight"),
    (["data", "label"], None, ""), (None, ["conv0"], "")])
def test_fragments_choose_what_is_fixed(fixed, excluded, names, caplog):
    caplog.set_level("INFO")
    made = module(1, fixed_param=fixed, excluded_param=excluded)
    assert made._fixed_param_names == names.split()
    assert caplog.messages[0] == f"fixed parameters: {names.split()}"
    before = params(made)
    made.forward_backward(batch(1))
    made.update()
    still = [name for name, value in params(made).items() if (value == before[name]).all()]
    assert sorted(still) == sorted(names.split())


def test_a_list_trains_as_the_batch_that_it_is_cut_from():
    whole, cut = module(), module()
    for step in range(5):
        parts = [batch((step, device)) for device in range(2)]
        joined = mx.io.DataBatch([mx.nd.concat(*[part.data[0] for part in parts], dim=0)],
                                 [mx.nd.concat(*[part.label[0] for part in parts], dim=0)])
        for made, given in ((whole, joined), (cut, parts)):
            made.forward_backward(given)
            made.update()
        np.testing.assert_array_equal(whole.get_outputs()[0].asnumpy(),
                                      cut.get_outputs()[0].asnumpy())
    for name, value in params(whole).items():
        np.testing.assert_array_equal(params(cut)[name], value)


def test_shapes_differ_between_devices_and_steps():
    """Two devices with images of different sizes do what one does with them in turn."""
    both, one = module(2), module(1)
    one.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9,
                                         "rescale_grad": 0.25}, force_init=True)
    one.bind([("data", (2, 1, 9, 9))], [(LABEL, (2,))], force_rebind=True, grad_req="add")
    for step, sizes in enumerate([((9, 9), (9, 12)), ((11, 8), (9, 9)), ((9, 9), (9, 9)),
                                  ((9, 9), (9, 12))]):
        parts = [batch((step, device), size=size) for device, size in enumerate(sizes)]
        both.forward_backward(parts)
        both.update()
        for arrays in one._exec_group.grad_arrays:
            arrays[0][:] = 0
        for device, part in enumerate(parts):
            one.forward_backward(part)
            np.testing.assert_allclose(both.get_outputs(False)[0][device].asnumpy(),
                                       one.get_outputs()[0].asnumpy(), 1e-5)
        one.update()
        assert both.get_outputs()[0].shape == (4, 3)
        assert both.data_shapes[0].shape == (4, 1, *np.max(sizes, axis=0))
    for name, value in params(one).items():             # sums in another order
        np.testing.assert_allclose(params(both)[name], value, 1e-4, 1e-6, err_msg=name)


def test_a_whole_batch_may_follow_a_list():
    made = module()
    made.forward([batch(1, size=(9, 12)), batch(2, size=(12, 9))])
    made.forward(batch(3, count=4, size=(12, 12)))
    assert [out.shape for out in made.get_outputs(False)[0]] == [(2, 3), (2, 3)]
    assert made.data_shapes[0].shape == (4, 1, 12, 12)
    made.forward([batch(1, count=1), batch(2, count=3)])
    assert [out.shape for out in made.get_outputs(False)[0]] == [(1, 3), (3, 3)]
    assert made.output_shapes == [("class_output", (4, 3))]


def test_fit_takes_lists_from_the_iterator(caplog):
    caplog.set_level("INFO")
    train = Batches([((9, 9), (9, 12)), ((12, 9), (9, 9)), ((9, 9), (9, 9))])
    made = mx.mod.DetModule(network(), ["data"], [LABEL], context=[mx.cpu(0), mx.cpu(1)])
    mx.random.seed(1)
    made.fit(train, eval_data=train, num_epoch=8, initializer=mx.init.Xavier(), eval_metric="acc",
             optimizer_params={"learning_rate": 0.3, "momentum": 0.9})
    accuracies = [past["train"]["accuracy"] for past in made.history]
    assert accuracies[-1] == 1 == made.history[-1]["validation"]["accuracy"] > accuracies[0]
    assert made.predict(train).shape == (12, 3)


@pytest.mark.parametrize("epochs, recorded", [(1, 3), (5, 10)])
def test_fit_profiles_the_first_batches(monkeypatch, caplog, epochs, recorded):
    caplog.set_level("INFO")
    events = []
    profiler = SimpleNamespace(set_state=lambda state: events.append(state),
                               dump=lambda: events.append("dump"))
    monkeypatch.setitem(vars(mx), "profiler", profiler)
    train = Batches([((9, 9), (9, 9))] * 3)
    made = mx.mod.DetModule(network(), ["data"], [LABEL], context=[mx.cpu(0), mx.cpu(1)])
    made.fit(train, num_epoch=epochs, profile=True,
             batch_end_callback=lambda param: events.append(param.nbatch))
    assert events == ["run", *[i % 3 for i in range(recorded)], "stop", "dump",
                      *[i % 3 for i in range(recorded, 3 * epochs)]]
    assert caplog.messages.count("Profiling ends") == 1


def test_the_trace_holds_ten_batches_of_both_devices(tmp_path):
    mx.profiler.set_config(filename=str(tmp_path / "profile.json"), profile_all=True)
    made = mx.mod.DetModule(network(), ["data"], [LABEL], context=[mx.cpu(0), mx.cpu(1)])
    made.fit(Batches([((9, 9), (9, 9))] * 3), num_epoch=5, profile=True)
    mx.profiler.set_config(filename="profile.json")
    trace = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    begun = [event["name"] for event in trace if event["ph"] in "BX"]
    assert sum("head_fc" in name and "backward" not in name for name in begun) == 2 * 10


def test_checkpoints_are_detmodules_again(tmp_path):
    made = module(fixed_param=["conv0"])
    made.save_checkpoint(str(tmp_path / "net"), 1, save_optimizer_states=True)
    again = mx.mod.DetModule.load(str(tmp_path / "net"), 1, True, data_names=["data"],
                                  label_names=[LABEL], fixed_param=["conv0"])
    assert type(again) is mx.mod.DetModule and again._fixed_param_names == made._fixed_param_names
    again.bind([("data", (2, 1, 9, 9))], [(LABEL, (2,))])
    for name, value in params(again).items():
        np.testing.assert_array_equal(value, params(made)[name])


WRONG = [
    ("fewer batches", lambda made: made.forward([batch(1)]), "list of 1 .* 2 device"),
    ("more batches", lambda made: made.forward([batch(1)] * 3), "list of 3 .* 2 device"),
    ("fewer labels", lambda made: made.update_metric(mx.metric.create("acc"), [[]], True),
     "list of 1 .* 2 device"),
    ("fewer arrays", lambda made: made.forward([batch(1), mx.io.DataBatch([])]),
     r"0 arrays.*\['data'\]"),
    ("another channel", lambda made: made.forward(
        [batch(1), mx.io.DataBatch([mx.nd.ones((2, 3, 9, 9))], [mx.nd.zeros((2,))])]),
     "would change the parameter conv0_weight"),
    ("label of another length", lambda made: made.forward(
        [batch(1), mx.io.DataBatch(batch(2).data, [mx.nd.zeros((3,))])]),
     r"class_label of shape \(3,\).*cpu\(1\).*\(2,\)"),
]


@pytest.mark.parametrize("use, text", [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_lists_that_do_not_fit(use, text):
    made = module()
    made.forward_backward([batch(1), batch(2)])
    with pytest.raises(MXNetError, match=text):
        use(made)
    made.forward_backward([batch(1), batch(2)])
