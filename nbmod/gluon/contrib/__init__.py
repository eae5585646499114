"""`mx.gluon.contrib`: Gluon's experimental parts, most of them by name (see `nbmod.gluon`).

Such a name is a class that can be imported and subclassed, and refuses to make objects.

    nn.py         layers
    cnn.py        convolutions
    rnn.py        recurrent cells
    data.py       samplers and texts
    estimator.py  the trainer and its events

Begin with `nn.py`.  Imports `gluon.absent`, `gluon.block` and `gluon.nn`.
"""
