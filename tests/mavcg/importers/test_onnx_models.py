"""Real models, where they have been fetched (python -m bench.models): the imported graph against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from bench.models import MODELS, PREPARED, model_path, shapes_of
from mavcg.errors import MavcgError
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
onnxruntime = pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")

LONG = pytest.mark.long
QUICK = ("ppocr_cls", "ppocr_cls-int8", "mobilenet_v2")


def both(name: str) -> tuple[Any, Any]:
    """What the graph gives for seeded noise, and what onnxruntime gives."""
    try:
        path = model_path(name, fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    graph = import_onnx(path, shapes_of(name))
    verify(graph)
    arrays = [np.random.default_rng(0).standard_normal(graph.types[i].shape).astype(np.float32) for i in graph.inputs]
    options = onnxruntime.SessionOptions()
    # As the file says it, in floats: on x86 without VNNI the 8-bit kernels' sums saturate.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, dict(zip(graph.inputs, arrays, strict=True)))
    (have,) = run(graph, *arrays)
    return have, want


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n in QUICK else LONG)
        for n in PREPARED
        if n not in MODELS or MODELS[n].network or n == "ppocr_cls"
    ],
)
def test_a_model_agrees_with_onnxruntime(name: str) -> None:
    have, want = both(name)

    assert have.shape == want.shape and have.dtype == want.dtype
    largest = np.abs(want).max()
    if name.endswith("-int8"):
        # A half that rounds the other way somewhere inside comes out as a quantum or two of the output.
        assert np.abs(have - want).max() <= 0.05 * largest and have.argmax() == want.argmax()
    else:
        assert np.abs(have - want).max() <= 1e-4 * largest
        assert np.argsort(-have.ravel())[:5].tolist() == np.argsort(-want.ravel())[:5].tolist()


def test_a_model_that_there_is_not() -> None:
    with pytest.raises(MavcgError, match="model lenet: there is none; there are squeezenet,"):
        model_path("lenet")
    with pytest.raises(MavcgError, match="not worth drawing anew; those of squeezenet,.* are"):
        model_path("ppocr_cls-random")


def test_a_model_that_is_not_fetched(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))

    with pytest.raises(MavcgError, match="python -m bench.models resnet50-random puts it there"):
        model_path("resnet50-random", fetch=False)
