"""Modules whose input shapes change from batch to batch, as detection networks' do."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nbmod as mx
from nbmod.executor import Executor
from nbmod.ops.jit import Kernel

SIZES = [(8, 8), (12, 8), (8, 20), (16, 16), (9, 11), (24, 24)]


def network():
    """Fully convolutional, as a detector's backbone; a class and a box for the whole image."""
    x = mx.sym.Variable("data")
    for number in range(2):
        x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, name=f"conv{number}")
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"bn{number}")
        x = mx.sym.Activation(x, act_type="tanh")
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    classes = mx.sym.FullyConnected(x, num_hidden=3, name="cls")
    boxes = mx.sym.FullyConnected(x, num_hidden=4, name="box")
    loss = mx.sym.smooth_l1(boxes - mx.sym.Variable("box_label"), scalar=1.0)
    return mx.sym.Group([
        mx.sym.SoftmaxOutput(classes, mx.sym.Variable("cls_label"), name="cls_prob"),
        mx.sym.MakeLoss(loss, name="box_loss")])


def batch(size, seed=0):
    rng = np.random.default_rng([*size, seed])
    return mx.io.DataBatch([mx.nd.array(rng.standard_normal((2, 1, *size)))],
                           [mx.nd.array(rng.integers(0, 3, 2)),
                            mx.nd.array(rng.standard_normal((2, 4)))])


def shapes(size):
    return [("data", (2, 1, *size))], [("cls_label", (2,)), ("box_label", (2, 4))]


def trained_module(size=(8, 8)):
    module = mx.mod.Module(network(), label_names=["cls_label", "box_label"])
    module.bind(*shapes(size))
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    return module


def step(module, one):
    module.forward_backward(one)
    module.update()


def costs(module):
    """Compiled specializations of kernels, live executors, and the bytes that they hold."""
    alive = gc.get_objects()
    executors = [one for one in alive if type(one) is Executor]
    kept = list(module._exec_group._kept[0].values())
    arrays = {id(array._data): array._data.nbytes for executor in kept
              for table in (executor.arg_dict, executor.grad_dict, executor.aux_dict)
              for array in table.values() if array is not None}
    return (sum(len(one._compiled.signatures) for one in alive
                if type(one) is Kernel and one._compiled is not None),
            len(executors), sum(arrays.values()) + kept[-1].arena.nbytes)


def test_shapes_in_turns_cost_nothing_once_they_are_known():
    module = trained_module()
    for size in SIZES:
        step(module, batch(size))
    executors = [module._exec_group._kept[0][key] for key in module._exec_group._kept[0]]
    gc.collect()
    known = costs(module)
    for turn in range(3):
        for size in reversed(SIZES) if turn % 2 else SIZES:
            step(module, batch(size, turn))
    gc.collect()
    assert costs(module) == known
    assert {id(one) for one in module._exec_group._kept[0].values()} == set(map(id, executors))


def test_executors_of_all_shapes_share_parameters_and_one_arena():
    module = trained_module()
    alone = []
    for size in SIZES:
        step(module, batch(size))
        other = trained_module(size)
        step(other, batch(size))
        alone.append(other._exec_group.execs[0].arena.nbytes)
    kept = list(module._exec_group._kept[0].values())
    assert len({id(one.arena) for one in kept}) == 1
    assert len({id(one.arg_dict["conv0_weight"]) for one in kept}) == 1
    assert kept[0].arena.nbytes == max(alone)


def test_training_over_shapes_is_training_of_one_module_per_shape():
    """Shapes change executors, not results: parameters passed between modules agree."""
    module = trained_module()
    modules = {size: trained_module(size) for size in SIZES}
    for number, size in enumerate(SIZES * 2):
        one = batch(size, number)
        arrays = module.get_params()
        modules[size].set_params(*arrays)
        step(module, one)
        modules[size].forward_backward(one)
        grads = [made._exec_group.grad_arrays for made in (module, modules[size])]
        for mine, other in zip(*grads, strict=True):
            np.testing.assert_array_equal(mine[0].asnumpy(), other[0].asnumpy())


def test_a_monitor_follows_to_the_executor_in_use():
    monitor = mx.mon.Monitor(1, lambda array: str(array.shape), pattern="data|conv0_output")
    module = trained_module()
    module.install_monitor(monitor)
    for size in ((8, 8), (12, 8), (8, 8)):
        monitor.tic()
        step(module, batch(size))
        height, width = size
        assert [(name, text.strip()) for _, name, text in monitor.toc()] == [
            ("conv0_output", f"(2, 4, {height - 2}, {width - 2})"),
            ("data", f"(2, 1, {height}, {width})")]
        assert monitor.exes == module._exec_group.execs


# -- a users' module: one Module, bound again where shapes grow -----------------------------


class MutableModule(mx.mod.BaseModule):
    """Binds anew for a batch larger than all before; as in R-CNN repositories."""

    def __init__(self, symbol, data_names, label_names, logger=mx.mod.base_module.logging,
                 context=None, largest=None):
        super().__init__(logger)
        self._symbol, self._context = symbol, context
        self._data_names, self._label_names = data_names, label_names
        self._largest = dict(largest or {})
        self._curr_module = None
        self.rebinds = 0

    @property
    def data_names(self):
        return self._data_names

    @property
    def output_names(self):
        return self._symbol.list_outputs()

    @property
    def data_shapes(self):
        return self._curr_module.data_shapes

    @property
    def label_shapes(self):
        return self._curr_module.label_shapes

    @property
    def output_shapes(self):
        return self._curr_module.output_shapes

    def get_params(self):
        return self._curr_module.get_params()

    def init_params(self, initializer=mx.init.Uniform(0.01), arg_params=None,  # noqa: B008
                    aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        if self.params_initialized and not force_init:
            return
        self._curr_module.init_params(initializer=initializer, arg_params=arg_params,
                                      aux_params=aux_params, allow_missing=allow_missing,
                                      force_init=force_init)
        self.params_initialized = True

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        params = self.get_params() if self.params_initialized else None
        if self.binded and not force_rebind:
            return
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.binded = True
        largest = [(name, self._largest.get(name, shape)) for name, shape in data_shapes]
        self._curr_module = mx.mod.Module(self._symbol, self._data_names, self._label_names,
                                          logger=self.logger, context=self._context)
        self._curr_module.bind(largest, label_shapes, for_training, inputs_need_grad,
                               force_rebind=False, shared_module=None)
        if params is not None:
            self._curr_module.set_params(*params)

    def init_optimizer(self, kvstore="local", optimizer="sgd",
                       optimizer_params=(("learning_rate", 0.01),), force_init=False):
        self._curr_module.init_optimizer(kvstore, optimizer, optimizer_params,
                                         force_init=force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch, is_train=None):
        shapes = {name: array.shape for name, array in
                  zip(self._data_names, data_batch.data, strict=True)}
        known = dict(self._curr_module.data_shapes)
        if any(np.prod(shape) > np.prod(known[name]) for name, shape in shapes.items()):
            self.rebinds += 1
            module = mx.mod.Module(self._symbol, self._data_names, self._label_names,
                                   logger=self.logger, context=self._context)
            module.bind(data_batch.provide_data, data_batch.provide_label,
                        self._curr_module.for_training, self._curr_module.inputs_need_grad,
                        shared_module=self._curr_module)
            self._curr_module = module
        self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads=None):
        self._curr_module.backward(out_grads=out_grads)

    def update(self):
        self._curr_module.update()

    def get_outputs(self, merge_multi_context=True):
        return self._curr_module.get_outputs(merge_multi_context=merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        self._curr_module.install_monitor(mon)


class Images(mx.io.DataIter):
    """Images of all sizes, each batch with its own descriptions."""

    def __init__(self):
        super().__init__(2)
        self.provide_data, self.provide_label = ([mx.io.DataDesc(*pair) for pair in pairs]
                                                 for pairs in shapes(SIZES[0]))
        self.reset()

    def reset(self):
        self.left = iter(SIZES)

    def next(self):
        size = next(self.left)
        one = batch(size)
        one.pad = 0
        one.provide_data, one.provide_label = ([mx.io.DataDesc(*pair) for pair in pairs]
                                               for pairs in shapes(size))
        return one


@pytest.mark.parametrize("contexts", [1, 2])
def test_a_module_of_the_users_own_trains_as_module_does(contexts):
    results = []
    for kind in (MutableModule, mx.mod.Module):
        module = kind(network(), ["data"], ["cls_label", "box_label"],
                      context=[mx.cpu(i) for i in range(contexts)])
        mx.random.seed(3)
        metric = mx.metric.CustomMetric(lambda label, pred: float((pred.argmax(1) == label).mean()),
                                        "cls", output_names=["cls_prob_output"],
                                        label_names=["cls_label"])
        module.fit(Images(), eval_data=Images(), num_epoch=3, eval_metric=metric,
                   initializer=mx.init.Xavier(), kvstore="local",
                   optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
        results.append(({name: value.asnumpy() for params in module.get_params()
                         for name, value in params.items()}, module.history))
        if kind is MutableModule:
            assert module.rebinds > 4
    (mine, history), (theirs, others) = results
    for name, value in theirs.items():
        np.testing.assert_allclose(mine[name], value, 1e-5, 1e-6, err_msg=name)
    assert [past["train"] for past in history] == [past["train"] for past in others]
