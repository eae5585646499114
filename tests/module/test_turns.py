"""One module, several threads: every thread gets what belongs to its calls."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError

THREADS, ROUNDS = 8, 60


def module(kind="plain", **bind):
    """A module with one output, twice its data; bound for batches of 4."""
    def network(_=None):
        data = mx.sym.Variable("data")
        return mx.sym.FullyConnected(data, num_hidden=300, no_bias=True, name="fc"), ["data"], None

    if kind == "buckets":
        made = mx.mod.BucketingModule(network, default_bucket_key=1)
    elif kind == "sequence":
        made = mx.mod.SequentialModule()
        made.add(mx.mod.Module(mx.sym.Variable("data") * 1, label_names=None))
        made.add(mx.mod.Module(network()[0], label_names=None), auto_wiring=True)
    else:
        made = mx.mod.Module(network()[0], label_names=None)
    made.bind([("data", (4, 300))], **{"for_training": False, **bind})
    made.init_params(mx.init.One())
    return made


def batch(value, key=None, rows=4):
    data = np.full((rows, 300), value, np.float32)
    return mx.io.DataBatch([mx.nd.array(data)], bucket_key=key, provide_data=[("data", data.shape)])


class Mean(mx.metric.EvalMetric):
    """The mean of the outputs; it needs no labels."""

    def update_dict(self, label, pred):
        for output in pred.values():
            self.sum_metric += float(output.asnumpy().sum())
            self.num_inst += output.size


def in_threads(function):
    """Call it in all threads at once with the thread's number; raises what one of them raised."""
    errors, ready = [], threading.Barrier(THREADS)

    def call(number):
        ready.wait()
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("kind", ["plain", "buckets", "sequence", "shared", "several shapes"])
def test_outputs_are_those_of_the_own_forward(kind):
    shared = module(kind)
    modules = [shared] * THREADS
    if kind == "shared":
        for number in range(1, THREADS):
            modules[number] = mx.mod.Module(shared.symbol, label_names=None)
            modules[number].bind([("data", (4, 300))], for_training=False, shared_module=shared)

    def serve(number):
        for turn in range(ROUNDS):
            value, rows = THREADS * turn + number, 4 + (kind == "several shapes") * (number % 3)
            key = number % 2 if kind == "buckets" else None
            modules[number].forward(batch(value, key, rows))
            outputs = modules[number].get_outputs()[0]
            assert outputs.shape == (rows, 300)
            assert (outputs.asnumpy() == 300 * value).all()

    in_threads(serve)


def test_predict_and_score():
    shared = module()

    def serve(number):
        data = np.full((10, 300), number, np.float32)
        for _ in range(10):
            found = shared.predict(mx.io.NDArrayIter(data, batch_size=4)).asnumpy()
            assert found.shape == (10, 300) and (found == 300 * number).all()
            (_, value), = shared.score(mx.io.NDArrayIter(data[:8], batch_size=4), Mean("mean"))
            assert value == 300 * number

    in_threads(serve)


def test_arrays_that_a_thread_has_keep_their_contents():
    shared = module()
    shared.forward(batch(1))
    array = shared.get_outputs()[0]
    part = array[1:2]
    other = threading.Thread(target=lambda: shared.forward(batch(2)))
    other.start()
    other.join()
    assert (array.asnumpy() == 300).all() and (part.asnumpy() == 300).all()
    assert (shared.get_outputs()[0].asnumpy() == 300).all()
    shared.forward(batch(3))
    assert (shared.get_outputs()[0].asnumpy() == 900).all()


def test_a_thread_without_a_forward_reads_the_last_one():
    """As a main thread does after its worker has ended."""
    shared = module()
    worker = threading.Thread(target=lambda: shared.forward(batch(2)))
    worker.start()
    worker.join()
    assert (shared.get_outputs()[0].asnumpy() == 600).all()


@pytest.mark.parametrize("call", ["backward", "update", "get_input_grads", "update_metric"])
def test_what_is_not_kept_is_an_error(call):
    shared = module(for_training=True, inputs_need_grad=True)
    shared.init_optimizer()
    shared.forward(batch(1))
    shared.backward([mx.nd.ones((4, 300))])
    other = threading.Thread(target=lambda: shared.forward(batch(2)))
    other.start()
    other.join()
    arguments = {"backward": ([mx.nd.ones((4, 300))],),
                 "update_metric": (mx.metric.create("mse"), [mx.nd.ones((4, 300))])}
    with pytest.raises(MXNetError, match=rf"{call}: another thread has called forward.*set_params"):
        getattr(shared, call)(*arguments.get(call, ()))


def test_threads_that_take_turns_by_a_lock_of_their_own_can_train():
    shared, lock, trained = module(for_training=True), threading.Lock(), []
    shared.init_optimizer(optimizer_params={"learning_rate": 0.0})

    def train(number):
        for _ in range(5):
            with lock:
                shared.forward_backward(batch(number))
                shared.update()
                trained.append(number)

    shared.backward = lambda: type(shared).backward(shared, [mx.nd.ones((4, 300))])
    in_threads(train)
    assert len(trained) == 5 * THREADS
