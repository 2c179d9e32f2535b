"""docs/mavcg-toml.md lists every table and key that is read, with its type, and its examples are read."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mavcg.program.buildfile import BuildFile, ModelTable, ProfileTable, read_project

PAGE = (Path(__file__).parents[3] / "docs/mavcg-toml.md").read_text()
WORDS: dict[Any, str] = {
    str: "string",
    str | None: "string",
    float | None: "number",
    int | None: "whole number",
    int | str | None: "whole number or string",
    tuple[str, ...]: "list of strings",
    bool | None: "true or false",
}


@pytest.mark.parametrize(
    ("heading", "table"), [("[profile]", ProfileTable), ("[build]", BuildFile), ("[[model]]", ModelTable)]
)
def test_every_key_is_listed_with_its_type(heading: str, table: Any) -> None:
    chapter = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", chapter, re.M))
    assert listed == {field.name: WORDS[field.type] for field in fields(table)}


@pytest.mark.parametrize("example", re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S))
def test_examples_are_read(tmp_path: Path, example: str) -> None:
    (tmp_path / "mavcg.toml").write_text(example)
    project = read_project(tmp_path / "mavcg.toml")
    assert project.profile or project.build or project.models
