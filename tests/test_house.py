"""The rules of the package, checked on its source: import layers, sizes, completeness of ops.

`LAYERS` is the order of the package: a module imports only modules of its own layer or of those
before it, at its top level. Imports inside functions may go up, or close a circle, only where
`UPWARD_IMPORTS` lists them; imports under TYPE_CHECKING are free.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.cases import all_samples
from tests.grouped import Case, over_groups

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nbmod"
LAYERS = (
    ("core", "base", "launcher.bond", "launcher.mpiexec", "launcher.placement",
     "launcher.position", "launcher.worker"),
    ("context", "core.short_tracebacks"),
    ("graph",),
    ("ops.build",),
    ("ops.simd.denormals", "ops.simd.host", "ops.simd.ir"),
    ("ops",),
    ("ops.simd",),
    ("ops.control_flow", "ops.elementwise", "ops.linalg"),
    ("ops.contrib", "ops.optimizer", "ops.random", "ops.tensor"),
    ("ops.sparse",),
    ("ops.nn",),
    ("ops.detection", "ops.image", "ops.quantization", "ops.rnn"),
    ("ops.blocked", "ops.onednn"),
    ("ops.numpy_forms",),
    ("ops.cuda.runtime",),
    ("ops.cuda.lib",),
    ("ops.cuda.elementwise",),
    ("ops.cuda.contrib", "ops.cuda.linalg", "ops.cuda.optimizer", "ops.cuda.random",
     "ops.cuda.tensor"),
    ("ops.cuda.nn",),
    ("ops.cuda.detection", "ops.cuda.image", "ops.cuda.quantization", "ops.cuda.rnn"),
    ("ops.cuda",),
    ("passes",),
    ("passes.memory",),
    ("passes.optimize",),
    ("core.serialization", "safetensors.tensor_file", "imgproc"),
    ("random", "ndarray", "execution.interpreter"),
    ("symbol",),
    ("execution", "executor"),
    ("lr_scheduler", "optimizer", "metric", "initializer", "callback.monitor"),
    ("kvstore",),
    ("recordio",),
    ("io",),
    ("callback", "checkpoint", "rnn"),
    ("profiler",),
    ("compat.executor_manager", "compat.feedforward", "compat.model", "module"),
)
LAST = len(LAYERS)  # cli, visualization, ... : modules that LAYERS does not name
UPWARD_IMPORTS = {
    ("ndarray.ndarray", "ndarray.array_creation"): "`attach_grad` makes an array",
    ("ndarray.ndarray", "ndarray.functions"): "methods of arrays are functions of arrays",
    ("ndarray.ndarray", "ndarray.gradients"): "`backward` is a method",
    ("ndarray.array_creation", "ndarray.sparse_array"): "`zeros(stype=)` may be sparse",
    ("ndarray.invocation", "ndarray.sparse_eager"): "calls with sparse arrays go there",
    ("ndarray", "execution.cached_op"): "MXNet has `CachedOp` in `nd`",
    ("executor", "explain.explanation"): "`explain` is a method",
    ("executor", "explain.ladder"): "NBMOD_DEBUG tells of plans at bind",
    ("executor", "explain.facts"): "`explain` is a method",
    ("executor", "explain.plan_chart"): "`plan_chart` is a method",
    ("ops.device", "ops.optimizer.multi_tensor_apply"): "devices run kernels of all layers",
    ("ops.cuda.check", "test_utils"): "the check compares networks",
    ("startup.sitecustomize", "compat.mxnet_name"):
        "children import nbmod when they import MXNet or NumPy",
    ("symbol.fluent", "symbol.functions"): "methods of symbols are functions of symbols",
    ("symbol.symbol", "diagram.symbol_picture"): "notebooks draw symbols",
    ("symbol.symbol", "execution.bind"): "`bind` is a method",
    ("symbol.symbol", "executor"): "`bind` is a method",
    ("symbol.symbol", "symbol.functions"): "MXNet has `Variable` etc. in the module of the class",
}
"""(module, what it imports inside functions although that is above it or imports it) -> reason."""
CIRCLES, LARGEST_CIRCLE = 6, 8
"""Circles of imports, and files of the largest: these numbers only go down."""
TWIN_FOLDERS = {
    "contrib/simpledet/cuda": "GPU twins of the operators of `contrib.simpledet`",
    "onnx/exporting/converters": "converters of operators have the names of their files",
    "onnx/importing/converters": "converters of operators have the names of their files",
    "ops/cuda": "GPU twins of operators have the names of their files",
    "ops/numpy_forms": "NumPy forms of operators have the names of their files",
    "symbol": "`sym` and `nd` offer the same functions in files of the same names, as in MXNet",
}
"""Folder whose files may have the basenames of other files -> reason."""
MXNET_BASENAMES = {"autograd", "base", "basic_layers", "callback", "contrib", "conv_layers",
                   "dataset", "datasets", "image", "io", "linalg", "loss", "ndarray", "nn", "onnx",
                   "op", "random", "rnn", "rnn_cell", "rnn_layer", "sampler", "text", "utils"}
"""Basenames that several import paths of MXNet have; below `ops`, subjects have one of them."""
SHARED_CLASSES = {
    "Block": "allocations of the GPU driver and of its simulator",
    "Card": "GPUs of the driver and of its simulator",
    "CudaGraph": "CUDA graphs of the driver and of its simulator",
    "DataParallelExecutorGroup": "MXNet's, in `executor_manager` and of `Module`",
    "FactorScheduler": "MXNet's, in `misc` and `lr_scheduler`",
    "GroupNorm": "operators of MXNet and of SimpleDet",
    "MakeLoss": "MXNet's operators `MakeLoss` and `make_loss`",
    "Predictor": "that of MXNet's amalgamation, and nbmod's for servers",
    "PreparedLaunch": "launches of the GPU driver and of its simulator",
}
"""Class that two files define at their top level -> reason.  Public classes of Gluon have MXNet's
names, which many operators, cells and initializers have, too: they are compared with each other."""
FILE_LINES, FUNCTION_LINES, ARGUMENTS = 500, 60, 12
"""Limits; lines of files include docstrings, those of functions do not."""
# Whole interfaces of MXNet in one signature.
WIDE = {"fit", "create", "__init__", "check_consistency", "quantize_model", "CreateAugmenter",
        "CreateDetAugmenter", "export_model"}

PARTICIPLES = {"asked", "found", "given", "kept", "made", "wanted"}
"""Words that say how a value came about, where a noun would say what it is."""
DANGLING = re.compile(r"(The same|What|Of|Those|As)\b")
"""Beginnings of docstrings that need the sentence before them."""
PARTICIPLES_LEFT, DANGLING_LEFT = 1, 0
"""Names and docstrings of such kinds that are left: these numbers only go down."""

FILES = sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_file = over_groups("path", [Case(relative(path), (path,)) for path in FILES],
                        lambda case: relative(case.values[0].parent))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path, within: Callable[[ast.Module], Iterable[ast.AST]] = ast.walk
            ) -> Iterator[str]:
    """Dotted names of what a file imports, anywhere or only in the nodes that `within` returns."""
    here = ("nbmod", *path.relative_to(PACKAGE).with_suffix("").parts)
    package = here[:-1]
    for node in within(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def top_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run at import: not those in functions, nor under `if TYPE_CHECKING`."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)


def statements_of_functions(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from ast.walk(node)


def module_of(path: Path) -> str:
    """The dotted name, below nbmod, of the module in a file."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def imported_modules(path: Path, within: Callable[[ast.Module], Iterable[ast.AST]]) -> set[str]:
    """Modules, below nbmod, that a file imports or imports names from."""
    found = set()
    for name in imports(path, within):
        kind, _, module = name.partition(".")
        while module and module not in MODULES:
            module = module.rpartition(".")[0]
        if kind == "nbmod" and module:
            found.add(module)
    return found


@functools.cache
def needed_modules(module: str) -> set[str]:
    """All modules that a module imports at its top level, directly or not."""
    return reachable(module, lambda each: imported_modules(MODULES[each], top_statements))


def reachable(start: str, follow: Callable[[str], set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = follow(waiting.pop()) - found
        found |= new
        waiting += new
    return found


def circles() -> list[set[str]]:
    """Files that import each other, the most first; imports in functions and for type checkers
    count, those of packages, which only gather names, do not."""
    files = {module: path for module, path in MODULES.items() if path.name != "__init__.py"}
    edges = {module: imported_modules(path, ast.walk) & files.keys() - {module}
             for module, path in files.items()}
    reached = {module: reachable(module, edges.__getitem__) for module in files}
    groups = {frozenset(other for other in reached[module] if module in reached[other])
              for module in files}
    return sorted((set(group) for group in groups if group), key=len, reverse=True)


def test_circles_of_imports_only_shrink():
    found = circles()
    assert len(found) <= CIRCLES and len(found[0]) <= LARGEST_CIRCLE, found


def test_upward_imports_in_functions_are_few():
    lazy = {(module, other) for module, path in MODULES.items()
            for other in imported_modules(path, statements_of_functions)}
    upward = {(low, high) for low, high in lazy
              if layer(f"nbmod.{high}") > layer(f"nbmod.{low}") or low in needed_modules(high)}
    assert upward == set(UPWARD_IMPORTS)


def layer(module: str) -> int:
    """The number of the layer that a dotted name below nbmod belongs to: that of the innermost
    package that has one."""
    parts = module.split(".")[1:]
    for end in range(len(parts), 0, -1):
        package = ".".join(parts[:end])
        for number, names in enumerate(LAYERS):
            if package in names:
                return number
    return LAST


@each_file
def test_imports_go_down(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts
    if own == ("__init__",):
        return  # the package itself loads its submodules on first use
    mine = layer(".".join(["nbmod", *own]))
    for module in imports(path, top_statements):
        if module.startswith("nbmod.") and module.split(".")[1] != "__version__":
            assert layer(module) <= mine, f"{relative(path)} imports {module}, which stands above"


@each_file
def test_ops_know_no_arrays_and_passes_no_symbols(path):
    part = path.relative_to(PACKAGE).parts[0]
    above = ("nbmod.ndarray", "nbmod.symbol", "nbmod.executor", "nbmod.execution")
    if part in ("ops", "passes"):
        found = [name for name in imports(path) if name.startswith(above)]
        assert not found, f"{relative(path)} imports {found}"


@each_file
def test_compilers_are_confined(path):
    where = relative(path)
    for module in imports(path):
        if module.startswith(("numba.cuda", "numba_cuda_mlir", "nbmod.ops.cuda")):
            allowed = ("nbmod/ops/cuda/", "nbmod/ops/device.py", "nbmod/contrib/simpledet/cuda/")
        elif module.split(".")[0] == "numba":
            allowed = ("nbmod/ops/jit.py", "nbmod/ops/build/", "nbmod/ops/cuda/", "nbmod/ops/simd/")
        elif module.split(".")[0] == "llvmlite":
            allowed = ("nbmod/ops/build/", "nbmod/ops/simd/",
                       "nbmod/ops/cuda/runtime/ptx_numba_cuda.py")
        else:
            continue
        assert where.startswith(allowed), f"{where} imports {module}; only {allowed} may"


@each_file
def test_parallel_loops_have_plain_counts(path):
    """numba runs a loop over prange(a if b else c) on one thread, without a warning."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "prange":
            assert not any(isinstance(part, (ast.IfExp, ast.BoolOp)) for argument in node.args
                           for part in ast.walk(argument)), f"{path}:{node.lineno}"


READ_BY_POSITION: dict[str, int] = {
    "nbmod/ops/cuda/random/pdf.py": 1,
    "nbmod/ops/linalg/dot_products.py": 2,
    "nbmod/ops/linalg/gemm.py": 2,
    "nbmod/ops/nn/conv_gemm.py": 3,
    "nbmod/ops/nn/conv_interleaved.py": 1,
}
"""File -> the most of its kernels that read a value by a literal position."""
KERNEL_DECORATORS = {"block_stride", "device_function", "grid_stride", "inlined", "kernel"}


@each_file
def test_kernels_read_tuples_by_name(path):
    """Kernels take plain tuples and name their fields: `g = Geometry(*g)`, or `first, last = span`.

    Position 0 is free: kernels return single numbers in arrays of one element.
    """
    found = {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)
             if is_kernel(node) and any(map(is_read_by_position, ast.walk(node)))}
    assert len(found) <= READ_BY_POSITION.get(relative(path), 0), sorted(found)


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function is compiled, for the CPU or for a GPU."""
    return any(isinstance(node, ast.Name) and node.id in KERNEL_DECORATORS
               for decorator in function.decorator_list for node in ast.walk(decorator))


def is_read_by_position(node: ast.AST) -> bool:
    """Whether this reads `name[1]`, `name[2]` and so on; tables of constants are not meant."""
    return (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name) and not node.value.id.isupper()
            and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
            and node.slice.value > 0)


@each_file
def test_budgets(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= FILE_LINES, f"{lines} lines; split it by subject"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = body_lines(node)
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"
            count = len(node.args.args) + len(node.args.kwonlyargs)
            assert count <= ARGUMENTS or node.name in WIDE, f"{node.name} takes {count} arguments"


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    docstring = ast.get_docstring(function) or ""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1 - len(docstring.splitlines())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="NOT A CHECKOUT: no list of files")
def test_every_file_is_linted():
    """Linters leave out folders that have names of build products."""
    pytest.importorskip("ruff")
    linted, tracked = (
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for command in ([sys.executable, "-m", "ruff", "check", "--show-files"],
                        ["git", "ls-files", "*.py"]))
    left = {*tracked.splitlines()} - {Path(name).relative_to(ROOT).as_posix()
                                      for name in linted.splitlines()}
    assert not {name for name in left if (ROOT / name).exists()}


def test_files_have_basenames_of_their_own():
    found: dict[tuple[str, str], list[str]] = {}
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        folder = next((twin for twin in TWIN_FOLDERS if name.startswith(f"{twin}/")), "")
        if path.stem not in ("__init__", *MXNET_BASENAMES):
            found.setdefault((folder, path.stem), []).append(name)
    shared = [names for names in found.values() if len(names) > 1]
    assert not shared, f"files of one basename: {shared}"


def test_classes_have_names_of_their_own():
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                is_gluons = "gluon" in path.parts and not node.name.startswith("_")
                found.setdefault("gluon." * is_gluons + node.name, []).append(relative(path))
    shared = {name: files for name, files in found.items() if len(files) > 1}
    wrong = {name: shared.get(name) for name in shared.keys() ^ SHARED_CLASSES.keys()}
    assert not wrong, f"classes of one name, or that are no longer so: {wrong}"


def test_names_are_nouns():
    """Parameters, variables and attributes of functions, each once for a function."""
    names = [(relative(path), function.name, name) for path in FILES
             for function in ast.walk(tree_of(path)) if isinstance(function, ast.FunctionDef)
             for name in PARTICIPLES & set(names_of(function))]
    assert len(names) <= PARTICIPLES_LEFT, names


def names_of(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_docstrings_stand_alone():
    """Also those of variables, which are strings after an assignment."""
    texts = [f"{relative(path)}:{node.lineno}" for path in FILES for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
             and isinstance(node.value.value, str) and DANGLING.match(node.value.value.strip())]
    assert len(texts) <= DANGLING_LEFT, texts


@each_file
def test_modules_and_public_functions_are_documented(path):
    tree = tree_of(path)
    assert ast.get_docstring(tree) or not tree.body, "the module says nothing about itself"
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def op_classes() -> list[type]:
    from nbmod.ops import OPS

    return sorted(set(OPS.values()), key=lambda op: op.name)


def test_every_op_is_documented_and_sampled():
    sampled = {sample.op for sample in all_samples().values() if not sample.error}
    for op in op_classes():
        own = op.__dict__.get("__doc__") or ""
        assert own.strip() and not own.startswith(f"{op.__name__}("), f"{op.name}: no docstring"
        assert op.shapes or re.search(r"\(|shape", own), f"{op.name}: no word on shapes"
    missing = [op.name for op in op_classes() if not {op.name, *op.aliases} & sampled]
    assert not missing, f"{len(missing)} ops have no sample in tests/cases: {missing}"


def test_ops_are_declared_as_users_ops_must_be():
    from nbmod.operator.validate import check

    for op in op_classes():
        check(op)


def test_ci_runs_what_the_readme_says():
    """The second command of the README is the one that CI runs, word for word."""
    command = "python -m pip install -e '.[test]' && python -m pytest"
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
