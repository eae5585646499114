"""Files of published data sets: in a folder, or downloaded into it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...base import MXNetError, UnwritableFile
from ...compat.c_interface import data_dir
from ...core.archive_members import read_members
from ...core.atomic import atomic_write
from ..utils import _get_repo_file_url, check_sha1, download
from .dataset import _DownloadedDataset

__all__ = ["File", "PublishedDataset", "default_root"]

File = tuple[str, str]
"""Name and SHA-1."""


def default_root(name: str) -> str:
    """Return MXNet's folder of a data set.

    Parameters
    ----------
    name : str
        Name of the data set.
    """
    return os.path.join(data_dir(), "datasets", name)


class PublishedDataset(_DownloadedDataset):
    """Base of data sets in files that MXNet's server has."""

    _namespace: str
    """Folder of the server."""

    def _fetch(self, file: File) -> str:
        """The path of a file, which is downloaded if it is not there."""
        name, sha1 = file
        path = os.path.join(self._root, name)
        state = "has another SHA-1 than MXNet's" if os.path.exists(path) else "is not there"
        try:
            return download(_get_repo_file_url(f"gluon/dataset/{self._namespace}", name),
                            path=self._root, sha1_hash=sha1)
        except UnwritableFile:
            raise
        except MXNetError as error:
            raise MXNetError(f"{type(self).__name__}: {path} {state}. {error}. Without a network, "
                             f"copy {name}, or the files in it, to {self._root}, or name their "
                             "folder by root=") from None

    def _unpacked(self, files: Sequence[File], archive: File) -> list[str]:
        """The paths of files, which are there or in an archive, in whatever folder."""
        paths = [os.path.join(self._root, name) for name, _ in files]
        if all(os.path.exists(path) and check_sha1(path, sha1)
               for path, (_, sha1) in zip(paths, files, strict=True)):
            return paths
        source = self._fetch(archive)
        members = {os.path.basename(name): content
                   for name, content in read_members(source).items()}
        for path in paths:
            if (name := os.path.basename(path)) not in members:
                raise MXNetError(f"{source}: there is no {name} in the archive")
            with atomic_write(path) as target:
                target.write(members[name])
        return paths
