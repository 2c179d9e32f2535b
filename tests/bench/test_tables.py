"""Tables put into a document: sections that have their titles, and nothing else."""

import json
import re
from pathlib import Path

import pytest

from bench import tables
from bench.peer_rows import geometric_mean
from bench.record import RESULTS, ROOT
from bench.selection_tables import STRICT_CHECK_SINCE

README = (ROOT / "README.md").read_text()
WHAT_WORKS = (ROOT / "docs" / "what-works.md").read_text()
TEXT = "# Title\n\n### One\n\nold\n\n## Other\n\n### One more\n\nkept\n\n### Two\n\nold\n"


def test_sections_are_replaced_up_to_the_next_heading() -> None:
    text = tables.updated(TEXT, {"One": "### One\n\nnew\n", "Two": "### Two\n\nnewer\n"})
    assert text == "# Title\n\n### One\n\nnew\n\n## Other\n\n### One more\n\nkept\n\n### Two\n\nnewer\n\n"


def test_a_section_that_is_not_there_is_said() -> None:
    with pytest.raises(KeyError, match="Three"):
        tables.updated(TEXT, {"Three": "### Three\n"})


def test_a_file_is_updated_from_the_records(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Page\n\n### Code growth of six ARM clones\n\nout of date\n\n## End\n")
    tables.main(["--update", str(path)])
    text = path.read_text()
    record = json.loads((RESULTS / "growth.json").read_text())
    assert text.startswith("# Page\n\n### Code growth of six ARM clones\n\nCounted: ") and text.endswith("\n\n## End\n")
    assert record["date"] in text and "out of date" not in text
    assert [p.name for p in tmp_path.iterdir()] == ["page.md"]


@pytest.mark.parametrize(
    ("name", "brief"), [*((name, False) for name in tables.TABLES), *((name, True) for name in tables.BRIEF)]
)
def test_each_record_is_on_one_page_as_it_is(name: str, brief: bool) -> None:
    all_of, path = tables.BRIEF if brief else tables.TABLES, RESULTS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"{path.name} is made by hand, and is not there")
    title, _ = all_of[name]
    made = tables.section(name, json.loads(path.read_text()), all_of)
    pages = {page.name: page.read_text() for page in tables.PAGES}
    assert len([page for page, text in pages.items() if f"### {title}\n" in text]) == 1, f"{title}: not on one page"
    assert any(made in text for text in pages.values()), f"{title}: the page is older than the record"


def test_every_record_has_a_table() -> None:
    records = {path.stem for path in RESULTS.glob("*.json")}
    # What docs/planning.md prints as the papers have it.
    assert records - set(tables.TABLES) == {"plan_networks", "plan_tables", "plan_baselines"}


def test_a_page_says_how_many_primitives_the_present_check_saw() -> None:
    rows = json.loads((RESULTS / "primitive_scenarios.json").read_text())["by_primitive"]
    strict = sum(row.get("date", "") >= STRICT_CHECK_SINCE for row in rows)
    page = WHAT_WORKS.replace("\n", " ")
    words = re.search(
        r"8 bits\. (\d+) of them were checked on 200 generated scenarios each \((\d+) by the present", page
    )

    assert words is not None and (int(words[1]), int(words[2])) == (len(rows), strict)


def test_the_readme_states_the_means_and_the_losses_of_the_record() -> None:
    rows = json.loads((RESULTS / "peers.json").read_text())["rows"]
    one, two = (geometric_mean([row for row in rows if row["threads"] == threads]) for threads in (1, 2))
    losses = sorted(row["ratio"] for row in rows if row.get("ratio") is not None and row["ratio"] >= 1.005)
    stated = " ".join(README.split())

    assert f"{one:.2f} of the fastest one's time in geometric mean over ten networks" in stated
    assert f"with one thread, {two:.2f} with two" in stated
    assert all(f"({ratio:.2f})" in stated for ratio in losses), losses


def test_the_readme_calls_an_old_figure_old_and_gives_its_date() -> None:
    record = json.loads((RESULTS / "peers.json").read_text())
    text = " ".join(README.split("## How it compares")[1].split("## Documentation")[0].split())

    assert record["date"].split()[0] in text
    assert ("these figures are old" in text) == record.get("old", False)
