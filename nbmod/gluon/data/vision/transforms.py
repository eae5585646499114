"""`mx.gluon.data.vision.transforms`: names of Gluon's transformations (see `nbmod.gluon`)."""

from ...absent import absent_classes

_NAMES = """
    Cast CenterCrop Compose CropResize Normalize RandomApply RandomBrightness RandomColorJitter
    RandomContrast RandomFlipLeftRight RandomFlipTopBottom RandomHue RandomLighting
    RandomResizedCrop RandomRotation RandomSaturation Resize Rotate ToTensor
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
