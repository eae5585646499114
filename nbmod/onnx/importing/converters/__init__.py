"""Converters of the operators of ONNX, by family."""
