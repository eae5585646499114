"""Estimators of scikit-learn that train a network: `ModuleClassifier` and `ModuleRegressor`.

The network computes scores; a loss with weights of samples is put on top of them for training, and
softmax of the scores, or the scores themselves, for prediction.  Both run on batches of one size,
whose rest is filled with samples of weight 0, so that one network is bound for all numbers of
samples.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import ndarray as nd
from . import symbol as sym
from .base import ArgumentError, MXNetError
from .callback import EarlyStopping
from .initializer import Xavier
from .io import DataBatch, DataDesc, DataIter
from .io.data_iter import global_random_states, set_global_random_states
from .metric import Loss
from .module import Module
from .ops.random import rng
from .serving import Predictor
from .symbol import Symbol

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise MXNetError("nbmod.sklearn needs scikit-learn 1.6 or newer: pip install 'nbmod[sklearn]' "
                     f"({error})") from None

if TYPE_CHECKING:
    from .context import Context

__all__ = ["ModuleClassifier", "ModuleRegressor"]
__dir__ = __all__.copy

Net: TypeAlias = "Symbol | Callable[[int], Symbol] | Sequence[int]"
LOSS_HEADS = ("SoftmaxOutput", "LinearRegressionOutput")


class _ModuleEstimator(BaseEstimator):
    """Base of both kinds of estimators, which describe its parameters."""

    def __init__(self, network: Net = (100,), *, optimizer: str = "adam",
                 learning_rate: float = 0.005, optimizer_params: dict[str, Any] | None = None,
                 epochs: int = 50, batch_size: int = 32, early_stopping: bool = False,
                 validation_fraction: float = 0.1, patience: int = 10,
                 callbacks: Sequence[Callable[..., object]] | None = None,
                 context: Context | list[Context] | None = None, random_state: Any = None):
        self.network = network
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.optimizer_params = optimizer_params
        self.epochs = epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.callbacks = callbacks
        self.context = context
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train a new network, and return the estimator.

        Parameters
        ----------
        X : array_like of shape (samples, features) or (samples, ...)
            Data.
        y : array_like of shape (samples,) or (samples, outputs)
            Targets; only regressors have several outputs.
        sample_weight : array_like of shape (samples,), optional
            What the loss of each sample is multiplied by; 1 by default.

        Raises
        ------
        ArgumentError
            If the network does not fit the data, or a parameter is out of range.
        """
        X, targets, weights = self._validated(X, y, sample_weight, None)
        self._check()
        random = check_random_state(self.random_state)
        self._begin(X, targets, random)
        parts: list[Any] = [(X, targets, weights), None]
        callbacks = list(self.callbacks or [])
        stopping: list[Any] = []
        if self.early_stopping:
            parts = self._split(X, targets, weights, random)
            stopping = [EarlyStopping("loss", self.patience, mode="min", restore_best=True)]
        self._train(parts[0], parts[1], random, self.epochs, batch_end_callback=callbacks,
                    eval_end_callback=stopping)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Train for one epoch, on the network of earlier calls if there is one.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array_like, optional
            All classes that will occur: required in the first call of classifiers, without
            meaning otherwise.
        """
        begins = not hasattr(self, "_trained")
        X, targets, weights = self._validated(X, y, sample_weight, classes, partial=True)
        self._check()
        random = check_random_state(self.random_state)
        if begins:
            self._begin(X, targets, random)
        self._train((X, targets, weights), None, random, 1,
                    batch_end_callback=list(self.callbacks or []))
        return self

    def _check(self) -> None:
        """ArgumentError for a parameter that is out of range."""
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{type(self).__name__}: {name} is {getattr(self, name)}, "
                                    "expected at least 1")

    def _begin(self, X: np.ndarray, targets: np.ndarray, random: np.random.RandomState) -> None:
        scores = _scores(self.network, self._outputs())
        optimizer = self.optimizer, {"learning_rate": self.learning_rate,
                                     **(self.optimizer_params or {})}
        self._trained = _Network(scores, self._heads(scores, targets.ndim), optimizer,
                                 min(self.batch_size, len(X)), self.context)
        self._trained.random = (random.randint(2 ** 31 - 1), 0)
        self.history_: list[dict[str, Any]] = []

    def _split(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray,
               random: np.random.RandomState) -> list[Any]:
        """Training and validation data."""
        train, held = train_test_split(np.arange(len(X)), test_size=self.validation_fraction,
                                       random_state=random, stratify=self._strata(targets))
        return [tuple(array[chosen] for array in (X, targets, weights))
                for chosen in (train, held)]

    def _train(self, train: tuple[np.ndarray, ...], held: tuple[np.ndarray, ...] | None,
               random: np.random.RandomState, epochs: int, **callbacks: Any) -> None:
        network = self._trained
        samples = _Samples(train, network.batch, random)
        network.train(samples, None if held is None else _Samples(held, network.batch, None),
                      epochs, {name: each for name, each in callbacks.items() if each})
        self.history_ = network.module.history
        self.n_iter_ = len(self.history_)

    @property
    def module_(self) -> Module:
        """The trained module: outputs are the predictions and the losses of the samples."""
        check_is_fitted(self)
        return self._trained.module

    def _predicted(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float32, allow_nd=True)
        return self._trained.predict(X)

    def _validated(self, X: Any, y: Any, sample_weight: Any, classes: Any, partial: bool = False
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _outputs(self) -> int:
        raise NotImplementedError

    def _heads(self, scores: Symbol, target_axes: int) -> tuple[Symbol, Symbol]:
        raise NotImplementedError

    def _strata(self, targets: np.ndarray) -> np.ndarray | None:
        return None


class ModuleClassifier(ClassifierMixin, _ModuleEstimator):
    """A classifier for scikit-learn that trains a network by `Module.fit`.

    Parameters
    ----------
    network : sequence of int, Symbol or callable, default (100,)
        Sizes of hidden layers with ReLU; or a symbol that computes a score for each class from the
        variable ``data``, where a head of `SoftmaxOutput` is taken off; or a function that makes
        such a symbol for a number of classes.
    optimizer : str, default 'adam'
        Name of the optimizer.
    learning_rate : float, default 0.005
        Learning rate.
    optimizer_params : dict, optional
        Further options of the optimizer.
    epochs : int, default 50
        Largest number of epochs of `fit`.
    batch_size : int, default 32
        Samples in a batch; all, if there are fewer.
    early_stopping : bool, default False
        Hold out samples, stop when their loss no longer falls, and use the best parameters.
    validation_fraction : float, default 0.1
        Share of the samples that is held out.
    patience : int, default 10
        Epochs without improvement after which training stops.
    callbacks : list of callable, optional
        Callbacks for the end of batches, such as `mx.callback.ClipGradients`.
    context : Context or list of Context, optional
        Where to train; predictions are made on the first. The CPU by default.
    random_state : int, RandomState or None
        Initial parameters, order of the samples and random numbers follow from it.

    Attributes
    ----------
    classes_ : numpy.ndarray of shape (classes,)
        The classes.
    module_ : Module
        The trained module.
    history_ : list of dict
        ``module_.history``.
    n_iter_ : int
        Number of epochs.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from nbmod.sklearn import ModuleClassifier
    >>> X = np.random.RandomState(0).normal(size=(200, 2))
    >>> model = ModuleClassifier((16,), epochs=30, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> model.predict([[1, 1], [1, -1]])
    array([ True, False])
    """

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimate the probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : array_like of shape (samples, features) or (samples, ...)
            Data.
        """
        return self._predicted(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each sample, an element of `classes_`.

        Parameters
        ----------
        X : array_like of shape (samples, features) or (samples, ...)
            Data.
        """
        best = self._predicted(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def _validated(self, X: Any, y: Any, sample_weight: Any, classes: Any, partial: bool = False
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first = not (partial and hasattr(self, "_trained"))
        X, y = validate_data(self, X, y, dtype=np.float32, allow_nd=True, reset=first)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        if first:
            if partial and classes is None:
                raise ArgumentError("ModuleClassifier.partial_fit: classes are required in the "
                                    "first call")
            self.classes_ = np.unique(y if classes is None else classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ArgumentError(f"ModuleClassifier: y has the labels {unknown.tolist()}, which are "
                                f"not among the classes {self.classes_.tolist()}")
        targets = np.searchsorted(self.classes_, y).astype(np.float32)
        return X, targets, _check_sample_weight(sample_weight, X, dtype=np.float32)

    def _outputs(self) -> int:
        return len(self.classes_)

    def _heads(self, scores: Symbol, target_axes: int) -> tuple[Symbol, Symbol]:
        picked = sym.pick(sym.log_softmax(scores, axis=-1), sym.var("target"), axis=-1)
        return sym.softmax(scores, axis=-1, name="probability"), 0 - picked

    def _strata(self, targets: np.ndarray) -> np.ndarray | None:
        return targets


class ModuleRegressor(RegressorMixin, _ModuleEstimator):
    """A regressor for scikit-learn that trains a network by `Module.fit` on squared errors.

    Parameters
    ----------
    network : sequence of int, Symbol or callable, default (100,)
        Sizes of hidden layers with ReLU; or a symbol that computes a value for each output from
        the variable ``data``, where a head of `LinearRegressionOutput` is taken off; or a
        function that makes such a symbol for a number of outputs.
    optimizer, learning_rate, optimizer_params, epochs, batch_size, early_stopping
        As for `ModuleClassifier`.
    validation_fraction, patience, callbacks, context, random_state
        As for `ModuleClassifier`.

    Attributes
    ----------
    module_, history_, n_iter_, n_features_in_
        As for `ModuleClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from nbmod.sklearn import ModuleRegressor
    >>> X = np.random.RandomState(0).normal(size=(200, 2))
    >>> model = ModuleRegressor((16,), epochs=30, random_state=0).fit(X, X[:, 0] + X[:, 1])
    >>> model.score(X, X[:, 0] + X[:, 1]) > 0.95
    True
    """

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets.

        Parameters
        ----------
        X
            As for `fit`.
        """
        predictions = self._predicted(X).astype(np.float64)  # as scikit-learn expects
        return predictions[:, 0] if self._target_shape == () else predictions

    def _validated(self, X: Any, y: Any, sample_weight: Any, classes: Any, partial: bool = False
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first = not (partial and hasattr(self, "_trained"))
        X, y = validate_data(self, X, y, dtype=np.float32, allow_nd=True, multi_output=True,
                             y_numeric=True, reset=first)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if not first and y.shape[1:] != self._target_shape:
            raise ArgumentError(f"ModuleRegressor.partial_fit: a target has the shape "
                                f"{y.shape[1:]}, in earlier calls it had {self._target_shape}")
        self._target_shape: tuple[int, ...] = y.shape[1:]
        return (X, y.astype(np.float32), _check_sample_weight(sample_weight, X, dtype=np.float32))

    def _outputs(self) -> int:
        return self._target_shape[0] if self._target_shape else 1

    def _heads(self, scores: Symbol, target_axes: int) -> tuple[Symbol, Symbol]:
        if target_axes == 1:
            return sym.identity(scores), sym.square(sym.reshape(scores, (-1,)) - sym.var("target"))
        errors = sym.square(scores - sym.var("target"))
        return sym.identity(scores), sym.mean(errors, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class _Network:
    """A module for training and a predictor of the same parameters.

    It is pickled as the files of a checkpoint, with the states of the optimizer, so that
    training goes on exactly.
    """

    def __init__(self, scores: Symbol, heads: tuple[Symbol, Symbol],
                 optimizer: tuple[str, dict[str, Any]], batch: int,
                 context: Context | list[Context] | None):
        self.prediction, loss = heads
        weighted = sym.MakeLoss(loss * sym.var("weight"), name="loss")
        self.training = sym.Group([sym.BlockGrad(self.prediction, name="prediction"), weighted])
        self.optimizer, self.batch, self.context = optimizer, batch, context
        self.random = (0, 0)
        self.module = self._new_module()
        self._predictor: Predictor | None = None

    def _new_module(self) -> Module:
        return Module(self.training, label_names=["target", "weight"], context=self.context,
                      logger=logging.getLogger("nbmod.sklearn"))

    def train(self, samples: _Samples, held: _Samples | None, epochs: int,
              callbacks: dict[str, Any]) -> None:
        """Train for some epochs more, with random numbers of its own."""
        done = len(self.module.history)
        name, options = self.optimizer
        with self._own_random_numbers():
            self.module.fit(samples, held, Loss(output_names=["loss_output"]), optimizer=name,
                            optimizer_params=options, initializer=Xavier(), begin_epoch=done,
                            num_epoch=done + epochs, **callbacks)
        self._predictor = None

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        everybodys = rng.get_state(), global_random_states()
        rng.set_state(self.random)
        try:
            yield
        finally:
            self.random = rng.get_state()
            rng.set_state(everybodys[0])
            set_global_random_states(everybodys[1])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The predictions of samples."""
        if self._predictor is None:
            contexts = self.context if isinstance(self.context, list) else [self.context]
            self._predictor = Predictor(
                (self.prediction, *self.module.get_params()), {"data": (self.batch, *X.shape[1:])},
                contexts[0], batch_sizes=(self.batch,))
        return self._predictor(X)[0]

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "net")
            self.module.save_checkpoint(prefix, 0, save_optimizer_states=True)
            files = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    files[name] = file.read()
        state = {name: value for name, value in vars(self).items()
                 if name not in ("module", "_predictor")}
        return state | {"files": files, "shapes": (self.module.data_shapes,
                                                   self.module.label_shapes)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        files, shapes = state.pop("files"), state.pop("shapes")
        vars(self).update(state)
        self._predictor, self.module = None, self._new_module()
        name, options = self.optimizer
        with tempfile.TemporaryDirectory() as folder:
            for base, content in files.items():
                with open(os.path.join(folder, base), "wb") as file:
                    file.write(content)
            stem = os.path.join(folder, "net-0000")
            self.module.bind(*shapes)
            self.module.init_params(None)
            self.module.load_params(f"{stem}.params")
            self.module.init_optimizer(optimizer=name, optimizer_params=options)
            self.module.load_optimizer_states(f"{stem}.states")
            random = self.random
            with self._own_random_numbers():
                self.module.load_training_state(f"{stem}.resume")
            self.random = random


class _Samples(DataIter):
    """Batches of weighted samples in random order; the last is filled up with weights of 0."""

    def __init__(self, arrays: tuple[np.ndarray, ...], batch: int,
                 random: np.random.RandomState | None):
        super().__init__(batch)
        self.arrays, self.random = arrays, random  # data, targets and weights
        self.reset()

    @property
    def provide_data(self) -> list[DataDesc]:
        """The data."""
        return [DataDesc("data", (self.batch_size, *self.arrays[0].shape[1:]))]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Targets and weights."""
        return [DataDesc(name, (self.batch_size, *array.shape[1:]))
                for name, array in zip(("target", "weight"), self.arrays[1:], strict=True)]

    def reset(self) -> None:
        count = len(self.arrays[0])
        self.order = np.arange(count) if self.random is None else self.random.permutation(count)
        self.begin = 0

    def next(self) -> DataBatch:
        if self.begin >= len(self.order):
            raise StopIteration
        chosen = self.order[self.begin:self.begin + self.batch_size]
        count = len(chosen)
        chosen = np.resize(chosen, self.batch_size)  # repeats them
        data, targets, weights = (array[chosen] for array in self.arrays)
        weights[count:] = 0
        self.begin += self.batch_size
        return DataBatch([nd.array(data)], [nd.array(targets), nd.array(weights)], pad=0)


def _scores(network: Net, outputs: int) -> Symbol:
    """The symbol that computes the scores from `data`."""
    if isinstance(network, Symbol) or callable(network):
        symbol = network if isinstance(network, Symbol) else network(outputs)
        head, children = symbol.entries[0].node.op, symbol.get_children()
        if head is not None and head.name in LOSS_HEADS and children is not None:
            symbol = children[0]
        if "data" not in symbol.list_arguments() or len(symbol.list_outputs()) != 1:
            raise ArgumentError(f"network: a symbol with the inputs {symbol.list_arguments()} and "
                                f"the outputs {symbol.list_outputs()}, expected the input 'data' "
                                "and one output")
        return symbol
    scores: Symbol = sym.var("data")
    for number, size in enumerate(network):
        scores = sym.FullyConnected(scores, num_hidden=size, name=f"hidden{number}")
        scores = sym.Activation(scores, act_type="relu")
    return sym.FullyConnected(scores, num_hidden=outputs, name="scores")
