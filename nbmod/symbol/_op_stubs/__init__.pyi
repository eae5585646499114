# Written by `python docs/generate_stubs.py`.

from typing import Any, TypedDict

class NodeAttributes(TypedDict, total=False):
    """Attributes of a node that mean something to the framework."""
    ctx_group: Any
    lr_mult: Any
    wd_mult: Any
    force_mirroring: Any
    mirror_stage: Any
