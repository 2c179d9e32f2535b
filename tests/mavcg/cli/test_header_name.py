"""A library whose header has another name says so when it is built."""

from pathlib import Path

import pytest

from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")


@pytest.mark.long
def test_libtimer_names_its_header(tmp_path: Path) -> None:
    value, helper = onnx.helper.make_tensor_value_info, onnx.helper
    relu = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([relu], "g", [value("x", 1, [1, 3])], [value("y", 1, [1, 3])])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx"
    )
    report = " ".join(build_in(tmp_path, "net.onnx", "--target", "aarch64-linux-gnu", "-o", "libtimer.so").split())

    assert "beside it model_timer.h, timer.pc" in report
    assert "(not timer.h: timer_create is a function of the C library)" in report
    assert (tmp_path / "model_timer.h").is_file() and not (tmp_path / "timer.h").exists()
