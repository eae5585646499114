"""Batches read where they lie: nothing but time may tell them from copies.

Every case runs twice, on batches that are lent and on copies of them, and all numbers must agree to
the bit.
"""

from __future__ import annotations

import copy
import gc
import itertools
import linecache
import pickle
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nbmod as mx
from nbmod.execution import zero_copy
from nbmod.executor import Executor
from nbmod.module.batch_slicing import cut
from nbmod.ndarray.buffer_pool import Loans, Sealed
from tests.programs import picture_programs

SHAPE = (4, 2, 5, 5)


@pytest.fixture(autouse=True)
def small_batches_are_lent_too(monkeypatch):
    monkeypatch.setattr(zero_copy, "LEAST_BYTES", 0)


class Source(mx.io.DataIter):
    """`count` batches of random numbers: lent, or in arrays of their own."""

    def __init__(self, lent, shape=SHAPE, count=50, dtype="float32"):
        super().__init__(shape[0])
        self.lent, self.count, self.loans = lent, count, Loans(shape, dtype)
        self.provide_data = [mx.io.DataDesc("data", shape, dtype)]
        self.provide_label = [mx.io.DataDesc("softmax_label", shape[:1])]
        self.reset()

    def reset(self):
        self.left, self.random = self.count, np.random.RandomState(0)

    def next(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        data = self.loans.rent()
        data[:] = self.random.randn(*data.shape) * 5
        label = mx.nd.array(self.random.randint(0, 3, len(data)))
        return mx.io.DataBatch([Sealed(data) if self.lent else mx.nd.array(data, dtype=data.dtype)],
                               [label], pad=0)


def network(data=None):
    """With a view of the data, a layer that reads them, and one that reads the view."""
    with mx.name.NameManager():
        data = mx.sym.Variable("data") if data is None else data
        x = mx.sym.Convolution(data, num_filter=3, kernel=(3, 3), name="conv")
        x = mx.sym.Flatten(mx.sym.Activation(x, act_type="tanh"))
        y = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=4, name="beside")
        x = mx.sym.FullyConnected(mx.sym.concat(x, y, dim=1), num_hidden=3, name="top")
        return mx.sym.SoftmaxOutput(x, name="softmax")


def module(source, symbol=None, contexts=1, **options):
    mx.random.seed(3)
    np.random.seed(3)
    made = mx.mod.Module(network() if symbol is None else symbol,
                         context=[mx.cpu(k) for k in range(contexts)])
    made.bind(source.provide_data, source.provide_label, **options)
    if not made.params_initialized:
        made.init_params(mx.init.Uniform(0.3))
    return made


def executor_of(made):
    return made._exec_group.execs[0]


def argument(made):
    return executor_of(made).arg_dict["data"]


def ones(made):
    """In the argument's shape."""
    return mx.nd.ones(argument(made).shape)


def numbers(made, tables=("output_dict", "grad_dict", "arg_dict", "aux_dict")):
    """All that can be seen of a module."""
    found = {}
    for k, executor in enumerate(made._exec_group.execs):
        for table in tables:
            found |= {(k, table, name): array.asnumpy()
                      for name, array in getattr(executor, table).items() if array is not None}
    return found


def results(made):
    """The same without a look at the arguments."""
    return numbers(made, ("output_dict", "grad_dict", "aux_dict"))


def both_agree(case, **options):
    """`case(source)`, a tree of arrays, must give the same for lent batches and for copies."""
    lent, copied = (plain(case(Source(lent, **options))) for lent in (True, False))
    np.testing.assert_equal(lent, copied)


def plain(tree):
    if isinstance(tree, (list, tuple)):
        return [plain(each) for each in tree]
    return tree.asnumpy() if isinstance(tree, mx.nd.NDArray) else tree


# ------------------------------------------------------- what users do between forward and backward

def _kept_view(made, source):
    view = argument(made).reshape((-1,))
    made.forward(source.next(), is_train=True)
    return view.asnumpy()


def _shared_memory(made, batch):
    """Another executor of the arenas needs more of them, so all steps are made again."""
    larger = mx.mod.Module(network())
    larger.bind([("data", (64, *SHAPE[1:]))], [("softmax_label", (64,))], shared_module=made)
    made._exec_group.load(batch)
    executor_of(larger).forward()
    return executor_of(made).forward(is_train=True)[0].asnumpy()


def _other_shapes(made, source):
    small = Source(source.lent, (3, *SHAPE[1:]))
    found = []
    for which in (small, source, small, source):
        batch = which.next()
        made.forward(batch, is_train=True)
        assert executor_of(made).borrows("data") == source.lent
        found.append(made.get_outputs()[0].asnumpy())
    return found


def _without_the_iterator(made, source):
    """Whoever works with the memory next must not disturb backward."""
    batch, loans = source.next(), source.loans
    made.forward(batch, is_train=True)
    del batch
    for _ in range(5):
        loans.rent()[:] = np.nan


def _dtype(made, source):
    made.forward(Source(source.lent, dtype="float64").next(), is_train=True)
    assert not executor_of(made).borrows("data")


def _failed(made, source):
    """The load of a batch is broken off while its steps are prepared."""
    executor = executor_of(made)
    executor._prepare, batch = _interrupted, source.next()
    try:
        made.forward(batch, is_train=True)
    except KeyboardInterrupt:
        del executor._prepare
        made.forward(batch, is_train=True)


def _interrupted(*_):
    raise KeyboardInterrupt


def _own(source):
    return mx.io.DataBatch([mx.nd.ones(SHAPE)], [mx.nd.zeros(SHAPE[:1])])


def _watched(made, source):
    seen = []
    made._exec_group.execs[0].set_monitor_callback(
        lambda name, array: seen.append((name, array.asnumpy())), monitor_all=True)
    made.forward(source.next(), is_train=True)
    assert not executor_of(made).borrows("data")
    return seen


def _watched_by_a_scribbler(made, batch):
    def scribble(name, array):
        if name == "data":
            array[:] = 1

    executor_of(made).set_monitor_callback(scribble, monitor_all=True)


def _part_written(made, batch, source):
    """Somebody has a view of some rows before the batch is loaded once more."""
    part = cut(batch.data[0], 0, slice(0, 2))
    view = part[:1]
    made.forward(batch, is_train=True)
    view[:] = 0


def _former_batch_written(made, batch, source):
    made.forward(source.next(), is_train=True)
    batch.data[0][:] = 0
    assert executor_of(made).borrows("data") == source.lent


CASES = {  # between forward and backward of `batch`; what it gives must agree, too
    "nothing": lambda made, batch, source: None,
    "batch written": lambda made, batch, source: batch.data[0].__setitem__(slice(None), 0),
    "row of the batch written": lambda made, batch, source: batch.data[0][2].__setitem__(0, 9),
    "batch added to": lambda made, batch, source: batch.data[0].__iadd__(1),
    "batch as output": lambda made, batch, source: mx.nd.ones(SHAPE).copyto(batch.data[0]),
    "batch read": lambda made, batch, source: batch.data[0].asnumpy(),
    "batch pickled": lambda made, batch, source: pickle.loads(pickle.dumps(batch.data)),
    "batch copied": lambda made, batch, source: copy.deepcopy(batch.data[0]),
    "argument read": lambda made, batch, source: argument(made).asnumpy(),
    "argument printed": lambda made, batch, source: (repr(argument(made)), argument(made).dtype,
                                                     argument(made).size, argument(made).ndim),
    "argument written": lambda made, batch, source: argument(made).__setitem__(slice(1, 3), 4),
    "argument as output": lambda made, batch, source: ones(made).copyto(argument(made)),
    "argument added to": lambda made, batch, source: argument(made).__iadd__(
        batch.data[0][:len(argument(made))]),
    "row of the argument written": lambda made, batch, source: argument(made)[1].__setitem__(0, 9),
    "view of the argument kept": lambda made, batch, source: _kept_view(made, source),
    "argument to itself": lambda made, batch, source: executor_of(made).take(
        "data", argument(made)),
    "parameters copied": lambda made, batch, source: executor_of(made).copy_params_from(
        {"data": ones(made)}),
    "forward again": lambda made, batch, source: executor_of(made).forward(is_train=True),
    "forward with data": lambda made, batch, source: executor_of(made).forward(
        is_train=True, data=ones(made)),
    "next batch": lambda made, batch, source: made.forward(source.next(), is_train=True),
    "same batch": lambda made, batch, source: made.forward(batch, is_train=True),
    "a user's batch": lambda made, batch, source: made.forward(_own(source), is_train=True),
    "a user's batch and the next": lambda made, batch, source: [
        made.forward(each, is_train=True) for each in (_own(source), source.next())],
    "another type": lambda made, batch, source: _dtype(made, source),
    "inference": lambda made, batch, source: (
        made.forward(source.next(), is_train=False), made.get_outputs()[0].asnumpy(),
        made.forward(source.next(), is_train=True)),
    "reshaped": lambda made, batch, source: (executor_of(made).reshape(
        data=(1, *SHAPE[1:]), softmax_label=(1,)).forward()[0].asnumpy(),
        made.forward(batch, is_train=True)),
    "other shapes": lambda made, batch, source: _other_shapes(made, source),
    "shared memory": lambda made, batch, source: _shared_memory(made, batch),
    "part of the batch written": _part_written,
    "former batch written": _former_batch_written,
    "scribbled on": lambda made, batch, source: _watched_by_a_scribbler(made, batch),
    "watched": lambda made, batch, source: _watched(made, source),
    "plan printed": lambda made, batch, source: executor_of(made).debug_str(),
    "buffers in other hands": lambda made, batch, source: _without_the_iterator(made, source),
    "broken off": lambda made, batch, source: _failed(made, source),
}


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_nothing_tells_a_loan_from_a_copy(name, contexts):
    def case(source):
        made = module(source, contexts=contexts, inputs_need_grad=True, grad_req="add")
        batch = source.next()
        made.forward(batch, is_train=True)
        assert executor_of(made).borrows("data") == source.lent
        result = CASES[name](made, batch, source)
        made.backward()
        found = [result, results(made)]
        made.forward(source.next(), is_train=True)
        made.backward()
        return [*found, batch.data, numbers(made)]

    both_agree(case)


@pytest.mark.parametrize("change", [
    lambda teacher, student, batch: None,
    lambda teacher, student, batch: batch.data[0].__setitem__(slice(None), 1),
    lambda teacher, student, batch: argument(teacher).__setitem__(slice(None), 1)])
@pytest.mark.parametrize("shared", [False, True])
def test_two_modules_read_one_batch(change, shared):
    def case(source):
        teacher = module(source)
        student = module(source, **({"shared_module": teacher} if shared else {}))
        batch, found = source.next(), []
        for made in (teacher, student):
            made.forward(batch, is_train=True)
            made.get_outputs()
        change(teacher, student, batch)
        student.backward()
        found += [results(teacher), results(student)]
        teacher.forward(source.next(), is_train=True)
        teacher.backward()
        return [*found, numbers(teacher), numbers(student)]

    both_agree(case)


def test_inference_that_watches_every_node():
    """Training mode of a simplified executor runs another one on the same arrays."""
    def case(source):
        made, found = module(source, for_training=False), []
        for is_train in (False, True, False, True):
            made.forward(source.next(), is_train=is_train)
            found.append(made.get_outputs()[0])
        return plain(found) + [numbers(made)]

    both_agree(case)


def _interrupt_at(count):
    """A trace function that raises KeyboardInterrupt at a line of `inputs`, so many lines on.

    Not at `with lock`: there Python lets no signal in, but would let a trace function.
    """
    left = itertools.count(count, -1)

    def trace(frame, event, _):
        if frame.f_code.co_filename != zero_copy.__file__:
            return None
        line = linecache.getline(zero_copy.__file__, frame.f_lineno).strip()
        if event == "line" and not line.startswith("with") and next(left) == 0:
            raise KeyboardInterrupt
        return trace

    return trace


def test_ctrl_c_may_come_at_any_line():
    """Whatever the load of a batch leaves behind, the next one is read as it is."""
    source, before = Source(True), sys.gettrace()
    made, batches, outputs = module(source), [source.next(), source.next()], []
    for batch in batches:
        made.forward(batch, is_train=True)
        outputs.append(plain(made.get_outputs()))
    for line in itertools.count():
        sys.settrace(_interrupt_at(line))
        try:
            made._exec_group.load(batches[line % 2])
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        made.forward(batches[1 - line % 2], is_train=True)
        np.testing.assert_equal(plain(made.get_outputs()), outputs[1 - line % 2])
    assert line > 20 and executor_of(made).borrows("data")


def test_any_thread_may_look_at_a_batch():
    """While another one loads it, runs on it and loads the next."""
    def case(source):
        made, found, queue = module(source), [], []
        done = threading.Event()

        def look():
            while not done.is_set():
                for batch in queue[-2:]:
                    assert batch.data[0].shape == SHAPE
                    looked.append(batch.data[0].asnumpy().sum())

        looked = []
        with ThreadPoolExecutor(3) as threads:
            lookers = [threads.submit(look) for _ in range(3)]
            try:
                for batch in source:
                    queue.append(batch)
                    made.forward(batch, is_train=True)
                    made.backward()
                    found.append(results(made))
            finally:
                done.set()
            for each in lookers:
                each.result()
        return [*found, queue[-1].data]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        both_agree(case, count=100)
    finally:
        sys.setswitchinterval(interval)


@mx.operator.register("scribbles_on_its_input")
class _Scribble(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return _Scribbler()


class _Scribbler(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)
        in_data[0][:] = 7

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], in_data[0])


def _custom(data):
    return mx.sym.Custom(data, op_type="scribbles_on_its_input")


def _in_a_loop(data):
    return mx.sym.contrib.foreach(lambda row, state: (_custom(row), state), data, [])[0]


NETWORKS = {  # is the batch lent?
    "twice the data": (lambda data: data + data, True),
    "dropout": (lambda data: mx.sym.Dropout(data, p=0.5), True),
    "loop": (lambda data: mx.sym.contrib.foreach(
        lambda row, state: (mx.sym.Dropout(row * state, p=0.5), state + 1), data,
        mx.sym.ones(SHAPE[1:]))[0], True),
    "batch norm": (lambda data: mx.sym.BatchNorm(data), True),
    "mirrored": (lambda data: mx.sym.exp(mx.sym.tanh(data, attr={"force_mirroring": "True"})),
                 True),
    "custom": (_custom, False),
    "custom in a loop": (_in_a_loop, False),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_what_reads_the_data(name):
    layer, is_lent = NETWORKS[name]

    def case(source):
        mx.random.seed(1)
        with mx.name.NameManager():
            symbol = network(layer(mx.sym.Variable("data")))
        made, found = module(source, symbol), []
        for _ in range(3):
            batch = source.next()
            made.forward(batch, is_train=True)
            assert executor_of(made).borrows("data") == (is_lent and source.lent)
            made.backward()
            found += [results(made), batch.data]
        return [*found, numbers(made)]

    both_agree(case)


def test_one_step_reads_one_loan():
    """Of two inputs that meet in a step the first is lent."""
    def case(source):
        other = Source(source.lent)
        symbol = network(mx.sym.Variable("data") * mx.sym.Variable("other"))
        made = mx.mod.Module(symbol, data_names=["data", "other"])
        made.bind([*source.provide_data, ("other", SHAPE)], source.provide_label)
        made.init_params(mx.init.One())
        for _ in range(3):
            batch = source.next()
            batch.data += other.next().data
            made.forward(batch, is_train=True)
            made.backward()
        executor = executor_of(made)
        assert [executor.borrows(name) for name in ("data", "other")] == [source.lent, False]
        return numbers(made)

    both_agree(case)


def test_what_is_derived_from_the_data_is_derived_again():
    """A weight may be an input like any other; here batch norm is folded into it."""
    def case(source):
        ones, data = mx.sym.Variable("one_weight", shape=(1, 6)), mx.sym.Variable("data")
        x = mx.sym.FullyConnected(ones, data, num_hidden=4, no_bias=True, name="dense")
        made, found = mx.mod.Module(mx.sym.BatchNorm(x, name="norm"), label_names=None), []
        made.bind(source.provide_data, for_training=False)
        made.init_params(mx.init.One())
        assert executor_of(made).derived
        for _ in range(3):
            batch = source.next()
            batch.label = None
            made.forward(batch)
            found.append(plain(made.get_outputs()))
        return found

    both_agree(case, shape=(4, 6))


def test_data_that_are_results_are_copied():
    def case(source):
        data = mx.sym.Variable("data")
        symbol = mx.sym.Group([network(data), data])
        made, batch = module(source, symbol), source.next()
        made.forward(batch)
        before = plain(made.get_outputs())
        batch.data[0][:] = 0
        return before + plain(made.get_outputs())

    both_agree(case)


# ------------------------------------------------------------------------------------- whole runs

class Copies(mx.io.DataIter):
    """The batches of an iterator in arrays of their own."""

    def __init__(self, iterator):
        super().__init__(iterator.batch_size)
        self.iterator = iterator
        self.provide_data, self.provide_label = iterator.provide_data, iterator.provide_label
        self.reset = iterator.reset

    def next(self):
        batch = self.iterator.next()
        return mx.io.DataBatch([array.copy() for array in batch.data], batch.label, batch.pad,
                               batch.index)


@pytest.fixture
def iterators(tmp_path):
    """By name, what makes an iterator."""
    sizes, rows = [(12, 14)] * 13, np.random.RandomState(0).randn(13, 50)
    picture_programs.write(mx, str(tmp_path), sizes, [k % 3 for k in range(13)])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",")
    np.savetxt(tmp_path / "labels.csv", np.arange(13) % 3, delimiter=",")

    def pictures():
        return mx.io.ImageRecordIter(
            path_imgrec=str(tmp_path / "a.rec"), data_shape=(3, 10, 10), batch_size=4,
            shuffle=True, rand_crop=True, rand_mirror=True, scale=1 / 99, verbose=False)

    def csv():
        return mx.io.CSVIter(data_csv=str(tmp_path / "rows.csv"), data_shape=SHAPE[1:],
                             label_csv=str(tmp_path / "labels.csv"), batch_size=4)

    return {"pictures": pictures, "csv": csv,
            "ahead": lambda: mx.io.PrefetchingIter(pictures())}


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("name", ["pictures", "csv", "ahead"])
def test_training_is_the_same(iterators, name, contexts):
    """13 samples in batches of 4: the last one is filled up."""
    found = []
    for wrap in (lambda iterator: iterator, Copies):
        train, made = wrap(iterators[name]()), module(Source(False))
        made = mx.mod.Module(network(), context=[mx.cpu(k) for k in range(contexts)])
        mx.random.seed(2)
        np.random.seed(2)
        seen = []
        made.fit(train, wrap(iterators[name]()), num_epoch=3, optimizer="adam",
                 initializer=mx.init.Xavier(), eval_metric="ce",
                 batch_end_callback=lambda param, seen=seen: seen.append(param.eval_metric.get()))
        assert [each.borrows("data") for each in made._exec_group.execs] == [
            wrap is not Copies] * contexts
        found.append([seen, numbers(made), plain(made.predict(train)), made.score(train, "ce")])
    np.testing.assert_equal(*found)


def _layer(name, hidden):
    return mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=hidden, name=name)


def _chain():
    return mx.mod.SequentialModule().add(
        mx.mod.Module(_layer("first", 6), label_names=None)).add(
        mx.mod.Module(mx.sym.SoftmaxOutput(_layer("second", 3), name="softmax")),
        take_labels=True, auto_wiring=True)


def _svrg():
    from nbmod.contrib.svrg_optimization.svrg_module import SVRGModule

    return SVRGModule(network(), update_freq=2)


def _buckets():
    def symbol(width):
        x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=3, kernel=(3, 3), name="conv")
        x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
        x = mx.sym.FullyConnected(x, num_hidden=3, name="top")
        return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]

    return mx.mod.BucketingModule(symbol, default_bucket_key=7)


class Buckets(mx.io.DataIter):
    """Pictures of two widths in turn."""

    def __init__(self, lent):
        super().__init__(SHAPE[0])
        self.sources = [Source(lent, (*SHAPE[:3], width), count=5) for width in (7, 6)]
        self.provide_data, self.provide_label = (self.sources[0].provide_data,
                                                 self.sources[0].provide_label)
        self.reset()

    def reset(self):
        for source in self.sources:
            source.reset()
        self.order = itertools.cycle(self.sources)

    def next(self):
        source = next(self.order)
        batch = source.next()
        batch.bucket_key = source.provide_data[0].shape[-1]
        batch.provide_data, batch.provide_label = source.provide_data, source.provide_label
        return batch


@pytest.mark.parametrize("make, batches", [
    (_chain, Source), (_svrg, Source), (_buckets, Buckets)])
def test_other_modules(make, batches):
    found = []
    for lent in (True, False):
        mx.random.seed(2)
        np.random.seed(2)
        made = make()
        made.fit(batches(lent), num_epoch=2, initializer=mx.init.Xavier(),
                 optimizer_params={"learning_rate": 0.1})
        found.append({name: array.asnumpy() for params in made.get_params()
                      for name, array in params.items()})
        if make is _buckets:
            assert executor_of(made._buckets[6]).borrows("data") == lent
            assert executor_of(made._buckets[7]).borrows("data") == lent
    np.testing.assert_equal(*found)


@pytest.mark.gpu
def test_a_gpu_gets_copies():
    source = Source(True)
    found = []
    for context in (mx.cpu(), mx.gpu()):
        source.reset()
        made = mx.mod.Module(network(), context=context)
        made.bind(source.provide_data, source.provide_label)
        made.init_params(mx.init.One())
        made.forward(source.next())
        assert executor_of(made).borrows("data") == (context == mx.cpu())
        found.append(argument(made).asnumpy())
    np.testing.assert_equal(*found)


def test_nothing_is_made_in_the_steady_state(monkeypatch):
    """After a few batches: no buffer, no step, no memory."""
    made = {"buffers": 0, "steps": 0}
    allocate, prepare = Loans._allocate, Executor._prepare

    def counted(what, function):
        def run(*args):
            made[what] += 1
            return function(*args)
        return run

    monkeypatch.setattr(Loans, "_allocate", counted("buffers", allocate))
    monkeypatch.setattr(Executor, "_prepare", counted("steps", prepare))
    source = Source(True, (64, *SHAPE[1:]))
    trained, counts, peaks = module(source), [], []
    batch = source.next()
    for _ in range(50 - 1):
        following = source.next()  # as `fit` does
        trained.forward(batch, is_train=True)
        trained.backward()
        batch = following
        counts.append(dict(made))
    assert counts[3] == counts[-1] and made["buffers"] <= 4
    monkeypatch.undo()
    source.reset()
    tracemalloc.start()
    for _ in range(20):
        batch = following = source.next()
        trained.forward(batch, is_train=True)
        trained.backward()
        peaks.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert peaks[-1] - peaks[5] < source.loans.rent().nbytes


def test_labels_are_read_in_place_too():
    """A picture for each picture, and the loss is how far they are apart."""
    net = mx.sym.LinearRegressionOutput(mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(1, 1), num_filter=2), mx.sym.Variable("label"))
    given, results = np.random.default_rng(0).random((2, 8, *SHAPE), np.float32), []
    for lent in (False, True):
        trained, loans = mx.mod.Module(net, label_names=["label"]), Loans(SHAPE, np.float32)
        trained.bind([("data", SHAPE)], [("label", SHAPE)])
        mx.random.seed(1)
        trained.init_params()
        trained.init_optimizer()
        for values in given.swapaxes(0, 1):
            arrays = [loans.rent() for _ in values]
            for array, value in zip(arrays, values, strict=True):
                array[:] = value
            data, label = map(Sealed if lent else mx.nd.array, arrays)
            trained.forward_backward(mx.io.DataBatch([data], [label], pad=0))
            assert executor_of(trained).borrows("label") == lent
            trained.update()
        results.append([array.asnumpy() for array in trained.get_params()[0].values()])
    np.testing.assert_equal(*results)


def test_small_batches_are_copied(monkeypatch):
    monkeypatch.undo()
    source = Source(True)
    small, large = module(source), module(Source(True, (512, *SHAPE[1:])))
    small.forward(source.next())
    large.forward(Source(True, (512, *SHAPE[1:])).next())
    assert not executor_of(small).borrows("data") and executor_of(large).borrows("data")


def test_the_steps_go_with_the_lender():
    """A program that makes many iterators does not keep the memory of those that are gone."""
    trained, left = module(Source(True)), []
    for _ in range(3):
        source = Source(True)
        for batch in itertools.islice(source, 4):
            trained.forward(batch)
        left.append(weakref.ref(source.loans))
        del batch, source
    assert left[0]() is None and left[1]() is None and executor_of(trained).borrows("data")


def test_a_module_that_is_gone_leaves_its_batch():
    source = Source(True)
    trained, batch = module(source), source.next()
    expected = batch.data[0].memory.copy()
    trained.forward(batch)
    array, gone = argument(trained), weakref.ref(executor_of(trained))
    del trained
    gc.collect()
    assert gone() is None
    np.testing.assert_equal(array.asnumpy(), expected)
    np.testing.assert_equal(batch.data[0].asnumpy(), expected)
