"""Key-value stores against MXNet: sequences of calls, gradient compression, updaters, subclasses.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.kvstore import nccl
from nbmod.ops import jit
from tests.programs import kvstore_programs

KINDS = ("local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")


def same(oracle, function, *args):
    """Results of a function of `kvstore_programs`, after comparison with MXNet's."""
    ours = getattr(kvstore_programs, function)(mx, *args)
    theirs = oracle.call("mx_scripts.run", "kvstore_programs", function, *args)
    np.testing.assert_equal(ours, theirs)
    return ours


def full(value, dtype="float32", shape=(2, 3)):
    return np.full(shape, value, dtype)


ONE, TWO, THREE, SEVEN = map(full, (1, 2, 3, 7))
OUT = ("out", (2, 3), 0)
OUTS = ("out", (2, 3), 2)
SGD = ("optimizer", "sgd", {"learning_rate": 0.5, "momentum": 0.5, "wd": 0.25})

PROGRAMS = {
    "sums": [
        ("init", "a", ONE), ("pull", "a", OUT), ("push", "a", TWO), ("pull", "a", OUTS),
        ("push", "a", [ONE, TWO, SEVEN]), ("pull", "a", {"out": OUTS}), ("push", "a", []),
        ("pull", "a", OUT, 3), ("pull", "a", {"out": OUT, "ignore_sparse": False})],
    "several keys": [
        ("init", ["a", "b"], [ONE, TWO]), ("push", ["b", "a"], [[ONE, TWO], [SEVEN, SEVEN]]),
        ("pull", ["a", "b"], [OUTS, OUT]), ("pull", ["b", "a", "b"], [OUT, OUT, OUT]),
        ("push", ["a", "a"], [ONE, TWO]), ("pull", "a", OUT)],
    "numbers as keys": [
        ("init", (3, 11), (ONE, TWO)), ("push", [11, 3], [[ONE, TWO], [SEVEN]]),
        ("pull", [3, 11], [OUT, OUT]), ("init", 5, SEVEN), ("pull", 5, OUT)],
    "an updater": [
        ("init", ["c", "a", "b"], [ONE, ONE, ONE]), ("updater", 2.0), ("push", "a", [TWO, SEVEN]),
        ("push", ["b", "a", "c"], [ONE, [ONE, TWO], SEVEN]), ("pull", ["a", "b"], [OUT, OUT]),
        ("push", ["b", "b"], [ONE, TWO]), ("pull", ["b", "c"], [OUT, OUT]), ("calls",)],
    "an updater of numbered keys": [
        ("init", [9, 3, 5], [ONE, ONE, ONE]), ("updater", 1.0),
        ("push", [5, 9, 3], [ONE, ONE, ONE]), ("calls",)],
    "an optimizer": [
        ("init", ["a_weight", "b"], [ONE, TWO]), SGD,
        ("push", ["a_weight", "b"], [[ONE, TWO], ONE]),
        ("push", "b", TWO), ("push", "a_weight", TWO), ("pull", ["a_weight", "b"], [OUTS, OUT])],
    "push and pull in one": [
        ("init", ["a", "b"], [ONE, ONE]), ("pushpull", "a", [ONE, TWO], OUTS),
        ("pushpull", ["a", "b"], [[TWO, TWO], [SEVEN]], [OUTS, OUT]),
        ("pushpull", "a", OUTS), ("pull", "a", OUT), ("updater", 3.0),
        ("pushpull", "b", [ONE, ONE], {"out": OUTS, "priority": -1}), ("pull", "b", OUT)],
    "broadcast": [
        ("broadcast", "a", TWO, OUTS), ("broadcast", ["b", "c"], [ONE, SEVEN], [OUTS, OUT]),
        ("pull", ["a", "b", "c"], [OUT, OUT, OUT]), ("broadcast", "a", ONE, OUT)],
    "types": [
        ("init", "a", ONE), ("push", "a", full(2, "float16")), ("pull", "a", OUT),
        ("push", "a", [ONE, full(2, "float16")]), ("pull", "a", ("out", (2, 3), 0, "float16")),
        ("init", "h", full(1, "float16")), ("push", "h", [full(2, "float16")] * 3),
        ("pull", "h", OUT), ("init", "i", full(1, "int32")), ("push", "i", [full(2, "int32")] * 3),
        ("pull", "i", ("out", (2, 3), 0, "int32")), ("init", "d", full(1, "float64")),
        ("push", "d", [full(0.1, "float64")] * 2), ("pull", "d", ("out", (2, 3), 0, "float64"))],
    "mistakes": [
        ("push", "a", ONE), ("pull", "a", OUT), ("init", "a", ONE), ("init", "a", TWO),
        ("init", ["b", "b"], [ONE, TWO]), ("init", "c", [ONE, TWO]), ("init", 3, ONE),
        ("init", ["x", 3], [ONE, ONE]), ("push", 3, ONE), ("push", "3", ONE), ("pull", "a"),
        ("push", ["a", "z"], [TWO, ONE]), ("pull", "a", OUT), ("init", ["x"], ONE),
        ("init", ["x", "y"], [ONE]), ("init", 1.5, ONE), ("push", "a", 3.0), ("init", None, ONE),
        ("pull", "a", ("out", (7,), 0))],
}
"""Programs in which MXNet does as nbmod does."""


@pytest.mark.parametrize("kind", KINDS)
def test_programs(oracle, kind):
    for name, steps in PROGRAMS.items():
        assert name and same(oracle, "run", kind, steps)


# ------------------------------------------------------------------------------------- compression

def compress(**params):
    return "set_gradient_compression", {"compression_params": params}


@pytest.mark.parametrize("shape", [(4,), (33,), (5, 7)])
@pytest.mark.parametrize("devices", [1, 2, 3, 5])
@pytest.mark.parametrize("threshold", [0.5, 0.1, 2.0])
def test_two_bits_and_residuals_are_mxnets(oracle, shape, devices, threshold):
    """Bit for bit: residuals are kept from push to push, separately for every key and device."""
    steps = [compress(type="2bit", threshold=threshold),
             ("init", ["a", "b"], [full(0, shape=shape)] * 2)]
    for turn, values in enumerate(kvstore_programs.gradients(devices, 6, shape)):
        steps += [("push", "ab"[turn % 3 == 0], values), ("pull", ["a", "b"],
                                                          [("out", shape, 2), ("out", shape, 0)])]
    same(oracle, "run", "device", steps)


COMPRESSION = {
    "updates": [compress(type="2bit", threshold=0.5), ("init", "a", ONE), SGD,
                *[("pushpull", "a", [full(0.3), full(0.4)], OUTS)] * 4],
    "fewer devices for a while": [
        compress(type="2bit"), ("init", "a", ONE), *[("pushpull", "a", values, OUT) for values in (
            [full(0.3)] * 2, [full(0.3)], [full(0.3)] * 2, [full(0.2)])]],
    "set twice": [compress(type="2bit", threshold=2), compress(type="2bit", threshold=0.25),
                  ("init", "a", ONE), ("pushpull", "a", [SEVEN, full(0.2)], OUT)],
    "a threshold of text": [compress(type="2bit", threshold="0.75", other=3), ("init", "a", ONE),
                            ("pushpull", "a", [SEVEN, full(0.8)], OUT)],
    "no numbers": [compress(type="2bit"), ("init", "a", full(0, shape=(4,))),
                   *[("pushpull", "a", [np.array([np.nan, np.inf, -np.inf, 1e30], "f4")],
                      ("out", (4,), 0))] * 2, ("pushpull", "a", [full(1, shape=(4,))],
                                               ("out", (4,), 0))],
    "mistakes": [compress(type="1bit"), compress(type="none"), compress(threshold=1), compress(),
                 compress(type="2bit", threshold=0), compress(type="2bit", threshold=-1),
                 compress(type="2bit", threshold="x"), compress(type="2bit", threshold=np.nan),
                 ("set_gradient_compression", "2bit"), ("set_gradient_compression", None),
                 ("init", "a", ONE), ("pushpull", "a", SEVEN, OUT)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_compression(oracle, kind):
    """Stores that sum on the CPU reject it."""
    for name, steps in COMPRESSION.items():
        ours = same(oracle, "run", kind, steps)
        assert name == "mistakes" or (ours[0] == "error") == ("device" not in kind)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_compression_takes_float32(oracle, dtype):
    one = full(1, dtype)
    ours = same(oracle, "run", "device",
                [compress(type="2bit"), ("init", "a", one), ("push", "a", [one, one])])
    assert ours[2] == "error"


# ----------------------------------------------------------------------------------------- updaters

STORES = [None, "local", "device", "local_allreduce_cpu", "local_update_cpu", "own local",
          "own device", "capable", "Incapable", "own capable", "own incapable", "own teststore", 3]


@pytest.mark.parametrize("environment", [None, "0", "1", "2"])
def test_decisions_are_mxnets(oracle, environment):
    assert "error" not in same(oracle, "decisions", STORES, environment)


def test_update_on_kvstore_is_switched_by_the_environment(monkeypatch, tmp_path):
    modules = []
    for value in ("1", "0"):
        monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", value)
        modules.append(kvstore_programs.step_of_module(mx, "device", str(tmp_path)))
    assert [module._update_on_kvstore for module in modules] == [True, False]
    assert sorted(modules[1]._updater.states) == [0, 1, 2, 3]  # of two parameters on two devices
    for name, value in modules[0].get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), modules[1].get_params()[0][name].asnumpy())


OPTIMIZERS = [{"name": "sgd", "learning_rate": 0.2, "momentum": 0.9, "wd": 0.01},
              {"name": "adam", "learning_rate": 0.02}]


@pytest.mark.parametrize("options", OPTIMIZERS, ids=["sgd", "adam"])
@pytest.mark.parametrize("contexts", [1, 2, 3])
@pytest.mark.parametrize("store, environment", [
    (None, "1"), ("local", "1"), ("local", "0"), ("device", "1"), ("device", "0")])
def test_twenty_steps_are_mxnets(oracle, store, environment, contexts, options):
    args = store, contexts, options, environment
    ours = kvstore_programs.trained(mx, *args)
    theirs = oracle.call("mx_scripts.run", "kvstore_programs", "trained", *args)
    for name in ("on store", "keys"):
        assert ours[name] == theirs[name]
    assert ours["on store"] == (contexts > 1 and store is not None and environment == "1")
    for name, value in {**ours["params"], "outputs": ours["outputs"]}.items():
        expected = {**theirs["params"], "outputs": theirs["outputs"]}[name]
        # 20 float32 steps with sums in other orders; biases near 0 are held to the weights' scale.
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("contexts", [1, 2, 3])
@pytest.mark.parametrize("environment", ["0", "1"])
def test_compressed_training_is_mxnets(oracle, contexts, environment):
    """Bit for bit; one context has no store and so no compression."""
    ours = kvstore_programs.compressed(mx, contexts, environment)
    theirs = oracle.call("mx_scripts.run", "kvstore_programs", "compressed", contexts, environment)
    if contexts > 1:
        np.testing.assert_equal(ours, theirs)
    np.testing.assert_allclose(ours["params"]["fc_weight"], theirs["params"]["fc_weight"], 1e-4)


def test_modules_call_stores_of_users_as_mxnet_does(oracle):
    assert same(oracle, "recorded")[-1] == ["load_optimizer_states", ["x.states"], {}]


@pytest.mark.parametrize("allow_missing", [False, True])
@pytest.mark.parametrize("store", ["local", "device"])
def test_parameters_set_by_hand_reach_the_store(tmp_path, store, allow_missing):
    """In MXNet the next update restores the old ones."""
    module = kvstore_programs.step_of_module(mx, store, str(tmp_path))
    module._optimizer.set_learning_rate(0.0)
    args, auxs = module.get_params()
    module.set_params({name: value + 7 for name, value in args.items()}, auxs, allow_missing)
    expected = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    module.update()
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), expected[name])


def test_a_store_that_only_sums_is_enough(tmp_path):
    """MXNet's Module calls a method `init` of such a store, which its base class does not have."""
    summed = kvstore_programs.step_of_module(mx, "device", str(tmp_path))
    tested = kvstore_programs.step_of_module(mx, "teststore", str(tmp_path))
    assert not tested._update_on_kvstore
    for name, value in tested.get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), summed.get_params()[0][name].asnumpy())


def test_registration():
    base = mx.kv.KVStoreBase
    first = base.register(type("Twice", (base,), {}))
    assert type(mx.kv.create("TWICE")) is first
    with pytest.warns(UserWarning, match="Twice replaces"):
        second = base.register(type("Twice", (base,), {}))
    assert type(mx.kv.create("twice")) is second
    del base.kv_registry["twice"]
    for method in ("type", "rank", "num_workers"):
        with pytest.raises(NotImplementedError, match=f"Twice does not define {method}"):
            getattr(second(), method)
    with pytest.raises(MXNetError, match="Twice does not define pushpull"):
        second().pushpull("a", [])


# ------------------------------------------------------------------------------------- fixed order

def spread(dtype, count=4, size=50_000):
    """Values of many magnitudes: sums in another order differ."""
    rng = np.random.default_rng(1)
    return [(rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(dtype)
            for _ in range(count)]


def pushed_once(kind, dtype, threads=1, keys=6):
    """Bytes of every key's sum, pushed by several Python threads."""
    store, values = mx.kv.create(kind), spread(dtype)
    arrays = [mx.nd.array(value, ctx=mx.cpu(i), dtype=dtype) for i, value in enumerate(values)]
    store.init(list(range(keys)), [mx.nd.zeros(arrays[0].shape, dtype=dtype)] * keys)
    workers = [threading.Thread(target=lambda k=k: [store.push(key, arrays) for key in
                                                    range(k, keys, threads)])
               for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    out = mx.nd.zeros(arrays[0].shape, dtype=dtype)
    return [store.pull(key, out) or out.asnumpy().tobytes() for key in range(keys)]


@pytest.mark.parametrize("kind", ["local", "device"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_sums_are_bitwise_equal(kind, dtype):
    expected, *others = spread(dtype)
    if dtype == "float16":  # accumulated in float32, and rounded once
        expected, others = expected.astype("float32"), others
    for value in others:
        expected = expected + value
    before = jit.num_threads()
    for numba_threads, threads in ((1, 1), (2, 3), (2, 1)):
        jit.set_num_threads(min(numba_threads, before))
        assert set(pushed_once(kind, dtype, threads)) == {expected.astype(dtype).tobytes()}
    jit.set_num_threads(before)


def test_device_stores_add_as_mxnet_does(oracle):
    values = [value[:99] for value in spread("float32", 7)]
    zero = np.zeros(99, "float32")
    same(oracle, "run", "device", [("init", "a", zero), ("push", "a", values),
                                   ("pull", "a", ("out", (99,), 0))])


# ----------------------------------------------------------------- errors, and the state after them

def arrays(*values, shape=(2, 3)):
    return [mx.nd.full(shape, value) for value in values]


def keyed():
    store = mx.kv.create("local")
    store.init(["a", "b"], arrays(1, 2))
    return store


MISTAKES = [
    ("push", (["a", "z"], arrays(5, 5)), "'z' has not been initialised"),
    ("push", (["a", "b"], [arrays(5)[0], mx.nd.ones((3,))]), r"'b' has shape \(3,\)"),
    ("push", (["a", "b"], arrays(5)), "2 keys, expected a list of as many values, given 1"),
    ("push", (["a", "b"], arrays(5)[0]), "given NDArray"),
    ("push", (["a", 3], arrays(5, 5)), "mix integers and strings"),
    ("push", (3, arrays(5)), "'a'; do not mix"),
    ("push", ("a", [np.ones((2, 3))]), "'a' is a ndarray, expected an NDArray"),
    ("push", (2.5, arrays(5)), "a key is a float"),
    ("init", (["c", "a"], arrays(5, 5)), "'a' is already initialised"),
    ("init", (["c", "d"], [arrays(5), arrays(5, 6)]), "2 values to initialise key 'd'"),
    ("pull", ("a",), "out is not given"),
    ("pushpull", (["a", "b"], arrays(5, 5), [arrays(0)[0], mx.nd.ones((3,))]), "'b' has shape"),
    ("broadcast", ("c", arrays(5)[0], mx.nd.ones((3,))), "out for key 'c' has shape"),
    ("row_sparse_pull", ("a", arrays(0)[0]), "row_ids is not given"),
    ("row_sparse_pull", ("a", arrays(0)[0], 0, mx.nd.array([0, 2])), "has 2 rows, .* 0 to 2"),
    ("row_sparse_pull", ("a", arrays(0, 0), 0, [mx.nd.array([0])] * 3), "3 row_ids for the 2"),
    ("row_sparse_pull", ("a", arrays(0)[0], 0, [0, 1]), "row_ids for key 'a' is a int"),
    ("save_optimizer_states", ("x.states",), "call set_optimizer"),
    ("load_optimizer_states", ("x.states",), "call set_optimizer"),
    ("set_optimizer", ("sgd",), "given a str"),
    ("is_capable", ("flying",), "Unknown capability: flying"),
    ("set_gradient_compression", ({"type": "2bit"},), "not supported for this type of kvstore"),
]


@pytest.mark.parametrize("method, args, text", MISTAKES)
@pytest.mark.parametrize("updater", [False, True])
def test_a_mistake_is_named_and_changes_nothing(method, args, text, updater):
    store = keyed()
    if updater and "states" not in method:
        store._set_updater(lambda key, given, stored: stored.__iadd__(given))
    with pytest.raises((MXNetError, TypeError, ValueError), match=text):
        getattr(store, method)(*args)
    assert list(store._stored) == ["a", "b"]
    assert [store._stored[key].asnumpy().ravel().tolist() for key in "ab"] == [[1] * 6, [2] * 6]


def test_residuals_survive_a_mistake():
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init(["a", "b"], arrays(0, 0))
    with pytest.raises(MXNetError, match="'b' is given float16"):
        store.push(["a", "b"], [arrays(0.3)[0], mx.nd.ones((2, 3), dtype="float16")])
    out = arrays(9)[0]
    store.pushpull("a", arrays(0.3)[0], out)  # 0.3 and not 0.6
    assert out.asnumpy().max() == 0


def test_what_an_updater_raises_reaches_the_caller():
    def updater(key, given, stored):
        if key == "b":
            raise ZeroDivisionError
        stored += given

    store = keyed()
    store._set_updater(updater)
    with pytest.raises(ZeroDivisionError):
        store.push(["b", "a"], arrays(5, 5))  # a was initialised first, so it is updated first
    assert [store._stored[key].asnumpy().max() for key in "ab"] == [6, 2]


@pytest.mark.parametrize("name, text", [
    ("dist_sinc", "did you mean .dist_sync."),
    ("devise", "did you mean 'device'"), ("", "expected one of")])
def test_unknown_kinds(name, text):
    with pytest.raises(MXNetError, match=text):
        mx.kv.create(name)
    with pytest.raises(TypeError, match="must be a string"):
        mx.kv.create(None)


def test_nccl_is_for_gpus(monkeypatch):
    """Where they are mapped to the CPU it is a store like 'device'."""
    monkeypatch.setattr(nccl, "gpu_count", lambda: 0)
    with pytest.raises(MXNetError, match="is for GPUs, and .*; 'device' sums on the CPU"):
        mx.kv.create("nccl")
    monkeypatch.setattr(nccl.CONFIG, "gpu_to_cpu", True)
    store, out = mx.kv.create("NCCL"), arrays(0)[0]
    assert store.type == "nccl"
    store.init("a", arrays(0)[0])
    store.pushpull("a", arrays(1, 2), out)
    assert out.asnumpy().max() == 3
    with pytest.raises(MXNetError, match="not supported for this type of kvstore"):
        store.set_gradient_compression({"type": "2bit"})


def test_nccl_needs_its_package(monkeypatch):
    monkeypatch.setattr(nccl, "gpu_count", lambda: 2)
    monkeypatch.setitem(sys.modules, "nccl", None)
    with pytest.raises(MXNetError, match=r"needs nccl4py .*: pip install 'nbmod\[nccl\]', or use"):
        mx.kv.create("nccl")


@pytest.mark.parametrize("ids, expected", [
    ([1], [0, 1, 0]), ([2, 0, 2], [0.5, 0, 2]), ([], [0, 0, 0])])
def test_rows(ids, expected):
    """MXNet does the same with row-sparse arrays, and rejects dense ones."""
    store = mx.kv.create("local")
    store.init(["w", "v"], [mx.nd.array([[0.5], [1], [2]]), mx.nd.ones((3, 1))])
    outs = [mx.nd.full((3, 1), 9) for _ in range(4)]
    rows = mx.nd.array(ids) if ids else mx.nd.array(np.empty(0))
    store.row_sparse_pull("w", out=outs[0], row_ids=rows)
    store.row_sparse_pull("w", out=outs[1:3], row_ids=[rows, mx.nd.array([0])])
    store.row_sparse_pull(["w", "v"], out=[outs[3], arrays(7, shape=(3, 1))[0]],
                          row_ids=[rows, rows])
    for out in (outs[0], outs[1], outs[3]):
        assert out.asnumpy()[:, 0].tolist() == expected
    assert outs[2].asnumpy()[:, 0].tolist() == [0.5, 0, 0]
