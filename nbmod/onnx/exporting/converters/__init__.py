"""Converters of operators to ONNX, in files named as those of the operators."""
