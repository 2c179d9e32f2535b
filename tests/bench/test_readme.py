"""The page of benches against the modules and records: each is listed, and what is listed is there."""

import re

import pytest

from bench import records
from bench.pages import plan_of
from bench.records import RESULTS, ROOT

PAGE = (ROOT / "bench/README.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "python -m" in line]
# Started by another bench, in a process or an emulator of their own.
STARTED = {
    *("bench.arm_ncnn_run", "bench.arm_peers_run", "bench.blas_worker", "bench.decoder_worker", "bench.worker"),
    *("bench.corpus.replaced", "bench.torch_models"),
}


def modules_in(text: str) -> set[str]:
    """The modules that commands of a text run."""
    return set(re.findall(r"(?:python -m\s+|`)((?:bench|fuzz)(?:\.\w+)+)\b", text))


def commands() -> set[str]:
    """The modules of bench/ that are commands."""
    files = [path for path in (ROOT / "bench").rglob("*.py") if re.search(r"(?m)^if __name__ == ", path.read_text())]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__main__") for name in names}


def test_every_command_is_on_the_page() -> None:
    assert commands() - STARTED - modules_in(PAGE) == set()


def test_every_command_of_the_page_is_a_module() -> None:
    paths = [ROOT.joinpath(*module.split(".")) for module in modules_in(PAGE)]
    assert all(path.with_suffix(".py").is_file() or (path / "__main__.py").is_file() for path in paths), paths


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.json")))
def test_a_record_has_one_row_which_names_its_command(name: str) -> None:
    (row,) = (row for row in ROWS if re.search(rf"\b{name}\.json\b", row))
    assert modules_in(records.read(RESULTS / f"{name}.json").command) <= modules_in(row)


def test_every_bench_of_the_figures_is_on_the_page() -> None:
    assert {headline.bench.split()[0] for headline in plan_of().headline} <= modules_in("\n".join(ROWS))
