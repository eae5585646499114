"""`.states` files: every optimizer's, exchanged with MXNet; old pickles; malicious ones."""

from __future__ import annotations

import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod import optimizer
from nbmod.base import MXNetError
from nbmod.core.serialization import record_bytes
from nbmod.optimizer import Optimizer
from nbmod.optimizer.state_files import save_states_file
from nbmod.optimizer.states import dump_states, load_states
from tests.programs import training

# name, parameters: one with all kinds of states that the optimizer can have
OPTIMIZERS = [
    ("sgd", {}), ("sgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3}),
    ("ccsgd", {"momentum": 0.5}), ("nag", {}), ("nag", {"momentum": 0.9}),
    ("adam", {"beta1": 0.8}), ("rmsprop", {}), ("rmsprop", {"centered": True}), ("adagrad", {}),
    ("adadelta", {}), ("adamax", {}), ("dcasgd", {}), ("ftml", {}), ("ftrl", {}),
    ("groupadagrad", {}), ("lamb", {}), ("lars", {}), ("lars", {"momentum": 0.9}),
    ("lbsgd", {"momentum": 0.9}), ("nadam", {}), ("sgld", {}), ("signum", {}),
    ("signum", {"momentum": 0.0}), ("test", {}),
]
SCHEDULE = ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 0.2})


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("name, params", OPTIMIZERS,
                         ids=[f"{n}-{'-'.join(p)}" for n, p in OPTIMIZERS])
def test_states_change_sides(oracle, name, params, precision):
    """Each side reads the other's files, and both continue training alike from any of them."""
    params = {**params, "learning_rate": 0.05, "multi_precision": precision == "float16"}

    def both(*args, **kwargs):
        return (training.optimizer_steps(mx, *args, **kwargs),
                oracle.call("mx_scripts.run", "training", "optimizer_steps", *args, **kwargs))

    # Where the rate changes, MXNet's LARS corrects the momentum of some parameters only.
    scheduler = SCHEDULE if name != "lars" else None
    ours, theirs = both(name, params, 3, precision, scheduler=scheduler)
    for kind in ("states", "whole"):
        files = ours[kind], theirs[kind]
        for content in files:
            here = training.read_states(mx, content)
            there = oracle.call("mx_scripts.run", "training", "read_states", content)
            np.testing.assert_equal(here, there)
        if name == "sgld" or (name, precision) == ("lamb", "float16"):
            continue  # random; MXNet measures the weight, which is not the file's master here
        runs = [run for content in files for run in both(name, params, 2, precision, content)]
        for run in runs[1:]:
            # Three steps each way before the files, two after: the tolerances of single runs.
            np.testing.assert_allclose(run["weights"].astype("f8"), runs[0]["weights"],
                                       **{"rtol": 1e-5, "atol": 1e-6} if precision == "float32"
                                       else {"rtol": 2e-3, "atol": 1e-3})


def test_scheduler_and_mixed_precision_states():
    params = {"momentum": 0.9, "multi_precision": True}
    run = training.optimizer_steps(mx, "sgd", params, 4, "float16", scheduler=SCHEDULE)
    states, found = load_states(run["whole"])
    assert [state.dtype for state in states[0]] == [np.float32] * 2
    assert found.num_update == 4 and found.lr_scheduler.count == 3
    assert dump_states((states, found)) == run["whole"]


SCHEDULERS = [
    SCHEDULE, ("MultiFactorScheduler", {"step": [2, 4], "factor": 0.5, "base_lr": 0.2}),
    ("PolyScheduler", {"max_update": 9, "base_lr": 0.2, "warmup_steps": 2}),
    ("CosineScheduler", {"max_update": 9, "base_lr": 0.2, "final_lr": 0.01}),
]


@pytest.mark.parametrize("name, params", SCHEDULERS, ids=[name for name, _ in SCHEDULERS])
def test_schedulers_change_sides(oracle, name, params):
    """A file with its optimizer restores the rates."""
    ours, theirs = (call("sgd", {}, 3, scheduler=(name, params)) for call in (
        lambda *a, **k: training.optimizer_steps(mx, *a, **k),
        lambda *a, **k: oracle.call("mx_scripts.run", "training", "optimizer_steps", *a, **k)))
    runs = []
    for content in (ours["whole"], theirs["whole"]):
        runs += [training.optimizer_steps(mx, "test", {}, 4, states=content)["weights"],
                 oracle.call("mx_scripts.run", "training", "optimizer_steps", "test", {}, 4,
                             states=content)["weights"]]
    for run in runs[1:]:
        np.testing.assert_allclose(run, runs[0], rtol=1e-5)


class FakeArray:
    """Pickles as MXNet's arrays do."""

    def __init__(self, array, module="mxnet.ndarray.ndarray"):
        self.array, self.module = array, module


class OldPickler(pickle._Pickler):
    """Writes `FakeArray` under MXNet's class name, in any protocol."""

    def save_global(self, obj, name=None):
        if obj is FakeArray:
            self.write(f"c{self.module}\nNDArray\n".encode())
        else:
            super().save_global(obj, name)

    dispatch = {**pickle._Pickler.dispatch, type: save_global}

    def reducer_override(self, obj):
        if isinstance(obj, FakeArray):
            content = bytearray(record_bytes(obj.array))
            self.module = obj.module
            return FakeArray, (None,), {"handle": content}
        return NotImplemented


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("module", ["mxnet.ndarray.ndarray", "mxnet.ndarray"])
def test_every_pickle_protocol_is_read(protocol, module, tmp_path):
    fake = FakeArray(np.arange(3, dtype=np.float32), module)
    with open(tmp_path / "x.states", "wb") as stream:
        OldPickler(stream, protocol).dump({0: None, 1: fake, "w": (fake, [fake, 2.5, -(1 << 40)])})
    states, _ = load_states((tmp_path / "x.states").read_bytes())
    assert states[0] is None and states["w"][0] is states["w"][1][0] is states[1]
    assert states["w"][1][1:] == [2.5, -(1 << 40)]
    assert states[1].asnumpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_numbers_of_numpy_are_read(protocol):
    given = {0: (np.float32(0.1), np.int64(-3)), 1: [np.bool_(True), np.float64(1e300)],
             2: np.frombuffer(b"\x01\x00", ">i2")[0]}
    states, _ = load_states(pickle.dumps(given, protocol))
    assert states == {key: state for key, state in given.items()}
    assert {type(part) for part in (*states[0], *states[1])} == {float, int, bool}


# -------------------------------------------------------------------------------- malicious files

def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


BYTEARRAY = b"cbuiltins\nbytearray\n"
ARRAY = b"cmxnet.ndarray\nNDArray\n"
MEGABYTE = b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20)
SCHEDULER = b"cmxnet.lr_scheduler\nFactorScheduler\n"
SGD = b"cmxnet.optimizer\nSGD\n"
DEEP = 200_000

HOSTILE = {
    "a call": (pickle.dumps({0: print}), "builtins.print is not allowed"),
    "a reduction": (b"cos\nsystem\n(S'true'\ntR.", "os.system is not allowed"),
    "a name on the stack": (text(b"posix") + text(b"system") + b"\x93.", "posix.system is not"),
    "an import": (b"c__builtin__\n__import__\n(S'os'\ntR.", "__import__ is not allowed"),
    "an attribute": (b"cbuiltins\ngetattr\n.", "builtins.getattr is not allowed"),
    "an attribute of an array": (b"cmxnet.ndarray\nNDArray.__init__\n.", "__init__ is not allowed"),
    "an instance": (b"(S'true'\nios\nsystem\n.", "INST is not allowed"),
    "an object": (b"(cos\nsystem\no.", "os.system is not allowed"),
    "an object of a class that is read": (b"(" + ARRAY + b"o.", "OBJ is not allowed"),
    "a new object with keywords": (ARRAY + b")}\x92.", "NEWOBJ_EX is not allowed"),
    "an extension": (b"\x82\x01.", "EXT1 is not allowed"),
    "the base of everything": (b"coptimizer\nOptimizer\n.", "optimizer.Optimizer is not allowed"),
    "a scheduler as an optimizer": (b"cmxnet.optimizer\nLRScheduler\n.", "is not allowed"),
    "an optimizer elsewhere": (b"cevil.module\nSGD\n)\x81.", "evil.module.SGD is not allowed"),
    "a set": (pickle.dumps({0: {1, 2}}), "EMPTY_SET is not allowed"),
    "a persistent id": (b"Pid\n.", "PERSID is not allowed"),
    "text as a state": (pickle.dumps({0: "text"}), "holds a str"),
    "a number": (pickle.dumps(5), "expected a dict, found int"),
    "no optimizer": (pickle.dumps(({}, 5)), "expected an Optimizer"),
    "a class as an optimizer": (b"}cmxnet.optimizer\nSGD\n\x86.", "expected an Optimizer"),
    "an array of nothing": (b"}K\x00" + ARRAY + b"N\x85R}bs.", "NoneType where bytes"),
    "an unfinished array": (b"}K\x00" + ARRAY + b"N\x85Rs.", "an array without contents"),
    "a call of data": (b"}K\x00}N\x85Rs.", "a dict is called"),
    "a call with text": (b"}K\x00" + ARRAY + text(b"x") + b"Rs.", "called with a str"),
    "a state for data": (b"]}b.", "a list is given a state"),
    "a state with numbers as names": (SCHEDULER + b")\x81}K\x01K\x02sb.", "is given a dict"),
    "text as a rate": (SGD + b")\x81}" + text(b"lr") + text(b"x") + b"sb.", "lr is a str"),
    "a list as counts": (SGD + b")\x81}" + text(b"lr_mult") + b"]sb.", "lr_mult is a list"),
    "a number as a scheduler": (SGD + b")\x81}" + text(b"lr_scheduler") + b"K\x01sb.",
                                "lr_scheduler is a int"),
    "a type of objects": (b"cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.", "numbers of type object"),
    "a number without its type": (b"cnumpy.core.multiarray\nscalar\nNN\x86R.", "without a type"),
    "a key of tuples": (b"}))\x86Ns.", "a dict key is a tuple"),
    "a list within itself": (b"}K\x00]\x94h\x00as.", "nests deeper than 16 levels"),
    "a dict as its own key": (b"}\x94h\x00h\x00s.", "a dict key is a dict"),
    "a memo that is not there": (b"h\x05.", "damaged at byte 0"),
    "an empty stack": (b"\x85.", "damaged"),
    "no mark": (b"}t.", "damaged"),
    "not a pickle": (b"\xff\xfe", "damaged"),
    "nothing": (b"", "damaged"),
    "no end": (b"}" * 9, "damaged|ends before"),
    "a bad array": (pickle.dumps({0: None})[:-2] + ARRAY + b"N\x85R}" + text(b"handle")
                    + b"C\x02absb.", "array record"),
    # Short programs, or compressed ones, that make large objects.
    "nested lists": (b"}K\x00" + b"]" * DEEP + b"a" * (DEEP - 1) + b"s.",
                     "nests deeper than 16 levels"),
    "tuples in tuples, of few parts": (b"}K\x00)" + b"\x85" * 600 + b"s.",
                                       "nests deeper than 16 levels"),
    "nested tuples": (b"}K\x00)" + b"\x85" * DEEP + b"s.", "nests deeper than 16 levels"),
    "nested dicts": (b"}K\x00" * DEEP + b"}" + b"s" * DEEP + b".", "holds a dict"),
    "marks": (b"(" * DEEP + b".", "damaged"),
    "lists doubled again and again": (
        b"}K\x00]\x94" + b"".join(b"0](h%ch%ce\x94" % (i, i) for i in range(60)) + b"s.",
        "nests deeper than 16 levels"),
    "a long list": (b"}K\x00](" + b"N" * 1001 + b"es.", "more than 1000 parts"),
    "a huge integer": (b"}K\x00\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20) + b"s.",
                       "more than 1024 bits"),
    "a huge integer as text": (b"}K\x00L" + b"9" * 4000 + b"L\ns.", "more than 1024 bits"),
    "a huge integer as text, too long for Python": (b"L" + b"9" * 100_000 + b"L\n.", "damaged"),
    "a length beyond the end": (b"\x8e" + struct.pack("<Q", 1 << 62) + b"x.", "damaged"),
    "bytes copied again and again": (
        b"](" + MEGABYTE + b"\x94" + (BYTEARRAY + b"h\x00\x85R") * 1000 + b"e.",
        "more is asked for"),
    "text turned to bytes again and again": (
        b"](" + text(b"x" * (1 << 20)) + b"\x94" + (b"c_codecs\nencode\nh\x00\x85R") * 1000 + b"e.",
        "more is asked for"),
    "arrays of the same bytes": (
        b"](" + MEGABYTE + b"\x94" + (ARRAY + b"N\x85R}" + text(b"handle") + b"h\x00sb") * 1000
        + b"e.", "more is asked for|array record"),
    "attributes given to many": (
        b"](}(" + b"".join(text(b"%d" % i) + b"N" for i in range(1000)) + b"u\x94"
        + (SCHEDULER + b")\x81h\x00b") * 1000 + b"e.", "more is asked for"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_states(kind):
    content, message = HOSTILE[kind]
    with pytest.raises(MXNetError, match=message):
        load_states(content)


def test_instructions_are_counted(monkeypatch):
    monkeypatch.setattr("nbmod.optimizer.safe_unpickler._MAX_INSTRUCTIONS", 100)
    with pytest.raises(MXNetError, match="more than 100 instructions"):
        load_states(b"}" + b"N0" * 100 + b".")


def test_unknown_escapes_are_read_without_a_warning():
    assert load_states(b"}S'\\e'\nNs.") == ({"\\e": None}, None)


@pytest.fixture(scope="module")
def whole():
    return training.optimizer_steps(mx, "adam", {}, 1, scheduler=SCHEDULE)["whole"]


def test_truncated_states(whole):
    for end in range(0, len(whole) - 1, 7):
        with pytest.raises(MXNetError):
            load_states(whole[:end])


def tried(content):
    """Loads, or raises MXNetError: nothing else may happen."""
    try:
        states, found = load_states(content)
    except MXNetError:
        return
    assert isinstance(states, dict) and isinstance(found, (Optimizer, type(None)))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_states(whole, data):
    """Bytes changed, removed, and moved."""
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(1, 16))
        change = data.draw(st.sampled_from(["write", "cut", "move"]))
        if change == "write":
            content[start] = data.draw(st.integers(0, 255))
            continue
        piece = content[start:start + length]
        del content[start:start + length]
        if change == "move":
            at = data.draw(st.integers(0, len(content)))
            content[at:at] = piece
    tried(content)


def mutated(content, seed, count):
    """Contents with one to three bytes changed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        changed = bytearray(content)
        for at in rng.integers(0, len(content), rng.choice((1, 1, 1, 2, 3))):
            changed[at] = rng.integers(256)
        yield bytes(changed)


@pytest.mark.parametrize("scheduler", [None, *SCHEDULERS])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_mutated_states_load_and_update_or_are_rejected(precision, scheduler):
    """What loads, updates: damage inside of values is found when a file is read."""
    outcomes = set()
    for seed, (name, params) in enumerate(OPTIMIZERS):
        params = {**params, "multi_precision": precision == "float16"}
        run = training.optimizer_steps(mx, name, params, 2, precision, scheduler=scheduler)
        for content in mutated(run["whole"], seed, 40 if scheduler is None else 8):
            try:
                optimizer.get_updater(optimizer.create(name, **params)).set_states(content)
            except MXNetError:
                outcomes.add("rejected")
                continue
            training.optimizer_steps(mx, name, params, 2, precision, content)
            outcomes.add("updated")
    assert outcomes == {"rejected", "updated"}


def changed_file(change, name="adam", scheduler=None, **params):
    """The states of an optimizer after `change(states, optimizer)`."""
    run = training.optimizer_steps(mx, name, params, 2, scheduler=scheduler)
    states, found = load_states(run["whole"])
    change(states, found)
    return dump_states((states, found))


DAMAGED = {
    "no number": (lambda _, o: setattr(o, "beta1", None), "beta1 is a NoneType, None, expected a"),
    "no count": (lambda _, o: o._index_update_count.update({0: "x"}),
                 "_index_update_count is a dict.*expected an integer from 0 to"),
    "a negative count": (lambda _, o: setattr(o, "num_update", -3), "num_update is a int, -3"),
    "a misspelt name": (lambda _, o: o.__dict__.update(betb2=o.__dict__.pop("beta2")),
                        "Adam has no attribute 'betb2'; did you mean 'beta2'"),
    "a rate of decay beyond 1": (lambda _, o: setattr(o, "beta2", 1.5), "cannot compute the next"),
    "a state too few": (lambda s, _: s.update({1: s[1][:1]}),
                        r"state of 1 is \(an array\) of float32 \(3, 5\), expected \(an array, an"),
    "another shape": (lambda s, _: s.update({0: (s[0][0], mx.nd.ones(2))}), "state of 0 is"),
    "integers": (lambda s, _: s.update({0: tuple(a.astype("int32") for a in s[0])}), "int32"),
    "several at a time": (lambda _, o: setattr(o, "aggregate_num", 9), "aggregate_num is 9"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_values_are_named(kind, tmp_path):
    change, message = DAMAGED[kind]
    (tmp_path / "x.states").write_bytes(changed_file(change))
    store = mx.kv.create("local")
    store.set_optimizer(optimizer.SGD())
    with pytest.raises(MXNetError, match=rf"x\.states: optimizer states.*{message}"):
        store.load_optimizer_states(str(tmp_path / "x.states"))


def test_a_schedulers_values_are_checked():
    def change(states, found):
        found.lr_scheduler.step = -1    # with which a scheduler would count without end
    with pytest.raises(MXNetError, match="scheduler's step is a int, -1, expected"):
        load_states(changed_file(change, scheduler=SCHEDULE))


PIECES = [b"(", b".", b"0", b"1", b"2", b"N", b"K\x01", b"]", b")", b"}", b"a", b"e", b"s", b"u",
          b"t", b"l", b"d", b"\x85", b"\x86", b"\x87", b"R", b"\x81", b"b", b"\x94", b"h\x00",
          b"h\x01", b"q\x00", text(b"lr"), text(b"handle"), b"C\x01x", ARRAY, BYTEARRAY, SCHEDULER,
          SGD, b"cnumpy\ndtype\n", b"c_codecs\nencode\n",
          b"ccopyreg\n_reconstructor\n", b"cnumpy.core.multiarray\nscalar\n", b"\x93",
          b"G" + bytes(8), b"\x8a\x01\x7f"]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_random_programs(pieces):
    tried(b"".join(pieces) + b".")


def test_optimizer_of_an_older_mxnet():
    """Attributes that came later have their defaults; the counts are those of the only device."""
    file = (b"(}cmxnet.optimizer\nAdam\n)\x81}(X\x05\x00\x00\x00beta1G?\xe0\x00\x00\x00\x00\x00\x00"
            b"X\x13\x00\x00\x00_index_update_count}K\x00K\x07subt.")
    _, found = load_states(file)
    assert (type(found), found.beta1, found.multi_precision) == (optimizer.Adam, 0.5, False)
    found._set_current_context(0)
    found._update_count(0)
    assert found.num_update == 8


def test_unwritable_states():
    with pytest.raises(MXNetError, match="a set cannot be written"):
        dump_states({0: {1}})
    nested: list = []
    nested.append(nested)
    with pytest.raises(MXNetError, match="too deep"):
        dump_states({0: nested})


def test_errors_name_the_file(tmp_path):
    path = str(tmp_path / "bad.states")
    (tmp_path / "bad.states").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    store = mx.kv.create("local")
    store.set_optimizer(optimizer.SGD())
    with pytest.raises(MXNetError, match=r"bad\.states: .*os\.system"):
        store.load_optimizer_states(path)


def test_states_are_written_piece_by_piece(tmp_path):
    """A copy of all of them, or of one, would take another 16 MB."""
    size = 1 << 20
    states = {index: mx.nd.ones((size, 4)).tostype("row_sparse") for index in range(2)}
    updater = mx.optimizer.get_updater(mx.optimizer.SGD())
    updater.states = states
    tracemalloc.start()
    save_states_file(updater, str(tmp_path / "a.states"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert (tmp_path / "a.states").read_bytes() == updater.get_states()


def test_updaters_of_users_say_what_is_saved(tmp_path):
    class Own(mx.optimizer.Updater):
        def get_states(self, dump_optimizer=False):
            return b"own"

    save_states_file(Own(mx.optimizer.SGD()), str(tmp_path / "a.states"))
    assert (tmp_path / "a.states").read_bytes() == b"own"


@pytest.mark.parametrize("protocol", range(5))
def test_large_states_of_all_protocols(protocol):
    """Those of protocols 3 and 4 are copied once, into the array."""
    array = mx.nd.arange(1 << 20)
    content = pickle.dumps({0: _Like(bytearray(record_bytes(array.asnumpy())))},
                           protocol)
    tracemalloc.start()
    (states, _), (_, peak) = load_states(content), tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(states[0].asnumpy(), array.asnumpy())
    assert protocol < 3 or peak < 1.1 * len(content)


class _Like:
    """Pickled as MXNet's arrays are."""

    def __init__(self, handle):
        self.handle = handle

    def __reduce__(self):
        return mx.nd.NDArray, (None,), {"handle": self.handle}
