"""Handlers of ONNX operators, a module per family; table.py lists them.

Where the next thing goes:

- ONNX or TFLite operator, Caffe layer: a handler here, in tflite_ops or in caffe_ops, in its family's HANDLERS
  (LAYERS) (docs/add-an-operator.md).
"""
