"""Binding: the way from a symbol to an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError, tuning
from ..context import Context, current_context
from ..graph import Entry
from .inference import read_dtype, read_shape

if TYPE_CHECKING:
    from ..executor import Executor
    from ..ndarray import NDArray

__all__ = ["Binding"]


class Binding:
    """The part of `Symbol` that binds."""

    __slots__ = ()

    entries: list[Entry]

    def simple_bind(self, ctx: Context, grad_req: Any = "write",
                    type_dict: Mapping[str, Any] | None = None,
                    stype_dict: Mapping[str, str] | None = None,
                    group2ctx: Mapping[str, Context] | None = None,
                    shared_arg_names: Sequence[str] | None = None,
                    shared_exec: Executor | None = None,
                    shared_buffer: dict[str, NDArray] | None = None, tune: bool = False,
                    **kwargs: Any) -> Executor:
        """An executor with arrays of its own, zeros, of the shapes that follow from `kwargs`.

        `grad_req` is 'write', 'add' or 'null', for all arguments or as list or dict.  `type_dict`
        gives element types by argument (float32 otherwise).  Arrays are shared with `shared_exec`
        for the names in `shared_arg_names`, and taken from `shared_buffer` where they fit.
        `group2ctx` says on which context the nodes and variables of each `ctx_group` are; all else
        is on `ctx`, or where the first input is.  With `tune` the algorithms of convolutions are
        measured where that has not been done on this machine, and the fastest are used, here and
        by all who bind later; else they are estimated (see docs/internals/cpu-engine.md).
        Raises MXNetError listing the arguments whose shapes do not follow.
        """
        from ..binding import simple_bind

        shapes = {name: read_shape(name, shape) for name, shape in kwargs.items()}
        types = {name: read_dtype(name, dtype) for name, dtype in (type_dict or {}).items()}
        with tuning(tune):
            return simple_bind(self, _context(ctx), grad_req=grad_req, type_dict=types,
                               shared_arg_names=shared_arg_names, shared_exec=shared_exec,
                               shared_buffer=shared_buffer, shapes=shapes,
                               groups=_groups(group2ctx))

    def bind(self, ctx: Context, args: Any, args_grad: Any = None, grad_req: Any = "write",
             aux_states: Any = None, group2ctx: Mapping[str, Context] | None = None,
             shared_exec: Executor | None = None, tune: bool = False) -> Executor:
        """An executor on the given arrays.

        `args`, `args_grad` and `aux_states` are lists in the order of `list_arguments()` and
        `list_auxiliary_states()`, or dicts by name.  Without `args_grad` nothing is differentiated.
        With `group2ctx` (see `simple_bind`) they may be on any context; `tune` is as there.
        """
        from ..binding import bind

        if not isinstance(args, (list, tuple, Mapping)):
            raise TypeError(f"bind: args is a {type(args).__name__}, expected a list of NDArray or "
                            "a dict of NDArray by name")
        with tuning(tune):
            return bind(self, _context(ctx), args, args_grad, grad_req, aux_states, shared_exec,
                        _groups(group2ctx))

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """The outputs for arguments given by name: bind and one forward run."""
        return self.bind(current_context() if ctx is None else ctx, kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> Any:
        """Not offered, as in MXNet: bind the symbol and call `backward`."""
        raise MXNetError("gradient is not implemented for Symbol (nor is it in MXNet): bind the "
                         "symbol with args_grad and call backward()")

    grad = gradient

    def optimize_for(self, backend: str, *args: Any, **kwargs: Any) -> Any:
        """The symbol itself: nbmod optimises every graph when it is bound."""
        return self

    def get_backend_symbol(self, backend: str) -> Any:
        """The symbol itself: there is one backend."""
        return self


def _context(ctx: Any, what: str = "ctx") -> Context:
    if not isinstance(ctx, Context):
        raise TypeError(f"bind: {what} is a {type(ctx).__name__}, expected a Context such as cpu()")
    return ctx


def _groups(group2ctx: Any) -> dict[str, Context]:
    if group2ctx is None:
        return {}
    if not isinstance(group2ctx, Mapping):
        raise TypeError(f"bind: group2ctx is a {type(group2ctx).__name__}, expected a dict of "
                        "contexts by ctx_group")
    return {name: _context(ctx, f"group2ctx[{name!r}]") for name, ctx in group2ctx.items()}
