"""The models of drop-in libraries, and what their fake runtimes are compiled with: fake_ort.h, fake_tflite.h."""

from pathlib import Path

import numpy as np

CALLED = "called.onnx"  # the model that calls the custom operators


def tflite_network() -> bytes:
    """Return a TFLite file of two convolutions of 4 x 4 x 3."""
    from tests.mavcg.importers.tflite.conftest import Writer

    rng, writer = np.random.default_rng(0), Writer()
    made = writer.input((1, 4, 4, 3), name="x")
    for _ in range(2):
        weights = rng.normal(0, 0.3, (3, 3, 3, 3)).astype(np.float32)
        operands = [made, writer.constant(weights), writer.constant(weights[0, 0, 0])]
        made = writer.op("CONV_2D", operands, options="Conv2DOptions", strideH=1, strideW=1, shape=(1, 4, 4, 3))
    return writer.bytes(made)


def model_header(file: bytes) -> str:
    """Return a TFLite file as C: its bytes, its number of operators, and its tensors with the places of constants."""
    import tflite

    model = tflite.Model.GetRootAs(file, 0)
    graph = model.Subgraphs(0)
    start = np.frombuffer(file, np.uint8).ctypes.data
    rows = []
    for tensor in map(graph.Tensors, range(graph.TensorsLength())):
        data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        offset = -1 if isinstance(data, int) or not len(data) else data.ctypes.data - start
        dims = [tensor.Shape(axis) for axis in range(tensor.ShapeLength())]
        rows.append(f"    {{{len(dims)}, {{{', '.join(map(str, dims))}}}, {offset}}},\n")
    numbers = ", ".join(map(str, file))
    counts = {"NODES": graph.OperatorsLength(), "INPUT": graph.Inputs(0), "OUTPUT": graph.Outputs(0)}
    ends = "".join(f"enum {{ FILE_{name} = {number} }};\n" for name, number in counts.items())
    return (
        f"static const unsigned char file_bytes[] __attribute__((aligned(64))) = {{{numbers}}};\n{ends}"
        "static const struct file_tensor {\n    int rank, dims[4];\n    long offset;\n} file_tensors[] = {\n"
        + "".join(rows)
        + "};\n"
    )


def write_headers(models: Path, folder: Path) -> None:
    """Write tflite_model.h of models/m.tflite, and fingerprint.h of the models/called.onnx that a build wrote."""
    import onnx

    (folder / "tflite_model.h").write_text(model_header((models / "m.tflite").read_bytes()))
    nodes = onnx.load(models / CALLED).graph.node
    (fingerprint,) = [each.s.decode() for node in nodes for each in node.attribute if each.name == "fingerprint"]
    (folder / "fingerprint.h").write_text(f'#define CUSTOM_OPS_FINGERPRINT "{fingerprint}"\n')
