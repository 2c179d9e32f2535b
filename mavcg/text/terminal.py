"""Print lines for people; names from files cannot move the cursor, set colours or begin lines."""

import sys

from mavcg.text.safe_text import printable


def say(message: str) -> None:
    """Print a message on stderr after mavcg's name; its further lines are indented."""
    text = printable(f"mavcg: {message}").replace("\n", "\n  ")
    print(text, file=sys.stderr, flush=True)


def show(text: str, to_stderr: bool = False) -> None:
    """Print text, which may have several lines, on stdout or stderr."""
    print(printable(text), file=sys.stderr if to_stderr else sys.stdout)


def one_line(message: str) -> str:
    """Return the message as a single line, for a line of a terminal that is rewritten."""
    return printable(message).replace("\n", " ").replace("\t", " ")
