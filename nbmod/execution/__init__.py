"""Binding and running: from a symbol and shapes to steps, memory and the loop over them."""
