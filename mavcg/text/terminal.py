"""Print lines for people; names from files cannot move the cursor, set colours or begin lines."""

import sys

from mavcg.errors import MavcgError, ToolError
from mavcg.text.safe_text import printable, printable_line


def say(message: str) -> None:
    """Print a line on stderr after mavcg's name; a line end in a name is shown as \\n."""
    _tell(printable_line(f"mavcg: {message}"))


def say_lines(text: str) -> None:
    """Print a text that mavcg has composed on stderr, as shown_lines has it."""
    _tell(shown_lines(text))


def shown_lines(text: str) -> str:
    """Return a text that mavcg has composed after mavcg's name; its further lines are indented."""
    return printable(f"mavcg: {text}").replace("\n", "\n  ")


def _tell(text: str) -> None:
    """Print a text on stderr. Nothing is done if the disk behind it is full: the exit status stays what it is."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass


def say_error(error: MavcgError, before: str = "") -> None:
    """Print an error on stderr, in one line; only the messages of compilers keep their lines, which are indented."""
    if isinstance(error, ToolError):
        say_lines(f"{before}{error}")
    else:
        say(f"{before}{error}")


def show_line(text: str) -> None:
    """Print a line on stdout; a line end in a name is shown as \\n."""
    print(printable_line(text))


def show(text: str, to_stderr: bool = False) -> None:
    """Print a text of several lines that mavcg has composed, on stdout or stderr."""
    print(printable(text), file=sys.stderr if to_stderr else sys.stdout)


def one_line(message: str) -> str:
    """Return the message as a single line, for a line of a terminal that is rewritten."""
    return printable(message).replace("\n", " ").replace("\t", " ")
