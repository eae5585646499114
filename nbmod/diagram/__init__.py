"""Networks as pictures: repeated blocks folded, boxes in layers, SVG or a figure of matplotlib.

    repeats     which stretches of a graph are copies of each other
    layered     where boxes stand and how arrows go between them
    picture     rectangles, texts and lines, and their SVG
    blocks      nodes as boxes, folded blocks and loops as frames
    rendering   `NetworkDrawing`, which `mx.viz.plot_network` returns
"""
