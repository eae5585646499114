"""Attributes of nodes in the public interface.

A node stores strings by key.  Reserved keys (`lr_mult`, `ctx_group`, ...) are stored as
`__lr_mult__` and can be read under both spellings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base import MXNetError
from ..graph import Entry, Node, topological_order
from ..ops.param import HIDDEN_KEYS
from .compose import read_stored_op, stored_attrs

__all__ = ["Attributes"]


def shown_attrs(attrs: Mapping[str, str]) -> dict[str, str]:
    """Return attributes with the reserved keys under both spellings.

    Parameters
    ----------
    attrs : dict of str to str
        The attributes that a node stores.
    """
    shown = dict(attrs)
    for key in HIDDEN_KEYS:
        if f"__{key}__" in attrs:
            shown[key] = attrs[f"__{key}__"]
    return shown


class Attributes:
    """The methods of `Symbol` that read and write attributes."""

    __slots__ = ()

    entries: list[Entry]

    if TYPE_CHECKING:
        def _only_node(self) -> Node | None: ...

    def attr(self, key: str) -> str | None:
        """Return an attribute of the symbol's node.

        Parameters
        ----------
        key : str
            Name of the attribute; `name` is the node's name.

        Returns
        -------
        str or None
            The value; None if there is none, or if the outputs belong to several nodes.

        Examples
        --------
        >>> import nbmod as mx
        >>> mx.sym.Variable("w", lr_mult=0.5).attr("lr_mult")
        '0.5'
        """
        node = self._only_node()
        if node is None:
            return None
        return node.name if key == "name" else shown_attrs(node.attrs).get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return all attributes of the node of the first output.

        Parameters
        ----------
        recursive : bool, default False
            Not supported, as in MXNet: `attr_dict` has the attributes of all nodes.

        Returns
        -------
        dict of str to str
            The attributes.

        Raises
        ------
        DeprecationWarning
            If `recursive` is true.
        """
        if recursive:
            raise DeprecationWarning("list_attr(recursive=True) is gone, as in MXNet: "
                                     "use attr_dict()")
        return shown_attrs(self.entries[0].node.attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of all nodes of the graph that have any.

        Returns
        -------
        dict of str to dict
            The attributes, by name of the node.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.Activation(mx.sym.Variable("x", wd_mult=0), act_type="relu", name="relu")
        >>> net.attr_dict()["relu"]
        {'act_type': 'relu'}
        """
        return {node.name: shown_attrs(node.attrs)
                for node in topological_order(self.entries) if node.attrs}

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of the node; if one is an op parameter, the op is replaced.

        Raises ValueError for a value that is not a str, MXNetError for one that the op rejects.
        """
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"_set_attr: {key} is {value!r}, expected text")
        node = self._only_node()
        if node is None:
            raise MXNetError("_set_attr: the symbol has outputs of several nodes; "
                             "set attributes of one output, as in symbol[0]")
        attrs = {**node.attrs, **stored_attrs(kwargs, node.describe())}
        if node.op is not None and attrs != node.attrs:
            node.op = read_stored_op(type(node.op), attrs, node.name, node.op.subgraphs)
        node.attrs = attrs
