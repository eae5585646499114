"""Networks as pictures: repeated blocks folded, boxes in layers, SVG or a figure of matplotlib.

No network runs for a picture or a table: both follow from the graph and inferred shapes.

    repeats.py         stretches of a graph that are copies of each other, for `x 3`
    layered.py         rows and columns of boxes, and bends of arrows
    picture.py         `Picture`: rectangles, texts and lines, and their SVG
    blocks.py          nodes as boxes, folded blocks and loop bodies as frames
    symbol_picture.py  what boxes say of a symbol's nodes, and its picture in notebooks
    rendering.py       `NetworkDrawing`, which `mx.viz.plot_network` returns
    summary.py         `Summary`: layers with sizes and costs, as data and tables
    visualization.py   the functions of `mx.viz`

Begin with `repeats.py`.  Imports `base`, `core.atomic`, `core.figures`, `execution.cost_model`,
`graph`, `ops`, `passes.entry_names`, `passes.infer` and `symbol`.
"""
