"""`mxnet.symbol_doc`: documentation added to functions of symbols, and shapes by output.

nbmod documents its operators themselves (`help(mx.sym.Concat)`), so only the machinery is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .c_interface import build_param_doc as _build_param_doc
from .ndarray_doc import _added

if TYPE_CHECKING:
    from ..symbol import Symbol

__all__ = ["SymbolDoc"]
__dir__ = __all__.copy


class SymbolDoc:
    """Base of classes `<function>Doc`, whose docstrings `_build_doc` adds."""

    @staticmethod
    def get_output_shape(sym: Symbol, **input_shapes: tuple[int, ...]
                         ) -> dict[str, tuple[int, ...] | None]:
        """Return the shapes of a symbol's outputs, by name.

        Parameters
        ----------
        sym : Symbol
            The symbol.
        **input_shapes : tuple of int
            Shapes of its inputs.

        Examples
        --------
        >>> dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
        >>> mx.symbol_doc.SymbolDoc.get_output_shape(dense, data=(2, 3))
        {'fc_output': (2, 4)}
        """
        shapes = sym.infer_shape(**input_shapes)[1]
        return dict(zip(sym.list_outputs(), shapes or [], strict=True))


def _build_doc(func_name: str, desc: str, arg_names: Iterable[str], arg_types: Iterable[str],
               arg_desc: Iterable[str], key_var_num_args: str | None = None,
               ret_type: str | None = None) -> str:
    parts = [
        desc, _build_param_doc(arg_names, arg_types, arg_desc),
        "name : string, optional.\n    Name of the symbol.\n",
        "Returns\n-------\nSymbol\n    The result.\n",
        *_added(SymbolDoc, func_name)]
    return "\n".join(parts).replace("NDArray-or-Symbol", "Symbol")
