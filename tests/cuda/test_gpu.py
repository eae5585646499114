"""GPUs: every kernel against its op on the CPU, GEMM tiles, networks trained on several devices.

Marked `gpu`: they run on a CUDA device, or in numba's simulator with NUMBA_ENABLE_CUDASIM=1.
Tests that need neither, compiling the kernels and running without a GPU, use processes of their
own.  Tolerances are those of the sample table: both sides compute in the same type and differ only
in the order of sums, and in float32 by a fused multiply-add.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from itertools import cycle

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.cuda import check as network_check
from nbmod.ops.cuda.runtime import graph_replay, launch, simulator
from nbmod.ops.cuda.runtime.simulator import SCHEDULES
from tests import sample_runs
from tests.cases import Sample, all_samples
from tests.compare import assert_same
from tests.cuda import check
from tests.cuda import setup as cuda_setup
from tests.programs import common, training

LARGEST = 3000
"""Elements of the inputs of a sample; a simulated one takes a microsecond and more."""
SAMPLES = {
    name: sample
    for name, sample in all_samples().items()
    if not (sample.error or sample.eager)
    and sum(np.prod(x.shape) for x in sample.specs.values()) <= LARGEST
}
NO_TWIN = "has no kernels yet"


# -- ops ----------------------------------------------------------------------------------------


def compare(sample: Sample, dtype: str, request: str) -> None:
    """Outputs, gradients and states on the GPU are those on the CPU."""
    grad = dict.fromkeys(sample.differentiated(dtype), request)
    with mx.gpu(0):
        got = sample_runs.run(sample, dtype, grad)
    want = sample_runs.run(sample, dtype, grad)
    tolerance = sample.tolerance(dtype)
    for index, (mine, theirs) in enumerate(zip(got["outputs"], want["outputs"], strict=True)):
        if sample.compares(index):
            assert_same(mine, theirs, tolerance, f"output {index}")
    for part in ("grads", "aux", "args"):
        for name, theirs in want[part].items():
            assert_same(got[part][name], theirs, tolerance, f"{part} {name}")


@pytest.mark.gpu
@pytest.mark.parametrize("name", SAMPLES)
def test_twins_do_what_their_ops_do(name, monkeypatch):
    """Random ops too: the same seed gives the same values on every device.

    The runs of a sample alternate between schedules.
    """
    sample = SAMPLES[name]
    runs = [*((dtype, "write") for dtype in sample.dtypes), (sample.dtypes[0], "add")]
    try:
        for (dtype, request), schedule in zip(runs, cycle(("deep", "backward", "forward"))):  # noqa: B905
            monkeypatch.setattr(simulator, "schedule", schedule)
            compare(sample, dtype, request)
    except mx.MXNetError as error:
        if NO_TWIN not in str(error):
            raise
        pytest.skip("no GPU twin yet")


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_integers_do_not_depend_on_the_schedule(monkeypatch, schedule):
    """Ranges that are reduced in parts, and sums of products in several slices."""
    monkeypatch.setattr(simulator, "schedule", schedule)
    for kind in ("quantize_v2", "requantize", "quantize_asym", "quantized_fully_connected",
                 "quantized_conv"):
        names = [name for name in all_samples() if name.startswith(f"_contrib_{kind}-")]
        for name in names[:3]:
            compare(all_samples()[name], "float32", "write")


@pytest.mark.gpu
@pytest.mark.parametrize("op", [
    "FullyConnected", "Convolution", "Pooling", "Activation", "LeakyReLU", "Flatten", "Reshape",
    "SoftmaxOutput", "softmax", "log_softmax", "SoftmaxActivation", "LinearRegressionOutput",
    "MakeLoss", "Dropout", "BatchNorm", "BlockGrad", "_grad_add", "elemwise_mul", "broadcast_add",
    "_plus_scalar", "Cast", "clip", "where", "add_n", "zeros_like", "_zeros", "_arange", "Concat",
    "SliceChannel", "slice_axis", "transpose", "sum", "mean", "broadcast_to", "sgd_update",
    "sgd_mom_update", "mp_sgd_mom_update", "adam_update", "_random_uniform",
])  # fmt: skip
def test_the_ops_of_the_first_networks_have_twins(op):
    from nbmod.ops import OPS
    from nbmod.ops.dispatch import find

    assert OPS[op].view or find(OPS[op], "cuda") is not None


@pytest.mark.gpu
@pytest.mark.usefixtures("plain_copy")
def test_what_has_no_twin_is_told_at_once():
    x = mx.sym.PlainCopy(mx.sym.Variable("data"), name="one")
    x = mx.sym.PlainCopy(mx.sym.relu(x), name="other")
    with pytest.raises(mx.MXNetError) as caught:
        x.simple_bind(mx.gpu(0), data=(2, 4))
    for part in ("gpu(0)", NO_TWIN, "one (PlainCopy)", "other (PlainCopy)", "mx.cpu()"):
        assert part in str(caught.value)
    assert "relu" not in str(caught.value)
    with pytest.raises(mx.MXNetError, match=r"PlainCopy has no GPU kernel yet"):
        mx.nd.PlainCopy(mx.nd.ones((1, 4), ctx=mx.gpu(0)))


@pytest.mark.gpu
def test_a_kernel_that_fails_names_its_node():
    x = mx.sym.Variable("data")
    executor = mx.sym.Dropout(x, p=0.5, name="drop").simple_bind(mx.gpu(0), data=(4,))
    executor.steps[0].run = executor.planned.bound.calls[0] = lambda: 1 / 0
    with pytest.raises(mx.MXNetError, match=r"drop \(Dropout\).*division by zero"):
        executor.forward(is_train=True)


# -- tiled kernels --------------------------------------------------------------------------


def on_gpu(*arrays: np.ndarray) -> list:
    return [mx.nd.array(array, ctx=mx.gpu(0), dtype=array.dtype).handle for array in arrays]


def start(*launches) -> None:
    from nbmod.ops.device import device_of

    device_of(mx.gpu(0)).launcher(launches)()


def ragged(tiles, width=1) -> tuple[int, int, int]:
    """Sizes (m, n, k) with a partial tile in each dimension, and more than three slices."""
    return tiles.block_m + 3, 2 * tiles.block_n + 1, 3 * tiles.block_k * width + 3


def configs() -> dict:
    """Every GEMM algorithm with its tolerance: one rounding of the factors has an error of 2^-11
    for TF32 and float16, 2^-8 for bfloat16; sums of both signs keep some."""
    from nbmod.ops.cuda.lib import gemm, gemm_tensor_cores

    real = np.float32
    return {"plain": (gemm.GemmConfig(real, gemm.SMALL_TILES), 1e-6),
            "large": (gemm.GemmConfig(real, gemm.LARGE_TILES), 1e-6),
            **{name: (gemm.GemmConfig(real, packing.tiles, packing), {"bf16": 1e-2}.get(name, 1e-3))
               for name, packing in gemm_tensor_cores.PACKINGS.items()}}


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype, config", [
    ("float32", "plain"), ("float16", "plain"), ("float32", "large"), ("float32", "tf32"),
    ("float16", "f16"), ("float32", "bf16")])
def test_products_with_ragged_edges(monkeypatch, schedule, turned, dtype, config):
    from nbmod.ops.cuda.lib import gemm
    from nbmod.ops.cuda.lib.epilogue import Epilogue

    if config not in ("plain", "large") and (schedule == "forward" or turned[0] != turned[1]):
        return  # 128 threads each
    monkeypatch.setattr(simulator, "schedule", schedule)
    config, tolerance = configs()[config]
    tolerance = max(tolerance, 1e-3 if dtype == "float16" else 0)
    m, n, k = ragged(config.tiles, config.packing.width if config.packing else 1)
    rng = np.random.default_rng(0)
    a, b, bias, c = (rng.standard_normal(shape).astype(dtype)
                     for shape in ((m, k), (k, n), (n,), (m, n)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    stored = [x.T.copy() if is_turned else x for x, is_turned in zip((a, b), turned, strict=True)]
    arrays = on_gpu(*stored, bias, c)
    scratch = [arrays[0].device.empty(*spec) for spec in gemm.gemm_scratch(config, (m, n, k))
               if schedule != "deep"]  # sums in parts or not
    for end, total in ((Epilogue(), want), (Epilogue(arrays[2]), want + bias)):
        start(*gemm.gemm(*arrays[:2], arrays[3], (m, n, k), turned, end, config=config,
                                   scratch=scratch))
        assert_same(host(arrays[3]), total.astype(dtype), tolerance, "product")
    start(*gemm.gemm(*arrays[:2], arrays[3], (m, n, k), turned, add=True, config=config,
                               scratch=scratch))
    assert_same(host(arrays[3]), (2 * want + bias).astype(dtype), 2 * tolerance, "sum")
    start(*gemm.gemm(*arrays[:2], arrays[3], (m, n, k), turned, Epilogue(
        arrays[2], arrays[3], True, 1.5), config=config, scratch=scratch))
    limited = np.clip(3 * want + 2 * bias, 0, 1.5).astype(dtype)
    assert_same(host(arrays[3]), limited, 3 * tolerance * abs(want).max(), "limited sum")


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape, axis", [((97,), None), ((3, 50), 1), ((41, 2), 0)])
@pytest.mark.parametrize("name", ["max", "min", "prod", "nanprod", "norm", "argmax", "argmin"])
def test_few_results_of_many_terms_go_by_pieces(name, shape, axis, schedule, monkeypatch):
    """Tied extremes, of which the first counts; a NaN precedes all."""
    monkeypatch.setattr(simulator, "schedule", schedule)
    started, run = [], simulator.run
    monkeypatch.setattr(simulator, "run", lambda *args: (started.append(args), run(*args)))
    rng = np.random.default_rng(0)
    numbers = rng.integers(-9, 9, shape).astype(np.float32) / 8 + 1
    with_nan = np.where(np.arange(numbers.size).reshape(shape) == numbers.size - 9, np.nan, numbers)
    for values in (numbers, with_nan.astype(np.float32)):
        got, want = (getattr(mx.nd, name)(mx.nd.array(values, ctx=ctx), axis=axis).asnumpy()
                     for ctx in (mx.gpu(0), mx.cpu()))
        exactly = name in ("max", "min", "argmax", "argmin")
        assert_same(got, want, 0 if exactly else 1e-5, name)
    assert not launch.SIMULATED or len(started) >= 4


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("op, left, right, attrs", [
    ("dot", (3, 70), (70, 5), {}), ("dot", (70, 3), (5, 70), {"transpose_a": 1, "transpose_b": 1}),
    ("batch_dot", (2, 3, 70), (2, 70, 5), {}),
    ("batch_dot", (2, 70, 9), (2, 5, 70), {"transpose_a": 1, "transpose_b": 1}),
    ("linalg_gemm2", (2, 3, 70), (2, 70, 5), {"alpha": 0.5}),
])  # fmt: skip
def test_products_of_long_sums_are_split(op, left, right, attrs, schedule, monkeypatch):
    """One launch for the parts, one that adds them in order; gradients accumulate."""
    monkeypatch.setattr(simulator, "schedule", schedule)
    network = getattr(mx.sym, op)(mx.sym.Variable("a"), mx.sym.Variable("b"), **attrs)
    runs, started, run = [], [], simulator.run
    monkeypatch.setattr(simulator, "run", lambda *args: (started.append(args), run(*args)))
    for context in (mx.cpu(), mx.gpu(0)):
        executor = network.simple_bind(context, grad_req="add", a=left, b=right)
        rng = np.random.default_rng(0)
        for array in (*executor.arg_arrays, *executor.grad_arrays):
            array[:] = rng.standard_normal(array.shape)
        started.clear()
        executor.forward(is_train=True)
        assert context == mx.cpu() or not launch.SIMULATED or len(started) == 2
        executor.backward([executor.outputs[0]])
        runs.append([x.asnumpy() for x in (*executor.outputs, *executor.grad_arrays)])
    for mine, theirs in zip(*reversed(runs), strict=True):
        assert_same(mine, theirs, 1e-5, op)


@pytest.mark.gpu
def test_products_go_the_way_they_may(monkeypatch):
    """Tensor cores where requested, large tiles where there are enough blocks."""
    from nbmod.ops.cuda.lib import gemm, gemm_tensor_cores

    def config(dtype, *sizes):
        return gemm.choose_config(dtype, np.float64 if dtype == "float64" else np.float32, sizes)

    assert config("float32", 8, 8, 8).tiles == gemm.SMALL_TILES
    assert config("float64", 9999, 9999, 8).tiles == gemm.SMALL_TILES
    assert config("float32", 9999, 9999, 8).tiles == gemm.LARGE_TILES
    for name in ("tf32", "bf16"):
        monkeypatch.setattr(CONFIG, "gpu_products", name)
        packing = gemm_tensor_cores.PACKINGS[name]
        assert config("float32", 8, 8, 8) == (np.float32, packing.tiles, packing)
        assert config("float64", 8, 8, 8).packing is None
    monkeypatch.setattr(gemm_tensor_cores, "SIMULATED", False)
    assert config("float16", 8, 8, 8).packing is gemm_tensor_cores.PACKINGS["f16"]
    monkeypatch.setattr(CONFIG, "tensor_cores", False)
    assert config("float16", 8, 8, 8).packing is None


def host(array) -> np.ndarray:
    return array.device.to_numpy(array)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["_simt_gemm_kernel", "tensor"])
def test_a_missing_barrier_is_noticed(name):
    """Mutation test: without its barrier the product is wrong."""
    from nbmod.ops.cuda.lib import gemm, gemm_tensor_cores
    from nbmod.ops.cuda.runtime import launch

    if not launch.SIMULATED:
        pytest.skip("a device may get away with it")
    module, factory = ((gemm_tensor_cores, gemm_tensor_cores.gemm_kernel.__wrapped__)
                       if name == "tensor"
                       else (gemm, gemm._simt_gemm_kernel))
    config = configs()["tf32" if name == "tensor" else "plain"][0]
    lines = textwrap.dedent(inspect.getsource(factory)).splitlines()
    (place,) = (i for i, line in enumerate(lines) if "cuda.syncthreads()" in line)
    del lines[place]
    broken = dict(vars(module))
    exec("\n".join(lines), broken)
    real = np.float32
    a, b = launch.device_function(lambda a, g, i, t, m, k: a[i * k + t]), launch.device_function(
        lambda b, g, t, j, k, n: b[t * n + j])

    @launch.device_function
    def store(c, bias, other, g, s, i, j, n, total, add):
        c[i * n + j] = total

    m, n, k = ragged(config.tiles)
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype(real) for shape in ((m, k), (k, n)))
    x, y, c = on_gpu(left, right, np.zeros((m, n), real))
    for make, correct in ((factory, True), (broken[factory.__name__], False)):
        kernel = make(gemm.GemmOperands(a, b, store), config.packing or real, config.tiles, 1)
        grid = gemm.gemm_grid((m, n, k), config.tiles, 1)
        start(launch.Launch(kernel, grid, (config.tiles.threads,), (x, y, c, c, c, m, n, k, k, n, n,
                                                                 False)))
        assert np.allclose(host(c), left @ right, 1e-2, 1e-2) == correct


@pytest.mark.gpu
@pytest.mark.parametrize("attrs", [
    {"kernel": (3, 3), "num_filter": 10}, {"kernel": (3, 2), "num_filter": 10, "stride": (2, 1)},
    {"kernel": (3, 3), "num_filter": 6, "num_group": 3, "pad": (1, 2), "dilate": (2, 1)},
    {"kernel": (2, 3), "num_filter": 9, "layout": "NHWC", "stride": (2, 2), "pad": (1, 0)},
    {"kernel": (3, 3), "num_filter": 12, "num_group": 6, "pad": (1, 1), "stride": (2, 1)},
    {"kernel": (3, 2), "num_filter": 6, "num_group": 6, "layout": "NHWC", "dilate": (1, 2)},
], ids=str)  # fmt: skip
def test_convolutions_with_ragged_edges(attrs):
    """Sums of more than three tiles, gradients of weights split into parts."""
    shape = (3, 7, 6, 6) if attrs.get("layout") else (3, 6, 7, 6)
    x = mx.sym.Convolution(mx.sym.Variable("data"), name="c", **attrs)
    names = x.list_arguments()
    shapes, (out,), _ = x.infer_shape(data=shape)
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal(s).astype(np.float32)
              for name, s in zip(names, shapes, strict=True)}
    heads = [rng.standard_normal(out).astype(np.float32)]
    runs = []
    for place in (mx.cpu(), mx.gpu(0)):
        with place:
            runs.append(common.run(mx, x, values, dict.fromkeys(names, "write"), heads))
    assert_same(runs[1]["outputs"][0], runs[0]["outputs"][0], 1e-5, "output")
    for name in names:
        assert_same(runs[1]["grads"][name], runs[0]["grads"][name], 1e-5, name)


# -- the commands that check a GPU ---------------------------------------------------------------


@pytest.mark.gpu
def test_the_check_compares_fresh_inputs_and_reports(tmp_path, capsys):
    out = tmp_path / "check.json"
    assert check.main(["FullyConnected-0", "--seed", "7", "--jobs", "1", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    (sample,) = found["samples"]
    assert (found["seed"], sample["op"], sample["runs"]) == (7, "FullyConnected", 4)
    assert 0 <= sample["worst"] <= 1
    assert "1 samples, 4 runs, 0 failed" in capsys.readouterr().out
    first, second = (SAMPLES["FullyConnected-1"].seeded(s).arrays()["data"] for s in (7, 8))
    assert (first != second).all()


@pytest.mark.gpu
def test_the_checks_find_a_wrong_kernel(monkeypatch, capsys):
    from nbmod.ops.cuda.nn import fully_connected

    wrong = fully_connected.gemm

    def of_one_row_less(a, b, c, sizes, *others, **options):
        return wrong(a, b, c, (sizes[0] - 1, *sizes[1:]), *others, **options)

    monkeypatch.setattr(fully_connected, "gemm", of_one_row_less)
    assert network_check.main(["dense", "reduce"]) == 1
    told = capsys.readouterr().out
    assert "reduce: agrees\ndense: FAILED, " in told and told.endswith("2 networks, 1 failed\n")
    found = check.check_sample("FullyConnected-1")
    assert found.failed and found.worst == np.inf and "output 0" in found.where


@pytest.mark.gpu
def test_the_check_outlives_the_process_of_a_sample(monkeypatch):
    """A crash of a worker is a failure of its sample; the next sample gets a new process."""
    monkeypatch.setitem(check._samples(), "absent", SAMPLES["FullyConnected-1"])
    results = {found.name: found for found in check.check_all(["absent", "FullyConnected-1"], 0, 1)}
    assert results["absent"].failed and "ended with status 1" in results["absent"].error
    assert results["FullyConnected-1"].runs == 4
    monkeypatch.setattr(check, "PATIENCE", 0.01)
    (late,) = check.check_all(["FullyConnected-1"], 0, 1)
    assert late.failed and "no answer within 0.01 s" in late.error


@pytest.mark.gpu
@pytest.mark.parametrize("got, want, error", [
    ([1.0, 2.0], [1.0, 2.0], 0), ([1.0, 2.004], [1.0, 2.0], 0.1), ([np.nan], [1.0], np.inf),
    ([np.nan, 1.0], [np.nan, 1.0], 0), ([np.inf], [-np.inf], np.inf), ([], [], 0)])
def test_errors_of_the_check_are_in_tolerances(got, want, error):
    assert check._error(np.array(got), np.array(want), 0.01) == pytest.approx(error, rel=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("request_of_b", ["write", "add"])
@pytest.mark.parametrize("loss", ["LinearRegressionOutput", "LogisticRegressionOutput",
                                  "MAERegressionOutput"])
def test_labels_that_are_computed_keep_their_other_gradients(loss, request_of_b):
    """The gradient of a label is 0, and nothing is lost where it is added to another one."""
    a, b, c = map(mx.sym.Variable, "abc")
    target = 2 * b
    net = mx.sym.Group([getattr(mx.sym, loss)(target, c), getattr(mx.sym, loss)(a, target),
                        getattr(mx.sym, loss)(a, b)])
    found = []
    for ctx in (mx.gpu(0), mx.cpu()):
        executor = net.simple_bind(ctx, grad_req={"b": request_of_b, "a": "write", "c": "add"},
                                   **dict.fromkeys("abc", (2, 3)))
        for name in "abc":
            executor.arg_dict[name][:] = mx.nd.array(np.cos(np.arange(6) + ord(name))).reshape(
                (2, 3))
            executor.grad_dict[name][:] = 5
        executor.forward(is_train=True)
        executor.backward()
        found.append({name: grad.asnumpy() for name, grad in executor.grad_dict.items()})
    for name, grad in found[1].items():
        assert_same(found[0][name], grad, 1e-6, name)   # a step or two of float32
    assert np.abs(found[1]["b"] - 5 * (request_of_b == "add")).min() > 0
    assert (found[1]["c"] == 5).all()


# -- arrays -------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_arithmetic_in_place_and_into_others():
    here, there = mx.nd.array([[1, -2], [3, 4]]), mx.nd.array([[1, -2], [3, 4]], ctx=mx.gpu(1))
    for x in (here, there):
        x += 1
        x *= x
        x -= mx.nd.ones((2, 2), ctx=x.context)
        x /= 2
        x[0] = 7
        mx.nd.broadcast_add(x, x[:1], out=x)
        x[:] = x + (x > 5) - abs(-x) ** 0.5
    assert there.context == mx.gpu(1)
    np.testing.assert_allclose(there.asnumpy(), here.asnumpy(), rtol=1e-6)
    with pytest.raises(mx.MXNetError, match=r"gpu\(1\) and cpu\(0\).*as_in_context"):
        there + here


@pytest.mark.gpu
def test_arrays_are_made_on_gpus():
    with mx.gpu(2):
        made = [mx.nd.zeros(3), mx.nd.ones((2, 2), dtype="int32"), mx.nd.full((2,), 5),
                mx.nd.arange(4), mx.nd.eye(3), mx.nd.array([1, 2]), mx.nd.random.normal(shape=(9,)),
                mx.nd.zeros((0,)), mx.nd.empty((2, 3))]  # fmt: skip
    assert all(array.context == mx.gpu(2) for array in made)
    mx.random.seed(3)
    here = mx.nd.random.uniform(shape=(2, 3))
    mx.random.seed(3)
    np.testing.assert_array_equal(mx.nd.random.uniform(shape=(2, 3), ctx=mx.gpu(0)).asnumpy(),
                                  here.asnumpy())


@pytest.mark.gpu
def test_files_know_no_devices(tmp_path):
    x = mx.nd.array([1, 2, 3], ctx=mx.gpu(1))
    mx.nd.save(str(tmp_path / "x"), {"x": x})
    assert mx.nd.load(str(tmp_path / "x"))["x"].context == mx.cpu()


# -- networks -----------------------------------------------------------------------------------


def perceptron():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=12, name="fc1")
    x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.FullyConnected(mx.sym.Dropout(x, p=0.2), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def lenet():
    x = mx.sym.Variable("data")
    for i, filters in enumerate((3, 5), 1):
        x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=filters, name=f"conv{i}")
        x = mx.sym.Activation(x, act_type="tanh")
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc1")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


SHAPES = {perceptron: (24, 6), lenet: (12, 1, 10, 10)}


def batches(network):
    rng = np.random.default_rng(5)
    data = rng.standard_normal(SHAPES[network]).astype(np.float32)
    return mx.io.NDArrayIter(data, rng.integers(0, 3, len(data)), len(data) // 2)


def trained(network, context, **options):
    """Two epochs from the same initial state: (module, parameters)."""
    mx.random.seed(2)
    np.random.seed(2)
    settings = {"optimizer": "sgd", "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9},
                "initializer": mx.init.Xavier(), **options}  # fmt: skip
    module = mx.mod.Module(network(), context=context)
    module.fit(batches(network), num_epoch=2, **settings)
    return module, {name: x.asnumpy() for name, x in module.get_params()[0].items()}


def assert_same_parameters(got, want, tolerance):
    for name, value in want.items():
        assert_same(got[name], value, tolerance, name)


# Four steps; each adds a rounding error or two of 6e-8 to values of order 1.
TRAINED = 1e-5
ADAM = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.01}}


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, ADAM], ids=["sgd", "adam"])
def test_a_perceptron_learns_the_same_on_any_device(options):
    _, want = trained(perceptron, mx.cpu(), **options)
    _, got = trained(perceptron, mx.gpu(0), **options)
    assert_same_parameters(got, want, TRAINED)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Parameters already initialized")
@pytest.mark.parametrize("contexts, kvstore", [(1, "local"), (2, "local"), (2, "device")])
def test_lenet_learns_the_same_on_several_devices(contexts, kvstore, tmp_path):
    cpu, want = trained(lenet, mx.cpu())
    gpus = [mx.gpu(i) for i in range(contexts)]
    module, got = trained(lenet, gpus, kvstore=kvstore)
    assert_same_parameters(got, want, TRAINED)
    for (name, mine), (_, theirs) in zip(module.score(batches(lenet), ["acc", "ce"]),
                                         cpu.score(batches(lenet), ["acc", "ce"]), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5), name
    predicted = module.predict(batches(lenet))
    assert_same(predicted.asnumpy(), cpu.predict(batches(lenet)).asnumpy(), TRAINED, "predicted")
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 2, save_optimizer_states=True)
    resumed = mx.mod.Module.load(prefix, 2, load_optimizer_states=True, context=gpus)
    resumed.fit(batches(lenet), num_epoch=3, begin_epoch=2, kvstore=kvstore,
                optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    module.fit(batches(lenet), num_epoch=3, begin_epoch=2)
    assert_same_parameters(params_of(resumed), params_of(module), 0)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["local", "device"])
def test_stores_do_on_gpus_what_they_do_on_cpus(kind):
    """Sums, updates, compressed gradients with residuals, rows; arrays of any device."""
    def answers(devices):
        store, found = mx.kv.create(kind), []
        if kind == "device":
            store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        store.init("a", mx.nd.array([[1, 2], [3, 4]]))
        for turn in range(4):
            if turn == 2:
                store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5))
            given = [mx.nd.array([[0.3, -1], [0, turn]], ctx=ctx) * (i + 1)
                     for i, ctx in enumerate(devices)]
            out = [mx.nd.zeros((2, 2), ctx=ctx) for ctx in (*devices, mx.cpu())]
            store.pushpull("a", given, out=out)
            rows = mx.nd.zeros((2, 2), ctx=devices[-1])
            store.row_sparse_pull("a", out=rows, row_ids=mx.nd.array([1]))
            found += [array.asnumpy() for array in (*out, rows)]
        return found

    want = answers([mx.cpu(0), mx.cpu(1), mx.cpu(2)])
    for devices in ([mx.gpu(0), mx.gpu(1), mx.gpu(0)], [mx.cpu(0), mx.gpu(1), mx.gpu(0)]):
        np.testing.assert_array_equal(answers(devices), want)


@pytest.mark.gpu
@pytest.mark.parametrize("network", [perceptron, lenet])
def test_joined_launches_do_what_single_ones_do(monkeypatch, network):
    """Dropout draws anew in every run, training and inference alternate: kernel nodes of the graph
    are updated, or it is captured again."""
    contexts = [mx.gpu(0), mx.gpu(1)]
    _, want = trained(network, contexts)
    monkeypatch.setattr(CONFIG, "cuda_graphs", True)
    made = []
    make = simulator.CudaGraph
    monkeypatch.setattr(simulator, "CudaGraph",
                        lambda starts: made.append(make(starts)) or made[-1])
    module, got = trained(network, contexts)
    assert_same_parameters(got, want, 0)
    assert len(made) == 4, "forward and backward of two executors"
    first = module.predict(batches(network)).asnumpy()
    module.forward_backward(next(iter(batches(network))))
    assert_same(module.predict(batches(network)).asnumpy(), first, 0, "predicted")


@pytest.mark.gpu
def test_what_must_see_results_of_others_is_not_joined():
    card = simulator.Card(0)
    fixed = graph_replay.Launcher(card, [])
    later = graph_replay.Launcher(card, [launch.PerRun(list)])
    reads = graph_replay.Launcher(card, [list])
    other = graph_replay.Launcher(simulator.Card(0), [])

    def step():
        """No launcher."""

    calls = [fixed, None, later, reads, fixed, step, fixed, later, other]
    joined = graph_replay.join(calls, 7)
    kinds = [type(call).__name__ if call else None for call in joined]
    replay = "GraphReplay"
    assert kinds == [replay, None, None, "Launcher", replay, "function", replay, replay, replay]
    assert joined[3] is reads and joined[5] is step


@pytest.mark.gpu
def test_cards_of_the_simulator_receive_from_each_other():
    """A device that is made anew has another card than arrays from before."""
    first, second = simulator.Card(0), simulator.Card(0)
    source, target = first.allocate(16), second.allocate(16)
    first.upload(np.arange(4, dtype=np.float32), source, 0)
    assert second.receive(first, (source, 8), (target, 4), 8)
    found = np.empty(2, np.float32)
    second.download(target, 4, found)
    assert found.tolist() == [2, 3]


def params_of(module):
    return {name: x.asnumpy() for name, x in module.get_params()[0].items()}


@pytest.mark.gpu
def test_two_runs_are_bitwise_equal_whatever_the_schedule(monkeypatch):
    contexts = [mx.gpu(0), mx.gpu(1)]
    _, want = trained(lenet, contexts)
    monkeypatch.setattr(simulator, "schedule", "backward")
    assert_same_parameters(trained(lenet, contexts)[1], want, 0)


@pytest.mark.gpu
def test_the_plan_of_a_gpu_has_the_scratch_of_a_gpu():
    """Convolution on the CPU needs a workspace for im2col; here columns are computed on the fly."""
    shapes = {"data": (2, 3, 8, 8)}
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="c")
    here, there = (x.simple_bind(ctx, "null", **shapes) for ctx in (mx.cpu(), mx.gpu(0)))
    assert there.compiled.plan.total_bytes < here.compiled.plan.total_bytes


# -- without a GPU ------------------------------------------------------------------------------


def process(*arguments: str, python: str = sys.executable, **environment: str
            ) -> subprocess.CompletedProcess:
    """A new Python without the simulator."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("NUMBA_ENABLE_CUDASIM", "NBMOD_GPU_TO_CPU")} | environment
    return subprocess.run([python, *arguments], env=env, capture_output=True, text=True)


@pytest.mark.gpu
def test_as_many_gpus_as_one_asks_for():
    code = "import nbmod as mx; print(mx.num_gpus()); mx.nd.ones(2, ctx=mx.gpu(2))"
    done = process("-c", code, NUMBA_ENABLE_CUDASIM="1", NBMOD_VIRTUAL_GPUS="2")
    assert done.stdout.strip() == "2" and "gpu(2) was asked for" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("compiler", cuda_setup.REQUIREMENTS)
def test_every_kernel_compiles_to_machine_code(compiler):
    python = cuda_setup.find_python(compiler)
    if python is None:
        if os.environ.get("NBMOD_REQUIRE_CUDA") == "1":
            pytest.fail("python -m tests.cuda.setup did not make its environment")
        pytest.skip("NO KERNEL WAS COMPILED for a device: python -m tests.cuda.setup makes it so")
    done = process("-m", "tests.cuda.compile", python=str(python), NBMOD_CUDA_COMPILER=compiler)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failed"] == {} and found["binaries"] > 300


SCRIPT = """
import mxnet as mx
import numpy as np
data = mx.io.NDArrayIter(np.ones((4, 2), "f"), np.zeros(4), 2)
x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
module = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"), context=[mx.gpu(0), mx.gpu(1)])
module.fit(data, num_epoch=1)
out = module.get_outputs()[0]
with mx.gpu(3):
    made = mx.nd.ones(3) + mx.nd.random.uniform(shape=(3,), ctx=mx.gpu(1)).as_in_context(mx.gpu(3))
print(mx.context.num_gpus(), out.context, made.context, made.copyto(mx.gpu(0)).context)
"""


@pytest.mark.parametrize("how", ["script", "switch", "neither"])
def test_life_without_a_gpu(how, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    plain = tmp_path / "plain.py"
    plain.write_text("import nbmod; nbmod.as_mxnet()" + SCRIPT)
    if how == "script":
        done = process("-m", "nbmod", "run", str(script), CUDA_VISIBLE_DEVICES="")
    else:
        switch = {"NBMOD_GPU_TO_CPU": "1"} if how == "switch" else {}
        done = process(str(plain), CUDA_VISIBLE_DEVICES="", **switch)
    if how == "neither":
        assert done.returncode != 0 and "MXNetError" in done.stderr
        for part in ("gpu(0)", "mx.cpu()", "NBMOD_GPU_TO_CPU=1", "nbmod run"):
            assert part in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "0 cpu(0) cpu(3) cpu(0)"
    assert done.stderr.count("is not available") == 1


def test_nothing_asks_for_a_gpu_that_nobody_uses():
    code = ("import sys, nbmod as mx; x = mx.sym.relu(mx.sym.Variable('data'))\n"
            "x.simple_bind(mx.cpu(), data=(2,)).forward(); (mx.nd.ones(2) + 1).asnumpy()\n"
            "mx.gpu(0); print([m for m in sys.modules if 'cuda' in m])")
    done = process("-c", code)
    assert done.returncode == 0 and done.stdout.strip() == "[]", done.stderr


@pytest.mark.gpu
def test_the_lowest_float16_gets_the_gradient_of_a_maximum():
    for value, expected in (-65504, [1, 0, 1, 0]), (-np.inf, [0, 0, 0, 0]):
        data = mx.nd.full((1, 1, 1, 4), value, dtype="float16", ctx=mx.gpu(0))
        data.attach_grad()
        with mx.autograd.record():
            result = mx.nd.Pooling(data, kernel=(1, 2), stride=(1, 2))
        result.backward()
        assert result.asnumpy().ravel().tolist() == [-65504, -65504]
        assert data.grad.asnumpy().ravel().tolist() == expected


@pytest.mark.gpu
@pytest.mark.parametrize("name, params", [
    *[(name, {}) for name in (
        "adadelta", "adagrad", "adam", "adamax", "dcasgd", "ftml", "ftrl", "groupadagrad", "lamb",
        "lars", "nadam", "nag", "rmsprop", "sgd", "sgld", "signum", "test")],
    ("lamb", {"lower_bound": 1.0, "clip_gradient": 0.5, "wd": 0.1}),
    ("lars", {"momentum": 0.9, "wd": 0.1}), ("sgd", {"momentum": 0.9, "wd": 0.1}),
    ("lbsgd", {"warmup_strategy": "lars", "batch_scale": 2}), ("rmsprop", {"centered": True}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_optimizers_step_as_on_the_cpu(name, params, dtype):
    params = {**params, "multi_precision": True}
    runs = []
    for context in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(3)
        with context:
            runs.append(training.optimizer_steps(mx, name, params, 3, dtype)["weights"])
    assert_same(runs[1], runs[0], 1e-3 if dtype == "float16" else 1e-5, name)
