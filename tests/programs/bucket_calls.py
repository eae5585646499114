"""Random sequences of calls of a BucketingModule, as `module_calls` has them of a Module.

A bucket's network sums the last axis of length `key` before it is that of `module_calls`.  The key
of a batch follows from its seed.
"""

from __future__ import annotations

from typing import Any

from tests.programs import module_calls
from tests.programs.module_calls import FEATURES, Arguments, Sequence, Session, values

KEYS = (1, 2, 4)


class Buckets(Session):
    """Two modules of the same buckets."""

    ends = ("bind",)

    def made(self) -> Any:
        return self.mx.mod.BucketingModule(self.generate, max(KEYS), **self.module_options())

    def module_options(self) -> Arguments:
        return {name: value for name, value in self.options.items() if name != "label_names"}

    def generate(self, key: int) -> Any:
        net = module_calls.network(self.mx, self.net)
        summed = self.mx.sym.sum(self.mx.sym.Variable("sequence"), axis=2)
        return net(data=summed), ("sequence",), tuple(self.labels)

    def shapes(self, size: int, key: int = max(KEYS)) -> tuple[Any, Any]:
        _, labels = super().shapes(size)
        return [("sequence", (size, FEATURES, key))], labels

    def batch(self, size: int, seed: int, labels: bool = True) -> Any:
        batch = super().batch(size, seed)
        key = KEYS[seed % len(KEYS)]
        batch.data = [self.mx.nd.array(values(size, FEATURES, key, seed=seed))]
        batch.bucket_key = key
        batch.provide_data, batch.provide_label = self.shapes(size, key)
        return batch

    def get_params(self) -> Any:
        """Without auxiliary states, which differ in MXNet from run to run."""
        self.stale = True
        return super().get_params()

    def switch_bucket(self, size: int, seed: int) -> Any:
        self.computed = ""
        self.module.switch_bucket(KEYS[seed % len(KEYS)],
                                  *self.shapes(size, KEYS[seed % len(KEYS)]))
        return None

    def bind(self, size: int, shared: bool, **options: Any) -> Any:
        """Without a shared module, which there is not; in MXNet a rebind forgets the optimizer."""
        if options.get("force_rebind") and self.module.optimizer_initialized:
            return None
        return super().bind(size, False, **options)


CALLS = {name: module_calls.CALLS[name] for name in (
    "bind", "init_params", "set_params", "get_params", "init_optimizer", "forward", "backward",
    "forward_backward", "update", "get_outputs", "get_input_grads", "update_metric",
    "shapes_of_all", "flags")}
CALLS["switch_bucket"] = (2, module_calls.a_batch)


def draw(seed: int) -> tuple[str, Arguments, Sequence]:
    """A network's name, options of its modules, and calls."""
    return module_calls.draw(seed, CALLS)


def run(mx: Any, seed: int) -> list[Any]:
    """What each call of the sequence gave."""
    return module_calls.run(mx, seed, Buckets, CALLS)
