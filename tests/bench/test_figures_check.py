"""The check of the pages: numbers that no record has, old figures that do not say so, records that nothing prints."""

import datetime
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench import records
from bench.figures_check import faults
from bench.pages import ABSENT, BEGIN, END, OLD, Figure, Headline, Pages, Plan, Subject, plan_of, write_pages
from bench.records import RESULTS, ROOT
from mavcg.errors import MavcgError
from tests.bench.made_records import made

TODAY = datetime.date(2026, 11, 28)
LATER = datetime.date(2027, 1, 28)
PLAN = Plan(
    text="Text.",
    headline_text="More.",
    headline=(Headline("n", "bench.x", 1, "x", "ms", "{a55 / loops|ms}"),),
    subject=(Subject("S", "About.", (Figure("x", "both", "{a55|ms} and {a55|ms#2}"),), ("x",)),),
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"# A\n\n{BEGIN}\n{END}\n\nB\n")
    records.write(tmp_path / "results/x.json", made())
    write_pages(pages(tmp_path), tmp_path)
    return tmp_path


def pages(checkout: Path, today: datetime.date = TODAY, plan: Plan = PLAN) -> Pages:
    return Pages(plan, checkout / "results", checkout, today)


def check(checkout: Path, today: datetime.date = TODAY) -> list[str]:
    return list(faults(pages(checkout, today), checkout))


def test_pages_as_they_are_written_are_in_order(checkout: Path) -> None:
    assert check(checkout) == []
    row = "| ms | 1.5 | 2026-11-28 | 0123abcd | A, 2 CPUs, virtual |"
    text = (checkout / "README.md").read_text()
    assert text.startswith(f"# A\n\n{BEGIN}\n\n| figure |") and text.endswith(f"\n{row}\n\n{END}\n\nB\n")
    page = (checkout / "docs/figures.md").read_text()
    assert "| both | 1.5 and 2.5 | 2026-11-28 | 0123abcd | A, 2 CPUs, virtual | `bench.x` |" in page
    assert "| a55 | calls |  | 3.5 |\n\nMeasured: 2026-11-28, commit 0123abcd, A, 2 CPUs, virtual;\n`python" in page


def test_writing_again_changes_nothing(checkout: Path) -> None:
    before = [(checkout / name).read_bytes() for name in ("README.md", "docs/figures.md")]
    write_pages(pages(checkout), checkout)
    assert [(checkout / name).read_bytes() for name in ("README.md", "docs/figures.md")] == before


@pytest.mark.parametrize("page", ["README.md", "docs/figures.md"])
def test_a_number_that_is_not_the_record_s_is_found(checkout: Path, page: str) -> None:
    path = checkout / page
    path.write_text(path.read_text().replace("| ms | 1.5 |", "| ms | 1.4 |"))
    (line,) = (n for n, text in enumerate(path.read_text().splitlines(), 1) if "1.4" in text)

    assert check(checkout) == [f"{page}:{line}: is not what record x says; run `python -m bench.pages`"]


@pytest.mark.parametrize(("old", "new"), [("1.5", "1.4"), ("0123abcd", "0123abce"), ("A, 2 CPUs", "B, 2 CPUs")])
def test_every_part_of_a_record_s_table_counts(checkout: Path, old: str, new: str) -> None:
    path = checkout / "docs/figures.md"
    text = path.read_text()
    at = text.rindex(old)
    path.write_text(text[:at] + new + text[at + len(old) :])
    assert len(check(checkout)) == 1


def test_an_old_figure_has_to_say_so_everywhere(checkout: Path) -> None:
    said = check(checkout, LATER)

    assert len(said) == 4, said  # the row of the README, two rows and the origin of a table of the page
    assert all('record x is old, and the word "old" is not there; run `python -m bench.pages`' in line for line in said)
    write_pages(pages(checkout, LATER), checkout)
    assert check(checkout, LATER) == []
    for name in ("README.md", "docs/figures.md"):
        assert (checkout / name).read_text().count(f"{OLD}2026-11-28") == {"README.md": 1, "docs/figures.md": 3}[name]


def test_a_figure_may_be_called_old_too_early(checkout: Path) -> None:
    # As a page is that was written with the whole history, in a clone that has only a part of it.
    write_pages(pages(checkout, LATER), checkout)
    assert check(checkout, TODAY) == []


def test_lines_that_no_record_has_or_that_are_missing_are_found(checkout: Path) -> None:
    path = checkout / "docs/figures.md"
    text = path.read_text()
    path.write_text(text + "| more | 1 |\n")
    (said,) = check(checkout)
    assert said.endswith(": this line is of no record; run `python -m bench.pages`")
    path.write_text(text[: text.index("| both")])
    assert check(checkout) != []


def test_a_record_that_no_page_prints_has_to_go(checkout: Path) -> None:
    records.write(checkout / "results/y.json", made())
    assert check(checkout) == ["bench/results/y.json: no page prints it; name it in bench/pages.toml, or remove it"]


def test_a_figure_without_a_record_is_said(checkout: Path) -> None:
    plan = replace(PLAN, subject=(Subject("S", "", (Figure("z", "both", "{a|b}"),)),))
    with pytest.raises(MavcgError, match="bench/results has no record z; measure it, or take it out"):
        pages(checkout, plan=plan).figures_lines()


@pytest.mark.parametrize("text", ["", f"{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_a_readme_without_its_marks_is_refused(checkout: Path, text: str) -> None:
    (checkout / "README.md").write_text(text)
    with pytest.raises(MavcgError, match=r"README\.md: needs the lines"):
        check(checkout)


@pytest.mark.long
def test_the_pages_of_the_repository_print_what_the_records_say_and_no_more() -> None:
    # "Today" is the day of the newest record: whether a figure has become old since, `make lint` says.
    day = max(record.date[:10] for record in map(records.read, RESULTS.glob("*.json")))
    said = faults(Pages(plan_of(), RESULTS, ROOT, datetime.date.fromisoformat(day)), ROOT)

    assert [line for line in said if "is old" not in line] == []
    assert len((ROOT / "docs/figures.md").read_text().splitlines()) <= 400


def test_a_number_of_the_page_is_in_a_table_or_names_no_result() -> None:
    plan = plan_of()
    texts = [plan.text, plan.headline_text, *(subject.text for subject in plan.subject)]
    kept = ("30 days", "200 commits", "30 of 100 kernels", "elow 1 ", "above 1 ", "over 5 %", "exynos9820", "A to D")
    for text in texts:
        for words in kept:
            text = text.replace(words, "")
        assert not re.search(r"\d", text), text


@pytest.mark.long
def test_every_figure_of_a_subject_is_there() -> None:
    pages = Pages(plan_of(), RESULTS, ROOT)
    figures = [figure for subject in pages.plan.subject for figure in subject.figures]

    assert [figure for figure in figures if ABSENT in pages.facts_of(figure)["value"]] == []


def test_what_a_machine_could_not_measure_is_said(checkout: Path) -> None:
    plan = replace(PLAN, subject=(Subject("S", "", (Figure("x", "both", "{a53|ms}, {a55|ms}"),)),))
    assert any("| both | not measured, 1.5 |" in line.text for line in pages(checkout, plan=plan).figures_lines())


def test_there_are_twelve_headline_figures_within_half_an_hour() -> None:
    found = plan_of().headline
    shares = {headline.bench: headline.seconds for headline in found}

    assert len({headline.name for headline in found}) == 12
    assert sum(shares.values()) <= 30 * 60
