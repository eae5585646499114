"""Python imports this first in processes that a program under `nbmod run` starts.

Of nbmod nothing is imported before the process imports MXNet or NumPy, since most processes do
neither: those that track resources, compile, or run other programs.  A Python of another version or
environment, from 3.6 on, reads this file, too, and only goes on to its own `sitecustomize`.
"""

import collections
import collections.abc
import importlib
import os
import sys
import time
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
THIS_PYTHON = "{}.{} {}".format(*sys.version_info[:2], os.path.realpath(sys.prefix))
"""The version and the environment: NBMOD_RUN is that of the Python which `nbmod run` uses."""


class Finder:
    """Finds MXNet and the nbmod of `nbmod run`, and NumPy, to which it gives its old names."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return the spec of a module of these, None for others."""
        if name in ("mxnet", "mxnet_predict"):
            return ModuleSpec(name, cls, is_package=True)  # type: ignore[arg-type]  # a loader, too
        if name == "nbmod":    # a checkout may not be on the path of the child
            return spec_from_file_location(name, os.path.join(PACKAGE, "__init__.py"))
        if name == "numpy":
            others = (finder.find_spec(name, path, target) for finder in sys.meta_path
                      if finder is not cls)
            return _repaired(next(filter(None, others), None))
        return None

    @staticmethod
    def create_module(spec):
        """Let nbmod's finder, which has all import paths of MXNet, come before this one."""
        from nbmod.compat.mxnet_name import FINDER, as_mxnet

        as_mxnet()
        return FINDER.create_module(spec)

    @staticmethod
    def exec_module(module):
        """Finish as nbmod's finder does."""
        from nbmod.compat.mxnet_name import FINDER

        FINDER.exec_module(module)


def _repaired(spec):
    """Let old names be restored, and errors be explained, right after NumPy is imported."""
    if spec is None:
        return None
    execute = spec.loader.exec_module

    def exec_module(module):
        execute(module)
        from nbmod.compat.mxnet_name import explain_errors, restore_old_names

        restore_old_names()
        explain_errors()

    spec.loader.exec_module = exec_module
    return spec


def restore_names_of_python():
    """Give back `collections.Mapping` and its like, and `time.clock`."""
    for name in collections.abc.__all__:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    if not hasattr(time, "clock"):
        setattr(time, "clock", time.perf_counter)  # noqa: B010


def _start():
    """Set up this process, then import the environment's own `sitecustomize`, if it has one."""
    sys.path[:] = [folder for folder in sys.path if folder != HERE]
    if os.environ.get("NBMOD_RUN") == THIS_PYTHON:
        sys.meta_path.insert(0, Finder)
        restore_names_of_python()
    mine = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = mine


if __name__ == "sitecustomize":
    _start()
