"""Binding: from a symbol to an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from numpy.typing import DTypeLike

from ..base import MXNetError
from ..config import tuning
from ..context import Context, current_context
from ..graph import Entry
from .inference import read_dtype, read_shape

if TYPE_CHECKING:
    from ..executor import Executor
    from ..ndarray import NDArray
    from .symbol import Symbol

__all__ = ["Binding"]

Arrays: TypeAlias = "Sequence[NDArray] | Mapping[str, NDArray]"
GradReq: TypeAlias = str | Sequence[str] | Mapping[str, str]


class Binding:
    """The methods of `Symbol` that bind."""

    __slots__ = ()

    entries: list[Entry]

    def simple_bind(self, ctx: Context, grad_req: GradReq = "write",
                    type_dict: Mapping[str, DTypeLike] | None = None,
                    stype_dict: Mapping[str, str] | None = None,
                    group2ctx: Mapping[str, Context] | None = None,
                    shared_arg_names: Sequence[str] | None = None,
                    shared_exec: Executor | None = None,
                    shared_buffer: dict[str, NDArray] | None = None, tune: bool = False,
                    **kwargs: tuple[int, ...]) -> Executor:
        """Bind the symbol to new arrays of zeros, whose shapes are inferred from those given.

        Parameters
        ----------
        ctx : Context
            The device.
        grad_req : str, list of str or dict of str to str, default 'write'
            'write', 'add' or 'null': what happens to gradients, for all arguments, in the order of
            `list_arguments()`, or by name.
        type_dict : dict of str to dtype, optional
            Element types of arguments; float32 for others.
        stype_dict : dict, optional
            Accepted for compatibility: there are no sparse arrays.
        group2ctx : dict of str to Context, optional
            The device of the nodes and variables of each `ctx_group`; everything else is on `ctx`,
            or where its first input is.
        shared_arg_names : list of str, optional
            Arguments that share their arrays with `shared_exec`.
        shared_exec : Executor, optional
            An executor to share arrays and memory with.
        shared_buffer : dict of str to NDArray, optional
            Arrays that are used where they fit; new arrays are added to it.
        tune : bool, default False
            Whether to measure the algorithms of convolutions where that has not been done on this
            machine, and use the fastest, here and in later binds; otherwise they are estimated.
        **kwargs : tuple of int
            Known shapes, by name of the argument.

        Returns
        -------
        Executor
            The executor; its arrays are in `arg_dict`, `grad_dict` and `aux_dict`.

        Raises
        ------
        MXNetError
            If some shapes cannot be inferred; names those arguments.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        >>> executor = net.simple_bind(mx.cpu(), data=(1, 3))
        >>> executor.arg_dict["fc_weight"][:] = 2
        >>> executor.forward(data=mx.nd.array([[1, 2, 3]]))[0].asnumpy().tolist()
        [[12.0, 12.0]]
        """
        from ..execution.bind import simple_bind
        from ..executor import Executor

        if not isinstance(shared_exec, (Executor, type(None))):
            raise TypeError(f"simple_bind: shared_exec is a {type(shared_exec).__name__}, expected "
                            "an Executor")
        shapes = {name: read_shape(name, shape) for name, shape in kwargs.items()}
        types = {name: read_dtype(name, dtype) for name, dtype in (type_dict or {}).items()}
        with tuning(tune):
            return Executor(simple_bind(
                cast("Symbol", self), _context(ctx), grad_req=grad_req, type_dict=types,
                shared_arg_names=shared_arg_names, shared_exec=shared_exec,
                shared_buffer=shared_buffer, shapes=shapes, groups=_groups(group2ctx)), shared_exec)

    def bind(self, ctx: Context, args: Arrays, args_grad: Arrays | None = None,
             grad_req: GradReq = "write", aux_states: Arrays | None = None,
             group2ctx: Mapping[str, Context] | None = None,
             shared_exec: Executor | None = None, tune: bool = False) -> Executor:
        """Bind the symbol to arrays.

        Parameters
        ----------
        ctx : Context
            The device.
        args : list of NDArray or dict of str to NDArray
            The arguments, in the order of `list_arguments()` or by name.
        args_grad : list of NDArray or dict of str to NDArray, optional
            Arrays for the gradients; arguments without one have no gradient.
        grad_req : str, list of str or dict of str to str, default 'write'
            'write', 'add' or 'null': what happens to gradients.
        aux_states : list of NDArray or dict of str to NDArray, optional
            The auxiliary states, in the order of `list_auxiliary_states()` or by name.
        group2ctx : dict of str to Context, optional
            As for `simple_bind`; arrays may then be on any device.
        shared_exec : Executor, optional
            An executor to share memory with.
        tune : bool, default False
            As for `simple_bind`.

        Returns
        -------
        Executor
            The executor, which writes to the arrays that were given.

        Raises
        ------
        TypeError
            If `args` is neither a list nor a dict.

        Examples
        --------
        >>> import nbmod as mx
        >>> x = mx.sym.Variable("x")
        >>> value, gradient = mx.nd.array([3.0]), mx.nd.zeros(1)
        >>> executor = (x * x).bind(mx.cpu(), {"x": value}, args_grad={"x": gradient})
        >>> executor.forward(is_train=True)[0].asscalar().item()
        9.0
        >>> executor.backward(mx.nd.ones(1))
        >>> gradient.asscalar().item()
        6.0
        """
        from ..execution.bind import bind
        from ..executor import Executor

        if not isinstance(args, (list, tuple, Mapping)):
            raise TypeError(f"bind: args is a {type(args).__name__}, expected a list of NDArray or "
                            "a dict of NDArray by name")
        with tuning(tune):
            return Executor(bind(cast("Symbol", self), _context(ctx), args, args_grad, grad_req,
                                 aux_states, _groups(group2ctx)), shared_exec)

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Compute the outputs for given arguments: bind, and run one forward pass.

        Parameters
        ----------
        ctx : Context, optional
            The device; the current context unless given.
        **kwargs : NDArray
            The arguments, by name.

        Returns
        -------
        list of NDArray
            The outputs.

        Examples
        --------
        >>> import nbmod as mx
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> (a + b).eval(a=mx.nd.array([1]), b=mx.nd.array([2]))[0].asnumpy().tolist()
        [3.0]
        """
        return self.bind(current_context() if ctx is None else ctx, kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> NoReturn:
        """Not available, as in MXNet: bind the symbol and call `backward`.

        Parameters
        ----------
        wrt : list of str
            Ignored.

        Raises
        ------
        MXNetError
            Always.
        """
        raise MXNetError("gradient is not implemented for Symbol (nor is it in MXNet): bind the "
                         "symbol with args_grad and call backward()")

    grad = gradient

    def optimize_for(self, backend: str, *args: Any, **kwargs: Any) -> Symbol:
        """Return the symbol: every graph is optimized when it is bound.

        Parameters
        ----------
        backend : str
            Accepted for compatibility and ignored.
        *args, **kwargs
            Accepted for compatibility and ignored.

        Returns
        -------
        Symbol
            The symbol.
        """
        return cast("Symbol", self)

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Return the symbol: there is one backend.

        Parameters
        ----------
        backend : str
            Accepted for compatibility and ignored.

        Returns
        -------
        Symbol
            The symbol.
        """
        return cast("Symbol", self)


def _context(ctx: object, what: str = "ctx") -> Context:
    if not isinstance(ctx, Context):
        raise TypeError(f"bind: {what} is a {type(ctx).__name__}, expected a Context such as cpu()")
    return ctx


def _groups(group2ctx: Mapping[str, Context] | None) -> dict[str, Context]:
    if group2ctx is None:
        return {}
    if not isinstance(group2ctx, Mapping):
        raise TypeError(f"bind: group2ctx is a {type(group2ctx).__name__}, expected a dict of "
                        "contexts by ctx_group")
    return {name: _context(ctx, f"group2ctx[{name!r}]") for name, ctx in group2ctx.items()}
