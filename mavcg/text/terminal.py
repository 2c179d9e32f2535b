"""Prints lines for people: names that come from files move no cursor, set no colour and begin no line of their own."""

import sys

from mavcg.text.safe_text import printable


def say(message: str) -> None:
    """Print a line on stderr, mavcg's name before it; what follows a line's end in the message is indented."""
    text = printable(f"mavcg: {message}").replace("\n", "\n  ")
    print(text, file=sys.stderr, flush=True)


def show(text: str, to_stderr: bool = False) -> None:
    """Print text of several lines, on stdout or stderr."""
    print(printable(text), file=sys.stderr if to_stderr else sys.stdout)


def one_line(message: str) -> str:
    """Return the message for a line of a terminal that is rewritten again and again."""
    return printable(message).replace("\n", " ").replace("\t", " ")
