"""A dynamically quantized encoder has onnxruntime's bits: one other rounding would change its outputs by percents."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as product
from mavcg.cli.app import run

onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
encoder = pytest.importorskip("tests.mavcg.model_pipeline.dynamic_encoder")


def session(path: Path, optimised: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options)


@pytest.mark.parametrize(
    ("layers", "width", "length", "inputs"),
    [(1, 32, 16, 4), pytest.param(6, 128, 32, 24, marks=pytest.mark.long)],
)
def test_an_encoder_has_the_bits_of_onnxruntime(
    tmp_path: Path, layers: int, width: int, length: int, inputs: int
) -> None:
    if "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("without AVX-512 onnxruntime adds the exponentials of Softmax in other parts")
    path, library = tmp_path / "encoder.onnx", tmp_path / "libencoder.so"
    encoder.write_encoder(tmp_path / "f32.onnx", layers, width, 4, length)
    quantization.quantize_dynamic(tmp_path / "f32.onnx", path, weight_type=quantization.QuantType.QInt8)
    assert run(["build", str(path), "--target", "x86_64-linux-gnu", "-o", str(library)]) == 0
    plain, fused = session(path, optimised=False), session(path, optimised=True)
    of_itself = []
    with product.load(str(library)) as model:
        for seed in range(inputs):
            ids = np.random.default_rng(seed).integers(0, encoder.VOCABULARY, (1, length))
            (theirs,), (by_fused,) = plain.run(None, {"ids": ids}), fused.run(None, {"ids": ids})
            (ours,) = model.run(ids)
            np.testing.assert_array_equal(ours, theirs)
            of_itself.append(float(np.abs(by_fused - theirs).max() / np.abs(theirs).max()))
    assert min(of_itself) < 1e-6  # where it agrees with itself, all three agree
