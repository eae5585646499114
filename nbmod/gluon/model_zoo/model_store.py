"""`mx.gluon.model_zoo.model_store`: files of pretrained parameters."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile

from ...base import ArgumentError, MXNetError, UnwritableFile
from ...compat.c_interface import data_dir
from ...core.atomic import named_errors
from ..utils import _get_repo_file_url, check_sha1, download, unzip

__all__ = ["MODELS", "get_model_file", "purge", "short_hash"]
__dir__ = __all__.copy

MODELS = dict(item.split("=") for item in """
    alexnet=44335d1f0046b328243b32a26a4fbd62d9057b45
    densenet121=f27dbf2dbd5ce9a80b102d89c7483342cd33cb31
    densenet161=b6c8a95717e3e761bd88d145f4d0a214aaa515dc
    densenet169=2603f878403c6aa5a71a124c4a3307143d6820e9
    densenet201=1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb
    inceptionv3=ed47ec45a937b656fcc94dabde85495bbef5ba1f
    mobilenet0.25=9f83e440996887baf91a6aff1cccc1c903a64274
    mobilenet0.5=8e9d539cc66aa5efa71c4b6af983b936ab8701c3
    mobilenet0.75=529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2
    mobilenet1.0=6b8c5106c730e8750bcd82ceb75220a3351157cd
    mobilenetv2_0.25=ae8f9392789b04822cbb1d98c27283fc5f8aa0a7
    mobilenetv2_0.5=aabd26cd335379fcb72ae6c8fac45a70eab11785
    mobilenetv2_0.75=e2be7b72a79fe4a750d1dd415afedf01c3ea818d
    mobilenetv2_1.0=36da4ff1867abccd32b29592d79fc753bca5a215
    resnet101_v1=d988c13d6159779e907140a638c56f229634cb02
    resnet101_v2=18e93e4f48947e002547f50eabbcc9c83e516aa6
    resnet152_v1=671c637a14387ab9e2654eafd0d493d86b1c8579
    resnet152_v2=f2695542de38cf7e71ed58f02893d82bb409415e
    resnet18_v1=a0666292f0a30ff61f857b0b66efc0228eb6a54b
    resnet18_v2=a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657
    resnet34_v1=48216ba99a8b1005d75c0f3a0c422301a0473233
    resnet34_v2=9d6b80bbc35169de6b6edecffdd6047c56fdd322
    resnet50_v1=0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce
    resnet50_v2=ecdde35339c1aadbec4f547857078e734a76fb49
    squeezenet1.0=264ba4970a0cc87a4f15c96e25246a1307caf523
    squeezenet1.1=33ba0f93753c83d86e1eb397f38a667eaf2e9376
    vgg11=dd221b160977f36a53f464cb54648d227c707a05
    vgg11_bn=ee79a8098a91fbe05b7a973fed2017a6117723a8
    vgg13=6bc5de58a05a5e2e7f493e2d75a580d83efde38c
    vgg13_bn=7d97a06c3c7a1aecc88b6e7385c2b373a249e95e
    vgg16=e660d4569ccb679ec68f1fd3cce07a387252a90a
    vgg16_bn=7f01cf050d357127a73826045c245041b0df7363
    vgg19=ad2f660d101905472b83590b59708b71ea22b2e5
    vgg19_bn=f360b758e856f1074a85abd5fd873ed1d98297c3
""".split())
"""Name of a network -> SHA-1 of its file."""

_model_sha1 = MODELS
"""MXNet's name, by which gluon-nlp adds networks."""


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
    return MODELS[name][:8]


def get_model_file(name: str, root: str | None = None) -> str:
    """Return the path of MXNet's file of a network's parameters.

    It is downloaded if it is not there or has another SHA-1, from `MXNET_GLUON_REPO` or else from
    MXNet's own server.

    Parameters
    ----------
    name : str
        Name of the network.
    root : str, optional
        Folder; that of MXNet by default, `models` in `MXNET_HOME` or in `~/.mxnet`.

    Raises
    ------
    ValueError
        If MXNet has no parameters of that network, or the download is damaged.
    MXNetError
        If the file is not there and cannot be downloaded; names both places.
    """
    file = f"{name}-{short_hash(name)}"
    path = os.path.join(_folder(root), f"{file}.params")
    fault = "is not there"
    if os.path.exists(path):
        if check_sha1(path, MODELS[name]):
            return path
        fault = f"has another SHA-1 than {MODELS[name]}"
        logging.warning("Mismatch in the content of model file detected. Downloading again.")
    try:
        _download(file, path, MODELS[name])
    except UnwritableFile:
        raise
    except MXNetError as error:
        raise (ArgumentError if isinstance(error, ValueError) else MXNetError)(
            f"pretrained parameters of {name}: {path} {fault}. {error}. Without a network, copy "
            "the file from a machine where MXNet has stored it, pass root=, or call "
            "load_parameters with another file") from None
    return path


def _download(file: str, path: str, sha1_hash: str) -> None:
    """Write parameters that arrive in an archive."""
    url, folder = _get_repo_file_url("gluon/models", f"{file}.zip"), os.path.dirname(path)
    with named_errors(folder):
        os.makedirs(folder, exist_ok=True)
        scratch = tempfile.mkdtemp(dir=folder)
    try:
        unzip(download(url, scratch), f"{file}.params", path, sha1_hash)
    except MXNetError:
        raise
    except ValueError as error:
        raise ArgumentError("Downloaded file has different hash. Please try again. "
                            f"{url}: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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
