"""Exact resume: train N, save, load in a new process, train M: bitwise as training N + M."""

from __future__ import annotations

import json
import logging
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.module import resume, training_state
from nbmod.module.json_codec import decode, encode
from nbmod.ops.random import rng
from tests.programs import resume_runs
from tests.programs.resume_runs import ADAM, BROKEN_AT, CASES, EPOCHS, SGD

pytestmark = pytest.mark.filterwarnings("ignore:Parameters already initialized")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every run of the table, whole and in two parts, the second in a process of its own."""
    path = tmp_path_factory.mktemp("runs")
    for parts in (["whole", "first"], ["rest"]):
        subprocess.run([sys.executable, "-W", "ignore", "-m",
                        "tests.programs.resume_runs", str(path),
                        *parts], cwd=ROOT, check=True, timeout=300)
    return path


@pytest.mark.parametrize("name", CASES)
def test_training_goes_on_as_if_nothing_had_happened(folder, name):
    whole, rest = (dict(np.load(folder / f"{part} {name}.npz")) for part in ("whole", "rest"))
    assert whole.keys() == rest.keys() and len(whole["epochs"]) == EPOCHS
    for key, expected in whole.items():
        np.testing.assert_array_equal(rest[key], expected, err_msg=key)


# ---------------------------------------------------------------------- inexact resume on request

@pytest.fixture
def checkpoint(tmp_path):
    """The first part of a run with dropout, a scheduler and a shuffled iterator: (prefix, case)."""
    return broken_off(tmp_path, {"fit": resume_runs.scheduled(
        "FactorScheduler", step=3, factor=0.5), "dropout": 0.4})


def broken_off(tmp_path, case):
    CASES["tried"] = case
    try:
        resume_runs.run("tried", "first", tmp_path)
    except resume_runs.Broken:
        pass
    finally:
        del CASES["tried"]
    return str(tmp_path / "tried")


def resumed(prefix, epoch=BROKEN_AT, train=None, **fit):
    """A module that resumes from a checkpoint for zero epochs, and its iterator."""
    train = train or resume_runs.shuffled(*resume_runs.samples(1))
    module = mx.mod.Module.load(prefix, BROKEN_AT, load_optimizer_states=True)
    scheduler = mx.lr_scheduler.FactorScheduler(**{"step": 3, "factor": 0.5,
                                                   **fit.pop("scheduler", {})})
    module.fit(train, begin_epoch=epoch, num_epoch=epoch, optimizer="adam", **{
        "optimizer_params": {"learning_rate": 0.1, "lr_scheduler": scheduler, **fit}})
    return module, train


def test_what_a_resume_brings_back(checkpoint, caplog):
    caplog.set_level(logging.INFO)
    saved = json.loads(Path(f"{checkpoint}-0002.resume").read_text())
    assert (saved["epoch"], saved["batch"], saved["format"]) == (2, 0, "nbmod training state 1")
    mx.random.seed(99)
    module, _ = resumed(checkpoint)
    optimizer = module._optimizer
    assert (optimizer.num_update, optimizer.lr_scheduler.count) == (10, 9)
    assert optimizer._all_index_update_counts == {0: dict.fromkeys(range(4), 10)}
    assert list(rng.get_state()) == saved["random"]["nbmod"]["$tuple"]
    assert [past["epoch"] for past in module.history] == [0, 1]
    assert 'tried-0002.resume"' in caplog.text


def test_history_has_what_was_found_behind_the_checkpoint(tmp_path):
    """It is written before `fit` evaluates; the results of that are added to it."""
    prefix, train, held = str(tmp_path / "a"), *(
        resume_runs.plain(*resume_runs.samples(seed)) for seed in (1, 2))
    module = mx.mod.Module(resume_runs.network(0, "training", False))
    module.fit(train, held, num_epoch=2, epoch_end_callback=mx.callback.module_checkpoint(
        module, prefix, save_optimizer_states=True))
    for epoch in (1, 2):
        other = mx.mod.Module.load(prefix, epoch, load_optimizer_states=True)
        other.fit(train, held, begin_epoch=epoch, num_epoch=epoch)
        assert other.history == module.history[:epoch]
        assert all(past["validation"] for past in other.history)


def test_without_the_file_it_would_be_another_training(checkpoint):
    Path(f"{checkpoint}-0002.resume").unlink()
    module, _ = resumed(checkpoint)
    assert module._optimizer.num_update == 0 and module.history == []


def test_another_epoch_is_no_resume(checkpoint, caplog):
    """As in MXNet, where counts and schedulers always start over."""
    caplog.set_level(logging.INFO)
    module, _ = resumed(checkpoint, epoch=0)
    assert module._optimizer.num_update == 0 and "is for begin_epoch=2" in caplog.text


@pytest.mark.parametrize("name, options", [
    ("PolyScheduler", {"max_update": 15, "base_lr": 0.1}),
    ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 0.1})])
def test_the_scheduler_that_was_trained_with_may_be_given_again(tmp_path, name, options):
    """As in a notebook, where the cell that made it is not run again."""
    def fit(module, scheduler, begin, end):
        module.fit(resume_runs.plain(*resume_runs.samples(1)), begin_epoch=begin, num_epoch=end,
                   initializer=mx.init.One(), optimizer_params={"lr_scheduler": scheduler})
        return module

    def new():
        return mx.mod.Module(resume_runs.network(0.0, "training", False))

    prefix, make = str(tmp_path / "net"), getattr(mx.lr_scheduler, name)
    whole, scheduler = fit(new(), make(**options), 0, 3), make(**options)
    fit(new(), scheduler, 0, 2).save_checkpoint(prefix, 2, save_optimizer_states=True)
    rest = fit(mx.mod.Module.load(prefix, 2, load_optimizer_states=True), scheduler, 2, 3)
    assert rest._optimizer.num_update == whole._optimizer.num_update
    for key, value in whole.get_params()[0].items():
        np.testing.assert_array_equal(rest.get_params()[0][key].asnumpy(), value.asnumpy())


def test_the_script_may_change_its_mind(checkpoint):
    module, _ = resumed(checkpoint, wd=0.5, beta1=0.7)
    optimizer = module._optimizer
    assert (optimizer.wd, optimizer.beta1, optimizer.num_update) == (0.5, 0.7, 10)


@pytest.mark.parametrize("change", [{"scheduler": {"step": 4}}, {"begin_num_update": 7},
                                    {"lr_scheduler": None}])
def test_a_scheduler_set_up_otherwise_starts_over(checkpoint, change):
    """Scripts written for MXNet shift the steps of their schedulers when they resume."""
    with pytest.warns(UserWarning, match="set up otherwise"):
        module, _ = resumed(checkpoint, **change)
    assert module._optimizer.num_update == change.get("begin_num_update", 0)


def test_other_data_start_afresh(checkpoint):
    train = mx.io.NDArrayIter(*resume_runs.samples(1), 4, shuffle=True)
    before = train.state_dict()
    with pytest.warns(UserWarning, match="batch_size=5, this one has 4"):
        resumed(checkpoint, train=train)
    assert train.state_dict()["random"] == [before["random"][0], before["random"][1]]


@pytest.fixture
def other_step(checkpoint, tmp_path):
    """Copies files of another training over those of the checkpoint."""
    (tmp_path / "other").mkdir()
    other = broken_off(tmp_path / "other", {"fit": ADAM})

    def replace(*names):
        for name in names:
            shutil.copy(f"{other}{name}", f"{checkpoint}{name}")
        return checkpoint

    return replace


@pytest.mark.parametrize("name, whole", [
    ("-0002.states", r"tried-symbol\.json and \S*tried-0002\.params"),
    ("-0002.params", r"tried-symbol\.json and \S*tried-0002\.states"),
    ("-symbol.json", r"tried-0002\.params and \S*tried-0002\.states")])
def test_a_file_of_another_step_is_named(other_step, name, whole):
    """As where a process was killed while it saved the same epoch again."""
    prefix = other_step(name)
    with pytest.raises(MXNetError, match=rf"tried{name}: of another step than \S*{whole} and "
                       r".*load_optimizer_states=False.*remove .*tried-0002\.resume"):
        resumed(prefix)
    mx.mod.Module.load(prefix, BROKEN_AT)
    Path(f"{prefix}-0002.resume").unlink()
    mx.mod.Module.load(prefix, BROKEN_AT, load_optimizer_states=True)


def test_the_training_state_of_another_checkpoint_is_ignored(other_step):
    prefix = other_step("-0002.states", "-0002.params")
    with pytest.warns(UserWarning, match="not written together"), \
            pytest.warns(UserWarning, match="cannot tell whether these are of one step"):
        module, _ = resumed(prefix)
    assert module._optimizer.num_update == 0


def test_training_states_of_older_versions_bind_the_optimizer_states_only(checkpoint):
    path = Path(f"{checkpoint}-0002.resume")
    state = json.loads(path.read_text())
    del state["params"], state["symbol"], state["checksum"]
    path.write_text(json.dumps(state))
    module, _ = resumed(checkpoint)
    assert module._optimizer.num_update == 10


def test_a_save_that_fails_leaves_the_old_set(checkpoint, monkeypatch):
    files = sorted(Path(checkpoint).parent.glob("tried*"))
    module, _ = resumed(checkpoint)
    before = [path.read_bytes() for path in files]

    def no_space(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(training_state, "write", no_space)
    with pytest.raises(OSError, match="No space left"):
        module.save_checkpoint(checkpoint, 2, save_optimizer_states=True)
    assert [path.read_bytes() for path in files] == before
    assert sorted(Path(checkpoint).parent.glob("tried*")) == files


def test_no_changed_byte_is_trained_on(checkpoint):
    """Before, a changed digit of a learning rate, a count or a random state was."""
    path = Path(f"{checkpoint}-0002.resume")
    content, sound = path.read_bytes(), encode(resume.read(str(path)))
    drawn = random.Random(5)
    for _ in range(1000):
        damaged = bytearray(content)
        damaged[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
        path.write_bytes(damaged)
        with suppress(MXNetError):
            found = encode(resume.read(str(path)))
            assert {name: found[name] for name in sound} == sound   # others are not looked at


DAMAGE = [
    (lambda text: text[:-40], ""), (lambda text: "", ""),
    (lambda text: "[]", "expected the format"),
    (lambda text: '{"format": 3}', "expected the format"),
    (lambda text: "[" * 100_000, ""),
    (lambda text: text.replace('"epoch": 2', '"epoch": 3'), "checksum"),
]


@pytest.mark.parametrize("damage, message", DAMAGE)
def test_damaged_files_are_errors(checkpoint, damage, message):
    path = Path(f"{checkpoint}-0002.resume")
    path.write_text(damage(path.read_text()))
    with pytest.raises(MXNetError, match=rf"tried-0002\.resume: damaged.*{message}"):
        resumed(checkpoint)


FORGERIES = [
    ('"epoch"', '"eboch"', "'epoch'"),
    ('"epoch": 2', '"epoch": -2', "epoch is -2"),
    ('"epoch": 2', '"epoch": "2"', "epoch is '2'"),
    ('"counts"', '"accounts"', "'counts'"),
    ('"$array"', '"$ndarray"', "uint32"),
    ('"<u4"', '"O"', "an array of type 'O'"),
    ('"<u4"', '"(<u4"', r"an array of type '\(<u4'"),  # for NumPy, code
    ('"cursor"', '"curse"', "cursor is None, expected an integer"),
    ('"nbmod": {', '"nbmud": {', "'nbmod'"),
    ('"states": [', '"former": [', "'states'"),
    ('"fresh": false', '"fresh": []', r"fresh is \[\], expected true or false"),
]


@pytest.mark.parametrize("text, other, message", FORGERIES)
def test_values_that_cannot_be_are_errors(checkpoint, text, other, message):
    """Those of files whose checksum is that of their content, as a program may have written it."""
    forge(checkpoint, lambda content: content.replace(text, other))
    with pytest.raises(MXNetError, match=message):
        resumed(checkpoint)


@pytest.mark.parametrize("other, message", [
    ({"beta1": "0.9"}, "beta1 is a str, '0.9', expected a number"),
    ({"beta1": 1}, "cannot compute the next update"),
    ({"beta2": -2}, "cannot compute the next update"),     # that after the next
    ({"update": 3}, "Adam.update is no attribute that training changes")])
def test_attributes_that_the_optimizer_cannot_have(checkpoint, other, message):
    def changed(content):
        state = json.loads(content)
        state["optimizer"]["now"]["own"] |= other
        return json.dumps(state)

    forge(checkpoint, changed)
    with pytest.raises(MXNetError, match=message):
        resumed(checkpoint)


def test_a_position_beyond_the_words_of_the_generator(checkpoint):
    """NumPy reads the memory there, and ends the process."""
    def beyond(content):
        state = json.loads(content)
        state["random"]["numpy"]["$tuple"][2] = 10**6
        return json.dumps(state)

    forge(checkpoint, beyond)
    with pytest.raises(MXNetError, match="pos is 1000000, expected 0 to 624"):
        resumed(checkpoint)
    np.random.rand()


def test_an_epoch_with_fewer_batches(checkpoint):
    """Training skipped batches that there were none of, for ever."""
    forge(checkpoint, lambda content: json.dumps(
        json.loads(content) | {"train_data": None, "batch": 10**12}))
    with pytest.raises(MXNetError, match="after 1000000000000 batches, and an epoch has 5"):
        resumed(checkpoint)


def forge(prefix, change):
    """Change the text of a training state, and write the checksum of what it says now."""
    path = Path(f"{prefix}-0002.resume")
    path.write_text(json.dumps(resume.with_checksum(json.loads(change(path.read_text())))))


def test_an_iterator_with_a_state_that_is_no_plain_data(tmp_path):
    train = resume_runs.plain(*resume_runs.samples(1))
    train.state_dict = lambda: {"file": sys.stdout}
    module = mx.mod.Module(resume_runs.network(0, "training", False))
    module.fit(train, num_epoch=1, **SGD)
    with pytest.warns(UserWarning, match="train_data will start afresh.* is no plain data"):
        module.save_checkpoint(str(tmp_path / "x"), 1, save_optimizer_states=True)
    assert resume.read(str(tmp_path / "x-0001.resume"))["train_data"] is None


# ---------------------------------------------------------------------------- custom training loops

def test_a_loop_of_ones_own(tmp_path):
    """`save_checkpoint` and `load_training_state`, in the midst of an epoch."""
    def made(prefix=None):
        options = {"context": [mx.cpu(0), mx.cpu(1)]}
        module = (mx.mod.Module(resume_runs.network(0.3, "training", False), **options)
                  if prefix is None else
                  mx.mod.Module.load(prefix, 1, load_optimizer_states=True, **options))
        train = resume_runs.shuffled(*resume_runs.samples(1))
        module.bind(train.provide_data, train.provide_label)
        module.init_params()
        module.init_optimizer(optimizer="adam")
        return module, train

    def trained(module, train, epochs, begin=0, stop=None):
        for epoch in range(begin, epochs):
            for batch in train:
                module.forward_backward(batch)
                module.update()
                if stop == (epoch, train.cursor):
                    return
            train.reset()

    prefix = str(tmp_path / "own")
    mx.random.seed(1)
    trained(*(whole := made()), 3)
    mx.random.seed(1)
    trained(*(first := made()), 3, stop=(1, 10))
    first[0].save_checkpoint(prefix, 1, save_optimizer_states=True)
    first[0].save_training_state(f"{prefix}-0001.resume", first[1], epoch=1, batch=3)
    mx.random.seed(2)
    module, train = made(prefix)
    assert module.load_training_state(f"{prefix}-0001.resume", train) == (1, 3)
    trained(module, train, 3, begin=1)
    for name, value in whole[0].get_params()[0].items():
        np.testing.assert_array_equal(module.get_params()[0][name].asnumpy(), value.asnumpy())
    with pytest.raises(MXNetError, match="num_data=23, this one has 9"):
        module.load_training_state(f"{prefix}-0001.resume", resume_runs.shuffled(
            *(array[:9] for array in resume_runs.samples(1))))


# --------------------------------------------------------------------------------------- iterators

ITERATORS = {
    **{f"{handle}, {'shuffled' if shuffle else 'in order'}": lambda h=handle, s=shuffle:
       mx.io.NDArrayIter(np.arange(23), np.arange(23), 5, shuffle=s, last_batch_handle=h)
       for handle in ("pad", "discard", "roll_over") for shuffle in (False, True)},
    "resized": lambda: mx.io.ResizeIter(ITERATORS["roll_over, shuffled"](), 7, False),
    "resized, reset": lambda: mx.io.ResizeIter(ITERATORS["pad, shuffled"](), 7),
}


def told(batches):
    return [(batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist(), batch.pad)
            for batch in batches]


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_iterators_go_on_from_any_place(name, epochs):
    for count in range(8):
        mx.random.seed(4)
        first, second = ITERATORS[name](), ITERATORS[name]()
        for _ in range(epochs):
            list(first)
            first.reset()
        for _, _ in zip(range(count), first, strict=False):
            pass
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for _ in range(3):
            assert told(second) == told(first)
            first.reset()
            second.reset()


def test_iterators_leave_the_common_sequence_alone():
    train = resume_runs.shuffled(*resume_runs.samples(1))
    before = rng.get_state()
    train.reset()
    assert rng.get_state() == before
    mx.nd.random.uniform(shape=(3,))
    other = resume_runs.shuffled(*resume_runs.samples(1))
    assert other.state_dict()["random"] != train.state_dict()["random"]


def test_an_iterator_that_cannot_tell():
    class Plain(mx.io.DataIter):
        pass

    assert Plain().state_dict() is None
    with pytest.raises(MXNetError, match="Plain does not define load_state_dict"):
        Plain().load_state_dict({})
    assert mx.io.ResizeIter(resume_runs.Drawn(*resume_runs.samples(1)), 3).state_dict() is None


def test_drawing_aside():
    mx.random.seed(1)
    expected = mx.nd.random.uniform(shape=(4,)).asnumpy()
    mx.random.seed(1)
    with rng.aside():
        aside = mx.nd.random.uniform(shape=(4,)).asnumpy()
    np.testing.assert_array_equal(mx.nd.random.uniform(shape=(4,)).asnumpy(), expected)
    assert not np.array_equal(aside, expected)


# -------------------------------------------------------------------------------------- plain data

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda part: st.lists(part) | st.tuples(part, part) | st.dictionaries(
        st.text() | st.integers(), part), max_leaves=20)


@settings(max_examples=50)
@given(PLAIN)
def test_plain_data_come_back(value):
    assert decode(json.loads(json.dumps(encode(value)))) == value


@pytest.mark.parametrize("dtype", ["float32", "float16", ">i4", "uint8", "bool"])
def test_arrays_come_back(dtype):
    value = np.arange(6).reshape(2, 3).astype(dtype)
    found = decode(json.loads(json.dumps(encode({"a": value, "n": mx.nd.array(value)}))))
    np.testing.assert_array_equal(found["a"], value)
    assert found["a"].dtype == value.dtype.newbyteorder("=") and found["a"].flags.writeable
    np.testing.assert_array_equal(found["n"].asnumpy(), value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", np.array(["x"]), [print], 1j])
def test_what_is_no_plain_data(value):
    with pytest.raises(TypeError, match="is no plain data"):
        encode({"a": value})
