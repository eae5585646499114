"""Operators called with other parameters and shapes than they take: a result, or an MXNetError.

    python -m tests.ops.changed_calls --seed 3 --trials 10000

changes parameters and shapes of the samples of `tests.cases` and runs them, forward and backward.
Each trial is announced before it runs, as it may end the process, and has MEMORY and SECONDS.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from math import inf, nan, prod

import nbmod as mx
from nbmod.ops import OPS
from nbmod.ops.signature import op_signature
from tests.cases.sample import Input, Sample
from tests.ops.test_numpy_forms import GOOD, bound_sample, thresholds

MEMORY, SECONDS = 6 << 30, 60
MOST_ELEMENTS = 5_000_000
"""Of outputs; there is no backward pass of larger ones, which would take long."""
SAMPLES = {name: sample for name, sample in GOOD.items()
           if not name.startswith(("_sg_", "_cond", "_foreach", "_while"))}
"""Those whose parameters are not programs."""

INTEGERS = (-1, 0, 1, 2, 3, 7, -2, 100, -100, 2**15, 2**31 - 1, 2**31, -2**31, 2**32, 2**62,
            2**63 - 1, -2**63, 2**64)
FLOATS = (0.0, -1.0, 0.5, 2.5, 1e-30, 1e30, 1e300, inf, nan)
OTHERS = (None, True, False, "", "x", (), (0,), (1,), (2, 2), (-1, -1), (1, 1, 1), (2**31, 2**31),
          "float16", "int8", "float64")


def another(value: object, rng: random.Random) -> object:
    """Something in place of a parameter's value, of its type in most cases."""
    kind = rng.random()
    if isinstance(value, (tuple, list)) and value and kind < 0.6:
        items = list(value)
        at = rng.randrange(len(items))
        items[at] = another(items[at], rng)
        return tuple(items + [rng.choice(INTEGERS)] if rng.random() < 0.15 else
                     items[:-1] if rng.random() < 0.1 else items)
    if isinstance(value, bool):
        return not value if kind < 0.8 else rng.choice(INTEGERS)
    if isinstance(value, int) and kind < 0.9:
        return rng.choice(INTEGERS) if kind < 0.7 else value + rng.choice((-1, 1, 2))
    if isinstance(value, float) and kind < 0.9:
        return rng.choice(FLOATS)
    return rng.choice(INTEGERS + FLOATS + OTHERS)


def reshaped(spec: Input, rng: random.Random) -> Input:
    """An input with another size, or with more or fewer axes."""
    shape, kind = list(spec.shape), rng.random()
    if shape and kind < 0.6:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 1, 2, 3, 5, 17))
    elif len(shape) > 1 and kind < 0.75:
        shape.pop(rng.randrange(len(shape)))
    elif kind < 0.9:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 2, 3)))
    else:
        rng.shuffle(shape)
    values = tuple(itertools.islice(itertools.cycle(spec.values or (0.0,)), prod(shape)))
    return replace(spec, shape=tuple(shape), values=values if spec.kind == "array" else ())


def changed(sample: Sample, rng: random.Random) -> Sample:
    """A sample with one or two changes of parameters and shapes."""
    attrs, specs = dict(sample.attrs), dict(sample.specs)
    known = op_signature(OPS.find(sample.op), "symbol").parameters
    names = [name for name, parameter in known.items()
             if name in attrs or (parameter.kind is parameter.KEYWORD_ONLY and name not in specs
                                  and name not in ("name", "attr", "ctx", "dtype"))]
    for _ in range(rng.choice((1, 1, 2))):
        if names and (not specs or rng.random() < 0.65):
            name = rng.choice(names)
            default = known[name].default if name in known else None
            attrs[name] = another(attrs.get(name, default), rng)
        elif specs:
            name = rng.choice(list(specs))
            specs[name] = reshaped(specs[name], rng)
    return replace(sample, attrs=attrs, inputs=specs if sample.keyword else tuple(specs.values()))


def run(sample: Sample, dtype: str) -> None:
    """Forward and backward."""
    executor = bound_sample(sample, dtype, trains=True)
    outputs = executor.forward(is_train=True)
    trains = any(gradient is not None for gradient in executor.grad_arrays)
    if trains and sum(out.size for out in outputs) <= MOST_ELEMENTS:
        executor.backward([mx.nd.ones(out.shape, dtype=out.dtype) for out in outputs])


def failures(seed: int, trials: range) -> Iterator[str]:
    """What was neither a result nor an MXNetError."""
    names = sorted(SAMPLES)
    for trial in trials:
        rng = random.Random(f"{seed} {trial}")
        name = rng.choice(names)
        sample = changed(SAMPLES[name], rng)
        shapes = {key: spec.shape for key, spec in sample.specs.items()}
        call = f"trial {trial}, seed {seed}: {name}, {dict(sample.attrs)!r:.300}, {shapes}"
        print(call, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            run(sample, sample.dtypes[0])
        except mx.MXNetError:
            pass
        except Exception as error:  # any other class is what this looks for
            yield f"{type(error).__name__}: {error} in {call}"
        finally:
            faulthandler.cancel_dump_traceback_later()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.changed_calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trials", type=int, default=1000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for module, constant in thresholds():   # kernels are called for small arrays, too
        setattr(module, constant, 0)
    found = [*failures(arguments.seed, range(arguments.first, arguments.trials))]
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
