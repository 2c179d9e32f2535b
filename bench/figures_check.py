"""Check the figures of README.md and docs/figures.md against the records: `python -m bench.figures_check`.

Every line has to be what the records say (`python -m bench.pages` writes it so). A figure of a record that is old, by
its date and its commit (bench/age.py), has to stand with the word "old"; one that is not may. The pages are written by
the rule itself and checked with some grace: the commits that follow `bench.pages` do not make them wrong at once. A
record that no page prints has to go. Exit status 1 where something is wrong, 2 where a record cannot be read.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from bench.age import GRACE
from bench.pages import OLD, Line, Pages, plan_of, readme_block
from bench.records import RESULTS, ROOT
from mavcg.errors import MavcgError


def faults(pages: Pages, root: Path) -> Iterator[str]:
    """Yield one line for each fault of the pages of a checkout."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    begin, end = readme_block(readme)
    first = readme[:begin].count("\n") + 2  # an empty line stands after the mark
    yield from _page_faults("README.md", readme[begin:end].strip("\n").split("\n"), pages.readme_lines(), first)
    page = (root / "docs/figures.md").read_text(encoding="utf-8")
    yield from _page_faults("docs/figures.md", page.rstrip("\n").split("\n"), pages.figures_lines(), 1)
    for name in pages.unprinted():
        yield f"bench/results/{name}.json: no page prints it; name it in bench/pages.toml, or remove it"


def _page_faults(page: str, found: Sequence[str], expected: Sequence[Line], first: int) -> Iterator[str]:
    for number, (have, want) in enumerate(zip_longest(found, expected), first):
        where = f"{page}:{number}"
        if want is None:
            yield f"{where}: this line is of no record; run `python -m bench.pages`"
            return
        if have == want.text:
            continue
        source = f"record {want.record}" if want.record else "bench/pages.toml"
        if have is None or _fresh(have) != _fresh(want.text):
            yield f"{where}: is not what {source} says; run `python -m bench.pages`"
            if want.record is None:  # the lines that follow would all be said to be wrong
                return
        elif OLD in want.text:
            yield f'{where}: {source} is old, and the word "old" is not there; run `python -m bench.pages`'


def _fresh(line: str) -> str:
    return line.replace(OLD, "", 1)


def main() -> int:
    """Run the check; returns the exit status."""
    try:
        found = list(faults(Pages(plan_of(), RESULTS, ROOT, grace=GRACE), ROOT))
    except MavcgError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    for fault in found:
        print(f"figures: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
