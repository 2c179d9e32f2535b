"""The document of `mavcg accel host --json`: the folder of the sources, the library, or both."""

import json
from pathlib import Path

import pytest

from mavcg.accelerators.host import library
from mavcg.cli.app import run


@pytest.mark.parametrize("sources", [False, True])
def test_the_document_names_what_was_written(
    sources: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library, "write_host_library", Path.touch)
    made, folder = tmp_path / "libaccel.so", tmp_path / "host"
    options = ["-o", str(folder)] if sources else []

    assert run(["accel", "host", "--library", str(made), *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == (str(folder) if sources else None) and document["library"] == str(made)
    assert sorted(document["files"]) == sorted(path.name for path in folder.glob("*"))
    assert ("mavcg_accel.h" in document["files"]) == sources
