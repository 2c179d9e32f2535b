"""Refuses assembly files whose repetitions expand to too many lines, before an assembler reads them."""

import re

from mavcg.errors import MavcgError

EXPANDED_LINES = 60_000  # limit for a file; hand-written files have a few thousand
_OPENING = re.compile(r"\.(?P<word>macro|rept|irpc?|if\w*)\b\s*(?P<rest>.*)")
_CLOSING = re.compile(r"\.(?:endm|endr|endif)\b")


class TooLong(MavcgError):
    """Raised for text that expands to more than EXPANDED_LINES lines."""


def check_repetitions(text: str, file: str) -> None:
    """Refuse a file whose repetitions, nested counts multiplied, expand to more than EXPANDED_LINES lines.

    Counts that are expressions count as 1, and lines in macros and conditions as 0; these are checked once expanded.
    Raises: TooLong with the line of the outermost repetition that exceeds the limit.
    """
    total = 0
    open_counts: list[tuple[int, int]] = []  # (count, line); 0: a macro or a condition
    for number, row in enumerate(text.splitlines(), 1):
        for statement in row.split("//")[0].split(";"):
            code = statement.strip().lower()
            if opened := _OPENING.match(code):
                open_counts.append((_count(opened["word"], opened["rest"]), number))
            elif _CLOSING.match(code):
                open_counts = open_counts[:-1]
            elif code and open_counts:
                product = 1
                for count, _ in open_counts:
                    product *= count
                total += product
                if total > EXPANDED_LINES:
                    first = next(line for count, line in open_counts if count)
                    raise too_long(f"{file}:{first}:1", f"expands to {total} lines or more")


def too_long(location: str, fault: str) -> TooLong:
    """Return the error for text that expands to too many lines; the caller raises it."""
    return TooLong(
        f"{location}: {fault}, and files of up to {EXPANDED_LINES} expanded lines are taken; "
        "repeat less, or write a loop"
    )


def _count(word: str, arguments: str) -> int:
    """Return the count of a repetition, 1 if it is an expression, and 0 for a macro or condition."""
    if word == "rept":
        try:
            return int(arguments.split("/*")[0], 0)
        except ValueError:
            return 1
    if word == "irp":
        return max(1, arguments.count(","))
    if word == "irpc":
        return max(1, len(arguments.partition(",")[2].strip()))
    return 0
