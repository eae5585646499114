"""Execution of loop bodies, and copies between arrays of a node and of its body.

An iteration copies rows into the arrays of the body, runs the body, and copies results out, so all
iterations run the same steps on the same arrays.  Free inputs are read, and their gradients
accumulated, without copies.

A trained loop saves the intermediate results of iteration t that gradients read in row t of its
hidden outputs.  Backward (backpropagation through time) runs from the last iteration to the first
with the saved rows; the gradient of a state is the head gradient of the iteration before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base import MXNetError
from ...graph import Entry
from ..device import Device, device_of
from ..op import Call, Mode, Run, Spec
from ..subgraph import Body, Running, SubgraphRun
from .control_base import SHAPES, Control, agree, row_shape

__all__ = ["Loop", "Iterations", "RowCopies", "rows_of", "copies", "iterate", "run_body",
           "device_in", "ZERO"]

ZERO = np.zeros(())


def device_in(call: Call) -> Device:
    """The device of a call in a bound graph."""
    assert call.ctx is not None
    return device_of(call.ctx)


class RowCopies:
    """Copies between the rows of an array and an array of a body."""

    def __init__(self, device: Device, array: Any, inner: Any):
        self.device, self.array, self.inner = device, array, inner
        self.shape, self.dtype = tuple(inner.shape), np.dtype(inner.dtype)
        self.nbytes = Spec(self.shape, self.dtype).nbytes

    def read(self, t: int) -> None:
        self.device.copy(self._row(t), self.inner)

    def write(self, t: int) -> None:
        self.device.copy(self.inner, self._row(t))

    def clear(self, start: int) -> None:
        """Set all rows from `start` on to 0."""
        count = self.array.shape[0] - start
        if count:
            self.device.copy(ZERO, self.device.view(
                self.array, start * self.nbytes, (count, *self.shape), self.dtype))

    def _row(self, t: int) -> Any:
        return self.device.view(self.array, t * self.nbytes, self.shape, self.dtype)


def rows_of(device: Device, arrays: Iterable[Any], inner: Iterable[Any]) -> list[RowCopies]:
    """`RowCopies` of all pairs of which neither is None."""
    return [RowCopies(device, array, one) for array, one in zip(arrays, inner, strict=True)
            if array is not None and one is not None]


def copies(device: Device, sources: Iterable[Any], targets: Iterable[Any]) -> Run:
    """A function that copies each source to its target, where neither is None."""
    pairs = [(source, target) for source, target in zip(sources, targets, strict=True)
             if source is not None and target is not None]

    def run() -> None:
        for source, target in pairs:
            device.copy(source, target)

    return run


def run_body(body: Running, where: str) -> None:
    """Run a body; errors name it `where`, such as "the condition"."""
    try:
        body.run()
    except MXNetError as error:
        raise type(error)(f"{where}: {error}") from error.__cause__


def iterate(body: Running, mode: Mode, t: int) -> None:
    """Run a body as iteration `t`."""
    outer, mode.iteration = mode.iteration, (*mode.iteration, t)
    try:
        body.run()
    except MXNetError as error:
        raise type(error)(f"iteration {t}: {error}") from error.__cause__
    finally:
        mode.iteration = outer


class Iterations(NamedTuple):
    """A loop on its arrays: call `before`, `step(t)` for every iteration, and `after`."""

    before: Run
    step: Callable[[int], None]
    after: Run

    def run(self, iterations: Iterable[int]) -> None:
        """Run a known number of iterations."""
        self.before()
        for t in iterations:
            self.step(t)
        self.after()


class Loop(Control):
    """Base class of foreach and while_loop.

    The first `num_out_data` outputs of the repeated body are stacked, one row per iteration; the
    others are the next states.
    """

    num_out_data: int

    @property
    def _repeated(self) -> int:
        return self.learns[0]

    @property
    def body(self) -> Body:
        """The body that is repeated."""
        return self.bodies[self._repeated]

    def connected(self, positions: Iterable[int]) -> tuple[list[int], list[Entry]]:
        """The inputs of the node and the variables of the body at these positions."""
        positions, sources = list(positions), self.sources(self._repeated)
        return [sources[i] for i in positions], [self.body.variables[i] for i in positions]

    @property
    def _data(self) -> tuple[list[int], list[Entry]]:
        return self.connected(self.data(self._repeated))

    @property
    def _states(self) -> tuple[list[int], list[Entry]]:
        return self.connected(self.states(self._repeated))

    def _check(self) -> None:
        super()._check()
        states = len(self.states(self._repeated))
        if states + self.num_out_data != self.num_outputs:
            raise MXNetError(f"num_outputs is {self.num_outputs}, but there are "
                             f"{self.num_out_data} outputs of iterations and {states} states")

    # -- inference --------------------------------------------------------------------------

    def _length(self, ins: list, outs: list) -> int:
        """The number of rows, from shapes; 0 if unknown."""
        raise NotImplementedError

    def _infer(self, facts, ins, outs, through):
        rows = self._length(ins, outs) if facts is SHAPES else 0
        body, first, free = self.body, self.num_out_data, self.free(self._repeated)
        data, states = self._data, self._states
        # Facts of the variables from the inputs; a state also has the shape of its last value.
        known = {entry: ins[i] for entry, i in free.items()}
        known |= {entry: facts.row(ins[i]) for i, entry in zip(*data, strict=True)}
        known |= {entry: facts.unify(ins[i], out) for i, entry, out
                  in zip(*states, outs[first:self.num_outputs], strict=True)}
        lookup = through(body, known)
        # A state has one shape before and after an iteration.
        for k, (before, after) in enumerate(zip(states[1], body.outputs[first:], strict=True)):
            known[before] = known[after] = agree(
                facts, lookup(before), lookup(after), f"state {k} ({before.node.name}) has "
                f"{facts.what} {{}} before the first iteration and {{}} after it")
        # A stacked output has rows of the shape of the body's output.
        for k, (entry, fact) in enumerate(zip(body.outputs[:first], outs, strict=False)):
            known[entry] = agree(facts, facts.unify(known.get(entry), lookup(entry)),
                                 facts.row(fact), f"output {k} has {facts.what} {{}} in an "
                                 "iteration, expected {}")
        # Infer again with all of these, and propagate the results to inputs and outputs.
        lookup = through(body, known)
        ins = list(ins)
        for i, entry in (*((i, entry) for entry, i in free.items()), *zip(*states, strict=True)):
            ins[i] = lookup(entry)
        for i, entry in zip(*data, strict=True):
            ins[i] = facts.whole(lookup(entry), rows, ins[i])
        stacked = [facts.stack(lookup(entry), rows) for entry in body.outputs[:first]]
        following = [lookup(entry) for entry in body.outputs[first:]]
        return ins, [*stacked, *following, *self.hidden(facts, {self._repeated: lookup}, rows)]

    # -- forward ----------------------------------------------------------------------------

    def _specs(self, ins: Sequence[Spec]) -> list[Spec]:
        """Specs of the variables of the body."""
        data = set(self.data(self._repeated))
        return [Spec(row_shape(ins[i].shape), ins[i].dtype) if position in data else ins[i]
                for position, i in enumerate(self.sources(self._repeated))]

    def subgraph_parts(self, ins: list[Spec], requests: list[bool]) -> list[SubgraphRun]:
        body, free = self.body, self.free(self._repeated)
        feeds = [entry for entry in body.variables if entry not in free]
        keep = self.saved_in(requests)
        saved = [entry for (_, entry), wants in zip(self.saved, keep, strict=True) if wants]
        return [SubgraphRun(body, self._specs(ins), feeds, [*body.outputs, *saved], list(free))]

    def bound(self, ins: Sequence[Any], outs: Sequence[Any], call: Call
               ) -> tuple[Running, Iterations]:
        """The body and its iterations."""
        device, first, entries = device_in(call), self.num_out_data, self.body.outputs
        body = call.subgraphs[0]({entry: ins[i] for entry, i in self.free(self._repeated).items()})
        array = body.array
        data, states = self._data, self._states
        feeds = rows_of(device, [ins[i] for i in data[0]], map(array, data[1]))
        results = rows_of(device, outs[:first], map(array, entries[:first]))
        results += rows_of(device, self.saved_in(outs), [array(entry) for _, entry in self.saved])
        state = [array(entry) for entry in states[1]]
        follow = copies(device, map(array, entries[first:]), state)

        def step(t: int) -> None:
            for feed in feeds:
                feed.read(t)
            iterate(body, call.mode, t)
            for result in results:
                result.write(t)
            follow()

        return body, Iterations(copies(device, [ins[i] for i in states[0]], state), step,
                                 copies(device, state, outs[first:self.num_outputs]))

    # -- backward ---------------------------------------------------------------------------

    def _gradients(self, requests: Sequence[bool]) -> tuple[list[Entry], dict[Entry, int]]:
        """Gradients that are computed row by row, and those that are accumulated over iterations,
        with their input."""
        body, free = self.body, self.free(self._repeated)
        rows, sums = [], {}
        for position, gradient in body.gradients.items():
            entry, source = body.variables[position], self.sources(self._repeated)[position]
            if entry not in free and (requests[source] or position in self.states(self._repeated)):
                rows.append(gradient)
            elif entry in free and requests[source]:
                sums[gradient] = source
        return rows, sums

    def backward_subgraph_parts(self, ins: list[Spec], requests: list[bool]) -> list[SubgraphRun]:
        body, free = self.body, self.free(self._repeated)
        rows, sums = self._gradients(requests)
        feeds = [entry for entry in body.variables if entry not in free]
        feeds += [entry for entry in body.saved if not entry.node.is_variable]
        return [SubgraphRun(body, self._specs(ins[self.num_outputs:][:len(requests)]),
                            [*feeds, *map(Entry, body.heads)], [*rows, *sums], [*free, *sums],
                            list(sums))]

    def bound_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Iterations:
        device, body, first = device_in(call), self.body, self.num_out_data
        ograds, args = ins[:self.num_outputs], ins[self.num_outputs:][:len(outs)]
        free, sums = self.free(self._repeated), self._gradients([g is not None for g in outs])[1]
        running = call.subgraphs[0]({**{entry: args[i] for entry, i in free.items()},
                                  **{gradient: outs[i] for gradient, i in sums.items()}})
        array = running.array
        data, states = self._data, self._states
        heads = [array(Entry(head)) for head in body.heads]
        feeds = rows_of(device, [args[i] for i in data[0]], map(array, data[1]))
        feeds += rows_of(device, self.saved_in(ins), [array(entry) for _, entry in self.saved])
        feeds += rows_of(device, ograds[:first], heads[:first])
        results = rows_of(device, [outs[i] for i in data[0]],
                        [array(body.gradients[i]) for i in self.data(self._repeated)])
        grads = [array(body.gradients[i]) for i in self.states(self._repeated)]
        follow = copies(device, grads, heads[first:])
        rest = [out for i, out in enumerate(outs) if i not in (*data[0], *states[0])]
        before = copies(device, [*ograds[first:], *ograds[first:], *[ZERO] * len(rest)],
                         [*heads[first:], *grads, *rest])

        def step(t: int) -> None:
            for feed in feeds:
                feed.read(t)
            iterate(running, call.mode, t)
            for result in results:
                result.write(t)
            follow()

        return Iterations(before, step, copies(device, grads, [outs[i] for i in states[0]]))
