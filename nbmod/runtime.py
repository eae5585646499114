"""Features of this installation, by the names of MXNet's build options.

Features of libraries that nbmod does not use are listed as disabled.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from .context import num_gpus

__all__ = ["Feature", "Features", "feature_list"]
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


class Features(dict[str, Feature]):
    """All features by name; every call returns the same object.

    Examples
    --------
    >>> import nbmod as mx
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

        Returns
        -------
        bool
            Whether it is.

        Raises
        ------
        RuntimeError
            If there is no feature of that name.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature {name!r} is unknown, known features are: {list(self)}")
        return self[name].enabled
