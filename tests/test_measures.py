"""`python -m scripts.measures` prints the measures of the code's structure, as lines or as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import floors, measures

MODULE = """
class Shape:
    def fits(self, a, b, c, d, e, f, g, h): ...

    @classmethod
    def of(cls, a, b, c, d, /, e, f, g, *, h, i): ...


def area(shape):
    if not isinstance(shape, Shape) or isinstance(shape, int):
        return [1,  2]  # fmt: LATER
""".replace("LATER", "skip")


@pytest.fixture
def small_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A product of three modules, in whose bench/ is a record of two lines."""
    for name, text in {
        "mavcg/low/shape.py": MODULE,
        "mavcg/high/draw.py": "from mavcg.low import shape\n",
        "mavcg/high/show.py": "import mavcg.high.draw\nimport mavcg.low.shape\n",
        "bench/results/record.json": "[\n]\n",
        "scripts/floors.toml": '[[floor]]\nname = "ground"\nfolders = ["low", "high"]\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(floors, "ROOT", tmp_path)
    monkeypatch.setattr(measures, "ROOT", tmp_path)
    cached = (floors.floors, floors.modules, floors.imports, floors.tree_of)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


def test_each_measure_is_counted(
    small_house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["floors", "--json"])
    measures.main()

    assert json.loads(capsys.readouterr().out) == {
        "modules": 3,
        "lines": 14,
        "floors": 1,
        "arrows": 1,
        "arrows_of_few_imports": 1,
        "deepest_chain": 3,
        "functions_of_many_parameters": 1,
        "isinstance_calls": 2,
        "format_skips": 1,
        "json_lines_of_bench": 2,
    }


def test_chain_functions_and_arrows_are_named(
    small_house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["floors"])
    measures.main()
    lines = capsys.readouterr().out.splitlines()

    assert "deepest chain: 3" in lines
    assert lines[-5:] == [
        "high.show -> high.draw -> low.shape",
        "mavcg.low.shape.of: 9",
        "ground:",
        "    low -> nothing",
        "    high -> low (2)",
    ]


@pytest.mark.long
def test_a_build_loads_a_part_of_the_modules() -> None:
    found = measures.measures_of_builds()

    assert 100 < found["modules_that_builds_load"] < len(floors.modules())
    assert found["help_s"] > 0
