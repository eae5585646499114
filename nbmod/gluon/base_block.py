"""`Block`: a part of a network, with parameters and children, called on arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from .. import ndarray as nd
from ..base import AbstractError, ArgumentTypeError, CheckError, DTypeArg, MXNetError, warn_user
from ..core.reprs import safe_repr
from .base_parameter import AnyInit, Parameter
from .block_scope import BlockScope
from .block_summary import print_summary
from .parameter_dict import ParameterDict
from .parameter_files import ParameterFile
from .saved_blocks import load_block, save_block
from .saved_values import DtypeSource, Loading
from .utils import Contexts, HookHandle, _indent, unknown_keyword

__all__ = ["Block"]

B = TypeVar("B", bound="Block")


class PatternError(MXNetError, re.error):
    """A text that is no regular expression, where MXNet raises re.error."""


class Block:
    """A part of a network, with parameters and children, called on arrays.

    A subclass makes children and parameters in its constructor, and defines `forward`.

    Parameters
    ----------
    prefix : str, optional
        Beginning of the names of parameters; by default the class's name with a counter.
    params : ParameterDict, optional
        Parameters to share, as `other.params` or `other.collect_params()`.
    **unknown
        Refused, as keywords that no constructor of a subclass takes end here.

    Raises
    ------
    TypeError
        For an unknown keyword; names the subclass and what it takes.

    Examples
    --------
    >>> class Scale(mx.gluon.Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.factor = self.params.get("factor", shape=(1,), init="ones")
    ...     def forward(self, x):
    ...         return x * self.factor.data()
    >>> net = Scale(prefix="net_")
    >>> net.initialize()
    >>> net(mx.nd.array([1, 2])).asnumpy().tolist(), list(net.collect_params())
    ([1.0, 2.0], ['net_factor'])
    """

    _is_container: ClassVar = False
    """Whether `summary` shows the children alone."""
    _hint: ClassVar[str] = ""
    """Kind of block, which names begin with; by default the class's name."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None,
                 **unknown: Any):
        if unknown:
            raise unknown_keyword(type(self), next(iter(unknown)))
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: dict[int, Callable[..., Any]] = {}
        self._forward_pre_hooks: dict[int, Callable[..., Any]] = {}

    def _alias(self) -> str:
        """Kind of block, in names of blocks without a prefix."""
        return self._hint or type(self).__name__.lower()

    @safe_repr
    def __repr__(self) -> str:
        lines = "\n".join(f"  ({key}): {_indent(repr(block), 2)}"
                          for key, block in vars(self).items() if isinstance(block, Block))
        return f"{type(self).__name__}(\n{lines}\n)"

    def __setattr__(self, name: str, value: Any) -> None:
        """Register blocks as children, and parameters."""
        current = getattr(self, name, None)
        if isinstance(current, (Parameter, Block)) and not isinstance(value, type(current)):
            raise ArgumentTypeError(f"Changing attribute type for {name} from {type(current)} to "
                                    f"{type(value)} is not allowed.")
        if isinstance(value, (Block, Parameter)) and "_children" not in vars(self):
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before the first "
                                 f"block or parameter, {name}, is set")
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                raise CheckError(f"Overriding Parameter attribute {name} is not allowed. To share "
                                 "parameters between blocks, give params to the block's "
                                 "constructor.")
            self._reg_params[name] = value
        super().__setattr__(name, value)

    # -- names ------------------------------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """Beginning of the names of parameters."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """Return a scope for a `with` statement in which names begin with this block's prefix."""
        return self._scope

    # -- parameters -------------------------------------------------------------------------------

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters of this block and of all within it, by name.

        Parameters
        ----------
        select : str, optional
            Regular expression that names must match from their beginning, as ``'.*weight|.*bias'``.
        """
        self._warn_of_containers()
        collected = ParameterDict(self._params.prefix)
        try:
            collected.update({name: each for name, each in self.params.items()
                              if select is None or re.match(select, name)})
        except re.error as error:
            raise PatternError(f"collect_params: select is {select!r}, which is no regular "
                               f"expression: {error}; any text is '.*', not '*'") from None
        for child in self._children.values():
            collected.update(child.collect_params(select))
        return collected

    def _warn_of_containers(self) -> None:
        """Warn of lists and dicts with blocks that are no children."""
        children = {id(child) for child in self._children.values()}
        for name, value in vars(self).items():
            if not name.startswith("_") and isinstance(value, (list, tuple, dict)) and any(
                    isinstance(each, Block) and id(each) not in children
                    for each in _elements(value)):
                warn_user(f'"{type(self).__name__}.{name}" is an unregistered container with '
                          "Blocks. Blocks inside the list, tuple or dict are not registered: "
                          "use register_child(), nn.Sequential or nn.HybridSequential.")

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by path: attributes and indices that lead to them."""
        start = prefix + "." if prefix else ""
        paths = {start + name: each for name, each in self._reg_params.items()}
        for name, child in self._children.items():
            paths.update(child._collect_params_with_prefix(start + name))
        return paths

    def initialize(self, init: AnyInit = None, ctx: Contexts = None, verbose: bool = False,
                   force_reinit: bool = False) -> None:
        """Initialize the parameters of this block and of all within it.

        Parameters
        ----------
        init : Initializer or str, optional
            For parameters without one of their own; uniform values by default.
        ctx : Context or list of Context, optional
            Devices, each of which gets a copy; the current one by default.
        verbose : bool, default False
            Whether to log what each parameter is filled with.
        force_reinit : bool, default False
            Whether to replace values that are there.
        """
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def cast(self, dtype: DTypeArg) -> None:
        """Change the element type of the parameters of this block and of all within it.

        Parameters
        ----------
        dtype : dtype
            Element type.
        """
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self._params.values():
            parameter.cast(dtype)

    # -- files ------------------------------------------------------------------------------------

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write the parameters to a file, under the paths of attributes that lead to them.

        Parameters
        ----------
        filename : str
            File.
        deduplicate : bool, default False
            Whether a parameter with several paths is written once, under the last of them.
        """
        paths = self._collect_params_with_prefix()
        if deduplicate:
            last = {id(each): path for path, each in paths.items()}
            paths = {path: each for path, each in paths.items() if last[id(each)] == path}
        nd.save(filename, {path: each._reduce() for path, each in paths.items()})

    def load_parameters(self, filename: str, ctx: Contexts = None, allow_missing: bool = False,
                        ignore_extra: bool = False, cast_dtype: bool = False,
                        dtype_source: DtypeSource = "current") -> None:
        """Read the parameters from a file.

        Parameters
        ----------
        filename : str
            File of `save_parameters`, `ParameterDict.save` or `export`.
        ctx : Context or list of Context, optional
            Devices; those of the parameters, or `cpu(0)`, by default.
        allow_missing : bool, default False
            Whether parameters may be missing in the file.
        ignore_extra : bool, default False
            Whether the file may hold other arrays.
        cast_dtype : bool, default False
            Whether element types may differ.
        dtype_source : {'current', 'saved'}, default 'current'
            Which element type the parameters then have.

        Raises
        ------
        AssertionError
            For missing arrays, and other shapes or types, by name; nothing is changed then.
        ValueError
            For arrays that no parameter has; AssertionError if the file has whole names.
        """
        loading = Loading(ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)
        file = ParameterFile.read(filename)
        paths = self._collect_params_with_prefix()
        if not file.arrays and not paths:
            return
        whole = self.collect_params()
        if any("." in name for name in file.arrays) or (
                not file.has_names_of(whole) and {*file.arrays} <= {*paths}):
            file.by_path().load_into(paths, loading)
        else:
            prefix = "" if file.has_names_of(whole) else self.prefix
            file.by_whole_name(prefix).load_into(whole._params, loading)

    def save_params(self, filename: str) -> None:
        """Write the parameters to a file under their names: `collect_params().save`.

        Parameters
        ----------
        filename : str
            File.
        """
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename: str, ctx: Contexts = None, allow_missing: bool = False,
                    ignore_extra: bool = False) -> None:
        """Read the parameters from a file: an older name of `load_parameters`.

        Parameters
        ----------
        filename, ctx, allow_missing, ignore_extra
            As for `load_parameters`.
        """
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Write parameters, traces and names of this block and of all within it.

        Parameters
        ----------
        prefix : str
            Beginning of the names of the files: ``prefix-model.json`` and ``prefix-model.params``.
        """
        save_block(self, prefix)

    def load(self, prefix: str) -> None:
        """Read the files of `save`: this block then calls the traces that are in them.

        Parameters
        ----------
        prefix : str
            Beginning of the names of the files.

        Raises
        ------
        MXNetError
            If they are those of another network.
        """
        load_block(self, prefix)

    def _saved_trace(self) -> dict[str, Any]:
        """Entries of `save` about calls; a Block has no trace."""
        return {}

    def _restore_trace(self, entry: dict[str, Any]) -> None:
        """Take what `_saved_trace` returned."""

    # -- children ---------------------------------------------------------------------------------

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which assigning a block to an attribute does.

        Parameters
        ----------
        block : Block
            Child.
        name : str, optional
            Its name in paths; its number by default.

        Raises
        ------
        TypeError
            If it is no block, which MXNet notices later.
        """
        if not isinstance(block, Block):
            raise ArgumentTypeError(f"Children of Block must be Blocks, but {block!r} has type "
                                    f"{type(block)}{hint_of_child(block, 'Lambda')}")
        self._children[str(len(self._children)) if name is None else name] = block

    def apply(self: B, fn: Callable[[Block], object]) -> B:
        """Call a function for all blocks within this one, and then for itself.

        Parameters
        ----------
        fn : callable
            Takes a block.

        Returns
        -------
        Block
            This block.
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Let the `HybridBlock` within this block compile their calls.

        Parameters
        ----------
        active : bool, default True
            Whether to do so, or no longer.
        **kwargs
            Further arguments of `HybridBlock.hybridize`.
        """
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def summary(self, *inputs: Any) -> None:
        """Call the block, and print the layers that the call passes.

        Parameters
        ----------
        *inputs : NDArray
            Arguments of the call.

        Raises
        ------
        AssertionError
            If a part of the network is hybridized.
        """
        print_summary(self, inputs)

    # -- calls ------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[[Any, Any], object]) -> HookHandle:
        """Call a function before each call of this block.

        Parameters
        ----------
        hook : callable
            Takes the block and a tuple of the arguments.

        Returns
        -------
        HookHandle
            Its `detach` removes the function.
        """
        return HookHandle().attach(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[[Any, Any, Any], object]) -> HookHandle:
        """Call a function after each call of this block.

        Parameters
        ----------
        hook : callable
            Takes the block, a tuple of the arguments, and what the call returns.

        Returns
        -------
        HookHandle
            Its `detach` removes the function.
        """
        return HookHandle().attach(self._forward_hooks, hook)

    def register_op_hook(self, callback: Callable[..., object], monitor_all: bool = False) -> None:
        """Call a function for each array that operators of hybridized blocks compute.

        Parameters
        ----------
        callback : callable
            Takes the names of the array and of the operator, as bytes, and the array.
        monitor_all : bool, default False
            Whether inputs of operators are shown, too.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def __call__(self, *args: Any) -> Any:
        """Call `forward`, between the hooks."""
        if self._forward_pre_hooks:
            for before in [*self._forward_pre_hooks.values()]:
                before(self, args)
        out = self.forward(*args)
        if self._forward_hooks:
            for after in [*self._forward_hooks.values()]:
                after(self, args, out)
        return out

    def forward(self, *args: Any) -> Any:
        """Compute the outputs: a subclass defines it.

        Parameters
        ----------
        *args : NDArray
            Arguments of the call.
        """
        raise AbstractError(f"{type(self).__name__} defines no forward(self, x, ...); a Block "
                            "needs it")


def hint_of_child(value: object, wrapper: str) -> str:
    """Return the end of an error message: how a value that is no block becomes one, or some.

    Parameters
    ----------
    value : object
        Value.
    wrapper : {'Lambda', 'HybridLambda'}
        Block of a function.
    """
    if isinstance(value, type):
        return f"; {value.__name__}(...) makes one"
    if isinstance(value, (list, tuple)):
        return "; give its blocks one by one: add(*blocks)"
    return f"; nn.{wrapper}(function) makes one" if callable(value) else ""


def _elements(container: Any) -> Iterator[Any]:
    """Values in nested lists, tuples and dicts."""
    waiting = [container]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        else:
            yield value
