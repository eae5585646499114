"""`explain`: why every step of a network's plan is as it is, in words or as JSON.

    nbmod explain net-symbol.json --shape data=16,3,224,224
    nbmod explain net-symbol.json --shape data=16,3,224,224 --train --json facts.json
    nbmod explain net-symbol.json --shape data=16,3,224,224 --advice --page plan.html
    nbmod explain facts.json --why relu3 --alive conv1_output@40 --diff other-symbol.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import MXNetError, did_you_mean
from .options import add_model_options, import_modules

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..context import Context
    from ..convert.model_formats import StoredModel
    from ..explain.explanation import Explanation
    from ..explain.wording import Answer
    from ..symbol import Symbol

__all__ = ["HELP", "arguments", "run"]

HELP = "tell why every step of a plan is as it is: passes, memory, implementations"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="a model or an archive, as for inspect; or facts "
        "that --json wrote")
    add_model_options(parser)
    add("--type", action="append", default=[], type=_parse_type, metavar="NAME=TYPE",
        help="the type of an input, such as data=float16; once for each")
    add("--train", action="store_true", help="forward and backward, with gradients of all "
        "parameters")
    add("--run", action="store_true", help="run it on moderate values, too: what steps compute "
        "is recorded, and they are measured")
    add("--ctx", type=_parse_context, default="cpu", help="where it runs, such as gpu or gpu(1); "
        "default: %(default)s")
    _add_questions(parser.add_argument_group("questions, each as often as needed"))
    add("--json", metavar="FILE", help="write the facts to a file, too")
    add("--page", metavar="FILE", help="write a page with linked views for a browser, too: one "
        "HTML file; with --diff it compares both plans")


def _add_questions(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--passes", action="store_true", help="what each pass changed, as differences of listings")
    add("--why", action="append", default=[], metavar="NODE",
        help="what became of a node: pass by pass, its step, its implementation, its memory")
    add("--why-not", action="append", default=[], type=_parse_pair(":"), metavar="NODE:PASS",
        help="why a pass left a node as it is")
    add("--alive", action="append", default=[], type=_parse_pair("@"), metavar="TENSOR@STEP",
        help="why the memory of a tensor is not free at a step")
    add("--storage", action="append", default=[], type=int, metavar="N",
        help="who shares a piece of memory, and what it would cost not to")
    add("--step", action="append", default=[], metavar="N", help="what a step, by its number or "
        "name, reads and writes, by which implementation")
    add("--code", action="append", default=[], metavar="STEP", help="the kernels of a step, by its "
        "number or name: source, and hot loops down to machine code; the network is bound for it")
    add("--peak", action="store_true", help="what is in memory when most of it is in use, and why")
    add("--advice", action="store_true", help="what to change in the network, or in how it is "
        "bound, and what that changes; with --run also in milliseconds")
    add("--without", nargs="*", metavar="PASS", help="the bytes, steps and traffic that passes are "
        "worth, as a table; default: all that changed something, and recomputation (mirror)")
    add("--reproduce", metavar="STEP", help="write a script that runs and times a step, by its "
        "number or name, by itself; its arrays are random numbers")
    add("--out", metavar="FOLDER", default=".", help="the folder of --reproduce; default: the "
        "current one")
    add("--diff", metavar="OTHER", help="what differs in another plan: facts that --json wrote, or "
        "a network, which is planned with the same options")


def _parse_pair(separator: str) -> Callable[[str], tuple[str, str]]:
    """A parser of options such as relu3:fuse_epilogue."""
    def parse(text: str) -> tuple[str, str]:
        left, middle, right = text.rpartition(separator)
        if not (left and middle and right):
            raise argparse.ArgumentTypeError(f"{text!r} is not like NAME{separator}NAME")
        return left, right
    return parse


def _parse_type(text: str) -> tuple[str, str]:
    """data=float16 as a name and a type."""
    name, equals, dtype = text.partition("=")
    if not (name and equals and dtype):
        raise argparse.ArgumentTypeError(f"{text!r} is not like data=float16")
    return name, dtype


def _parse_context(text: str) -> Context:
    """gpu(1) as a context."""
    from ..context import Context

    match = re.fullmatch(r"(cpu|gpu)(?:\((\d+)\))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not like cpu, gpu or gpu(1)")
    return Context(match[1], int(match[2] or 0))


def run(options: argparse.Namespace) -> int:
    """Print the answers, or a summary."""
    from ..core.atomic import atomic_write, require_other_files, require_writable

    written = [path for path in (options.json, options.page) if path]
    require_other_files(written, [*options.files, *filter(None, [options.diff])])
    for path in written:
        require_writable(path)
    import_modules(options)
    explanation = _explanation(options.files, options)
    other = _explanation([options.diff], options) if options.diff else None
    failure = explanation.facts.failure
    answers = [] if failure is not None else list(_answers(explanation, options, other))
    print("\n\n".join(map(str, answers)) if answers else explanation)
    if options.json:
        with atomic_write(options.json) as file:
            file.write(explanation.json().encode())
    if options.page:
        explanation.page(options.page, other, _command(options))
    if failure is not None:
        raise MXNetError(failure.message)
    return 0


def _command(options: argparse.Namespace) -> str:
    """The command that plans the network again, without its questions."""
    if len(options.files) == 1 and _holds_facts(options.files[0]):
        return ""
    shapes = (f"{name}={','.join(map(str, shape))}" for name, shape in options.shape)
    types = ("=".join(each) for each in options.type)
    words = ["nbmod", "explain", *options.files, *(word for name, values in (
        ("--shape", shapes), ("--type", types), ("--import", options.modules),
        ("--epoch", [] if options.epoch is None else [str(options.epoch)]),
        ("--ctx", [] if str(options.ctx) == "cpu(0)" else [str(options.ctx)]))
        for value in values for word in (name, value)), *["--train"] * options.train]
    return shlex.join(words)


def _answers(explanation: Explanation, options: argparse.Namespace, other: Explanation | None
             ) -> Iterator[Answer]:
    """The answers to the questions that options ask."""
    from ..explain.wording import Answer

    if options.passes:
        yield explanation.passes()
    yield from map(explanation.why, options.why)
    yield from (explanation.why_not(*each) for each in options.why_not)
    yield from (explanation.alive(*each) for each in options.alive)
    yield from map(explanation.storage, options.storage)
    yield from map(explanation.step, options.step)
    yield from map(explanation.code, options.code)
    if options.peak:
        yield explanation.peak()
    if options.advice:
        yield explanation.advice()
    if options.without is not None:
        yield explanation.without(*options.without)
    if options.reproduce is not None:
        path = explanation.reproducer(options.reproduce).save(options.out)
        yield Answer(f"python {path}", {"script": str(path)})
    if other is not None:
        yield explanation.compare(other)


# -- plans ----------------------------------------------------------------------------------------


def _explanation(files: Sequence[str], options: argparse.Namespace) -> Explanation:
    """The plan of the network in these files, or that of which a file has the facts."""
    from ..explain.explanation import Explanation

    if len(files) == 1 and _holds_facts(files[0]):
        return Explanation.load(files[0])
    network = _network(files, options)
    explanation = Explanation.planned(network.symbol, network.shapes, options.ctx,
                                      network.requests, network.types)
    failure = explanation.facts.failure
    if failure is not None and network.missing:
        explanation.facts = replace(explanation.facts, failure=replace(
            failure, message=network.missing))
    elif failure is None and (options.run or options.code):
        return _run(network, explanation, options)
    return explanation


def _run(network: _PlannedNetwork, explanation: Explanation, options: argparse.Namespace
         ) -> Explanation:
    """The plan with arrays of moderate values, what they become, and the times of its steps."""
    from ..bench.networks import fill
    from ..bench.step_facts import step_facts

    shapes: dict[str, Any] = dict(network.shapes)
    try:
        executor = network.symbol.simple_bind(options.ctx, grad_req=network.requests,
                                              type_dict=network.types, **shapes)
        fill(executor)
        bound = executor.explain()
    except MXNetError as error:
        return explanation.failed(error)
    if options.run:
        with contextlib.suppress(MXNetError):       # it is among the facts then
            bound.record()
            bound.facts = replace(bound.facts, measured=step_facts(executor))
    return bound


def _holds_facts(path: str) -> bool:
    if not (path.endswith(".json") and os.path.isfile(path)):
        return False
    with open(path, "rb") as file:
        try:
            values = json.load(file)
        except ValueError:
            return False
    return isinstance(values, dict) and "schema" in values


class _PlannedNetwork(NamedTuple):
    """A network as it would be bound."""

    symbol: Symbol
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, DTypeLike]
    requests: dict[str, str]
    missing: str
    """An error about inputs whose shapes do not follow from the others, if there are any."""


def _network(files: Sequence[str], options: argparse.Namespace) -> _PlannedNetwork:
    """The network in files, with the shapes and types of parameters, inputs and options."""
    from ..symbol.inference_symbol import labels_of
    from .origins import describe

    description = describe(files, options.epoch, dict(options.shape))
    symbol, parameters = description.model.symbol, description.model.arg_params
    if symbol is None:
        raise MXNetError(f"explain: {files[0]} has parameters only, expected a network")
    names, states = symbol.list_arguments(), description.model.aux_params
    _require_names("--shape", options.shape, names)
    _require_names("--type", options.type, names)
    inputs = {**description.shapes, **dict(options.shape)}
    arrays = {**parameters, **states}
    shapes = {**{name: array.shape for name, array in arrays.items()}, **inputs}
    labels = labels_of(symbol, shapes)
    requests = {name: "write" for name in names if options.train and name not in labels
                and name not in inputs}
    return _PlannedNetwork(symbol, shapes, {**{name: array.dtype for name, array in arrays.items()},
                                     **dict(options.type)}, requests,
                           _missing_shapes(description.model, shapes))


def _require_names(option: str, values: Sequence[tuple[str, object]], names: Sequence[str]
                   ) -> None:
    for name, _ in values:
        if name not in names:
            raise MXNetError(f"explain: {option} names {name!r}, which is no argument of the "
                             f"network{did_you_mean(name, names)}")


def _missing_shapes(model: StoredModel, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """An error that names the inputs whose shapes do not follow from the others; or nothing."""
    from ..diagram.visualization import HIDDEN

    assert model.symbol is not None
    try:
        known = zip(model.symbol.list_arguments(), model.symbol.infer_shape_partial(**shapes)[0]
                    or (), strict=False)
    except MXNetError:      # shapes contradict each other
        return ""
    needed = [name for name, shape in known if name in model.inputs and not name.endswith(HIDDEN)
              and (not shape or 0 in shape)]
    return (f"explain: the shape of {', '.join(needed)} does not follow from what is known; give "
            f"it, such as {model.shape_option()}") if needed else ""
