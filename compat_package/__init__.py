"""The distribution `nbmod-mxnet`: the top module `mxnet`, which is nbmod.

    python -m compat_package
    pip install dist/nbmod_mxnet-*.whl

Its modules are files, `mxnet.py` and `mxnet_predict.py`.  The real MXNet is a folder `mxnet`, which
Python prefers to a file: installed beside each other, in any order, neither overwrites the other,
and `import mxnet` is the real one.
"""
