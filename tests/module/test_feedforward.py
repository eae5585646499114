"""`FeedForward` and the executor manager, compared with MXNet's, and nbmod's additions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_like
from tests.programs import feedforward

pytestmark = pytest.mark.filterwarnings("ignore:mxnet.model.FeedForward has been deprecated")


@pytest.mark.parametrize("program", feedforward.PROGRAMS)
def test_programs_answer_as_in_mxnet(oracle, program):
    theirs = oracle.call("mx_scripts.run", "feedforward", "answer", program)
    assert_like(feedforward.answer(mx, program), theirs, 2e-5)


def model(**options):
    return feedforward.model(mx, **options)


def data():
    return feedforward.samples()


def _at_its_end():
    found = mx.io.NDArrayIter(data()[0], batch_size=8)
    assert list(found)
    return found


class Empty(mx.io.DataIter):
    """Yields nothing."""

    provide_data, provide_label = [("data", (8, 5))], [("softmax_label", (8,))]

    def __iter__(self):
        return iter(())


WRONG = [
    ("network", lambda: mx.model.FeedForward("net"), TypeError, "symbol is a str"),
    ("no GPU", lambda: mx.model.FeedForward(mx.sym.Variable("x"), ctx=mx.gpu(99)), MXNetError,
     r"gpu\(99\) was asked for"),
    ("contexts", lambda: mx.model.FeedForward(mx.sym.Variable("x"), ctx=[3]), TypeError,
     r"context is \[3\], expected"),
    ("epochs", lambda: model(num_epoch=None).fit(*data()), MXNetError, "num_epoch is not set"),
    ("data", lambda: model().fit([1]), TypeError, "X must be .* is a list"),
    ("labels", lambda: model().fit(data()[0]), ValueError, "y must be specified"),
    ("lengths", lambda: model().fit(data()[0], np.ones(3)), ValueError, "24 and 3"),
    ("label shape", lambda: model().fit(data()[0], np.ones((24, 2))), ValueError, r"\(24, 2\)"),
    ("eval data", lambda: model().fit(*data(), eval_data=3), TypeError, "pair.* is a int"),
    ("no parameters", lambda: model(arg_params=None).predict(data()[0]), MXNetError,
     "have no 'fc1_weight'; call fit"),
    ("misspelt parameter", lambda: model(arg_params={
        name.replace("weight", "weigth"): value for name, value in feedforward.start(mx).items()
    }).predict(data()[0]), MXNetError, "have no 'fc1_weight'; did you mean 'fc1_weigth'"),
    ("extra parameter", lambda: model(arg_params={
        **feedforward.start(mx), "fc9_weight": mx.nd.ones((8, 5))}).predict(data()[0]),
     ValueError, "fc9_weight"),
    ("no batch", lambda: model().predict(Empty(8)), MXNetError, "no batch; has it fewer samples"),
    ("an iterator at its end", lambda: model().predict(_at_its_end(), reset=False), MXNetError,
     "no batch; it had been read to its end.*reset()"),
    ("never an epoch", lambda: model(epoch_size=4).fit(Empty(8)), MXNetError,
     "epoch_size=4 is never reached"),
    ("epoch to save", lambda: model(num_epoch=None).save("net"), MXNetError, "give the epoch"),
    ("work loads", lambda: mx.executor_manager.DataParallelExecutorManager(
        feedforward.network(mx), [mx.cpu()], feedforward.iterator(mx), [], [], [], [1, 2]),
     MXNetError, "2 work loads for 1"),
]


@pytest.mark.parametrize("use, error, text", [row[1:] for row in WRONG],
                         ids=[row[0] for row in WRONG])
def test_wrong_use_says_what_to_do(use, error, text):
    with pytest.raises(error, match=text):
        use()


def test_a_model_can_be_pickled():
    made = model()
    made.fit(*data())
    expected = made.predict(data()[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).predict(data()[0]), expected)


def test_the_class_is_deprecated_at_the_users_line():
    with pytest.warns(DeprecationWarning, match="use mxnet.mod.Module") as warned:
        model()
    assert warned[0].filename == feedforward.__file__


def test_prediction_uses_the_parameters_of_the_moment():
    made = model()
    first = made.predict(data()[0])
    made.arg_params = {name: value * 2 for name, value in made.arg_params.items()}
    assert np.abs(made.predict(data()[0]) - first).max() > 0.01
