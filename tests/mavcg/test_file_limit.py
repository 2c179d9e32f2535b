"""Bounds of the files of a test do not reach what others read."""

import importlib
import sys
from pathlib import Path

import pytest

from tests.mavcg.file_limit import files_of_at_most


def test_an_import_under_a_limit_leaves_no_byte_code_that_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long_module.py").write_text("".join(f"name_{i} = {i}\n" for i in range(1000)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    with files_of_at_most(4096):
        assert importlib.import_module("long_module").name_999 == 999

    assert [path.name for path in tmp_path.iterdir()] == ["long_module.py"]
