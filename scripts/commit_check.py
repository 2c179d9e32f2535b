"""Print commits that a reviewer cannot read in one sitting; `make lint` runs it, as a warning and never as a failure.

More than 1,500 changed lines are for moves, formatting and generated files alone, and more than 300 need a body. Lines
of renamed files count as far as they changed; those of GENERATED do not count.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST = 60  # commits that are looked at
MOST_LINES, MOST_WITHOUT_BODY = 1500, 300
GENERATED = ("bench/results/", "tests/golden/", "docs/pictures/", "docs/figures.md", "runtime/declared.py")
_COMMIT = re.compile(r"^commit\0(\w+)\0([^\0]*)\0(.*?)\0\n?(.*)$", re.DOTALL)


def warnings(root: Path, count: int = LAST) -> Iterator[str]:
    """Yield a sentence for each of the last `count` commits, without merges, that is too large or lacks a body."""
    form = "%x01commit%x00%h%x00%s%x00%b%x00"
    command = ["git", "-C", str(root), "log", f"-{count}", "--no-merges", "-M", "--numstat", f"--format={form}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for text in done.stdout.split("\x01")[1:]:
        found = _COMMIT.match(text)
        if found is None:
            continue
        digest, subject, body, numbers = found.groups()
        lines = _changed_lines(numbers)
        if lines > MOST_LINES:
            yield f"{digest} changes {lines} lines, and is not of moves or generated files alone: {subject}"
        elif lines > MOST_WITHOUT_BODY and not body.strip():
            yield f"{digest} changes {lines} lines and gives no reason: {subject}"


def _changed_lines(numbers: str) -> int:
    """Return the sum of added and removed lines, the larger of both for each file, in the output of --numstat."""
    rows = (line.split("\t") for line in numbers.splitlines() if line.count("\t") == 2)
    return sum(
        max(int(added), int(removed))
        for added, removed, path in rows
        if added.isdigit() and not path.startswith(GENERATED)
    )


def main() -> None:
    """Print the warnings."""
    for sentence in warnings(ROOT):
        print(f"commits: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    main()
