"""`mx.register_op`: the examples of its page work as nbmod's own ops do, and errors name causes."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import nbmod as mx
from nbmod import bench
from nbmod.cli import main as cli
from nbmod.execution.cost_model import cost_of
from nbmod.operator import validate
from nbmod.ops import OPS, Op
from nbmod.ops.elementwise.float_op import FloatOp
from nbmod.ops.elementwise.formula_op import FormulaOp
from nbmod.ops.jit import kernel
from nbmod.ops.op import Spec

PAGE = Path(__file__).resolve().parents[2] / "docs" / "register_op.md"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10
SCALE = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def run(code: str, *args: str, **environ: str) -> str:
    """The output of a program in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ})
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return ran.stdout


def page_files() -> dict[str, str]:
    """The page's files in its order, by name."""
    text = PAGE.read_text(encoding="utf-8")
    return {re.match(r"# (\w+\.py)\n", code)[1]: code
            for code in re.findall(r"```python\n(.*?)```", text, re.S)}


def write_examples(folder: Path) -> None:
    """The page's files, with the line that names the module of GPU kernels."""
    files = page_files()
    line, = re.findall(r"```\n( +gpu_module: .*\n)```", PAGE.read_text(encoding="utf-8"))
    files["channel_scale.py"] = re.sub(r"( +needs: .*\n)", rf"\1{line}", files["channel_scale.py"])
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Iterator[Path]:
    """The page's operators are registered."""
    folder = tmp_path_factory.mktemp("examples")
    write_examples(folder)
    sys.path.insert(0, str(folder))
    for module in ("channel_scale", "swish"):
        importlib.import_module(module)
    yield folder
    sys.path.remove(str(folder))
    for module, name in (("channel_scale", "ChannelScale"), ("swish", "swish")):
        mx.unregister_op(name)
        del sys.modules[module]


@pytest.fixture
def registered() -> Iterator[list[str]]:
    """Names that are unregistered after the test."""
    names: list[str] = []
    yield names
    for name in names:
        mx.unregister_op(name)


# -- the examples -------------------------------------------------------------------------------


@pytest.mark.usefixtures("examples")
def test_functions_stand_in_their_namespaces():
    for place in (mx.nd, mx.nd.op, mx.nd.contrib, mx.sym, mx.sym.op, mx.sym.contrib):
        assert "ChannelScale" in dir(place) and "gain" in place.ChannelScale.__doc__
    y = mx.nd.contrib.ChannelScale(mx.nd.array(X), mx.nd.array(SCALE), gain=2)
    np.testing.assert_allclose(y.asnumpy(), 2 * X * SCALE[..., None], rtol=1e-6)
    assert mx.nd.swish(mx.nd.zeros(3)).asnumpy().tolist() == [0, 0, 0]


@pytest.mark.usefixtures("examples")
def test_symbols_survive_a_file_and_train():
    net = mx.sym.ChannelScale(mx.sym.Variable("data"), gain=0.5, name="se")
    assert net.list_arguments() == ["data", "se_scale"]
    loaded = mx.sym.load_json(mx.sym.swish(net, beta=2).tojson())
    assert loaded.infer_shape(data=(2, 3, 4))[0] == [(2, 3, 4), (2, 3)]
    mx.test_utils.check_numeric_gradient(loaded, {"data": X, "se_scale": SCALE}, rtol=1e-2,
                                         atol=1e-3)


@pytest.mark.usefixtures("examples")
def test_python_that_uses_them_is_differentiated():
    x, scale = mx.nd.array(X), mx.nd.array(SCALE)
    for array in (x, scale):
        array.attach_grad()
    with mx.autograd.record():
        y = mx.nd.swish(mx.nd.ChannelScale(x, scale, gain=2), beta=0) * 3  # swish is x / 2
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * SCALE[..., None] + 0 * X, rtol=1e-6)
    np.testing.assert_allclose(scale.grad.asnumpy(), 3 * X.sum(axis=2), rtol=1e-6)


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_alone_and_together(dtype):
    net = mx.sym.ChannelScale(mx.sym.Variable("x"), mx.sym.Variable("s"))
    arrays = {"x": mx.nd.array(X, dtype=dtype), "s": mx.nd.array(SCALE, dtype=dtype)}
    expected = {"x": np.broadcast_to(SCALE[..., None], X.shape), "s": X.sum(axis=2)}
    for wanted in (["x"], ["s"], ["x", "s"]):
        executor = net.bind(mx.cpu(), arrays, grad_req="add",
                            args_grad={name: mx.nd.ones_like(arrays[name]) for name in wanted})
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2, 3, 4), dtype=dtype))
        for name in wanted:
            np.testing.assert_allclose(executor.grad_dict[name].asnumpy(), expected[name] + 1,
                                       rtol=2e-3)


def test_the_page_runs_as_it_is_read(tmp_path):
    """Each file in a folder that has those before it; what a program prints stands below it."""
    page = PAGE.read_text(encoding="utf-8")
    for name, code in page_files().items():
        if name.endswith("_gpu.py"):    # they need a line of the class: see write_examples
            continue
        (tmp_path / name).write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True)
        printed = re.findall(rf"`python {name}` prints\n\n```\n(.*?)```", page, re.S)
        assert (done.stdout, done.stderr) == ("".join(printed), "")
    assert (tmp_path / "net-symbol.json").exists()


@pytest.mark.parametrize("command", [
    ["bench"], ["bench", "--train"], ["warmup"], ["warmup", "--train"], ["doctor", "--compile"]],
    ids=" ".join)
def test_commands_open_files_with_operators_of_ones_own(command, tmp_path):
    """The page's command, and others that bind a network from a file.

    As for the console script, the current folder is not among those of modules."""
    files = page_files()
    (tmp_path / "channel_scale.py").write_text(files["channel_scale.py"], encoding="utf-8")
    network = {"op": "ChannelScale", "name": "se", "inputs": [[0, 0, 0], [1, 0, 0]]}
    variables = [{"op": "null", "name": name, "inputs": []} for name in ("data", "se_scale")]
    (tmp_path / "net-symbol.json").write_text(json.dumps({
        "nodes": [*variables, network], "arg_nodes": [0, 1], "heads": [[2, 0, 0]]}))
    main = "import sys; sys.path.remove(''); from nbmod.cli.main import main; sys.exit(main())"

    def nbmod(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", main, *command, "net-symbol.json", "--shape",
                               "data=1,2,3", *words], cwd=tmp_path, capture_output=True, text=True)

    done = nbmod("--import", "channel_scale")
    assert done.returncode == 0, done.stderr
    done = nbmod()
    assert done.returncode == 1 and done.stdout == ""
    assert "unknown operator 'ChannelScale'" in done.stderr
    assert done.stderr.endswith("; --import MODULE imports a module that registers it\n")


@pytest.mark.parametrize("name, words", [
    ("no_such.module", "--import no_such.module: there is no module 'no_such', neither installed"),
    ("needy", "--import needy: its import fails by ModuleNotFoundError: No module named 'no_such'"),
    ("broken", "--import broken: its import fails by ZeroDivisionError: division by zero"),
    ("broken.py", "expected the name of a module, not of its file: --import broken"),
    ("kernels.tar.xz", "an archive of kernels is for: nbmod warmup --install")])
def test_modules_that_cannot_be_imported_are_named(name, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "needy.py").write_text("import no_such\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert cli.main(["bench", "net.json", "--shape", "data=1", "--import", name]) == 1
    assert words in capsys.readouterr().err


def test_compiled_kernels_are_found_by_the_next_process(examples):
    """numba reports that it loaded the kernel of the user's file from its cache."""
    mx.nd.ChannelScale(mx.nd.ones((2, 3, 4)), mx.nd.ones((2, 3)))
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import nbmod as mx, channel_scale
        mx.nd.ChannelScale(mx.nd.ones((2, 3, 4)), mx.nd.ones((2, 3)))
        stats = channel_scale._scale.compile().stats
        print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
    """
    assert run(code, str(examples)).split() == ["1", "0"]


def test_the_gpu_half_does_the_same(examples):
    """In the simulator, in a process of its own, since it is chosen before numba is imported."""
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import numpy as np, nbmod as mx, channel_scale, swish
        x = mx.sym.Variable("x")
        net = mx.sym.swish(mx.sym.ChannelScale(x, mx.sym.Variable("s"), gain=2))
        draw = np.random.default_rng(0).standard_normal
        values = {"x": draw((2, 3, 4)), "s": draw((2, 3))}
        for dtype, tolerance in (("float32", 1e-5), ("float16", 1e-2)):
            found = []
            for ctx in (mx.cpu(), mx.gpu(0)):
                executor = net.simple_bind(ctx, x=(2, 3, 4), type_dict={"x": dtype, "s": dtype})
                executor.forward(is_train=True, **{k: mx.nd.array(v) for k, v in values.items()})
                executor.backward(mx.nd.ones((2, 3, 4), ctx=ctx, dtype=dtype))
                found.append([*executor.outputs, *executor.grad_arrays])
            for here, there in zip(*found):
                np.testing.assert_allclose(there.asnumpy(), here.asnumpy(), tolerance, tolerance)
        print("same")
    """
    assert run(code, str(examples), NUMBA_ENABLE_CUDASIM="1").strip() == "same"


def test_a_class_typed_in_has_kernels_too():
    """Code without a file cannot be cached, but is compiled."""
    code = """
import nbmod as mx
from dataclasses import dataclass
from nbmod.ops import Op
from nbmod.ops.jit import kernel
from nbmod.ops.op import Spec

@kernel
def fill(x, y):
    for i in range(x.size):
        y[i] = x[i] + 1

@mx.register_op("plus_one")
@dataclass(frozen=True)
class PlusOne(Op):
    "y = x + 1, of one shape."
    size: int = 1

    def forward(self, ins, outs, call):
        fill(ins[0].reshape(-1), outs[0].reshape(-1))

print(mx.nd.plus_one(mx.nd.zeros((2, 2))).sum().asscalar())
"""
    assert run(code).strip() == "4.0"


# -- names --------------------------------------------------------------------------------------


def doubler(name: str, factor: int = 2, **kwargs: Any) -> type[Op]:
    class Doubler(FormulaOp):
        """y = 2 x, of one shape."""

        formula = f"x * {factor}"
        gradients: ClassVar = {"x": f"gy * {factor}"}

    return mx.register_op(name, **kwargs)(Doubler)


def test_a_name_is_free_again_and_means_something_else(registered):
    with pytest.raises(AttributeError):
        _ = mx.nd.doubler
    for factor in (2, 3):
        doubler("doubler", factor, aliases=["_linalg_doubler", "_doubler"])
        for function in (mx.nd.doubler, mx.nd.linalg.doubler, mx.nd._internal._doubler):
            assert function(mx.nd.ones(1)).asscalar() == factor
        for function in (mx.sym.doubler, mx.sym.linalg.doubler, mx.sym._internal._doubler):
            symbol = function(mx.sym.Variable("x"))
            executor = symbol.simple_bind(mx.cpu(), x=(1,))
            assert executor.forward(x=mx.nd.ones(1))[0].asscalar() == factor
        mx.unregister_op("doubler")
        assert "doubler" not in OPS and not hasattr(mx.nd, "doubler")
        assert not hasattr(mx.sym.linalg, "doubler") and not hasattr(mx.nd.linalg, "doubler")


def test_a_replaced_op_comes_back():
    x = mx.nd.array([-1, 2])
    before = mx.nd.relu
    doubler("relu", replace=True)
    assert mx.nd.relu(x).asnumpy().tolist() == [-2, 4] == x.relu().asnumpy().tolist()
    mx.unregister_op("relu")
    assert mx.nd.relu(x).asnumpy().tolist() == [0, 2] == x.relu().asnumpy().tolist()
    assert mx.nd.relu is not before and OPS["relu"].__module__.startswith("nbmod")


@pytest.mark.parametrize("names, message", [
    (("relu",), r"an operator 'relu' already \(nbmod\.ops.*replace=True"),
    (("free", ["elemwise_add"]), "an operator 'elemwise_add' already"),
    (("free", "LRN"), "an operator 'LRN' already"),
    (("Variable",), r"(nbmod|mxnet)\.symbol\.Variable is something else"),
    (("array",), r"(nbmod|mxnet)\.ndarray\.array is something else"),
    (("_contrib_isnan",), r"contrib\.isnan is something else"),
    (("two words",), "'two words' is no name"),
    ((3,), "3 is no name"),
])  # fmt: skip
def test_names_that_are_taken(names, message):
    with pytest.raises(mx.MXNetError, match=message):
        doubler(names[0], aliases=names[1] if names[1:] else ())
    assert "free" not in OPS


def test_what_is_no_registered_op():
    with pytest.raises(mx.MXNetError, match="no operator was registered as 'relu'"):
        mx.unregister_op("relu")
    with pytest.raises(mx.MXNetError, match="expected a subclass"):
        mx.register_op("mine")(doubler)
    with pytest.raises(mx.MXNetError, match="in the table already, as 'relu'"):
        mx.register_op("mine")(OPS["relu"])


# -- classes ------------------------------------------------------------------------------------


@kernel
def copy(x, y, number):
    for i in range(x.size):
        y[i] = x[i]


@kernel
def returning(x, y):
    return x + y


@kernel
def defaults(x, y=1):
    y[0] = x


@dataclass(frozen=True)
class Good(Op):
    """y = x, of one shape."""

    def forward(self, ins, outs, call):
        copy(ins[0], outs[0], 1)


class Undocumented(Good):
    pass


@dataclass(frozen=True)
class Empty(Op):
    """Nothing."""


class Bare(Op):
    """No dataclass."""

    forward = Good.forward


class Fields(Good):
    """Parameters without a dataclass."""

    size: int = 1


@dataclass
class Mutable(Op):
    """Not frozen."""

    size: int = 1
    forward = Good.forward


@dataclass(frozen=True)
class Unreadable(Good):
    """A parameter of a type that no text has."""

    sizes: dict[str, int] | None = None


@dataclass(frozen=True)
class Twice(Good):
    """A parameter called as an input."""

    data: int = 1


@dataclass(frozen=True)
class Reserved(Good):
    """A parameter called as what every function takes."""

    name: Literal["a"] = "a"  # type: ignore[misc]


class OneName(Good):
    """Inputs as text."""

    inputs: ClassVar = "data"


class Aux(Good):
    """A state that is no input."""

    aux: ClassVar = ("mean",)


class Needy(Good):
    """Backward reads what is not there."""

    needs: ClassVar = ("ograd", "weight")


class NoBackward(Good):
    """Needs, but no backward."""

    needs: ClassVar = ("ograd",)


class NoNeeds(Good):
    """A backward that is never called."""

    def backward(self, ins, outs, call):
        outs[0][...] = ins[0]


@dataclass(frozen=True)
class HalfDone(FloatOp):
    """A FloatOp that computes nothing."""

    def forwards(self, ins, outs, call):
        pass


class FewArguments(Good):
    """A rule of too few arguments."""

    def infer_shape(self, ins):
        return ins, ins


class WrongCall(Good):
    """A kernel called with too few arguments."""

    def forward(self, ins, outs, call):
        copy(ins[0], outs[0])


class ReturningForward(Good):
    """A rule whose result nobody reads."""

    def forward(self, ins, outs, call):
        return ins[0] * 2


class ReturningHelper(Good):
    """A rule with a function within it, which returns."""

    def forward(self, ins, outs, call):
        def twice(x):
            return x * 2

        outs[0][:] = twice(ins[0])


class ReturningKernel(Good):
    """A kernel that returns."""

    def forward(self, ins, outs, call):
        returning(ins[0], outs[0])


class DefaultKernel(Good):
    """A kernel with a default."""

    def forward(self, ins, outs, call):
        defaults(*ins, *outs)


class NoGpu(Good):
    """Twins that are nowhere."""

    gpu_module: ClassVar = "no_such_module_anywhere"


class NoFormula(FormulaOp):
    """A formula op without one."""


class Language(FormulaOp):
    """A word that formulas do not have."""

    formula = "softplus(x)"


class Stranger(FormulaOp):
    """A name that is no input and no parameter."""

    formula = "x * slope"


class Letters(FormulaOp):
    """Two inputs, one letter."""

    inputs: ClassVar = ("lhs", "rhs")
    formula = "x"


class Gradient(FormulaOp):
    """A gradient of nothing."""

    formula = "x"
    gradients: ClassVar = {"b": "gy"}


def test_functions_within_rules_may_return():
    validate.check(ReturningHelper)


@pytest.mark.parametrize("cls, message", [
    (Undocumented, "no docstring"),
    (Empty, r"it has no forward\(ins, outs, call\)"),
    (Bare, "it is no dataclass"),
    (Fields, r"parameters \['size'\] belong to no dataclass"),
    (Mutable, "frozen=True"),
    (Unreadable, "the type of a parameter.*dict"),
    (Twice, r"\['data'\] would mean two things"),
    (Reserved, r"\['name'\] would mean two things"),
    (OneName, "inputs is 'data', expected a tuple"),
    (Aux, r"aux names \['mean'\]"),
    (Needy, r"needs names \['weight'\], expected some of .*'data'"),
    (NoBackward, r"no backward\(ins, outs, call\)"),
    (NoNeeds, "backward is never called.*needs"),
    (HalfDone, r"it has no forward\(ins, outs, call\), and no prepare"),
    (FewArguments, r"infer_shape\(self, ins\) is called with \(self, ins, outs\)"),
    (WrongCall, r"forward calls kernel copy\(x, y, number\) with \(ins\[0\], outs\[0\]\)"),
    (ReturningKernel, r"kernel returning returns x \+ y"),
    (DefaultKernel, "kernel defaults: argument y=1"),
    (ReturningForward, r"forward returns ins\[0\] \* 2; write results into the arrays of outs"),
    (NoGpu, "no such module"),
    (NoFormula, "it has no formula"),
    (Language, r"softplus\(x\) is not in the language"),
    (Stranger, r"speaks of \['slope'\], expected some of \['x'\]"),
    (Letters, "letters are .* expected one for each of the inputs"),
    (Gradient, r"gradients are given for \['b'\]"),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_classes_that_are_no_ops(cls, message):
    with pytest.raises(mx.MXNetError, match=rf"register_op\('mine'\), class .*{message}"):
        mx.register_op("mine")(cls)
    assert "mine" not in OPS


def test_what_only_a_call_can_tell_names_the_kernel(registered):
    class Strange(Good):
        """A kernel that cannot be compiled for what it is given."""

        def forward(self, ins, outs, call):
            copy({1: 2}, outs[0], 1)

    mx.register_op("strange")(Strange)
    registered.append("strange")
    with pytest.raises(mx.MXNetError, match=r"kernel copy \(.*test_register_op.py.*x: dict"):
        mx.nd.strange(mx.nd.ones(2))
    mx.register_op("plain_copy")(Good)  # kernels do not support float16: FloatOp does
    registered.append("plain_copy")
    with pytest.raises(mx.MXNetError, match="kernel copy .*x: float16"):
        mx.nd.plain_copy(mx.nd.ones(2, dtype="float16"))


@pytest.mark.parametrize("shapes, message", [
    (lambda ins, outs: (ins[:0], outs), r"lists of lengths \[0, 1\], expected \[1, 1\]"),
    (lambda ins, outs: None, "raised TypeError: .*shapes and types that are unknown are None"),
    (lambda ins, outs: (ins, [ins[1]]), "raised IndexError: .*unknown are None")])
def test_rules_of_shapes_that_fail_are_named(registered, shapes, message):
    class Ruled(Good):
        """A rule of shapes of a user."""

        def infer_shape(self, ins, outs):
            return shapes(ins, outs)

    mx.register_op("ruled")(Ruled)
    registered.append("ruled")
    with pytest.raises(mx.MXNetError, match=f"ruled: infer_shape of Ruled .*{message}"):
        mx.nd.ruled(mx.nd.ones(2))
    with pytest.raises(mx.MXNetError, match=rf"r \(ruled\): infer_shape of Ruled .*{message}"):
        mx.sym.ruled(mx.sym.Variable("x"), name="r").infer_shape(x=(2,))


def unmarked(x):
    return 2 * x


@kernel
def calls_unmarked(x, y):
    for i in range(len(x)):
        y[i] = unmarked(x[i])


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_a_kernel_that_calls_a_python_function_is_told_how():
    with pytest.raises(mx.MXNetError, match=r"kernel calls_unmarked .* need @inlined"):
        calls_unmarked(np.ones(2), np.ones(2))


def test_an_output_that_nothing_reads_is_named_where_an_operator_uses_it(registered):
    @mx.register_op("forgetful")
    @dataclass(frozen=True)
    class Forgetful(Op):
        """y = x, and a copy for backward."""

        outputs: ClassVar = ("output", "copy")
        num_visible: ClassVar = 1
        needs: ClassVar = ("ograd", "copy")

        def forward(self, ins, outs, call):
            outs[0][:] = outs[1].reshape(-1)

        def backward(self, ins, outs, call):
            outs[0][:] = ins[0]

    registered.append("forgetful")
    executor = mx.sym.forgetful(mx.sym.Variable("x"), name="f").simple_bind(
        mx.cpu(), grad_req="null", x=(2,))
    with pytest.raises(mx.MXNetError, match=r"f \(forgetful\): .*; an output or gradient that "
                       r"nothing reads is None \[input shapes: \(2,\)\]"):
        executor.forward()


def test_a_twin_takes_what_ops_give():
    from nbmod.ops.dispatch import implements

    with pytest.raises(mx.MXNetError,
                       match="Good: its implementation 'cuda' is .*expected a function"):
        implements(Good, "cuda", lambda ins, outs: [])


def test_the_cost_model_counts_as_it_was_told():
    @dataclass(frozen=True)
    class Twice(Op):
        """2 x."""

        def infer_shape(self, ins, outs):
            return [ins[0] or outs[0]], [ins[0] or outs[0]]

        def forward(self, ins, outs, call):
            np.multiply(ins[0], 2, out=outs[0])

    told = mx.register_op("twice_counted", operations=lambda op, ins, outs: 7 * ins[0].size,
                          nbytes=lambda op, ins, outs: 3 * ins[0].nbytes)
    told(Twice)
    try:
        specs = [Spec((4, 5), np.dtype(np.float32))]
        assert cost_of(Twice(), specs, specs) == (140, 240)
        work = bench.operator("twice_counted", (4, 5))
        assert (work.operations, work.nbytes) == (140, 240)
    finally:
        mx.unregister_op("twice_counted")
    assert cost_of(OPS["negative"](), specs, specs) == (0, 160)
