"""Signals at moments where an exception would be lost, or would leave modules half imported."""

from __future__ import annotations

import _signal
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import nbmod as mx
from nbmod.core import fork, interrupts, locks
from tests.reliability import alarms
from tests.reliability.figures import Effort

needs_alarms = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarms here")


@pytest.fixture
def handle():
    """Assigns handlers, of SIGINT unless another is named; pytest-xdist ignores that signal."""
    before = {}

    def assign(handler, number=signal.SIGINT):
        before.setdefault(number, signal.getsignal(number))
        signal.signal(number, handler)

    yield assign
    for number, handler in before.items():
        signal.signal(number, handler)


def press():
    signal.raise_signal(signal.SIGINT)


class PressedAt:
    """Sends a signal before the n-th instruction of functions in `interrupts`."""

    def __init__(self, number, send=press):
        self.left, self.send = number, send

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != interrupts.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self.send()
        return self


@pytest.fixture
def few_signals(monkeypatch):
    """Blocks look at the first signals only, so that they have fewer instructions."""
    monkeypatch.setattr(interrupts, "_signal", SimpleNamespace(
        NSIG=15, signal=_signal.signal, getsignal=_signal.getsignal))


def deferred_with(trace, inside=lambda: None):
    """Run a block of `deferred` under a trace function, and return what it raises."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with interrupts.deferred():
            inside()
    except BaseException as error:
        return error
    finally:
        sys.settrace(before)


def test_the_handler_before_is_restored_whenever_ctrl_c_comes(handle, few_signals):
    handle(signal.default_int_handler)
    for number in range(1, 1000):
        trace = PressedAt(number)
        error = deferred_with(trace)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
        if trace.left > 0:
            break
        assert isinstance(error, KeyboardInterrupt), f"lost before instruction {number}"
    assert trace.left > 0 and number > 100


@needs_alarms
def test_two_signals_are_both_handled_whenever_the_second_comes(handle, few_signals):
    """An alarm waits, and Ctrl-C comes at any moment."""
    handle(signal.default_int_handler)
    called = []

    def alarm(number, frame):
        called.append(number)
        raise TimeoutError("alarm")

    handle(alarm, signal.SIGALRM)
    for number in range(1, 1000):
        called.clear()
        trace = PressedAt(number)
        error = deferred_with(trace, lambda: signal.raise_signal(signal.SIGALRM))
        assert signal.getsignal(signal.SIGALRM) is alarm, number
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
        if trace.left > 0:
            assert isinstance(error, TimeoutError)
            break
        chain = [error, error.__context__, getattr(error.__context__, "__context__", None)]
        assert KeyboardInterrupt in map(type, chain), number
        # Python lets no signal come between an exception or a call and its first instruction; this
        # does, so that one of both handlers may be left out there.
        assert called or type(error) is KeyboardInterrupt, number
    assert trace.left > 0 and number > 100


def test_nested_blocks(handle):
    """The end of an inner block is not the end."""
    handle(signal.default_int_handler)
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        with interrupts.deferred():
            press()
        reached.append(1)
    assert reached and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_in_a_callback_of_c_is_not_lost(handle):
    """ctypes prints an exception of a callback and drops it; llvmlite calls such callbacks."""
    handle(signal.default_int_handler)
    callback = ctypes.CFUNCTYPE(None)(press)
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        callback()
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.deferred():
        callback()
        raise RuntimeError("no compiled object yet")
    assert isinstance(caught.value.__context__, RuntimeError)


def numbers_of_signals():
    """All for which Python may have a handler."""
    unusual = {getattr(signal, name, None) for name in (
        "SIGKILL", "SIGSTOP", "SIGSEGV", "SIGFPE", "SIGILL", "SIGBUS", "SIGABRT")}
    return sorted(signal.valid_signals() - unusual)


def test_signals_of_all_kinds_come_at_the_end_in_order_and_once(handle):
    numbers, called = numbers_of_signals()[::-1], []
    for number in numbers:
        handle(lambda number, frame: called.append((number, frame)), number)
    before = [signal.getsignal(number) for number in numbers]
    with interrupts.deferred():
        for number in [*numbers, *numbers]:
            signal.raise_signal(number)
        assert not called
    assert [number for number, _ in called] == numbers
    assert all(frame.f_code.co_filename == __file__ for _, frame in called)
    assert [signal.getsignal(number) for number in numbers] == before


def test_signals_without_handlers_in_python_are_left_alone(handle):
    handle(signal.SIG_IGN)
    with interrupts.deferred():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        press()


def test_a_handler_that_is_set_within_a_block_stays(handle):
    handle(signal.default_int_handler)
    other = Mock()
    with interrupts.deferred():
        signal.signal(signal.SIGINT, other)
    assert signal.getsignal(signal.SIGINT) is other


def test_nothing_is_changed_outside_of_the_main_thread(handle):
    handle(signal.default_int_handler)
    found = []

    def enter():
        with interrupts.deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_child_that_another_thread_forks_during_a_block_has_the_handlers(handle):
    handle(signal.default_int_handler)
    fork.prepare()
    status = []

    def child():
        pid = os.fork()
        if pid == 0:
            os._exit(int(signal.getsignal(signal.SIGINT) is not signal.default_int_handler))
        status.append(os.waitpid(pid, 0)[1])

    thread = threading.Thread(target=child)
    with interrupts.deferred():
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert status == [0]


def test_who_is_interrupted_does_not_wait_for_another_process(handle, tmp_path):
    """Which compiles the same kernel: that may take two minutes."""
    handle(signal.default_int_handler)
    with locks.locked(tmp_path / "claim", 0), pytest.raises(KeyboardInterrupt):
        with interrupts.deferred():
            press()
            with locks.locked(tmp_path / "claim", 10 ** 6) as owned:
                assert not owned


class Expired(Exception):
    """Raised by the handlers below."""


def raising(number, frame):
    raise Expired


def starred(*arguments):
    raise Expired


class Handler:
    def method(self, number, frame):
        raise Expired

    def __call__(self, number, frame):
        raise Expired


HANDLERS = {
    "function": raising, "starred": starred, "method": Handler().method, "object": Handler(),
    "partial": functools.partial(lambda extra, number, frame: raising(number, frame), 1),
    "nested": lambda number, frame: (lambda: starred())(),
    "removes itself": lambda number, frame: (signal.signal(number, signal.SIG_DFL), starred()),
}


class Interrupted(mx.operator.CustomOp):
    """Gets a signal in the middle of Python code that an operator runs."""

    def forward(self, is_train, req, in_data, out_data, aux):
        press()
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        press()
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("interrupted")
class InterruptedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Interrupted()


@pytest.mark.parametrize("form", HANDLERS)
@pytest.mark.parametrize("watched", [False, True])
def test_exceptions_of_handlers_come_out_of_forward_and_backward(handle, form, watched):
    executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="interrupted").simple_bind(
        mx.cpu(), x=(2,))
    if watched:
        executor.set_monitor_callback(lambda name, array: None)
    handle(HANDLERS[form])
    with pytest.raises(Expired):
        executor.forward(is_train=True)
    handle(lambda *_: None)
    executor.forward(is_train=True)
    handle(HANDLERS[form])
    with pytest.raises(Expired):
        executor.backward(mx.nd.ones(2))


def test_errors_of_operators_are_translated(handle):
    """Also while there is a handler, whether it was called or not."""
    handle(raising)

    class Broken(Interrupted):
        def forward(self, is_train, req, in_data, out_data, aux):
            raise Expired

    class BrokenProp(InterruptedProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Broken()

    mx.operator.register("broken")(BrokenProp)
    executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="broken").simple_bind(mx.cpu(), x=(2,))
    with pytest.raises(mx.MXNetError, match="broken.*Expired"):
        executor.forward()


@pytest.mark.parametrize("read, function", [
    (lambda path: mx.nd.load(path), "builtins.open"),
    (lambda path: mx.sym.load(path), "builtins.open"),
    (lambda path: mx.recordio.MXRecordIO(path, "r").read(), "os.open"),
    (lambda path: mx.recordio.MXRecordIO(path, "w").write(b""), "builtins.open"),
    (lambda path: mx.sym.Variable("x").save(path), "builtins.open"),
], ids=["arrays", "symbol", "records", "written records", "written symbol"])
def test_a_timeout_is_no_error_of_a_file(handle, tmp_path, monkeypatch, read, function):
    """TimeoutError is an OSError, of which readers say that the file cannot be read."""
    path = str(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"")

    def expire(number, frame):
        raise TimeoutError

    def opened(*args, **kwargs):
        press()
        raise AssertionError("the handler raises")

    handle(expire)
    monkeypatch.setattr(function, opened)
    with pytest.raises(TimeoutError):
        read(path)


IMPORTS = """
import builtins, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import nbmod as mx
importing, left = builtins.__import__, [int(sys.argv[1])]

def pressing(name, *args, **kwargs):
    left[0] -= 1
    if left[0] == 0:
        signal.raise_signal(signal.SIGINT)
    return importing(name, *args, **kwargs)

def work():
    x = mx.sym.relu(mx.sym.topk(mx.sym.Variable("x")))
    return x.bind(mx.cpu(), {"x": mx.nd.array([[1, 3]])}).forward()[0].asnumpy().tolist()

builtins.__import__ = pressing
try:
    work()
except KeyboardInterrupt:
    pass
else:
    assert left[0] > 0, "lost"
builtins.__import__ = importing
assert work() == [[1.0]]
"""


@pytest.mark.parametrize("number", [60, 300, 1000, 2500])
def test_a_process_works_on_after_an_interrupted_import(number):
    """In a notebook: of nbmod's modules and of the compiler."""
    subprocess.run([sys.executable, "-c", IMPORTS, str(number)], check=True, timeout=200)


UNDEFERRED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
undeferred = []

class Finder:
    def find_spec(name, path, target=None):
        if name == "numpy" or name.startswith(("numba", "llvmlite")):
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                undeferred.append(name)

sys.meta_path.insert(0, Finder)
import nbmod as mx
exec(sys.argv[1])
print(undeferred, "llvmlite" in sys.modules)
"""
WAYS = {
    "threads": "from nbmod.ops.jit import num_threads; num_threads()",
    "set threads": "mx.set_num_threads(1)",
    "features": "from nbmod.ops.build import levels; levels.supported()",
    "digest": "from nbmod.ops.build import store; store.compiler_of()",
    "network": "mx.sym.FullyConnected(mx.sym.Variable('x'), num_hidden=2).simple_bind("
               "mx.cpu(), x=(2, 3)).forward(is_train=True)",
}


@pytest.mark.parametrize("way", WAYS)
def test_signals_wait_while_the_compiler_is_imported(way):
    """Whatever asks for it first."""
    done = subprocess.run([sys.executable, "-c", UNDEFERRED, WAYS[way]], text=True, check=True,
                          capture_output=True, timeout=200)
    assert done.stdout == "[] True\n"


@needs_alarms
def test_handlers_that_raise_at_random_moments():
    """The trials of docs/reliability.md, fewer of them."""
    [figure] = alarms.measure(Effort(share=0.1, seed=1))
    assert figure.trials == 40 and not figure.failures, figure.failures
