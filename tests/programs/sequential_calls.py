"""Random sequences of calls of a SequentialModule, as `module_calls` has them of a Module.

The first module of a chain computes the hidden layer of a network of `module_calls`, the second one
takes it and the labels.
"""

from __future__ import annotations

from typing import Any

from tests.programs import module_calls
from tests.programs.module_calls import Arguments, Sequence, Session

CALLS = {name: drawn for name, drawn in module_calls.CALLS.items()
         if name not in ("reshape", "save_and_load", "states", "swap", "borrow_optimizer",
                         "monitored", "get_input_grads")}
"""Those that a SequentialModule has; gradients of its inputs MXNet refuses."""


class Chain(Session):
    """A SequentialModule of two modules."""

    ends = ("bind",)

    def __init__(self, mx: Any, net: str, options: Arguments, folder: str):
        """Networks without labels, or with two outputs, have one output here."""
        super().__init__(mx, net if net == "normalized" else "classes", options, folder)
        self.trains = True

    def made(self) -> Any:
        sym, kind = self.mx.sym, self.mx.mod.Module
        hidden = module_calls.network(self.mx, self.net).get_internals()["act_output"]
        y = sym.FullyConnected(sym.Variable("hidden"), num_hidden=3, name="fc2")
        head = sym.SoftmaxOutput if self.net == "classes" else sym.LinearRegressionOutput
        last = head(y, sym.Variable("label"), name="out")
        options = {name: value for name, value in self.options.items() if name == "context"}
        chain = self.mx.mod.SequentialModule()
        chain.add(kind(hidden, label_names=None, **options))
        chain.add(kind(last, data_names=["hidden"], label_names=["label"], **options),
                  take_labels=True, auto_wiring=True)
        return chain

    def bind(self, size: int, shared: bool, **options: Any) -> Any:
        """Without a shared module, and without other requests, which MXNet forgets."""
        options.pop("grad_req", None)
        self.trains = options.get("for_training", True)
        return super().bind(size, False, **options)

    # In MXNet `for_training` is always False, and modules without labels take no other batch size.

    def bound(self, size: int) -> int:
        return self.module.data_shapes[0].shape[0] if self.module.binded else size

    def batch(self, size: int, seed: int, labels: bool = True) -> Any:
        return super().batch(self.bound(size), seed, labels)

    def iterator(self, count: int, size: int, seed: int) -> Any:
        return super().iterator(max(count, self.bound(size)), self.bound(size), seed)

    def forward(self, size: int, seed: int, labels: bool, is_train: bool | None) -> Any:
        return super().forward(size, seed, labels, self.trains if is_train is None else is_train)

    def update(self) -> Any:
        if self.module.binded and self.computed != "gradients":
            return None     # any values
        return super().update()

    def update_metric(self, size: int, seed: int) -> Any:
        return super().update_metric(self.bound(size), seed)

    # MXNet reads statistics that a `backward` has yet to write, `fit` its own.

    def get_params(self) -> Any:
        self.mx.nd.waitall()
        return super().get_params()

    def synchronize(self, module: Any) -> None:
        self.mx.nd.waitall()
        super().synchronize(module)

    def predict(self, count: int, size: int, seed: int) -> Any:
        self.mx.nd.waitall()
        return super().predict(count, size, seed)

    def score(self, count: int, size: int, seed: int) -> Any:
        self.mx.nd.waitall()
        return super().score(count, size, seed)

    def fit(self, count: int, size: int, seed: int, **options: Any) -> Any:
        return None if self.net == "normalized" else super().fit(count, size, seed, **options)

    def set_params(self, which: str, seed: int, **options: Any) -> Any:
        self.synchronize(self.module)   # in MXNet, parameters that are not given lose updates
        return super().set_params(which, seed, **options)

    def flags(self) -> Any:
        module = self.module
        return module.binded and [module.params_initialized, module.optimizer_initialized]


def draw(seed: int) -> tuple[str, Arguments, Sequence]:
    """A network's name, options of its modules, and calls."""
    return module_calls.draw(seed, CALLS)


def run(mx: Any, seed: int) -> list[Any]:
    """What each call of the sequence gave."""
    return module_calls.run(mx, seed, Chain, CALLS)
