"""Outside tools: found, run, and what is said when they are not there or refuse."""

from pathlib import Path

import pytest

from mavcg.errors import ToolError
from mavcg.toolchain.zig import run_tool, run_zig, zig_command, zig_program


def test_zig_is_started_without_python_in_between() -> None:
    program, tool = zig_command("ld.lld")

    assert tool == "ld.lld"
    assert Path(program).stem == "zig" and Path(program).parent.name == "ziglang"
    assert "clang" in run_zig("cc", ["--version"], "asking for the version")


def test_a_missing_wheel_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    zig_program.cache_clear()
    try:
        with pytest.raises(ToolError, match="ziglang.*pip install ziglang"):
            run_zig("cc", [], "compiling x.c")
    finally:
        zig_program.cache_clear()


def test_a_tool_that_is_not_there_or_fails_is_named_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"linking x: /nowhere/ld is not there"):
        run_tool(["/nowhere/ld"], "linking x")
    (tmp_path / "plain").write_text("")
    with pytest.raises(ToolError, match=r"linking x: .*plain cannot be run: Permission denied; make it executable"):
        run_tool([str(tmp_path / "plain")], "linking x")
    with pytest.raises(ToolError, match=r"(?s)linking x: failed:\n  1\n.*  12\n  \(3 more lines\)$"):
        run_tool(["sh", "-c", "seq 15 >&2; exit 3"], "linking x")
    with pytest.raises(ToolError, match="exit status 4, no message"):
        run_tool(["sh", "-c", "exit 4"], "linking x")
