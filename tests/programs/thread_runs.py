"""A network trained by several threads, and by several Python threads at once: `test_threads`
runs this in processes of their own, one for each of numba's threading layers.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
from typing import Any

import numpy as np

from tests.programs.networks import resnet

mx: Any = importlib.import_module(os.environ.get("PROGRAM_PACKAGE", "nbmod"))


def trained(seed: int, steps: int = 2) -> str:
    """A digest of a network's parameters and outputs after a training step or two."""
    random = np.random.RandomState(seed)
    module = mx.mod.Module(resnet(mx), context=mx.cpu())
    module.bind([("data", (3, 3, 13, 13))], [("softmax_label", (3,))])
    shapes = {name: a.shape for name, a in module._exec_group.execs[0].arg_dict.items()}
    module.init_params(arg_params={name: mx.nd.array(random.randn(*shape) / 4)
                                   for name, shape in sorted(shapes.items())
                                   if name in module._param_names})
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    digest = hashlib.sha256()
    for _ in range(steps):
        batch = mx.io.DataBatch([mx.nd.array(random.randn(3, 3, 13, 13))],
                                [mx.nd.array(random.randint(0, 10, 3))])
        module.forward_backward(batch)
        module.update()
        digest.update(module.get_outputs()[0].asnumpy().tobytes())
    for _, array in sorted(module.get_params()[0].items()):
        digest.update(array.asnumpy().tobytes())
    return digest.hexdigest()


def at_once(seeds: range) -> list[str]:
    """`trained` of every seed, each in a Python thread."""
    found: dict[int, str] = {}

    def train(seed: int) -> None:
        found[seed] = trained(seed, 4)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found.get(seed, "nothing") for seed in seeds]


def main() -> None:
    import numba  # noqa: TID251

    trained(0)  # the process that compiles may differ in last digits
    results = set()
    for count in (1, 2, 3):
        mx.set_num_threads(count)
        assert mx.get_num_threads() == count
        results.add(trained(0))
    seeds = range(4)
    alone = [trained(seed, 4) for seed in seeds]
    print(numba.threading_layer(), len(results), at_once(seeds) == alone)


if __name__ == "__main__":
    main()
