"""How `for i in prange(n)` is compiled: the loop becomes a function that every thread calls.

numba's option `parallel=True` searches all expressions for parallelism, infers the types of a
loop's body twice, and calls it through the wrappers of universal functions, which takes longer than
the compilation of many a kernel.  Kernels say which of their loops are parallel, and iterations
share nothing but what they read.  So before types are inferred, a pass moves the blocks of such a
loop to a function of their own,

    def body(first, last, *inputs):
        for i in range(first, last):
            ...

and puts a call in their place that runs it in all threads, by the function that numba's threading
layers have for this purpose.  Threads get equal numbers of iterations.  The index is unsigned, so
that an element is addressed without a test for negative indices.

This module imports numba, so it is imported when a kernel is compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import numba
from llvmlite import ir as llvm
from numba import types
from numba.core import cgutils, ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.callconv import errcode_t, excinfo_ptr_t
from numba.core.compiler import compile_ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.ir_utils import build_definitions, fill_callee_prologue, get_definition, guard
from numba.core.postproc import PostProcessor
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numba.core.compiler import StateDict
    from numba.core.controlflow import Loop
    from numba.core.cpu import CPUContext
    from numba.core.funcdesc import FunctionDescriptor
    from numba.core.typing import Context, Signature

__all__ = ["OutlineParallelLoops"]

WORD = llvm.IntType(64)
BYTES = llvm.IntType(8).as_pointer()


class ParallelLoop(NamedTuple):
    """A loop over `prange` in numba's IR."""

    entry: int
    """The label of the block that jumps to the header."""
    start: int
    """The position in the entry of the statement that makes the iterator."""
    header: int
    exit: int
    body: set[int]
    """Labels of all blocks, also of those that raise exceptions."""
    call: ir.Expr
    """The call of `prange`."""


@register_pass(mutates_CFG=True, analysis_only=False)
class OutlineParallelLoops(FunctionPass):
    """The pass, which follows `IRProcessing`; the compiler's `of_bodies` compiles what it makes."""

    _name = "outline_parallel_loops"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: StateDict) -> bool:
        """Outline the outermost parallel loops of a function."""
        func_ir, loops = state.func_ir, _parallel_loops(state.func_ir)
        inputs = [_inputs(loop, func_ir) for loop in loops]
        for loop, names in zip(loops, inputs, strict=True):
            callee = _call_in_threads(_body(loop, func_ir, names), len(names), state)
            _replace(loop, func_ir.blocks, callee, names)
        state.typingctx.refresh()   # it learns the callees
        func_ir._definitions = build_definitions(func_ir.blocks)
        func_ir._reset_analysis_variables()
        PostProcessor(func_ir).run()
        return bool(loops)


# -- numba's IR -----------------------------------------------------------------------------------


def _parallel_loops(func_ir: ir.FunctionIR) -> list[ParallelLoop]:
    """The outermost parallel loops; those inside of them are run by one thread."""
    loops = [parallel_loop for loop in compute_cfg_from_blocks(func_ir.blocks).loops().values()
             if (parallel_loop := _parallel_loop(loop, func_ir)) is not None]
    return [loop for loop in loops
            if not any(loop.header in other.body for other in loops if other is not loop)]


def _parallel_loop(loop: Loop, func_ir: ir.FunctionIR) -> ParallelLoop | None:
    """A loop of a control flow graph, if it iterates over `prange`."""
    if len(loop.entries) != 1:
        return None
    [entry] = loop.entries
    for start, statement in enumerate(func_ir.blocks[entry].body):
        call = _iterated_call(statement, func_ir)
        function = call and guard(get_definition, func_ir, call.func)
        if call and isinstance(function, ir.Global) and function.value is numba.prange:
            errors = {label for label in loop.exits
                      if isinstance(func_ir.blocks[label].terminator, ir.Raise)}
            if len(call.args) != 1 or len(loop.exits - errors) != 1:
                raise UnsupportedError("a parallel loop has one argument, the number of its "
                                       "iterations, and no break or return", call.loc)
            [exit] = loop.exits - errors
            return ParallelLoop(entry, start, loop.header, exit, loop.body | errors, call)
    return None


def _iterated_call(statement: ir.Stmt, func_ir: ir.FunctionIR) -> ir.Expr | None:
    """The call whose result a statement makes an iterator of; None for other statements."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ir.Expr) or value.op != "getiter":
        return None
    definition = guard(get_definition, func_ir, value.value)
    return definition if isinstance(definition, ir.Expr) and definition.op == "call" else None


def _inputs(loop: ParallelLoop, func_ir: ir.FunctionIR) -> list[str]:
    """The names of variables that a loop reads and does not assign."""
    lifetime = func_ir.variable_lifetime
    used, assigned = (set().union(*(names[label] for label in loop.body))
                      for names in (lifetime.usedefs.usemap, lifetime.usedefs.defmap))
    iterators = {each.target.name for each in func_ir.blocks[loop.entry].body[loop.start:-1]}
    inputs = (lifetime.livemap[loop.header] & used) - iterators
    shared = assigned & (inputs | lifetime.livemap[loop.exit])
    if shared:
        raise UnsupportedError(f"iterations of a parallel loop share {sorted(shared)}: it assigns "
                               "them, and they are read before that or after the loop",
                               loop.call.loc)
    return sorted(inputs)


def _body(loop: ParallelLoop, func_ir: ir.FunctionIR, inputs: Sequence[str]) -> ir.FunctionIR:
    """The IR of the function body(first, last, *inputs)."""
    entry, loc = func_ir.blocks[loop.entry], loop.call.loc
    scope = entry.scope
    function, numbers, *bounds = (scope.make_temp(loc) for _ in range(4))
    arguments = [*(each.name for each in bounds), *inputs]
    begin = fill_callee_prologue(ir.Block(scope, loc), arguments, loop.header)
    jump = begin.body.pop()
    begin.body += [
        ir.Assign(ir.Global("range", range, loc), function, loc),
        ir.Assign(ir.Expr.call(function, bounds, (), loc), numbers, loc),
        ir.Assign(ir.Expr.getiter(numbers, loc), entry.body[loop.start].target, loc),
        *entry.body[loop.start + 1:-1], jump]
    nothing, result = scope.make_temp(loc), scope.make_temp(loc)
    end = ir.Block(scope, loc)
    end.body = [ir.Assign(ir.Const(None, loc), nothing, loc),
                ir.Assign(ir.Expr.cast(nothing, loc), result, loc), ir.Return(result, loc)]

    blocks = {label: func_ir.blocks[label] for label in loop.body}
    blocks |= {min(blocks) - 1: begin, loop.exit: end}      # a function begins at its least label
    body = func_ir.derive(blocks, len(arguments), tuple(arguments), loc=loc)
    body._definitions = build_definitions(blocks)
    return body


def _replace(loop: ParallelLoop, blocks: dict[int, ir.Block], callee: Callable,
             inputs: Sequence[str]) -> None:
    """Put a call of `callee` in the place of a loop."""
    entry, loc = blocks[loop.entry], loop.call.loc
    scope = entry.scope
    function, result = scope.make_temp(loc), scope.make_temp(loc)
    arguments = [*loop.call.args, *map(scope.get_exact, inputs)]
    entry.body[loop.start:] = [
        ir.Assign(ir.Global("parallel_loop", callee, loc), function, loc),
        ir.Assign(ir.Expr.call(function, arguments, (), loc), result, loc),
        ir.Jump(loop.exit, loc)]
    for label in loop.body:
        del blocks[label]


# -- LLVM's IR ------------------------------------------------------------------------------------


def _call_in_threads(body: ir.FunctionIR, number: int, state: StateDict) -> Callable:
    """An intrinsic callee(count, *inputs), with that number of inputs, which calls the function
    `body` in all threads."""
    target, flags, compiler = state.targetctx, state.flags.copy(), state.pipeline.of_bodies
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True

    def callee(typingctx: Context, *kinds: types.Type) -> tuple[Signature, Callable]:
        arguments = types.uintp, types.uintp, *map(types.unliteral, kinds[1:])
        compiled = compile_ir(typingctx, target, body.copy(), arguments, types.none, flags, {},
                              pipeline_class=compiler)

        def code(context: CPUContext, builder: llvm.IRBuilder, signature: Signature,
                 values: Sequence[llvm.Value]) -> llvm.Value:
            context.add_linking_libs([compiled.library])
            _Threads(context, builder, compiled.fndesc, values[1:]).run(values[0])
            return context.get_dummy_value()

        return types.void(types.intp, *arguments[2:]), code

    names = ["typingctx", "count", *(f"input{n}" for n in range(number))]
    callee.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return intrinsic(callee)


class _Threads:
    """Emits the code that calls the function of a loop's body in all threads."""

    def __init__(self, context: CPUContext, builder: llvm.IRBuilder, body: FunctionDescriptor,
                 inputs: Sequence[llvm.Value]) -> None:
        self.context, self.builder, self.body, self.inputs = context, builder, body, inputs
        self.shared = llvm.LiteralStructType(
            [errcode_t, excinfo_ptr_t, WORD, WORD, *(value.type for value in inputs)])
        """Data that threads share: the error of one of them; the numbers of iterations and of
        threads; the inputs."""

    def run(self, count: llvm.Value) -> None:
        """Run all iterations, and return from the kernel if one failed.

        A single one is run by the calling thread, without the threading layer.
        """
        builder, none = self.builder, llvm.Constant(BYTES, None)
        threads = builder.call(self._declared("get_num_threads", WORD), [])
        some = builder.select(builder.icmp_signed(">", count, WORD(0)), count, WORD(0))
        shared = cgutils.alloca_once(builder, self.shared)
        for number, value in enumerate([*(kind(None) for kind in self.shared.elements[:2]), some,
                                        threads, *self.inputs]):
            builder.store(value, cgutils.gep_inbounds(builder, shared, 0, number))
        # The layer adds n steps to the address of a thread's argument: from 0, the n-th gets n.
        places = [cgutils.alloca_once(builder, value.type) for value in (none, threads, WORD(1))]
        for place, value in zip(places, (none, threads, WORD(1)), strict=True):
            builder.store(value, place)
        thread, arguments = self._thread(), [*places, builder.bitcast(shared, BYTES)]
        with builder.if_else(builder.icmp_signed(">", count, WORD(1))) as (several, one):
            with several:
                layer = self._declared("numba_parallel_for", llvm.VoidType(), *[BYTES] * 5,
                                       *[WORD] * 3)
                builder.call(layer, [*(builder.bitcast(each, BYTES)
                                       for each in (thread, *arguments)),
                                     WORD(0), WORD(1), threads])
            with one:
                builder.call(thread, arguments)
        code, info = (builder.load(cgutils.gep_inbounds(builder, shared, 0, number))
                      for number in (0, 1))
        with builder.if_then(builder.icmp_signed("!=", code, errcode_t(0)), likely=False):
            self.context.call_conv.return_status_propagate(
                builder, SimpleNamespace(code=code, excinfoptr=info))

    def _declared(self, name: str, result: llvm.Type, *kinds: llvm.Type) -> llvm.Function:
        return cgutils.get_or_insert_function(self.builder.module,
                                              llvm.FunctionType(result, kinds), name)

    def _thread(self) -> llvm.Function:
        """The function that the layer calls for one thread, or for several in succession."""
        words = WORD.as_pointer()
        kind = llvm.FunctionType(llvm.VoidType(), [BYTES.as_pointer(), words, words, BYTES])
        function = llvm.Function(self.builder.module, kind, f"threads.{self.body.mangled_name}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = llvm.IRBuilder(function.append_basic_block())
        shared = builder.bitcast(function.args[3], self.shared.as_pointer())
        code, info, *pointers = (cgutils.gep_inbounds(builder, shared, 0, number)
                                 for number in range(len(self.shared.elements)))
        count, threads, *inputs = map(builder.load, pointers)
        first = builder.ptrtoint(builder.load(function.args[0]), WORD)
        last = builder.add(first, builder.load(function.args[1]))
        bounds = [builder.udiv(builder.mul(each, count), threads) for each in (first, last)]
        inputs = [_borrowed(self.context, builder, kind, value)
                  for kind, value in zip(self.body.argtypes[2:], inputs, strict=True)]
        status, _ = self.context.call_conv.call_function(
            builder, self.context.declare_function(self.builder.module, self.body),
            self.body.restype, self.body.argtypes, [*bounds, *inputs], attrs=["alwaysinline"])
        with builder.if_then(status.is_error, likely=False):
            builder.store(status.code, code)
            builder.store(status.excinfoptr, info)
        builder.ret_void()
        return function


def _borrowed(context: CPUContext, builder: llvm.IRBuilder, kind: types.Type, value: llvm.Value
              ) -> llvm.Value:
    """An argument whose arrays have no owners, so that references to them are not counted."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [
            _borrowed(context, builder, each, builder.extract_value(value, number))
            for number, each in enumerate(kind)])
    return value
