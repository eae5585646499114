"""Models to and from files of ONNX."""
