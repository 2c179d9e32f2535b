"""Small files that ask for much, at the door of a partial build, which tries every node by itself."""

from pathlib import Path

import pytest

from mavcg.model.partial.onnx_nodes import onnx_nodes, read_support
from tests.mavcg.importers.bounds import check_bounds
from tests.mavcg.importers.small_onnx_files import FILES, save


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_a_small_file_is_divided_or_refused_soon(name: str, tmp_path: Path) -> None:
    path = save(tmp_path / "small.onnx", *FILES[name]())
    check_bounds(path, lambda path: onnx_nodes(read_support(path, {})))
