"""Pages against the tables that they repeat: operators listed and not there, or there and not listed; links."""

import re
from pathlib import Path

import pytest

from mavcg.importers.operators import operators_page

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "ARCHITECTURE.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
OPERATORS = (ROOT / "docs" / "operators.md").read_text()


def test_operators_of_the_formats() -> None:
    """The section is what `mavcg build --operators` prints."""
    assert operators_page() in OPERATORS


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^ {4}.*$", "", (ROOT / page).read_text(), flags=re.MULTILINE)  # brackets in code are no links
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [t for t in targets if t and "://" not in t and not (ROOT / page).parent.joinpath(t).exists()]

    assert missing == []


def test_the_index_of_the_documentation_has_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}

    assert pages - listed == set()


def is_prose(line: str) -> bool:
    """False for rows of tables, code, and lines that cannot be broken."""
    return not line.startswith(("|", "    ", "[", "!", "`")) and len(line.split()) > 1


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_no_longer_than_an_editor_is_wide(page: str) -> None:
    outside_code = (ROOT / page).read_text().split("```")[::2]
    long_lines = [line for part in outside_code for line in part.split("\n") if len(line) > 120 and is_prose(line)]

    assert long_lines == []
