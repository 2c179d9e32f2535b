"""Modules are compiled before a process is confined, and only those of folders that changed."""

import os
import sys
import time
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from mavcg.files.bytecode import compile_changed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "part").mkdir()
    for folder in (tmp_path / "whole", tmp_path / "whole/deep", tmp_path / "part"):
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("")
        (folder / "module.py").write_text("x = 1\n")
    (tmp_path / "whole/data").mkdir()
    (tmp_path / "whole/data/script.py").write_text("x = 1\n")
    (tmp_path / "whole/part").symlink_to("../part")
    return tmp_path / "whole"


def compiled(package: Path) -> dict[str, int]:
    modules = (*package.rglob("*.py"), *(package / "part").glob("*.py"))
    found = {str(module.relative_to(package)): Path(cache_from_source(str(module))) for module in modules}
    return {name: path.stat().st_mtime_ns for name, path in found.items() if path.exists()}


def test_folders_are_compiled_once_and_when_they_change(package: Path) -> None:
    compile_changed(str(package))
    first = compiled(package)
    assert sorted(first) == sorted(
        f"{folder}{name}.py" for folder in ("", "deep/", "part/") for name in ("__init__", "module")
    )
    compile_changed(str(package))
    assert compiled(package) == first

    time.sleep(0.05)  # ticks of the clock of files
    replaced = package / "deep/module.py.new"
    replaced.write_text("x = 22\n")
    os.utime(replaced, (1_700_000_000, 1_700_000_000))  # compiled modules bear their source's time, in seconds
    os.replace(replaced, package / "deep/module.py")  # as git does
    compile_changed(str(package))
    assert {name for name, when in compiled(package).items() if when != first[name]} == {"deep/module.py"}


def test_what_python_leaves_alone_stays(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "faulty.py").write_text("x = (\n")
    compile_changed(str(package))
    assert "faulty.py" not in compiled(package)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (package / "new.py").write_text("")
    compile_changed(str(package))
    assert "new.py" not in compiled(package)
