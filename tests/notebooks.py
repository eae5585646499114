"""A notebook with a cell that uses MXNet, and the program that runs it in a kernel."""

from __future__ import annotations

__all__ = ["NOTEBOOK"]

NOTEBOOK = """
import nbformat
from nbclient import NotebookClient
cell = nbformat.v4.new_code_cell("import mxnet as mx; print(mx.nd.ones((2,), mx.gpu()).asnumpy())")
notebook = nbformat.v4.new_notebook(cells=[cell])
NotebookClient(notebook, timeout=60).execute()
print(*(output["text"] for output in cell.outputs if output.get("name") == "stdout"))
"""
