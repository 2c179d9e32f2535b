"""The pictures of the pages are those that scripts/draw_pictures.py draws, and each is shown by a page."""

from pathlib import Path

import pytest

from scripts.draw_pictures import FOLDER, drawings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/design/*.md")]


@pytest.mark.parametrize("name", sorted(drawings()))
def test_a_picture_is_up_to_date_and_shown(name: str) -> None:
    assert (FOLDER / name).read_text() == drawings()[name], "run `python -m scripts.draw_pictures`"
    assert any(f"pictures/{name}" in page.read_text() for page in PAGES), f"no page shows {name}"


def test_every_file_is_drawn() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(drawings())
