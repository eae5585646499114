"""Control flow: `_foreach`, `_while_loop` and `_cond`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Graph
from ..param import Shape
from ..subgraph import SubgraphRun
from .control_base import Control, agree
from .control_loop import ZERO, Loop, copies, device_in, rows_of, run_body

__all__ = ["Foreach", "WhileLoop", "Cond"]


@dataclass(frozen=True, eq=False)
class Foreach(Loop, name="_foreach"):
    """out_t, state_{t+1} = body(data_t, state_t, free) for every row t of `data`; outputs are the
    out_t, stacked along a new first axis, and the last states.

    Inputs are `data`, (T, ...) each, then states, then free inputs; the three `locs` say which
    variables of the body these are.  A row of a vector has shape (1,).  States keep their shapes
    and types.
    """

    num_args: int
    num_outputs: int
    num_out_data: int
    in_state_locs: Shape
    in_data_locs: Shape
    remain_locs: Shape
    subgraphs: tuple[Graph, ...] = ()

    body_names: ClassVar = ("body",)
    shapes: ClassVar = "data (T, ...), states (...), free (...): outputs (T, ...), states (...)"

    def sources(self, index):
        place = {position: i for i, position in enumerate(
            (*self.in_data_locs, *self.in_state_locs, *self.remain_locs))}
        return [place.get(position, -1) for position in range(self.num_args - 1)]

    def data(self, index):
        return self.in_data_locs

    def states(self, index):
        return self.in_state_locs

    def _check(self):
        super()._check()
        if not self.in_data_locs:
            raise MXNetError("there are no data to take rows of; a while_loop counts by itself")

    def _length(self, ins, outs):
        stacked = [(f"input {i}", shape) for i, shape in enumerate(ins[:len(self.in_data_locs)])]
        stacked += [(f"output {k}", shape) for k, shape in enumerate(outs[:self.num_out_data])]
        lengths = {name: shape[0] for name, shape in stacked if shape and shape[0]}
        if len(set(lengths.values())) > 1:
            raise MXNetError("data must have the same number of rows, but there are "
                             + ", ".join(f"{n} in {name}" for name, n in lengths.items()))
        return next(iter(lengths.values()), 0)

    def prepare(self, ins, outs, call):
        return partial(self.bound(ins, outs, call)[1].run, range(ins[0].shape[0]))

    def prepare_backward(self, ins, outs, call):
        count = ins[self.num_outputs].shape[0]
        return partial(self.bound_backward(ins, outs, call).run, range(count)[::-1])


@dataclass(frozen=True, eq=False)
class WhileLoop(Loop, name="_while_loop"):
    """while cond(state, free): out_t, state = func(state, free), at most `max_iterations` times.

    Outputs are the out_t, stacked to (max_iterations, ...) with zeros in the rows of iterations
    that did not happen, and the last states.  `cond` gives one element; 0 stops.  `cond_input_locs`
    and `func_input_locs` are the inputs that the variables of the two bodies refer to;
    `func_var_locs` are the variables of func that are states.  States keep their shapes and types.
    No gradient passes through cond.
    """

    num_args: int
    num_outputs: int
    num_out_data: int
    max_iterations: int
    cond_input_locs: Shape
    func_input_locs: Shape
    func_var_locs: Shape
    subgraphs: tuple[Graph, ...] = ()

    body_names: ClassVar = ("condition", "body")
    learns: ClassVar = (1,)
    counts: ClassVar = True
    shapes: ClassVar = "states (...), free (...): outputs (max_iterations, ...), states (...)"

    def __post_init__(self):
        if self.max_iterations < 1:
            raise MXNetError(f"_while_loop: max_iterations is {self.max_iterations}, expected at "
                             "least 1")

    def sources(self, index):
        return self.func_input_locs if index else self.cond_input_locs

    def states(self, index):
        return self.func_var_locs if index else ()

    def _length(self, ins, outs):
        return self.max_iterations

    def _infer(self, facts, ins, outs, through):
        ins, outs = super()._infer(facts, ins, outs, through)
        return self.decided(facts, 0, ins, through), outs

    def subgraph_parts(self, ins, requests):
        cond = self.bodies[0]
        specs = [ins[i] for i in self.cond_input_locs]
        test = SubgraphRun(cond, specs, (), cond.outputs, cond.variables)
        return [*super().subgraph_parts(ins, requests), test]

    def prepare(self, ins, outs, call):
        device, count_out = device_in(call), self.count(outs)
        body, loop = self.bound(ins, outs, call)
        variable = dict(zip(*self.connected(self.func_var_locs), strict=True))
        cond = call.subgraphs[1]({
            entry: body.array(variable[i]) if i in variable else ins[i]
            for entry, i in zip(self.bodies[0].variables, self.cond_input_locs, strict=True)})
        truth = cond.array(self.bodies[0].outputs[0])
        padded = rows_of(device, outs[:self.num_out_data],
                       map(body.array, self.body.outputs[:self.num_out_data]))

        def run() -> None:
            loop.before()
            count = 0
            while count < self.max_iterations:
                run_body(cond, f"the condition of iteration {count}")
                if not device.to_numpy(truth).any():
                    break
                loop.step(count)
                count += 1
            loop.after()
            for rows in padded:
                rows.clear(count)
            if count_out is not None:
                device.copy(np.array([count]), count_out)

        return run

    def prepare_backward(self, ins, outs, call):
        device, count = device_in(call), self.count(ins)
        loop = self.bound_backward(ins, outs, call)

        return lambda: loop.run(range(int(device.to_numpy(count)[0]))[::-1])


@dataclass(frozen=True, eq=False)
class Cond(Control, name="_cond"):
    """then(free) if pred(free) is not 0, else else(free).

    The three `locs` are the inputs that the variables of the three bodies refer to.  Outputs of
    both branches have the same shapes and types.  Gradients go through the branch that was taken;
    those of all other inputs are 0.
    """

    num_args: int
    num_outputs: int
    cond_input_locs: Shape
    then_input_locs: Shape
    else_input_locs: Shape
    subgraphs: tuple[Graph, ...] = ()

    body_names: ClassVar = ("predicate", "then-branch", "else-branch")
    learns: ClassVar = (1, 2)
    counts: ClassVar = True
    shapes: ClassVar = "free (...): outputs (...)"

    def sources(self, index):
        return (self.cond_input_locs, self.then_input_locs, self.else_input_locs)[index]

    def _infer(self, facts, ins, outs, through):
        ins, lookups = self.decided(facts, 0, ins, through), {}
        for _ in range(2):  # facts of the second branch also reach the first
            for index in self.learns:
                body, free = self.bodies[index], self.free(index)
                known = {entry: ins[i] for entry, i in free.items()}
                lookup = through(body, known)
                outs = [agree(facts, lookup(entry), out, f"output {k} has {facts.what} {{}} "
                              f"in the {self.body_names[index]}, expected {{}}")
                        for k, (entry, out) in enumerate(zip(body.outputs, outs, strict=False))]
                for entry, out in zip(body.outputs, outs, strict=True):
                    known[entry] = facts.unify(known.get(entry), out)
                lookups[index] = lookup = through(body, known)
                for entry, i in free.items():
                    ins[i] = lookup(entry)
        return ins, [*outs, *self.hidden(facts, lookups, 1)]

    def subgraph_parts(self, ins, requests):
        keep, parts = self.saved_in(requests), []
        for index, body in enumerate(self.bodies):
            saved = [entry for (i, entry), wants in zip(self.saved, keep, strict=True)
                     if wants and i == index]
            specs = [ins[i] for i in self.sources(index)]
            parts.append(SubgraphRun(body, specs, (), [*body.outputs, *saved], body.variables))
        return parts

    def prepare(self, ins, outs, call):
        device, taken = device_in(call), self.count(outs)
        running = [bind({entry: ins[i] for entry, i in self.free(index).items()})
                   for index, bind in enumerate(call.subgraphs)]
        truth = running[0].array(self.bodies[0].outputs[0])
        results = [copies(device, map(body.array, self.bodies[index].outputs),
                           outs[:self.num_outputs]) for index, body in enumerate(running) if index]
        saved = [rows_of(device, self.saved_in(outs, index),
                       [running[index].array(entry) for i, entry in self.saved if i == index])
                 for index in self.learns]

        def run() -> None:
            run_body(running[0], "the predicate")
            branch = 0 if device.to_numpy(truth).any() else 1
            run_body(running[1 + branch], f"the {self.body_names[1 + branch]}")
            results[branch]()
            for rows in saved[branch]:
                rows.write(0)
            if taken is not None:
                device.copy(np.array([branch]), taken)

        return run

    def backward_subgraph_parts(self, ins, requests):
        args, parts = ins[self.num_outputs:][:len(requests)], []
        for index in self.learns:
            body, sums = self.bodies[index], list(self._sums(index, requests))
            specs = [args[i] for i in self.sources(index)]
            parts.append(SubgraphRun(body, specs, [*body.saved, *map(Entry, body.heads)], sums,
                                     [*body.variables, *sums], sums))
        return parts

    def _sums(self, index: int, requests: Sequence[bool]) -> dict[Entry, int]:
        """The gradients of a branch that are wanted, and the inputs that they are of."""
        sources = self.sources(index)
        return {gradient: sources[i] for i, gradient in self.bodies[index].gradients.items()
                if requests[sources[i]]}

    def prepare_backward(self, ins, outs, call):
        device, taken = device_in(call), self.count(ins)
        args, requests = ins[self.num_outputs:][:len(outs)], [out is not None for out in outs]
        branches = []
        for index, bind in zip(self.learns, call.subgraphs, strict=True):
            body = bind({
                **{entry: args[i] for entry, i in self.free(index).items()},
                **{gradient: outs[i] for gradient, i in self._sums(index, requests).items()}})
            heads = [body.array(Entry(head)) for head in self.bodies[index].heads]
            saved = [body.array(entry) for i, entry in self.saved if i == index]
            branches.append((body, copies(device, ins[:self.num_outputs], heads),
                             rows_of(device, self.saved_in(ins, index), saved)))
        clear = copies(device, [ZERO] * len(outs), outs)

        def run() -> None:
            clear()
            branch = int(device.to_numpy(taken)[0])
            body, give_heads, saved = branches[branch]
            give_heads()
            for rows in saved:
                rows.read(0)
            run_body(body, f"the {self.body_names[1 + branch]}")

        return run
