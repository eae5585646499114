"""`Explanation`: the facts of a plan, and answers to questions about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import ArgumentError, MXNetError
from ..core.atomic import atomic_write
from ..passes.memory.plan_step import PLANNER_PASSES
from . import html_page, memory_answers, node_answers
from .advice import advice_answer, advice_on
from .facts import facts_of
from .facts_json import from_json, to_json
from .failures import facts_of_symbol, failure_of_bind
from .node_history import NodeHistory
from .notebook import explanation_html
from .overview import overview
from .pass_differences import passes_answer
from .plan_comparison import compared
from .plan_names import PlanNames
from .reproducer import Reproducer, reproducer_of
from .run_recorder import recorded_run
from .schema import BindFacts, MeasuredFacts, Variant
from .step_answers import code_answer, run_answer, step_answer
from .variants_table import passes_at_work, variants_answer, variants_by_name, with_variants
from .what_if import WhatIf
from .wording import Answer

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..context import Context
    from ..execution.bind import GradReq
    from ..execution.steps import PlannedProgram
    from ..symbol import Symbol

__all__ = ["Explanation"]


class Explanation:
    """Why every step of a plan is as it is.

    Its text is a summary.  Questions name a node of the symbol by its name or that of its output, a
    tensor as MXNet ("conv1_output") or a table of steps ("conv1") has it, a step by its number or
    by the name of its node; numbers of nodes and tensors are those of the facts.  A question about
    something that is not there, or of which there are several, is an MXNetError.

    Parameters
    ----------
    facts : BindFacts
        Everything that was decided, and why, as plain values.
    what_if : WhatIf, optional
        The network, for plans that it would have; facts from a file are without it.
    program : PlannedProgram, optional
        The plan with its arrays, to run it.
    """

    def __init__(self, facts: BindFacts, what_if: WhatIf | None = None,
                 program: PlannedProgram | None = None):
        self.facts, self._what_if, self._program = facts, what_if, program

    @classmethod
    def of(cls, program: PlannedProgram, measured: MeasuredFacts | None = None) -> Explanation:
        """The explanation of a program, whose network is compiled once more, without arrays."""
        symbol, inferred = program.binding.symbol, program.binding.inferred
        facts = facts_of(inferred, program.options, symbol.name or "group", symbol.list_outputs(),
                         program.compiled)
        return cls(replace(facts, measured=measured),
                   WhatIf(inferred, program.options, program.compiled), program)

    @classmethod
    def planned(cls, symbol: Symbol, shapes: Mapping[str, Sequence[int]],
                ctx: Context | None = None, grad_req: GradReq | None = "null",
                type_dict: Mapping[str, DTypeLike] | None = None) -> Explanation:
        """The explanation of a network that is not bound: no array is made, no kernel compiled.

        Where it cannot be bound, it tells why (`facts.failure`), and what is known of the network.

        Parameters
        ----------
        symbol : Symbol
            The network.
        shapes : dict of str to tuple of int
            Shapes of variables by name.
        ctx : Context, optional
            Where it would run; the current context by default.
        grad_req : str, list or dict, default 'null'
            Requests for gradients, as those of `Symbol.simple_bind`.
        type_dict : dict of str to dtype, optional
            Element types of variables.

        Examples
        --------
        >>> from nbmod.explain.explanation import Explanation
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
        >>> Explanation.planned(net, {"data": (4, 32), "fc_weight": (8, 33)})
        fc is not bound: it fails in inference: fc (FullyConnected): ...
          ...
            weight is fc_weight, (8, 33) float32; the others need (8, 32) float32
          ...
        """
        return cls(*facts_of_symbol(symbol, shapes, ctx, grad_req, type_dict))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Explanation:
        """The explanation in a file that `json` wrote, of this version or an earlier one."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise MXNetError(f"explain: {path} is damaged: {error}") from None
        if not isinstance(values, dict):
            raise MXNetError(f"explain: {path} holds no facts: expected an object of JSON")
        return cls(from_json(values))

    def failed(self, error: Exception) -> Explanation:
        """The explanation with an error that binding the network has raised."""
        what_if = self._network("which node failed")
        return Explanation(replace(self.facts, failure=failure_of_bind(what_if.symbol, error)),
                           what_if)

    def __repr__(self) -> str:
        return overview(self.facts)

    def _repr_html_(self) -> str:
        return explanation_html(self.facts)

    # -- answers ------------------------------------------------------------------------------

    def answer(self, node: str | int | None = None, not_in: str | None = None,
               alive_at: str | int | None = None, step: str | int | None = None) -> Answer:
        """Answer one of the questions below, as `Executor.explain` asks them.

        Raises
        ------
        ArgumentError
            If it is not one question.
        """
        if (node is None) == (step is None) or (node is None or alive_at is not None) and (
                not_in is not None):
            raise ArgumentError("explain: ask about a node, which may be not_in a pass or alive_at "
                                "a step, or about a step")
        if node is None:
            return self.step(step or 0)
        if not_in is not None:
            return self.why_not(node, not_in)
        return self.why(node) if alive_at is None else self.alive(node, alive_at)

    def passes(self) -> Answer:
        """Tell what each pass changed, as a unified difference of listings with a line for a node.

        Examples
        --------
        >>> net = mx.sym.exp(mx.sym.BlockGrad(mx.sym.Variable("x"), name="block"), name="exp")
        >>> net.simple_bind(mx.cpu(), grad_req="null", x=(2, 3)).explain().passes()
        exp: pass skip_identities (read what a node passes on unchanged instead of its output)
        --- before skip_identities
        +++ after skip_identities
        @@ -1,4 +1,3 @@
         x: (2, 3) float32 = variable
        -block: (2, 3) float32 = BlockGrad of x
        -exp: (2, 3) float32 = exp of block
        +exp: (2, 3) float32 = exp of x
         outputs: exp
        """
        return passes_answer(self.facts)

    def why(self, node: str | int) -> Answer:
        """Tell what became of a node: pass by pass, its step, its implementation, its memory.

        Examples
        --------
        >>> net = mx.sym.exp(mx.sym.BlockGrad(mx.sym.Variable("x"), name="block"), name="exp")
        >>> net.simple_bind(mx.cpu(), grad_req="null", x=(2, 3)).explain().why("block")
        block: BlockGrad, (2, 3) float32
          skip_identities: is x
        its result is x, an array of the caller
        """
        return node_answers.why(self._history, self._names.node(node))

    def why_not(self, node: str | int, pass_name: str) -> Answer:
        """Tell why a pass, such as "cse", has left a node: its rule, and the facts that it saw."""
        return node_answers.why_not(self._history, self._names.node(node),
                                    self._names.pass_name(pass_name))

    def alive(self, tensor: str | int, step: str | int) -> Answer:
        """Tell why the memory of a tensor is not free at a step: who has yet to read it."""
        known = self._names.entry(tensor)
        eid = self._value(tensor) if known is None else known
        answer = memory_answers.alive(self.facts.plan, eid, self._names.step(step))
        name = self.facts.plan.entries[eid].name
        return answer if known is not None else replace(
            answer, text=f"{tensor} is {name} in the plan: {answer}")

    def storage(self, number: int) -> Answer:
        """Tell which tensors share a piece of memory, and what it would cost not to."""
        return memory_answers.storage_answer(self.facts.plan, self._names.storage(number))

    def step(self, step: str | int) -> Answer:
        """Tell what a step reads and writes, where, how, and which other ways were rejected."""
        return step_answer(self._history, self._names.step(step))

    def code(self, *steps: str | int) -> Answer:
        """Tell the kernels that steps call: their source, and their hot loops down to machine code.

        They are among the facts from then on, as `facts.code`.  Each is compiled once more, which
        takes about a second.

        Parameters
        ----------
        *steps : str or int
            Steps by number, or by the name of their node; default: all.

        Raises
        ------
        MXNetError
            If there is no such step, or the plan has no arrays.

        Examples
        --------
        >>> executor = mx.sym.exp(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(64, 64))
        >>> explanation = executor.explain()
        >>> explanation.code("exp0").data           # `exp0` calls the first kernel
        {'0': [0]}
        >>> explanation.facts.code.kernels[0].vector_bits > 64
        True
        """
        plan, known = self.facts.plan, self.facts.code
        numbers = {self._names.step(each) for each in steps} or {
            index for index, step in enumerate(plan.steps) if not step.is_view}
        rest = numbers - {each.step for each in (known.steps if known else ())}
        if rest:
            from .step_kernels import code_facts

            self.facts = replace(self.facts, code=code_facts(
                self._running("the kernels of steps"), rest, known))
        return code_answer(self.facts, numbers)

    def record(self) -> Answer:
        """Run the network once on its arrays, and tell the range of what every step wrote.

        It is a run of training where there are gradients, which are 1 for the outputs.  Outputs
        change, gradients and states do not.  From then on `facts.run` has the values.

        Raises
        ------
        MXNetError
            If the plan has no arrays, or a step fails: then `facts.failure` tells about that.

        Examples
        --------
        >>> executor = mx.sym.exp(mx.sym.Variable("x"), name="exp").simple_bind(mx.cpu(), x=(2, 3))
        >>> executor.explain().record()
        step 0 exp: exp is 1 to 1, mean 1
        step 1 exp_backward: exp_backward is 1 to 1, mean 1
        """
        self.facts, error = recorded_run(self._running("values"), self.facts)
        if error is not None:
            raise error
        return run_answer(self.facts)

    def peak(self) -> Answer:
        """Tell what is in memory when most of it is in use, and why."""
        return memory_answers.peak(self.facts)

    def compare(self, other: Explanation | str | PathLike[str]) -> Answer:
        """Tell what differs in another plan: passes, steps, bytes by cause, implementations.

        Parameters
        ----------
        other : Explanation or path
            The plan that would take the place of this one: of a changed network or of other
            passes; a path is of a file for `load`.

        Examples
        --------
        >>> net = mx.sym.exp(mx.sym.BlockGrad(mx.sym.Variable("x"), name="block"), name="exp")
        >>> executor = net.simple_bind(mx.cpu(), grad_req="null", x=(64, 64))
        >>> with mx.without_passes("skip_identities"):
        ...     other = net.simple_bind(mx.cpu(), grad_req="null", x=(64, 64))
        >>> executor.explain().compare(other.explain())
        """
        second = other if isinstance(other, Explanation) else Explanation.load(other)
        return compared(self.facts, second.facts)

    def _value(self, name: str | int) -> int:
        """The entry that has the result of a node which the plan has not by itself."""
        try:
            node = self._names.node(name)
        except MXNetError:
            raise MXNetError(f"explain: there is no tensor {name!r}"
                             f"{self._names.tensor_hint(str(name))}") from None
        value = self._history.value(node, 0)
        for eid, each in enumerate(self.facts.plan.entries):
            if value == (each.node, each.output):
                return eid
        raise MXNetError(f"explain: {name!r} is in no memory, because a step computes it together "
                         f"with other nodes:\n{self.why(node)}")

    @cached_property
    def _names(self) -> PlanNames:
        return PlanNames(self.facts)

    @cached_property
    def _history(self) -> NodeHistory:
        return NodeHistory(self.facts)

    # -- what if ------------------------------------------------------------------------------

    def without(self, *passes: str) -> Answer:
        """Tell what each pass is worth: the plan without it, as a table; see `variants`."""
        return variants_answer(self.facts, self.variants(*passes))

    def advice(self) -> Answer:
        """Tell what to change in the network, or in how it is bound, and what that changes.

        From then on it is among the facts, as `facts.advice`.  It takes some compilations; with
        measured steps (`bench.step_facts`) it knows of slow ones, and tells milliseconds.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
        >>> explanation = net.simple_bind(mx.cpu(), data=(64, 512)).explain()
        >>> explanation.advice()
            advice                 ms     MB  MB moved  steps
        1.  unread gradient: data      +0.00     -0.13     +0
            because nobody needs gradients of data, which are no parameters
            change: grad_req={**dict.fromkeys(net.list_arguments(), "write"), "data": "null"}
        """
        if self.facts.advice is None:
            self.facts = replace(self.facts, advice=advice_on(
                self.facts, self._network("what to change")))
        return advice_answer(self.facts)

    def variants(self, *passes: str) -> list[Variant]:
        """The plans that there would be without passes, one by one.

        They are among the facts from then on.

        Parameters
        ----------
        *passes : str
            Passes (`nbmod.passes.switches.PASSES`), or "mirror": what the backward pass computes
            again, which is switched on where it is off.  Default: all that changed something; those
            of the memory planner cost little, others a compilation.

        Raises
        ------
        MXNetError
            For a pass that the facts of a file do not have.

        Examples
        --------
        >>> net = mx.sym.exp(mx.sym.sin(mx.sym.Variable("x")))
        >>> executor = net.simple_bind(mx.cpu(), grad_req="null", x=(64, 64))
        >>> variant, = executor.explain().variants("fuse_elementwise")
        >>> variant.steps
        2
        """
        names = passes or passes_at_work(self.facts, self._what_if is not None)
        self.facts = with_variants(self.facts, names, self._network)
        known = variants_by_name(self.facts)
        return [known[name] for name in names]

    def reproducer(self, step: str | int) -> Reproducer:
        """The nodes that a step computes, or is the gradient of, by themselves.

        Its `save` writes a script and its arrays into a folder: the script times the step by the
        kernel bench, with the same shapes, types and parameters.  A step that a pass has added
        computes no node, and is an MXNetError.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
        >>> executor = net.simple_bind(mx.cpu(), grad_req="null", data=(64, 512))
        >>> executor.explain().reproducer("fc").name
        'step0_fc'
        """
        return reproducer_of(self._history, self._network("the network itself"),
                             self._names.step(step))

    def _network(self, what: str) -> WhatIf:
        if self._what_if is None:
            raise MXNetError(
                "explain: the network is not bound, so there is no plan" if self.facts.failure else
                f"explain: the file does not tell {what}; explain the network and ask for it")
        return self._what_if

    def _running(self, what: str) -> PlannedProgram:
        if self._program is None:
            raise MXNetError(f"explain: without arrays nothing runs, which {what} need; bind the "
                             "network, and ask `executor.explain()`")
        return self._program

    # -- files --------------------------------------------------------------------------------

    def json(self) -> str:
        """The facts as JSON, which `nbmod explain --diff` and scripts read."""
        return json.dumps(to_json(self.facts), separators=(",", ":"))

    def page(self, path: str | PathLike[str], other: Explanation | None = None,
             command: str = "") -> None:
        """Write a page with linked views of the plan: one HTML file, which needs no network.

        It has what is among the facts: advice, code and values only where they were asked for.

        Parameters
        ----------
        path : str or path
            The file.
        other : Explanation, optional
            A plan with which the page compares this one.
        command : str, optional
            The command that plans this network; the page tells more of them that begin so.
        """
        if self._what_if is not None:
            self.variants(*(name for name in passes_at_work(self.facts, True)
                            if name in PLANNER_PASSES))
        text = html_page.page(self.facts, None if other is None else other.facts, command)
        with atomic_write(path) as file:
            file.write(text.encode())
