"""The Python targets, one a module; each has PACKAGES, which Atheris instruments, run(data), and possibly mutate."""

from collections.abc import Callable
from pathlib import Path

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


def call_target(action: Callable[[], object]) -> None:
    """Call an action that may refuse its input. Raises: AssertionError where a refusal is not one line."""
    from mavcg.errors import MavcgError

    try:
        action()
    except MavcgError as error:
        message = str(error)
        assert message and "\n" not in message, f"not one line: {message!r}"  # escaped where it is printed
