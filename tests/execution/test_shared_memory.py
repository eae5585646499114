"""Parameters in memory that other code writes without telling: results follow at any time.

Each way in which memory leaves or enters meets each moment, each writer, and each network whose
parameters are used in another form.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import pickle
import re
import sys
import warnings
from typing import NamedTuple

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.executor import Executor
from nbmod.ndarray import mutation
from nbmod.ops.blocked.layout import LANES
from tests.fuzz.quantized import Network

sym = mx.sym


class Layer(NamedTuple):
    """A network, values of its variables, one that is used in another form, and what makes that."""

    symbol: mx.sym.Symbol
    values: dict[str, np.ndarray]
    weight: str
    op: str
    trained: tuple[str, ...] = ()


def of_shapes(symbol, weight, op, trained=(), **shapes):
    random = np.random.default_rng(0)
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    arguments, _, states = symbol.infer_shape(**shapes)
    return Layer(symbol, {name: random.uniform(0.5, 1.5, shape).astype(np.float32)
                          for name, shape in zip(names, [*arguments, *states], strict=True)},
                 weight, op, trained)


def convolution(channels, **params):
    return sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=channels, name="conv",
                           **params)


def packed():
    return of_shapes(convolution(16), "conv_weight", "winograd_tile=0", data=(1, 16, 8, 8))


def winograd():
    layer = convolution(64, pad=(1, 1))
    return of_shapes(layer, "conv_weight", "winograd_tile=[24]", data=(1, 64, 16, 16))


def frozen():
    """A layer of a network for training that is not trained itself."""
    x = sym.FullyConnected(convolution(16), num_hidden=2, name="fc")
    return of_shapes(x, "conv_weight", "winograd_tile=0", ("fc_weight",), data=(1, 16, 8, 8))


def folded():
    x = sym.BatchNorm(convolution(16), fix_gamma=False, name="bn")
    return of_shapes(x, "bn_gamma", "FoldedBatchNorm", data=(1, 16, 8, 8))


def int8():
    random, values = np.random.default_rng(0), {}

    def variable(name, shape, dtype):
        drawn = random.integers(-20, 20, shape) if dtype != "float32" else np.full(
            shape, -0.8 if "low" in name else 1)
        values[name] = drawn.astype(dtype)
        return sym.Variable(name, dtype=dtype)

    net = Network(sym, variable)
    sums = net.conv("conv", net.data(2, 16, 6, 6, dtype="int8"), 16, 16)
    x = sym.Group(list(net.bytes("conv", sums)))
    return Layer(x, values, "conv_weight", "PackedInt8Filters")


NETWORKS = {build.__name__: build for build in (packed, winograd, frozen, folded, int8)}
if LANES == 1:      # without vectors nothing is packed
    NETWORKS = {"folded": folded}


def arrays_of(values):
    return {name: mx.nd.array(value, dtype=value.dtype) for name, value in values.items()}


def bound(layer, arrays):
    args, aux = ({name: arrays[name] for name in names} for names in (
        layer.symbol.list_arguments(), layer.symbol.list_auxiliary_states()))
    grads = {name: mx.nd.zeros_like(args[name]) for name in layer.trained}
    executor = layer.symbol.bind(mx.cpu(), args, grads, "write", aux)
    assert re.search(layer.op, str([part.node.op for group in executor.planned.constants
                                    for part in group.parts]))
    return executor


def output(executor):
    return executor.forward(is_train=False)[0].asnumpy()


class Case(NamedTuple):
    layer: Layer
    before: np.ndarray
    """The output."""
    written: list[tuple[np.ndarray, np.ndarray]]
    """New values of the parameter, and the output of a fresh executor."""


@functools.cache
def case(network):
    layer = NETWORKS[network]()
    value, written = layer.values[layer.weight], []
    for new in (2 * value, 1 + value[::-1]):
        executor = bound(layer, arrays_of({**layer.values, layer.weight: new}))
        written.append((np.ascontiguousarray(new), output(executor)))
    return Case(layer, output(bound(layer, arrays_of(layer.values))), written)


# -- ways in which memory leaves and enters -------------------------------------------------------

class Capsule:
    """An object of the protocol, as libraries take them."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **kwargs):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


class Keeping(mx.operator.NumpyOp):
    """Keeps its input."""

    def forward(self, in_data, out_data):
        self.kept = in_data[0]
        out_data[0][:] = 0


def input_of_operator(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        op = Keeping()
    symbol = op(sym.Variable("data"), name="keeping")
    symbol.bind(mx.cpu(), {"data": array}, grad_req="null").forward()
    return op.kept


LEAVES = {
    "itself": lambda array: array,
    "to_dlpack_for_read": lambda array: Capsule(array.to_dlpack_for_read()),
    "to_dlpack_for_write": lambda array: Capsule(mx.nd.to_dlpack_for_write(array)),
    "slice": lambda array: array[0:len(array)],
    "reshape": lambda array: array.reshape((-1,)),
    "detach": lambda array: array.detach(),
    "numpy": np.from_dlpack,
    "handle": lambda array: array.handle,
    "from_dlpack": mx.nd.from_dlpack,
    "input of an operator": input_of_operator,
}
"""What others get of an array."""


def buffer_of(values):
    """An array, and one of NumPy that does not know of its memory."""
    memory = bytearray(values.tobytes())
    mine, other = (np.frombuffer(memory, values.dtype).reshape(values.shape) for _ in range(2))
    return mx.nd.from_numpy(mine), other


def require_export(array):
    try:
        np.from_dlpack(array)
    except BufferError:
        pytest.skip("NumPy exports read-only arrays from 2.1 on")


def read_only(values):
    """As libraries give tensors that do not say whether they may be written."""
    view = values.view()
    view.flags.writeable = False
    require_export(view)
    return mx.nd.from_dlpack(view), values


def array_of(values):
    other = mx.nd.array(values, dtype=values.dtype)
    return mx.nd.from_dlpack(other), other


ENTERS = {
    "from_numpy": lambda values: (mx.nd.from_numpy(values), values),
    "from_numpy of a view": lambda values: (mx.nd.from_numpy(values[:]), values),
    "from_numpy of a buffer": buffer_of,
    "from_dlpack": lambda values: (mx.nd.from_dlpack(values), values),
    "from_dlpack, read-only": read_only,
    "from_dlpack of an array": array_of,
}
"""An array in the memory of others, and what they have."""


def begin(name, values):
    """An array of these values, and a function that returns what others get of its memory."""
    if name in ENTERS:
        array, other = ENTERS[name](values.copy())
        return array, lambda: other
    array = mx.nd.array(values, dtype=values.dtype)
    return array, lambda: LEAVES[name](array)


def by_library(taken):
    """Writes as another library does, also where NumPy would not."""
    array = taken if isinstance(taken, np.ndarray) else np.from_dlpack(taken)

    def write(values):
        ctypes.memmove(array.ctypes.data, values.tobytes(), values.nbytes)

    return write


def by_nbmod(taken):
    """Writes to another array of nbmod in this memory."""
    if isinstance(taken, np.ndarray):
        require_export(taken)
    array = taken if isinstance(taken, mx.nd.NDArray) else mx.nd.from_dlpack(taken)

    def write(values):
        array[:] = values.reshape(array.shape)

    return write


@pytest.mark.parametrize("writer", [by_library, by_nbmod], ids=lambda writer: writer.__name__)
@pytest.mark.parametrize("moment", ["before bind", "after bind", "after forward"])
@pytest.mark.parametrize("name", [*LEAVES, *ENTERS])
@pytest.mark.parametrize("network", NETWORKS)
def test_results_follow_memory_that_others_write(network, name, moment, writer, monkeypatch):
    """Bits are those of a fresh executor: the same kernels compute from the same values."""
    monkeypatch.setattr(CONFIG, "winograd", 4 if network == "winograd" else 0)
    layer, before, written = case(network)
    array, take = begin(name, layer.values[layer.weight])
    write = writer(take()) if moment == "before bind" else None
    executor = bound(layer, {**arrays_of(layer.values), layer.weight: array})
    if moment == "after bind":
        write = writer(take())
    np.testing.assert_array_equal(output(executor), before)
    write = write or writer(take())
    for values, expected in written:
        write(values)
        np.testing.assert_array_equal(output(executor), expected)
        assert not np.array_equal(expected, before)


# -- what sharing costs, and how long it lasts ----------------------------------------------------

def weight():
    return mx.nd.array(np.arange(12).reshape(4, 3))


def network_of(array):
    """An executor that has run, with this weight."""
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    layer = of_shapes(sym.BatchNorm(x, name="bn"), "fc_weight", "FoldedBatchNorm", data=(2, 3))
    executor = bound(layer, {**arrays_of(layer.values), layer.weight: array})
    executor.forward()
    return executor


def test_memory_is_shared_until_others_release_it():
    array = weight()
    executor = network_of(array)
    group, = executor.planned.constants
    for lend in (np.from_dlpack, mx.nd.from_dlpack, type(array).to_dlpack_for_write):
        taken = lend(array)
        part = taken[1:] if isinstance(taken, np.ndarray) else taken
        del taken
        gc.collect()
        executor.forward()
        assert group.stale and mutation.is_shared(array._data)
        del part
        executor.forward()
        assert not group.stale and not mutation.is_shared(array._data)
    np.from_dlpack(array)
    assert group.stale      # who has had the memory may have written it


def test_memory_that_is_gone_is_forgotten():
    gc.collect()
    before = [*mutation._shared]
    for make in (lambda: mx.nd.from_numpy(np.ones(3)), lambda: mx.nd.from_dlpack(np.ones(3)),
                 lambda: np.from_dlpack(mx.nd.ones(3))):
        made = [make(), make()]
        assert len(mutation._shared) == len(before) + 2
        del made
        assert [*mutation._shared] == before
    source = np.ones(3)
    for _ in range(3):
        mx.nd.from_numpy(source)
    assert len(mutation._shared) == len(before) + 1


def test_no_python_code_runs_when_memory_is_released():
    """Ctrl-C would be lost there."""
    taken, called = mutation.lend(mx.nd.ones(3)._data), []
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del taken
    sys.setprofile(None)
    assert called == ["c_call"]  # that of setprofile


def test_nothing_is_computed_again_while_shared_values_stay(monkeypatch):
    array = weight()
    executor, taken = network_of(array), mx.nd.from_dlpack(array)
    executor.forward()
    group, = executor.planned.constants
    computed, compute = [], group._compute
    monkeypatch.setattr(group, "_compute", lambda: (computed.append(1), compute()))
    for value in (np.nan, np.nan, 0.0, 0.0, -0.0, -0.0):
        taken[0] = value
        executor.forward()
    executor.arg_dict["bn_beta"][:] = 3     # is not shared, and derived with the weight
    executor.forward()
    assert len(computed) == 4


def test_values_whose_computation_failed_are_computed_again(monkeypatch):
    array = weight()
    executor, taken = network_of(array), mx.nd.from_dlpack(array)
    executor.forward()
    taken[:] = 2
    with monkeypatch.context() as context:
        def interrupt(*args):
            raise KeyboardInterrupt

        context.setattr(executor.planned.constants[0], "_run", interrupt)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                executor.forward()
    np.testing.assert_array_equal(output(executor), output(network_of(mx.nd.full((4, 3), 2))))


COPIES = {
    "asnumpy": lambda array: array.asnumpy(),
    "numpy.asarray": np.asarray,
    "copy": lambda array: array.copy(),
    "as_in_context": lambda array: array.copyto(mx.cpu(1)),
    "array": mx.nd.array,
    "a row by indices": lambda array: array[mx.nd.array([0, 1, 2, 3])],
    "row_sparse": lambda array: array.tostype("row_sparse").data,
    "csr": lambda array: array.tostype("csr").data,
    "pickle": lambda array: pickle.loads(pickle.dumps(array)),
    "state": lambda array: array.__getstate__()["handle"],
    "zero_copy=False": lambda array: mx.nd.from_numpy(array.asnumpy(), zero_copy=False),
    "transposed": lambda array: mx.nd.from_dlpack(array.handle.T),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_no_memory_of_the_array(name):
    array = weight()
    executor, before = network_of(array), array.asnumpy()
    copy = COPIES[name](array)
    gc.collect()
    assert not mutation.is_shared(array._data)
    copy[:] = bytes(len(copy)) if isinstance(copy, bytearray) else 0
    np.testing.assert_array_equal(array.asnumpy(), before)
    assert not [group for group in executor.planned.constants
                if group.stale and name != "transposed"]


@pytest.mark.parametrize("array", [mx.nd.ones((2, 2)), mx.nd.ones((2, 2)).tostype("csr"),
                                   mx.nd.ones((2, 2)).tostype("row_sparse")],
                         ids=lambda array: array.stype)
def test_memory_leaves_by_no_other_protocol(array):
    """A new one has to call `mutation.lend`, and to be among LEAVES."""
    for name in ("__array_interface__", "__array_struct__", "__buffer__",
                 "__cuda_array_interface__", "ctypes"):
        assert not hasattr(array, name)
    with pytest.raises(TypeError):
        memoryview(array)


# -- gradients in memory that other arrays have, too ----------------------------------------------


@functools.cache
def chained() -> dict[str, mx.sym.Symbol]:
    """Networks whose gradients are computed one from another."""
    x, w, v = map(sym.Variable, "xwv")
    return {"dense": sym.FullyConnected(sym.tanh(sym.FullyConnected(
                x, w, num_hidden=4, no_bias=True)), v, num_hidden=4, no_bias=True),
            "products": sym.tanh(x * w) * sym.sin(v * w),
            "sums": sym.elemwise_add(sym.elemwise_add(x, w), sym.tanh(v) * w)}


def gradients(network, request, place=lambda args, grads: None):
    """What a step leaves in the gradients, and what these held; `place` moves some."""
    args, grads = ({name: mx.nd.array(np.random.RandomState(seed + i).randn(4, 4))
                    for i, name in enumerate("xwv")} for seed in (0, 9))
    place(args, grads)
    before = {name: grads[name].asnumpy() for name in "xwv"}
    executor = chained()[network].bind(mx.cpu(), args, grads, request)
    executor.forward(is_train=True)
    executor.backward(mx.nd.array(np.arange(16).reshape(4, 4)))
    return {name: grads[name].asnumpy() for name in "xwv"}, before


def close(found, expected):
    return np.allclose(found, expected, rtol=1e-5, atol=1e-5)   # rounding of sums of 4 terms


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("network", ["dense", "products", "sums"])
@pytest.mark.parametrize("off", [(), ("write_gradients",)], ids=["", "off"])
def test_gradients_are_those_of_arrays_of_their_own(network, request_, off):
    """In the array of an argument, or in a part of it, and two gradients in one array."""
    def expect(found, before, names="xwv"):
        return all(close(found[name], of_own[name] + adds * before[name]) for name in names)

    adds, (of_own, zero) = request_ == "add", gradients(network, request_)
    of_own = {name: array - adds * zero[name] for name, array in of_own.items()}
    with mx.without_passes(*off):
        for name in "xwv":
            for other in "xwv":
                assert expect(*gradients(network, request_, lambda args, grads: grads.update(
                    {name: args[other]}))), (name, other)   # noqa: B023
            rest = "xwv".replace(name, "")
            found, before = gradients(network, request_, lambda args, grads: grads.update(
                {rest[0]: grads[rest[1]]}))                 # noqa: B023
            assert expect(found, before, name)
            either = [before[rest[0]] + of_own[rest[0]] + of_own[rest[1]]] if adds else [
                of_own[each] for each in rest]
            assert any(close(found[rest[0]], each) for each in either)


@pytest.mark.parametrize("rows", [2, 5000], ids=["by NumPy", "fused"])
@pytest.mark.parametrize("key", [None, "eager"], ids=["planned", "interpreted"])
def test_of_gradients_in_one_array_the_last_to_be_computed_stays(rows, key):
    """That of these arguments in MXNet, whatever runs the network, and in kernels of several nodes.
    """
    x, w, v = map(sym.Variable, "xwv")
    stay = {"x": sym.sin(x) * w + x * v, "w": x * w * v, "v": sym.exp(w) * sym.sin(v)}
    for name, network in stay.items():
        args = {each: mx.nd.random.uniform(0.1, 1, (rows,)) for each in network.list_arguments()}
        own = {each: mx.nd.zeros((rows,)) for each in args}
        one = dict.fromkeys(args, mx.nd.zeros((rows,)))
        for grads in (own, one):
            executor = Executor(network.bind(mx.cpu(), args, grads)._binding, key=key)
            executor.forward(is_train=True)
            executor.backward(mx.nd.ones((rows,)))
        assert close(one[name].asnumpy(), own[name].asnumpy()), name


def test_gradients_in_parts_of_an_array_are_computed_there():
    """What only has one owner with others, as the parts of a vector of all parameters, is apart."""
    flat = mx.nd.zeros((8, 4))
    executor = chained()["products"].bind(
        mx.cpu(), {name: mx.nd.ones((4, 4)) for name in "xwv"}, {"x": flat[:4], "w": flat[4:]})
    assert "_accumulate" not in {node.op_name for node in executor.compiled.nodes}
    assert not executor.planned.options.shared
