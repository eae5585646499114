"""The public API of a package: paths of functions, classes and methods, and their parameters.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any


def offered(mx: Any, modules: list[str]) -> dict[str, list[str] | None]:
    """Every public function, class and method that `modules` define: path -> parameters.

    A path is `module:name` or `module:name.method`.
    """
    found: dict[str, list[str] | None] = {}
    for path in modules:
        module = importlib.import_module(f"{mx.__name__}.{path}")
        for name, value in list(vars(module).items()):
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            found[f"{path}:{name}"] = parameters(value)
            if inspect.isclass(value):
                for method in _methods(value):
                    found[f"{path}:{name}.{method}"] = parameters(getattr(value, method))
    return found


def operators(mx: Any) -> dict[str, list[str]]:
    """Every function of an operator, for arrays and symbols: path -> names of its parameters."""
    found: dict[str, list[str]] = {}
    for path in ("", ".contrib", ".linalg", ".image", "._internal"):
        for space in ("ndarray", "symbol"):
            module = importlib.import_module(f"{mx.__name__}.{space}{path}")
            for name in dir(module):
                names = [_name(text) for text in parameters(getattr(module, name)) or ()]
                if {"name", "out"} <= set(names):
                    found[f"{space}{path}.{name}"] = names
    return found


def _name(text: str) -> str:
    return text.partition("=")[0]


def _methods(cls: type) -> list[str]:
    """Public methods and properties of a class, not those of `object` or of plain containers."""
    plain = {name for base in cls.__mro__ if base.__module__ in ("builtins", "collections")
             for name in vars(base)}
    return [name for name in dir(cls) if not name.startswith("_") and name not in plain]


def parameters(value: Any) -> list[str] | None:
    """Each parameter as `name` or `name=default`; None for objects without a signature."""
    if not callable(value):
        return None
    try:
        found = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None
    return [_text(p) for p in found if p.name != "self"]


def _text(parameter: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    name, default = star.get(parameter.kind, "") + parameter.name, parameter.default
    if default is inspect.Parameter.empty:
        return name
    plain = default is None or isinstance(default, (str, int, float, tuple, type))
    return f"{name}={default!r}" if plain else f"{name}={type(default).__name__}()"


def find(package: str, path: str) -> Any:
    """The object at `module:name.name`; ImportError or AttributeError if there is none."""
    module, _, names = path.partition(":")
    value: Any = importlib.import_module(f"{package}.{module}" if module else package)
    for name in names.split(".") if names else ():
        value = getattr(value, name)
    return value


def absent(package: str, paths: list[str]) -> list[str]:
    """Those of `paths` without an object."""
    missing = []
    for path in paths:
        try:
            find(package, path)
        except (ImportError, AttributeError):
            missing.append(path)
    return missing


def absent_paths(mx: Any, paths: list[str]) -> list[str]:
    """`absent`, of a package that is imported already."""
    return absent(mx.__name__, paths)


def absent_attributes(mx: Any, names: dict[str, list[str]]) -> list[str]:
    """Attributes that a module in training, its group, executor and optimizer lack."""
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2,
                                                     name="fc"), name="softmax")
    module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer()
    group = module._exec_group
    buckets = mx.mod.BucketingModule(lambda key: (net, ["data"], ["softmax_label"]), 1)
    layer = mx.gluon.nn.Dense(2, in_units=3)
    layer.initialize()
    places = {"module": module, "group": group, "executor": group.execs[0], "buckets": buckets,
              "row": mx.mod.SequentialModule(), "loss": mx.mod.PythonLossModule(),
              "optimizer": module._optimizer, "updater": mx.optimizer.get_updater(
                  module._optimizer), "batch": mx.io.DataBatch([]), "symbol": net,
              "array": mx.nd.zeros((1,)), "layer": layer, "parameter": layer.weight,
              "parameters": layer.collect_params()}
    return [f"{place}.{name}" for place, wanted in names.items() for name in wanted
            if not hasattr(places[place], name)]
