"""Handlers of ONNX operators, a module per family; table.py lists them."""
