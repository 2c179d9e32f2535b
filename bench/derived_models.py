"""Models derived from others: with random weights, or quantised to 8 bits by onnxruntime."""

import math
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array

CALIBRATION_IMAGES = 4
SPREAD = 2.0  # standard deviation of the scores of networks with random weights
INT8_OPSET = 13  # the first with scales per channel


def with_random_weights(source: Path) -> bytes:
    """Return a light model with random initializers that keep activations at their size (He et al., 2015)."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(source)
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    drawn = {}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(n) for n in shapes[node.input[0]])
            # One generator a tensor: the order of the nodes is of no matter.
            random = np.random.default_rng(zlib.crc32(node.output[0].encode()))
            drawn[node.output[0]] = _draw(random, shape, _role(graph, node.output[0]))
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    used = {name for node in kept for name in node.input}
    shipped = {t.name: t for t in graph.initializer}
    inputs = [i for i in graph.input if i.name in used and i.name not in shipped]

    def model_bytes(outputs: Any) -> bytes:
        initializers = [t for name, t in shipped.items() if name in used and name not in drawn]
        initializers += [numpy_helper.from_array(array, name) for name, array in drawn.items()]
        graph_made = onnx.helper.make_graph(kept, f"{graph.name}-random", inputs, outputs, initializers)
        # IR version 4 is the first in which initializers need not be inputs.
        data: bytes = onnx.helper.make_model(
            graph_made, opset_imports=model.opset_import, ir_version=4
        ).SerializeToString()
        return data

    # Sums of branches grow with depth: the last layer brings the classes' scores to a spread that softmax leaves apart.
    last, scores = _last_layer(kept)
    probe = onnx.helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None)
    spread = float(_run(model_bytes([probe]))[0].std())
    for name in set(last.input[1:]) & {*drawn, *shipped}:
        array = drawn[name] if name in drawn else numpy_helper.to_array(shipped[name])
        drawn[name] = (array * (SPREAD / spread)).astype(np.float32)
    return model_bytes(graph.output)


def _last_layer(nodes: Any) -> tuple[Any, str]:
    """Return the last convolution or matrix product, and the tensor that softmax reads (or would read)."""
    ends = next((n.input[0] for n in reversed(nodes) if n.op_type == "Softmax"), nodes[-1].output[0])
    return next(n for n in reversed(nodes) if n.op_type in ("Conv", "Gemm")), ends


def _run(model: bytes) -> list[Array]:
    """Return onnxruntime's outputs for seeded noise."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MavcgError(f"random weights need onnxruntime ({error}); pip install mavcg[dev]") from error
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    noise = {i.name: np.random.default_rng(0).standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    outputs: list[Array] = session.run(None, noise)
    return outputs


_BATCH_NORM = ("x", "scale", "bias", "mean", "variance")


def _role(graph: Any, tensor: str) -> str:
    """Return the role of a weight, by the operator that reads it."""
    for node in graph.node:
        if tensor in node.input:
            if node.op_type == "BatchNormalization":
                return _BATCH_NORM[list(node.input).index(tensor)]
            if node.op_type == "Unsqueeze":
                return _role(graph, node.output[0])
            return {"Mul": "scale", "Add": "bias"}.get(node.op_type, "weight")
    return "weight"


def _draw(random: np.random.Generator, shape: tuple[int, ...], role: str) -> Array:
    if role in ("scale", "variance"):
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    if role in ("bias", "mean") or len(shape) < 2:
        return (0.1 * random.standard_normal(shape)).astype(np.float32)
    deviation = math.sqrt(2 / math.prod(shape[1:]))
    return (deviation * random.standard_normal(shape)).astype(np.float32)


def quantised(
    source: Path, known_shapes: Mapping[str, tuple[int, ...]], path: Path, images: Sequence[Array] = ()
) -> None:
    """Write an 8-bit model to `path`, calibrated on images for its one input, or on seeded noise if none are given.

    known_shapes: shapes of inputs whose dimensions are free in the file.
    """
    import onnx

    try:
        from onnxruntime.quantization import (
            CalibrationDataReader,
            QuantFormat,
            QuantType,
            quantize_static,
        )
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise MavcgError(f"model {path.stem}: needs onnxruntime ({error}); pip install mavcg[dev]") from error
    model = onnx.load(source)
    if next(o.version for o in model.opset_import if o.domain == "") < INT8_OPSET:
        model = onnx.version_converter.convert_version(model, INT8_OPSET)
    known = {t.name for t in model.graph.initializer}
    shapes = {
        i.name: known_shapes.get(i.name)
        or tuple(
            d.dim_value if d.dim_value > 0 else (1 if at == 0 else 224)
            for at, d in enumerate(i.type.tensor_type.shape.dim)
        )
        for i in model.graph.input
        if i.name not in known
    }

    class Noise(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.images: Iterator[dict[str, Array]] = iter(
                [{next(iter(shapes)): image} for image in images]
                or [
                    {n: np.random.default_rng(seed).standard_normal(s).astype(np.float32) for n, s in shapes.items()}
                    for seed in range(CALIBRATION_IMAGES)
                ]
            )

        def get_next(self) -> dict[str, Array] | None:
            return next(self.images, None)

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        plain, folded, made = (str(Path(folder) / f"{n}.onnx") for n in ("plain", "folded", "int8"))
        onnx.save(model, plain)
        quant_pre_process(plain, folded, skip_symbolic_shape=True)
        quantize_static(
            folded,
            made,
            Noise(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )
        os.replace(made, path)
