"""Checkpoints of buckets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .. import ndarray as nd
from ..base import AbstractError, ArgumentError, MXNetError
from ..core.integrity import saving_together
from ..symbol import Symbol
from .arguments import Params
from .base_module import BaseModule
from .bucket_keys import _plain_key
from .training_position import TrainingPosition
from .workers import save_part, writes_files

if TYPE_CHECKING:
    from ..base import Forwarded
    from .module import Module

__all__ = ["SavedBuckets", "SymbolFunction"]

SymbolFunction = Callable[[Hashable], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]]
"""A function of a bucket key that returns (symbol, data_names, label_names)."""


class SavedBuckets(BaseModule):
    """Methods of `BucketingModule` that save and load its training."""

    _buckets: dict[Hashable, Module]

    def _default(self) -> Module:
        """The module through which parameters are read and written."""
        raise self._abstract("_default")

    def save_optimizer_states(self, fname: str) -> None:
        """Save the states of the optimizer, which all buckets share.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        self._default().save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load the states of the optimizer, which all buckets share.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        self._default().load_optimizer_states(fname)

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        """Begin with the default bucket's module, which has the parameters and the optimizer."""
        default = self._default()
        default.history = self.history
        training = default._begin_fit(progress, overlaps)
        self.history = default.history
        return training

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = False, integrity: bool = False) -> None:
        """Save the networks of all buckets so far, their keys and the parameters.

        Writes ``<prefix>-<key>-symbol.json`` for each bucket, ``<prefix>.buckets`` and
        ``<prefix>-<epoch>.params``, `epoch` with four digits.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, with a directory if wanted.
        epoch : int
            Number of the checkpoint.
        save_optimizer_states : bool, default False
            Write ``.states`` and ``.resume``, too, as `Module.save_checkpoint` does.
        remove_amp_cast : bool, default False
            Omit casts that mixed precision inserted from the saved symbols.
        integrity : bool, default False
            Write ``<prefix>-<epoch>.sha256``, too, as `Module.save_checkpoint` does.

        Raises
        ------
        ArgumentError
            If a bucket key is neither an int nor a tuple of ints, or these have several lengths.
        """
        if not self._buckets:
            raise MXNetError("BucketingModule: there is no bucket to save; call bind() first")
        modules = {_plain_key(key): module for key, module in self._buckets.items()}
        if len({np.shape(key) for key in modules}) > 1:
            raise ArgumentError(f"BucketingModule: bucket keys {list(modules)} cannot be saved "
                                "together; use ints, or tuples of one length")
        keys = nd.array(np.array(list(modules), np.int32), dtype=np.int32)
        stem, networks = f"{prefix}-{epoch:04d}", [f"{prefix}-{key}-symbol.json" for key in modules]
        if not writes_files(self._default()._kvstore):
            return save_part(self, save_optimizer_states, partial(self._save_states, stem, epoch))
        with saving_together(stem, [*networks, f"{prefix}.buckets"], integrity):
            self.save_params(f"{stem}.params")
            nd.save(f"{prefix}.buckets", keys)
            for name, module in zip(networks, modules.values(), strict=True):
                module.symbol.save(name, remove_amp_cast=remove_amp_cast)
            if save_optimizer_states:
                self._save_states(stem, epoch)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that is needed to resume training."""
        default = self._default()
        default._progress, default.history = self._progress, self.history
        default._save_states(stem, epoch)

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: SymbolFunction | None = None,
             default_bucket_key: Hashable = None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> SavedBuckets:
        """Create a module, not bound yet, from a checkpoint.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as given to `save_checkpoint`.
        epoch : int
            Number of the checkpoint.
        sym_gen : callable
            As for the constructor; required. Networks are read from the checkpoint where it
            contains them; names of data and labels come from `sym_gen`.
        default_bucket_key : hashable
            As for the constructor; required.
        load_optimizer_states : bool, default False
            Load optimizer states, too, when the optimizer is created.
        verify : bool, default False
            As for `Module.load`.
        **kwargs
            Further arguments of the constructor.
        """
        raise AbstractError("buckets are loaded by their class, such as BucketingModule.load")

    @staticmethod
    def load_dict(sym_dict: Mapping[Hashable, Symbol] | None = None,
                  sym_gen: SymbolFunction | None = None, default_bucket_key: Hashable = None,
                  arg_params: Params = None, aux_params: Params = None, **kwargs: Forwarded
                  ) -> SavedBuckets:
        """Create an unbound module from networks and parameters; all arguments are required.

        Parameters
        ----------
        sym_dict : dict of hashable to Symbol
            Networks by bucket key.
        sym_gen : callable
            As for the constructor.
        default_bucket_key : hashable
            As for the constructor.
        arg_params, aux_params : dict of str to NDArray
            Values by name.
        **kwargs
            Further arguments of the constructor.
        """
        raise AbstractError("buckets are loaded by their class, such as "
                            "BucketingModule.load_dict")
