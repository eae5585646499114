"""Gradients of eager code: MXNet's results, by the same rules as for bound symbols."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd
from nbmod.autograd import record
from nbmod.graph import Entry, Graph, Node
from nbmod.ops import OPS
from nbmod.passes.gradient import gradient
from tests import sample_runs
from tests.cases import all_samples
from tests.compare import assert_like, assert_same
from tests.ops.test_ops import GOOD, SAMPLES, ran
from tests.programs import autograd_programs, autograd_scripts, common
from tests.programs.autograd_programs import functions, marked

# One sample of each op: the rules themselves are tested where symbols are bound.
# Loops and branches are Python's own in eager code.
DIFFERENTIABLE = {sample.op: name for name, sample in reversed(GOOD.items())
                  if sample.differentiated(sample.dtypes[0]) and not sample.random
                  and not OPS[sample.op].runs_subgraphs}


@pytest.mark.parametrize("name", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE.keys())
def test_the_tape_gives_the_gradients_of_the_executor(name):
    sample = SAMPLES[name]
    dtype = sample.dtypes[0]
    bound, tolerance = ran(name, dtype), sample.tolerance(dtype)
    heads = None if sample.loss else sample.heads(bound["outputs"])
    ours = common.taped(mx, sample.op, sample.attrs, sample.arrays(dtype), sample.keyword,
                        dict.fromkeys(bound["grads"], "write"), heads)
    for i, (got, want) in enumerate(zip(ours["outputs"], bound["outputs"], strict=True)):
        assert_same(got, want, tolerance, f"output {i}")
    for arg, want in bound["grads"].items():
        assert_same(ours["grads"][arg], want, tolerance, arg)


# -- the same programs in both packages -----------------------------------------------------


@pytest.fixture(scope="module")
def theirs(oracle):
    return oracle.call("mx_scripts.run", "autograd_programs", "answers")


@pytest.mark.parametrize("name", autograd_programs.PROGRAMS)
def test_programs_answer_as_mxnets(theirs, name):
    assert_like(autograd_programs.answer(mx, name), theirs[name], 1e-5, name)


# -- errors --------------------------------------------------------------------------------


def after_backward(head: Callable[[Any, Any], Any]) -> None:
    """Backward of one head, then of another that `head` makes of x and the first."""
    x = marked(mx)
    with record():
        y = x * 2
        other = head(x, y)
    y.backward()
    other.backward()


def recorded(compute: Callable[[Any], Any]) -> Any:
    with record():
        return compute(marked(mx))


MISTAKES = {
    "head 0 of shape (3,) was not recorded; compute it from arrays with attach_grad(), under":
        lambda: (marked(mx) * 2).backward(),
    "no array that the heads were computed from has a gradient; call attach_grad()":
        lambda: autograd_programs.only_null(mx),
    "head 0 of shape (3,) has no graph any more, an earlier backward has freed it; give that one":
        lambda: after_backward(lambda x, y: y),
    "_mul_scalar, which the heads were computed from, has no graph any more":
        lambda: after_backward(lambda x, y: y * 3),
    "gradient of head 0 has shape (2,) and type float32, expected (3,) and float32":
        lambda: recorded(lambda x: x * 2).backward(mx.nd.ones(2)),
    "gradient of head 0 has shape (3,) and type float64, expected (3,) and float32":
        lambda: recorded(lambda x: x * 2).backward(mx.nd.ones(3, dtype="float64")),
    "variable 0 of shape (1,) is not marked; call attach_grad()":
        lambda: autograd.grad(recorded(lambda x: x * 2), mx.nd.ones(1)),
    "the heads do not depend on variable 1 of shape (3,)":
        lambda: autograd.grad(y := marked(mx), [y, marked(mx)]),
    "the gradient has shape (2,) and type float32, expected (3,) and float32":
        lambda: autograd.mark_variables(mx.nd.ones(3), mx.nd.ones(2)),
    "broadcast_add: operations in place (+=, out= an input) are not recorded; write y = y + x":
        lambda: recorded(lambda x: mx.nd.ones(3).__iadd__(x)),
    "x[...] = value: the array of shape (3,) to write to is part of a recorded computation":
        lambda: recorded(lambda x: x.__setitem__(0, 5)),
    "etc) are not supported when recording with autograd); only x[:] = value of the same shape":
        lambda: recorded(lambda x: mx.nd.ones(5).__setitem__(slice(0, 3), x)),
    "a recorded value of shape (3,) is written to a part of an array of shape (5,) (Inplace oper":
        lambda: recorded(lambda x: mx.nd.ones(5).__setitem__(np.array([0, 4, 2]), x)),
    "max has no second derivative": lambda: differentiate_twice(mx.nd.max, marked(mx)),
    "get_symbol: the array of shape (1,) was not recorded":
        lambda: autograd.get_symbol(mx.nd.ones(1)),
}  # fmt: skip


def differentiate_twice(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Gradients of the square of f's gradients, summed."""
    with record():
        first = autograd.grad(function(*inputs), list(inputs), create_graph=True)
        value = sum((g * g).sum() for g in first)
    return autograd.grad(value, list(inputs))


def test_second_derivative_of_a_function_that_reads_its_shape():
    """y = (x / r)^3 with r = sqrt 3: the gradient of the square of 3 x^2 / r^3 is 36 x^3 / r^6."""
    found, = differentiate_twice(lambda x: mx.nd.contrib.div_sqrt_dim(x) ** 3,
                                 x := marked(mx))
    # Three float32 products and a power.
    np.testing.assert_allclose(found.asnumpy(), 36 * x.asnumpy() ** 3 / 27, rtol=1e-5)


def test_second_derivatives_of_all_operators_are_made_or_refused():
    """By an MXNetError: of the cube of every output."""
    seen = set()
    for sample in all_samples().values():
        if sample.op in seen or sample.error or sample.eager or sample.out is not None:
            continue
        seen.add(sample.op)
        symbol = sample_runs.compose(sample)
        graph = Graph([entry for output in symbol for entry in (output ** 3).entries])
        heads = [Entry(Node(None, f"head{k}")) for k in range(len(graph.outputs))]
        try:
            first = [grad for grad in gradient(graph, graph.variables, heads) if grad is not None]
            once = Graph(first)
            heads = [Entry(Node(None, f"second{k}")) for k in range(len(first))]
            gradient(once, once.variables, heads)
        except mx.MXNetError as error:
            assert str(error)
    assert len(seen) > 300


LINEAR = {
    "radians": mx.nd.radians, "floor": mx.nd.floor, "BlockGrad": mx.nd.BlockGrad,
    "multiple": lambda x: 2 * x, "sum": mx.nd.sum, "reshape": lambda x: x.reshape((-1,)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_second_derivatives_of_linear_functions_are_zero(name):
    x = marked(mx)
    x.grad[:] = 7
    with record():
        slope, = autograd.grad(LINEAR[name](x), [x], create_graph=True)
        curvature, = autograd.grad(slope, [x], create_graph=True)
    curvature.backward()
    assert_like(curvature.asnumpy(), np.zeros(x.shape, np.float32))
    assert_like(x.grad.asnumpy(), np.zeros(x.shape, np.float32))


class Cube(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x ** 3

    def backward(self, dy):
        x, = self.saved_tensors
        return 3 * x * x * dy


class CubeOp(mx.operator.CustomOp):
    """Reads in `backward` what `forward` has left in an attribute."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.x = in_data[0].copy()
        self.assign(out_data[0], req[0], self.x ** 3)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 3 * self.x * self.x * out_grad[0])


@mx.operator.register("cube_of_an_attribute")
class CubeProp(mx.operator.CustomOpProp):
    def declare_backward_dependency(self, out_grad, in_data, out_data):
        return out_grad

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return CubeOp()


@pytest.mark.parametrize("name", ["Cube", "Custom"])
def test_gradients_that_objects_of_programs_compute_are_not_differentiated(name):
    """Nothing tells what they depend on: neither on nothing, nor only on their heads."""
    def cube(x):
        return Cube()(x) if name == "Cube" else mx.nd.Custom(x, op_type="cube_of_an_attribute")

    for function in (cube, lambda x: cube(x) + x ** 3, lambda x: cube(x) ** 2,
                     lambda x: cube(x ** 2)):
        with record():
            slope, = autograd.grad(function(x := marked(mx)), [x], create_graph=True)
        slope.detach()
        with pytest.raises(mx.MXNetError, match=f"{name} has no second derivative"):
            slope.backward()


def test_fresh_grad_tells_which_gradients_backward_has_written(oracle):
    assert autograd_scripts.fresh_gradients(mx) == oracle.call(
        "mx_scripts.run", "autograd_scripts", "fresh_gradients")
    with pytest.raises(mx.MXNetError, match=r"shape \(1,\) has no gradient"):
        mx.nd.ones(1)._fresh_grad = True


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_named(words):
    with pytest.raises(mx.MXNetError) as found:
        MISTAKES[words]()
    assert words in str(found.value)


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="expected one of .*'null', 'write', 'add'"):
        mx.nd.ones(1).attach_grad("sum")
    with pytest.raises(ValueError, match=r"2 variable\(s\), 1 gradient\(s\)"):
        autograd.mark_variables([mx.nd.ones(1)] * 2, [mx.nd.ones(1)])
    with pytest.raises(TypeError, match="heads: a float is given"):
        autograd.backward([1.5])


def test_an_error_in_backward_leaves_the_graph_for_another_try():
    class Moody(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, grad):
            self.tries = getattr(self, "tries", 0) + 1
            if self.tries == 1:
                raise RuntimeError("not today")
            return grad * 2

    x = marked(mx)
    with record():
        y = Moody()(x)
    with pytest.raises(RuntimeError, match="not today"):
        y.backward()
    assert not autograd.is_recording() and not x.grad.asnumpy().any()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 2, 2])


def test_functions_may_be_used_as_they_are():
    class Same(autograd.Function):
        def forward(self, x):
            return x

        def backward(self, grad):
            return grad * 5

    class Short(Same):
        def backward(self, grad):
            return []

    x, w = marked(mx), marked(mx, [4, 5, 6], "add")
    with record():
        y = Same()(x) * 2
        p, s = functions(mx)["Product"]()(mx.nd.ones(3), w)
        short = Short()(x)
    y.backward()
    for _ in range(2):
        p.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.asnumpy(), [10, 10, 10])
    np.testing.assert_array_equal(w.grad.asnumpy(), [2, 2, 2])
    with pytest.raises(mx.MXNetError, match=r"Short.backward returned 0 gradient\(s\), expected 1"):
        short.backward()


# -- higher-order derivatives ---------------------------------------------------------------

nd = mx.nd
TWICE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    **{name: (getattr(nd, name), [(3, 4)]) for name in (
        "arcsinh", "softsign", "erf", "erfinv", "softmax", "log_softmax", "smooth_l1", "tan")},
    "linear": (lambda x: sum(getattr(nd, name)(x ** 3).sum() for name in (
        "sum", "mean", "transpose", "flatten", "hard_sigmoid")), [(3, 4)]),
    "arccosh": (lambda x: nd.arccosh(x + 1), [(3, 4)]),
    "add": (lambda a, b: (a + b) ** 3, [(3, 4), (4,)]),
    "mul": (lambda a, b: a * b, [(3, 4), (3, 1)]),
    "div": (lambda a, b: a / b, [(3, 1), (3, 4)]),
    "power": (lambda a, b: a ** b, [(2, 3), (3,)]),
    "maximum": (lambda a, b: nd.maximum(a, b) ** 2, [(2, 3), (2, 3)]),
    "scalars": (lambda x: 2 / x - 3 ** x + (1 - x) ** 3 * 4 + 1, [(2, 3)]),
    "where": (lambda a, b: nd.where(a > 0.5, a * b, b ** 3), [(3, 3), (3, 3)]),
    "dot": (nd.dot, [(3, 4), (4, 2)]),
    "dot_transposed": (lambda a, b: nd.dot(a, b, transpose_a=True), [(4, 3), (4, 2)]),
    "batch_dot": (lambda a, b: nd.batch_dot(a, b, transpose_b=True), [(2, 3, 4), (2, 5, 4)]),
    "gemm": (lambda a, b, c: nd.linalg.gemm(a, b, c, alpha=2.0, beta=3.0) ** 2,
             [(2, 3), (3, 4), (2, 4)]),
    "dense": (lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=2) ** 2,
              [(3, 2, 2), (2, 4), (2,)]),
    "dense_rows": (lambda x, w: nd.FullyConnected(x, w, num_hidden=2, no_bias=True,
                                                  flatten=False), [(3, 2, 4), (2, 4)]),
    "convolution": (lambda x, w, b: nd.Convolution(x, w, b, kernel=(2, 2), num_filter=2,
                                                   pad=(1, 1)) ** 2,
                    [(1, 2, 3, 3), (2, 2, 2, 2), (2,)]),
    "deconvolution": (lambda x, w: nd.Deconvolution(x, w, kernel=(2, 2), num_filter=2),
                      [(1, 2, 2, 2), (2, 2, 2, 2)]),
    "pooling": (lambda x: nd.Pooling(x, kernel=(2, 2), pool_type="avg") ** 2, [(1, 1, 3, 3)]),
    "activations": (lambda x: sum(nd.Activation(x - 0.5, act_type=kind) for kind in (
        "tanh", "sigmoid", "softrelu", "relu")), [(3, 4)]),
    "elu": (lambda x: nd.LeakyReLU(x - 0.5, act_type="elu"), [(3, 4)]),
    "gelu": (lambda x: nd.LeakyReLU(x - 0.5, act_type="gelu"), [(3, 4)]),
    "joined": (lambda a, b: nd.concat(a, b, dim=1) * nd.stack(a, a).reshape((3, 4)),
               [(3, 2), (3, 2)]),
    "pieces": (lambda x: x[1:] * x[[0, 2]] * nd.split(x, 3, axis=0)[1].reshape((4,)), [(3, 4)]),
    "padded": (lambda x: nd.pad(x, mode="constant", constant_value=2, pad_width=(0, 0, 0, 0, 1, 1,
                                                                                 1, 1)) ** 3,
               [(1, 1, 2, 2)]),
    "taken": (lambda x: nd.take(x, nd.array([0, 2, 0])) ** 3, [(3, 2)]),
    "embedded": (lambda w: nd.Embedding(nd.array([0, 2]), w, input_dim=3, output_dim=2,
                                        dtype="float64") ** 3, [(3, 2)]),
    "picked": (lambda x: nd.pick(x, nd.array([0, 2])) ** 3, [(2, 3)]),
    "spread": (lambda x: x.broadcast_to((2, 3)).tile((2, 1)).flip(axis=0) ** 3, [(1, 3)]),
    "cast": (lambda x: (x.astype("float32") ** 3).astype("float64"), [(2, 2)]),
    "masked": (lambda x: nd.contrib.boolean_mask(x, nd.array([0, 1, 1])) ** 3, [(3, 2)]),
    "sequence": (lambda x: nd.SequenceMask(x, nd.array([1, 2]), use_sequence_length=True) ** 3,
                 [(3, 2, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("function", [
    lambda x: 2 * x + 1, nd.sum, nd.radians, nd.BlockGrad, nd.floor,
    lambda x: nd.dot(x, nd.ones(3))])
def test_linear_functions_have_second_derivatives_of_zero(function):
    x = nd.array([1, 2, 3])
    x.attach_grad()
    with record():
        slope, = autograd.grad(function(x), [x], create_graph=True)
    slope.backward()
    assert x.grad.asnumpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_are_differences_of_first_ones(name):
    function, shapes = TWICE[name]
    rng = np.random.default_rng(0)
    values = [rng.uniform(0.2, 0.8, shape) for shape in shapes]
    inputs = [nd.array(value, dtype="float64") for value in values]
    weights = None

    def value(arrays: list[Any]) -> Any:
        """The sum of the sines of f's gradients."""
        nonlocal weights
        for array in arrays:
            array.attach_grad()
        with record():
            y = function(*arrays)
            weights = nd.array(rng.normal(size=y.shape), dtype="float64") if weights is None \
                else weights
            grads = autograd.grad(y, arrays, weights, create_graph=True)
            return sum(nd.sin(grad).sum() for grad in grads)

    value(inputs).backward()
    step = 1e-3 if name == "cast" else 1e-6  # float32 in between
    for index, array in enumerate(inputs):
        along = rng.normal(size=array.shape)
        up, down = (value([nd.array(v + (sign * along if i == index else 0), dtype="float64")
                           for i, v in enumerate(values)]).asscalar() for sign in (step, -step))
        found = float((array.grad.asnumpy() * along).sum())
        # A difference is off by step^2, and by rounding over step.
        assert abs(found - (up - down) / (2 * step)) < (1e-3 if name == "cast" else 1e-6) * (
            1 + abs(found)), f"input {index}"


def test_gradients_may_pass_through_head_gradients():
    x, weight = marked(mx), marked(mx)
    with record():
        grad, = autograd.grad(nd.exp(x), [x], weight, create_graph=True)
    grad.backward()
    np.testing.assert_allclose(weight.grad.asnumpy(), np.exp([1, 2, 3]), rtol=1e-6)


def test_head_gradients_may_be_results():
    x, w = marked(mx), marked(mx)
    with record():
        grad, = autograd.grad(x * x, [x], w + 1, create_graph=True)
    grad.backward()
    np.testing.assert_array_equal(w.grad.asnumpy(), [2, 4, 6])


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("join", [
    lambda x, z: nd.elemwise_add(x * 2, z), lambda x, z: nd.add_n(x * 2, z, x),
    lambda x, z: nd.elemwise_add(nd.tanh(x), z.expand_dims(0).squeeze(axis=0))])
def test_head_gradients_may_be_gradients(join, request_):
    """They pass unchanged to some leaf, after that of another one has been written over them."""
    given = []
    for head in (lambda grad: grad.copy(), lambda grad: grad, lambda grad: grad.reshape((-1,))):
        x, z = marked(mx), marked(mx)
        for array in (x, z):
            autograd.mark_variables(array, nd.array([4, 5, 6]), request_)
        with record():
            y = join(x, z)
        y.backward(head(x.grad))
        given.append([x.grad.asnumpy().tolist(), z.grad.asnumpy().tolist()])
    assert given[0] == given[1] == given[2]


def test_python_code_has_no_symbol():
    from tests.programs import custom_ops

    custom_ops.register(mx)
    x = marked(mx, [[1, 2]])
    with record():
        y = functions(mx)["Scaled"](2)(x)[0]
        z = nd.Custom(x, nd.ones(2), nd.zeros(1), op_type="test_mix", factor=3)[0]
    with pytest.raises(mx.MXNetError, match="Function Scaled is Python code"):
        autograd.get_symbol(y)
    assert autograd.get_symbol(z).entries[0].node.attrs == {"op_type": "test_mix", "factor": "3"}


@pytest.mark.gpu
def test_gradients_cross_devices():
    x, c = mx.nd.array([[1, 2], [3, 4]], ctx=mx.gpu()), marked(mx, [1, 2])
    x.attach_grad()
    with record():
        y = nd.relu(x * 2)
        there = (y.as_in_context(mx.cpu()) * c * 3).sum()
        z = (y[1:] * y[:1]).sum() + there.as_in_context(mx.gpu())
    z.backward()
    assert x.grad.context == mx.gpu()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[12 + 6, 16 + 12], [4 + 6, 8 + 12]])
    np.testing.assert_array_equal(c.grad.asnumpy(), [3 * (2 + 6), 3 * (4 + 8)])


# -- memory and threads ---------------------------------------------------------------------


def test_long_chains_are_neither_deep_nor_slow_to_go():
    x = marked(mx, [1])
    with record():
        y = x
        for _ in range(20_000):
            y = y + 1
        z = y * 3
    z.backward()
    assert x.grad.asscalar() == 3 and z.asscalar() == 60_003


def test_only_what_backward_reads_stays_in_memory():
    def alive() -> list[bool]:
        gc.collect()
        return [reference() is not None for reference in references]

    x, added, factor = marked(mx), nd.ones(3), nd.ones(3)
    with record():
        scaled = x * 2  # nothing reads it again: relu reads its result, + nothing
        rectified = nd.relu(scaled)
        root = nd.sqrt(rectified)
        total = (root + added) * factor
    arrays = scaled, added, rectified, root, factor, total
    references = [weakref.ref(array._data) for array in arrays]
    assert alive() == [True] * 6
    del scaled, added, rectified, root, factor, arrays
    assert alive() == [False, False, True, True, True, True]
    total.backward(retain_graph=True)
    assert alive() == [False, False, True, True, True, True]
    total.backward()
    assert alive() == [False] * 5 + [True]


def test_results_of_grad_share_no_memory():
    a, b, head = marked(mx), marked(mx), nd.ones(3)
    with record():
        y = (a + b).reshape((3, 1)).reshape((3,))
    grads = autograd.grad(y, [a, b], head)
    grads[0][:] = 7
    np.testing.assert_array_equal(grads[1].asnumpy(), [1, 1, 1])
    np.testing.assert_array_equal(head.asnumpy(), [1, 1, 1])


def test_gradient_arrays_may_take_part():
    x = marked(mx)
    x.grad[:] = [1, 2, 3]
    with record():
        y = x * x * x.grad
    y.backward(x.grad)
    np.testing.assert_array_equal(x.grad.asnumpy(), [2 * 1, 4 * 4, 6 * 9])


def test_threads_record_on_their_own():
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        x = marked(mx, [number])
        with record():
            y = x
            for _ in range(50):
                y = y * 1 + x
        y.backward()
        found[number] = x.grad.asnumpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with autograd.pause():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [found[number].tolist() for number in range(4)] == [[51]] * 4


# -- boolean_mask, whose shape depends on values --------------------------------------------


def test_a_mask_of_other_length_or_that_selects_nothing_is_an_error():
    data = mx.nd.ones((2, 3))
    mask = mx.nd.contrib.boolean_mask
    for index, words in (([1, 0, 1], r"index has shape \(3,\), expected one element for each row"),
                         ([[1, 0]], "index has shape"), ([0, 0], "index selects no row")):
        with pytest.raises(mx.MXNetError, match=words):
            mask(data, mx.nd.array(index))
    with pytest.raises(mx.MXNetError, match=r"shape \(2, 3\), expected \(1, 3\), which follows"):
        mask(data, mx.nd.array([0, 1]), out=mx.nd.ones((2, 3)))
    masked = mx.sym.contrib.boolean_mask(mx.sym.Variable("a"), mx.sym.Variable("i"), name="kept")
    with pytest.raises(mx.MXNetError, match="rows of data and index"):
        masked.infer_shape(a=(3, 2), i=(4,))
    with pytest.raises(mx.MXNetError, match=r"kept \(_contrib_boolean_mask\).*depends on"):
        mx.sym.FullyConnected(masked, num_hidden=2).simple_bind(mx.cpu(), a=(3, 2), i=(3,))


# -- scripts --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", autograd_scripts.SCRIPTS)
def test_scripts_learn_the_same(oracle, name):
    ours = autograd_scripts.SCRIPTS[name](mx)
    theirs = oracle.call("mx_scripts.run", "autograd_scripts", name)
    assert_like(ours, theirs, 1e-4, name)  # some ten updates, each on top of the ones before
