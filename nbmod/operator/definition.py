"""The adapter from a user's `CustomOpProp` to the op `Custom` (see `ops.custom`).

It calls the user's methods and checks what they return.  An exception in them becomes the cause of
an MXNetError that names operator and method.

Arrays are wrapped as NDArrays once, when the executor prepares its steps.  An output or gradient
that nothing reads is an NDArray whose memory is allocated when it is first used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import FLAG_OF_DTYPE, MXNetError
from ..context import Context, current_context, resolve
from ..core.interrupts import from_handler
from ..ndarray import NDArray
from ..ndarray.eager import clear_caches
from ..ndarray.recording import RecordingScope
from ..ops.custom import FACTORIES, Arrays
from ..ops.device import device_of
from ..ops.jit import denormals
from ..ops.op import Call, PartialType, Spec
from ..ops.shape import PartialShape

__all__ = ["enter"]


def enter(name: str, make: Callable[[dict[str, str]], Any]) -> None:
    """Register `make`, which makes a prop of a node's parameters, as custom operator `name`."""
    FACTORIES[name] = lambda parameters: PropDefinition(name, make(parameters))
    clear_caches()


class PropDefinition:
    """A prop as an `ops.custom.Definition`."""

    def __init__(self, name: str, prop: Any):
        self.name, self.module, self._prop = name, type(prop).__module__, prop
        self.arguments = self._names("list_arguments")
        self.outputs = self._names("list_outputs")
        self.states = self._names("list_auxiliary_states")
        inputs = self.arguments + self.states
        twice = sorted({argument for argument in inputs if inputs.count(argument) > 1})
        if twice or not self.outputs:
            raise MXNetError(f"custom operator {name!r}: arguments and states "
                             f"{list(inputs)}, outputs {list(self.outputs)}; expected "
                             + ("names that differ" if twice else "at least one output"))
        self.needs = self._dependencies()

    def _call(self, method: str, *args: Any) -> Any:
        return self._guarded(method, getattr(self._prop, method), *args)

    def _guarded(self, what: str, function: Callable, *args: Any, **kwargs: Any) -> Any:
        try:
            with denormals(keep=True):  # user code runs in the default mode
                return function(*args, **kwargs)
        except Exception as error:
            if from_handler(error):
                raise
            raise MXNetError(f"custom operator {self.name!r}: {what} raised "
                             f"{type(error).__name__}: {error}") from error

    def _wrong(self, method: str, result: Any, expected: str) -> MXNetError:
        return MXNetError(f"custom operator {self.name!r}: {method} returned {result!r}, "
                          f"expected {expected}")

    def _names(self, method: str) -> tuple[str, ...]:
        names = self._call(method)
        if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
            raise self._wrong(method, names, "a list of text")
        return tuple(names)

    def _dependencies(self) -> tuple[str, ...]:
        """`needs` of the op, which always include auxiliary states."""
        ids = itertools.count()
        grads, ins, outs = ([next(ids) for _ in names]
                            for names in (self.outputs, self.arguments, self.outputs))
        declared = set(self._call("declare_backward_dependency", grads, ins, outs))
        reads_in = [n for n, i in zip(self.arguments, ins, strict=True) if i in declared]
        reads_out = [n for n, i in zip(self.outputs, outs, strict=True) if i in declared]
        clear = not {*self.arguments, *self.states} & {*self.outputs, "ograd", "ograds", "args",
                                                       "outs"}
        if not clear or len(set(self.outputs)) < len(self.outputs):
            reads_in, reads_out = ["args"], ["outs"]
        else:
            reads_in += self.states
        head = ["ograds"] if declared & set(grads) else []
        return (*head, *reads_in, *reads_out) or ("args",)

    # -- inference --------------------------------------------------------------------------

    def infer_shape(self, ins: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        known = [[] if shape is None else [dim or -1 for dim in shape] for shape in ins]
        return self._infer("infer_shape", ins, known, _read_shape)

    def infer_type(self, ins: list[PartialType]) -> tuple[list[PartialType], list[PartialType]]:
        known = [None if dtype is None else dtype.type for dtype in ins]
        return self._infer("infer_type", ins, known,
                           lambda dtype: None if dtype is None else np.dtype(dtype))

    def _infer(self, method: str, ins: list, known: list, read: Callable[[Any], Any]
               ) -> tuple[list, list]:
        """Shapes or types of arguments and states, and of outputs, from the user's `method`."""
        try:
            answer = self._call(method, known)
        except MXNetError:
            if not ins or ins[0] is not None:
                raise
            return [None] * (len(ins) + len(self.states)), [None] * len(self.outputs)
        if not isinstance(answer, (list, tuple)) or len(answer) not in (2, 3):
            raise self._wrong(method, answer, "two or three lists: arguments, outputs, states")
        lists = []
        parts = zip((*answer, ()), ("arguments", "outputs", "auxiliary states"),
                    (self.arguments, self.outputs, self.states), strict=False)
        for facts, what, names in parts:
            try:
                lists.append([read(fact) for fact in facts])
            except (TypeError, ValueError, KeyError):
                raise self._wrong(method, answer, f"a list for the {what}") from None
            if len(lists[-1]) != len(names):
                raise self._wrong(method, answer, f"{len(names)} for the {what} {list(names)}")
        return lists[0] + lists[2], lists[1]

    # -- execution --------------------------------------------------------------------------

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Callable[[], None]:
        ctx = _context(call)
        data = [NDArray(array, ctx) for array in ins]
        results = [_wrap(array, ctx, call, i) for i, array in enumerate(outs)]
        count = len(self.arguments)
        req = ["null" if array is None else "write" for array in outs]
        operator = self._operator(ctx, data, call)

        def run() -> None:
            with RecordingScope(False, call.is_train):
                self._guarded("forward", operator().forward, is_train=call.is_train, req=list(req),
                              in_data=data[:count], out_data=list(results), aux=data[count:])

        return run

    def prepare_backward(self, ins: Arrays, outs: Sequence[Any], call: Call
                         ) -> Callable[[], None]:
        ctx, count = _context(call), len(self.arguments)

        def arrays(kind: str, names: Sequence[str], first: int = 0) -> list[NDArray]:
            return [NDArray(ins[kind, i], ctx) if (kind, i) in ins else _Undeclared(kind, name, ctx)
                    for i, name in enumerate(names, first)]

        ograd, data = arrays("ograd", self.outputs), arrays("in", self.arguments)
        out, aux = arrays("out", self.outputs), arrays("in", self.states, count)
        grads = [_wrap(array, ctx, call, i) for i, array in enumerate(outs[:count])]
        req = ["null" if array is None else "write" for array in outs[:count]]
        operator = self._operator(ctx, data + aux, call)

        def run() -> None:
            with RecordingScope(False, call.is_train):
                self._guarded("backward", operator().backward, req=list(req), out_grad=list(ograd),
                              in_data=list(data), out_data=list(out), in_grad=list(grads),
                              aux=list(aux))

        return run

    def _operator(self, ctx: Context, data: list[NDArray], call: Call) -> Callable[[], Any]:
        """The operator of this node in this executor; in a loop, one for each iteration.

        Forward and backward share it.
        """
        operators = {} if call.state is None else call.state.setdefault("operators", {})
        mode = call.mode

        def operator() -> Any:
            if mode.iteration not in operators:
                operators[mode.iteration] = self._create(ctx, data)
            return operators[mode.iteration]

        operator()  # errors are raised at bind
        return operator

    def _create(self, ctx: Context, data: list[NDArray]) -> Any:
        operator = self._call("create_operator", ctx, [list(array.shape) for array in data],
                         [FLAG_OF_DTYPE[np.dtype(array.dtype)] for array in data])
        if not callable(getattr(operator, "forward", None)):
            raise self._wrong("create_operator", operator, "a CustomOp")
        return operator


def _read_shape(shape: Any) -> PartialShape:
    return tuple(max(int(dim), 0) for dim in shape) or None


def _context(call: Call) -> Context:
    return call.ctx if call.ctx is not None else resolve(current_context())


def _wrap(array: Any, ctx: Context, call: Call, index: int) -> NDArray:
    """An output array; one that nothing reads is allocated when it is first used."""
    return _Unwanted(call.specs[index], ctx) if array is None else NDArray(array, ctx)


class _Unwanted(NDArray):
    """An output or gradient that nothing reads: zeros, allocated on first use."""

    __slots__ = ("_spec", "_made")

    def __init__(self, spec: Spec, ctx: Context):
        self._spec, self._ctx, self._made, self._entry = spec, ctx, None, None

    @property
    def _data(self) -> Any:
        if self._made is None:
            self._made = device_of(self._ctx).full(*self._spec, 0)
        return self._made

    @property
    def shape(self) -> tuple[int, ...]:
        return self._spec.shape


class _Undeclared(NDArray):
    """An array that `declare_backward_dependency` leaves out: reading it is an error."""

    __slots__ = ("_what",)

    def __init__(self, kind: str, name: str, ctx: Context):
        words = {"ograd": "gradient of output", "in": "input", "out": "output"}
        self._what, self._ctx, self._entry = f"{words[kind]} {name!r}", ctx, None

    @property
    def _data(self) -> Any:
        raise MXNetError(f"the {self._what} is not there: declare_backward_dependency leaves it "
                         "out (it leaves out gradients of outputs if need_top_grad is False)")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()
