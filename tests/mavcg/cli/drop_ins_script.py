"""Loads, runs, makes fail and unloads all drop-ins of the current folder, in one process.

`python drop_ins_script.py ort|provider|litert|blas|all ROUNDS`: libnet.so of net.onnx, libm.so of m.tflite, libblas.so;
`python drop_ins_script.py overrun`: gives the delegate fewer options than it says, a fault that a sanitizer must find.
Prints "done".
"""

import ctypes
import gc
import os
import sys
from functools import partial
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)


def expect_error(what: Any, words: str) -> None:
    """Call, and end the process unless it raises an error with these words."""
    try:
        what()
    except Exception as error:  # noqa: BLE001 - each runtime has errors of its own
        assert words in str(error), error
    else:
        raise AssertionError(f"no error: {words}")


def ort() -> None:
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("mavcg.threads", "2")
    options.register_custom_ops_library(os.path.abspath("libnet.so"))
    session = onnxruntime.InferenceSession("net.mavcg.onnx", options)
    plain = onnxruntime.InferenceSession("net.onnx")
    arrays = {"x": RNG.standard_normal((1, 3, 16, 16)).astype("f"), "m": np.eye(3, dtype="f")[None, None]}
    for have, want in zip(session.run(None, arrays), plain.run(None, arrays), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    other = onnx.load("net.mavcg.onnx")
    (node,) = [node for node in other.graph.node if node.domain == "mavcg"]
    next(each for each in node.attribute if each.name == "fingerprint").s = b"0123"
    wrong = other.SerializeToString()
    expect_error(lambda: onnxruntime.InferenceSession(wrong, options), "the model was written with another build")
    stop = onnxruntime.RunOptions()
    stop.terminate = True
    expect_error(lambda: session.run(None, arrays, stop), "terminate")
    bad = onnxruntime.SessionOptions()
    bad.add_session_config_entry("mavcg.threads", "many")
    expect_error(lambda: bad.register_custom_ops_library(os.path.abspath("libnet.so")), "mavcg.threads")


def provider() -> None:
    import onnxruntime

    onnxruntime.register_execution_provider_library("mavcg", os.path.abspath("libnet.so"))
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "mavcg"]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(devices, {"threads": "2", "quiet": "1"})
    session = onnxruntime.InferenceSession("net.onnx", options)
    assert "mavcg" in session.get_providers()
    arrays = {"x": RNG.standard_normal((1, 3, 16, 16)).astype("f"), "m": np.eye(3, dtype="f")[None, None]}
    session.run(None, arrays)
    wrong = onnxruntime.SessionOptions()
    wrong.log_severity_level = 4
    wrong.add_provider_for_devices(devices, {"threads": "many"})
    expect_error(partial(onnxruntime.InferenceSession, "net.onnx", wrong), "threads")
    del session, options, wrong, devices
    gc.collect()
    onnxruntime.unregister_execution_provider_library("mavcg")


def litert() -> None:
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    path = os.path.abspath("libm.so")
    x = RNG.standard_normal((1, 8, 8, 6)).astype("f")
    results = []
    for delegates in ([load_delegate(path, {"threads": "2", "quiet": "1"})], []):
        interpreter = Interpreter("m.tflite", experimental_delegates=delegates)
        index = interpreter.get_input_details()[0]["index"]
        for batch in (1, 2, 1):
            interpreter.resize_tensor_input(index, (batch, 8, 8, 6))
            interpreter.allocate_tensors()
            interpreter.set_tensor(index, np.repeat(x, batch, 0))
            interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-4)
    expect_error(lambda: load_delegate(path, {"fast": "1"}), "there are the options threads and quiet")


def blas() -> None:
    library = ctypes.CDLL(os.path.abspath("libblas.so"))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    for rows, transposed in ((1, False), (7, True), (130, False), (130, True)):
        a, b = RNG.standard_normal((rows, 90)).astype("f"), RNG.standard_normal((90, 110)).astype("f")
        given, c = np.ascontiguousarray(b.T) if transposed else b, np.zeros((rows, 110), "f")
        left, right, result = (ctypes.c_void_p(array.ctypes.data) for array in (a, given, c))
        order, width = (112, 90) if transposed else (111, 110)
        library.cblas_sgemm(101, 111, order, rows, 110, 90, one, left, 90, right, width, zero, result, 110)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))


def overrun() -> None:
    """Give the delegate one option, and say that there are two."""
    library, libc = ctypes.CDLL(os.path.abspath("libm.so")), ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    texts = [ctypes.create_string_buffer(text) for text in (b"quiet", b"1")]
    lists = []
    for text in texts:
        memory = libc.malloc(ctypes.c_size_t(8))  # of the allocator that the sanitizer watches
        ctypes.c_void_p.from_address(memory).value = ctypes.addressof(text)
        lists.append(ctypes.c_void_p(memory))
    library.tflite_plugin_create_delegate(*lists, ctypes.c_size_t(2), None)


WHAT = {"ort": ort, "provider": provider, "litert": litert, "blas": blas}

if __name__ == "__main__":
    if sys.argv[1] == "overrun":
        overrun()
    else:
        for _ in range(int(sys.argv[2])):
            for name in WHAT if sys.argv[1] == "all" else [sys.argv[1]]:
                WHAT[name]()
                gc.collect()
    print("done")
