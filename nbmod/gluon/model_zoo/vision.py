"""`mx.gluon.model_zoo.vision`: names of Gluon's image networks (see `nbmod.gluon`)."""

from ..absent import absent_classes, absent_functions

_NAMES = """
    alexnet densenet121 densenet161 densenet169 densenet201 get_mobilenet get_mobilenet_v2 get_model
    get_resnet get_vgg inception_v3 mobilenet0_25 mobilenet0_5 mobilenet0_75 mobilenet1_0
    mobilenet_v2_0_25 mobilenet_v2_0_5 mobilenet_v2_0_75 mobilenet_v2_1_0 resnet101_v1 resnet101_v2
    resnet152_v1 resnet152_v2 resnet18_v1 resnet18_v2 resnet34_v1 resnet34_v2 resnet50_v1
    resnet50_v2 squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19
    vgg19_bn
"""

_CLASSES = """
    AlexNet BasicBlockV1 BasicBlockV2 BottleneckV1 BottleneckV2 DenseNet Inception3 MobileNet
    MobileNetV2 ResNetV1 ResNetV2 SqueezeNet VGG
"""

globals().update(absent_functions(__name__, _NAMES), **absent_classes(__name__, _CLASSES))
__all__ = [*_NAMES.split(), *_CLASSES.split()]
