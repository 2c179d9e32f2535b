"""Handlers of ONNX operators, by family; `table` finds them."""
