"""Whether a file of compiled code could have been written by another user.

Compiled code is code.  What is in the user's cache must be the user's own, or the administrator's.
An installed kernel may be as open as nbmod's own sources, which Python runs in any case, but never
to everyone.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path

from ...base import warn_user

__all__ = ["is_private", "is_private_folder"]

GROUP, OTHERS = stat.S_IWGRP, stat.S_IWOTH


def is_private(status: os.stat_result, installed: bool = False) -> bool:
    """Whether only this user and the administrator, or whoever may write nbmod's sources where the
    file is `installed`, may write a file or folder.  Windows keeps the folders of users apart."""
    if sys.platform == "win32":
        return True
    owners, open_to = {0, os.geteuid()}, status.st_mode & (GROUP | OTHERS)
    if installed:
        sources = os.stat(__file__)
        owners.add(sources.st_uid)
        if status.st_gid == sources.st_gid:
            open_to &= ~(sources.st_mode & GROUP)
    return status.st_uid in owners and not open_to


@cache
def is_private_folder(folder: Path, installed: bool = False) -> bool:
    """Whether a folder exists and is private; warns if it is not private."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if stat.S_ISDIR(status.st_mode) and is_private(status, installed):
        return True
    remedy = "install it again" if installed else "set NBMOD_CACHE_DIR to one"
    warn_user(f"compiled kernels in {folder} are not loaded, because other users may write there; "
              f"make it a folder of your own (chmod go-w), or {remedy}")
    return False
