"""8-bit models from ONNX files in f32: which layers pay on a board, and at which error.

Where the next thing goes: another quantiser beside `onnxruntime_models.py`, another measure of errors in `errors.py`.
"""
