"""Random programs over symbols, whose graphs must agree in nbmod and MXNet.

A program has a list of symbols.  Steps add symbols that are made of others, set attributes, or ask
one of them something.
"""

from __future__ import annotations

import copy
import json
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Arguments = dict[str, Any]
Step = tuple[str, Arguments]
MOST = 8
"""Symbols that a program has; older ones are dropped."""
NAMES = ("a", "b", "c", "d")
SHAPE = (4, 6)


class Symbols:
    """The symbols of a program.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    """

    def __init__(self, mx: Any):
        self.mx = mx
        self.symbols: list[Any] = []

    def pick(self, at: int) -> Any:
        return self.symbols[at % len(self.symbols)]

    def keep(self, symbol: Any) -> Any:
        """What can be told of a symbol, which is kept."""
        if symbol is None:
            return None
        self.symbols.append(symbol)
        del self.symbols[:-MOST]
        return described(symbol)

    # -- new symbols ------------------------------------------------------------------------------

    def variable(self, name: str, **options: Any) -> Any:
        return self.keep(self.mx.sym.Variable(name, **options))

    def unary(self, at: int, op: str, **options: Any) -> Any:
        return self.keep(getattr(self.mx.sym, op)(self.pick(at), **options))

    def binary(self, at: int, other: int, op: str, **options: Any) -> Any:
        return self.keep(getattr(self.mx.sym, op)(self.pick(at), self.pick(other), **options))

    def operator(self, at: int, other: int, op: str, number: float | None) -> Any:
        value = self.pick(other) if number is None else number
        return self.keep(getattr(self.pick(at), op)(value))

    def several(self, places: list[int], op: str, **options: Any) -> Any:
        return self.keep(getattr(self.mx.sym, op)(*map(self.pick, places), **options))

    def group(self, places: list[int]) -> Any:
        return self.keep(self.mx.sym.Group([*map(self.pick, places)]))

    def compose(self, at: int, other: int, argument: int, name: str | None) -> Any:
        """With another symbol in the place of an argument."""
        symbol, options = self.pick(at), {} if name is None else {"name": name}
        names = symbol.list_arguments()
        if len({*names}) < len(names) or {*names} & {*symbol.list_outputs()}:
            return None     # MXNet takes one of several of a name, and gives variables inputs
        return self.keep(symbol(**{names[argument % len(names)]: self.pick(other)}, **options))

    def output(self, at: int, index: int, by_name: bool) -> Any:
        symbol = self.pick(at)
        names = symbol.list_outputs()
        return self.keep(symbol[names[index % len(names)] if by_name else index])

    def internal(self, at: int, index: int, by_name: bool) -> Any:
        internals = self.pick(at).get_internals()
        names = internals.list_outputs()
        return self.keep(internals[names[index % len(names)] if by_name else index % len(names)])

    def children(self, at: int) -> Any:
        return self.keep(self.pick(at).get_children())

    def copied(self, at: int, how: str) -> Any:
        symbol = self.pick(at)
        return self.keep({
            "copy": copy.copy, "deepcopy": copy.deepcopy,
            "pickle": lambda given: pickle.loads(pickle.dumps(given)),
            "json": lambda given: self.mx.sym.load_json(given.tojson())}[how](symbol))

    # -- attributes and questions -----------------------------------------------------------------

    def set_attr(self, at: int, name: str, value: str) -> Any:
        self.pick(at)._set_attr(**{name: value})
        return self.pick(at).attr(name)

    def attributes(self, at: int) -> Any:
        symbol = self.pick(at)
        return [symbol.list_attr(), _sorted(symbol.attr_dict()), len(symbol),
                [one.name for one in symbol]]

    def infer_shape(self, at: int, shapes: dict[str, tuple[int, ...]], partial_: bool) -> Any:
        symbol = self.pick(at)
        known = {name: shape for name, shape in shapes.items() if name in symbol.list_arguments()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (symbol.infer_shape_partial if partial_ else symbol.infer_shape)(**known)

    def infer_type(self, at: int, types: dict[str, str]) -> Any:
        symbol = self.pick(at)
        known = {name: kind for name, kind in types.items() if name in symbol.list_arguments()}
        found = symbol.infer_type(**known)
        return [[np.dtype(kind).name for kind in part] for part in found]

    def forward(self, at: int) -> Any:
        """Outputs, and gradients of all arguments."""
        symbol = self.pick(at)
        names = symbol.list_outputs()
        if len({*names}) < len(names):
            return None     # MXNet takes one of the head gradients
        shapes = {name: SHAPE for name in NAMES if name in symbol.list_arguments()}
        executor = symbol.simple_bind(self.mx.cpu(), **shapes)
        for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
            array[:] = values(seed, array.shape)
        outputs = executor.forward(is_train=True)
        executor.backward([self.mx.nd.array(values(at, out.shape)) for at, out in
                           enumerate(outputs)])
        return [[_rounded(out) for out in outputs],
                [[name, _rounded(grad)] for name, grad in sorted(executor.grad_dict.items())]]


def values(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def _rounded(array: Any) -> np.ndarray:
    """Without the roundings of gradients that are 0, of x / x and others."""
    found: np.ndarray = array.asnumpy().round(4)
    return found


def described(symbol: Any) -> Any:
    """Names and the graph, without how often a state was the input of a new node."""
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        node["inputs"] = [pair[:2] for pair in node["inputs"]]
    return [symbol.name, symbol.list_arguments(), symbol.list_outputs(),
            symbol.list_auxiliary_states(), str(graph["nodes"]),
            [pair[:2] for pair in graph["heads"]]]


def _sorted(nested: dict[str, dict[str, str]]) -> list[Any]:
    return [[name, sorted(inner.items())] for name, inner in sorted(nested.items())]


# -- programs -------------------------------------------------------------------------------------

def place(rng: random.Random) -> int:
    return rng.randrange(MOST)


def two(rng: random.Random) -> Arguments:
    return {"at": place(rng), "other": place(rng)}


def named(rng: random.Random, **options: Any) -> Arguments:
    """Sometimes with a name and attributes."""
    if rng.random() < 0.3:
        options["name"] = rng.choice(("one", "two", "three"))
    if rng.random() < 0.1:
        options[rng.choice(("lr_mult", "__init__", "ctx_group"))] = "1"
    return options


def a_variable(rng: random.Random) -> Arguments:
    found: Arguments = {"name": rng.choice(NAMES)}
    if rng.random() < 0.2:
        found["shape"] = rng.choice((SHAPE, (0, 6), (4,)))
    if rng.random() < 0.2:
        found[rng.choice(("lr_mult", "wd_mult"))] = 2
    if rng.random() < 0.1:
        found["dtype"] = "float32"
    if rng.random() < 0.1:
        found["attr"] = {"mood": "x"}
    return found


def a_layer(rng: random.Random) -> Arguments:
    op, options = rng.choice((
        ("FullyConnected", {"num_hidden": 6}), ("FullyConnected", {"num_hidden": 6,
                                                                  "no_bias": True}),
        ("Activation", {"act_type": "tanh"}), ("BatchNorm", {"fix_gamma": False}),
        ("LeakyReLU", {"act_type": "leaky"}), ("Flatten", {}), ("exp", {}), ("square", {}),
        ("sum", {"axis": 1, "keepdims": True}), ("SliceChannel", {"num_outputs": 2}),
        ("SliceChannel", {"num_outputs": 6, "squeeze_axis": True}), ("BlockGrad", {}),
        ("Cast", {"dtype": "float32"}), ("transpose", {}), ("softmax", {"axis": 1}),
        ("SoftmaxOutput", {}), ("topk", {"k": 2, "ret_typ": "both"}), ("zeros_like", {})))
    return {"at": place(rng), "op": op, **named(rng, **options)}


def a_shape(rng: random.Random) -> Arguments:
    """Of all variables: some of MXNet's rules are wrong for those that lack one."""
    return {"at": place(rng), "partial_": rng.random() < 0.5,
            "shapes": {name: rng.choice((SHAPE, SHAPE, SHAPE[::-1])) for name in NAMES}}


STEPS: dict[str, tuple[float, Callable[[random.Random], Arguments]]] = {
    "variable": (2, a_variable),
    "unary": (6, a_layer),
    "binary": (4, lambda rng: {**two(rng), **named(rng), "op": rng.choice((
        "broadcast_add", "elemwise_mul", "dot", "FullyConnected", "broadcast_maximum"))}),
    "operator": (4, lambda rng: {**two(rng), "op": rng.choice((
        "__add__", "__mul__", "__sub__", "__truediv__", "__pow__", "__gt__")),
        "number": rng.choice((None, 2, 0.5))}),
    "several": (3, lambda rng: {
        "places": [place(rng) for _ in range(rng.randrange(1, 4))], **named(rng),
        **rng.choice(({"op": "Concat", "dim": 1}, {"op": "add_n"}))}),
    "group": (1.5, lambda rng: {"places": [place(rng) for _ in range(rng.randrange(1, 4))]}),
    "compose": (4, lambda rng: {**two(rng), "argument": rng.randrange(3), "name": rng.choice((
        None, None, "composed"))}),
    "output": (3, lambda rng: {"at": place(rng), "index": rng.choice((0, 0, 1, 5)),
                               "by_name": rng.random() < 0.4}),
    "internal": (3, lambda rng: {"at": place(rng), "index": rng.randrange(20),
                                 "by_name": rng.random() < 0.5}),
    "children": (1, lambda rng: {"at": place(rng)}),
    "copied": (2, lambda rng: {"at": place(rng), "how": rng.choice((
        "copy", "deepcopy", "pickle", "json"))}),
    "set_attr": (1.5, lambda rng: {"at": place(rng), "name": rng.choice((
        "lr_mult", "__lr_mult__", "__mood__", "ctx_group")), "value": "3"}),
    "attributes": (2, lambda rng: {"at": place(rng)}),
    "infer_shape": (2, a_shape),
    "infer_type": (1, lambda rng: {"at": place(rng), "types": {
        name: rng.choice(("float32", "float64", "float16")) for name in NAMES
        if rng.random() < 0.5}}),
    "forward": (2, lambda rng: {"at": place(rng)}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> list[Step]:
    """The steps of a program."""
    rng = random.Random(seed)
    names = ["variable", "variable", *draw_names(rng, STEPS, rng.randrange(6, 25))]
    return [(name, STEPS[name][1](rng)) for name in names]


def run(mx: Any, seed: int) -> list[Any]:
    """What each step gave, or "error" where it raised."""
    program = Symbols(mx)
    with mx.name.NameManager():
        return [call(program, name, arguments)
                for name, arguments in draw(seed)]
