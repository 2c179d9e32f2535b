"""Limit the expansion of an assembly file's repetitions before an assembler reads it."""

import re

from mavcg.errors import MavcgError

EXPANDED_LINES = 60_000  # of a whole file; hand-written ones have a few thousand
_OPENING = re.compile(r"\.(?P<word>macro|rept|irpc?|if\w*)\b\s*(?P<rest>.*)")
_CLOSING = re.compile(r"\.(?:endm|endr|endif)\b")


class TooLong(MavcgError):
    """Text that expands to more than EXPANDED_LINES."""


def check_repetitions(text: str, file: str) -> None:
    """Refuse a file whose repetitions, counts multiplied, would expand to more than EXPANDED_LINES.

    Counts that are expressions, and what stands in macros and conditions, are taken as one: whether they expand to too
    much is seen when they do.
    Raises: TooLong with the line of the repetition at which the bound is passed.
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


def too_long(location: str, what: str) -> TooLong:
    """Return the error for text that expands to too much; the caller raises it."""
    return TooLong(
        f"{location}: {what}, and files of up to {EXPANDED_LINES} expanded lines are taken; "
        "repeat less, or write a loop"
    )


def _count(word: str, rest: str) -> int:
    if word == "rept":
        try:
            return int(rest.split("/*")[0], 0)
        except ValueError:
            return 1
    if word == "irp":
        return max(1, rest.count(","))
    if word == "irpc":
        return max(1, len(rest.partition(",")[2].strip()))
    return 0
