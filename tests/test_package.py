"""The names of `import nbmod as mx`: short and long ones mean the same, unknown ones are errors."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types

import pytest

import nbmod as mx
from nbmod.compat import mxnet_name
from nbmod.core import import_paths
from tests.execution.test_startup import run

PAIRS = {
    "nd": "ndarray", "sym": "symbol", "mod": "module", "kv": "kvstore", "init": "initializer",
    "mon": "monitor", "rnd": "random",
}  # fmt: skip


@pytest.mark.parametrize("short", PAIRS)
def test_short_names(short):
    assert getattr(mx, short) is getattr(mx, PAIRS[short])
    assert short in dir(mx) and PAIRS[short] in dir(mx)


REFUSING = {"library", "rtc", "th"}
IMPORTING = {"test_utils"}
"""MXNet offers modules of Python there."""


@pytest.mark.parametrize("name", sorted({module for module, attribute in mx._LAZY.values()
                                         if not attribute} - REFUSING - IMPORTING))
def test_completion_shows_what_is_public(name):
    """IPython, Jupyter and others complete what `dir` lists: names that a module imports are not
    among it, but C types, which MXNet has in `base`."""
    module = getattr(mx, name)
    assert "__dir__" in vars(module)
    foreign = sys.stdlib_module_names - {"builtins", "ctypes", "_ctypes"}
    for public in dir(module):
        value = getattr(module, public)
        if isinstance(value, types.ModuleType):
            assert value.__name__.startswith("nbmod."), public
        elif inspect.isroutine(value) or inspect.isclass(value):
            assert value.__module__.split(".")[0] not in foreign, public
    assert not {"annotations", "Any", "TYPE_CHECKING", "np", "os", "import_module"} & {
        *dir(module)} - ({"np"} if name == "metric" else set())


def test_names_of_classes_and_functions():
    assert mx.NDArray is mx.nd.NDArray is mx.ndarray.ndarray.NDArray
    assert mx.waitall is mx.nd.waitall
    assert mx.random.uniform is mx.nd.random.uniform
    assert isinstance(mx.cpu(), mx.Context)


def test_the_function_keeps_its_name_whatever_was_imported_before():
    run("import nbmod.cli.main, nbmod.compat, nbmod; assert callable(nbmod.as_mxnet)")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no list of users")
def test_a_user_without_home_folder_imports_it():
    run("""
import os, pwd
for name in ("HOME", "NBMOD_CACHE_DIR", "XDG_CACHE_HOME", "MXNET_HOME"):
    os.environ.pop(name, None)
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
from nbmod.core.config import CONFIG
assert str(CONFIG.cache_dir).endswith(f"nbmod-{os.getuid()}/.cache/nbmod"), CONFIG.cache_dir
assert str(CONFIG.home).endswith(f"nbmod-{os.getuid()}/.mxnet"), CONFIG.home
""")


@pytest.mark.parametrize("name", ["np", "npx", "tvmop"])
def test_what_is_absent_says_so(name):
    assert not hasattr(mx, name) and name not in dir(mx)
    for package in (mx, mxnet_name._Top("mxnet")):
        with pytest.raises(AttributeError, match=rf"{name}'; not part of nbmod \(yet\): use "):
            getattr(package, name)



@pytest.mark.parametrize("name", ["np", "npx", "numpy", "numpy_extension", "rtc", "library", "th",
                                  "notebook.callback"])
def test_modules_that_are_absent_refuse_their_names(name):
    package, _, module = f"mxnet.{name}".rpartition(".")
    printed = run(f"import nbmod; nbmod.as_mxnet()\nfrom {package} import {module}\n"
                  f"import mxnet.{name}\ntry: {module}.PandasLogger()\n"
                  "except nbmod.MXNetError as error: print(error)")
    assert printed.startswith(f"mx.{name}.PandasLogger: ")


ALIASES = """
import importlib, pickle, sys
import nbmod
if sys.argv[1] == "mxnet":
    nbmod.as_mxnet()
from nbmod.core.import_paths import ALIASES
for path, real in ALIASES.items():
    if sys.argv[1] == "nbmod" and path.startswith("gluon."):
        continue        # packages of MXNet that are one file each
    package, _, name = f"{sys.argv[1]}.{path}".rpartition(".")
    scope = {}
    exec(f"import {package}.{name}; from {package} import {name} as found", scope)
    module = importlib.import_module(f"nbmod.{real}")
    assert sys.modules[f"{package}.{name}"] is scope["found"] is module, path
    assert module.__spec__.name == module.__name__ == f"nbmod.{real}", path
History = importlib.import_module(f"{sys.argv[1]}.history").History
old = b"c" + f"{sys.argv[1]}.history\\nHistory\\n.".encode()
assert pickle.loads(old) is History
"""


@pytest.mark.parametrize("top", ["nbmod", "mxnet"])
def test_a_module_is_one_whatever_its_import_path(top):
    subprocess.run([sys.executable, "-c", ALIASES, top], check=True, timeout=200)


def test_modules_of_others_are_theirs():
    """Whatever their names: `numba.np`, a `library` of somebody's."""
    (finder,) = (each for each in sys.meta_path if getattr(each, "top", "") == "nbmod")
    for path in [*import_paths.ALIASES, *import_paths.REFUSED]:
        assert finder.find_spec(f"nbmod.{path}") is not None
        assert finder.find_spec(f"numba.{path}") is finder.find_spec(path) is None


def test_modules_below_an_alias_are_not_loaded_twice():
    run("import nbmod.contrib.onnx.exporting.export_model as a, nbmod.onnx as b; "
        "assert a is b.exporting.export_model")


NAMESAKES = """
import importlib, sys
import nbmod
nbmod.as_mxnet()
import nbmod.gluon.model_zoo.vision, nbmod.test_utils
namesakes = [(name, value) for name in [*sys.modules] if name.startswith("nbmod.")
             if (value := vars(sys.modules[name.rpartition(".")[0]]).get(name.rpartition(".")[2]))
             is not sys.modules[name]]
assert ("nbmod.gluon.model_zoo.vision.alexnet", nbmod.gluon.model_zoo.vision.alexnet) in namesakes
for name, value in namesakes:
    module = importlib.import_module("mxnet" + name.removeprefix("nbmod"))
    package, _, last = name.rpartition(".")
    assert module is sys.modules[name] and vars(sys.modules[package]).get(last) is value, name
"""


def test_functions_named_like_their_files_stay_when_these_are_imported_by_mxnets_name():
    run(NAMESAKES)


def test_submodules_are_imported_from_the_package():
    run("from nbmod import gluon, image, np, util; import nbmod.gluon; "
        "assert image.image.imread is image.imread")


@pytest.mark.parametrize("place", ["", ".nd", ".nd.contrib", ".nd.op", ".nd._internal"])
def test_unknown_names(place):
    where = eval(f"mx{place}", {"mx": mx})
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = where.no_such_name
    assert not hasattr(where, "__wrapped__")


def test_import_loads_the_ground_floor_only():
    loaded = run("import sys, nbmod; print(*[m for m in sys.modules if m.startswith('nbmod')])")
    assert set(loaded.split()) == {"nbmod", "nbmod.base", "nbmod.core.config", "nbmod.context",
                                   "nbmod.core", "nbmod.core.fork", "nbmod.core.import_paths",
                                   "nbmod.core.interrupts", "nbmod.core.scope",
                                   "nbmod.core.short_tracebacks"}


def test_arrays_need_no_compiler_and_no_file_format():
    loaded = run(
        "import sys, nbmod as mx; x = mx.nd.ones((2, 3)); (x * 2 + x[0]).sum(axis=1).asnumpy(); "
        "x[:, 1] = x[:, 0].exp(); mx.nd.dot(x, x.T); print(*sys.modules)"
    )
    assert not set(loaded.split()) & {"numba", "llvmlite", "nbmod.core.serialization",
                                      "nbmod.symbol"}


def test_modules_that_blocks_work_with_are_named_as_mxnets(oracle):
    seen = run("import nbmod; nbmod.as_mxnet(); import mxnet as mx; from tests.programs import "
               "library_calls; print(library_calls.names(mx)); from mxnet.ndarray import sparse; "
               "assert sparse is nbmod.nd.sparse and nbmod.nd is mx.nd")
    assert seen.strip() == str(oracle.call("mx_scripts.run", "library_calls", "names"))
