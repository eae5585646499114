"""`mx.gluon.model_zoo.model_store`: files of pretrained parameters; there is no download."""

from __future__ import annotations

import os

from ...base import ArgumentError, MXNetError
from ...compat.c_interface import data_dir
from ..utils import sha1

__all__ = ["MODELS", "get_model_file", "purge", "short_hash"]

MODELS = dict(item.split("=") for item in """
    alexnet=44335d1f densenet121=f27dbf2d densenet161=b6c8a957 densenet169=2603f878
    densenet201=1cdbc116 inceptionv3=ed47ec45 mobilenet0.25=9f83e440 mobilenet0.5=8e9d539c
    mobilenet0.75=529b2c7f mobilenet1.0=6b8c5106 mobilenetv2_0.25=ae8f9392
    mobilenetv2_0.5=aabd26cd mobilenetv2_0.75=e2be7b72 mobilenetv2_1.0=36da4ff1
    resnet101_v1=d988c13d resnet101_v2=18e93e4f resnet152_v1=671c637a resnet152_v2=f2695542
    resnet18_v1=a0666292 resnet18_v2=a81db45f resnet34_v1=48216ba9 resnet34_v2=9d6b80bb
    resnet50_v1=0aee57f9 resnet50_v2=ecdde353 squeezenet1.0=264ba497 squeezenet1.1=33ba0f93
    vgg11=dd221b16 vgg11_bn=ee79a809 vgg13=6bc5de58 vgg13_bn=7d97a06c vgg16=e660d456
    vgg16_bn=7f01cf05 vgg19=ad2f660d vgg19_bn=f360b758
""".split())
"""Name of a network -> first digits of the SHA-1 of its file."""


def short_hash(name: str) -> str:
    """Return the first digits of the SHA-1 of a network's parameters.

    Parameters
    ----------
    name : str
        Name of the network.

    Raises
    ------
    ValueError
        If MXNet has no parameters of that network.

    Examples
    --------
    >>> mx.gluon.model_zoo.model_store.short_hash("alexnet")
    '44335d1f'
    """
    if name not in MODELS:
        raise ArgumentError(f"Pretrained model for {name} is not available; there are parameters "
                            f"of {', '.join(MODELS)}")
    return MODELS[name]


def get_model_file(name: str, root: str | None = None) -> str:
    """Return the path of MXNet's file of a network's parameters, which must be there.

    Parameters
    ----------
    name : str
        Name of the network.
    root : str, optional
        Folder; that of MXNet by default, `models` in `MXNET_HOME` or in `~/.mxnet`.

    Raises
    ------
    ValueError
        If MXNet has no parameters of that network.
    MXNetError
        If the file is not there or is damaged; names the path.
    """
    digits = short_hash(name)
    path = os.path.join(_folder(root), f"{name}-{digits}.params")
    if not os.path.exists(path):
        raise MXNetError(f"pretrained parameters of {name}: there is no file {path}, and nbmod "
                         "does not download it; copy it from a machine where MXNet has stored it, "
                         "pass root=, or call load_parameters with another file")
    if not sha1(path).startswith(digits):
        raise MXNetError(f"pretrained parameters of {name}: the SHA-1 of {path} does not begin "
                         f"with {digits}: the file is damaged")
    return path


def purge(root: str | None = None) -> None:
    """Delete the files of parameters in a folder.

    Parameters
    ----------
    root : str, optional
        Folder; that of MXNet by default.
    """
    folder = _folder(root)
    for name in os.listdir(folder):
        if name.endswith(".params"):
            os.remove(os.path.join(folder, name))


def _folder(root: str | None) -> str:
    return os.path.expanduser(root or os.path.join(data_dir(), "models"))
