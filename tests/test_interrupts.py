"""Ctrl-C at moments where an exception would be lost, or would leave modules half imported."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading

import pytest

from nbmod import interrupts


@pytest.fixture
def handle():
    """Assigns a handler of SIGINT; pytest-xdist ignores that signal."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


class PressedAt:
    """Presses Ctrl-C before the n-th line or return of functions in `interrupts`."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != interrupts.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                press()
        return self


@pytest.mark.parametrize("block", [interrupts.interruptible, interrupts.deferred])
def test_the_handler_before_is_restored_whenever_ctrl_c_comes(handle, block):
    handle(signal.default_int_handler)
    for number in range(1, 400):
        trace = PressedAt(number)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with block():
                pass
        except KeyboardInterrupt:
            sys.settrace(before)
        else:
            sys.settrace(before)
            assert trace.left > 0, f"lost before instruction {number}"
            break
        finally:
            sys.settrace(before)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
    assert trace.left > 0 and number > 20


def test_nested_blocks(handle):
    handle(signal.default_int_handler)
    callback = ctypes.CFUNCTYPE(None)(press)
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
            with interrupts.interruptible():
                callback()
    finally:
        sys.unraisablehook = unraisable
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_deferred_interrupt_comes_at_the_end(handle):
    handle(signal.default_int_handler)
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        press()
        press()
        reached.append(1)
    assert reached and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("block", [interrupts.interruptible, interrupts.deferred])
def test_nothing_is_changed_outside_of_the_main_thread(handle, block):
    handle(signal.default_int_handler)
    found = []

    def enter():
        with block():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


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
