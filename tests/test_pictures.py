"""The pictures of the pages are those that scripts/draw_pictures.py draws, and each is shown by a page."""

from pathlib import Path

import pytest

from scripts.draw_pictures import FOLDER, drawings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/design/*.md")]
# Of rows that only the machine that measured them has; the first by matplotlib, whose versions differ in their text.
DRAWN_BY_BENCHES = {
    "gemm_share.svg": "paper_networks",
    "exploring_boards.svg": "accelerators.explore_boards",
    "gpu.svg": "accelerators.gpu",
}


@pytest.mark.parametrize("name", sorted(drawings()))
def test_a_picture_is_up_to_date_and_shown(name: str) -> None:
    assert (FOLDER / name).read_text() == drawings()[name](), "run `python -m scripts.draw_pictures`"
    assert any(f"pictures/{name}" in page.read_text() for page in PAGES), f"no page shows {name}"


def test_every_file_is_drawn() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*drawings(), *DRAWN_BY_BENCHES}


@pytest.mark.parametrize(("name", "bench"), DRAWN_BY_BENCHES.items())
def test_a_picture_of_a_record_is_shown_with_the_command_that_draws_it(name: str, bench: str) -> None:
    pages = [page.read_text() for page in PAGES]
    assert any(f"pictures/{name}" in text and f"bench.{bench}" in text for text in pages)
    assert (ROOT / f"bench/results/{bench.rpartition('.')[2]}.json").is_file()
