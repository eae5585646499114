"""More programs over modules whose results must agree in nbmod and MXNet; imports neither.

Every function of `PROGRAMS` takes `mx` and returns plain data, arrays included.  Arrays that the
next call overwrites are converted at once, by `plain`; `attempt` turns an exception into "error".
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.programs.calls import attempt, plain
from tests.programs.common import nd
from tests.programs.module_programs import iterator, list_iterator, network, samples, start

Arrays = dict[str, np.ndarray]


def answer(mx: Any, program: str) -> Any:
    """The result of a program, with automatic names counted from 0 and warnings suppressed."""
    with mx.name.NameManager(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(PROGRAMS[program](mx))


def cpus(mx: Any, count: int) -> list[Any]:
    return [mx.cpu(i) for i in range(count)]


def batch(mx: Any, first: int = 0, last: int = 8) -> Any:
    data, label = samples()
    return mx.io.DataBatch([nd(mx, data[first:last])], [nd(mx, label[first:last])])


def bound(mx: Any, contexts: int = 1, size: int = 8, symbol: Any = None, module: Any = None,
          **options: Any) -> Any:
    """The network on some CPUs, its parameters set."""
    symbol = network(mx) if symbol is None else symbol
    module = mx.mod.Module(symbol, context=cpus(mx, contexts), **(module or {}))
    module.bind([("data", (size, 5))], [("softmax_label", (size,))], **options)
    module.init_params(arg_params=start(mx), aux_params={})
    return module


def params(module: Any) -> Arrays:
    args, aux = module.get_params()
    return {name: array.asnumpy() for name, array in sorted({**args, **aux}.items())}


# -- predicting -------------------------------------------------------------------------------


def predictions(mx: Any) -> Any:
    module, data = bound(mx), samples()[0]
    whole = iterator(mx, 7, 24)
    return [module.predict(whole), module.predict(whole, num_batch=2),
            module.predict(whole, num_batch=0), module.predict(whole, merge_batches=False),
            module.predict(whole, always_output_list=True), module.predict(data[:8]),
            module.predict(nd(mx, data[:8]), always_output_list=True, merge_batches=False),
            attempt(lambda: module.predict([data[:8]]))]


def iterated_predictions(mx: Any) -> Any:
    module, whole = bound(mx), iterator(mx, 10, 24)
    return [[outputs, number, one.pad, one.data[0].shape]
            for outputs, number, one in module.iter_predict(whole)] + [
        [number for _, number, _ in module.iter_predict(whole, num_batch=2, reset=True)],
        [number for _, number, _ in module.iter_predict(whole, reset=False)]]


def several_outputs(mx: Any) -> Any:
    internals = network(mx).get_internals()
    both = mx.sym.Group([internals["fc1_output"], internals["softmax_output"]])
    module = bound(mx, 2, symbol=both)
    outputs = module.predict(iterator(mx, 8, 20))
    return [module.output_names, module.output_shapes, outputs,
            module._exec_group.get_outputs(True, 1, 2), module.get_outputs(False)]


def scores(mx: Any) -> Any:
    module, whole = bound(mx, 2), iterator(mx, 8, 20)
    both = mx.metric.create(["acc", "ce"])
    return [module.score(whole, "acc"), module.score(whole, both), module.score(whole, both, 1),
            module.score(whole, "acc", reset=False), module.score(list_iterator(mx), "acc")]


# -- forms of batches -------------------------------------------------------------------------


def lists_of_batches(mx: Any) -> Any:
    module = bound(mx, 2, inputs_need_grad=True)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    metric, found = mx.metric.create("acc"), []
    for parts in ([batch(mx, 0, 4), batch(mx, 4, 8)], [batch(mx, 8, 12), batch(mx, 2, 6)]):
        module.forward_backward(parts)
        module.update()
        module.update_metric(metric, [part.label for part in parts], pre_sliced=True)
        found += plain([module.get_outputs(), module.get_outputs(False), module.get_input_grads(),
                        metric.get()])
    return [*found, params(module), attempt(lambda: module.forward([batch(mx, 0, 8)]))]


def half_and_single(mx: Any) -> Any:
    """Arrays of both precisions are given to inputs of both precisions."""
    x = mx.sym.broadcast_mul(mx.sym.Variable("data"), mx.sym.Variable("weight", shape=(1, 5)))
    symbol = mx.sym.Group([mx.sym.MakeLoss(mx.sym.square(x)), mx.sym.BlockGrad(x)])
    found = []
    for width, given in (("float16", "float32"), ("float32", "float16"), ("float16", "float16")):
        module = mx.mod.Module(symbol, label_names=None, context=cpus(mx, 2))
        module.bind([mx.io.DataDesc("data", (8, 5), width)], inputs_need_grad=True)
        module.init_params(mx.init.Constant(0.3))
        module.init_optimizer(optimizer_params={"learning_rate": 0.5, "multi_precision": True})
        module.forward_backward(mx.io.DataBatch([batch(mx).data[0].astype(given)]))
        module.update()
        executor = module._exec_group.execs[1]
        found += plain([module.get_outputs(), module.get_input_grads(), params(module),
                        executor.arg_dict["data"], executor.grad_dict["weight"]])
    return found


def other_shapes(mx: Any) -> Any:
    """Batches of several sizes alternately, while training."""
    module, found = bound(mx, 2), []
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    for size in (8, 6, 12, 8, 4, 6, 8):
        module.forward_backward(batch(mx, 0, size))
        module.update()
        found += plain([module.get_outputs(), module.data_shapes, module.label_shapes,
                        module.output_shapes])
    module.reshape([("data", (10, 5))], [("softmax_label", (10,))])
    module.forward(batch(mx, 0, 10), is_train=False)
    return [*found, module.get_outputs(), module.data_shapes, params(module)]


def described_batches(mx: Any) -> Any:
    """`provide_data` of a batch counts, also in another order than the module's."""
    x = mx.sym.broadcast_add(mx.sym.Variable("a"),
                             mx.sym.sum(mx.sym.Variable("b"), axis=1, keepdims=True))
    module = mx.mod.Module(x, data_names=["a", "b"], label_names=None, context=mx.cpu())
    module.bind([("a", (4, 2)), ("b", (4, 3))], for_training=False)
    module.init_params()
    a, b = mx.nd.ones((6, 2)), mx.nd.arange(18).reshape((6, 3))
    described = mx.io.DataBatch([a, b], provide_data=[mx.io.DataDesc("a", (6, 2)),
                                                      mx.io.DataDesc("b", (6, 3))])
    module.forward(described)
    return [module.get_outputs(), module.data_shapes, module.output_shapes]


def time_major(mx: Any) -> Any:
    """The batch axis is the second of data, labels and one of the outputs."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, flatten=False, name="fc")
    label = mx.sym.Reshape(mx.sym.Variable("label"), shape=(-1,))
    loss = mx.sym.SoftmaxOutput(mx.sym.Reshape(x, shape=(-1, 3)), label, name="softmax")
    seen = mx.sym.BlockGrad(x, name="seen", attr={"__layout__": "TNC"})
    rng, found = np.random.default_rng(3), []
    data = rng.standard_normal((3, 6, 4)).astype(np.float32)
    labels = rng.integers(0, 3, (3, 6)).astype(np.float32)
    weight = rng.standard_normal((3, 4)).astype(np.float32)
    for contexts, loads in ((1, None), (2, None), (2, [1, 2])):
        module = mx.mod.Module(mx.sym.Group([loss, seen]), label_names=["label"],
                               context=cpus(mx, contexts), work_load_list=loads)
        module.bind([mx.io.DataDesc("data", (3, 6, 4), layout="TNC")],
                    [mx.io.DataDesc("label", (3, 6), layout="TN")], inputs_need_grad=True)
        module.init_params(arg_params={"fc_weight": nd(mx, weight), "fc_bias": mx.nd.zeros((3,))},
                           aux_params={})
        module.init_optimizer(optimizer_params={"learning_rate": 0.1})
        for count in (6, 4, 6):
            module.forward_backward(mx.io.DataBatch([nd(mx, data[:, :count])],
                                                    [nd(mx, labels[:, :count])]))
            module.update()
            found += plain([module.get_outputs(), module.get_input_grads(),
                            module.data_shapes])
        found += [params(module), module._exec_group.batch_size,
                  [[part.start, part.stop] for part in module._exec_group.slices]]
    return found


# -- parameters -------------------------------------------------------------------------------


def parameters_given(mx: Any) -> Any:
    """Which calls of `init_params` and `set_params` succeed, and their results."""
    some = {"fc1_weight": mx.nd.ones((8, 5))}
    extra = {**start(mx), "fc9_weight": mx.nd.ones((2,))}
    found = []
    for given in (start(mx), some, extra, {}, None):
        for options in ({}, {"allow_missing": True}, {"allow_extra": True},
                        {"allow_missing": True, "allow_extra": True}, {"force_init": False}):
            for method in ("init_params", "set_params"):
                module = bound(mx)
                if method == "init_params":
                    call = {"initializer": mx.init.Constant(3), "arg_params": given,
                            "aux_params": {}, **options}
                elif given is None:
                    continue
                else:
                    call = {"arg_params": given, "aux_params": {}, **options}
                outcome = attempt(partial(getattr(module, method), **call))
                found.append([method, outcome, {} if outcome == "error" else params(module)])
    return found


def parameters_of_other_types(mx: Any) -> Any:
    module = bound(mx)
    module.set_params({name: value.astype("float16") for name, value in start(mx).items()}, {})
    return [params(module), module._exec_group.execs[0].arg_dict["fc1_weight"]]


def parameters_saved(mx: Any) -> Any:
    module = bound(mx, 2)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.forward_backward(batch(mx))
    module.update()
    with tempfile.TemporaryDirectory() as folder:
        module.save_params(f"{folder}/x.params")
        names = sorted(mx.nd.load(f"{folder}/x.params"))
        other = bound(mx)
        other.load_params(f"{folder}/x.params")
    return [names, params(module), params(other)]


def checkpoints_resumed(mx: Any) -> Any:
    """Momentum and update counts are restored with a checkpoint."""
    found = []
    for contexts in (1, 2):
        module = bound(mx, contexts)
        settings = {"learning_rate": 0.2, "momentum": 0.9}
        module.init_optimizer(optimizer_params=settings)
        for _ in range(3):
            module.forward_backward(batch(mx))
            module.update()
        with tempfile.TemporaryDirectory() as folder:
            module.save_checkpoint(f"{folder}/net", 3, save_optimizer_states=True)
            again = mx.mod.Module.load(f"{folder}/net", 3, load_optimizer_states=True,
                                       context=cpus(mx, contexts))
            again.bind([("data", (8, 5))], [("softmax_label", (8,))])
            again.init_optimizer(optimizer_params=settings)
        again.forward_backward(batch(mx, 8, 16))
        again.update()
        found.append(params(again))
    return found


def rebound(mx: Any) -> Any:
    """`force_rebind` keeps parameters and optimizer."""
    module = bound(mx)
    module.init_optimizer(optimizer_params={"learning_rate": 0.3, "momentum": 0.9})
    for size in (8, 4):
        module.forward_backward(batch(mx, 0, size))
        module.update()
        module.get_params()
        module.bind([("data", (4, 5))], [("softmax_label", (4,))], force_rebind=True)
    return [params(module), module.data_shapes, module.optimizer_initialized]


def shared(mx: Any) -> Any:
    """A module of another batch size that shares parameters and optimizer."""
    module = bound(mx, 2)
    module.init_optimizer(optimizer_params={"learning_rate": 0.3, "momentum": 0.9})
    other = mx.mod.Module(network(mx), context=cpus(mx, 2))
    other.bind([("data", (4, 5))], [("softmax_label", (4,))], shared_module=module)
    for one, last in ((module, 8), (other, 4), (module, 8)):
        one.forward_backward(batch(mx, 0, last))
        one.update()
    same = [mine is theirs for mine, theirs in
            ((other._optimizer, module._optimizer), (other._arg_params, module._arg_params),
             (other._kvstore, module._kvstore), (other._updater, module._updater))]
    return [params(module), same, other.optimizer_initialized]


# -- requests, fixed parameters, states -------------------------------------------------------


def requests(mx: Any) -> Any:
    found = []
    for request in ("write", "add", "null", ["null", "add", "null", "write", "write", "null"],
                    {"fc1_weight": "add", "data": "write"}):
        for fixed in (None, ["fc2_bias"]):
            module = bound(mx, module={"fixed_param_names": fixed}, grad_req=request,
                           inputs_need_grad=True)
            for _ in range(2):
                module.forward_backward(batch(mx))
            grads = module._exec_group.execs[0].grad_dict
            found.append([{name: grad is None for name, grad in grads.items()},
                          {name: grad for name, grad in grads.items() if grad is not None}])
    return found


def states(mx: Any) -> Any:
    """A running sum carried by hand from batch to batch."""
    data, held = mx.sym.Variable("data"), mx.sym.Variable("held", shape=(0, 3))
    weight = mx.sym.Variable("weight", shape=(1, 3))
    total = mx.sym.broadcast_mul(data, weight) + held
    out = mx.sym.Group([mx.sym.MakeLoss(mx.sym.sum(total, axis=1)), mx.sym.BlockGrad(total)])
    found = []
    for contexts in (1, 2):
        module = mx.mod.Module(out, label_names=None, state_names=["held"],
                               context=cpus(mx, contexts))
        module.bind([("data", (4, 3))])
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"learning_rate": 0.125})
        found += plain(module.get_states(merge_multi_context=False))
        module.set_states(value=1)
        for step in range(3):
            module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3)) * step]))
            module.update()
            module.set_states(module.get_outputs(merge_multi_context=False)[1:])
            found += plain(module.get_states(merge_multi_context=False))
        held = module.get_states(merge_multi_context=False)
        found += [params(module), attempt(partial(module.set_states, states=held, value=1))]
    return found


def heads(mx: Any) -> Any:
    """Head gradients for a network without a loss, whole and split."""
    found = []
    for contexts in (1, 2):
        module = mx.mod.Module(network(mx).get_internals()["fc2_output"], label_names=None,
                               context=cpus(mx, contexts))
        module.bind([("data", (8, 5))], inputs_need_grad=True)
        module.init_params(arg_params=start(mx), aux_params={})
        module.forward(mx.io.DataBatch(batch(mx).data), is_train=True)
        head = mx.nd.arange(24).reshape((8, 3))
        module.backward([head])
        found += plain(module.get_input_grads())
        found.append(attempt(module.backward))
    return found


# -- attributes that scripts access -----------------------------------------------------------


def internals(mx: Any) -> Any:
    found = []
    for contexts, loads in ((1, None), (2, [1, 3])):
        module = bound(mx, contexts, module={"work_load_list": loads,
                                             "fixed_param_names": ["fc1_bias"]})
        module.init_optimizer(kvstore="local")
        group = module._exec_group
        executor = group.execs[-1]
        found += [
            [(one.device_type, one.device_id) for one in module._context], module._work_load_list,
            module._data_names, module._label_names, module._fixed_param_names,
            module._param_names, module._aux_names, module._output_names, module._state_names,
            module.symbol is module._symbol, module._params_dirty, module._preload_opt_states,
            module._data_shapes, module._label_shapes, module.data_names, module.label_names,
            sorted(module._arg_params), module._aux_params, type(module._optimizer).__name__,
            module._kvstore is None, module._update_on_kvstore, module._updater is None,
            [module.binded, module.for_training, module.inputs_need_grad,
             module.params_initialized, module.optimizer_initialized],
            len(group.execs), group.param_names, group.arg_names, group.aux_names,
            group.batch_size, [[part.start, part.stop] for part in group.slices],
            [[array.shape for array in arrays] for arrays in group.param_arrays],
            [[None if array is None else array.shape for array in arrays]
             for arrays in group.grad_arrays], group.aux_arrays,
            [[(part.start, part.stop, array.shape) for part, array in arrays]
             for arrays in group.data_arrays],
            [[(part.start, part.stop, array.shape) for part, array in arrays]
             for arrays in group.label_arrays],
            list(executor.arg_dict), sorted(executor.grad_dict), list(executor.aux_dict),
            [output.shape for output in executor.outputs], list(executor.output_dict)]
    return found


def poked(mx: Any) -> Any:
    """Parameters and gradients changed in the executors, as gradient clippers and GANs do."""
    module = bound(mx, 2)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.forward_backward(batch(mx))
    for arrays in module._exec_group.grad_arrays:
        for array in arrays:
            array[:] = mx.nd.clip(array, -0.1, 0.1)
    module.update()
    found = [params(module)]
    for executor in module._exec_group.execs:
        executor.arg_dict["fc1_bias"][:] = 0.5
    module._params_dirty = True
    module._sync_params_from_devices()
    found.append(module._arg_params["fc1_bias"])
    module._exec_group.reshape([mx.io.DataDesc("data", (6, 5))],
                               [mx.io.DataDesc("softmax_label", (6,))])
    module._exec_group.forward(batch(mx, 0, 6), is_train=True)
    module._exec_group.backward()
    return [*found, module._exec_group.get_outputs(),
            [arrays[1] for arrays in module._exec_group.grad_arrays]]


def optimizers_given(mx: Any) -> Any:
    """Optimizers by name and as objects, stores of every form, and how they are combined."""
    found = []
    for contexts in (1, 2):
        for store in ("local", "device", None, "local_allreduce_cpu", "object"):
            module = bound(mx, contexts)
            store = mx.kv.create("local") if store == "object" else store
            optimizer = mx.optimizer.SGD(learning_rate=0.1, rescale_grad=0.125, momentum=0.5)
            module.init_optimizer(kvstore=store, optimizer=optimizer)
            for _ in range(2):
                module.forward_backward(batch(mx))
                module.update()
            found.append([module._kvstore is None, bool(module._update_on_kvstore),
                          module._updater is None, sorted(optimizer.idx2name.items()),
                          params(module) if store is not None or contexts == 1 else {}])
    return found


def monitored(mx: Any) -> Any:
    """Records of monitors of all kinds of forward passes and arrays, batch by batch."""
    found = []
    for options in ({"interval": 1}, {"interval": 2, "pattern": ".*weight|softmax.*", "sort": True},
                    {"interval": 1, "monitor_all": True, "pattern": "(fc1|act_output|data).*"},
                    {"interval": 1, "stat_func": lambda x: [x.max(), mx.nd.abs(x).mean()]}):
        monitor, module = mx.mon.Monitor(**options), bound(mx, 2)
        module.install_monitor(monitor)
        module.init_optimizer(optimizer_params={"learning_rate": 0.5})
        for step in range(3):
            monitor.tic()
            module.forward_backward(batch(mx, 8 * step, 8 * step + 8))
            module.update()
            found.append([[number, name, [float(part) for part in text.split()]]
                          for number, name, text in monitor.toc()
                          if "backward" not in name and _is_numbers(text)])
        found += [monitor.step, monitor.activated, len(monitor.exes)]
    return found


def _is_numbers(text: str) -> bool:
    return not set(text) - set("0123456789.e+- \t")


PROGRAMS: dict[str, Callable[[Any], Any]] = {function.__name__: function for function in (
    predictions, iterated_predictions, several_outputs, scores, lists_of_batches, half_and_single,
    other_shapes, described_batches, time_major, parameters_given, parameters_of_other_types,
    parameters_saved, checkpoints_resumed, rebound, shared, requests, states, heads, internals,
    poked, optimizers_given, monitored)}
