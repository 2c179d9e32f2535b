"""Graphs of ONNX models that are written and read again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.graph import Graph
from mavcg.graph.ops.nodes import verify
from mavcg.importers.onnx_file import import_onnx


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Graph]:
    """imported(model, shapes): the graph of a model or of a file's bytes, verified."""

    def do(message: Any, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
        path = tmp_path / "m.onnx"
        path.write_bytes(message if isinstance(message, bytes) else message.SerializeToString())
        graph = import_onnx(path, shapes or {})
        verify(graph)
        return graph

    return do
