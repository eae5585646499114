"""Features of this installation, and implementations of operators.

Features have the names of MXNet's build options.  Those of libraries that nbmod does not use are
listed as disabled.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from .context import num_gpus

__all__ = ["Feature", "Features", "ImplementationRow", "Implementations", "feature_list",
           "implementations"]
__dir__ = __all__.copy

NAMES = """CUDA CUDNN NCCL CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2
    CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP SSE F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE
    LAPACK MKLDNN OPENCV CAFFE PROFILER DIST_KVSTORE CXX14 INT64_TENSOR_SIZE SIGNAL_HANDLER DEBUG
    TVM_OP""".split()


class Feature(NamedTuple):
    """One build option: its `name`, and whether it is `enabled`."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """Return all features; this checks whether there is a usable GPU.

    Returns
    -------
    list of Feature
        CUDA is enabled if a GPU works, OPENCV if that package is installed; OPENMP (kernels are
        multi-threaded), PROFILER and INT64_TENSOR_SIZE always; all others never.
    """
    enabled = {"CUDA": num_gpus() > 0, "OPENCV": find_spec("cv2") is not None, "OPENMP": True,
               "PROFILER": True, "INT64_TENSOR_SIZE": True}
    return [Feature(name, enabled.get(name, False)) for name in NAMES]


class ImplementationRow(NamedTuple):
    """One way to compute an operator."""

    key: str
    """``reference`` is NumPy, ``numba`` kernels of bound networks, ``eager`` calls of `mx.nd` where
    they are computed by neither, ``cuda`` GPU kernels."""
    forward: str
    """Module and name of what computes."""
    gradient: str
    """Likewise for the gradient; empty if there is none."""
    algorithms: tuple[str, ...] = ()
    """Names of what it chooses from for every shape."""


class Implementations(tuple[ImplementationRow, ...]):
    """The rows of an operator; as text, a table."""

    def __repr__(self) -> str:
        width = max((len(row.key) for row in self), default=0)
        return "\n".join(f"{row.key:{width}}  "
                         + ", ".join(filter(None, [row.forward, row.gradient]))
                         + (f" by {', '.join(row.algorithms)}" if row.algorithms else "")
                         for row in self)


def implementations(op: str) -> Implementations:
    """Return what computes an operator: the rows of `nbmod.ops.dispatch`.

    Parameters
    ----------
    op : str
        Name of an operator, or an alias.

    Returns
    -------
    tuple of ImplementationRow
        The key, the names of the functions that compute the operator and its gradient, and those
        of the algorithms that they choose from. For a network `Executor.debug_str` shows which
        were chosen, and the costs of the others.

    Raises
    ------
    MXNetError
        If there is no operator of that name.

    Examples
    --------
    >>> rows = mx.runtime.implementations("Convolution")
    >>> [row.key for row in rows if row.key != "cuda"]
    ['reference', 'numba']
    >>> rows[0].forward
    'nbmod.ops.numpy_forms.sliding_window.convolution'
    """
    from .ops import OPS
    from .ops.dispatch import CUDA, EAGER, NUMBA, REFERENCE, SPARSE, find, rows

    kind, table = OPS.find(op), list[ImplementationRow]()
    for key in (REFERENCE, EAGER, NUMBA, SPARSE, CUDA):
        try:
            ways = [find(kind, key, is_gradient) for is_gradient in (False, True)]
        except ImportError:     # GPU kernels, without what compiles them
            continue
        forward, gradient = ("" if way is None else way.source for way in ways)
        row = ImplementationRow(key, forward, gradient, tuple(
            way.name for part in kind.algorithms for way in rows(part, key)))
        if any(row[1:]) and row[1:] not in [other[1:] for other in table]:
            table.append(row)
    return Implementations(table)


class Features(dict[str, Feature]):
    """All features by name; every call returns the same object.

    Examples
    --------
    >>> mx.runtime.Features().is_enabled("PROFILER")
    True
    """

    instance: Features | None = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            dict.__init__(cls.instance, {feature.name: feature for feature in feature_list()})
        return cls.instance

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is enabled.

        Parameters
        ----------
        feature_name : str
            Its name, in upper or lower case.

        Raises
        ------
        RuntimeError
            If there is no feature of that name.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature {name!r} is unknown, known features are: {list(self)}")
        return self[name].enabled
