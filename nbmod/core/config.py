"""Configuration: the environment variables, and the numerical modes that `with` statements set.

Every environment variable that nbmod reads is a field or property of `Config`; the rest of the
package uses the instance `CONFIG`.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from ..base import ArgumentError
from .scope import scoped

__all__ = ["CONFIG", "Config", "exact", "is_exact", "is_numpy_first", "is_terminal", "is_tuning",
           "numpy_first", "tuning"]


_Value = TypeVar("_Value")

WORDS = {"": 0, "false": 0, "no": 0, "off": 0, "true": 1, "yes": 1, "on": 1}
SIZE = re.compile(r"([\d.]+(?:E\d+)?)([KMG]?)B?", re.IGNORECASE)


def _parsed(name: str, default: _Value, expected: str, parse: Callable[[str], _Value | None]
            ) -> _Value:
    """The value of a variable that is set; ArgumentError where `parse` returns None or raises."""
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = parse(text.strip())
    except ValueError:
        value = None
    if value is None:
        raise ArgumentError(f"the environment variable {name} is {text!r}, expected {expected}")
    return value


def _number(text: str) -> int:
    """A whole number, or a word for 0 or 1."""
    word = WORDS.get(text.lower())
    return int(text) if word is None else word


def _flag(name: str, default: bool) -> bool:
    return _parsed(name, default, "0 or 1", lambda text: _number(text) != 0)


def _flag_field(name: str, default: bool) -> bool:
    return field(default_factory=lambda: _flag(name, default))


def _int(name: str, default: int, least: int = 0) -> int:
    def parse(text: str) -> int | None:
        value = int(text or default)
        return value if value >= least else None

    return _parsed(name, default, f"a whole number of at least {least}", parse)


def _int_field(name: str, default: int) -> int:
    return field(default_factory=lambda: _int(name, default))


def _choice(name: str, *choices: int) -> int:
    """One of some numbers, of which the first is the default."""
    def parse(text: str) -> int | None:
        value = int(text or choices[0])
        return value if value in choices else None

    return _parsed(name, choices[0], f"one of {', '.join(map(str, choices))}", parse)


def _bytes(name: str, default: str) -> int:
    """A size such as 500M or 2G."""
    def parse(text: str) -> int | None:
        match = SIZE.fullmatch(text or default)
        unit = {"": 1, "K": 2 ** 10, "M": 2 ** 20, "G": 2 ** 30}
        return int(float(match[1]) * unit[match[2].upper()]) if match else None

    size = parse(default)
    assert size is not None
    return _parsed(name, size, "a number that K, M or G may follow, such as 500M", parse)


def _level(name: str) -> int:
    def parse(text: str) -> int | None:
        value = _number(text)
        return value if value >= 0 else None

    return _parsed(name, 0, "a whole number of at least 0", parse)


def _tile_size(name: str) -> int:
    sizes = {0: 0, 1: 4, 2: 2, 4: 4}
    return _parsed(name, 4, "0, 2 or 4", lambda text: sizes.get(_number(text)))


def _seconds(name: str, default: float) -> float:
    def parse(text: str) -> float | None:
        value = float(text or default)
        return value if value >= 0 else None    # nor NaN

    return _parsed(name, default, "a number of seconds of at least 0", parse)


def _home() -> pathlib.Path:
    """The home folder; for a user without one, a folder among the temporary files."""
    try:
        return pathlib.Path.home()
    except RuntimeError:
        import tempfile

        return pathlib.Path(tempfile.gettempdir()) / f"nbmod-{getattr(os, 'getuid', int)()}"


def _cache_dir() -> pathlib.Path:
    """The user's cache folder, as platformdirs names it, which would be one more dependency."""
    chosen = os.environ.get("NBMOD_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or _home() / ".cache"
    return pathlib.Path(base) / "nbmod"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal in which a line can be overwritten, and not closed.

    Parameters
    ----------
    stream : text stream or None
        The stream.
    """
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, OSError, ValueError):   # it is closed, or none
        return False


_exact: ContextVar[bool] = ContextVar("exact", default=False)
_tuning: ContextVar[bool] = ContextVar("tuning", default=False)
_numpy_first: ContextVar[bool | None] = ContextVar("numpy_first", default=None)


def exact() -> AbstractContextManager[None]:
    """Bind networks without rewrites that change rounding, for a `with` statement.

    Elsewhere, a bound network may reassociate floating-point operations, so that results differ in
    the last digits: unrolled recurrent cells are rerolled into layers, and at inference batch
    normalization is folded into the weights of the preceding layer.  Denormal numbers are preserved
    in the block, and flushed to zero elsewhere.  NBMOD_EXACT=1 sets this for a whole process.

    Examples
    --------
    >>> net = mx.sym.BatchNorm(mx.sym.Variable("x"))
    >>> with mx.exact():
    ...     executor = net.simple_bind(mx.cpu(), x=(2, 3))
    """
    return scoped(_exact, True)


def is_exact() -> bool:
    """Whether rewrites that change rounding are disabled."""
    return CONFIG.exact or _exact.get()


def tuning(enabled: bool = True) -> AbstractContextManager[None]:
    """Bind networks with measured instead of estimated algorithm choices, for a `with` statement.

    Parameters
    ----------
    enabled : bool, default True
        False leaves the mode as it is.
    """
    return scoped(_tuning, enabled or _tuning.get())


def is_tuning() -> bool:
    """Whether algorithms are chosen by measurement."""
    return CONFIG.tune or _tuning.get()


def numpy_first(enabled: bool = True) -> AbstractContextManager[None]:
    """Let networks begin with the NumPy forms of operators, for a `with` statement.

    They go on with kernels once helper processes have compiled them (`execution.first_answers`).
    Inference does this by itself, training only in networks bound in the block.

    Parameters
    ----------
    enabled : bool, default True
        False disables it in the block, for inference as well.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1)
    >>> module = mx.mod.Module(mx.sym.LinearRegressionOutput(net, name="softmax"))
    >>> with mx.numpy_first():
    ...     module.bind([("data", (2, 3))], [("softmax_label", (2, 1))])
    """
    return scoped(_numpy_first, enabled)


def is_numpy_first() -> bool | None:
    """Whether forward passes of this block may begin with NumPy forms; None outside of blocks."""
    return _numpy_first.get()


@dataclass
class Config:
    """All settings that are read from the environment."""

    cache_dir: pathlib.Path = field(default_factory=_cache_dir)
    """NBMOD_CACHE_DIR: folder of compiled kernels."""
    cache: bool = _flag_field("NBMOD_CACHE", True)
    """NBMOD_CACHE=0: compile anew in every process and write nothing."""
    cache_size: int = field(default_factory=lambda: _bytes("NBMOD_CACHE_SIZE", "2G"))
    """NBMOD_CACHE_SIZE=500M: size of the folder beyond which the least recently used kernels are
    deleted."""
    shipped: bool = _flag_field("NBMOD_SHIPPED", True)
    """NBMOD_SHIPPED=0: do not load the kernels of the distribution `nbmod-kernels`."""
    cpu_level: str = field(default_factory=lambda: os.environ.get("NBMOD_CPU_LEVEL", "").strip())
    """NBMOD_CPU_LEVEL=x86-64-v3: compile kernels for this CPU level instead of the host (see
    `ops.build.levels`)."""
    check: int = field(default_factory=lambda: _level("NBMOD_CHECK"))
    """NBMOD_CHECK=1: verify every memory plan and its arrays at bind, and initialize GPU memory to
    NaN.  2: also overwrite dead memory before each step, and verify after it that it wrote nothing
    but its outputs (see `execution.sanitizer`).  3: also evaluate the network before and after
    every pass by NumPy, and name the pass that changes it (see `passes.translation_validation`)."""
    check_labels: bool = _flag_field("NBMOD_CHECK_LABELS", True)
    """NBMOD_CHECK_LABELS=0: SoftmaxOutput accepts labels that are no class, as MXNet does."""
    disabled_passes: frozenset[str] = field(default_factory=lambda: frozenset(
        os.environ.get("NBMOD_DISABLE_PASSES", "").replace(",", " ").split()))
    """NBMOD_DISABLE_PASSES=cse,inplace,...: bind without these passes (see `passes.switches`)."""
    full_traceback: bool = _flag_field("NBMOD_FULL_TRACEBACK", False)
    """NBMOD_FULL_TRACEBACK=1: show nbmod's frames of its own errors (see `short_tracebacks`)."""
    gpu_to_cpu: bool = _flag_field("NBMOD_GPU_TO_CPU", False)
    """NBMOD_GPU_TO_CPU=1: without a GPU, `gpu(i)` means `cpu(i)`, with one warning."""
    virtual_gpus: int = _int_field("NBMOD_VIRTUAL_GPUS", 0)
    """NBMOD_VIRTUAL_GPUS: number of contexts gpu(i) that share the CUDA devices; 0: one per device,
    and 4 in numba's CUDA simulator."""
    gpu_products: str = field(default_factory=lambda: _parsed(
        "NBMOD_GPU_PRODUCTS", "", "tf32 or bf16",
        lambda text: text if text in ("", "tf32", "bf16") else None))
    """NBMOD_GPU_PRODUCTS=tf32 or bf16: on GPUs, matrix products and convolutions of float32 tensors
    use tensor cores, which round their operands to this type."""
    tensor_cores: bool = _flag_field("MXNET_CUDA_ALLOW_TENSOR_CORE", True)
    """MXNET_CUDA_ALLOW_TENSOR_CORE=0: those of float16 tensors do not use tensor cores."""
    cuda_compiler: str = field(default_factory=lambda: _parsed(
        "NBMOD_CUDA_COMPILER", "", "mlir or numba-cuda",
        lambda text: text if text in ("", "mlir", "numba-cuda") else None))
    """NBMOD_CUDA_COMPILER=mlir or numba-cuda: compile GPU kernels by numba-cuda-mlir or by
    numba-cuda; default: by the latter, unless only the former is installed."""
    cuda_graphs: bool = _flag_field("NBMOD_CUDA_GRAPHS", False)
    """NBMOD_CUDA_GRAPHS=1: launch each forward and backward pass as one CUDA graph."""
    cuda_simulator: bool = _flag_field("NUMBA_ENABLE_CUDASIM", False)
    """NUMBA_ENABLE_CUDASIM=1: simulate every gpu(i), to test kernels without a GPU (numba's own
    variable, so that it enables both simulators)."""
    exact: bool = _flag_field("NBMOD_EXACT", False)
    """NBMOD_EXACT=1: no rewrites that change rounding (see `exact`)."""
    simd_lanes: int = field(default_factory=lambda: _choice("NBMOD_SIMD_LANES", 0, 1, 4, 8, 16))
    """NBMOD_SIMD_LANES=16, 8 or 4: generate vector kernels for registers of this many float32
    lanes; 1: no vector kernels; 0: the registers of the host."""
    winograd: int = field(default_factory=lambda: _tile_size("NBMOD_WINOGRAD"))
    """NBMOD_WINOGRAD=0: direct convolutions only; 2: Winograd with output tiles of 2 x 2 pixels,
    which are more accurate; otherwise up to 4 x 4 (see `ops.blocked.winograd`)."""
    tune: bool = _flag_field("NBMOD_TUNE", False)
    """NBMOD_TUNE=1: every bind measures convolution algorithms that have not been measured, as with
    `tune=True`, and stores the times in the cache folder."""
    compilers: int = _int_field("NBMOD_COMPILERS", 64)
    """NBMOD_COMPILERS: maximum number of processes that compile kernels of a network in parallel,
    this one included and at most one per core; 1: this one only."""
    numpy_first: bool = _flag_field("NBMOD_NUMPY_FIRST", True)
    """NBMOD_NUMPY_FIRST=0: inference always waits for compiled kernels; otherwise it begins with
    NumPy forms of operators (see `execution.first_answers`)."""
    max_image_pixels: int = field(
        default_factory=lambda: _bytes("OPENCV_IO_MAX_IMAGE_PIXELS", "1G"))
    """OPENCV_IO_MAX_IMAGE_PIXELS: number of pixels of the largest image that is decoded (OpenCV's
    own variable)."""
    profile: bool = _flag_field("MXNET_PROFILER_AUTOSTART", False)
    """MXNET_PROFILER_AUTOSTART=1: profile from the start, and write the trace at exit."""
    dist_timeout: float = field(default_factory=lambda: _seconds("NBMOD_DIST_TIMEOUT", 60))
    """NBMOD_DIST_TIMEOUT: seconds that an exchange of a distributed store may take before the rank
    that keeps it waiting is named and all ranks are ended; 0: no limit."""
    debug: int = _int_field("NBMOD_DEBUG", 0)
    """NBMOD_DEBUG=1: print one line per bind about the memory plan; up to 5: steps, passes, kernels
    and machine code as well (see `explain.ladder`)."""
    print_passes: bool = _flag_field("NBMOD_PRINT_PASSES", False)
    """NBMOD_PRINT_PASSES=1: print at every bind what each pass changes in the graph (see
    `explain.pass_differences`)."""
    progress: bool = _flag_field("NBMOD_PROGRESS", True)
    """NBMOD_PROGRESS=0: training and compilation show no progress unless a callback does."""

    def prefer_gpu_to_cpu(self) -> None:
        """Let NBMOD_GPU_TO_CPU be 1 where it is not set."""
        self.gpu_to_cpu = _flag("NBMOD_GPU_TO_CPU", True)

    # Properties are read on every access: scripts set these variables after the import.

    @property
    def mirror(self) -> bool:
        """MXNET_BACKWARD_DO_MIRROR=1: recompute cheap nodes in the backward pass of training."""
        return _flag("MXNET_BACKWARD_DO_MIRROR", False)

    @property
    def fusion(self) -> bool:
        """MXNET_USE_FUSION=0: MXNet's NBMOD_DISABLE_PASSES=fuse_elementwise; read at every bind."""
        return _flag("MXNET_USE_FUSION", True)

    @property
    def storage_fallback_log(self) -> bool:
        """MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0: conversions of sparse arrays are not told."""
        return _flag("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", True)

    @property
    def update_on_kvstore(self) -> bool:
        """MXNET_UPDATE_ON_KVSTORE=0: every device runs the optimizer; key-value stores only sum."""
        return _flag("MXNET_UPDATE_ON_KVSTORE", True)

    @property
    def bigarray_bound(self) -> int:
        """MXNET_KVSTORE_BIGARRAY_BOUND: elements from which two ranks divide an array."""
        return _int("MXNET_KVSTORE_BIGARRAY_BOUND", 1_000_000, 1)

    @property
    def dist_overlap(self) -> bool | None:
        """NBMOD_DIST_OVERLAP: 1 exchanges gradients during the backward pass, 0 after it."""
        is_set = "NBMOD_DIST_OVERLAP" in os.environ
        return _flag("NBMOD_DIST_OVERLAP", True) if is_set else None

    @property
    def home(self) -> pathlib.Path:
        """MXNET_HOME: parent folder of data sets and models."""
        return pathlib.Path(os.environ.get("MXNET_HOME") or _home() / ".mxnet")

    def aggregation_size(self, default: int) -> int:
        """MXNET_OPTIMIZER_AGGREGATION_SIZE: number of parameters that one update call steps.

        Parameters
        ----------
        default : int
            Result if the variable is not set.
        """
        return _parsed("MXNET_OPTIMIZER_AGGREGATION_SIZE", default, "a whole number", int)


CONFIG = Config()
