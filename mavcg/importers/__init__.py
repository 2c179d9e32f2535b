"""Importers of model files (ONNX, TFLite, Caffe), which convert them to graphs."""
