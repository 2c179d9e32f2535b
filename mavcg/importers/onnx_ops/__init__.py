"""What each ONNX operator becomes: handlers by family, found through `table`."""
