"""TFLite models over images of any height and width: LiteRT's values, and the bits of kernels for each size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph.counts import Dimension
from tests.mavcg.importers.tflite.conftest import Writer, litert  # it needs ai-edge-litert

pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_run import results_of_lengths  # noqa: E402

SAME = 0
SIZES = [(11, 13), (40, 41), (39, 40), (12, 33), (17, 16), (32, 24)]


def features(writer: Writer, x: int, rng: np.random.Generator, shape: tuple[int, ...], depthwise: bool = False) -> int:
    """A convolution at stride 2 with SAME padding. shape: of the filters."""
    channels = shape[3] if depthwise else shape[0]
    inputs = [
        x,
        writer.constant(rng.standard_normal(shape).astype(np.float32) * 0.3),
        writer.constant([0.1] * channels),
    ]
    step = {"padding": SAME, "strideH": 2, "strideW": 2, "fusedActivationFunction": 1}
    if depthwise:
        return writer.op("DEPTHWISE_CONV_2D", inputs, options="DepthwiseConv2DOptions", depthMultiplier=1, **step)
    return writer.op("CONV_2D", inputs, options="Conv2DOptions", **step)


def detector(mode: str, **attributes: Any) -> bytes:
    """Two levels of features, the smaller one resized to the larger one, as in detectors; and a pool."""
    writer, rng = Writer(), np.random.default_rng(0)
    x = writer.input((1, 40, 41, 3), name="x")
    large = features(writer, x, rng, (8, 3, 3, 3))
    small = features(writer, large, rng, (1, 3, 3, 8), depthwise=True)
    shape = writer.op("SHAPE", [large], "i32", "ShapeOptions", outType=2)
    size = writer.op("STRIDED_SLICE", [shape, *map(writer.constant, ([1], [3], [1]))], "i32", "StridedSliceOptions")
    options = "ResizeBilinearOptions" if mode == "BILINEAR" else "ResizeNearestNeighborOptions"
    name = "RESIZE_BILINEAR" if mode == "BILINEAR" else "RESIZE_NEAREST_NEIGHBOR"
    resized = writer.op(name, [small, size], options=options, **attributes)
    total = writer.op("ADD", [large, resized], options="AddOptions")
    pool = {"padding": SAME, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 3}
    return writer.bytes(writer.op("MAX_POOL_2D", [total], options="Pool2DOptions", **pool))


@pytest.mark.parametrize("rule", ["", "alignCorners", "halfPixelCenters"])
@pytest.mark.parametrize("mode", ["BILINEAR", "NEAREST"])
@pytest.mark.sample(1)
def test_a_detector(tmp_path: Path, mode: str, rule: str) -> None:
    data = detector(mode, **({rule: True} if rule else {}))
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    rng = np.random.default_rng(3)
    inputs = {size: {"x": rng.standard_normal((1, *size, 3)).astype(np.float32)} for size in SIZES}
    dimensions = [Dimension("height", 11, 40), Dimension("width", 12, 41)]
    made = results_of_lengths(path, {"x": (1, "height", "width", 3)}, dimensions, inputs, SIZES[1:4])
    for size, (ours, fixed) in made.items():
        assert ours == (fixed or ours), f"the bits of {size}"
        (want,) = litert(data, [inputs[size]["x"]])
        near = np.frombuffer(ours[0], np.float32).reshape(want.shape)
        assert np.abs(near - want).max() <= 1e-4 * max(1.0, np.abs(want).max())
