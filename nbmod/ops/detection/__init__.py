"""Operators of object detection: boxes, anchors, regions of interest."""
