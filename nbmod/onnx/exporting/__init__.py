"""Export of symbols to ONNX.

    symbol, parameters -> inference form (`inference_form`) -> shapes and types of all tensors,
    and which of their axes are dynamic (`tensor_info`) -> one converter per operator
    (`converters/`), which adds nodes to a graph (`onnx_graph`) -> file -> verification
    (`nbmod.onnx.verification`)

A node that no converter can express is recorded and the export goes on, so that the error lists all
of them.

    tensor_info.py       shapes, types and dynamic axes of all tensors
    onnx_graph.py        `GraphBuilder`: values, nodes, names, and the protobuf
    converter.py         `converts`, which registers a converter, and `NodeExport`, its argument
    converters/          the converters
    inference_form.py    the symbol without what only training computes
    export_graph.py      asks the converter of every node, and collects refusals
    stored_symbol.py     the symbol in the metadata of the file, for a later import
    exported_model.py    `Export`: a model in memory, and what verification needs to know of it
    export_model.py      `export_model`, which does all of it and verifies the file
    operator_support.py  operators and opsets that are exported, for the documentation

Begin with `tensor_info.py`.  Imports `base`, `checkpoint`, `context`, `core.atomic`,
`core.foreign`, `graph`, `ndarray`, `onnx.verification`, `ops`, `passes.infer`, `passes.rewrite` and
`symbol`.
"""
