"""`mx.gluon.model_zoo.vision`: networks for images.

Each is a `HybridBlock` of two parts, `features` and `output`, whose graph and parameters are named
as in MXNet: files that MXNet's `save_parameters` and `export` have written can be loaded, and
`net.symbol` goes to `mx.mod.Module`.  `get_model` is here; each file has one family and its
functions, such as `resnet50_v1`.

    alexnet.py     AlexNet, the shortest
    vgg.py         VGG with 11 to 19 layers, with and without batch normalization
    squeezenet.py  SqueezeNet 1.0 and 1.1
    densenet.py    DenseNet with 121 to 201 layers
    inception.py   Inception version 3, for images of 299 x 299
    resnet.py      ResNet with 18 to 152 layers, versions 1 and 2
    mobilenet.py   MobileNet, versions 1 and 2, by width

Begin with `alexnet.py`.  Imports `base`, `context`, `gluon.block`,
`gluon.contrib`, `gluon.model_zoo`, `gluon.nn` and `initializer`.

Examples
--------
>>> net = mx.gluon.model_zoo.vision.get_model("resnet18_v1", classes=10, prefix="net_")
>>> net.symbol.list_outputs(), net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
(['net_dense0_fwd_output'], [(1, 10)])
>>> loss = mx.sym.SoftmaxOutput(net.symbol, name="softmax")
>>> mx.mod.Module(loss, context=mx.cpu()).data_names
['data']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base import ArgumentError
from ..image_network import ImageNetwork
from ..model_store import MODELS
from .alexnet import *  # noqa: F403
from .densenet import *  # noqa: F403
from .inception import *  # noqa: F403
from .mobilenet import *  # noqa: F403
from .resnet import *  # noqa: F403
from .squeezenet import *  # noqa: F403
from .vgg import *  # noqa: F403

_FUNCTIONS = {name: name.replace(".", "_").replace("mobilenetv", "mobilenet_v")
              .replace("inceptionv", "inception_v") for name in MODELS}


def get_model(name: str, **kwargs: Any) -> ImageNetwork:
    """Make a network by its name.

    Parameters
    ----------
    name : str
        Name, such as 'resnet50_v1', 'mobilenet1.0' or 'inceptionv3'; letters may be upper case.
    **kwargs
        Arguments of the function of that network: `pretrained`, `ctx`, `root`, `classes`,
        `prefix` and more.

    Raises
    ------
    ValueError
        If there is no such network.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.get_model("squeezenet1.1", prefix="net_").name
    'net'
    """
    key = name.lower()
    if key not in MODELS:
        raise ArgumentError(f"Model {key} is not supported. Available options are\n\t"
                            + "\n\t".join(MODELS))
    make: Callable[..., ImageNetwork] = globals()[_FUNCTIONS[key]]
    return make(**kwargs)


def __dir__() -> list[str]:
    return [name for name, value in globals().items()
            if getattr(value, "__module__", "").startswith(__name__) and name[0] != "_"]
