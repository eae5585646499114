"""Export of symbols to ONNX.

    symbol, parameters -> inference form (`inference_form`) -> shapes and types of all tensors,
    and which of their axes are dynamic (`tensor_info`) -> one converter per operator
    (`converters/`), which adds nodes to a graph (`onnx_graph`) -> file -> verification
    (`nbmod.onnx.verification`)
"""
